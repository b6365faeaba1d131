"""Undersample: fit the preprocessing on the training rows of a split and let the sampler choose among them.

A test row is never seen here: only ``split.train`` is read. Samplers that make rows have their place here too: what
they make follows the rows kept to the solver, and nowhere else.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.utils import get_tags

from aucsolvers.process import one_blas_thread
from aucsolvers.threshold import choice_stands
from aucsolvers.undersampling import RATIO_OF_U2
from tasks import catalogue
from tasks.catalogue import Entry
from tasks.configuration import MethodConfig, PreprocessingConfig
from tasks.convert import load
from tasks.preprocess import make_preprocessing, transform
from tasks.progress import announce
from tasks.seeds import seed_for
from tasks.split import row_keys
from tasks.stage import stage
from tasks.values import Choice, Dataset, MadeRows, Sample, Split, Table, n_rare


class Drawn(NamedTuple):
    """What a sampler made of some rows: positions kept, ascending, and new rows where it makes any."""

    kept: np.ndarray
    scheme: str
    added: MadeRows | None = None


def draw_sample(
    table: Table, split: Split, method: MethodConfig, preprocessing: PreprocessingConfig, seed: int
) -> Sample:
    """Return the training rows that the sampler keeps, and the preprocessing fitted on all training rows."""
    train = table.rows(split.train)
    fitted = make_preprocessing(train.X, preprocessing, takes_sparse(method)).fit(train.X)
    sampler = catalogue.sampler(method.sampler)
    if sampler is None:
        drawn = Drawn(np.arange(len(train.y)), method.sampler)
    else:
        drawn = _draw(sampler, transform(fitted, train.X), train.y, method, seed)
    y = train.y[drawn.kept]
    return Sample(
        fold=split.fold,
        rows=split.train[drawn.kept],
        n_pos=int((y > 0).sum()),
        n_neg=int((y < 0).sum()),
        n_neg_before=int((train.y < 0).sum()),
        scheme=drawn.scheme,
        preprocessing=fitted,
        added=drawn.added,
        n_pos_before=int((train.y > 0).sum()),
    )


def takes_sparse(method: MethodConfig) -> bool:
    """Return whether sampler and solver of a method take sparse rows."""
    sampler, solver = catalogue.sampler(method.sampler), catalogue.solver(method.solver)
    chain = [solver.build(**method.params), *([sampler.build(**method.sampler_settings)] if sampler else [])]
    return all(get_tags(one).input_tags.sparse for one in chain)


def remainder(
    table: Table, part: Split, sample: Sample, method: MethodConfig, preprocessing: PreprocessingConfig
) -> Sample | None:
    """Return a sample's rows in a part of its split's training rows, with preprocessing fitted on that part.

    None where this is no sample: rows were made, possibly from others, or a class has none left.
    """
    rows = sample.rows[np.isin(sample.rows, part.train)]
    n_pos = int((table.y[rows] > 0).sum())
    if sample.added is not None or not 0 < n_pos < len(rows):
        return None
    train = table.rows(part.train)
    return replace(
        sample,
        fold=part.fold,
        rows=rows,
        n_pos=n_pos,
        n_neg=len(rows) - n_pos,
        n_neg_before=int((train.y < 0).sum()),
        preprocessing=make_preprocessing(train.X, preprocessing, takes_sparse(method)).fit(train.X),
        n_pos_before=int((train.y > 0).sum()),
    )


def sampler_stands(method: MethodConfig) -> bool:
    """Return whether the choice of the method's sampler, if it has one, stands when rows are left out."""
    entry = catalogue.sampler(method.sampler)
    return entry is None or choice_stands(entry.build(**method.sampler_settings))


def refuse_to_sample(method: MethodConfig, y: np.ndarray) -> None:
    """Raise the ValueError of a sampler that would need too much memory for so many rows, before it is asked."""
    entry = catalogue.sampler(method.sampler)
    sampler: Any = entry and entry.build(**method.sampler_settings)
    if hasattr(sampler, "check_size"):
        sampler.check_size(y)


def _draw(entry: Entry, X: np.ndarray | csr_matrix, y: np.ndarray, method: MethodConfig, seed: int) -> Drawn:
    """Run the method's sampler and return what it kept and added; ``auto`` decides by the ratio."""
    sampler = entry.build_seeded(seed, **method.sampler_settings)
    _fit_neighbours(sampler, y, method)
    # of two equally large classes our samplers spare the one that sorts first: the positive one, then
    sign = -1 if entry.is_ours and 2 * np.count_nonzero(y > 0) == len(y) and not _names_labels(sampler) else 1
    X_out, y_out = _resampled(entry, sampler, X, sign * y, method)
    y_out = sign * y_out
    _refuse_lost_class(y_out, method.sampler)
    scheme = getattr(sampler, "scheme_", catalogue.short_name(method.sampler))
    if hasattr(sampler, "sample_indices_"):
        kept, first = np.unique(sampler.sample_indices_, return_index=True)
        added = np.setdiff1d(np.arange(len(y_out)), first)
    else:
        origin = origins(X, y, X_out, y_out)
        kept, added = np.sort(origin[origin >= 0]), np.flatnonzero(origin < 0)
    if len(added) == 0:
        return Drawn(kept, scheme)
    return Drawn(kept, scheme, MadeRows(X_out[added], y_out[added]))


def _resampled(entry: Entry, sampler: Any, X: Any, y: np.ndarray, method: MethodConfig) -> tuple[Any, np.ndarray]:
    """Return what the sampler makes of the rows; that of another library says in its error of which it was."""
    try:
        return sampler.fit_resample(X, y)
    except (ValueError, RuntimeError) as error:
        if entry.is_ours and str(error).startswith("Expected"):  # in words of our own
            raise
        raise ValueError(f"sampler '{method.sampler}' on {counted(y)}: {error}") from error


def counted(y: np.ndarray) -> str:
    """Return how many training rows there are, in words."""
    return f"{len(y)} training rows, {n_rare(y)} of the rarer class"


def _fit_neighbours(sampler: Any, y: np.ndarray, method: MethodConfig) -> None:
    """Let a sampler that asks for neighbours in the rarer class take as many as it has, unless the config says.

    SMOTE and its kind make rows between a row and its neighbours, which are others; NearMiss counts from rows of the
    other class. Those that clean up look among all rows.
    """
    given, kind = sampler.get_params(deep=False), getattr(sampler, "_sampling_type", "")
    if given.get("smote", sampler) is None:  # a SMOTE before a cleaning, with as many neighbours as it is used to
        from imblearn.over_sampling import SMOTE  # here, where its package is loaded already

        smote = SMOTE(sampling_strategy=given["sampling_strategy"], random_state=given["random_state"])
        sampler.set_params(smote=smote)
        return _fit_neighbours(smote, y, method)
    name = next((name for name in ("k_neighbors", "n_neighbors") if isinstance(given.get(name), int)), None)
    if name is None or kind == "clean-sampling":
        return None
    rare, others = n_rare(y), kind != "under-sampling"
    if rare < 1 + others:
        raise ValueError(
            f"Expected two rows of either class for sampler '{method.sampler}', which makes rows between neighbours, "
            f"got one among the {len(y)} of a fold. Take fewer folds, or sampler random or mwmote."
        )
    if name not in method.sampler_settings:
        sampler.set_params(**{name: min(given[name], rare - others)})
    return None


def _names_labels(sampler: Any) -> bool:
    return not isinstance(sampler.get_params().get("sampling_strategy"), str | float | None)


def _refuse_lost_class(y: np.ndarray, sampler: str) -> None:
    if len(np.unique(y)) < 2:
        raise ValueError(
            f"Expected rows of both classes after sampler '{sampler}', got one class. Change its sampler_params."
        )


def origins(X: Any, y: np.ndarray, X_out: Any, y_out: np.ndarray) -> np.ndarray:
    """Return each output row's position among the input rows, -1 for a row that is none of them.

    Some samplers do not tell. The k-th copy of equal rows with equal labels is taken for the k-th in the input.
    """
    before, after = _occurrences(X, y), _occurrences(X_out, y_out)
    before["position"] = np.arange(len(y))
    found = after.merge(before, on=["key", "label", "copy"], how="left", validate="one_to_one")["position"]
    return found.fillna(-1).to_numpy(dtype=np.int64)


def _occurrences(X: Any, y: np.ndarray) -> pd.DataFrame:
    keys = row_keys(X.tocsr() if hasattr(X, "tocsr") else pd.DataFrame(X))
    frame = pd.DataFrame({"key": keys, "label": y.astype(np.int64)})
    return frame.assign(copy=frame.groupby(["key", "label"]).cumcount())


def settle_sampler(method: MethodConfig, dataset: Dataset) -> MethodConfig:
    """Return the method with ``auto`` decided by the whole data set's ratio.

    Decided fold by fold, a ratio near the threshold would mix two schemes in one experiment.
    """
    if method.sampler != "auto":
        return method
    ratio = dataset.imbalance_ratio
    scheme = "u1" if max(ratio, 1.0 / ratio) < RATIO_OF_U2 else "u2"  # whichever class is the rarer one
    return method.model_copy(update={"sampler": scheme, "name": method.label})


@stage(name="undersample", task_run_name="undersample {dataset.name} {method.label}")
def undersample(
    dataset: Dataset,
    splits: tuple[Split, ...],
    choices: tuple[Choice, ...],
    method: MethodConfig,
    preprocessing: PreprocessingConfig,
    seed: int,
) -> tuple[Sample, ...]:
    """Draw one sample per split, of rows scaled as was chosen for it."""
    table = load(dataset)
    samples = []
    with one_blas_thread():
        for split, choice in zip(splits, choices, strict=True):
            announce("undersample", dataset.name, method.label, split.fold)
            settled = preprocessing.settled(choice.chosen.get("scale"))
            samples.append(draw_sample(table, split, method, settled, seed_for(seed, "sample", split.fold)))
    return tuple(samples)
