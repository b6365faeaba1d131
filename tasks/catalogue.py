"""What can be named in a config: solvers, samplers and kernels, each with one line of explanation.

Estimators are imported when they are built, so that a list or a validation costs no numba. Beside the names of this
catalogue, any classifier of scikit-learn's kind and any sampler of imbalanced-learn's is taken by its import path.
"""

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from tasks.errors import BadInput, nearest

CONFIGS = Path(__file__).resolve().parent.parent / "configs"

LAMBDA_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
# In a Gaussian kernel's space rows have length 1, less about their mean, and scores of some size need larger weights.
GAUSSIAN_LAMBDA_GRID = (1e-6, 1e-5, *LAMBDA_GRID[:-1])
GAUSSIAN_C_GRID = (*C_GRID[2:], 100.0, 1000.0)
LAM2_GRID = (10.0, 100.0, 1000.0, 10_000.0)
GAUSSIAN_LAM2_GRID = (*LAM2_GRID, 100_000.0)  # an SVM's C times the rows: 100 for 1,000 of them
ZOVR_GRID = (10.0, 100.0, 1000.0)  # beyond that its rounds are many
GAMMA_GRID = (0.1, 1.0, 10.0)  # in units of 1/(sum of the columns' variances), which moving a column does not change
SEARCH_COLUMNS = (VALUE, MEAN, SD) = "value", "mean", "sd"  # of a search's table beside parameters: the first one's
GAMMA_FACTOR = "gamma_factor"  # the name of such a multiple among the searched parameters

# whose classes are often named without it
MODULES = (
    *(f"sklearn.{name}" for name in ("svm", "linear_model", "ensemble", "tree", "neighbors", "naive_bayes")),
    *(f"sklearn.{name}" for name in ("discriminant_analysis", "neural_network", "gaussian_process")),
    *(f"imblearn.{name}" for name in ("ensemble", "under_sampling", "over_sampling", "combine")),
)

IMPORT_PATH = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"


@dataclass(frozen=True)
class Entry:
    """A solver, a sampler or a kernel: which class it is, with which fixed parameters, and what it does."""

    path: str  # "package.module:Class"
    summary: str
    params: tuple[tuple[str, Any], ...] = ()
    grid: tuple[str, tuple[float, ...]] | None = None  # the parameter that inner cross-validation chooses
    gaussian_grid: tuple[float, ...] = ()  # its values, where others, behind the kernel "gaussian"
    takes_kernel: bool = True  # a solver of linear scores: a kernel's features may take the place of the data's
    also: tuple[tuple[str, tuple[float, ...]], ...] = ()  # further parameters that inner cross-validation chooses
    visits: str = "rows"  # or "squared rows", or "pairs": what the time of a fit grows with
    defaults: tuple[tuple[str, Any], ...] = ()  # other than the class's; a config may set these

    @property
    def grids(self) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """All parameters that inner cross-validation chooses, with their usual values."""
        return self.also if self.grid is None else (self.grid, *self.also)

    @property
    def is_ours(self) -> bool:
        """Tell whether the class is one of aucsolvers: certified, and its parameters checked without data."""
        return self.path.startswith("aucsolvers")

    def build(self, **params: Any) -> Any:
        """Return the estimator with these parameters on top of the fixed and the default ones."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)(**(dict(self.params) | dict(self.defaults) | params))

    def build_seeded(self, seed: int, /, **params: Any) -> Any:
        """Return the estimator as ``build`` does, seeded where it draws at random."""
        return self.build(**params, **({"random_state": seed} if "random_state" in self.parameter_names() else {}))

    def parameter_names(self) -> tuple[str, ...]:
        """Return the parameters that a config may set."""
        return tuple(sorted(self.build().get_params(deep=False)))

    def takes_any_parameter(self) -> bool:
        """Tell whether another package's class has parameters that it does not name, such as LightGBM's."""
        module, _, name = self.path.partition(":")
        init = getattr(import_module(module), name).__init__
        if self.is_ours or init is object.__init__:
            return False
        return any(parameter.kind is Parameter.VAR_KEYWORD for parameter in signature(init).parameters.values())


# an online solver that is fitted whole need not keep its stream: a stored model then holds no training rows
_FITTED_WHOLE = (("keep_stream", False),)
_LAMBDA = ("lam", LAMBDA_GRID)
_GAMMA = (GAMMA_FACTOR, GAMMA_GRID)
_SPREAD = (("gamma", "spread"),)

SOLVERS: dict[str, Entry] = {
    "svm_or": Entry(
        "aucsolvers:SVMOR",
        "pairwise hinge, batch Newton to a certified gap, no pair enumerated",
        (),
        _LAMBDA,
        GAUSSIAN_LAMBDA_GRID,
    ),
    "sdcd": Entry(
        "aucsolvers:AUCSDCD",
        "pairwise hinge, dual coordinate descent, pairs drawn at random",
        (("order", "random"),),
        _LAMBDA,
    ),
    "sdcd_perm": Entry(
        "aucsolvers:AUCSDCD",
        "pairwise hinge, dual coordinate descent, each pair once an epoch",
        (("order", "permutation"),),
        _LAMBDA,
    ),
    "msgd": Entry(
        "aucsolvers:AUCMSGD",
        "pairwise hinge, stochastic gradient without dual variables",
        (),
        _LAMBDA,
        visits="pairs",
    ),
    "ls_svm": Entry("aucsolvers:LSSVM", "pairwise square loss, solved exactly", (), _LAMBDA, GAUSSIAN_LAMBDA_GRID),
    "oam_seq": Entry(
        "aucsolvers:OAMSeq", "pairwise hinge, online with reservoirs, pair by pair", _FITTED_WHOLE, _LAMBDA
    ),
    "oam_gra": Entry("aucsolvers:OAMGra", "pairwise hinge, online with reservoirs, gradient", _FITTED_WHOLE, _LAMBDA),
    "oam_inf": Entry(
        "aucsolvers:OAMInf", "pairwise hinge, online, every row kept", _FITTED_WHOLE, _LAMBDA, visits="pairs"
    ),
    "opauc": Entry("aucsolvers:OPAUC", "pairwise square loss, online with running covariances", _FITTED_WHOLE, _LAMBDA),
    "solam": Entry(
        "aucsolvers:SOLAM", "pairwise square loss, online saddle point, memory O(d)", _FITTED_WHOLE, _LAMBDA
    ),
    "spdam": Entry(
        "aucsolvers:SPDAM", "pairwise square loss, stochastic primal-dual with linear convergence", (), _LAMBDA
    ),
    "uni_exp": Entry("aucsolvers:UniExp", "class-weighted univariate exponential loss, online", _FITTED_WHOLE, _LAMBDA),
    "linear_svm": Entry(
        "aucsolvers:LinearSVM",
        "linear SVM, hinge loss, dual coordinate descent with shrinking",
        (("loss", "hinge"),),
        ("C", C_GRID),
        GAUSSIAN_C_GRID,
    ),
    "linear_svm_l2": Entry(
        "aucsolvers:LinearSVM",
        "linear SVM, squared hinge loss, dual coordinate descent with shrinking",
        (("loss", "squared_hinge"),),
        ("C", C_GRID),
        GAUSSIAN_C_GRID,
    ),
    "kernel_svm": Entry(
        "aucsolvers:KernelSVM",
        "SVM with Gaussian kernel, hinge loss, dual coordinate descent with a duality gap",
        (("kernel", "rbf"),),
        ("C", GAUSSIAN_C_GRID),
        takes_kernel=False,
        also=(_GAMMA,),
        visits="squared rows",
        defaults=_SPREAD,
    ),
    "margin_mean": Entry(
        "aucsolvers:MarginMeanSVM",
        "margin-mean SVM, linear, dual coordinate descent to its exact optimum",
        (("kernel", "linear"),),
        ("lam2", LAM2_GRID),
    ),
    "margin_mean_rbf": Entry(
        "aucsolvers:MarginMeanSVM",
        "margin-mean SVM with Gaussian kernel, to its exact optimum",
        (("kernel", "rbf"),),
        ("lam2", GAUSSIAN_LAM2_GRID),
        takes_kernel=False,
        also=(_GAMMA,),
        visits="squared rows",
    ),
    "zovr": Entry(
        "aucsolvers:ZOVR",
        "margin-mean SVM, linear, from values of its objective alone, variance-reduced",
        (("kernel", "linear"),),
        ("lam2", ZOVR_GRID),
    ),
    "zovr_rbf": Entry(
        "aucsolvers:ZOVR",
        "margin-mean SVM with Gaussian kernel, from values of its objective alone",
        (("kernel", "rbf"),),
        ("lam2", ZOVR_GRID),
        takes_kernel=False,
        also=(_GAMMA,),
    ),
    "zo_svm": Entry(
        "aucsolvers:ZOVR",
        "hinge SVM, linear, zeroth-order stochastic gradient: the baseline of zovr's source",
        (("kernel", "linear"), ("variance_reduction", False), ("lam1", 0.0)),
        ("lam2", ZOVR_GRID),
    ),
}

BY_HYPERPLANE = ("auto", "u1", "u2", "wu")
_SAMPLER = "aucsolvers:GeometricUnderSampler"
SAMPLERS: dict[str, Entry | None] = {
    "none": None,
    "auto": Entry(_SAMPLER, "u1 below an imbalance ratio of 10, u2 from there on", (("scheme", "auto"),)),
    "u1": Entry(_SAMPLER, "keep majority rows the likelier, the nearer the SVM's hyperplane", (("scheme", "u1"),)),
    "u2": Entry(_SAMPLER, "u1 on the 10 n+ majority rows nearest the hyperplane", (("scheme", "u2"),)),
    "wu": Entry(_SAMPLER, "weighted under-sampling, the precursor of u1 and u2", (("scheme", "wu"),)),
    "random": Entry("imblearn.under_sampling:RandomUnderSampler", "majority rows at random, until both are equal"),
    "mwmote": Entry("aucsolvers:MWMOTE", "adds minority rows between hard ones near the majority, within clusters"),
    "smote": Entry("imblearn.over_sampling:SMOTE", "adds minority rows between neighbouring ones, anywhere"),
    "smotenc": Entry("aucsolvers:OneHotSMOTENC", "as smote, but takes a text whole: the one that most neighbours have"),
}

_FEATURES = "aucsolvers.approximation:KernelFeatures"
KERNELS: dict[str, Entry | None] = {
    "none": None,
    "gaussian": Entry(
        _FEATURES,
        "exp(-gamma |x - z|^2) on the span of 256 training rows (n_components)",
        (("kernel", "rbf"), ("degree", 3), ("coef0", 1.0)),  # the last two play no part in it
        _GAMMA,
        defaults=_SPREAD,
    ),
    "polynomial": Entry(
        _FEATURES,
        "(gamma x'z + 1)^3 (degree, coef0) on the span of 256 training rows",
        (("kernel", "poly"),),
        _GAMMA,
    ),
}


def solver(name: str) -> Entry:
    """Return the entry of a solver's name or import path, or refuse it with the nearest name."""
    return _look_up("solver", name, SOLVERS)


def sampler(name: str) -> Entry | None:
    """Return the entry of a sampler's name or import path (None for ``none``), or refuse it with the nearest name."""
    return _look_up("sampler", name, SAMPLERS)


def kernel(name: str) -> Entry | None:
    """Return a kernel's entry (None for ``none``), or refuse the name with the nearest one."""
    return _look_up("kernel", name, KERNELS)


def parameter_columns(first: str | None, search: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return a search's table without its scores, the first parameter's column under that parameter's name."""
    return {(first or key) if key == VALUE else key: values for key, values in search.items() if key not in (MEAN, SD)}


def short_name(name: str) -> str:
    """Return what tables call a solver or sampler: its name, or the class that an import path leads to."""
    return name.rpartition(".")[2]


def split_name(name: str) -> dict[str, str]:
    """Return what a name joins: solver, and sampler and kernel where it has them.

    As tables write it, ``[sampler+][kernel+]solver``, any of them possibly unknown; of two of ours also as papers do:
    ``u1_zovr``.
    """
    front, _, back = name.partition("_")
    if front in SAMPLERS and back in SOLVERS and name not in SOLVERS:
        return {"sampler": front, "solver": back}
    *fronts, back = name.split("+")
    parts = {"solver": back}
    if len(fronts) == 2 or (fronts and _means_a_kernel(fronts[-1])):
        parts["kernel"] = fronts.pop()
    return parts | ({"sampler": "+".join(fronts)} if fronts else {})


def _means_a_kernel(name: str) -> bool:
    """Tell whether it is a kernel's name, or nearest to one, and then to be refused with that."""
    kernels = [kernel for kernel in KERNELS if kernel != "none"]
    known = (*SAMPLERS, *kernels)
    return name in kernels or nearest(name, known) in [nearest(kernel, known) for kernel in kernels]


def _look_up(kind: str, name: str, known: dict[str, Any]) -> Any:
    if name in known:
        return known[name]
    if kind in METHODS and re.fullmatch(IMPORT_PATH, name):
        return _imported(kind, name)
    options = (*known, *_joined_names()) if kind == "solver" else tuple(known)
    paths = ", or an import path" if kind in METHODS else ""
    hint = (_path_of(kind, name) if kind in METHODS and name.lower() not in known else "") or nearest(name, options)
    if kind == "kernel" and name == "rbf":
        hint = " Did you mean 'gaussian'?"
    raise BadInput(f"Expected a {kind} out of {', '.join(known)}{paths}; got '{name}'.{hint}")


def _path_of(kind: str, name: str) -> str:
    """Return a hint at the class that scikit-learn or imbalanced-learn has of this name, or an empty string."""
    for module in map(import_module, MODULES):
        for public in module.__all__:
            if public.lower() == name.lower():
                path = f"{module.__name__}.{public}"
                if kind == "solver" and hasattr(getattr(module, public), "fit_resample"):
                    return _as_sampler(path)
                return f" Name it by its import path, '{path}'."
    return ""


def _as_sampler(path: str) -> str:
    return f" It is a sampler, which stands before a solver: '{path}+linear_svm'."


def _joined_names() -> list[str]:
    """Return what split_name takes apart, as it is most likely to be meant where a name is none."""
    samplers = [name for name, entry in SAMPLERS.items() if entry]
    kernels = [name for name, entry in KERNELS.items() if entry]
    return [
        *(f"{sampler}_{solver}" for sampler in samplers for solver in SOLVERS),
        *(f"{kernel}+{solver}" for kernel in kernels for solver in SOLVERS),
        *(f"{sampler}+{kernel}+{solver}" for sampler in samplers for kernel in kernels for solver in SOLVERS),
    ]


# what a class has to have, each group in one of its spellings
METHODS = {"solver": (("fit",), ("decision_function", "predict_proba")), "sampler": (("fit_resample",),)}


@cache
def _imported(kind: str, path: str) -> Entry:
    """Return the entry of a class by its import path, or say why it is none; nothing is searched by default."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # a module may run anything when it is imported
        said = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        advice = _instead(kind, path, error) or " Check the spelling, install it, or put its folder on PYTHONPATH."
        raise BadInput(f"Expected a {kind} that can be imported, got '{path}': {said}.{advice}") from None
    wanted = METHODS[kind]
    if not isinstance(found, type) or not all(any(hasattr(found, m) for m in group) for group in wanted):
        words = " and ".join(" or ".join(group) for group in wanted)
        hint = _as_sampler(path) if kind == "solver" and hasattr(found, "fit_resample") else " Name another."
        raise BadInput(f"Expected a class with {words} as {kind}, got '{path}'.{hint}")
    entry = Entry(f"{module}:{name}", f"{name} of {module.partition('.')[0]}")
    _check_usual(entry, kind, path)
    return entry


def _check_usual(entry: Entry, kind: str, path: str) -> None:
    """Refuse a class that cannot be made without arguments, or a solver that is no classifier."""
    try:
        usual = entry.build()
        usual.get_params(deep=False)
    except Exception as error:  # of any class
        advice = "Take smotenc, which is told them" if entry.path.endswith(":SMOTENC") else "Name another"
        raise BadInput(
            f"Expected a {kind} that is made without arguments and has get_params, got '{path}': {error}. {advice}."
        ) from None
    if kind == "solver" and not _is_classifier(usual):
        raise BadInput(
            f"Expected a classifier of scikit-learn's kind (a BaseEstimator), which learns from labels, as {kind}, got "
            f"'{path}'. Name another."
        )


def _instead(kind: str, path: str, error: BaseException) -> str:
    """Return what may have been meant by a path that could not be imported, or nothing."""
    module, _, name = path.rpartition(".")
    front, _, back = path.partition("_")
    if kind == "solver" and front in SAMPLERS:
        return f" Did you mean '{front}+{back}'?"
    is_loaded = isinstance(error, AttributeError) and module in sys.modules
    return nearest(name, dir(sys.modules[module])) if is_loaded else ""


def _is_classifier(estimator: Any) -> bool:
    """Tell whether an estimator is one of scikit-learn's kind, and none that says it is something else."""
    from sklearn.utils import get_tags  # here, for a list needs no scikit-learn

    try:
        return get_tags(estimator).estimator_type in ("classifier", None)
    except Exception:  # it has no tags, or not before it is given an estimator
        return False
