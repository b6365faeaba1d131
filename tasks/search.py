"""Search: the parameters of solver, kernel and scaling, chosen by cross-validation inside the training rows.

It comes before the sampler, which sees scaled rows. The inner folds repeat the whole chain (preprocessing, sampler,
kernel, solver) inside their own training part, and share of it what does not depend on a candidate: preprocessing and
sample of each scale, a kernel's features of each γ.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from aucsolvers._transaction import hand_on_interrupt
from aucsolvers.adapters import scores_by_probability
from aucsolvers.metrics import auc, best_gmean_threshold, check_finite, gmean, smoothed_gmean_threshold, tie_width
from aucsolvers.threshold import standardised
from tasks import catalogue
from tasks.catalogue import GAMMA_FACTOR, MEAN, SD, VALUE, parameter_columns
from tasks.configuration import ExperimentConfig, MethodConfig, PreprocessingConfig, is_number
from tasks.convert import load
from tasks.errors import BadInput
from tasks.fit import build_kernel, build_solver, fit_solver, fitting_rows, refuse_too_large
from tasks.log import run_logger
from tasks.preprocess import make_preprocessing, transform
from tasks.progress import announce
from tasks.seeds import seed_for
from tasks.split import kept_together, make_splits, span_splits
from tasks.stage import stage
from tasks.stopwatch import Stopwatch
from tasks.threads import each
from tasks.undersample import draw_sample, refuse_to_sample, takes_sparse
from tasks.values import Choice, Dataset, Split, Table, n_rare

SMALL_REGULARISES = ("C", "lam2", "gamma", GAMMA_FACTOR)
LARGE_REGULARISES = ("lam",)
TIE = 1e-12  # of mean scores: candidates that differ by less are equals
ROWS_A_WEIGHT = 10  # of the rarer class: with fewer, in the language of statistics events per variable, fits are close


@stage(name="search", task_run_name="search {dataset.name} {method.label}")
def search(
    dataset: Dataset, splits: tuple[Split, ...], method: MethodConfig, config: ExperimentConfig, seed: int
) -> tuple[Choice, ...]:
    """Choose parameters for every split, ``config.workers`` splits at a time; how many changes no choice."""
    table = load(dataset)
    _refuse_early(table, splits, method, config, seed)

    def one(split: Split) -> Choice:
        tell = partial(announce, "search", dataset.name, method.label, split.fold)
        return choose(table, split, method, config, seed_for(seed, "train", split.fold), tell)

    choices = each(one, ((split,) for split in splits), config.workers)
    for choice in choices:
        run_logger().info("fold %s: chose %s by inner validation", choice.fold, choice.chosen)
    return tuple(choices)


def _refuse_early(
    table: Table, splits: tuple[Split, ...], method: MethodConfig, config: ExperimentConfig, seed: int
) -> None:
    """Raise the ValueError of sampler, kernel or solver if the split with most rows is too large: not after hours."""
    solver, largest = build_solver(method, {}, 0), max(splits, key=lambda split: len(split.train))
    refuse_to_sample(method, table.y[largest.train])
    if method.kernel == "none" and not hasattr(solver, "check_size"):
        return
    for scale in method.scales(config.preprocessing.scales):
        settled = config.preprocessing.settled(scale)
        sample = _attempt(draw_sample, table, largest, method, settled, seed_for(seed, "sample", largest.fold))
        if not isinstance(sample, Exception):  # of one that cannot be fitted the search tells
            refuse_too_large(method, (sample,))
            return


def choose(
    table: Table,
    split: Split,
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
    tell: Callable[..., None] = lambda **_: None,
) -> Choice:
    """Return the choice for one split, from its training rows."""
    stopwatch = Stopwatch()
    found = search_parameters(table.rows(split.train), method, config, seed, tell)
    tell(done=True)
    seconds, _ = stopwatch.read()
    return Choice(split.fold, best_candidate(method.main_parameter, found), found, seconds)


def search_parameters(
    train: Table,
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
    tell: Callable[..., None] = lambda **_: None,
) -> dict[str, list[Any]]:
    """Return the candidates, column by column, with mean and standard deviation of their scores over the inner folds.

    The first parameter's column is "value", the others have their names. A single candidate is not searched: its score
    is NaN. So is every score where a class has fewer rows than two inner folds need, and that of a candidate that could
    not be fitted where others could.
    """
    tried = method.candidates(config.preprocessing.scales)
    names = {name: VALUE if name == method.main_parameter else name for name in tried[0]}
    columns = {column: [candidate[name] for candidate in tried] for name, column in names.items()}
    splits = inner_splits(train, config) if len(tried) > 1 else ()
    if not splits:
        unknown = [float("nan")] * len(tried)
        return columns | {MEAN: unknown, SD: unknown}
    rule, scores = threshold_rule(train, splits, method, config), []
    crossed = config.validation.select_by == "gmean" and rule != "training"
    for inner in splits:
        own, of_split = seed_for(seed, "inner", inner.fold), []
        tell(detail=f"{inner.fold + 1}/{len(splits)}")
        for score in _validation_scores(train, inner, method, config, own, crossed):
            of_split.append(score)
            tell(detail=f"{inner.fold + 1}/{len(splits)}, {len(of_split)}/{len(tried)}")
        scores.append(of_split)
    usable = _fitted_everywhere(scores, tried, method)
    fitted: Any = [[of_split[place] for place in usable] for of_split in scores]
    if crossed:
        fitted = _cross_fitted(train.y, splits, fitted, best_cut(rule))
    mean, sd = np.full((2, len(tried)), np.nan)
    mean[usable], sd[usable] = np.mean(fitted, axis=0), np.std(fitted, axis=0, ddof=1)
    return columns | {MEAN: mean.tolist(), SD: sd.tolist()}


def _fitted_everywhere(
    scores: list[list[float | np.ndarray | Exception]], tried: list[dict[str, Any]], method: MethodConfig
) -> list[int]:
    """Return the places of the candidates that every inner fold could fit; tell of the others, or raise if all are."""
    failed: dict[int, Exception] = {}
    for of_split in scores:
        for place, score in enumerate(of_split):
            if isinstance(score, Exception):
                failed.setdefault(place, score)
    if len(failed) == len(tried):
        raise failed[0]
    for place, error in failed.items():
        run_logger().info("%s: left out %s: %s: %s", method.label, tried[place], type(error).__name__, error)
    return [place for place in range(len(tried)) if place not in failed]


def inner_splits(train: Table, config: ExperimentConfig, purpose: str = "inner splits") -> tuple[Split, ...]:
    """Return the divisions of training rows: into fewer folds where these do not go into as many.

    The same for every method, so that no two differ by the luck of their folds.
    None where they do not go into two. What is kept together may be the reason as well as a rare class. Rows that do
    not go into two spans of time with the gap between them go without it; rows of too few times as if they had none.
    """
    most, seed = min(config.validation.inner_folds, n_rare(train.y)), seed_for(config.seed, purpose)
    together = kept_together(train, config.validation.grouped)
    ways = [partial(make_splits, repeats=1, seed=seed, groups=together)]
    if train.times is not None:
        gaps = dict.fromkeys((train.gap, 0))
        ways = [partial(span_splits, times=train.times, groups=together, gap=gap) for gap in gaps] + ways
    for divide in ways:
        for folds in range(most, 1, -1):
            with suppress(BadInput):
                return divide(train.y, folds)
    return ()


def _validation_scores(
    train: Table, inner: Split, method: MethodConfig, config: ExperimentConfig, seed: int, crossed: bool
) -> Iterator[float | np.ndarray | Exception]:
    """Yield what every candidate makes of the rows that one inner fold holds out, in their order; or why it cannot."""
    select_by = config.validation.select_by
    for scale in method.scales(config.preprocessing.scales):
        prepared = _attempt(_prepare, train, inner, method, config.preprocessing.settled(scale), seed, select_by)
        for factor in method.gamma_search or (1.0,):
            parts = _attempt(_in_kernels_space, prepared, method, factor, seed)
            for own in method.solver_candidates:
                yield _attempt(_validation_score, parts, method, own, seed, select_by, crossed)


class _Parts(NamedTuple):
    """Rows as a solver sees them, and their labels: those fitted on, those held out and, for a threshold, the whole."""

    X: dict[str, Any]
    y: dict[str, np.ndarray]


def _attempt(step: Callable[..., Any], given: Any, *more: Any) -> Any:
    """Return what a step makes of its input, or why it, or a step before it, cannot: one value is not all values."""
    if isinstance(given, Exception):
        return given
    try:
        return step(given, *more)
    except (MemoryError, OSError):  # of the machine, a timeout among them, not of the value
        raise
    except Exception as error:  # of any library
        hand_on_interrupt(error)
        return error


def _prepare(
    train: Table, inner: Split, method: MethodConfig, settled: PreprocessingConfig, seed: int, select_by: str
) -> _Parts:
    sample = draw_sample(train, inner, method, settled, seed)
    fitted, y = fitting_rows(train, sample)
    parts = _Parts({"fitted": fitted}, {"fitted": y})
    wanted = {"held out": inner.test} | ({"whole": inner.train} if select_by == "gmean" else {})
    for part, rows in wanted.items():
        parts.X[part] = transform(sample.preprocessing, train.rows(rows).X)
        parts.y[part] = train.y[rows]
    return parts


def _in_kernels_space(parts: _Parts, method: MethodConfig, factor: float, seed: int) -> _Parts:
    kernel = build_kernel(method, {GAMMA_FACTOR: factor}, seed)
    if kernel is None:
        return parts
    kernel.fit(parts.X["fitted"], parts.y["fitted"])
    return parts._replace(X={part: kernel.transform(rows) for part, rows in parts.X.items()})


def _validation_score(
    parts: _Parts, method: MethodConfig, own: dict[str, Any], seed: int, select_by: str, crossed: bool
) -> float | np.ndarray:
    """Return the AUC on the rows held out, their G-mean, or their scores where other folds' are to set the threshold.

    A threshold of its own is the one that the final model would take: from all training rows, kept by the sampler or
    not. Scores that meet other folds' are standardised, unless they are probabilities.
    """
    X, y = parts
    if not catalogue.solver(method.solver).is_ours:  # another package's may write into its rows
        X = {part: rows.copy() for part, rows in X.items()}
    solver = fit_solver(method, own, seed, X["fitted"], y["fitted"])
    scores = solver.decision_function(X["held out"])
    if select_by == "auc":
        return auc(y["held out"], scores)
    whole = solver.decision_function(X["whole"])
    for found in (scores, whole):
        check_finite(found)
    if crossed:
        return scores if scores_by_probability(solver) else standardised(scores, whole)
    return gmean(y["held out"], np.where(scores > settled_gmean_threshold(y["whole"], whole), 1, -1))


def _cross_fitted(
    y: np.ndarray, splits: tuple[Split, ...], scores: list[list[np.ndarray]], cut: Callable[..., float]
) -> np.ndarray:
    """Return every candidate's G-mean on each inner fold, at the threshold that the other folds' scores give."""
    gmeans = np.empty((len(splits), len(scores[0])))
    for place, inner in enumerate(splits):
        others = [other for other in range(len(splits)) if other != place]
        y_others = np.concatenate([y[splits[other].test] for other in others])
        for candidate, found in enumerate(scores[place]):
            threshold = cut(y_others, np.concatenate([scores[other][candidate] for other in others]))
            gmeans[place, candidate] = gmean(y[inner.test], np.where(found > threshold, 1, -1))
    return gmeans


def threshold_rule(train: Table, splits: tuple[Split, ...], method: MethodConfig, config: ExperimentConfig) -> str:
    """Return how the method's threshold is set on these training rows, which have these divisions, if any.

    auto is out_of_fold_smoothed where a method may score its training rows apart however new ones fall: where it knows
    them by heart, and where even linear scores have few rare rows for each of their weights.
    """
    if config.validation.threshold != "auto":
        return config.validation.threshold
    if not splits:
        return "training"
    if method.knows_its_rows:
        return "out_of_fold_smoothed"
    usual = config.preprocessing
    widths = [_attempt(_width, train, method, usual.settled(scale)) for scale in method.scales(usual.scales)]
    weights = max((width for width in widths if not isinstance(width, Exception)), default=0)
    return "out_of_fold_smoothed" if n_rare(train.y) < ROWS_A_WEIGHT * weights else "training"


def _width(train: Table, method: MethodConfig, settled: PreprocessingConfig) -> int:
    """Return how many columns a solver sees: a text has one for each of its values, a piecewise linear number six.

    Of sparse rows those that have an entry: others have no weight, and a hash's may be millions.
    """
    if sparse.issparse(train.X):
        return len(np.unique(train.X.indices))
    preprocessing = make_preprocessing(train.X, settled, takes_sparse(method)).fit(train.X)
    return transform(preprocessing, train.X[:1]).shape[1]


def best_cut(rule: str) -> Callable[..., float]:
    """Return what sets a threshold from labels and scores."""
    return smoothed_gmean_threshold if rule == "out_of_fold_smoothed" else settled_gmean_threshold


def settled_gmean_threshold(y: np.ndarray, scores: np.ndarray) -> float:
    """Return the best threshold that is not between scores which only the last digits of a solver tell apart."""
    return best_gmean_threshold(y, scores, tied_within=tie_width(scores))


def best_candidate(name: str | None, search: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the candidate with the highest mean score, as parameters; ``name`` is that of the first.

    Of equals the most regularised, parameter by parameter: the largest λ, the smallest C, λ2 or γ; of parameters and
    scales that do not regularise, the one that is tried first. Where nothing was scored it is the middle of each grid.
    """
    return best_candidates(name, search, 1)[0]


def best_candidates(name: str | None, search: dict[str, list[Any]], count: int) -> tuple[dict[str, Any], ...]:
    """Return the ``count`` best candidates, or all if there are fewer: the best one, then the best of the others, ...

    Where nothing was scored it is one: the middle of each grid.
    """
    columns = parameter_columns(name, search)
    means = np.array(search[MEAN], dtype=float)
    if np.isnan(means).all():
        return ({key: _middle(values) for key, values in columns.items()},)
    preferences = list(zip(*(_preference(key, values) for key, values in columns.items()), strict=True))
    chosen: list[int] = []
    while len(chosen) < count and not np.isnan(means).all():
        best = np.flatnonzero(means >= np.nanmax(means) - TIE)
        chosen.append(min(best.tolist(), key=lambda place: preferences[place]))
        means[chosen[-1]] = np.nan
    return tuple({key: values[place] for key, values in columns.items()} for place in chosen)


def _preference(name: str | None, values: list[Any]) -> list[Any]:
    """Return what the candidates are put in order by among equals, least first."""
    if all(map(is_number, values)):
        if name in SMALL_REGULARISES:
            return values
        if name in LARGE_REGULARISES:
            return [-value for value in values]
    return [values.index(value) for value in values]


def _middle(values: list[Any]) -> Any:
    """Return the middle one of numbers, the first of anything else."""
    if not all(map(is_number, values)):
        return values[0]
    return sorted(set(values))[len(set(values)) // 2]
