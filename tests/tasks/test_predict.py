"""New rows: scored as in memory to the last bit, whatever is read at once; what does not fit is told in a sentence."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlflow import MlflowClient
from pyarrow import parquet
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from aucsolvers import LSSVM, KernelSVM, Ranker
from aucsolvers.approximation import KernelFeatures
from tasks import registry
from tasks.calibrate import fit_calibrator
from tasks.configuration import PreprocessingConfig
from tasks.convert import canonical, convert, load
from tasks.download import download
from tasks.errors import BadInput, NotAsRecorded, RunFailed
from tasks.ledger import Ledger
from tasks.models import KeptModel, column_types, load_ranker, log_ranker
from tasks.predict import Source, bring_model, check_out, expected_rows, find_model, predict
from tasks.preprocess import make_preprocessing
from tasks.values import ConversionRule, Layout, Table

pytestmark = pytest.mark.filterwarnings("ignore:Found unknown categories")

LAYOUT = Layout(target="fraud", left_out=("id",), index_base=1)


def claims(n=300, seed=0):
    """Return a table with gaps, truth values, texts that look like numbers, and a number of the row."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.3
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "amount": rng.normal(size=n) + fraud,
            "age": rng.integers(18, 90, n),
            "shop": rng.choice(["007", "7", "süd"], n),
            "flag": rng.random(n) < 0.5,
            "fraud": np.where(fraud, "yes", "no"),
        }
    )
    table.loc[rng.choice(n, n // 10, replace=False), "amount"] = np.nan
    table.loc[rng.choice(n, n // 10, replace=False), "shop"] = None
    return table


def kept(table, *steps, layout=LAYOUT, calibrated=False):
    """Return a model of these steps and LSSVM (or a solver that is the last of them), fitted to a converted table."""
    preprocessing = make_preprocessing(table.X, PreprocessingConfig()).fit(table.X)
    if not steps or not hasattr(steps[-1], "decision_function"):
        steps = (*steps, LSSVM(lam=1e-3))
    scorer = Pipeline([("preprocessing", preprocessing), *((f"step {i}", step) for i, step in enumerate(steps))])
    scores = scorer.fit(table.X, table.y).decision_function(table.X)
    calibrator = fit_calibrator(scores, table.y, "isotonic") if calibrated else None
    ranker = Ranker(
        scorer,
        threshold=float(np.quantile(scores, 0.6)),
        positive_label="yes",
        negative_label="no",
        calibrator=calibrator,
    )
    return KeptModel(ranker, column_types(table), table.X.shape[1], layout)


def as_table(path, rule):
    return load(convert.fn(download.fn("d", str(path)), rule))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A converted CSV file and a model of it."""
    path = tmp_path_factory.mktemp("training") / "claims.csv"
    claims().to_csv(path, index=False)
    table = as_table(path, ConversionRule("fraud", drop=("id",)))
    return table, kept(table)


@pytest.fixture(scope="module")
def matrix():
    """Sparse rows and a model of them; the last feature is often zero."""
    rng = np.random.default_rng(1)
    X = canonical(sparse.random(200, 30, 0.2, "csr", random_state=1))
    X.data = X.data.round(6)  # scikit-learn writes 16 digits, which are not enough for every number
    y = np.where(X[:, :5].sum(axis=1).A1 + rng.normal(size=200) * 0.1 > 0.4, 1, -1).astype(np.int8)
    table = Table(X, y)
    return table, kept(table)


def scored(model, path, out=None, **options):
    """Return the scores of a file, as written."""
    out = out or path.with_name("scores.parquet")
    out.unlink(missing_ok=True)
    predict(model, download.fn("d", str(path)), out, {}, **options)
    return pd.read_parquet(out) if out.suffix == ".parquet" else pd.read_csv(out, float_precision="round_trip")


def new_rows(folder, frame=None, name="new.csv", **options):
    frame = claims(50, seed=9).drop(columns=["fraud", "id"]) if frame is None else frame
    path = folder / name
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False, **options)
    return path


def refused(model, path, **options):
    """Return the one sentence with which a file is refused; nothing is left of the scores."""
    with pytest.raises(BadInput) as error:
        scored(model, path, **options)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    return str(error.value)


class TestScores:
    def test_are_those_of_the_pipeline_in_memory(self, trained, tmp_path):
        table, model = trained
        path = new_rows(tmp_path, claims())
        found = scored(model, path)
        assert list(found) == ["row", "score", "predicted"]
        np.testing.assert_array_equal(found["score"], model.ranker.scorer.decision_function(table.X))
        assert found["predicted"].tolist() == model.ranker.classify(table.X).tolist()
        assert set(found["predicted"]) == {"yes", "no"}
        assert found["row"].tolist() == list(range(1, 301))

    @pytest.mark.parametrize("name", ["new.parquet", "new.csv"])
    def test_do_not_depend_on_the_order_of_columns(self, name, trained, tmp_path):
        _, model = trained
        frame = claims(50, seed=9).drop(columns=["fraud", "id"])
        want = model.ranker.predict(frame)
        for columns in (list(frame), list(frame)[::-1]):
            np.testing.assert_array_equal(scored(model, new_rows(tmp_path, frame[columns], name))["score"], want)

    def test_texts_that_look_like_numbers_are_spelt_as_in_the_file(self, trained, tmp_path):
        _, model = trained
        frame = claims(50, seed=9).drop(columns=["fraud", "id"])
        frame = frame[frame["shop"].isin(["007", "7"])]
        np.testing.assert_array_equal(scored(model, new_rows(tmp_path, frame))["score"], model.ranker.predict(frame))

    def test_come_with_probabilities_of_a_calibrated_model(self, trained, tmp_path):
        table, _ = trained
        model = kept(table, calibrated=True)
        found = scored(model, new_rows(tmp_path, claims()))
        np.testing.assert_array_equal(found["probability"], model.ranker.predict_proba(table.X)[:, 1])

    def test_are_written_as_csv_to_the_last_bit(self, trained, tmp_path):
        _, model = trained
        path = new_rows(tmp_path)
        pd.testing.assert_frame_equal(
            scored(model, path), scored(model, path, tmp_path / "scores.csv"), check_exact=True
        )

    def test_of_sparse_rows_with_fewer_features_than_in_training(self, matrix, tmp_path):
        table, model = matrix
        narrow = table.X[:, :12]
        dump_svmlight_file(narrow, np.zeros(200), str(tmp_path / "new.svm"), zero_based=False)
        wide = sparse.csr_matrix((narrow.data, narrow.indices, narrow.indptr), shape=table.X.shape)
        np.testing.assert_array_equal(scored(model, tmp_path / "new.svm")["score"], model.ranker.predict(wide))

    def test_of_sparse_rows_that_count_from_0(self, matrix, tmp_path):
        table, model = matrix
        model = replace(model, layout=Layout(index_base=0))
        rows = table.X[:, 1:]  # no index 0 anywhere: the model knows all the same
        shifted = sparse.hstack([sparse.csr_matrix((200, 1)), rows], format="csr")
        dump_svmlight_file(shifted, np.zeros(200), str(tmp_path / "new.svm"), zero_based=True)
        np.testing.assert_array_equal(scored(model, tmp_path / "new.svm")["score"], model.ranker.predict(shifted))

    def test_of_moments_categories_and_nullable_numbers(self, tmp_path):
        rng = np.random.default_rng(2)
        frame = pd.DataFrame(
            {
                "when": pd.Timestamp("2024-03-01", tz="Europe/Paris")
                + pd.to_timedelta(rng.integers(0, 10**7, 80), "s"),
                "count": pd.array(rng.integers(0, 9, 80), dtype="Int64"),
                "flag": pd.array(rng.random(80) < 0.5, dtype="boolean"),
                "kind": pd.Categorical(rng.choice(["a", "b"], 80)),
                "fraud": np.where(np.arange(80) % 3, "no", "yes"),
            }
        )
        frame.loc[::7, ["when", "count", "flag", "kind"]] = None
        frame.to_parquet(tmp_path / "data.parquet")
        table = as_table(tmp_path / "data.parquet", ConversionRule("fraud"))
        model = kept(table)
        path = new_rows(tmp_path, frame.drop(columns="fraud"), "new.parquet")
        for rows in (1, 30, 1000):
            np.testing.assert_array_equal(scored(model, path, rows=rows)["score"], model.ranker.predict(table.X))

    @pytest.mark.parametrize("format", ["arff", "npz"])
    def test_of_formats_that_are_read_whole_or_have_no_names(self, format, tmp_path):
        rng = np.random.default_rng(3)
        X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
        path = tmp_path / f"data.{format}"
        if format == "npz":
            np.savez(path, X=X, y=y)
        else:
            lines = [",".join(map(repr, row)) + f",{label}" for row, label in zip(X.tolist(), y, strict=True)]
            head = "@relation r\n@attribute a numeric\n@attribute b numeric\n@attribute c numeric\n"
            path.write_text(head + "@attribute y {0,1}\n@data\n" + "\n".join(lines) + "\n")
        table = as_table(path, ConversionRule(None if format == "npz" else "y"))
        model = kept(table, layout=Layout(target="label" if format == "npz" else "y"))
        np.testing.assert_array_equal(scored(model, path, rows=7)["score"], model.ranker.predict(table.X))

    def test_of_real_rows(self, mirror, tmp_path):
        raw = download.fn("a9a", str(mirror / "libsvm" / "a9a.t"), "svmlight")
        table = load(convert.fn(raw, ConversionRule()))
        model = kept(table)
        predict(model, raw, tmp_path / "scores.parquet", {}, rows=3000)
        found = pd.read_parquet(tmp_path / "scores.parquet")
        np.testing.assert_array_equal(found["score"], model.ranker.predict(table.X))


class TestChunks:
    @pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
    @pytest.mark.parametrize(
        "steps", [(), (KernelSVM(),), (KernelFeatures(n_components=20, random_state=0),), (LogisticRegression(),)]
    )
    def test_the_same_file_comes_out_whatever_is_read_at_once(self, steps, name, trained, tmp_path, monkeypatch):
        monkeypatch.setattr("tasks.predict.BLOCK_ROWS", 64)
        model = kept(trained[0], *steps)
        path = new_rows(tmp_path, claims(400, seed=4), name)
        digests = set()
        for rows in (13, 64, 10_000):
            scored(model, path, rows=rows)
            digests.add(hashlib.sha256((tmp_path / "scores.parquet").read_bytes()).hexdigest())
        assert len(digests) == 1

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["1", "2.5", "", "True", "-1e3", "x", "9007199254740993", "?"]),
                st.sampled_from(["007", "7", "7.0", "True", "", "neu"]),
            ),
            min_size=1,
            max_size=40,
        ),
        st.integers(1, 9),
    )
    def test_of_any_cells(self, trained, tmp_path, cells, rows):
        _, model = trained
        path = tmp_path / "new.csv"
        body = "1,2,süd,True\n" * 200 + "".join(f"{a},3,{shop},False\n" for a, shop in cells)
        path.write_text("amount,age,shop,flag\n" + body)
        outcomes = [outcome(model, path, at_once) for at_once in (rows, 10_000)]
        assert outcomes[0] == outcomes[1]
        if "x" not in dict(cells):
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=["", "?"])
            numbers = frame["amount"].replace({"True": "1"}).astype(float)
            frame = frame.assign(amount=numbers, age=frame["age"].astype(float), flag=frame["flag"].eq("True"))
            assert outcomes[0] == model.ranker.predict(frame).tolist()

    def test_no_more_than_asked_for_is_read_of_a_parquet_file(self, trained, tmp_path):
        _, model = trained
        done = []
        scored(model, new_rows(tmp_path, claims(), "new.parquet"), rows=7, tell=done.append)
        assert done == [300]

    def test_memory_holds_a_block_of_a_wide_file_and_not_all_of_it(self, trained, tmp_path, monkeypatch):
        monkeypatch.setattr("tasks.predict.BLOCK_CELLS", 4 * 100)
        done = []
        scored(trained[1], new_rows(tmp_path, claims()), tell=done.append)
        assert done == [100, 200, 300]


def outcome(model, path, rows):
    try:
        return scored(model, path, rows=rows)["score"].tolist()
    except BadInput as error:
        return str(error)


class TestColumns:
    def test_the_target_and_what_training_left_out_are_not_read(self, trained, tmp_path):
        _, model = trained
        path = new_rows(tmp_path, claims(50))
        done = predict(model, download.fn("d", str(path)), tmp_path / "out.parquet", {})
        assert done.ignored == ("id", "fraud")
        assert done.rows == 50
        assert done.positive == (pd.read_parquet(tmp_path / "out.parquet")["predicted"] == "yes").sum()

    def test_all_that_is_wrong_with_a_header_is_said_at_once(self, trained, tmp_path):
        frame = claims(20).drop(columns=["age", "fraud", "id"]).rename(columns={"amount": "Amuont"}).assign(colour=1)
        text = refused(trained[1], new_rows(tmp_path, frame))
        assert "missing: 'amount' (is it 'Amuont'?), 'age'" in text
        assert "unknown: 'Amuont', 'colour'" in text
        assert text.endswith("or name those to leave out with --drop.")

    def test_an_unknown_column_can_be_left_out(self, trained, tmp_path):
        _, model = trained
        frame = claims(20).drop(columns=["fraud", "id"])
        path = new_rows(tmp_path, frame.assign(colour=1))
        np.testing.assert_array_equal(scored(model, path, drop=("colour",))["score"], model.ranker.predict(frame))

    @pytest.mark.parametrize("rows", [1, 100, 20_000])
    @pytest.mark.parametrize("dropped", [(), ("c",)])
    def test_a_file_that_was_trained_on_is_scored_whichever_row_tells_of_dots(self, tmp_path, rows, dropped):
        """A 0.125 anywhere, also where no feature is, says that 1.234 is a number; it was refused before that came."""
        frame = pd.DataFrame({"a": "2,5", "b": "1.234", "c": "3", "y": ["no", "yes"] * 300})
        frame.loc[::3, "a"], frame.loc[599, "c"] = "4,5", "0.125"
        path = new_rows(tmp_path, frame, "late.csv", sep=";")
        table = as_table(path, ConversionRule("y", drop=dropped))
        assert table.X["b"].tolist() == [1.234] * 600
        model = kept(table, layout=Layout(target="y", left_out=dropped))
        found = scored(model, path, rows=rows)["score"]
        np.testing.assert_array_equal(found, model.ranker.predict(table.X))

    @pytest.mark.parametrize("rows", [1, 7, 10_000])
    @pytest.mark.parametrize("turn", [1, -1])
    def test_commas_and_dots_in_a_column_of_numbers_are_refused_in_pieces_of_any_size(
        self, rows, turn, trained, tmp_path
    ):
        _, model = trained
        frame = claims(300).drop(columns=["fraud", "id"])
        amounts = ["1.234"] * 250 + ["999,50"] * 50
        mixed = frame.assign(amount=amounts[::turn], age=frame["age"].astype(str))
        path = new_rows(tmp_path, mixed, sep=";")
        assert "one decimal mark in column 'amount', got dots as in 1.234, which may" in refused(model, path, rows=rows)
        path = new_rows(tmp_path, mixed.assign(amount="999,50"), sep=";")
        assert len(scored(model, path, rows=rows)) == 300

    def test_columns_that_cannot_be_read_can_be_left_out(self, trained, tmp_path):
        _, model = trained
        frame = claims(20).drop(columns=["fraud", "id"])
        path = new_rows(tmp_path, frame.assign(tags=[["a"]] * 20), "new.parquet")
        assert "got column 'tags' of type list" in refused(model, path)
        np.testing.assert_array_equal(scored(model, path, drop=("tags",))["score"], model.ranker.predict(frame))

    def test_an_index_of_pandas_is_a_column_where_the_model_needs_it_and_else_none(self, trained, tmp_path):
        model = trained[1]
        frame = claims(50, seed=9).drop(columns=["fraud"])
        plain = scored(model, new_rows(tmp_path, frame.drop(columns="id"), "plain.parquet"))
        for column in ("id", "amount"):
            indexed = new_rows(tmp_path, frame.assign(other=1).set_index([column, "other"]), "indexed.parquet")
            assert scored(model, indexed)["score"].tolist() == plain["score"].tolist()

    @pytest.mark.parametrize(
        "drop, words", [("amount", "does not need, got 'amount'"), ("colur", "got 'colur'. Did you mean 'colour'?")]
    )
    def test_only_what_is_there_and_not_needed_can_be_left_out(self, drop, words, trained, tmp_path):
        path = new_rows(tmp_path, claims(20).drop(columns=["fraud", "id"]).assign(colour=1))
        assert words in refused(trained[1], path, drop=(drop,))

    def test_a_column_that_is_there_twice(self, trained, tmp_path):
        path = tmp_path / "new.csv"
        path.write_text("amount,age,shop,flag,age\n1,2,süd,True,3\n")
        assert "'age' is there 2 times" in refused(trained[1], path)

    def test_no_header(self, trained, tmp_path):
        path = new_rows(tmp_path, header=False)
        assert "expected a header that names 'amount', 'age', 'shop', 'flag', found none" in refused(trained[1], path)

    def test_of_a_file_without_a_header_as_in_training(self, tmp_path):
        rng = np.random.default_rng(4)
        frame = pd.DataFrame(rng.normal(size=(50, 3))).assign(y=np.arange(50) % 2)
        frame.to_csv(tmp_path / "data.csv", index=False, header=False)
        table = as_table(tmp_path / "data.csv", ConversionRule("-1"))
        model = kept(table, layout=Layout(target="column_4"))
        path = new_rows(tmp_path, frame.drop(columns="y"), header=False)
        np.testing.assert_array_equal(scored(model, path)["score"], model.ranker.predict(table.X))

    @pytest.mark.parametrize("delimiter", [";", "\t", "|"])
    def test_another_delimiter_is_found(self, delimiter, trained, tmp_path):
        _, model = trained
        frame = claims(50, seed=9).drop(columns=["fraud", "id"])
        path = new_rows(tmp_path, frame, sep=delimiter, decimal="," if delimiter == ";" else ".")
        np.testing.assert_array_equal(scored(model, path)["score"], model.ranker.predict(frame))

    def test_a_delimiter_that_nobody_uses(self, trained, tmp_path):
        text = refused(trained[1], new_rows(tmp_path, sep="^"))
        assert "Are columns divided by tab, semicolon, bar, comma or blanks?" in text

    @pytest.mark.parametrize(
        "content, words",
        [
            ("", "empty file"),
            (" \n", "empty file"),
            ("amount,age,shop,flag\n", "expected rows to score, got none"),
            ("amount,age,shop,flag\n1,2,a,True\n1,2,a\n", "line 3: expected 4 values"),
            ("amount,age,shop,flag\n1,2,a,True\n1,old,a,True\n", "line 3: expected a finite number in column 'age'"),
            (
                "amount,age,shop,flag\n1,2,a,True\n1,2024-01-05,a,True\n",
                "got '2024-01-05'. Give times as seconds since",
            ),
            ("amount,age,shop,flag\n1,2,a,True\ninf,2,a,True\n", "line 3: expected finite numbers in column 'amount'"),
            (
                "amount,age,shop,flag\n1,2,a,maybe\n",
                "line 2: expected a finite number in column 'flag', as in training, got 'maybe'",
            ),
        ],
    )
    def test_what_a_csv_file_can_have_wrong(self, content, words, trained, tmp_path):
        path = tmp_path / "new.csv"
        path.write_text(content)
        assert words in refused(trained[1], path)

    def test_a_number_that_overflows_is_no_score(self, trained, tmp_path):
        table, _ = trained
        path = tmp_path / "new.csv"
        path.write_text("amount,age,shop,flag\n1,2,a,True\n1e308,2,a,True\n")
        model = kept(Table(table.X.assign(amount=table.X["amount"] / 1e6), table.y))
        assert "overflow in data rows 1 to 2 (Input X contains infinity" in refused(model, path)
        model = kept(table)
        model.ranker.scorer[-1].coef_ *= 1e10
        assert "overflow in data row 2. Mend it." in refused(model, path)

    def test_the_first_row_with_a_text_is_named_whatever_is_read_at_once(self, trained, tmp_path):
        body = "1,2,a,True\n" * 300 + "1,b,a,True\nc,2,a,True\n"
        path = tmp_path / "new.csv"
        path.write_text("amount,age,shop,flag\n" + body)
        assert {refused(trained[1], path, rows=rows) for rows in (1, 10_000)} == {
            "new.csv, line 302: expected a finite number in column 'age', as in training, got 'b'. Mend it, or leave "
            "the cell empty if it is missing."
        }

    def test_numbers_where_training_had_texts(self, trained, tmp_path):
        frame = claims(20).drop(columns=["fraud", "id"]).assign(shop=7)
        text = refused(trained[1], new_rows(tmp_path, frame, "new.parquet"))
        assert "new.parquet, row 1: expected a text in column 'shop', as in training, got the number 7" in text

    def test_an_empty_column_is_missing_cells(self, trained, tmp_path):
        _, model = trained
        frame = claims(20).drop(columns=["fraud", "id"]).assign(shop=None, amount=None)
        want = model.ranker.predict(frame.assign(amount=np.nan))
        for name in ("new.csv", "new.parquet"):
            np.testing.assert_array_equal(scored(model, new_rows(tmp_path, frame, name))["score"], want)

    def test_a_parquet_file_without_rows(self, trained, tmp_path):
        frame = claims(20).drop(columns=["fraud", "id"]).iloc[:0]
        assert "expected rows to score, got none" in refused(trained[1], new_rows(tmp_path, frame, "new.parquet"))


class TestSparse:
    @pytest.mark.parametrize(
        "content, words",
        [
            ("0 1:1\n0 31:2\n", "line 2: expected indices from 1 to 30, as in training, got 31"),
            ("0 1:1\n0 0:2 3:1\n", "line 2: expected indices from 1 to 30, as in training, got 0"),
            ("1:1 2:3\n", "line 1: expected 'label index:value …'"),
            ("# nothing\n", "expected rows to score, got none"),
        ],
    )
    def test_what_a_file_can_have_wrong(self, content, words, matrix, tmp_path):
        path = tmp_path / "new.svm"
        path.write_text(content)
        assert words in refused(matrix[1], path)

    def test_a_table_is_no_svmlight_and_the_other_way_round(self, matrix, trained, tmp_path):
        assert "expected svmlight data, as in training, got a table" in refused(matrix[1], new_rows(tmp_path))
        (tmp_path / "new.csv").unlink()
        path = tmp_path / "new.svm"
        path.write_text("0 1:1\n")
        assert "expected a table, as in training, got svmlight data" in refused(trained[1], path)

    def test_a_model_that_does_not_tell_where_indices_start(self, matrix, tmp_path):
        path = tmp_path / "new.svm"
        path.write_text("0 1:1\n")
        assert "Train it again" in refused(replace(matrix[1], layout=Layout()), path)


class TestOut:
    def test_facts_are_in_the_parquet_file(self, trained, tmp_path):
        raw = download.fn("d", str(new_rows(tmp_path)))
        predict(trained[1], raw, tmp_path / "out.parquet", {"model": "fraud/3", "data_sha256": raw.sha256})
        found = parquet.read_schema(tmp_path / "out.parquet").metadata
        assert found[b"aucflow.model"] == b"fraud/3"
        assert found[b"aucflow.data_sha256"].decode() == hashlib.sha256(raw.path.read_bytes()).hexdigest()

    def test_a_failure_leaves_what_was_there(self, trained, tmp_path):
        out = tmp_path / "out.csv"
        out.write_text("old")

        def fail(_done):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            predict(trained[1], download.fn("d", str(new_rows(tmp_path))), out, {}, tell=fail)
        assert out.read_text() == "old"
        assert sorted(p.name for p in tmp_path.iterdir()) == ["new.csv", "out.csv"]

    @pytest.mark.parametrize("change", [lambda path: path.write_text("others"), Path.unlink])
    def test_rows_that_change_while_they_are_read_have_no_scores(self, change, trained, tmp_path):
        raw = download.fn("d", str(new_rows(tmp_path)))
        with pytest.raises(RunFailed, match=rf"new.csv: expected the rows with SHA-256 {raw.sha256[:16]}"):
            predict(trained[1], raw, tmp_path / "out.parquet", {}, tell=lambda _done: change(raw.path))
        assert {p.name for p in tmp_path.iterdir()} <= {"new.csv"}

    def test_what_cannot_be_written_is_refused_first(self, tmp_path):
        data, old = tmp_path / "new.csv", tmp_path / "old.csv"
        data.write_text("a\n1\n")
        old.write_text("score\n1\n")
        (tmp_path / "folder.csv").mkdir()
        check_out(tmp_path / "scores.parquet", str(data), False)
        check_out(old, str(data), True)
        for out, force, words in (
            (old, False, "exists"),
            (data, True, "file of its own"),
            (tmp_path / "folder.csv", True, "file of its own"),
            (tmp_path / "scores.xlsx", True, "FILE.parquet or FILE.csv"),
            (tmp_path / "nowhere" / "scores.csv", False, "folder that exists"),
        ):
            with pytest.raises(BadInput, match=words):
                check_out(out, str(data), force)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_is_read_only(self, tmp_path):
        tmp_path.chmod(0o500)
        with pytest.raises(BadInput, match="may be written to"):
            check_out(tmp_path / "scores.csv", "new.csv", False)

    def test_how_many_rows_to_expect(self, tmp_path):
        for name, frame in (("a.csv", claims(33)), ("a.parquet", claims(33))):
            expected = expected_rows(download.fn("d", str(new_rows(tmp_path, frame, name))))
            assert expected == 33 + (name == "a.csv")


@pytest.fixture(scope="module")
def shop(trained, tmp_path_factory):
    """A store with a registered champion, a parent run without a model, and the run that made the champion."""
    folder = tmp_path_factory.mktemp("store")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    client = MlflowClient(uri)
    mlflow.set_tracking_uri(uri)
    table, model = trained
    experiment = client.create_experiment("e", artifact_location=(folder / "artifacts").as_uri())
    parent = client.create_run(experiment, run_name="parent")
    with mlflow.start_run(experiment_id=experiment, tags={"mlflow.parentRunId": parent.info.run_id}) as run:
        log_ranker(model.ranker, table, {}, LAYOUT)
    facts = {"data_sha256": "d" * 64, "manifest_sha256": "m" * 64}
    ledger = Ledger(folder / "ledger")
    registry.register_and_promote(client, ledger, "fraud", run.info.run_id, {}, "the first", True, facts)
    yield client, run.info.run_id, parent.info.run_id
    mlflow.set_tracking_uri(None)


class TestModel:
    @pytest.mark.parametrize(
        "how", ["fraud@champion", "models:/fraud@champion", "fraud/1", "{run}", "runs:/{run}/model"]
    )
    def test_comes_back_whole(self, how, shop, trained):
        client, run, _ = shop
        source = find_model(client, how.format(run=run))
        model = bring_model(client, source)
        table, original = trained
        assert source.run_id == run
        assert model.layout == LAYOUT
        assert list(model.columns.items()) == list(original.columns.items())
        assert model.ranker.threshold == original.ranker.threshold
        np.testing.assert_array_equal(model.ranker.predict(table.X), original.ranker.predict(table.X))

    def test_a_version_tells_its_digests(self, shop):
        source = find_model(shop[0], "fraud@champion")
        assert source.name == "fraud/1"
        assert source.aliases == ("champion",)
        assert source.tags["aucflow.manifest_sha256"] == "m" * 64

    @pytest.mark.parametrize(
        "reference, words",
        [
            ("fruad@champion", "got 'fruad@champion': the registry has 'fraud'. Did you mean 'fraud'?"),
            ("fraud@chalenger", "Choose one of fraud@champion, fraud/1."),
            ("fraud/2", "Choose one of fraud@champion, fraud/1."),
            ("fraud", "Choose one of fraud@champion, fraud/1."),
            ("", "Give --model NAME@ALIAS"),
            ("@", "Give --model NAME@ALIAS"),
            ("0" * 32, "Expected the id of a run in the store"),
        ],
    )
    def test_one_that_is_not_there(self, reference, words, shop):
        with pytest.raises(BadInput) as error:
            find_model(shop[0], reference)
        assert words in str(error.value)

    def test_a_run_without_a_model_names_its_children(self, shop):
        client, run, parent = shop
        with pytest.raises(BadInput, match=f"Name one of its children: {run}"):
            find_model(client, parent)

    def test_files_that_changed_or_went_are_not_scored_with(self, shop):
        client, _, _ = shop
        source = find_model(client, "fraud/1")
        with pytest.raises(NotAsRecorded, match="as registered, got others"):
            bring_model(client, replace(source, tags={"aucflow.model_sha256": "0" * 64}))
        with pytest.raises(RunFailed, match="aucflow audit verify"):
            bring_model(client, replace(source, uri=source.uri + "-gone", tags={}))
        with pytest.raises(NotAsRecorded, match="as registered, got none"):
            bring_model(client, replace(source, uri=source.uri + "-gone"))

    def test_only_trusted_types_are_built_whatever_the_model_says_of_itself(self, trained, tmp_path):
        _, model = trained
        strange = Ranker(model.ranker.scorer, calibrator=Strange())
        types = skops.io.get_untrusted_types(data=skops.io.dumps(strange))
        assert f"{__name__}.Strange" in types
        mlflow.sklearn.save_model(
            strange,
            tmp_path / "m",
            serialization_format="skops",
            skops_trusted_types=types,
            metadata={"columns": {}, "layout": Layout().as_dict()},
            pip_requirements=[],
        )
        with pytest.raises(BadInput, match=r"got test_predict\.Strange.*add --trust test_predict"):
            load_ranker(tmp_path / "m")

    def test_no_pickle_is_loaded(self, trained, tmp_path):
        mlflow.sklearn.save_model(LSSVM(), tmp_path / "m", serialization_format="cloudpickle", pip_requirements=[])
        with pytest.raises(BadInput, match="another kind"):
            load_ranker(tmp_path / "m")

    def test_a_folder_is_taken_literally_whatever_signs_its_name_has(self, shop, trained, tmp_path):
        client, run, _ = shop
        folder = tmp_path / "feature%2Fx %41#1?"
        mlflow.artifacts.download_artifacts(artifact_uri=find_model(client, run).uri, dst_path=str(folder))
        (file,) = folder.rglob("MLmodel")
        model = bring_model(client, Source("copy", file.parent.as_uri(), run))
        table, original = trained
        np.testing.assert_array_equal(model.ranker.predict(table.X), original.ranker.predict(table.X))

    def test_a_damaged_file(self, shop, tmp_path):
        client, _, _ = shop
        source = find_model(client, "fraud/1")
        folder = tmp_path / "m"
        mlflow.artifacts.download_artifacts(artifact_uri=source.uri, dst_path=str(folder))
        (file,) = folder.rglob("model.skops")
        file.write_bytes(file.read_bytes()[:-100])
        with pytest.raises(RunFailed, match="Expected a whole model"):
            load_ranker(file.parent)


class Strange:
    """A type of nobody's."""

    def __init__(self):
        self.value = 1


def test_rows_at_the_threshold_itself_are_counted_as_they_are_labelled(tmp_path):
    claims().to_csv(tmp_path / "claims.csv", index=False)
    table = as_table(tmp_path / "claims.csv", ConversionRule("fraud", drop=("id",)))
    model = kept(table)
    model.ranker.threshold = float(model.ranker.predict(table.X)[7])
    raw = download.fn("d", str(tmp_path / "claims.csv"))
    done = predict(model, raw, tmp_path / "out.parquet", {})
    told = pd.read_parquet(tmp_path / "out.parquet")
    assert (told["score"] == model.ranker.threshold).any()
    assert done.positive == (told["predicted"] == "yes").sum()
