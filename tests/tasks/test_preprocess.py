"""Preprocessing: what each scaling does, on training rows only, for numbers, texts and sparse matrices."""

import warnings

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy.sparse import csr_matrix
from sklearn.preprocessing import quantile_transform

from tasks.configuration import PreprocessingConfig
from tasks.preprocess import make_preprocessing, transform

SCALES = ("standard", "minmax", "quantile", "unit_rows", "centred_unit_rows", "piecewise", "none")


def numbers(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.normal(5, 2, n), "b": rng.exponential(size=n), "c": rng.integers(0, 3, n) * 1.0})


def scaled(train, rows, scale):
    fitted = make_preprocessing(train, PreprocessingConfig(scale=scale)).fit(train)
    return transform(fitted, rows)


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

    def test_hats_would_fill_it(self):
        with pytest.raises(ValueError, match="Expected dense data"):
            scaled(csr_matrix(np.eye(3)), csr_matrix(np.eye(3)), "piecewise")

    def test_unit_rows(self):
        out = scaled(
            csr_matrix([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]]), csr_matrix([[3.0, 4.0], [0.0, 0.0]]), "unit_rows"
        )
        assert np.allclose(out.toarray(), [[0.6, 0.8], [0.0, 0.0]])


def test_a_column_that_overflows_is_named():
    train = pd.DataFrame({"small": [1.0, 2.0, 3.0], "huge": [1e308, -1e308, 1e308]})
    with pytest.raises(ValueError, match="'huge'"):
        scaled(train, train, "standard")
