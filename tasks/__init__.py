"""The stages: one file per stage or system touched. The only floor that touches disk, network, Prefect, MLflow."""

# Before Prefect, MLflow and pandas: at its import skops looks for scipy's functions in one module after the other, in
# the order of their import, which takes seconds if scipy's come late.
import scipy.special  # noqa: F401
