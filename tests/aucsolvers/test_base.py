"""What every solver shares: arrays that are taken as they are, and all that must not slip through with them."""

import copy
import warnings

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

import aucsolvers
from aucsolvers import (
    AUCSDCD,
    LSSVM,
    OPAUC,
    SOLAM,
    SPDAM,
    SVMOR,
    ZOVR,
    GMeanThreshold,
    KernelFeatures,
    KernelSVM,
    LinearSVM,
    MarginMeanSVM,
    _base,
)

FORMS = [np.ascontiguousarray, sparse.csr_array, sparse.csr_matrix]


def rows():
    X = np.random.default_rng(0).normal(size=(40, 3)) * (np.arange(3) < 2)
    return X, np.where(X[:, 0] > 0, 1, -1)


@pytest.fixture
def no_checks(monkeypatch):
    """scikit-learn's checks, which would read all values again, must not be asked for."""

    def refuse(*_, **__):
        raise AssertionError("checked by scikit-learn")

    monkeypatch.setattr(_base, "validate_data", refuse)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_plain_arrays_are_taken_as_they_are(no_checks, form, dtype):
    X, y = rows()
    X = form(X.astype(dtype))
    svm = LinearSVM(random_state=0)
    taken, _ = svm._validate_fit(X, y)
    assert taken is X and svm.n_features_in_ == 3
    assert_array_equal(svm.classes_, [-1, 1])


@pytest.mark.parametrize("form", FORMS)
def test_what_skips_the_checks_gives_the_model_that_passes_them(form, monkeypatch):
    X, y = rows()
    skipped = LinearSVM(random_state=0).fit(form(X), y)
    scores = skipped.decision_function(form(X))
    monkeypatch.setattr(_base, "_are_plain", lambda *_: False)
    checked = LinearSVM(random_state=0).fit(form(X), y)
    assert_array_equal(skipped.coef_, checked.coef_)
    assert_array_equal(scores, checked.decision_function(form(X)))


@pytest.mark.parametrize("form", FORMS)
def test_rows_to_score_are_taken_as_they_are_if_they_are_as_many_columns_of_numbers(form, monkeypatch):
    X, y = rows()
    svm, scored = LinearSVM(random_state=0).fit(form(X), y), form(X)
    asked, check = [], _base.validate_data
    monkeypatch.setattr(_base, "validate_data", lambda *given, **more: asked.append(1) or check(*given, **more))
    assert_array_equal(svm.decision_function(scored.astype(np.float32)) > 0, svm.decision_function(scored) > 0)
    assert not asked
    for wrong, words in (
        (np.where(X > 2, np.nan, X), "NaN"),
        (np.inf * np.ones((1, 3)), "infinity"),
        (X[:, :2], "2 fea"),
    ):
        with pytest.raises(ValueError, match=words):
            svm.decision_function(form(wrong))
    large = np.full((1, 3), 1e200)  # its square overflows, its score does not
    assert np.isfinite(svm.decision_function(form(large))).all() and len(asked) == 4


@pytest.mark.parametrize("solver", [LinearSVM(), LSSVM()], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (1e200, "squared norms overflow")])
def test_no_value_slips_through(solver, form, value, word):
    X, y = rows()
    X[7, 1] = value
    with pytest.raises(ValueError, match=word):
        solver.fit(form(X), y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("X", "y", "refused"),
    [
        (np.ones((4, 2)), [0, 1, 0], "inconsistent numbers of samples"),
        (np.ones((4, 2)), [0, 1, 2, 1], "expected two classes, got 3"),
        (np.ones((4, 2)), np.array([0, 1, 0, 1], dtype=object), "objects, 0 among them. Convert y, for example"),
        (np.ones((4, 2)), np.array(["a", 1, "a", 1], dtype=object), "objects, 1 among them. Convert y, for example"),
        (np.ones((4, 2)), np.array(["a", None, "b", "b"], dtype=object), "a label for every row, got None"),
        (np.ones((4, 0)), [0, 1, 0, 1], "0 feature"),
        (np.ones((4, 2)), [[0], [1], [0], [1]], None),  # a column of labels is flattened
        (np.ones((4, 2), dtype=int), [0, 1, 0, 1], None),  # whole numbers become floating-point ones
    ],
)
def test_all_else_goes_through_the_checks(form, X, y, refused):
    if refused is None:
        taken, labels = LinearSVM()._validate_fit(form(X), np.array(y))
        assert taken.dtype == np.float64 and labels.shape == (4,)
    else:
        with pytest.raises(ValueError, match=refused):
            LinearSVM()._validate_fit(form(X), np.array(y))


@pytest.mark.parametrize("form", FORMS)
def test_zeros_are_rows_too(form):
    taken, _ = LinearSVM()._validate_fit(form(np.zeros((4, 2))), np.array([0, 1, 0, 1]))
    assert taken.shape == (4, 2)


def test_a_sparse_matrix_of_another_kind_is_converted():
    X, y = rows()
    for kind in (sparse.csc_array, sparse.coo_array):
        taken, _ = LinearSVM()._validate_fit(kind(X), y)
        assert taken.format == "csr"


def damaged(case):
    """Return CSR rows of five columns, two stored values each, as SciPy makes them without a word."""
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix((rng.normal(size=100), rng.integers(0, 5, 100), np.arange(0, 101, 2)), shape=(50, 5))
    if isinstance(case, int):
        X.indices[7] = case
    else:
        starts = X.indptr.copy()
        X.indptr = {
            "negative": np.r_[starts[:5], -3, starts[6:]],
            "falling": np.r_[starts[:5], starts[8], starts[6:]],
            "beyond the values": np.r_[starts[:-1], 150],
            "too few": starts[:-3],
            "not from 0": np.r_[1, starts[1:]],
        }[case].astype(np.int32)
    return X


TAKE_SPARSE = [
    *(
        SVMOR(),
        LSSVM(),
        AUCSDCD(random_state=0),
        SOLAM(random_state=0),
        OPAUC(random_state=0),
        LinearSVM(random_state=0),
        KernelSVM(),
    ),
    *(MarginMeanSVM(random_state=0), MarginMeanSVM(kernel="rbf"), ZOVR(kernel="rbf", random_state=0)),
    KernelFeatures(random_state=0),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", TAKE_SPARSE, ids=str)
class TestDamagedSparseMatrices:
    """Kernels read and write where indices say: one that leads out of the matrix ended the process, or "converged"."""

    y = np.arange(50) % 3 == 0

    @pytest.mark.parametrize("index", [5, 9, -1, 2_000_000])
    def test_indices_that_lead_out_of_the_columns_are_refused(self, solver, index):
        self.refuses(solver, damaged(index), f"indices from 0 to 4, got {index}")

    @pytest.mark.parametrize("case", ["negative", "falling", "beyond the values", "too few", "not from 0"])
    def test_row_pointers_that_lead_out_of_the_values_are_refused(self, solver, case):
        self.refuses(solver, damaged(case), "indptr of 51 numbers that rise from 0 to at most 100")

    def refuses(self, solver, X, told):
        fitted = clone(solver).fit(damaged(0), self.y)
        apply = fitted.transform if hasattr(fitted, "transform") else fitted.decision_function
        for call in (lambda: clone(solver).fit(X, self.y), lambda: apply(X)):
            with pytest.raises(ValueError, match=told):
                call()

    def test_values_that_belong_to_no_row_are_not_seen(self, solver):
        X = damaged(0)
        longer = X.copy()
        longer.data, longer.indices = np.append(X.data, np.nan), np.append(X.indices, 77).astype(np.int32)
        models = [clone(solver).fit(rows, self.y) for rows in (X, longer)]
        first, second = (
            (model.transform if hasattr(model, "transform") else model.decision_function)(rows)
            for model, rows in zip(models, (longer, X), strict=True)
        )
        assert_array_equal(first, second)


def test_a_damaged_matrix_by_columns_is_refused_before_it_is_converted():
    X = sparse.csc_matrix(np.eye(6))
    X.indices[2] = 6
    with pytest.raises(ValueError, match="indices from 0 to 5, got 6"):
        LinearSVM().fit(X, np.arange(6) % 2)


FLAGS = [
    (AUCSDCD, "warm_start"),
    (KernelSVM, "fit_intercept"),
    (KernelSVM, "warm_start"),
    (LinearSVM, "fit_intercept"),
    (LinearSVM, "newton"),
    (LinearSVM, "warm_start"),
    (MarginMeanSVM, "fit_intercept"),
    (OPAUC, "keep_stream"),
    (OPAUC, "shuffle"),
    (SPDAM, "warm_start"),
    (SVMOR, "warm_start"),
    (ZOVR, "certify"),
    (ZOVR, "fit_intercept"),
    (ZOVR, "variance_reduction"),
]


@pytest.mark.parametrize("word", ["no", "false", 0, None], ids=str)
@pytest.mark.parametrize(("solver", "name"), FLAGS, ids=str)
def test_a_switch_is_true_or_false_and_no_word(solver, name, word):
    """A word is true in Python, and ``no`` is a word in YAML 1.2."""
    with pytest.raises(ValueError, match=f"Expected {name} to be True or False, got {word!r}"):
        solver(**{name: word}).fit([[0.0], [1.0]], [0, 1])
    solver(**{name: np.bool_(True)}).check_parameters()


@pytest.mark.parametrize("seed", ["x", 1.5, -1, True, [1, 2]], ids=str)
def test_a_seed_that_is_none_is_told_by_its_name(seed):
    with pytest.raises(ValueError, match="Expected random_state to be None, an integer >= 0, a RandomState or"):
        AUCSDCD(random_state=seed).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("tol", [np.nan, -1.0, np.inf, "small", True], ids=str)
def test_a_tolerance_may_be_zero_and_the_message_says_so(tol):
    with pytest.raises(ValueError, match="Expected tol to be a finite number >= 0"):
        SVMOR(tol=tol).fit([[0.0], [1.0]], [0, 1])


ESTIMATORS = [
    model
    for model in (getattr(aucsolvers, name) for name in aucsolvers.__all__)
    if isinstance(model, type) and hasattr(model, "get_params") and model not in (aucsolvers.Ranker, GMeanThreshold)
]


def outcome(model, X, y):
    """Return all that a model makes of rows, in arrays."""
    if hasattr(model, "fit_resample"):
        return model.fit_resample(X, y)
    model.fit(X, y)
    scores = model.decision_function(X) if hasattr(model, "decision_function") else model.transform(X)
    return scores, np.atleast_1d(getattr(model, "objective_", 0.0)), np.atleast_1d(getattr(model, "dual_gap_", 0.0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", ESTIMATORS)
@pytest.mark.parametrize("integer, real", [(np.int64, np.float64), (np.int32, np.float32)])
def test_numbers_of_numpys_types_are_numbers(model, integer, real):
    """As np.arange and np.logspace give them to a grid: narrow ones overflowed, or made the certificate a false one."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X[:150]), y[:150]
    usual = model().get_params(deep=False)
    if "random_state" in usual:
        usual["random_state"] = 0
    numbers = {name: value for name, value in usual.items() if type(value) in (int, float)}
    most = np.iinfo(integer).max  # bytes that a model may take are more, by default
    foreign = {name: real(v) if isinstance(v, float) else integer(min(v, most)) for name, v in numbers.items()}
    plain = {name: value.item() for name, value in foreign.items()}
    for ours, theirs in zip(*(outcome(model(**usual | given), X, y) for given in (plain, foreign)), strict=True):
        assert_array_equal(ours, theirs)


SCORERS = [model for model in ESTIMATORS if hasattr(model, "decision_function")]


def few(n_features=4):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) % 3 == 0, 1, -1)
    return rng.normal(size=(60, n_features)) + y[:, None], y


def published(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", SCORERS)
class TestAFitThatFailsLeavesTheModelAsItWas:
    """It had the refused data's number of features and the old weights: kernels read, and wrote, beyond the end."""

    def test_refused(self, model):
        X, y = few()
        model = model().fit(X, y)
        before, scores = published(model), model.decision_function(X)
        wide, _ = few(3000)
        with pytest.raises(ValueError, match="two classes"):
            model.fit(wide, np.zeros(60))
        assert published(model) == before
        with pytest.raises(ValueError, match="3000 features"):
            model.decision_function(wide)
        if hasattr(model, "partial_fit"):
            scores = model.set_params(keep_stream=True).fit(X, y).decision_function(X)
            with pytest.raises(ValueError, match="two classes"):
                model.fit(wide, np.zeros(60))
            with pytest.raises(ValueError, match="3000 features"):
                model.partial_fit(wide, y)
        assert_array_equal(model.decision_function(X), scores)

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
    def test_interrupted_at_the_end(self, model, error, monkeypatch):
        X, y = few()
        model = model().fit(X, y)
        before = published(model)

        def interrupt(*_):
            raise error

        for method in ("_publish_certificate", "_publish_stream"):
            if hasattr(model, method):
                monkeypatch.setattr(type(model), method, interrupt)
        with pytest.raises(type(error)):
            model.fit(*few(7))
        assert published(model) == before and model.decision_function(X).shape == (60,)


@pytest.mark.parametrize(
    "sampler", [aucsolvers.GeometricUnderSampler("u1"), aucsolvers.MWMOTE(random_state=0), aucsolvers.OneHotSMOTENC()]
)
def test_a_sampler_that_refuses_is_as_it_was(sampler):
    X, y = few()
    sampler.fit_resample(X, y)
    before = published(sampler)
    with pytest.raises(ValueError):
        sampler.set_params(sampling_strategy={1: -3}).fit_resample(*few(9))
    with pytest.raises(ValueError, match="class"):
        sampler.set_params(sampling_strategy="auto").fit_resample(few(9)[0], np.zeros(60))
    assert published(sampler) == before and sampler.n_features_in_ == 4


@pytest.mark.parametrize(
    ("former", "model"),
    [
        ("max_alpha_bytes", AUCSDCD(random_state=0)),
        ("max_buffer_bytes", aucsolvers.OAMInf(random_state=0)),
        ("max_covariance_bytes", OPAUC(random_state=0)),
        ("max_feature_bytes", aucsolvers.KernelFeatures(n_components=9, random_state=0)),
    ],
)
def test_a_model_that_was_stored_under_a_parameters_former_name_scores(former, model):
    X, y = few()
    model.fit(X, y)
    stored = model.__getstate__().copy()
    stored[former] = stored.pop("max_bytes")
    again = type(model).__new__(type(model))
    again.__setstate__(stored)
    answer = "transform" if hasattr(model, "transform") else "decision_function"
    assert_array_equal(getattr(again, answer)(X), getattr(model, answer)(X))
    assert again.get_params() == model.get_params()


class Own(AUCSDCD):
    def __init__(self, max_alpha_bytes=7):
        super().__init__()
        self.max_alpha_bytes = max_alpha_bytes


def test_a_subclass_may_have_a_former_name_for_itself():
    assert copy.deepcopy(Own()).get_params() == {"max_alpha_bytes": 7}


class Terminated(BaseException):
    """What a handler of signals may raise: no Exception, and no argument that BaseException would know of."""

    def __init__(self, signal):
        self.signal = signal


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), Terminated(signal=15), SystemExit(143)])
def test_an_interrupt_that_comes_out_of_a_kernel_as_an_error_is_an_interrupt(monkeypatch, interrupt):
    """Model selection takes errors for failed fits: a Ctrl-C was swallowed every other time."""

    def interrupted(*_):
        raise SystemError("returned a result with an exception set") from interrupt

    monkeypatch.setattr(SVMOR, "_publish", interrupted)
    with pytest.raises(type(interrupt)) as raised:
        cross_val_score(SVMOR(), *few(), cv=2)
    assert vars(raised.value) == vars(interrupt)
    assert getattr(raised.value, "code", None) == getattr(interrupt, "code", None)


def test_weights_of_other_rows_are_refused_before_a_kernel_sees_them():
    model = SVMOR().fit(*few())
    model.coef_ = np.ones((1, 3))
    with pytest.raises(ValueError, match="rows of 3 features, as there are weights, got 4"):
        model.decision_function(few()[0])


@pytest.mark.parametrize("model", [OPAUC, SOLAM, aucsolvers.UniExp, aucsolvers.OAMGra])
def test_a_stream_that_was_mapped_from_a_file_goes_on(model, tmp_path):
    X, y = few()
    whole = model(random_state=0).partial_fit(X[:30], y[:30])
    joblib.dump(whole, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    assert_array_equal(mapped.partial_fit(X[30:], y[30:]).coef_, whole.partial_fit(X[30:], y[30:]).coef_)


@pytest.mark.parametrize("model", [AUCSDCD, aucsolvers.AUCMSGD, SPDAM, LinearSVM, KernelSVM, SVMOR])
def test_a_warm_start_that_was_mapped_from_a_file_goes_on(model, tmp_path):
    X, y = few()
    begun = model(max_iter=1, warm_start=True)
    begun.set_params(**({"random_state": 0} if "random_state" in begun.get_params() else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        joblib.dump(begun.fit(X, y), tmp_path / "model")
        mapped = joblib.load(tmp_path / "model", mmap_mode="r")
        assert_array_equal(mapped.fit(X, y).decision_function(X), begun.fit(X, y).decision_function(X))


@pytest.mark.parametrize("model", [aucsolvers.AUCMSGD, SPDAM])
def test_an_interrupted_warm_start_goes_on_as_if_it_had_not_begun(model, monkeypatch):
    X, y = few()

    def two_fits(interrupt):
        begun = model(max_iter=2, tol=0.0, warm_start=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            begun.fit(X, y)
            if interrupt:
                with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                    patched.setattr(_base.Trace, "as_history", interrupted)
                    begun.fit(X, y)
            return begun.fit(X, y).coef_

    assert_array_equal(two_fits(interrupt=True), two_fits(interrupt=False))


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_first_fit_that_fails_leaves_an_unfitted_model():
    X, y = np.array([[0.0], [1.0], [2.0]]), [0, 1, 1]
    model = LinearSVM()
    before = dict(vars(model))
    with pytest.raises(ValueError, match="none in one class"):
        model.fit(X, y, sample_weight=[0.0, 1.0, 1.0])
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(X)
