"""Chunks: put together they are the whole, row for row; the memory that they take does not depend on the file."""

import gzip
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import vstack
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from aucsolvers import OPAUC, SOLAM, OAMGra
from tasks.chunks import chunks, fit_in_chunks, survey
from tasks.convert import convert, load, table_sha256
from tasks.datasets import entries
from tasks.download import download
from tasks.errors import BadInput
from tasks.values import ConversionRule, RawFile, Table


def joined(tables):
    """Return chunks as one table."""
    tables = list(tables)
    y = np.concatenate([table.y for table in tables])
    if isinstance(tables[0].X, pd.DataFrame):
        return Table(pd.concat([table.X for table in tables], ignore_index=True), y)
    return Table(vstack([table.X for table in tables], format="csr"), y)


def same(raw, rule, rows):
    """Assert that the chunks are the whole."""
    whole = load(convert.fn(raw, rule))
    assert table_sha256(joined(chunks(raw, rule, rows))) == table_sha256(whole)
    return whole


def written(folder, data, name):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return download.fn("d", str(path))


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_excels_first_line_names_the_delimiter_and_is_no_row(tmp_path, first, encoding, ending, rows):
    """The line after it was called one of too many values."""
    lines = [first, "a;b;y", "1,5;2;no", "2,5;3;yes", "3,5;1;no", "4,5;2;yes", ""]
    raw = written(tmp_path, ending.join(lines).encode(encoding), "excel.csv")
    whole = same(raw, ConversionRule("y"), rows)
    assert whole.X["a"].tolist() == [1.5, 2.5, 3.5, 4.5]
    raw = written(tmp_path, ending.join([*lines[:4], "3,5;1", ""]).encode(encoding), "ragged.csv")
    with pytest.raises(BadInput, match="line 5: expected 3 values"):
        convert.fn(raw, ConversionRule("y"))


class TestTheWhole:
    @pytest.mark.parametrize(
        "name, rows",
        [
            ("german", 77),
            ("sector_test", 999),
            ("a9a_test", 5000),
            ("pima", 100),
            ("adult_test", 3333),
            ("ozone", 300),
            ("letter_test", 501),
            ("sonar_uci", 7),
            ("cover", 100_000),
            ("digits", 100),
        ],
    )
    def test_of_real_files(self, name, rows, mirror):
        entry = entries()[name]
        if entry.format == "sklearn":
            raw = download.fn(name, entry.source)
        else:
            raw = download.fn(name, str(mirror / entry.source), entry.format)
        same(raw, entry.conversion.as_rule(entry.target, None, entry.drop), rows)

    @pytest.mark.parametrize("rows", [3, 250, 10_000])
    @pytest.mark.parametrize(
        "text",
        [
            "a,b,y\n" + "1,2,0\n3,4,1\n" * 200,
            "\n\na;b;y\r\n" + "1,5;x;0\r\n2,5;;1\r\n\r\n" * 150,
            "1  2 0\n 3 4   1\n" * 150,
            'a,b,y\n1,"x\n\ny",0\n2,"q,""r""",1\n' + "3,z,0\n" * 300,
            "a,y\n" + "007,0\n" * 300 + "x,1\n",  # a number for 300 rows, and a text in the end
            "a,b,y\n" + "True,1,0\n" * 300 + "1,2,1\n",  # truth values, then a number: texts
            "a,y\n" + "True,0\nFalse,1\n,1\n" * 100,
            "a,b,y\n" + ",1,0\n" * 300 + "2,1,1\n",
            "a,b,y\n" + ",1,0\n" * 300 + "u,1,1\n",
            "a,b,y\n" + "?,1,0\n?,2,1\n" * 150,
            "a,y\n" + "1,01\n" * 300 + "2,x\n",  # labels that look like numbers at first
            "a,y\n" + "1,1\n" * 300 + "2,2.0\n3,2\n",
            "a,y\n" + "9007199254740993,0\n" * 300 + "0.5,1\n",
            "a;y\n" + "1.234;0\n" * 300 + "999,5;1\n",  # is that 1234, or a little more than 1? texts
            "a;y\n" + "999,5;0\n" * 300 + "1.234;1\n",
            "a;y\n" + "1.5;0\n" * 300 + "999,5;1\n",  # nobody groups by one digit: numbers
            "a;y\n" + "1.234;0\n" * 300 + "1.5;1\n",
            "a;y\n" + "1.234,50;0\n" * 300 + "2,5;1\n",
            "a;b;y\n" + "1;1.234;0\n" * 300 + "2,5;999;1\n",  # 1.234 of b is a text, for numbers have commas
            "a;b;y\n" + "2,5;7;0\n" * 300 + "1;1.234;1\n",
            "a;b;y\n" + "2,5;1.234;0\n" * 300 + "x;999;1\n",  # it is a number, for only words have
            "a;b;y\n" + "x;1.234;0\n" * 300 + "2,5;999;1\n",
            "a;b;y\n" + "2,5;1.234;0\n" * 300 + "1;0.5;1\n",  # a number, for there is a point
            "a;b;c;y\n" + "2,5;1.234;3;0\n" * 300 + "1;2.345;0.125;1\n",
            "a;b;c;y\n" + "2,5;1.234;1e-3;0\n" * 300 + "3,5;2.345;2e-3;1\n",
            "a;b;c;y\n" + "2,5;1.234;12.30;0\n" * 300 + "3,5;2.345;2.15;1\n",
            "a;b;y\n" + "1.5;999;0\n" * 300 + "2,5;1.234;1\n",
            "a;y\n" + "1,234;0\n" * 300 + "1.5;1\n",  # a thousand, for there is a point: texts
            "a;b;y\n" + "1,234;9;0\n" * 300 + "999;0.125;1\n",
            "a;b;y\n" + "1,234;9;0\n" * 300 + "999;2,5;1\n",  # numbers, for 2,5 is one
            "a;b;y\n" + "1,234;9;0\n" * 300 + "999;2;1\n",
            "a;b;y\n" + "1,234;0.5;0\n" * 300 + "999;2,5;1\n",
        ],
    )
    def test_of_tables(self, text, rows, tmp_path):
        same(written(tmp_path, text, "data.csv"), ConversionRule("-1"), rows)

    @pytest.mark.parametrize("rows", [1, 100, 10_000])
    def test_a_header_that_comes_again_is_refused_wherever_it_is(self, rows, tmp_path):
        raw = written(tmp_path, "a,y\n" + "1,0\n" * 700 + "a,y\n2,1\n", "data.csv")
        with pytest.raises(BadInput, match="line 702: expected a row, got the header once more"):
            joined(chunks(raw, ConversionRule("y", positive="1"), rows))

    @pytest.mark.parametrize("encode", [lambda t: t.encode("utf-16"), lambda t: gzip.compress(t.encode("utf-8-sig"))])
    @pytest.mark.parametrize(
        "text, name", [("a,y\n1,no\n2,größe\n3,no\n", "d.csv"), ("1 1:2\n-1 2:3\n1 1:4\n", "d.svm")]
    )
    def test_of_other_encodings(self, text, name, encode, tmp_path):
        same(written(tmp_path, encode(text), name), ConversionRule("-1" if name == "d.csv" else None), 2)

    @pytest.mark.parametrize("rows", [1, 2, 7])
    @pytest.mark.parametrize(
        "text",
        [
            "1 1:5\n-1 9:1\n\n# c\n1 3:0\n-1 2:2\n",
            "1 1:5\n-1 9:1\n1 0:3\n",
            "-1\n-1\n1 4:1\r\n1 2:1",
            "1 1:1\r-1 2:1\r",
        ],
    )
    def test_of_svmlight(self, text, rows, tmp_path):
        same(written(tmp_path, text, "data.svm"), ConversionRule(), rows)

    @pytest.mark.parametrize("rows", [1, 4, 100])
    @pytest.mark.parametrize("name, order", [("X", "C"), ("X", "F"), ("pictures", "C"), ("pictures", "F")])
    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_of_arrays(self, save, name, order, rows, tmp_path):
        X = np.random.default_rng(0).normal(size=(11, 6))
        X = X.reshape(11, 2, 3) if name == "pictures" else X
        save(tmp_path / "data.npz", X=np.asarray(X, order=order), y=(np.arange(11) % 3 == 0)[:, None])
        same(download.fn("d", str(tmp_path / "data.npz")), ConversionRule(), rows)

    @pytest.mark.parametrize("rule", [ConversionRule("y"), ConversionRule("who")])
    def test_of_parquet_with_an_index(self, rule, tmp_path):
        index = pd.Index([7, 9, 7, 9], name="who")
        pd.DataFrame({"x": [1.5, 2.5, 3, 4], "y": [0, 1, 1, 0]}, index=index).to_parquet(tmp_path / "data.parquet")
        same(download.fn("d", str(tmp_path / "data.parquet")), rule, 3)

    @pytest.mark.parametrize("rows", [1, 3, 100])
    def test_of_parquet(self, rows, tmp_path):
        frame = pd.DataFrame(
            {
                "x": [1.5, None, 3, 4, 5, 6],
                "n": pd.array([None, None, None, 1, 2, 3], dtype="Int64"),
                "t": [None, None, "a", "b", None, "c"],
                "flag": [None, True, False, None, True, None],
                "when": pd.to_datetime(["2024-01-01"] * 5 + [None]),
                "kind": pd.Categorical(["p", "q", None, "p", "p", "q"]),
                "empty": [None] * 6,
                "y": ["u", "v", "u", "v", "u", "u"],
            },
            index=list("abcdef"),
        )
        frame.to_parquet(tmp_path / "data.parquet")
        same(download.fn("d", str(tmp_path / "data.parquet")), ConversionRule("y"), rows)

    @pytest.mark.parametrize(
        "rule",
        [
            ConversionRule("y", conversion="one_vs_rest"),
            ConversionRule("y", conversion="random_halves", seed=3),
            ConversionRule("y", conversion="class_groups", groups=(("1",), ("2", "3"))),
            ConversionRule("y", "2", to_ratio=9.0, seed=1),
            ConversionRule("y", "2", drop=("b",)),
        ],
    )
    def test_under_every_rule(self, rule, tmp_path):
        text = "a,b,y\n" + "".join(f"{i},{i * i % 7},{i % 5}\n" for i in range(300))
        same(written(tmp_path, text, "data.csv"), rule, 40)

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.tuples(st.sampled_from(["1", "2.5", "x", "", "True", "01"]), st.sampled_from(["0", "1", "a"]))),
        st.integers(1, 9),
    )
    def test_of_any_table(self, tmp_path, cells, rows):
        text = "a,b,y\n" + "5,6,0\n" * 200 + "".join(f"{a},7,{y}\n" for a, y in cells)
        raw, rule = written(tmp_path, text, "data.csv"), ConversionRule("y", conversion="one_vs_rest")
        try:
            whole = load(convert.fn(raw, rule))
        except BadInput as error:
            with pytest.raises(BadInput) as piecewise:
                list(chunks(raw, rule, rows))
            assert str(piecewise.value) == str(error)
        else:
            assert table_sha256(joined(chunks(raw, rule, rows))) == table_sha256(whole)


class TestSize:
    def test_no_chunk_is_larger_than_asked_for(self, tmp_path):
        raw = written(tmp_path, "a,y\n" + "1,0\n2,1\n" * 500, "data.csv")
        assert [len(table.y) for table in chunks(raw, ConversionRule("y"), 300)] == [299, 300, 300, 101]  # a header

    def test_the_error_names_the_line_of_the_whole_file(self, tmp_path):
        text = "".join(f"{(-1) ** i} 1:{i}\n" for i in range(1000)) + "1 2:1 1:1\n"
        raw = RawFile("d", tmp_path / "d.svm", "svmlight", "d", "", 0)
        raw.path.write_text(text)
        with pytest.raises(BadInput, match=r"^d\.svm, line 1001: expected .*, got index 1 after"):
            survey(raw, ConversionRule(), 64)

    def test_nothing_less_than_a_row_at_a_time(self, tmp_path):
        with pytest.raises(BadInput, match="rows=0"):
            list(chunks(written(tmp_path, "a,y\n1,0\n2,1\n", "d.csv"), ConversionRule("y"), 0))

    @pytest.mark.parametrize("format", ["svmlight", "csv", "npz", "parquet"])
    def test_memory_does_not_grow_with_the_file(self, format, tmp_path):
        peaks = []
        for n_rows in (2_000, 12_000):
            raw = drawn(tmp_path, format, n_rows)
            for _ in chunks(raw, RULES[format], 500):  # whatever is loaded by a first call
                break
            tracemalloc.start()
            for _ in chunks(raw, RULES[format], 500):
                pass
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] < 1.3 * peaks[0] + 200_000, f"{peaks[0]:,} bytes for 2,000 rows, {peaks[1]:,} for 12,000"


RULES = {
    "svmlight": ConversionRule(),
    "csv": ConversionRule("-1"),
    "npz": ConversionRule(),
    "parquet": ConversionRule("y"),
}


def drawn(folder, format, n_rows, n_features=12):
    """Return a file of normal rows whose first column tells the class, with a little noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) * np.arange(1, n_features + 1) + 3
    y = np.where(X[:, 0] + rng.normal(size=n_rows) * 0.3 > 4, 1, -1)
    path = folder / f"{n_rows}.{format}"
    if format == "svmlight":
        dump_svmlight_file(X, y, str(path), zero_based=False)
    elif format == "npz":
        np.savez_compressed(path, X=X, y=y)
    else:
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(n_features)]).assign(y=y)
        frame.to_csv(path, index=False) if format == "csv" else frame.to_parquet(path, row_group_size=1000)
    return download.fn("d", str(path), format)


class TestFit:
    @pytest.mark.parametrize("format", ["csv", "svmlight", "npz", "parquet"])
    @pytest.mark.parametrize("solver", [SOLAM(random_state=0), OPAUC(random_state=0)], ids=["SOLAM", "OPAUC"])
    def test_chunks_are_one_call(self, format, solver, tmp_path):
        raw = drawn(tmp_path, format, 1_500, 4)
        in_chunks = fit_in_chunks(solver.__class__(**solver.get_params()), raw, RULES[format], rows=170)
        whole = load(convert.fn(raw, RULES[format]))
        at_once = solver.__class__(**solver.get_params())
        at_once.partial_fit(in_chunks[:-1].transform(whole.X), whole.y, classes=[-1, 1])
        np.testing.assert_array_equal(in_chunks[-1].coef_, at_once.coef_)
        scaler = StandardScaler(with_mean=format != "svmlight").fit(whole.X)
        np.testing.assert_allclose(in_chunks[0].scale_, scaler.scale_, rtol=1e-12)
        scores = in_chunks.decision_function(whole.X)
        assert scores[whole.y > 0].mean() > scores[whole.y < 0].mean() + 0.1

    @pytest.mark.parametrize("format", ["csv", "svmlight"])
    def test_how_many_rows_come_at_a_time_changes_no_bit(self, format, tmp_path):
        """Means and variances were rounded by how many came together, and all weights with them."""
        raw = drawn(tmp_path, format, 3_000, 5)
        models = [fit_in_chunks(OAMGra(random_state=0), raw, RULES[format], rows=rows) for rows in (10, 250, 10_000)]
        for model in models[1:]:
            np.testing.assert_array_equal(model[-1].coef_, models[0][-1].coef_)
            np.testing.assert_array_equal(model[0].scale_, models[0][0].scale_)

    def test_labels_that_are_numbers_in_one_piece_and_texts_in_another(self, tmp_path):
        """Of a file that is sorted by class: "01" was "1" in the pieces that moments are taken from, a KeyError."""
        raw = written(
            tmp_path, "a,y\n" + "".join(f"{i % 7},{'01' if i < 1500 else 'B'}\n" for i in range(3000)), "data.csv"
        )
        assert len(fit_in_chunks(SOLAM(random_state=0), raw, ConversionRule("y", "B"), rows=5000)) == 3

    def test_missing_numbers_are_the_mean(self, tmp_path):
        raw = written(tmp_path, "a,b,y\n" + "1,2,0\n,5,1\n3,,0\n" * 100, "data.csv")
        model = fit_in_chunks(SOLAM(random_state=0), raw, ConversionRule("y"), rows=7)
        X = load(convert.fn(raw, ConversionRule("y"))).X
        np.testing.assert_array_equal(model.decision_function(X), model.decision_function(X.fillna(X.mean())))

    @pytest.mark.parametrize("gap", [slice(0, 999), slice(1000, 2000), slice(1200, 2999), slice(3100, None)], ids=str)
    def test_a_column_without_a_value_for_a_while_is_none_the_worse(self, gap, tmp_path):
        """Means and variances were NaN from there on, and the column was nothing, for all rows."""
        rng = np.random.default_rng(0)
        y = np.where(rng.random(3101) < 0.3, 1, -1)  # the last block of rows has one
        frame = pd.DataFrame({"a": rng.normal(size=3101) + 2 * y, "b": rng.normal(size=3101), "y": y})
        frame.loc[frame.index[gap], "a"] = np.nan
        frame.to_csv(tmp_path / "data.csv", index=False)
        raw = download.fn("d", str(tmp_path / "data.csv"))
        models = [fit_in_chunks(OPAUC(random_state=0), raw, ConversionRule("y"), rows=rows) for rows in (100, 5000)]
        scaler = StandardScaler().fit(frame[["a", "b"]])
        for model in models:
            np.testing.assert_allclose(model[0].mean_, scaler.mean_, rtol=1e-12)
            np.testing.assert_allclose(model[0].scale_, scaler.scale_, rtol=1e-12)
            assert roc_auc_score(y, model.decision_function(frame[["a", "b"]])) > 0.7
        np.testing.assert_array_equal(models[0][-1].coef_, models[1][-1].coef_)

    @pytest.mark.parametrize("format", ["csv", "svmlight"])
    @pytest.mark.parametrize(
        ("factor", "words"),
        [
            (1e-200, "can be scaled in {}, got none beyond"),
            (1e160, r"can be scaled in {}, got \d\S+, whose square is infinite"),
            (1e151, r"can be scaled in {}, got \d\S+, whose square is infinite"),
        ],
    )
    def test_a_column_that_cannot_be_scaled_is_refused_by_name(self, format, factor, words, tmp_path):
        rng = np.random.default_rng(0)
        y, X = np.arange(300) % 3, rng.normal(size=(300, 3)) * [1, factor, 1]
        if format == "csv":
            pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y > 0).to_csv(tmp_path / "data.csv", index=False)
        else:
            dump_svmlight_file(X, y > 0, str(tmp_path / "data.svmlight"), zero_based=False)
        raw = download.fn("d", str(tmp_path / f"data.{format}"), format)
        name = "column 'b'" if format == "csv" else "feature 2"
        with pytest.raises(BadInput, match=words.format(name)):
            fit_in_chunks(SOLAM(), raw, ConversionRule("y" if format == "csv" else None))
        with pytest.raises(BadInput, match=words.format(name)):
            convert.fn(raw, ConversionRule("y" if format == "csv" else None))

    def test_texts_are_refused_with_a_remedy(self, tmp_path):
        raw = written(tmp_path, "a,t,y\n1,u,0\n2,v,1\n", "data.csv")
        with pytest.raises(BadInput, match=r"texts in 't'\. Leave them out with drop"):
            fit_in_chunks(SOLAM(), raw, ConversionRule("y"))
        assert len(fit_in_chunks(SOLAM(), raw, ConversionRule("y", drop=("t",)), rows=1)) == 3
