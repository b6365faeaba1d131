"""Hat functions: a column in [0, 1] becomes several, whose linear functions are the piecewise linear ones of it."""

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from aucsolvers._params import check_count
from aucsolvers._transaction import transactional


class HatFunctions(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Spread each column over hats at even knots: B-splines of degree 1 (de Boor), without a fit to the data.

    With knots t_k = k / (K - 1), k = 0 .. K - 1, a value x in [0, 1] becomes h_k(x) = max(0, 1 - (K - 1) |x - t_k|). A
    linear score of them, sum_k w_k h_k(x), is the function with value w_k at t_k and straight lines between: behind
    ranks (``QuantileTransformer``) the knots are quantiles, and a linear solver fits an additive model, one piecewise
    linear function of each column, with the certificate that it has for linear scores.

    Parameters
    ----------
    n_knots : int, default=6
        K >= 2. With 2, the score is linear in x again.

    Notes
    -----
    Values outside [0, 1] count as the end that is nearer. Hats of a column add up to 1. Dense, 8 K bytes an entry.

    References
    ----------
    .. [1] Hastie, Tibshirani, "Generalized Additive Models", Statistical Science 1(3), 1986.

    Examples
    --------
    >>> from aucsolvers.hats import HatFunctions
    >>> HatFunctions(n_knots=3).fit_transform([[0.0], [0.25], [1.0]])
    array([[1. , 0. , 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """

    def __init__(self, n_knots=6):
        self.n_knots = n_knots

    @transactional
    def fit(self, X, y=None):
        """Remember the columns; nothing is learnt."""
        check_count("n_knots", self.n_knots, least=2)
        validate_data(self, X)
        return self

    def transform(self, X):
        """Return the hats, shape (n_samples, n_features * n_knots), those of a column side by side."""
        check_is_fitted(self, "n_features_in_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        places = np.clip(X, 0.0, 1.0) * (self.n_knots - 1)
        hats = places[:, :, None] - np.arange(self.n_knots)
        np.abs(hats, out=hats)  # in place: it is several times as large as X
        np.subtract(1.0, hats, out=hats)
        return np.maximum(hats, 0.0, out=hats).reshape(len(X), -1)

    def get_feature_names_out(self, input_features=None):
        """Return "NAME at knot K" of each hat."""
        names = super().get_feature_names_out(input_features)  # those of the columns
        return np.array([f"{name} at knot {k}" for name in names for k in range(self.n_knots)], dtype=object)
