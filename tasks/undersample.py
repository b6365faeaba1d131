"""Undersample: fit the preprocessing on the training rows of a split and let the sampler choose among them.

A test row is never seen here: only ``split.train`` is read.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from aucsolvers.undersampling import RATIO_OF_U2
from tasks import catalogue
from tasks.configuration import MethodConfig, PreprocessingConfig
from tasks.convert import load
from tasks.preprocess import make_preprocessing, transform
from tasks.progress import announce
from tasks.seeds import seed_for
from tasks.stage import stage
from tasks.values import Dataset, Sample, Split, Table


def draw_sample(
    table: Table, split: Split, method: MethodConfig, preprocessing: PreprocessingConfig, seed: int
) -> Sample:
    """Return the training rows that the sampler keeps, and the preprocessing fitted on all training rows."""
    train = table.rows(split.train)
    fitted = make_preprocessing(train.X, preprocessing).fit(train.X)
    kept, scheme = _kept(transform(fitted, train.X), train.y, method, seed)
    rows, y = split.train[kept], train.y[kept]
    return Sample(
        fold=split.fold,
        rows=rows,
        n_pos=int((y > 0).sum()),
        n_neg=int((y < 0).sum()),
        n_neg_before=int((train.y < 0).sum()),
        scheme=scheme,
        preprocessing=fitted,
    )


def _kept(X: np.ndarray, y: np.ndarray, method: MethodConfig, seed: int) -> tuple[np.ndarray, str]:
    """Return the kept rows, ascending, and the scheme that chose them: ``auto`` decides by the ratio."""
    entry = catalogue.sampler(method.sampler)
    if entry is None:
        return np.arange(len(y)), method.sampler
    sampler = entry.build(random_state=seed, **method.sampler_params)
    sampler.fit_resample(X, -y)  # of two equally large classes the sampler spares the one that sorts first: ours, then
    return np.sort(sampler.sample_indices_), sampler.scheme_


def settle_sampler(method: MethodConfig, dataset: Dataset) -> MethodConfig:
    """Return the method with ``auto`` decided by the whole data set's ratio.

    Decided fold by fold, a ratio near the threshold would mix two schemes in one experiment.
    """
    if method.sampler != "auto":
        return method
    scheme = "u1" if dataset.imbalance_ratio < RATIO_OF_U2 else "u2"
    return method.model_copy(update={"sampler": scheme, "name": method.label})


@stage(name="undersample", task_run_name="undersample {dataset.name} {method.label}")
def undersample(
    dataset: Dataset, splits: tuple[Split, ...], method: MethodConfig, preprocessing: PreprocessingConfig, seed: int
) -> tuple[Sample, ...]:
    """Draw one sample per split."""
    table = load(dataset)
    samples = []
    with threadpool_limits(1):
        for split in splits:
            announce("undersample", dataset.name, method.label, split.fold)
            samples.append(draw_sample(table, split, method, preprocessing, seed_for(seed, "sample", split.fold)))
    return tuple(samples)
