"""Undersample: fit the preprocessing on the training rows of a split and let the sampler choose among them.

A test row is never seen here: only ``split.train`` is read. Samplers that make rows have their place here too: what
they make follows the rows kept to the solver, and nowhere else.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import get_tags

from aucsolvers.columns import without_zeros
from aucsolvers.process import one_blas_thread
from aucsolvers.threshold import choice_stands
from aucsolvers.undersampling import RATIO_OF_U2
from tasks import catalogue
from tasks.catalogue import Entry
from tasks.configuration import MethodConfig, PreprocessingConfig
from tasks.convert import load
from tasks.errors import in_short
from tasks.preprocess import make_preprocessing, one_hot_blocks, transform
from tasks.progress import announce
from tasks.seeds import seed_for
from tasks.split import row_keys
from tasks.stage import stage
from tasks.values import Choice, Dataset, MadeRows, Sample, Split, Table, n_rare

SPARE_INPUT = ("aucsolvers", "imblearn.")  # whose samplers leave what they are given as it is


class Drawn(NamedTuple):
    """What a sampler made of some rows: positions kept, ascending, and new rows where it makes any."""

    kept: np.ndarray
    scheme: str
    added: MadeRows | None = None


class Resampled(NamedTuple):
    """What a sampler returned, in the form in which it was given rows and labels."""

    X: np.ndarray | csr_matrix
    y: np.ndarray
    dtype: np.dtype[Any]  # of the rows before that


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
        drawn = _draw(sampler, transform(fitted, train.X), train.y, method, seed, one_hot_blocks(fitted))
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


def _draw(
    entry: Entry,
    X: np.ndarray | csr_matrix,
    y: np.ndarray,
    method: MethodConfig,
    seed: int,
    blocks: tuple[tuple[int, int], ...],
) -> Drawn:
    """Run the method's sampler and return what it kept and added; ``auto`` decides by the ratio.

    ``blocks`` are the one-hot columns of each text, for a sampler that asks for them.
    """
    told = {"blocks": blocks} if entry.is_ours and "blocks" in entry.parameter_names() else {}
    sampler = entry.build_seeded(seed, **told | method.sampler_settings)
    _fit_neighbours(sampler, y, method)
    # of two equally large classes our samplers spare the one that sorts first: the positive one, then
    sign = -1 if entry.is_ours and 2 * np.count_nonzero(y > 0) == len(y) and not _names_labels(sampler) else 1
    out = _resampled(entry, sampler, X, sign * y, method)
    out = out._replace(y=sign * out.y)
    _refuse_lost_class(out.y, method.sampler)
    kept, added = _told(entry, sampler, X, y, out) or _found(X, y, out)
    scheme = getattr(sampler, "scheme_", catalogue.short_name(method.sampler))
    if len(added) == 0:
        return Drawn(kept, scheme)
    return Drawn(kept, scheme, MadeRows(out.X[added], out.y[added]))


def _resampled(entry: Entry, sampler: Any, X: Any, y: np.ndarray, method: MethodConfig) -> Resampled:
    """Return what the sampler makes of the rows; that of another library says in its error of which it was."""
    given = (X, y) if entry.path.startswith(SPARE_INPUT) else (X.copy(), y.copy())
    try:
        out = sampler.fit_resample(*given)
    except (ValueError, RuntimeError) as error:
        if entry.is_ours and str(error).startswith("Expected"):  # in words of our own
            raise
        raise ValueError(f"sampler '{method.sampler}' on {counted(y)}: {error}") from error
    return Resampled(out[0], out[1], out[0].dtype) if entry.is_ours else _like_given(out, X, y, method.sampler)


def _like_given(out: Any, X: Any, y: np.ndarray, sampler: str) -> Resampled:
    """Return what another library's sampler returned as rows and labels were given, or raise the ValueError."""
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise _unlike(sampler, "rows and labels", f"a {type(out).__name__}")
    try:
        rows = out[0] if issparse(out[0]) else np.asarray(out[0])
        numbers: Any = csr_matrix(rows, dtype=np.float64) if issparse(rows) else rows.astype(np.float64, copy=False)
        labels = np.asarray(out[1]).reshape(-1)
    except (TypeError, ValueError) as error:  # texts, or rows of several lengths
        raise _unlike(sampler, "rows of numbers and labels", in_short(error).rstrip(".")) from error
    _refuse_unlike(numbers, labels, X.shape[1], sampler)
    if issparse(X) != issparse(numbers):
        numbers = csr_matrix(numbers) if issparse(X) else numbers.toarray()
    return Resampled(numbers, labels.astype(y.dtype), rows.dtype)


def _refuse_unlike(X: Any, y: np.ndarray, n_columns: int, sampler: str) -> None:
    if X.ndim != 2 or X.shape[1] != n_columns:
        raise _unlike(sampler, f"rows of {n_columns} columns, as it is given", f"shape {X.shape}")
    if X.shape[0] != len(y):
        raise _unlike(sampler, "a label for each row", f"{X.shape[0]} rows and {len(y)} labels")
    if not np.isin(y, (-1, 1)).all():
        got = " and ".join(map(repr, pd.unique(y)[:3].tolist()))
        raise _unlike(sampler, "labels -1 and 1, as it is given", got)
    if not np.isfinite(X.data if issparse(X) else X).all():
        raise _unlike(sampler, "finite numbers", "NaN or infinity")


def _unlike(sampler: str, expected: str, got: str) -> ValueError:
    return ValueError(
        f"Expected fit_resample of sampler '{sampler}' to return {expected}, got {got}. Wrap it in a class that does."
    )


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
            f"got one among the {len(y)} of a division. Take sampler random or mwmote, or raise folds and inner_folds, "
            "for more rows to fit to. Inner divisions can be done without: `validation: {threshold: training}`, "
            f"{'no probabilities, ' if method.probabilities else ''}and one value of each parameter."
        )
    if name not in method.sampler_settings:
        sampler.set_params(**{name: min(given[name], rare - others)})
    return None


def _names_labels(sampler: Any) -> bool:
    return not isinstance(sampler.get_params().get("sampling_strategy"), str | float | None)


def _refuse_lost_class(y: np.ndarray, sampler: str) -> None:
    if len(np.unique(y)) < 2:
        got = "one class" if len(y) else "no rows"
        raise ValueError(
            f"Expected rows of both classes after sampler '{sampler}', got {got}. Change its sampler_params."
        )


def _told(entry: Entry, sampler: Any, X: Any, y: np.ndarray, out: Resampled) -> tuple[np.ndarray, np.ndarray] | None:
    """Return which rows the sampler says that it kept, ascending, and the places of all others in its output.

    None where it does not say, or where it is another library's and what it says is not so.
    """
    if not hasattr(sampler, "sample_indices_"):
        return None
    indices = np.asarray(sampler.sample_indices_)
    if not (entry.is_ours or (_are_positions(indices, len(y), len(out.y)) and _are_true(indices, X, y, out))):
        return None
    kept, first = np.unique(indices, return_index=True)
    return kept, np.setdiff1d(np.arange(len(out.y)), first)


def _are_positions(indices: np.ndarray, n_before: int, n_after: int) -> bool:
    """Return whether these may be the positions of input rows in an output of so many rows; a mask is none."""
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not 0 < len(indices) <= n_after:
        return False
    return bool(indices.min() >= 0 and indices.max() < n_before)


def _are_true(indices: np.ndarray, X: Any, y: np.ndarray, out: Resampled) -> bool:
    """Return whether rows and labels are what they were where each position stands first: copies may be shaken."""
    kept, first = np.unique(indices, return_index=True)
    before, after = _rounded(X[kept], out.dtype), out.X[first]
    same = (before != after).nnz == 0 if issparse(before) else np.array_equal(before, after)
    return same and np.array_equal(y[kept], out.y[first])


def _rounded(X: Any, dtype: np.dtype[Any]) -> Any:
    """Return rows as they are after a sampler that computes in fewer digits; of whole numbers rounding is a change."""
    return X.astype(dtype).astype(np.float64) if dtype.kind == "f" and dtype.itemsize < X.dtype.itemsize else X


def _found(X: Any, y: np.ndarray, out: Resampled) -> tuple[np.ndarray, np.ndarray]:
    """Return which input rows are in a sampler's output, ascending, and the places there of all others."""
    origin = origins(_rounded(X, out.dtype), y, out.X, out.y)
    return np.sort(origin[origin >= 0]), np.flatnonzero(origin < 0)


def origins(X: Any, y: np.ndarray, X_out: Any, y_out: np.ndarray) -> np.ndarray:
    """Return each output row's position among the input rows, -1 for a row that is none of them.

    Some samplers do not tell. The k-th copy of equal rows with equal labels is taken for the k-th in the input.
    """
    before, after = _occurrences(X, y), _occurrences(X_out, y_out)
    before["position"] = np.arange(len(y))
    found = after.merge(before, on=["key", "label", "copy"], how="left", validate="one_to_one")["position"]
    return found.fillna(-1).to_numpy(dtype=np.int64)


def _occurrences(X: Any, y: np.ndarray) -> pd.DataFrame:
    keys = row_keys(without_zeros(X) if issparse(X) else pd.DataFrame(X + 0.0))  # which makes 0 of -0
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
