"""What can be named in a config: solvers, samplers and kernels, each with one line of explanation.

Estimators are imported when they are built, so that a list or a validation costs no numba.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tasks.errors import BadInput, nearest

CONFIGS = Path(__file__).resolve().parent.parent / "configs"

LAMBDA_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
GAMMA_GRID = (0.1, 1.0, 10.0)  # in units of 1/(features * variance)


@dataclass(frozen=True)
class Entry:
    """A solver, a sampler or a kernel: which class it is, with which fixed parameters, and what it does."""

    path: str  # "package.module:Class"
    summary: str
    params: tuple[tuple[str, Any], ...] = ()
    grid: tuple[str, tuple[float, ...]] | None = None  # the parameter that inner cross-validation chooses
    takes_kernel: bool = True  # a solver of linear scores: a kernel's features may take the place of the data's

    def build(self, **params: Any) -> Any:
        """Return the estimator with these parameters on top of the fixed ones."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)(**(dict(self.params) | params))

    def parameter_names(self) -> tuple[str, ...]:
        """Return the parameters that a config may set."""
        return tuple(sorted(self.build().get_params(deep=False)))


# an online solver that is fitted whole need not keep its stream: a stored model then holds no training rows
_FITTED_WHOLE = (("keep_stream", False),)
_LAMBDA = ("lam", LAMBDA_GRID)

SOLVERS: dict[str, Entry] = {
    "svm_or": Entry(
        "aucsolvers:SVMOR", "pairwise hinge, batch Newton to a certified gap, no pair enumerated", (), _LAMBDA
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
    ),
    "ls_svm": Entry("aucsolvers:LSSVM", "pairwise square loss, solved exactly", (), _LAMBDA),
    "oam_seq": Entry(
        "aucsolvers:OAMSeq", "pairwise hinge, online with reservoirs, pair by pair", _FITTED_WHOLE, _LAMBDA
    ),
    "oam_gra": Entry("aucsolvers:OAMGra", "pairwise hinge, online with reservoirs, gradient", _FITTED_WHOLE, _LAMBDA),
    "oam_inf": Entry("aucsolvers:OAMInf", "pairwise hinge, online, every row kept", _FITTED_WHOLE, _LAMBDA),
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
    ),
    "linear_svm_l2": Entry(
        "aucsolvers:LinearSVM",
        "linear SVM, squared hinge loss, dual coordinate descent with shrinking",
        (("loss", "squared_hinge"),),
        ("C", C_GRID),
    ),
    "kernel_svm": Entry(
        "aucsolvers:KernelSVM",
        "SVM with Gaussian kernel, hinge loss, dual coordinate descent with a duality gap",
        (("kernel", "rbf"),),
        ("C", C_GRID),
        takes_kernel=False,
    ),
}

_SAMPLER = "aucsolvers:GeometricUnderSampler"
SAMPLERS: dict[str, Entry | None] = {
    "none": None,
    "auto": Entry(_SAMPLER, "u1 below an imbalance ratio of 10, u2 from there on", (("scheme", "auto"),)),
    "u1": Entry(_SAMPLER, "keep majority rows the likelier, the nearer the SVM's hyperplane", (("scheme", "u1"),)),
    "u2": Entry(_SAMPLER, "u1 on the 10 n+ majority rows nearest the hyperplane", (("scheme", "u2"),)),
    "wu": Entry(_SAMPLER, "weighted under-sampling, the precursor of u1 and u2", (("scheme", "wu"),)),
}

_FEATURES = "aucsolvers.approximation:KernelFeatures"
_GAMMA = ("gamma_factor", GAMMA_GRID)
KERNELS: dict[str, Entry | None] = {
    "none": None,
    "gaussian": Entry(
        _FEATURES,
        "exp(-gamma |x - z|^2) on the span of 256 training rows (n_components)",
        (("kernel", "gaussian"), ("degree", 3), ("coef0", 1.0)),  # the last two play no part in it
        _GAMMA,
    ),
    "polynomial": Entry(
        _FEATURES,
        "(gamma x'z + 1)^3 (degree, coef0) on the span of 256 training rows",
        (("kernel", "polynomial"),),
        _GAMMA,
    ),
}


def solver(name: str) -> Entry:
    """Return a solver's entry, or refuse the name with the nearest one."""
    return _look_up("solver", name, SOLVERS)


def sampler(name: str) -> Entry | None:
    """Return a sampler's entry (None for ``none``), or refuse the name with the nearest one."""
    return _look_up("sampler", name, SAMPLERS)


def kernel(name: str) -> Entry | None:
    """Return a kernel's entry (None for ``none``), or refuse the name with the nearest one."""
    return _look_up("kernel", name, KERNELS)


def _look_up(kind: str, name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        raise BadInput(f"Expected a {kind} out of {', '.join(known)}; got '{name}'.{nearest(name, tuple(known))}")
    return known[name]
