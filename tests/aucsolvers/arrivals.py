"""Rows that arrive one by one, as the tests of all online solvers see them."""

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone

STORAGES = [np.asarray, sparse.csr_array]


def arriving(n=60, d=5, seed=0, share=0.3, offset=0.5):
    """Rows of both classes in mixed order, overlapping, with zeros and one row that is in both classes."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X += offset * ((y[:, None] > 0) & (X != 0))
    X[7] = X[np.flatnonzero(y != y[7])[0]]
    return X, y


def stream(model, X, y, cuts=()):
    """A clone fed the rows in chunks that end at the cuts."""
    model = clone(model)
    for rows in np.split(np.arange(len(y)), sorted(cuts)):
        if len(rows):
            model.partial_fit(X[rows], y[rows], classes=[-1.0, 1.0])
    return model


def exponential_objective(w, X, y, lam):
    return lam / 2 * w @ w + np.exp(-X[y > 0] @ w).mean() / 2 + np.exp(X[y < 0] @ w).mean() / 2


def exponential_optimum(X, y, lam):
    found = minimize(exponential_objective, np.zeros(X.shape[1]), (X, y, lam), tol=1e-10)
    return found.fun
