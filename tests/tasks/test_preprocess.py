"""Preprocessing: what each scaling does, on training rows only, for numbers, texts and sparse matrices."""

import warnings

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy.sparse import csr_matrix
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import quantile_transform

from aucsolvers.committee import Committee
from tasks import preprocess
from tasks.configuration import ExperimentConfig, PreprocessingConfig
from tasks.preprocess import known_texts, make_preprocessing, transform
from tasks.search import choose
from tasks.train import fit_model
from tasks.undersample import draw_sample
from tasks.values import Split, Table

SCALES = ("standard", "minmax", "quantile", "unit_rows", "centred_unit_rows", "piecewise", "none")


def numbers(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.normal(5, 2, n), "b": rng.exponential(size=n), "c": rng.integers(0, 3, n) * 1.0})


def scaled(train, rows, scale):
    fitted = make_preprocessing(train, PreprocessingConfig(scale=scale)).fit(train)
    return transform(fitted, rows)


def test_the_texts_of_training_are_known_of_a_pipeline_and_of_a_committee():
    def fitted(texts):
        X = pd.DataFrame({"n": np.arange(len(texts)) * 1.0, "t": texts, "few": ["a", "b"] * (len(texts) // 2)})
        return Pipeline([("preprocessing", make_preprocessing(X, PreprocessingConfig(max_categories=4)).fit(X))])

    one, other = fitted(["u", "v", None, "u"]), fitted(["u", "w", "x", "y"])
    assert known_texts(one) == {"t": (frozenset("uv"), False), "few": (frozenset("ab"), False)}
    assert known_texts(other)["t"] == (frozenset("uwxy"), True)
    assert known_texts(Committee([one, other]))["t"] == (frozenset("uvwxy"), True)
    assert known_texts(Pipeline([("preprocessing", make_preprocessing(numbers(), PreprocessingConfig()))])) == {}


class TestTablesOfMostlyZeros:
    """Words as columns of a table: what a sparse matrix of them would be."""

    @staticmethod
    def words(n=120, d=1500, gaps=0):
        rng = np.random.default_rng(0)
        values = np.zeros((n, d))
        values[rng.integers(0, n, 15 * n), rng.integers(0, d, 15 * n)] = rng.exponential(size=15 * n)
        values[rng.integers(0, n, gaps), rng.integers(0, d, gaps)] = np.nan
        return pd.DataFrame(values, columns=[f"w{j}" for j in range(d)])

    @pytest.mark.parametrize("scale", [scale for scale in SCALES if scale not in ("centred_unit_rows", "piecewise")])
    @pytest.mark.parametrize("gaps", [0, 30])
    def test_are_scaled_as_the_sparse_matrix(self, scale, gaps):
        X = self.words(gaps=gaps)
        sparse = csr_matrix(X.fillna(0.0))  # more than half of each column are 0: so is the median
        found, want = scaled(X, X, scale), scaled(sparse, sparse, scale)
        assert isinstance(found, csr_matrix) and found.nnz == want.nnz and abs(found - want).max() == 0.0
        fitted = make_preprocessing(X, PreprocessingConfig(scale=scale)).fit(X)
        stored = skops.io.dumps(fitted)
        back = skops.io.loads(stored, trusted=skops.io.get_untrusted_types(data=stored))
        assert (transform(back, X.iloc[:5]) != found[:5]).nnz == 0

    @pytest.mark.parametrize("scale", ["centred_unit_rows", "piecewise"])
    def test_stay_dense_where_the_scale_leaves_no_zeros(self, scale):
        X = self.words(d=1100)
        assert isinstance(scaled(X, X, scale), np.ndarray)

    @pytest.mark.parametrize("X", [words(d=1024), words(d=1500) + 1.0], ids=["few columns", "few zeros"])
    def test_stay_dense_where_sparse_rows_would_not_pay(self, X):
        assert isinstance(scaled(X, X, "standard"), np.ndarray)

    def test_stay_dense_for_a_solver_that_takes_no_other(self):
        X = self.words()
        fitted = make_preprocessing(X, PreprocessingConfig(), takes_sparse=False).fit(X)
        assert isinstance(transform(fitted, X), np.ndarray)


class TestNumbers:
    def test_each_scaling_is_what_its_name_says(self):
        X = numbers()
        values = X.to_numpy()
        assert np.allclose(scaled(X, X, "standard").mean(axis=0), 0.0)
        assert np.allclose(scaled(X, X, "standard").std(axis=0), 1.0)
        assert (scaled(X, X, "minmax").min(axis=0) == 0).all() and np.allclose(scaled(X, X, "minmax").max(axis=0), 1.0)
        assert np.allclose(scaled(X, X, "quantile"), quantile_transform(values, n_quantiles=50, copy=True))
        assert np.allclose(scaled(X, X, "unit_rows"), values / np.linalg.norm(values, axis=1, keepdims=True))
        centred = values - values.mean(axis=0)
        assert np.allclose(scaled(X, X, "centred_unit_rows"), centred / np.linalg.norm(centred, axis=1, keepdims=True))
        assert np.array_equal(scaled(X, X, "none"), values)
        ranks, hats = scaled(X, X, "quantile"), scaled(X, X, "piecewise").reshape(len(X), 3, -1)
        assert np.allclose(hats @ np.linspace(0.0, 1.0, hats.shape[2]), ranks)

    @pytest.mark.parametrize("scale", SCALES)
    def test_a_row_is_scaled_as_the_training_rows_say_whoever_comes_with_it(self, scale):
        train, rows = numbers(), numbers(20, seed=1) * 3
        together = scaled(train, rows, scale)
        apart = np.vstack([scaled(train, rows.iloc[[i]], scale) for i in range(len(rows))])
        assert np.array_equal(together, apart)

    @pytest.mark.parametrize("scale", SCALES)
    def test_nothing_warns_and_nothing_is_lost_in_the_store(self, scale):
        train = numbers().assign(word=["x", "y", None, "z", "x"] * 10, empty=np.nan)
        train.loc[3, "a"] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted = make_preprocessing(train, PreprocessingConfig(scale=scale)).fit(train)
            out = transform(fitted, train)
        stored = skops.io.dumps(fitted)
        loaded = skops.io.loads(stored, trusted=skops.io.get_untrusted_types(data=stored))
        assert np.isfinite(out).all()
        assert np.array_equal(transform(loaded, train), out)
        if "unit" in scale:
            assert np.allclose(np.linalg.norm(out, axis=1), 1.0), "words count in a row's norm"


class TestSparse:
    @pytest.mark.parametrize("scale", [scale for scale in SCALES if scale != "piecewise"])
    def test_zeros_stay_zeros(self, scale):
        rng = np.random.default_rng(0)
        dense = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.4)
        out = scaled(csr_matrix(dense), csr_matrix(dense), scale)
        assert out.format == "csr"
        assert not out.toarray()[dense == 0].any()

    def test_ranks_of_words_are_those_of_a_dense_table(self):
        """All words of a row became 0, and the model scored every row alike (a hostile tester's)."""
        counts = np.random.default_rng(0).poisson(0.5, (60, 4)).astype(float)
        table = pd.DataFrame(counts, columns=list("abcd"))
        assert np.allclose(
            scaled(csr_matrix(counts), csr_matrix(counts), "quantile").toarray(), scaled(table, table, "quantile")
        )

    def test_hats_would_fill_it(self):
        with pytest.raises(ValueError, match="Expected dense data"):
            scaled(csr_matrix(np.eye(3)), csr_matrix(np.eye(3)), "piecewise")

    @pytest.mark.parametrize("scale", ["standard", "minmax", "quantile", "unit_rows", "none"])
    @pytest.mark.parametrize("most, kind", [(2**30, np.ndarray), (100, csr_matrix)])
    def test_they_are_an_array_for_what_takes_no_other_if_they_are_not_too_large(self, monkeypatch, scale, most, kind):
        monkeypatch.setattr(preprocess, "FILLED_BYTES", most)
        X = csr_matrix(np.random.default_rng(0).normal(size=(40, 6)) * (np.arange(240).reshape(40, 6) % 3 == 0))
        fitted = make_preprocessing(X, PreprocessingConfig(scale=scale), takes_sparse=False).fit(X)
        stored = skops.io.dumps(fitted)
        out = transform(skops.io.loads(stored, trusted=skops.io.get_untrusted_types(data=stored)), X)
        assert isinstance(out, kind)
        assert np.allclose(out if kind is np.ndarray else out.toarray(), scaled(X, X, scale).toarray(), rtol=1e-15)

    def test_unit_rows(self):
        out = scaled(
            csr_matrix([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]]), csr_matrix([[3.0, 4.0], [0.0, 0.0]]), "unit_rows"
        )
        assert np.allclose(out.toarray(), [[0.6, 0.8], [0.0, 0.0]])


@pytest.mark.parametrize("rows", [3, 2000])
def test_quantiles_of_very_many_sparse_columns_are_refused_however_few_the_rows(rows):
    """16 KB a column, whatever is in it: a file of some megabytes took gigabytes."""
    X = csr_matrix((rows, 140_000))
    with pytest.raises(ValueError, match="140000 columns of sparse data, which need 2240000000"):
        make_preprocessing(X, PreprocessingConfig(scale="quantile"))
    make_preprocessing(X, PreprocessingConfig(scale="minmax"))


def test_a_column_that_overflows_is_named():
    train = pd.DataFrame({"small": [1.0, 2.0, 3.0], "huge": [1e308, -1e308, 1e308]})
    with pytest.raises(ValueError, match="'huge'"):
        scaled(train, train, "standard")


@pytest.mark.parametrize("takes_sparse", [True, False])
def test_a_feature_of_sparse_data_that_overflows_is_named(takes_sparse):
    """A solver said that X has NaN, and to impute them."""
    X = csr_matrix(np.random.default_rng(0).normal(size=(20, 4)) * [1.0, 1.0, 1e200, 1.0])
    fitted = make_preprocessing(X, PreprocessingConfig(), takes_sparse).fit(X)
    with pytest.raises(ValueError, match=r"too large in feature 3, counted from 1\. Divide them"):
        transform(fitted, X)


def test_a_column_of_mostly_zeros_that_overflows_is_named():
    X = TestTablesOfMostlyZeros.words()
    X["w7"] = np.random.default_rng(0).normal(size=len(X)) * 1e200
    with pytest.raises(ValueError, match="too large in column 'w7'"):
        scaled(X, X, "standard")


@pytest.mark.parametrize("unit", [1e-16, 1e-140, 1e307])
@pytest.mark.parametrize("storage", [lambda X: pd.DataFrame(X, columns=["a", "b", "c"]), csr_matrix])
def test_minmax_does_not_depend_on_the_unit(storage, unit):
    X = np.array([[0.0, -8.0, 1.0], [2.0, 8.0, 0.0], [0.0, 1.0, 4.0]])
    found, want = (scaled(storage(rows), storage(rows), "minmax") for rows in (X * unit, X))
    assert isinstance(found, type(want)) and abs(found - want).max() < 1e-15


class TestManyTexts:
    """One-hot codes are nearly all zero: of many rows and texts they are kept as what is not."""

    def frame(self, n=400, texts=6):
        rng = np.random.default_rng(3)
        columns = {f"t{j}": rng.choice(np.array([f"v{i}" for i in range(40)] + [None]), n) for j in range(texts)}
        return numbers(n).assign(**columns)

    @pytest.mark.parametrize("scale", SCALES)
    def test_are_the_same_numbers_in_a_sparse_matrix(self, monkeypatch, scale):
        X = self.frame()
        dense = scaled(X, X, scale)
        monkeypatch.setattr(preprocess, "DENSE_BYTES", dense.nbytes // 2)
        sparse = scaled(X, X, scale)
        assert isinstance(dense, np.ndarray) and isinstance(sparse, csr_matrix)
        assert np.allclose(sparse.toarray(), dense, rtol=1e-14, atol=0)
        new = X.iloc[:5].assign(t0="never seen", t1=None)
        fitted = make_preprocessing(X, PreprocessingConfig(scale=scale)).fit(X)
        back = skops.io.loads(skops.io.dumps(fitted), trusted=skops.io.get_untrusted_types(data=skops.io.dumps(fitted)))
        assert (transform(fitted, new) != transform(back, new)).nnz == 0

    def test_stay_dense_where_most_is_no_code(self, monkeypatch):
        X = self.frame(texts=0).assign(only=np.where(np.arange(400) % 3 == 0, "u", "v"))
        monkeypatch.setattr(preprocess, "DENSE_BYTES", 1)
        assert isinstance(scaled(X, X, "standard"), np.ndarray)

    @pytest.mark.parametrize("solver, is_dense", [("svm_or", False), ("sklearn.naive_bayes.GaussianNB", True)])
    @pytest.mark.parametrize("sampler", ["none", "u1", "random"])
    def test_are_what_the_solver_takes(self, monkeypatch, solver, is_dense, sampler):
        monkeypatch.setattr(preprocess, "DENSE_BYTES", 1)
        X = self.frame()
        table = Table(X, np.where(np.arange(400) % 4 == 0, 1, -1).astype(np.int8))
        whole = ExperimentConfig.model_validate(
            {
                "datasets": ["wine"],
                "methods": [{"solver": solver, "sampler": sampler}],
                "validation": {"threshold": "out_of_fold"},
            }
        )
        (method,), split = whole.methods, Split(0, np.arange(300), np.arange(300, 400))
        choice = choose(table, split, method, whole, 4)
        sample = draw_sample(table, split, method, whole.preprocessing.settled(choice.chosen.get("scale")), 1)
        assert isinstance(transform(sample.preprocessing, X), np.ndarray) == is_dense
        model = fit_model(table, split, sample, choice, method, whole, 4)
        assert np.isfinite(model.pipeline.decision_function(table.X)).all()

    def test_take_the_memory_of_what_is_not_zero(self):
        n, texts = 20_000, 20
        rng = np.random.default_rng(0)
        values = np.array([f"v{i}" for i in range(300)], dtype=object)
        X = pd.DataFrame({f"c{j}": values[rng.integers(0, 300, n)] for j in range(texts)})
        codes = scaled(X, X, "standard")
        assert codes.shape == (n, texts * 100) and codes.nnz == n * texts  # 320 MB as an array
        assert codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes < 8 * n * texts * 2


@pytest.mark.parametrize("storage", [lambda X: pd.DataFrame(X, columns=["a"]), csr_matrix])
def test_ranks_are_among_all_training_rows_however_many(storage):
    """Of more than 10,000 scikit-learn draws some, by numpy's global generator: no seed of ours decided which."""
    X = storage(1.0 + np.random.default_rng(0).exponential(size=(12_000, 1)))
    one, other = (transform(make_preprocessing(X, PreprocessingConfig(scale="quantile")).fit(X), X) for _ in range(2))
    same = one == other if isinstance(one, np.ndarray) else (one != other).nnz == 0
    assert np.all(same)


@pytest.mark.parametrize(("impute", "value"), [("median", 2.0), ("mean", 4.0), ("most_frequent", 1.0)])
def test_missing_numbers_are_imputed_as_the_config_says(impute, value):
    X = pd.DataFrame({"a": [1.0, 1.0, 2.0, 3.0, 13.0, np.nan]})
    fitted = make_preprocessing(X, PreprocessingConfig(impute=impute, scale="none")).fit(X)
    assert transform(fitted, X)[-1].tolist() == [value]


def test_a_text_that_training_had_not_is_a_rare_one():
    """As docs say of new rows: with rare texts that share a column it has that one, and not none."""
    X = pd.DataFrame({"shop": ["north"] * 5 + ["south"] * 5 + ["rare", "scarce"]})
    fitted = make_preprocessing(X, PreprocessingConfig(max_categories=3, scale="none")).fit(X)
    codes = transform(fitted, pd.DataFrame({"shop": ["never seen", "rare", "north"]}))
    assert np.array_equal(codes[0], codes[1]) and codes[0].sum() == 1 and not np.array_equal(codes[0], codes[2])
