"""Online univariate exponential loss (UniExp): ranking without a look at a pair.

It approaches the minimum, over the positives i and the negatives j, of

    E(w) = lam/2 ||w||^2 + 1/2 mean_i exp(-w'x_i) + 1/2 mean_j exp(w'x_j).

From top to bottom: estimator, driver, kernel.
"""

from functools import partial

import numpy as np

from aucsolvers._certify import EXPONENTIAL
from aucsolvers._jit import kernel
from aucsolvers._prefetch import AHEAD, prefetch_row
from aucsolvers._rows import REDUCE, add, as_rows, dot, squared_norm, zeros_in_lines
from aucsolvers._stream import LARGEST_ETA, OnlineScorer, check_step

SMALLEST_SCALE = 1e-100


class UniExp(OnlineScorer):
    """Online univariate exponential loss, weighted by class: ranks without looking at a pair.

    Approaches the minimum of E(w) = lam/2 ||w||^2 + 1/2 mean_i exp(-w'x_i) + 1/2 mean_j exp(w'x_j) over the positives i
    and the negatives j. There is no bias: centre the features. A row moves w by
    -eta_t (lam w - c y exp(-y w'x) x), with c = 1/(2 p) for a positive, 1/(2 (1 - p)) for a negative row, and p the
    share of positives so far.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    eta : float, default=1.0
        Length of the steps, 0 < eta <= 2: eta_t = 1/(K_t/eta + lam t), where K_t is the largest ||x||^2 so far.
    shuffle, tol, max_iter, random_state, keep_stream
        As of SOLAM; E(0) = 1, max_iter=1.

    Attributes
    ----------
    coef_, intercept_, n_iter_, status_, history_, classes_
        As of OAMSeq.
    objective_ : float
        E(coef_); nan after partial_fit.
    dual_gap_ : float
        An upper bound on E(w) - min E, up to rounding: E(w) less the best E(v) - ||dE(v)||^2/(2 lam) of the points v in
        history_ where a pass began or ended, since E is lam-strongly convex. nan after partial_fit.
    gap_unit_ : float
        max(1, objective at w = 0), here always 1. ``dual_gap_ / gap_unit_`` compares fits to different data.

    Raises
    ------
    ValueError
        As SOLAM.

    Warns
    -----
    ConvergenceWarning
        If fit did not bring the certificate to tol. One pass rarely does.

    Notes
    -----
    A row costs O(d), or O(its stored values) for CSR; memory is O(d). A step is kept from raising the row's own
    margin by more than 1, which is where Newton's step on its loss would end: its own exp cannot run away. Rows of
    unlike lengths may still raise each other's, so that one pass leaves an objective far above that of w = 0, often
    with a good ranking; the certificate says so. The result does not depend on how a stream is cut into chunks, to the
    last bit. The same seed gives the same bits.

    References
    ----------
    .. [1] Kotlowski, Dembczynski, Huellermeier, "Bipartite Ranking through Minimization of Univariate Loss", ICML 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import UniExp
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UniExp(lam=0.1, tol=0.1, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.98)
    ('converged', True)
    """

    _loss = EXPONENTIAL

    def __init__(self, lam=1e-3, *, eta=1.0, shuffle=True, tol=1e-3, max_iter=1, random_state=None, keep_stream=True):
        self.lam = lam
        self.eta = eta
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        check_step("eta", self.eta, LARGEST_ETA)

    def _start(self, n_features):
        return super()._start(n_features) | {
            "direction": zeros_in_lines(n_features),
            "scale": np.ones(1),
            "peak": np.zeros(1),
        }

    def _learner(self, positive=None):
        return partial(learn_exponential, lam=float(self.lam), eta=float(self.eta))


# Driver ----------------------------------------------------------------------------------------------------------


def learn_exponential(state, X, visits, codes, *, lam, eta):
    """Take in rows ``visits`` of X by UniExp. Changes the state.

    The state keeps w as ``scale`` times ``direction``, and ``peak``, the largest squared norm of a row.
    """
    direction, scale = state["direction"], state["scale"]
    stream = state["counts"], state["sums"], scale, state["peak"], direction
    _exponential_sweep(as_rows(X), visits, codes, *stream, lam, eta)
    state["w"] = scale[0] * direction


# Kernel ----------------------------------------------------------------------------------------------------------


@kernel(fastmath=REDUCE, error_model="numpy")
def _exponential_sweep(rows, visits, codes, counts, sums, scale, peak, v, lam, eta):
    """Take the step -eta_t (lam w - c y exp(-y w'x) x) at each row in turn, the exponential's part capped.

    w = scale v is never formed: a step costs no more than its row.
    """
    last = visits.size - 1
    for t in range(visits.size):
        prefetch_row(rows, visits[min(t + AHEAD, last)])
        i, own = visits[t], codes[t]
        square = squared_norm(rows, i)
        counts[own] += 1
        add(rows, i, 1.0, sums[own])
        seen, sign = counts[0] + counts[1], 2.0 * own - 1.0
        peak[0] = max(peak[0], square)
        step = 1.0 / (peak[0] / eta + lam * seen)
        # 1/(2 p) or 1/(2 (1 - p)) is seen/(2 rows of the class); exp may overflow to inf, the cap is finite
        pull = step * seen / (2.0 * counts[own]) * np.exp(-sign * scale[0] * dot(rows, i, v))
        if pull * square > 1.0:
            pull = 1.0 / square
        scale[0] *= 1.0 - step * lam
        if scale[0] < SMALLEST_SCALE:
            for f in range(v.shape[0]):
                v[f] *= scale[0]
            scale[0] = 1.0
        add(rows, i, sign * pull / scale[0], v)
