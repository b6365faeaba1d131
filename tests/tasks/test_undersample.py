"""Sampling inside the fold: which rows are kept and which are made, told apart whether the sampler tells or not."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from imblearn.combine import SMOTEENN
from imblearn.over_sampling import SMOTE, RandomOverSampler
from scipy import sparse

from aucsolvers.metrics import best_gmean_threshold
from aucsolvers.undersampling import GeometricUnderSampler
from tasks.configuration import ExperimentConfig, MethodConfig
from tasks.fit import fitting_rows
from tasks.search import choose
from tasks.split import make_splits
from tasks.train import fit_model
from tasks.undersample import draw_sample, origins, settle_sampler
from tasks.values import Split, Table


def blobs(n=120, ratio=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % ratio == 0, 1, -1).astype(np.int8)
    return Table(pd.DataFrame(rng.normal(size=(n, 3)) + (y > 0)[:, None], columns=list("abc")), y)


def config(sampler, solver="svm_or", **more):
    method = {"solver": solver, "sampler": sampler, **more}
    return ExperimentConfig.model_validate({"datasets": ["wine"], "methods": [method]})


def drawn(table, sampler, **more):
    whole = config(sampler, **more)
    (split, *_) = make_splits(table.y, 3, 1, seed=0)
    return split, draw_sample(table, split, whole.methods[0], whole.preprocessing, 7)


FOREIGN = {
    "random": "none made",
    "imblearn.under_sampling.NearMiss": "none made",
    "imblearn.under_sampling.TomekLinks": "none made",
    "imblearn.under_sampling.ClusterCentroids": "made for lost",
    "mwmote": "made",
    "smote": "made",
    "imblearn.over_sampling.RandomOverSampler": "made",
    "imblearn.over_sampling.ADASYN": "made",
    "imblearn.combine.SMOTEENN": "made",
}


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("sampler", FOREIGN)
def test_kept_rows_are_training_rows_once_each_and_all_others_are_added(sampler, kind):
    table = blobs()
    if kind == "sparse":
        table = Table(sparse.csr_matrix(np.where(np.abs(table.X) < 0.5, 0, table.X)), table.y)
    split, sample = drawn(table, sampler)
    assert set(sample.rows) <= set(split.train)
    assert len(np.unique(sample.rows)) == len(sample.rows)
    kept, before = table.y[sample.rows], table.y[split.train]
    assert (sample.n_pos, sample.n_neg) == ((kept > 0).sum(), (kept < 0).sum())
    assert (sample.n_pos_before, sample.n_neg_before) == ((before > 0).sum(), (before < 0).sum())
    X, y = fitting_rows(table, sample)
    assert X.shape == (len(sample.rows) + sample.n_added, 3)
    assert len(y) == X.shape[0]
    in_place_of_lost = FOREIGN[sampler] == "made for lost" and kind == "dense"  # of sparse rows it keeps some
    assert (sample.n_added > 0) == (FOREIGN[sampler] == "made" or in_place_of_lost)
    if FOREIGN[sampler] == "made":
        assert (y > 0).sum() > sample.n_pos_before
    else:
        assert (y > 0).sum() == pytest.approx((y < 0).sum(), abs=0 if "Tomek" not in sampler else 60)


def test_an_over_sampler_adds_what_it_adds_by_hand():
    table = blobs()
    split, sample = drawn(table, "smote")
    X = sample.preprocessing.transform(table.rows(split.train).X)
    by_hand, labels = SMOTE(random_state=7).fit_resample(X, table.y[split.train])
    assert np.array_equal(sample.rows, split.train)
    assert np.array_equal(sample.added.X, by_hand[len(X) :])
    assert np.array_equal(sample.added.y, labels[len(X) :])
    assert (sample.n_added, sample.n_added_pos) == (sample.n_neg - sample.n_pos,) * 2


def test_rows_are_told_apart_where_the_sampler_does_not_tell_and_rows_are_copies():
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 2, size=(40, 3)).astype(float), np.where(np.arange(40) < 10, 1, -1)
    out, labels = RandomOverSampler(random_state=0).fit_resample(X, y)
    origin = origins(X, y, out, labels)
    assert np.array_equal(origin[:40], np.arange(40))  # all inputs come first, and copies keep their order
    assert (origin[40:] == -1).all()
    X = rng.normal(size=(40, 3))
    assert np.array_equal(origins(X, y, X[[3, 30, 3, 2]], np.array([1, -1, 1, -1])), [3, 30, -1, -1])


def test_a_sampler_that_makes_and_drops_rows_does_not_tell_and_is_told_apart():
    table = blobs()
    split, sample = drawn(table, "imblearn.combine.SMOTEENN")
    X = sample.preprocessing.transform(table.rows(split.train).X)
    out, labels = SMOTEENN(random_state=7).fit_resample(X, table.y[split.train])
    theirs = {(*row, label) for row, label in zip(out, labels, strict=True)}
    ours = fitting_rows(table, sample)
    assert {(*row, label) for row, label in zip(*ours, strict=True)} == theirs
    assert 0 < sample.n_neg < sample.n_neg_before


def test_synthetic_rows_move_the_solver_and_never_the_threshold():
    table = blobs(300)
    whole = config("smote", params={"lam": 0.1})
    method = whole.methods[0]
    (split, *_) = make_splits(table.y, 3, 1, seed=0)
    sample = draw_sample(table, split, method, whole.preprocessing, 7)
    model = fit_model(table, split, sample, choose(table, split, method, whole, 4), method, whole, 4)
    assert model.threshold_set_on == "training"
    real = table.rows(split.train)
    assert model.threshold == best_gmean_threshold(real.y, model.pipeline.decision_function(real.X))
    plain = config("none", params={"lam": 0.1})
    bare = draw_sample(table, split, plain.methods[0], plain.preprocessing, 7)
    other = fit_model(table, split, bare, choose(table, split, plain.methods[0], plain, 4), plain.methods[0], plain, 4)
    assert not np.allclose(model.pipeline[-1].coef_, other.pipeline[-1].coef_, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "method"),
    [
        ("linear", {"solver": "zovr"}),
        ("rbf", {"solver": "zovr_rbf"}),
        ("rbf", {"solver": "margin_mean_rbf"}),
        ("rbf", {"solver": "kernel_svm"}),
        ("rbf", {"solver": "svm_or", "kernel": "gaussian"}),
        ("linear", {"solver": "svm_or", "kernel": "polynomial"}),
        ("linear", {"solver": "zovr_rbf", "sampler_params": {"kernel": "linear"}}),
        ("rbf", {"solver": "ls_svm", "sampler_params": {"kernel": "rbf"}}),
        ("rbf", {"solver": "sklearn.svm.SVC"}),  # Gaussian unless it says otherwise
        ("linear", {"solver": "sklearn.svm.SVC", "params": {"kernel": "linear"}}),
    ],
    ids=str,
)
def test_the_hyperplane_is_of_the_kind_of_the_scores_unless_the_method_says(kernel, method):
    table, whole = blobs(ratio=12), config("u2", **method)
    (split, *_) = make_splits(table.y, 3, 1, seed=0)
    sample = draw_sample(table, split, whole.methods[0], whole.preprocessing, 7)
    train = table.rows(split.train)
    sampler = GeometricUnderSampler("u2", kernel=kernel, random_state=7)
    sampler.fit_resample(sample.preprocessing.transform(train.X), -train.y)
    assert np.array_equal(sample.rows, split.train[sampler.sample_indices_])


def test_no_other_sampler_is_asked_for_a_hyperplane():
    assert config("mwmote", solver="zovr_rbf").methods[0].sampler_settings == {}


def test_a_sampler_may_not_lose_a_class():
    table = blobs(n=36, ratio=6)
    neighbours = {"n_neighbors": 5, "kind_sel": "all", "sampling_strategy": "all"}
    with pytest.raises(ValueError, match="rows of both classes after sampler"):
        drawn(table, "imblearn.under_sampling.EditedNearestNeighbours", sampler_params=neighbours)


def test_seeds_decide_the_draw():
    table = blobs()
    one, two = (drawn(table, "mwmote")[1].added.X for _ in range(2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("sampler", "strategy", "expected"),
    [
        ("smote", {1: 100}, (100, 80)),
        ("mwmote", {1: 100}, (100, 80)),
        ("aucsolvers.MWMOTE", {1: 100}, (100, 80)),
        ("mwmote", {-1: 100}, (20, 100)),
        ("u1", [1], (20, 80)),
        ("u1", "auto", None),
        ("u1", [-1], None),
    ],
    ids=str,
)
def test_classes_are_named_by_the_labels_of_the_data(sampler, strategy, expected):
    """1 is the positive class to every sampler, ours and others: ours saw the signs changed, and took the other one."""
    table = blobs(150)
    _, sample = drawn(table, sampler, sampler_params={"sampling_strategy": strategy})
    got = sample.n_pos + sample.n_added_pos, sample.n_neg + sample.n_added - sample.n_added_pos
    if expected is None:
        assert got[0] == 20 and got[1] < 80
    else:
        assert got == expected


def test_of_equal_classes_the_positive_one_is_spared():
    _, sample = drawn(blobs(120, 2), "u1")
    assert sample.n_pos == 40 and sample.n_neg < 40


def few(n_pos):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(100) < n_pos, 1, -1).astype(np.int8)
    return Table(pd.DataFrame(rng.normal(size=(100, 2)), columns=list("ab")), y), Split(
        fold=0, train=np.arange(100), test=np.arange(0)
    )


@pytest.mark.parametrize("n_pos", [2, 3, 5, 6, 20])
def test_smote_takes_as_many_neighbours_as_there_are_unless_the_config_says(n_pos):
    """Five by default, which six rows have: with fewer, in a fold say, scikit-learn's search for them would fail."""
    table, split = few(n_pos)
    whole = config("smote")
    assert draw_sample(table, split, whole.methods[0], whole.preprocessing, 1).n_added == 100 - 2 * n_pos
    asked = config("smote", sampler_params={"k_neighbors": 7}).methods[0]
    if n_pos <= 7:
        with pytest.raises(ValueError, match="n_neighbors"):
            draw_sample(table, split, asked, whole.preprocessing, 1)


@pytest.mark.parametrize("n_pos", [2, 3, 20])
@pytest.mark.parametrize(
    "sampler",
    [
        "imblearn.over_sampling.ADASYN",
        "imblearn.over_sampling.BorderlineSMOTE",
        "imblearn.combine.SMOTEENN",
        "imblearn.combine.SMOTETomek",
        "imblearn.under_sampling.NearMiss",
        "imblearn.under_sampling.EditedNearestNeighbours",
    ],
)
def test_so_does_every_other_that_asks_for_neighbours(sampler, n_pos):
    table, split = few(n_pos)
    whole = config(sampler)
    sample = draw_sample(table, split, whole.methods[0], whole.preprocessing, 1)
    assert sample.n_pos + sample.n_neg + sample.n_added >= 2 * n_pos


def test_neighbours_that_are_asked_for_by_name_stay_and_the_sampler_is_named():
    table, split = few(3)
    whole = config("imblearn.over_sampling.ADASYN", sampler_params={"n_neighbors": 50})
    with pytest.raises(
        ValueError, match=r"sampler 'imblearn.over_sampling.ADASYN' on 100 training rows, 3 of the rarer"
    ):
        draw_sample(table, split, whole.methods[0], whole.preprocessing, 1)


@pytest.mark.parametrize("ratio, scheme", [(3.0, "u1"), (14.0, "u2"), (1 / 3, "u1"), (1 / 14, "u2"), (0.1, "u2")])
def test_auto_goes_by_the_rarer_class_whichever_is_positive(ratio, scheme):
    method = MethodConfig(solver="ls_svm", sampler="auto")
    assert settle_sampler(method, SimpleNamespace(imbalance_ratio=ratio)).sampler == scheme


@pytest.mark.parametrize("sampler", ["smote", "imblearn.over_sampling.BorderlineSMOTE"])
def test_a_single_row_has_no_neighbours_and_it_is_said(sampler):
    rows = blobs(60, 59).rows(np.arange(1, 60))
    assert (rows.y > 0).sum() == 1
    with pytest.raises(
        ValueError, match=f"Expected two rows of either class for sampler '{sampler}'.* Take fewer folds"
    ):
        drawn(rows, sampler)
