"""Solvers, samplers and metrics for imbalanced two-class data: scikit-learn estimators on numba kernels.

Arrays in, arrays out; no file, no workflow, no store. Names are imported when they are first used, so
the samplers' need of imbalanced-learn is felt only by who uses a sampler.
"""

from importlib import import_module

_HOME = {
    "AUCMSGD": "pairwise_hinge",
    "AUCSDCD": "pairwise_hinge",
    "GMeanThreshold": "threshold",
    "GeometricUnderSampler": "undersampling",
    "KernelFeatures": "approximation",
    "KernelSVM": "kernel_svm",
    "LSSVM": "pairwise_square",
    "LinearSVM": "svm",
    "MWMOTE": "mwmote",
    "MarginMeanSVM": "margin_mean",
    "OAMGra": "reservoir",
    "OAMInf": "reservoir",
    "OAMSeq": "reservoir",
    "OPAUC": "one_pass",
    "OneHotSMOTENC": "smotenc",
    "RangeScaler": "range_scaler",
    "Ranker": "ranker",
    "SOLAM": "online_saddle_point",
    "SPDAM": "saddle_point",
    "SVMOR": "ordinal",
    "SignedRanks": "ranks",
    "TextImputer": "columns",
    "UniExp": "univariate",
    "UnitRows": "unit_rows",
    "ZOVR": "zeroth_order",
}

__all__ = sorted(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module 'aucsolvers' has no attribute {name!r}")
    return getattr(import_module(f"aucsolvers.{_HOME[name]}"), name)


def __dir__():
    return [*globals(), *__all__]
