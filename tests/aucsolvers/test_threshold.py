"""GMeanThreshold: rows left out of sampler and model set the cut; shortcuts are what fits would say."""

import imblearn.pipeline
import numpy as np
import pandas as pd
import pytest
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.under_sampling import RandomUnderSampler
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import (
    LSSVM,
    MWMOTE,
    SVMOR,
    ZOVR,
    GeometricUnderSampler,
    GMeanThreshold,
    KernelFeatures,
    KernelSVM,
    LinearSVM,
    MarginMeanSVM,
)
from aucsolvers.adapters import ProbabilityScorer
from aucsolvers.committee import Committee
from aucsolvers.metrics import auc, best_gmean_threshold, gmean, smoothed_gmean_threshold
from aucsolvers.threshold import Scores, _flat, landmarks, left_out_scores, standardised

X, y = make_classification(400, 6, n_informative=4, weights=[0.92], flip_y=0.02, class_sep=0.8, random_state=3)
NEW, TRUTH = X[300:], y[300:]
X, y = X[:300], y[:300]
U2 = GeometricUnderSampler("u2", kernel="rbf", random_state=0)
CHANCE = RandomUnderSampler(random_state=0)


@parametrize_with_checks(
    [
        GMeanThreshold(LSSVM()),
        GMeanThreshold(ZOVR(kernel="rbf", max_iter=50, random_state=0)),
        GMeanThreshold(LinearSVM(random_state=0), sampler=GeometricUnderSampler("u1", random_state=0)),
    ]
)
def test_is_an_estimator(estimator, check):
    check(estimator)


def divided(rows, model):
    """The folds of a fitted model with random_state=0, over the rows that it kept."""
    seed = int(np.random.default_rng(0).integers(2**31))
    folds = StratifiedKFold(model.n_folds, shuffle=True, random_state=seed)
    return list(folds.split(rows, y[rows]))


def in_units_of(usual, part, held_out, alone):
    """The scores ``alone`` of the rows left out of a part, where neither model has landmarks."""
    return left_out_scores(Scores(usual), [(part, held_out)], [Scores(alone)])[held_out]


@pytest.mark.parametrize("scorer", [SVMOR(lam=0.1), KernelSVM(), SVC(gamma=0.2)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("sampler", [None, CHANCE], ids=["all rows", "by chance"])
def test_dropped_rows_have_the_models_score_and_kept_ones_that_of_a_model_without_their_fold(scorer, sampler):
    model = GMeanThreshold(scorer, sampler=sampler, random_state=0).fit(X, y)
    usual = model.estimator_.decision_function(X)
    kept = np.arange(len(y)) if sampler is None else model.sampler_.sample_indices_
    dropped = np.setdiff1d(np.arange(len(y)), kept)
    assert np.array_equal(model.left_out_scores_[dropped], usual[dropped])
    assert (sampler is None) == (len(dropped) == 0)
    for part, held_out in divided(kept, model):
        settled = {"gamma": model.estimator_.gamma_} if isinstance(scorer, KernelSVM) else {}
        alone = type(scorer)(**scorer.get_params() | settled).fit(X[kept[part]], y[kept[part]]).decision_function(X)
        own, common = alone[kept[part]], usual[kept[part]]
        expected = (alone[kept[held_out]] - np.median(own)) / own.std() * common.std() + np.median(common)
        assert model.left_out_scores_[kept[held_out]] == pytest.approx(expected, abs=1e-9)
    assert model.threshold_ == smoothed_gmean_threshold(np.where(y == 1, 1, -1), model.left_out_scores_)
    assert np.array_equal(model.predict(NEW), (model.estimator_.decision_function(NEW) > model.threshold_).astype(int))


@pytest.mark.parametrize("scorer", [SVMOR(lam=0.1), MarginMeanSVM(kernel="rbf"), SVC(gamma=0.2)], ids=str)
@pytest.mark.parametrize("scheme", ["u1", "u2", "wu"])
def test_distances_are_measured_without_the_fold(scorer, scheme):
    """What lies far from a plane that knew its label is dropped by its label. Widths of kernels are settled once."""
    sampler = GeometricUnderSampler(scheme, kernel="rbf", random_state=0)
    model = GMeanThreshold(scorer, sampler=sampler, random_state=0).fit(X, y)
    usual = model.estimator_.decision_function(X)
    svm = KernelSVM(gamma=model.sampler_.estimator_.gamma_, class_weight="balanced")
    settled = {"gamma": model.estimator_.gamma_} if isinstance(scorer, MarginMeanSVM) else {}
    for part, held_out in divided(np.arange(len(y)), model):
        again = GeometricUnderSampler(scheme, estimator=svm, random_state=0)
        kept = again.fit_resample(X[part], y[part])
        alone = type(scorer)(**scorer.get_params() | settled).fit(*kept).decision_function(X)
        expected = in_units_of(usual, part, held_out, alone)
        assert model.left_out_scores_[held_out] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("solver", [LinearSVM(class_weight="balanced"), LSSVM(lam=0.01)], ids=str)
def test_left_out_scores_of_noise_are_noise_behind_u2(solver):
    found = []
    for seed in range(8):
        rows, labels = np.random.default_rng(seed).normal(size=(800, 40)), np.arange(800) < 20
        sampler = GeometricUnderSampler("u2", random_state=seed)
        model = GMeanThreshold(solver, sampler=sampler, random_state=seed).fit(rows, labels)
        found.append(auc(labels, model.left_out_scores_))
    assert abs(np.mean(found) - 0.5) < 0.1


def test_a_narrow_kernel_is_cut_where_the_exact_solver_would_cut_it():
    """100 features, hardly any signal: dual coordinate ascent takes thousands of passes here."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        labels, rows = np.arange(1000) < 40, rng.normal(size=(1000, 100))
        rows[labels, :5] += 0.5
        sampler = GeometricUnderSampler("u2", random_state=seed)
        ours, exact = (
            GMeanThreshold(solver, sampler=sampler, random_state=seed).fit(rows, labels)
            for solver in (ZOVR(kernel="rbf", random_state=0), MarginMeanSVM(kernel="rbf"))
        )
        assert auc(labels, ours.left_out_scores_) == pytest.approx(auc(labels, exact.left_out_scores_), abs=0.02)
        assert np.mean(ours.predict(rows) == exact.predict(rows)) > 0.9


@pytest.mark.parametrize(
    "sampler", [MWMOTE(random_state=0), RandomOverSampler(random_state=0)], ids=["made", "repeated"]
)
def test_rows_are_made_without_the_fold(sampler):
    """A row that is repeated, or made from others, would tell the model of its fold about those left out."""
    model = GMeanThreshold(LSSVM(lam=0.1), sampler=sampler, random_state=0).fit(X, y)
    usual = model.estimator_.decision_function(X)
    for part, held_out in divided(np.arange(len(y)), model):
        alone = LSSVM(lam=0.1).fit(*sampler.fit_resample(X[part], y[part])).decision_function(X)
        expected = in_units_of(usual, part, held_out, alone)
        assert model.left_out_scores_[held_out] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_scores_of_parts_are_those_of_exact_fits_to_the_parts(kernel, fit_intercept, convert):
    even = (X[:, 0] + np.random.default_rng(0).normal(size=300) > 0).astype(int)
    rows, same = convert(X), {"lam2": 30.0, "kernel": kernel, "fit_intercept": fit_intercept, "threshold": "zero"}
    model = ZOVR(**same, rank_tol=1e-9, random_state=0).fit(rows, even)
    parts = [np.arange(0, 250, 2), np.arange(200)]  # the last 50 are in none
    exact = MarginMeanSVM(**same, gamma=getattr(model, "gamma_", "scale"), random_state=0)
    for part, found in zip(parts, model.scores_of_parts(rows, even, parts), strict=True):
        expected = exact.fit(rows[part], even[part]).decision_function(rows)
        assert np.abs(found - expected).max() < 0.03 * expected.std()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_scores_of_parts_do_not_depend_on_rows_outside_of_the_part(kernel):
    """Not even by the basis, which is that of the rows in any part."""
    model = ZOVR(kernel=kernel, random_state=0).fit(X, y)
    part, others = np.arange(200), np.arange(200, 300)
    flipped = y.copy()
    flipped[others] = 1 - flipped[others]
    masked = next(model.scores_of_parts(X, y, [np.arange(300) < 200]))
    (as_is,), (changed,) = (model.scores_of_parts(X, labels, [part]) for labels in (y, flipped))
    assert np.array_equal(as_is, changed) and np.array_equal(as_is, masked)
    (alone,) = model.scores_of_parts(X[part], y[part], [part])
    assert np.array_equal(as_is[part], alone)


def test_on_few_rare_rows_the_cut_is_better_than_the_solvers_own():
    """Twenty draws of 12 rare rows in 300, by two overlapping normal classes: more G-mean on average, on new rows."""
    own, ours = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        labels = np.arange(2300) % 25 == 0
        rows = rng.normal(size=(2300, 5)) + 1.3 * labels[:, None]
        solver = ZOVR(kernel="rbf", random_state=0)
        pipeline = GMeanThreshold(solver, sampler=U2, random_state=0).fit(rows[:300], labels[:300])
        scores = pipeline.estimator_.decision_function(rows[300:])  # less its own threshold
        own.append(gmean(labels[300:], scores > 0))
        ours.append(gmean(labels[300:], pipeline.predict(rows[300:])))
    assert np.mean(ours) > np.mean(own) + 0.02


@pytest.mark.parametrize("count", [40, 150, 210, 299])
def test_behind_kernel_features_units_are_those_of_rows_that_are_landmarks_of_neither_model(count):
    """Of 300 rows, 200 in a part: the last count leaves one such row, too few for a unit."""
    model = GMeanThreshold(narrow(count), random_state=0).fit(X, y)
    usual, own = model.estimator_.decision_function(X), model.estimator_[0].landmarks_
    for part, held_out in divided(np.arange(len(y)), model):
        chain = narrow(count).fit(X[part], y[part])
        neither = np.setdiff1d(np.arange(len(y)), np.r_[own, part[chain[0].landmarks_]])
        assert (len(neither) < 5) == (count == 299)
        alike, alone = part if count == 299 else neither, chain.decision_function(X)
        expected = (alone[held_out] - np.median(alone[alike])) / alone[alike].std() * usual[alike].std()
        assert model.left_out_scores_[held_out] == pytest.approx(expected + np.median(usual[alike]), abs=1e-9)


@pytest.mark.parametrize("sampler", [U2, MWMOTE(random_state=0)], ids=["dropped", "made"])
def test_behind_a_sampler_that_is_asked_again_they_are_those_of_all_rows_of_the_part(sampler):
    model = GMeanThreshold(narrow(40), sampler=sampler, random_state=0).fit(X, y)
    usual = model.estimator_.decision_function(X)
    for (part, held_out), alone in zip(
        divided(np.arange(len(y)), model),
        model._scores_without(X, y, [part for part, _ in divided(np.arange(len(y)), model)]),
        strict=True,
    ):
        assert alone.landmarks is None
        expected = in_units_of(usual, part, held_out, alone.values)
        assert model.left_out_scores_[held_out] == pytest.approx(expected, abs=1e-9)


def test_landmarks_are_those_of_a_pipeline_or_of_a_committees_members():
    chains = [narrow(count).fit(X, y) for count in (20, 30)]
    either = np.union1d(*(chain[0].landmarks_ for chain in chains))
    committee = Pipeline([("solver", Committee(chains).fit(X))])
    assert np.array_equal(np.flatnonzero(landmarks(committee, X)), either)
    scaled = make_pipeline(StandardScaler(), narrow(20)[0], LSSVM()).fit(X, y)
    assert np.array_equal(np.flatnonzero(landmarks(scaled, X)), scaled[1].landmarks_)
    for nested in (
        make_pipeline("passthrough", narrow(20)[0], None, LSSVM()),
        make_pipeline(StandardScaler(), narrow(20)),
        make_pipeline(make_pipeline(StandardScaler(), narrow(20)[0]), LSSVM()),
    ):
        nested.fit(X, y)
        (features,) = (step for step in _flat(nested) if isinstance(step, KernelFeatures))
        assert np.array_equal(np.flatnonzero(landmarks(nested, X)), features.landmarks_)
    with_sampler = imblearn.pipeline.make_pipeline(StandardScaler(), CHANCE, narrow(20)[0], LSSVM())
    assert landmarks(with_sampler.fit(X, y), X) is None and GMeanThreshold(with_sampler).fit(X, y).threshold_
    assert landmarks(make_pipeline(StandardScaler(), LSSVM()).fit(X, y), X) is None and landmarks(LSSVM(), X) is None


def test_a_kernel_that_sees_landmarks_alone_takes_its_unit_from_them():
    """Codes of six levels in three columns: a row is some landmark's copy, or has the score of all that are not."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 6, size=(400, 3)).astype(float)
    labels = rng.random(400) < np.where(rows[:, 0] == rows[:, 1], 0.6, 0.1)
    chain = make_pipeline(KernelFeatures(gamma=300.0, n_components=128, random_state=0), SVMOR(lam=0.01))
    model = GMeanThreshold(chain, random_state=0).fit(rows, labels)
    usual = model.estimator_.decision_function(rows)
    assert np.ptp(usual[~landmarks(model.estimator_, rows)]) < 1e-9
    assert np.ptp(model.left_out_scores_) > 0.5 * np.ptp(usual)


def narrow(count):
    """A pipeline whose kernel hardly sees a neighbour of any row."""
    return make_pipeline(KernelFeatures(gamma=3.0, n_components=count, random_state=0), SVMOR(lam=0.01))


@pytest.mark.parametrize("count", [200, 256])
def test_a_narrow_kernel_with_landmarks_for_half_of_its_rows_is_cut_near_the_best_place(count):
    """Four features of 200 are of use. In units of all rows fitted on, new rows' G-mean is 0.28 and 0.44 below."""
    lost = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        labels = np.arange(1400) % 10 == 0
        rows = rng.normal(size=(1400, 200))
        rows[labels, :4] += 1.5
        chain = make_pipeline(KernelFeatures(gamma_factor=3.0, n_components=count, random_state=0), SVMOR(lam=0.01))
        model = GMeanThreshold(chain, random_state=0).fit(rows[:460], labels[:460])
        scores, truth = model.decision_function(rows[460:]), labels[460:]
        best = gmean(truth, scores > best_gmean_threshold(truth, scores))
        lost.append(best - gmean(truth, scores > 0))
    assert np.mean(lost) < 0.08


def test_units_and_zeros_of_scores_play_no_part():
    usual = 3.0 + 2.0 * X[:, 0]
    splits = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
    found = [Scores((k + 1) * 7.0 * X[:, 0] - 100.0 * k) for k in range(4)]
    moved = left_out_scores(Scores(usual), splits, found)
    assert moved == pytest.approx(usual)


@pytest.mark.parametrize(
    "scorer", [ProbabilityScorer(GaussianNB()), RandomForestClassifier(20, random_state=0)], ids=str
)
def test_probabilities_are_taken_as_they_are(scorer):
    """They have one unit. Moved to a common spread they left [0, 1], the cut with them, and all rows were negative."""
    model = GMeanThreshold(scorer, random_state=0).fit(X, y)
    plain = scorer.estimator if isinstance(scorer, ProbabilityScorer) else scorer
    for part, held_out in divided(np.arange(len(y)), model):
        alone = clone(plain).fit(X[part], y[part]).predict_proba(X[held_out])[:, 1]
        assert np.array_equal(model.left_out_scores_[held_out], alone)


def test_a_model_around_one_knows_its_columns_and_what_it_takes():
    frame = pd.DataFrame(X).rename(columns="x{}".format)
    frame.iloc[0, 0] = np.nan
    for estimator in (HistGradientBoostingClassifier(max_iter=5), RandomForestClassifier(5)):
        model = GMeanThreshold(ProbabilityScorer(estimator), random_state=0).fit(frame, y)
        assert model.n_features_in_ == frame.shape[1] and list(model.feature_names_in_) == list(frame)
        tags, own = get_tags(model).input_tags, get_tags(estimator).input_tags
        assert (tags.allow_nan, tags.sparse) == (own.allow_nan, own.sparse)
    assert not get_tags(GMeanThreshold(estimator, sampler=MWMOTE())).input_tags.allow_nan


def test_a_class_of_one_row_leaves_the_models_own_scores():
    rows = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:1]]
    model = GMeanThreshold(LSSVM(lam=0.1)).fit(X[rows], y[rows])
    scores = model.estimator_.decision_function(X[rows])
    assert np.array_equal(model.left_out_scores_, scores)
    assert model.threshold_ == best_gmean_threshold(y[rows] == 1, scores)


def test_two_rows_of_a_class_make_two_folds():
    rows = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:2]]
    model = GMeanThreshold(LSSVM(lam=0.1), n_folds=5, random_state=0).fit(X[rows], y[rows])
    assert (model.left_out_scores_ != model.estimator_.decision_function(X[rows])).all()


def test_takes_frames_texts_and_pipelines():
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)])
    chain = make_pipeline(StandardScaler(), LSSVM(lam=0.1))
    model = GMeanThreshold(chain, random_state=0).fit(frame, np.where(y == 1, "yes", "no"))
    plain = GMeanThreshold(chain, random_state=0).fit(X, y)
    assert set(model.predict(frame)) == {"no", "yes"}
    assert model.threshold_ == pytest.approx(plain.threshold_, abs=1e-9)
    assert list(model.feature_names_in_) == list(frame.columns)


def test_the_same_integer_gives_the_same_bits():
    one, other = (
        GMeanThreshold(ZOVR(kernel="rbf", random_state=0), sampler=U2, random_state=5).fit(X, y) for _ in range(2)
    )
    assert np.array_equal(one.left_out_scores_, other.left_out_scores_) and one.threshold_ == other.threshold_


def test_a_forest_is_cut_by_its_probabilities():
    model = GMeanThreshold(RandomForestClassifier(20, random_state=0), random_state=0).fit(X, y)
    own = model.estimator_.decision_function(X)
    assert 0.0 <= model.threshold_ < 0.5 and (model.left_out_scores_[y == 1] < own[y == 1]).mean() > 0.8
    assert gmean(TRUTH == 1, model.predict(NEW) == 1) > gmean(TRUTH == 1, model.estimator_.predict(NEW) == 1)


def test_a_classifier_may_have_scores_only_once_it_is_fitted():
    stack = StackingClassifier([("naive", GaussianNB())], cv=3)
    assert not hasattr(stack, "predict_proba")
    assert GMeanThreshold(stack, random_state=0).fit(X, y).predict(X[:3]).shape == (3,)


def test_a_sampler_that_cannot_do_with_a_part_is_named_with_what_to_do():
    rows = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:7]]
    SMOTE().fit_resample(X[rows], y[rows])
    with pytest.raises(ValueError, match=r"of 2 folds of 3, .* class has 4, got SMOTE: .* Lower its number of neigh"):
        GMeanThreshold(LSSVM(), sampler=SMOTE(random_state=0)).fit(X[rows], y[rows])
    GMeanThreshold(LSSVM(), sampler=SMOTE(k_neighbors=3, random_state=0)).fit(X[rows], y[rows])


def test_bad_input_is_told():
    for n_folds in (0, 1):
        with pytest.raises(ValueError, match=f"Expected n_folds to be an integer >= 2, got {n_folds}"):
            GMeanThreshold(LSSVM(), n_folds=n_folds).fit(X, y)
    for estimator, shown in ((LinearRegression(), r"LinearRegression\(\)"), (None, "None"), ("svc", "'svc'")):
        with pytest.raises(
            ValueError, match=f"classifier with decision_function or predict_proba, got {shown}. Choose"
        ):
            GMeanThreshold(estimator).fit(X, y)
    with pytest.raises(
        ValueError, match=r"None or to have fit_resample, .*, got StandardScaler\(\)\. Choose a sampler"
    ):
        GMeanThreshold(LSSVM(), sampler=StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match="got one class"):
        GMeanThreshold(LSSVM()).fit(X, np.ones(300))
    with pytest.raises(ValueError, match="got no rows"):
        GMeanThreshold(LSSVM()).fit(X[:0], y[:0])
    with pytest.raises(NotFittedError):
        GMeanThreshold(LSSVM()).predict(X)
    with pytest.raises(ValueError, match="Expected rows of both classes in every part, got one class in 3 rows"):
        next(ZOVR(random_state=0).fit(X, y).scores_of_parts(X, y, [np.flatnonzero(y)[:3]]))
    with pytest.raises(NotFittedError):
        next(ZOVR().scores_of_parts(X, y, [np.arange(9)]))


def test_a_scorer_that_is_not_to_be_fitted_again_is_taken():
    """FrozenEstimator.set_params returns nothing."""
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    scorer = SVMOR().fit(X[:300], y[:300])
    model = GMeanThreshold(FrozenEstimator(scorer), random_state=0).fit(X[300:], y[300:])
    assert_array_equal(model.estimator_.decision_function(X), scorer.decision_function(X))
    assert gmean(y[300:], model.predict(X[300:])) > 0.9


@pytest.mark.parametrize("n_folds", [2, 5])
def test_there_are_as_many_folds_as_asked_for(n_folds):
    model = GMeanThreshold(LSSVM(lam=0.1), n_folds=n_folds, random_state=0).fit(X, y)
    usual = model.estimator_.decision_function(X)
    for part, held_out in divided(np.arange(len(y)), model):
        alone = LSSVM(lam=0.1).fit(X[part], y[part]).decision_function(X)
        expected = in_units_of(usual, part, held_out, alone)
        assert model.left_out_scores_[held_out] == pytest.approx(expected, abs=1e-9)


def test_rows_that_chance_takes_twice_are_left_out_twice():
    """In one fold fitted on and in another left out, they would be scored by models that know them."""
    sampler = RandomUnderSampler(replacement=True, random_state=0)
    model = GMeanThreshold(LSSVM(lam=0.1), sampler=sampler, random_state=0).fit(X, y)
    chosen = model.sampler_.sample_indices_
    assert len(np.unique(chosen)) < len(chosen)
    usual = model.estimator_.decision_function(X)
    for part, held_out in divided(np.arange(len(y)), model):
        alone = LSSVM(lam=0.1).fit(*sampler.fit_resample(X[part], y[part])).decision_function(X)
        expected = in_units_of(usual, part, held_out, alone)
        assert model.left_out_scores_[held_out] == pytest.approx(expected, abs=1e-9)


def test_a_sampler_of_an_earlier_fit_is_forgotten():
    model = GMeanThreshold(LSSVM(lam=0.1), sampler=RandomUnderSampler(random_state=0), random_state=0).fit(X, y)
    assert not hasattr(model.set_params(sampler=None).fit(X, y), "sampler_")


def test_scores_without_a_spread_are_shifted_only():
    for score, count in ((2.0, 4), (0.1, 7), (-0.1, 7), (0.0, 3)):  # the standard deviation of seven 0.1 is 1e-17
        assert_array_equal(
            standardised(np.array([score, score + 3.0]), np.full(count, score)), [0.0, (score + 3.0) - score]
        )


def test_folds_are_counted_in_the_rows_that_the_sampler_kept():
    """Of a class of which it kept one row there is nothing to leave out, however many the class has."""
    sampler = RandomUnderSampler(sampling_strategy={0: 1}, random_state=0)
    model = GMeanThreshold(LSSVM(lam=0.1), sampler=sampler, random_state=0).fit(X, y)
    scores = model.estimator_.decision_function(X)
    assert_array_equal(model.left_out_scores_, scores)
    assert model.threshold_ == best_gmean_threshold(np.where(y == 1, 1, -1), scores)


def test_sparse_rows_are_taken_where_sampler_and_estimator_both_take_them():
    boosting = HistGradientBoostingClassifier()
    assert get_tags(CHANCE).input_tags.sparse and not get_tags(boosting).input_tags.sparse
    for estimator, sparse_too in ((LSSVM(), True), (boosting, False)):
        assert get_tags(GMeanThreshold(estimator, sampler=CHANCE)).input_tags.sparse == sparse_too
