"""Geometric under-sampling: keep majority rows near an SVM's hyperplane more often than remote ones."""

from typing import ClassVar

import numpy as np
from imblearn.under_sampling.base import BaseCleaningSampler
from imblearn.utils import check_sampling_strategy
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from aucsolvers._base import CONVERGED, know_columns, plain_labels, validate_rows
from aucsolvers._hinge import NEGLIGIBLE_GAIN, is_no_better_than_a_constant, row_costs
from aucsolvers._params import as_generator, check_choice, check_count
from aucsolvers._rows import as_writable, refuse_polars, squares_are_small, stored_once, well_formed
from aucsolvers._transaction import transactional
from aucsolvers._width import some_rows
from aucsolvers.kernel_svm import KernelSVM
from aucsolvers.svm import LinearSVM

KERNELS = ("linear", "rbf")
INNER_PRODUCTS = ("linear", "rbf", "poly")  # kernels that are: below 0 ||w||^2 is so by rounding
SCHEMES = ("auto", "u1", "u2", "wu")
RATIO_OF_U2 = 10  # U1 below this imbalance ratio, U2 from it on, which looks at this many rows per minority row
# Free support vectors are equally far at the optimum. Solved to this tolerance, some more milliseconds, their distances
# differ by less than the part of the largest up to which two count as equal: no bin ends between them. So do those that
# differ by what rounding leaves of the scores.
TOL, EQUALLY_FAR, ROUNDING = 1e-8, 1e-5, 1e-12
# Of |b|, what scores of an SVM that does not tell its objective have to differ from it: where w = 0 is the optimum,
# solvers may leave less (LIBLINEAR 1e-12), and where it is not, it takes C of 1e-8 and an unpenalised b to get there.
LEAST_SPREAD = 1e-7
MOST_ROWS = 10_000  # that a Gaussian hyperplane is fitted to: some seconds, which grow as their square


class GeometricUnderSampler(BaseCleaningSampler):
    """U1, U2 and WU under-sampling of the majority class by distance to an SVM's hyperplane.

    An SVM is trained on all rows. With the distances gamma = |w'x + b| / ||w|| of the majority rows, M = ``n_bins``
    bins of equal width over [gamma_min, gamma_max], and q the bin of a row, nearest first, its keep rate is

        rho = 1 - (q - 1) / M,        q = clip(ceil(M (gamma - gamma_min) / (gamma_max - gamma_min)), 1, M)

    - **u1** keeps each row independently with probability rho.
    - **u2** first drops all but the 10 n_min rows *nearest* to the hyperplane (n_min minority rows; ties in input
      order; all stay if there are fewer), then does as u1 on those, over their own [gamma_min, gamma_max].
    - **wu** keeps exactly ceil(rho n_q) rows of the n_q in each bin, drawn without replacement.
    - **auto** is u1 below an imbalance ratio of 10 and u2 from 10 on.

    Minority rows are all kept, and so is all of the nearest bin; the size of the sample is an outcome, not an input.
    Distances that differ by no more than 1e-5 of the largest among the rows that may stay, or by rounding, are equal.

    Parameters
    ----------
    scheme : {"auto", "u1", "u2", "wu"}, default="auto"
    n_bins : int, default=10
        M >= 1; the source does not give it. M = 1 keeps every row (under u2: every one of the nearest).
    kernel : {"linear", "rbf"}, default="linear"
        Where no ``estimator`` is given: whether the hyperplane is that of ``LinearSVM(class_weight="balanced",
        tol=1e-8)`` or, in a Gaussian kernel's space, of ``KernelSVM(gamma="loo", class_weight="balanced")``. Take "rbf"
        before a solver with Gaussian scores: rows that a straight boundary passes by may be the ones next to theirs.
        Without weights it may cost less to misclassify a rare class altogether than to separate it: w is then 0 up to
        rounding, and distances to that hyperplane are noise.
    estimator : classifier with ``decision_function``, default=None
        In place of those, a linear model (``coef_``) or a kernel SVM (``dual_coef_``, ``support_vectors_``), for two
        classes: ours, and scikit-learn's LinearSVC, SVC and NuSVC with any kernel but a precomputed or callable one. A
        clone of it is fitted. To use a model that is already fitted, pass ``sklearn.frozen.FrozenEstimator(model)``.
        Features are taken as they are: put the scaler *before* the sampler in the pipeline.
    sampling_strategy : str or list, default="auto"
        Which classes to sample, as for imbalanced-learn's cleaning methods; "auto" is all but the minority.
    random_state : None, int, RandomState or Generator, default=None
        Spawns independent streams for the estimator (if its own ``random_state`` is None) and for the draw.

    Attributes
    ----------
    sample_indices_ : ndarray of shape (n_kept,)
        Rows of the input that were kept, ascending.
    distances_, rates_ : ndarrays of shape (n_majority,)
        gamma and rho of every row outside the minority class, in input order. rho is 0 where u2 dropped the row and 1
        where ``sampling_strategy`` leaves its class alone.
    estimator_ : the fitted classifier
    scheme_ : {"u1", "u2", "wu"}
        The scheme that was used.
    imbalance_ratio_ : float
        Rows of the largest sampled class per minority row.
    sampling_strategy_ : dict
        Its keys are the classes sampled; its values are imbalanced-learn's and not used.

    Raises
    ------
    ValueError
        On an undefined parameter, a single class, a hyperplane with w = 0, to which no distance exists, or scores that
        are not finite.
    TypeError
        If the estimator has no weight vector to measure distances by.

    Notes
    -----
    The minority is the smallest class (the first of them in sorted order if tied). With more than two classes the
    hyperplane separates it from all others together; each sampled class then gets its own bins and, under u2, its own
    nearest rows, so that no class is lost.

    Of more than 10,000 rows the Gaussian hyperplane is fitted to 10,000: up to 5,000 of the minority, evenly spaced in
    either class. On 24 development sets (LIBSVM, UCI and scikit-learn's, ratio 6 to 80, none of Lu et al.) u2 and ZOVR
    with a Gaussian kernel had a mean test G-mean of 88.0 % with it and of 87.4 % with the linear one.

    The draw takes one uniform number per row outside the minority class, in input order: a row is kept if its number is
    below rho (u1, u2), or among the ceil(rho n_q) smallest of its bin (wu).

    WU is known to this project by description only: subregions by distance, a weight for each, more chance for a row in
    a subregion of more weight, less random than plain under-sampling. Quotas per bin are our reading of that: the rates
    of Lu et al. as weights, and no chance in how many rows each subregion contributes.

    Cost: one SVM, one evaluation of it, O(n), and O(n log n) for wu. Memory: O(n) beside the data.

    References
    ----------
    Lu, Zhang, Cai (2019). Zeroth order optimization algorithm based on undersampling. J. Nanjing Univ. of Aeronautics &
    Astronautics 51(5). Eq. 2 (distance), 3 (width), 4 (rate; printed without gamma_min, which can leave [0, 1]),
    algorithms 1 and 2 (algorithm 2 prints "descending", its argument needs the nearest).
    Kang, Shi, Zhou, Wang, Wu, Wei (2018). A distance-based weighted undersampling scheme for support vector machines
    and its application to imbalanced classification. IEEE Trans. Neural Networks and Learning Systems 29(9).

    Examples
    --------
    >>> import numpy as np
    >>> from aucsolvers import GeometricUnderSampler
    >>> X = np.r_[np.linspace(-10, -1, 40), np.linspace(1, 2, 8)].reshape(-1, 1)
    >>> y = np.r_[np.zeros(40, int), np.ones(8, int)]
    >>> sampler = GeometricUnderSampler(n_bins=4, random_state=0)
    >>> X_kept, y_kept = sampler.fit_resample(X, y)
    >>> sampler.scheme_, sampler.imbalance_ratio_, np.unique(sampler.rates_), (y_kept == 1).sum()
    ('u1', 5.0, array([0.25, 0.5 , 0.75, 1.  ]), np.int64(8))
    """

    # Not BaseUnderSampler, whose contract is a given number of rows per class: here chance decides how many go.

    # what imbalanced-learn takes from a cleaning method: its own list has more, all of which it refuses later
    _parameter_constraints: ClassVar = {
        "sampling_strategy": [StrOptions({"auto", "majority", "not minority", "not majority", "all"}), list]
    }

    def __init__(
        self,
        scheme="auto",
        *,
        n_bins=10,
        kernel="linear",
        estimator=None,
        sampling_strategy="auto",
        random_state=None,
    ):
        super().__init__(sampling_strategy=sampling_strategy)
        self.scheme = scheme
        self.n_bins = n_bins
        self.kernel = kernel
        self.estimator = estimator
        self.random_state = random_state

    @transactional
    def fit_resample(self, X, y, **params):
        """Return those of the rows X, shape (n_samples, n_features), that are kept, and their labels."""
        refuse_polars(X)
        rows = as_writable(well_formed(X))
        if params or plain_labels(rows, y) is None or not squares_are_small(rows):
            return super().fit_resample(X, y, **params)
        # the checks of arrays that are to be taken as they are would cost as much as the SVM of a few hundred rows
        self._validate_params()
        know_columns(self, rows)
        self.sampling_strategy_ = check_sampling_strategy(self.sampling_strategy, y, self._sampling_type)
        return self._fit_resample(rows, y)

    def _fit_resample(self, X, y, gamma="loo", minority=None):
        self.check_parameters()
        counts = dict(zip(*np.unique(y, return_counts=True), strict=True))
        minority = min(counts, key=counts.get) if minority is None else minority
        n_min, sampled = counts[minority], [c for c in self.sampling_strategy_ if c != minority]
        self.imbalance_ratio_ = float(max((counts[c] for c in sampled), default=n_min) / n_min)
        self.scheme_ = self.scheme if self.scheme != "auto" else "u1" if self.imbalance_ratio_ < RATIO_OF_U2 else "u2"

        estimator_stream, draw_stream = as_generator(self.random_state).spawn(2)
        majority = np.flatnonzero(y != minority)
        # parts of an entry would spoil lengths, and some SVMs of other libraries merge them in the caller's matrix
        distances = self._measure(stored_once(X), y == minority, estimator_stream, gamma)
        self.distances_ = distances[majority]
        uniforms = draw_stream.random(len(majority))

        self.rates_ = np.ones(len(majority))
        kept = y == minority
        kept[majority] = True
        for c in sampled:
            of_class = np.flatnonzero(y[majority] == c)
            rates, drawn = _sample(self.distances_[of_class], uniforms[of_class], self.scheme_, self.n_bins, n_min)
            self.rates_[of_class] = rates
            kept[majority[of_class]] = drawn
        self.sample_indices_ = np.flatnonzero(kept)
        return X[self.sample_indices_], y[self.sample_indices_]

    def kept_of_parts(self, X, y, parts):
        """Yield, for each part of the rows X, an index array, those of it that a sampler of the part alone keeps.

        For a fitted sampler, and rows and labels of its kind. Settled are the scheme, the minority and the width of the
        kernel, which look at all rows together; the hyperplane, the bins and the draw are each part's own.
        """
        check_is_fitted(self)
        X, y = validate_rows(self, X), np.asarray(y)
        classes, counts = np.unique(y, return_counts=True)
        gamma, minority = getattr(self.estimator_, "gamma_", "loo"), classes[counts.argmin()]
        for part in parts:
            if not np.any(y[part] == minority):
                raise ValueError(
                    f"Expected rows of the minority, {minority!r}, in every part, got none in {len(y[part])} rows."
                )
            sampler = clone(self).set_params(scheme=self.scheme_)
            sampler.sampling_strategy_ = self.sampling_strategy_
            sampler._fit_resample(X[part], y[part], gamma, minority)
            yield part[sampler.sample_indices_]

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_choice("scheme", self.scheme, SCHEMES)
        check_count("n_bins", self.n_bins)
        check_choice("kernel", self.kernel, KERNELS)
        if self.kernel != "linear" and self.estimator is not None:
            raise ValueError(
                f"Expected kernel or estimator, got kernel={self.kernel!r} and {type(self.estimator).__name__}. "
                "Leave kernel at 'linear': the hyperplane is the estimator's."
            )

    def _measure(self, X, is_minority, stream, gamma):
        """Fit the estimator, a Gaussian one of our own with this gamma; return every row's distance from its plane."""
        labels, scores = is_minority.astype(int), None
        if self.estimator is None and self.kernel == "rbf":
            svm = self.estimator_ = KernelSVM(gamma=gamma, class_weight="balanced")
            rows = some_rows(labels - 0.5, MOST_ROWS)
            if len(rows) < len(labels):
                labels = labels[rows]
                svm.fit(X[rows], labels)
            else:
                scores = svm.fit_scores(X, labels)
        else:
            self.estimator_ = (
                LinearSVM(class_weight="balanced", tol=TOL) if self.estimator is None else clone(self.estimator)
            )
            if self.estimator_.get_params().get("random_state", 0) is None:
                self.estimator_.set_params(random_state=int(stream.integers(2**31)))
            if getattr(self.estimator_, "kernel", None) == "precomputed":
                raise _not_an_svm(self.estimator_)  # whose fit would ask for a square of numbers
            self.estimator_.fit(X, labels)
            scores = self.estimator_.decision_function(X) if _is_solved_svc(self.estimator_) else None
        distances = hyperplane_distances(self.estimator_, X, scores)
        if _has_no_hyperplane(self.estimator_, labels, scores, distances):
            raise _no_hyperplane(self.estimator_)
        return distances

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.sampler_tags.sample_indices = True
        return tags


def hyperplane_distances(estimator, X, scores=None):
    """Return |f(x)| / ||w|| for the rows of X, f and w being those of a fitted two-class linear model or kernel SVM.

    ``scores`` are f(x) where the rows are all those that the model was fitted to and these are known.
    """
    is_linear = hasattr(estimator, "coef_")
    # of a precomputed kernel scikit-learn keeps no vectors, of which it says that they have no features
    is_kernel = hasattr(estimator, "dual_coef_") and np.shape(getattr(estimator, "support_vectors_", None))[1:] > (0,)
    if not (is_linear or is_kernel) or not hasattr(estimator, "decision_function"):
        raise _not_an_svm(estimator)
    if not is_linear and estimator.support_vectors_.shape[0] == 0:
        raise _no_hyperplane(estimator)
    known = scores is not None
    scores = scores if known else estimator.decision_function(X)
    if np.ndim(scores) != 1 or not np.isfinite(scores).all():
        raise ValueError(
            f"Expected one finite score per row, got shape {np.shape(scores)} from {type(estimator).__name__}. "
            "Fit it on two classes, and scale the features first."
        )
    if is_linear:
        norm = _linear_norm(estimator, scores)
    else:
        of_vectors = scores[estimator.support_] if known else estimator.decision_function(estimator.support_vectors_)
        norm = _kernel_norm(estimator, of_vectors)
    if not norm > 0:
        raise _no_hyperplane(estimator)
    return np.abs(scores) / norm


def _not_an_svm(estimator):
    return TypeError(
        "Expected a linear model (coef_) or a kernel SVM (dual_coef_, support_vectors_) that classifies, got "
        f"{type(estimator).__name__}. Pass an SVM, with a kernel that is neither precomputed nor callable, and put "
        "its preprocessing before the sampler in the pipeline."
    )


def _no_hyperplane(estimator):
    return ValueError(
        f"Expected a hyperplane with w != 0 to measure distances from, got w = 0 from {type(estimator).__name__}. "
        "Are all features constant? If they are tiny or huge, scale them; else raise C, or set class_weight='balanced' "
        "on an estimator of your own."
    )


def _has_no_hyperplane(svm, labels, scores, distances):
    """Tell whether an SVM that arrived is no lower than w = 0 with the best b: then its w is what tol leaves.

    ``labels`` are those that it was fitted to, 1 for the minority. Of scikit-learn's SVC the rows' scores and distances
    tell the objective.
    """
    positive = labels > 0
    if isinstance(svm, LinearSVM | KernelSVM):
        cost = row_costs(svm.C, svm.class_weight, svm.classes_, labels - 0.5, None)
        return svm.status_ == CONVERGED and is_no_better_than_a_constant(svm, svm.objective_, cost, positive)
    if not _is_solved_svc(svm):
        return False
    cost = svm.C * svm.class_weight_[labels]
    farthest = np.argmax(distances)
    norm = np.abs(scores[farthest]) / distances[farthest]
    constant = 2.0 * min(cost[positive].sum(), cost[~positive].sum())
    return 0.5 * norm**2 + _losses_at_best_bias(scores, positive, cost) >= (1.0 - NEGLIGIBLE_GAIN) * constant


def _is_solved_svc(svm):
    """Tell whether this is scikit-learn's own class, which was not stopped on its way."""
    return type(svm) is SVC and svm.max_iter == -1


def _losses_at_best_bias(scores, positive, cost):
    """Return the least sum of hinge losses that a shift of the scores makes, by a weighted quantile."""
    ends = np.where(positive, 1.0, -1.0) - scores  # where a shift ends a positive row's loss and begins another's
    ascending = np.argsort(ends)
    slope = np.cumsum(cost[ascending]) - cost[positive].sum()
    shift = ends[ascending[np.argmax(slope >= 0.0)]]
    return cost @ np.maximum(0.0, np.where(positive, ends - shift, shift - ends))


def _linear_norm(linear, scores):
    """Return ||w|| of a linear model; 0 if all scores are its intercept, up to what tolerances leave of w."""
    bias = float(np.ravel(getattr(linear, "intercept_", 0.0))[0])
    if np.abs(scores - bias).max() <= LEAST_SPREAD * abs(bias):
        return 0.0
    return np.linalg.norm(linear.coef_.data if sparse.issparse(linear.coef_) else linear.coef_)


def _kernel_norm(svm, scores):
    """Return ||w|| of a kernel SVM, w = sum_j a_j phi(x_j) over its support vectors, whose scores f(x_j) are given.

    As f(x_j) - b = <w, phi(x_j)>,

        ||w||^2 = a'G a = sum_j a_j (f(x_j) - b),

    which needs neither the kernel nor its Gram matrix: any kernel will do but a precomputed one. What is no larger than
    the rounding of this sum is 0; the terms of the scores are at most |a_j| where the kernel is a Gaussian.
    """
    coefficients = svm.dual_coef_.toarray() if sparse.issparse(svm.dual_coef_) else svm.dual_coef_
    square, name = (coefficients @ (scores - svm.intercept_)).item(), getattr(svm, "kernel", None)
    terms = np.abs(scores) + np.abs(svm.intercept_) + (np.abs(coefficients).sum() if name == "rbf" else 0.0)
    rounding = np.finfo(float).eps * (np.abs(coefficients) @ terms).item()
    if square < -rounding and name not in INNER_PRODUCTS:
        raise ValueError(
            f"Expected a kernel that is an inner product, got ||w||^2 = {square:.3g} from {type(svm).__name__}"
            f"(kernel={name!r}): there is no distance. Use 'rbf', 'poly' or 'linear'."
        )
    return np.sqrt(square) if square > rounding else 0.0


def bins_of_distance(distances, n_bins, unit=0.0):
    """Return the bin, 1 (nearest) to n_bins, of each distance; all are in bin 1 if all distances are equal.

    Bins are (edge, next edge] but for the first, which gamma_min belongs to as well. Distances that differ by at most
    ``unit`` are equal up to rounding: many rows of whole numbers are equally far, but for their last bits. So edges are
    that much farther out, but no more than half a bin: the farthest row is in the last bin.
    """
    low, high = distances.min(), distances.max()
    if not high - low > unit:
        return np.ones(len(distances), dtype=np.int64)
    # Dividing by the range, not by the width delta = range / M, makes gamma_max exactly the edge of bin M.
    place = n_bins * ((distances - low) / (high - low))
    return np.clip(np.ceil(place - min(0.5, n_bins * (unit / (high - low)))), 1, n_bins).astype(np.int64)


def _sample(distances, uniforms, scheme, n_bins, n_min):
    """Return rates and whether kept, of the rows of one majority class, for a scheme other than auto."""
    count = min(len(distances), RATIO_OF_U2 * n_min) if scheme == "u2" else len(distances)
    # of the nearest alone: a row that goes, however far, does not tell which of the others are equally far
    farthest = np.partition(distances, count - 1)[count - 1]
    unit = max(EQUALLY_FAR * farthest, ROUNDING * distances.max())
    candidates = _nearest(distances, count, farthest, unit)
    bins = bins_of_distance(distances[candidates], n_bins, unit)
    rates = np.zeros(len(distances))
    rates[candidates] = 1.0 - (bins - 1) / n_bins
    if scheme == "wu":
        return rates, _within_quota(bins, uniforms, n_bins)
    return rates, uniforms < rates


def _nearest(distances, count, farthest, unit):
    """Return the positions of the ``count`` smallest distances, of equal ones the first: O(n), without a sort.

    As equal count those that differ from ``farthest``, the last of them, by at most ``unit``.
    """
    chosen = distances < farthest - unit
    ties = np.flatnonzero(~chosen & (distances <= farthest + unit))
    chosen[ties[: count - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def _within_quota(bins, uniforms, n_bins):
    """Return which rows have one of the ceil(rho_q n_q) smallest uniforms of their bin q."""
    sizes = np.bincount(bins, minlength=n_bins + 1)
    # in integers, rho_q n_q = (M - q + 1) n_q / M: no quota is one off by rounding
    quotas = -(-(n_bins + 1 - np.arange(n_bins + 1)) * sizes // n_bins)
    by_bin = np.lexsort((uniforms, bins))
    first_of_bin = np.cumsum(sizes) - sizes
    rank = np.empty_like(by_bin)
    rank[by_bin] = np.arange(len(bins)) - first_of_bin[bins[by_bin]]
    return rank < quotas[bins]
