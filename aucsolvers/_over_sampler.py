"""What the samplers share that make rows."""

import numpy as np
import pandas as pd
from imblearn.over_sampling.base import BaseOverSampler

from aucsolvers._rows import refuse_polars
from aucsolvers._transaction import transactional
from aucsolvers.process import one_blas_thread


class OverSampler(BaseOverSampler):
    """imbalanced-learn's over-sampler, whose new rows may lie between those of whole numbers."""

    @transactional
    def fit_resample(self, X, y, **params):
        """Return rows X, shape (n_samples, n_features), and labels y with the rows that are made behind."""
        refuse_polars(X)
        X = _in_floats(X)
        with one_blas_thread():  # scikit-learn's neighbours are OpenMP's, which in a forked process would never end
            return super().fit_resample(X, y, **params)


def _in_floats(X):
    """Return a pandas frame with its columns of other numbers or categories in float64; else X as it is.

    imbalanced-learn gives a frame's columns their types back, and so would cut fractions off.
    """
    if not isinstance(X, pd.DataFrame) or not X.columns.is_unique:  # the latter are refused soon
        return X
    wanted, thin = {}, pd.SparseDtype(np.float64, 0.0)
    for name, of in X.dtypes.items():
        if isinstance(of, pd.CategoricalDtype) and of.categories.dtype.kind not in "iufb":
            raise ValueError(
                f"Expected numbers in column {name!r}, got categories of {of.categories.dtype}. Encode it before "
                "rows are made, or under-sample instead."
            )
        if of.kind in "iub" or isinstance(of, pd.CategoricalDtype):
            wanted[name] = thin if isinstance(of, pd.SparseDtype) else np.float64
    return X.astype(wanted) if wanted else X
