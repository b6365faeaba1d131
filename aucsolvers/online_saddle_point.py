"""Stochastic online AUC maximisation (SOLAM): the pairwise square loss as an online saddle-point problem.

With z_ij = x_i - x_j over the k pairs of a positive x_i and a negative x_j, it approaches the minimum of

    Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'z_ij)^2.

From top to bottom: estimator, driver, kernels.
"""

from functools import partial

import numpy as np

from aucsolvers._certify import SQUARE
from aucsolvers._jit import kernel
from aucsolvers._prefetch import AHEAD, prefetch_row
from aucsolvers._rows import REDUCE, add, add_twice, as_rows, dot, inner, squared_norm, zeros_in_lines
from aucsolvers._stream import OnlineScorer, check_step

LARGEST_ZETA = 1e3
SMALLEST_SCALE = 1e-3  # folded below: the average would lose as many digits

# Places in the state's ``saddle``: b and a by class, alpha, the sum of the steps, the largest and the mean squared norm
# of a row, and what the kernel's docstring explains.
CENTRE, ALPHA, STEPS, PEAK, POWER, SCALE, AREA, NORM = 0, 2, 3, 4, 5, 6, 7, 8
PLACES = 9


class SOLAM(OnlineScorer):
    """Stochastic online AUC maximisation: the square loss as a saddle-point problem, O(d) per row (regSOLAM).

    Approaches the minimum of Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'(x_i - x_j))^2, the objective of LSSVM, as
    the saddle point, min over w, a, b and max over alpha, of the mean of

        (1 - p) [(s - a)^2/2 - (1 + alpha) s]  or  p [(s - b)^2/2 + (1 + alpha) s]
        + p (1 - p) (lam/2 ||w||^2 - alpha^2/2)

    for a positive or a negative row, with s = w'x and p the share of positives so far: p (1 - p) (Q - 1/2) at the best
    a, b and alpha.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    zeta : float, default=10.0
        Length of the steps, 0 < zeta <= 1000: step t is min(1, zeta/sqrt(t)) for a, b and alpha; for w it is divided
        by the sum of lam and the mean squared norm of the rows so far, but no longer than 1/(lam + the row's own
        squared norm).
    shuffle : bool, default=True
        Whether fit visits the rows in a fresh random order in each pass, or as given.
    tol : float, default=1e-3
        Stop after a pass whose certificate is at most tol; Q(0) = 1/2. 0 uses up max_iter.
    max_iter : int, default=10
        Largest number of passes.
    random_state : int, Generator, RandomState or None, default=None
        Draws the order of visits.
    keep_stream : bool, default=True
        Whether fit keeps the stream's state, O(d), so that partial_fit can go on.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The average of the iterates, weighted by the steps.
    intercept_, gap_unit_, n_iter_, status_, history_, classes_
        As of OAMSeq.
    objective_, dual_gap_ : float
        As of OPAUC.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, or partial_fit after a fit
        that kept no stream.

    Warns
    -----
    ConvergenceWarning
        If fit did not bring the certificate to tol: the error falls about as 1/sqrt(rows seen).

    Notes
    -----
    A row costs O(d), or O(its stored values) for CSR while w stays off the projection's border; memory is O(d). The
    projections ||w|| <= R, |a|, |b| <= R K, |alpha| <= 2 R K, with R = 1/sqrt(lam) and K the largest row norm so far,
    contain the saddle point, because lam/2 ||w*||^2 <= Q(0) = 1/2. Centred rows of unit norm suit it best, as in [2]_.
    A stream has to bring both classes in mixed order: through many rows of one class the other is forgotten.
    The result does not depend on how a stream is cut into chunks, to the last bit. The same seed gives the same bits.

    The source adds lam/2 ||w||^2 to a loss that is p (1 - p) times the pairwise one; here it has the factor too, or
    the saddle point would be that of lam/(p (1 - p)). Its steps, zeta/sqrt(t) for all variables, overshoot on rows
    of large norm and, where short enough for the largest, hardly move on the others; hence the two bounds on them here.

    References
    ----------
    .. [1] Ying, Wen, Lyu, "Stochastic Online AUC Maximization", NIPS 2016: algorithm 1.
    .. [2] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in Applied
       Mathematics and Statistics, 2019: eq. 6 and section 5.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import normalize, scale
    >>> from aucsolvers import SOLAM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SOLAM(lam=0.1, tol=0.01, random_state=0).fit(normalize(scale(X)), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.98)
    ('converged', True)
    """

    _loss = SQUARE

    def __init__(
        self, lam=1e-3, *, zeta=10.0, shuffle=True, tol=1e-3, max_iter=10, random_state=None, keep_stream=True
    ):
        self.lam = lam
        self.zeta = zeta
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        check_step("zeta", self.zeta, LARGEST_ZETA)

    def _start(self, n_features):
        direction, lag, saddle = zeros_in_lines(n_features), zeros_in_lines(n_features), np.zeros(PLACES)
        saddle[SCALE] = 1.0
        return super()._start(n_features) | {"direction": direction, "lag": lag, "saddle": saddle}

    def _learner(self, positive=None):
        return partial(learn_saddle_point, lam=float(self.lam), zeta=float(self.zeta))


# Driver ----------------------------------------------------------------------------------------------------------


def learn_saddle_point(state, X, visits, codes, *, lam, zeta):
    """Take in rows ``visits`` of X by regSOLAM. Changes the state, which the kernel explains."""
    direction, lag, saddle = state["direction"], state["lag"], state["saddle"]
    _saddle_sweep(as_rows(X), visits, codes, state["counts"], state["sums"], saddle, direction, lag, lam, zeta)
    state["w"] = (saddle[AREA] * direction - lag) / saddle[STEPS]


# Kernels ---------------------------------------------------------------------------------------------------------


@kernel(fastmath=REDUCE, error_model="numpy")
def _saddle_sweep(rows, visits, codes, counts, sums, saddle, v, lag, lam, zeta):
    """Take a projected step in w, a, b (down) and alpha (up) at each row in turn (Ying et al. 2016, algorithm 1).

    No step goes past the row's own optimum in its variable, and w shrinks by at most a quarter. A row's step
    w <- shrink w + pull x costs no more than the row, because neither w nor the sum of the iterates is formed:
    w = scale v, and with area the sum of gamma scale,

        sum of gamma w = area v - lag,    lag = sum over the steps (change of v) (area before it).
    """
    radius2, last = 1.0 / lam, visits.size - 1
    for t in range(visits.size):
        prefetch_row(rows, visits[min(t + AHEAD, last)])
        i, own = visits[t], codes[t]
        square = squared_norm(rows, i)
        counts[own] += 1
        add(rows, i, 1.0, sums[own])
        # 1. a, b and alpha, and the step for w from the same point
        seen = counts[0] + counts[1]
        saddle[PEAK] = max(saddle[PEAK], square)
        saddle[POWER] += (square - saddle[POWER]) / seen
        gamma = min(1.0, zeta / np.sqrt(seen))
        step = min(gamma / (saddle[POWER] + lam), 1.0 / (square + lam))
        score = saddle[SCALE] * dot(rows, i, v)
        shrink, pull = _move_scalars(score, own, counts, saddle, gamma, step, lam)
        # 2. ||w||^2 before the projection, known beforehand
        norm = shrink * shrink * saddle[NORM] + pull * (2.0 * shrink * score + pull * square)
        projected = norm > radius2
        saddle[SCALE] *= shrink
        if projected or not SMALLEST_SCALE < abs(saddle[SCALE]) < 1.0 / SMALLEST_SCALE:
            _fold(saddle, v, lag)
        # 3. w takes its step and is projected
        change = pull / saddle[SCALE]
        add_twice(rows, i, change, v, change * saddle[AREA], lag)
        saddle[NORM] = max(0.0, norm)
        if projected:
            saddle[NORM] = inner(v, v)
            if saddle[NORM] > radius2:
                saddle[SCALE] = np.sqrt(radius2 / saddle[NORM])
                saddle[NORM] = radius2
        # 4. the average takes in the projected w
        saddle[STEPS] += gamma
        saddle[AREA] += gamma * saddle[SCALE]


@kernel(error_model="numpy")
def _move_scalars(score, own, counts, saddle, gamma, step, lam):
    """Step b or a, and alpha, by gamma, project them, and return (shrink, pull): w is to become shrink w + pull x."""
    # share is that of the *other* class, 1 - p or p
    sign, share = 2.0 * own - 1.0, counts[1 - own] / (counts[0] + counts[1])
    both = share * (1.0 - share)
    centre, alpha = saddle[CENTRE + own], saddle[ALPHA]
    deviation = score - centre
    bound = np.sqrt(saddle[PEAK] / lam)
    saddle[CENTRE + own] = min(bound, max(-bound, centre + gamma * share * deviation))
    saddle[ALPHA] = min(2.0 * bound, max(-2.0 * bound, alpha - gamma * (sign * share * score + both * alpha)))
    return 1.0 - step * both * lam, -step * share * (deviation - sign * (1.0 + alpha))


@kernel()
def _fold(saddle, v, lag):
    """Make scale 1 and area 0 without a change of w or of the sum of the iterates."""
    for f in range(v.shape[0]):
        lag[f] -= saddle[AREA] * v[f]
        v[f] *= saddle[SCALE]
    saddle[SCALE], saddle[AREA] = 1.0, 0.0
