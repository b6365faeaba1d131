"""Sampling inside the fold: which rows are kept and which are made, told apart whether the sampler tells or not."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from imblearn.combine import SMOTEENN
from imblearn.over_sampling import SMOTE, RandomOverSampler
from pydantic import ValidationError
from scipy import sparse
from sklearn.base import BaseEstimator

from aucsolvers.metrics import auc, best_gmean_threshold
from aucsolvers.undersampling import GeometricUnderSampler
from tasks import preprocess
from tasks.configuration import ExperimentConfig, MethodConfig
from tasks.fit import fitting_rows
from tasks.preprocess import one_hot_blocks, transform
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
    "smotenc": "made",
    "imblearn.over_sampling.RandomOverSampler": "made",
    "imblearn.over_sampling.ADASYN": "made",
    "imblearn.combine.SMOTEENN": "made",
}


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("sampler", FOREIGN)
def test_kept_rows_are_training_rows_once_each_and_all_others_are_added(sampler, kind):
    table = of_kind(kind, blobs())
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


def claims(n=300, seed=0):
    """Return a table of two numbers and two texts, one of seven values of which two are rare."""
    rng, y = np.random.default_rng(seed), np.where(np.arange(n) % 6 == 0, 1, -1).astype(np.int8)
    shares = np.array([0.3, 0.3, 0.2, 0.1, 0.08, 0.01, 0.01])
    columns = {
        "amount": rng.normal(size=n) + (y > 0),
        "place": rng.choice(list("abcdefg"), n, p=shares),
        "age": rng.normal(size=n),
        "paid": rng.choice(["yes", "no", None], n),
    }
    return Table(pd.DataFrame(columns), y)


@pytest.mark.parametrize("sparse_from", [1, 2**25])
def test_smotenc_takes_each_text_whole_whatever_columns_its_rare_values_share(sparse_from, monkeypatch):
    monkeypatch.setattr(preprocess, "DENSE_BYTES", sparse_from)
    monkeypatch.setattr(preprocess, "SPARSE_SHARE", 1.0)
    table, whole = claims(), config("smotenc")
    (split, *_) = make_splits(table.y, 3, 1, seed=0)
    settings = whole.preprocessing.model_copy(update={"max_categories": 4})
    sample = draw_sample(table, split, whole.methods[0], settings, 7)
    assert one_hot_blocks(sample.preprocessing) == ((2, 6), (6, 9))  # of place b, c, a and the rest; no, yes, missing
    names = sample.preprocessing.get_feature_names_out()
    assert [name.partition("__")[2].partition("_")[0] for name in names] == [
        "amount",
        "age",
        *["place"] * 4,
        *["paid"] * 3,
    ]
    assert sparse.issparse(sample.added.X) == (sparse_from == 1)
    made, plain = (X.toarray() if sparse_from == 1 else X for X in (sample.added.X, drawn(table, "smote")[1].added.X))
    assert len(made) == sample.n_neg - sample.n_pos and (sample.added.y > 0).all()
    assert set(np.unique(made[:, 2:])) == {0.0, 1.0}
    assert (made[:, 2:6].sum(axis=1) == 1.0).all() and (made[:, 6:].sum(axis=1) == 1.0).all()
    assert not set(np.unique(plain[:, 2:])) <= {0.0, 1.0}


@pytest.mark.parametrize(("columns", "blocks"), [(["place", "paid"], ((0, 7), (7, 10))), (["amount", "age"], ())])
def test_smotenc_does_without_numbers_or_texts(columns, blocks):
    table = claims()
    _, sample = drawn(Table(table.X[columns], table.y), "smotenc")
    assert one_hot_blocks(sample.preprocessing) == blocks
    assert sample.n_added == sample.n_neg - sample.n_pos
    if blocks:
        assert set(np.unique(sample.added.X)) == {0.0, 1.0}


def test_smotenc_says_which_scale_it_cannot_do_with():
    table, whole = claims(), config("smotenc", scale="unit_rows")
    (split, *_) = make_splits(table.y, 3, 1, seed=0)
    with pytest.raises(
        ValueError, match=r"one-hot columns from 2 up to 9.* Leave out what scales rows, such as unit_r"
    ):
        draw_sample(table, split, whole.methods[0], whole.preprocessing.settled("unit_rows"), 7)


def test_smotenc_is_told_of_texts_and_says_which_neighbours_it_lacks():
    with pytest.raises(ValidationError, match=r"parameters of smotenc out of k_neighbors, max_bytes, .*; got 'blocks'"):
        config("smotenc", sampler_params={"blocks": [[0, 2]]})
    with pytest.raises(ValueError, match=r"more than k_neighbors=60 rows .* got 33 of class 1\. Lower k_neighbors"):
        drawn(claims(), "smotenc", sampler_params={"k_neighbors": 60})
    theirs, ours = (drawn(claims(), sampler)[1].added.X for sampler in ("aucsolvers.OneHotSMOTENC", "smotenc"))
    assert np.array_equal(theirs, ours)


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


class Own(BaseEstimator):
    """A sampler of a user's: all positive rows, and twice as many negative ones, which stand before them."""

    def fit_resample(self, X, y):
        kept = np.concatenate([np.flatnonzero(y < 0)[: 2 * (y > 0).sum()], np.flatnonzero(y > 0)])
        return self.out(X, y, kept)

    def out(self, X, y, kept):
        return X[kept], y[kept]


class Tells(Own):
    def out(self, X, y, kept):
        self.sample_indices_ = kept
        return X[kept], y[kept]


class Relabels(Tells):
    def out(self, X, y, kept):
        super().out(X, y, kept)
        return X[kept], np.concatenate([[1, 1, 1], y[kept[3:]]])


class Moves(Tells):
    def out(self, X, y, kept):
        moved, _ = super().out(X, y, kept)
        moved[:3] = moved[:3] * 2
        return moved, y[kept]


class MovesInPlace(Own):
    def out(self, X, y, kept):
        X[kept[:3]] = X[kept[:3]] * 2
        return X[kept], y[kept]


class TellsNotAll(Tells):
    def out(self, X, y, kept):
        first, labels = super().out(X, y, kept)
        return stacked([first, X[:3] * 2]), np.concatenate([labels, y[:3]])


class TellsByMask(Own):
    def out(self, X, y, kept):
        self.sample_indices_ = np.isin(np.arange(len(y)), kept)
        return X[kept], y[kept]


def stacked(parts):
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.vstack(parts)


def of_kind(kind, table):
    if kind == "dense":
        return table
    return Table(sparse.csr_matrix(np.where(np.abs(table.X) < 0.5, 0, table.X)), table.y)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("Own", 0),
        ("Tells", 0),
        ("TellsByMask", 0),
        ("TellsNotAll", 3),
        ("Relabels", 3),
        ("Moves", 3),
        ("MovesInPlace", 3),
    ],
)
def test_what_a_sampler_of_ones_own_changes_reaches_the_solver_whatever_it_says(name, added, kind):
    """It is not taken at its word: a row that it says it kept was fitted on with the values and the label of before."""
    table = of_kind(kind, blobs())
    split, sample = drawn(table, f"{__name__}.{name}")
    X = transform(sample.preprocessing, table.rows(split.train).X)
    theirs = globals()[name]().fit_resample(X, table.y[split.train])
    assert signed(*fitting_rows(table, sample)) == signed(*theirs)
    assert (len(sample.rows), sample.n_added) == (len(theirs[1]) - added, added)


def signed(X, y):
    return sorted((*row, label) for row, label in zip(X.toarray() if sparse.issparse(X) else X, y, strict=True))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("shrinkage", [None, 1.0])
def test_copies_may_be_shaken_where_the_first_is_the_row_itself(shrinkage, kind):
    table = of_kind(kind, blobs())
    path = "imblearn.over_sampling.RandomOverSampler"
    split, sample = drawn(table, path, sampler_params={"shrinkage": shrinkage})
    assert np.array_equal(sample.rows, split.train)
    assert sample.n_added == sample.n_added_pos == sample.n_neg - sample.n_pos


class InForm(Own):
    """Returns the rows that it keeps, and three new ones, in the form that ``form`` names."""

    def __init__(self, form="array"):
        self.form = form

    def out(self, X, y, kept):
        rows, labels = stacked([X[kept], X[:3] + X[3:6]]), np.concatenate([y[kept], [1, 1, 1]])
        filled = rows.toarray() if sparse.issparse(rows) else rows
        return {
            "array": lambda: (filled, labels),
            "frames": lambda: (pd.DataFrame(filled).set_index(labels), pd.Series(labels, index=filled[:, 0])),
            "lists": lambda: [filled.tolist(), labels.tolist()],
            "float32": lambda: (filled.astype(np.float32), labels.astype(np.float32)),
            "sparse float32": lambda: (sparse.csr_matrix(filled, dtype=np.float32), labels),
            "csc": lambda: (sparse.csc_matrix(filled), labels),
            "coo": lambda: (sparse.coo_array(filled), labels[:, np.newaxis]),
        }[self.form]()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("form", ["array", "frames", "lists", "float32", "sparse float32", "csc", "coo"])
def test_what_a_sampler_returns_is_brought_to_the_form_of_the_rows(form, kind):
    """Rows in single precision are found among those given: they are fitted in double precision, and count as kept."""
    table = of_kind(kind, blobs())
    own, usual = (drawn(table, f"{__name__}.InForm", sampler_params={"form": one})[1] for one in (form, "array"))
    assert np.array_equal(own.rows, usual.rows) and own.n_added == own.n_added_pos == 3
    got, expected = fitting_rows(table, own), fitting_rows(table, usual)
    assert got[0].dtype == np.float64 and isinstance(got[0], type(expected[0]))
    assert got[1].dtype == table.y.dtype
    n_kept = len(own.rows)
    assert signed(got[0][:n_kept], got[1][:n_kept]) == signed(expected[0][:n_kept], expected[1][:n_kept])
    np.testing.assert_allclose(signed(*got), signed(*expected), rtol=1e-6)


class NotInForm(InForm):
    def out(self, X, y, kept):
        X, y = (X.toarray() if sparse.issparse(X) else X)[kept], y[kept]
        return {
            "array": lambda: X,
            "columns": lambda: (X[:, :2], y),
            "row": lambda: (X[0], y[:1]),
            "lengths": lambda: (X, y[3:]),
            "coded": lambda: (X, (y > 0).astype(int)),
            "texts": lambda: (X, np.where(y > 0, "1", "-1")),
            "words": lambda: (np.full(X.shape, "a"), y),
            "ragged": lambda: ([[1.0, 2.0, 3.0], [1.0]], y[:2]),
            "gaps": lambda: (np.where(X > 0, X, np.nan), y),
            "nothing": lambda: (X[:0], y[:0]),
        }[self.form]()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("array", "to return rows and labels, got a ndarray. Wrap it in a class that does."),
        ("columns", "to return rows of 3 columns, as it is given, got shape (48, 2). Wrap"),
        ("row", "to return rows of 3 columns, as it is given, got shape (3,). Wrap"),
        ("lengths", "to return a label for each row, got 48 rows and 45 labels. Wrap"),
        ("coded", "to return labels -1 and 1, as it is given, got 0 and 1. Wrap"),
        ("texts", "to return labels -1 and 1, as it is given, got '-1' and '1'. Wrap"),
        ("words", "to return rows of numbers and labels, got could not convert string to float"),
        ("ragged", "inhomogeneous part. Wrap"),
        ("gaps", "to return finite numbers, got NaN or infinity. Wrap"),
        ("nothing", "Expected rows of both classes after sampler 'test_undersample.NotInForm', got no rows."),
    ],
)
def test_what_cannot_be_brought_to_it_is_refused_in_one_line(form, words, kind):
    with pytest.raises(ValueError) as error:
        drawn(of_kind(kind, blobs()), f"{__name__}.NotInForm", sampler_params={"form": form})
    assert words in str(error.value) and "\n" not in str(error.value)
    assert words.startswith(("Expected", "sampler")) or "fit_resample of sampler 'test_und" in str(error.value)


class Shaken(BaseEstimator):
    """Somebody's sampler, which leaves no row as it was."""

    def fit_resample(self, X, y):
        return X + 1e-3 * np.sign(X), y


@pytest.mark.parametrize("threshold", ["training", "out_of_fold_smoothed"])
def test_rows_that_were_all_moved_are_fitted_and_the_real_ones_judge(threshold):
    table = blobs()
    tree = {"datasets": ["wine"], "methods": [{"solver": "ls_svm", "sampler": f"{__name__}.Shaken"}]}
    whole = ExperimentConfig.model_validate(tree | {"validation": {"threshold": threshold}})
    method, (split, *_) = whole.methods[0], make_splits(table.y, 2, 1, seed=0)
    sample = draw_sample(table, split, method, whole.preprocessing, 0)
    assert (len(sample.rows), sample.n_added) == (0, len(split.train))
    model = fit_model(table, split, sample, choose(table, split, method, whole, 4), method, whole, 4)
    test = table.rows(split.test)
    assert auc(test.y, model.pipeline.decision_function(test.X)) > 0.8
    assert np.isfinite(model.threshold)


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
    words = f"Expected two rows of either class for sampler '{sampler}'.* Take sampler random or mwmote, or raise folds"
    with pytest.raises(ValueError, match=words) as told:
        drawn(rows, sampler)
    assert "`, and one value of each parameter" in str(told.value)
    with pytest.raises(ValueError, match="threshold: training}`, no probabilities, and one value of each parameter"):
        drawn(rows, sampler, probabilities="sigmoid")


ADVISED = [
    ("smote", "training", {"params": {"lam": 0.1}}, True),
    ("smote", "training", {"grid": [0.1]}, True),
    ("smote", "training", {}, False),
    ("smote", "out_of_fold", {"grid": [0.1]}, False),
    ("random", "out_of_fold", {}, True),
    ("mwmote", "out_of_fold", {}, True),
]


@pytest.mark.parametrize(("sampler", "threshold", "more", "helps"), ADVISED)
def test_what_is_advised_helps_where_an_inner_division_leaves_a_single_row(sampler, threshold, more, helps):
    """Two of three rows are in each fold's training part: for search and threshold it is divided, and one is left."""
    table, _ = few(3)
    method = {"solver": "svm_or", "sampler": sampler, **more}
    validation = {"folds": 3, "threshold": threshold}
    whole = ExperimentConfig.model_validate({"datasets": ["wine"], "methods": [method], "validation": validation})
    with nullcontext() if helps else pytest.raises(ValueError, match=r"got one among the \d+ of a division\. Take"):
        for split in make_splits(table.y, 3, 1, seed=0):
            choice = choose(table, split, whole.methods[0], whole, 4)
            sample = draw_sample(table, split, whole.methods[0], whole.preprocessing, 7)
            fit_model(table, split, sample, choice, whole.methods[0], whole, 4)
