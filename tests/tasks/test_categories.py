"""Categories: numbers that are names, as those of merchants are, are taken for names in training and wherever else."""

import json
import re
import tracemalloc
from dataclasses import replace
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq
from sklearn.pipeline import Pipeline

from aucsolvers import LSSVM, Ranker
from aucsolvers.cells import as_categories
from aucsolvers.metrics import auc
from tasks import check
from tasks.chunks import chunks, fit_in_chunks
from tasks.configuration import DatasetConfig, PreprocessingConfig
from tasks.convert import convert, load, refuse_roles, table_sha256
from tasks.download import download
from tasks.errors import BadInput
from tasks.manifest import data_section
from tasks.models import KeptModel, column_types, example_rows
from tasks.predict import predict
from tasks.preprocess import known_texts, make_preprocessing
from tasks.retraining import _other_features
from tasks.schema import parse
from tasks.split import row_keys
from tasks.values import ConversionRule, Layout, Table

RULE = ConversionRule("fraud", "yes", categories=("shop",))


def claims(n=3000, n_shops=40, seed=0):
    """Return payments at shops whose numbers are names: how many are frauds hangs on the shop, not on its number."""
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, n_shops, n)
    rate = rng.choice([0.02, 0.4], n_shops)[shop]
    return pd.DataFrame(
        {
            "shop": 5000 + 7 * shop,
            "amount": rng.normal(size=n).round(3),
            "fraud": np.where(rng.random(n) < rate, "yes", "no"),
        }
    )


def dataset_of(frame, path, rule=RULE):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return convert.fn(download.fn("claims", str(path)), rule)


def kept(table):
    """Return LSSVM behind preprocessing, fitted to a table, as a model that is kept."""
    preprocessing = make_preprocessing(table.X, PreprocessingConfig())
    scorer = Pipeline([("preprocessing", preprocessing), ("solver", LSSVM(lam=1e-3))]).fit(table.X, table.y)
    columns = column_types(table)
    ranker = Ranker(scorer, positive_label="yes", negative_label="no", columns=columns)
    return KeptModel(ranker, columns, table.X.shape[1], Layout(target="fraud"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    table = load(dataset_of(claims(), tmp_path_factory.mktemp("trained") / "claims.csv"))
    return table, kept(table)


class TestACell:
    @pytest.mark.parametrize(
        "cells, texts",
        [
            ([17, 17.0, "17", " 017 ", "17.0", "+17"], ["17"] * 6),
            ([True, "true", "TRUE", 1, "1"], ["1"] * 5),
            ([None, np.nan, pd.NaT, "", "  ", "NA", "?", " nan"], [None] * 8),
            ([pd.Timestamp("2026-03-01"), date(2026, 3, 1), "2026-03-01"], ["2026-03-01"] * 3),
            ([Decimal("17.00"), Decimal("1.50"), np.float32(0.5), np.int8(3)], ["17", "1.50", "0.5", "3"]),
            (["250.1", "250.10", 250.1, "V10", "1E5", "-3"], ["250.1", "250.10", "250.1", "V10", "1E5", "-3"]),
            ([2**62 + 1, str(2**62 + 1), "0" * 30 + "7"], [str(2**62 + 1)] * 2 + ["7"]),
        ],
    )
    def test_is_one_category_however_it_is_spelt(self, cells, texts):
        assert as_categories(pd.Series(cells, dtype=object)).tolist() == texts

    def test_behind_a_comma_a_whole_number_may_have_zeros_where_commas_are_decimal_marks(self):
        cells = pd.Series(["17,0", "17.0", "17,5"])
        assert as_categories(cells, ".,").tolist() == ["17", "17", "17,5"]
        assert as_categories(cells).tolist() == ["17,0", "17", "17,5"]

    @given(st.lists(st.one_of(st.none(), st.integers(-(2**53), 2**53)), min_size=1, max_size=20))
    def test_says_the_same_in_a_column_of_any_type(self, numbers):
        """Of a column with gaps pandas makes floats, of one with a text objects, and a file has texts."""
        wanted = [None if number is None else str(number) for number in numbers]
        columns = [
            pd.Series(numbers, dtype=object),
            pd.Series(numbers, dtype="Int64"),
            pd.Series(numbers, dtype="float64"),
            pd.Series([None if n is None else f"00{n}.0" if n >= 0 else str(n) for n in numbers], dtype=object),
            pd.Series(numbers, dtype=object).astype("category"),
        ]
        assert [as_categories(column).tolist() for column in columns] == [wanted] * 5


class TestConversion:
    def test_makes_texts_of_numbers_alike_in_all_formats(self, tmp_path):
        frame = claims(300)
        frame.loc[::11, "shop"] = np.nan  # the others are 5007.0 by now
        csv, parquet = (dataset_of(frame, tmp_path / f"c.{format}") for format in ("csv", "parquet"))
        nullable = dataset_of(frame.astype({"shop": "Int64"}), tmp_path / "n.csv")
        assert csv.X_sha256 == parquet.X_sha256 == nullable.X_sha256
        X = load(csv).X
        assert X["shop"].isna().sum() == csv.missing_cells["shop"] == len(frame[::11])
        assert set(X["shop"].dropna()) == {f"{shop:.0f}" for shop in frame["shop"].dropna()}
        assert csv.text_columns == ("shop",)
        assert csv.provenance.rule.endswith("taken as categories: 'shop'")

    @pytest.mark.parametrize("rows", [3, 1000])
    def test_of_long_numbers_beside_gaps_and_of_spreadsheets_commas(self, tmp_path, rows):
        """As float64 these numbers would be others, or one; a spreadsheet writes those beside a gap as 17,0."""
        codes = [2**53 + 1, 2**53 + 3, None, 17] * 5
        frame = pd.DataFrame({"shop": pd.array(codes, "Int64"), "fraud": ["yes", "no", "no", "no", "yes"] * 4})
        pq.write_table(pa.Table.from_pydict(frame.astype(object).where(frame.notna(), None).to_dict("list")),
                       tmp_path / "c.parquet")  # fmt: skip
        spelt = [
            ("" if code is None else "17,0" if code == 17 else code, y)
            for code, y in zip(codes, frame["fraud"], strict=True)
        ]
        (tmp_path / "c.csv").write_text("shop;fraud\n" + "".join(f"{code};{y}\n" for code, y in spelt))
        for name in ("c.parquet", "c.csv"):
            dataset = convert.fn(download.fn("c", str(tmp_path / name)), RULE)
            texts = load(dataset).X["shop"].tolist()
            assert texts == [None if code is None else str(code) for code in codes], name
            pieces = [piece.X["shop"] for piece in chunks(dataset.raw, RULE, rows)]
            assert pd.concat(pieces).tolist() == texts

    def test_takes_no_other_column_of_the_same_name_with_it(self, tmp_path):
        (tmp_path / "d.csv").write_text("c,c,y\n1.10,1.10,no\n1.10,2.5,no\n2,3,yes\n")
        for named, kinds in (("c", [object, np.float64]), ("c_2", [np.float64, object])):
            rule = ConversionRule("y", categories=(named,))
            dataset = convert.fn(download.fn("d", str(tmp_path / "d.csv")), rule)
            X = load(dataset).X
            assert X.dtypes.tolist() == kinds and X[named].tolist()[0] == "1.10"
            assert next(iter(chunks(dataset.raw, rule, 100))).X.equals(X)

    def test_a_long_cell_costs_what_it_holds(self, tmp_path):
        frame = claims(20_000).astype({"shop": object})
        frame.loc[7, "shop"] = "x" * 5000
        frame.to_csv(tmp_path / "c.csv", index=False)
        raw = download.fn("c", str(tmp_path / "c.csv"))
        tracemalloc.start()
        convert.fn(raw, RULE)
        assert tracemalloc.get_traced_memory()[1] < 60e6  # as an array of texts of one length it would be 400 MB
        tracemalloc.stop()

    def test_a_cell_of_a_file_is_as_it_is_spelt(self, tmp_path):
        """All of these are numbers, and 250.10 is another disease than 250.1."""
        (tmp_path / "d.csv").write_text("icd,fraud\n250.1,yes\n250.10,no\n0250,no\n?,yes\nNA,no\n")
        dataset = convert.fn(download.fn("d", str(tmp_path / "d.csv")), ConversionRule("fraud", categories=("icd",)))
        assert load(dataset).X["icd"].tolist() == ["250.1", "250.10", "250", None, None]

    @pytest.mark.parametrize("rows", [1, 7, 100])
    def test_in_chunks_is_that_of_the_whole(self, tmp_path, rows):
        frame = claims(260).astype({"shop": object})
        frame.loc[250, "shop"] = "online"  # numbers up to here
        frame.loc[3, "shop"] = "05007"
        dataset = dataset_of(frame, tmp_path / "c.csv")
        pieces = list(chunks(dataset.raw, RULE, rows))
        joined = Table(pd.concat([p.X for p in pieces], ignore_index=True), np.concatenate([p.y for p in pieces]))
        assert table_sha256(joined) == dataset.sha256
        with pytest.raises(BadInput, match="got texts in 'shop'"):
            fit_in_chunks(LSSVM(), dataset.raw, RULE, rows)

    def test_what_was_on_record_stays_as_it_was(self, tmp_path):
        plain, named = (dataset_of(claims(99), tmp_path / "c.csv", ConversionRule("fraud", "yes", categories=of))
                        for of in ((), ("shop",)))  # fmt: skip
        assert "categories" not in data_section(plain)["conversion"], "earlier manifests have none"
        assert data_section(named)["conversion"]["categories"] == ["shop"]
        assert data_section(named)["columns"] == {"shop": "category", "amount": "number"}
        assert plain.X_sha256 != named.X_sha256 and plain.y_sha256 == named.y_sha256

    @pytest.mark.parametrize(
        "categories, words",
        [
            (("shap",), r"expected categories out of 'shop', 'amount', 'fraud', got 'shap'. Did you mean 'shop'\?"),
            (("fraud",), "expected features as categories, got 'fraud', the target"),
        ],
    )
    def test_refuses_a_column_that_is_none(self, tmp_path, categories, words):
        with pytest.raises(BadInput, match=words):
            dataset_of(claims(99), tmp_path / "c.csv", ConversionRule("fraud", "yes", categories=categories))

    def test_refuses_a_column_that_is_left_out_anyway(self, tmp_path):
        dataset = dataset_of(claims(99), tmp_path / "c.csv", replace(RULE, drop=("shop",)))
        with pytest.raises(BadInput, match="got 'shop', which is left out"):
            refuse_roles(dataset)

    def test_refuses_categories_of_a_file_without_names(self, tmp_path):
        (tmp_path / "a.svm").write_text("1 1:1\n-1 2:1\n")
        dataset = convert.fn(download.fn("a", str(tmp_path / "a.svm")), ConversionRule(categories=("1",)))
        with pytest.raises(BadInput, match="expected no categories, got '1': svmlight has no columns' names"):
            refuse_roles(dataset)

    @pytest.mark.parametrize("role, value", [("drop", ["shop"]), ("group", "shop"), ("time", "shop")])
    def test_a_config_does_not_name_a_column_twice(self, role, value):
        with pytest.raises(BadInput, match=f"got 'shop', which is in {role} and so none"):
            parse(DatasetConfig, {"source": "a.csv", "categories": [" shop"], role: value}, "c")


class TestAModel:
    def test_ranks_by_names_what_it_cannot_rank_by_quantities(self, trained, tmp_path):
        table, model = trained
        plain = load(dataset_of(claims(), tmp_path / "c.csv", ConversionRule("fraud", "yes")))
        assert auc(table.y, model.ranker.predict(table.X)) > auc(plain.y, kept(plain).ranker.predict(plain.X)) + 0.1
        assert known_texts(model.ranker.scorer)["shop"][0] == frozenset(table.X["shop"])

    @pytest.mark.parametrize("spelt", [int, float, str, "0{}".format, "{}.0".format])
    def test_scores_a_number_in_any_spelling(self, trained, spelt):
        table, model = trained
        rows = claims().drop(columns="fraud").head(50)
        given = rows.assign(shop=pd.Series([spelt(int(shop)) for shop in rows["shop"]]))
        np.testing.assert_array_equal(model.ranker.predict(given), model.ranker.predict(table.X.head(50)))

    def test_scores_what_a_server_makes_of_json(self, trained):
        _, model = trained
        rows = pd.DataFrame(json.loads('[{"shop": 5007, "amount": 1}, {"shop": "05007", "amount": 1.0}]'))
        first, second = model.ranker.predict(rows)
        assert first == second

    @pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
    @pytest.mark.parametrize("rows", [1, 7, 1000])
    def test_scores_a_file_to_the_last_bit_and_tells_of_new_names(self, trained, tmp_path, name, rows):
        table, model = trained
        frame = claims().head(300).drop(columns="fraud").astype({"shop": object})
        frame.loc[[5, 17], "shop"] = ["online", "4999"]
        frame["shop"] = frame["shop"].astype(str)
        path, out = tmp_path / name, tmp_path / "out.csv"
        frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
        told = predict(model, download.fn("new", str(path)), out, {}, rows)
        scores = pd.read_csv(out, float_precision="round_trip")["score"]
        np.testing.assert_array_equal(scores, model.ranker.predict(frame))
        known = frame.index.difference([5, 17])
        np.testing.assert_array_equal(scores[known], model.ranker.predict(table.X.head(300))[known])
        assert (told.texts["shop"].unknown, told.texts["shop"].examples) == (2, ("online", "4999"))

    def test_takes_no_list_for_a_category(self, trained, tmp_path):
        _, model = trained
        with pytest.raises(ValueError, match=r"a number, a text or a truth value in column 'shop', got \[5007\]"):
            model.ranker.predict(pd.DataFrame({"shop": [5007, [5007]], "amount": 1.0}))

    def test_takes_what_else_says_that_a_cell_is_missing(self, trained):
        _, model = trained
        rows = pd.DataFrame({"shop": [None, "NA", "?", np.nan, ""], "amount": 1.0})
        assert len(set(model.ranker.predict(rows))) == 1

    def test_of_quantities_meets_rows_of_categories_and_the_other_way_round(self, trained, tmp_path):
        """So a champion and a challenger of another mind can be compared."""
        table, model = trained
        plain = load(dataset_of(claims(), tmp_path / "c.csv", ConversionRule("fraud", "yes")))
        by_size = kept(plain)
        np.testing.assert_array_equal(by_size.ranker.predict(table.X), by_size.ranker.predict(plain.X))
        np.testing.assert_array_equal(model.ranker.predict(plain.X), model.ranker.predict(table.X))
        named, unnamed = (dataset_of(claims(), tmp_path / "c.csv", rule) for rule in (RULE, ConversionRule("fraud")))
        assert not _other_features(by_size, named, table) and not _other_features(model, unnamed, plain)
        letters = table.X.assign(shop=table.X["shop"].replace("5007", "K7"))
        other = _other_features(by_size, named, Table(letters, table.y, categories=("shop",)))
        assert other == "of another type are shop (category)"
        model_of_texts = replace(by_size, columns={"shop": "text", "amount": "number"})
        for texts, told in ((["north", None], ""), (["north", "007"], "of another type are shop (category)")):
            rows = pd.DataFrame({"shop": pd.Series(texts, dtype=object), "amount": 1.0})
            assert _other_features(model_of_texts, named, Table(rows, table.y[:2], categories=("shop",))) == told

    def test_has_an_example_that_it_can_score(self, trained):
        table, model = trained
        assert len(model.ranker.predict(example_rows(table))) == 5


class TestWhatLooksLikeCodes:
    def found(self, values, y):
        X = pd.DataFrame({"shop": np.asarray(values, float)})
        return check.codes_as_quantities(Table(X, y), np.arange(len(y)))

    def test_is_told_with_both_areas(self, tmp_path):
        dataset = dataset_of(claims(), tmp_path / "c.csv", ConversionRule("fraud", "yes"))
        (finding,) = [f for f in check.check.fn(dataset, 5, 1, 0) if f.kind == "codes_as_quantities"]
        assert finding.severity == "warning" and finding.columns == ("shop",)
        assert finding.message.endswith("codes, name it with --category 'shop' (categories, in a config).")
        told, rest = (float(found) for found in re.findall(r"0\.\d\d", finding.message))
        table = load(dataset)
        table = table.rows(np.unique(row_keys(table.X), return_index=True)[1])
        shops, y = table.X["shop"].to_numpy(), table.y
        others = [(y[(shops == shop)] > 0).sum() - (own > 0) for shop, own in zip(shops, y, strict=True)]
        rows = [(shops == shop).sum() - 1 for shop in shops]
        assert told == pytest.approx(auc(y, np.divide(others, rows)), abs=0.005) and rest < told - 0.05

    def test_is_nothing_where_it_was_named(self, tmp_path):
        dataset = dataset_of(claims(), tmp_path / "c.csv")
        kinds = {f.kind: f for f in check.check.fn(dataset, 5, 1, 0)}
        assert "codes_as_quantities" not in kinds and "text_column" not in kinds
        assert kinds["category_column"].severity == "info" and "40 values" in kinds["category_column"].message

    @pytest.mark.parametrize("rate", [lambda x: x / 60, lambda x: 0.9 - np.abs(x - 15) / 20,
                                      lambda x: 0.5 + 0.4 * np.sin(x / 3), lambda x: np.where(x == 0, 0.9, 0.1)],
                             ids=["rising", "middle", "waves", "zero apart"])  # fmt: skip
    def test_is_no_quantity_of_whatever_shape(self, rate):
        rng = np.random.default_rng(1)
        values = np.where(rng.random(4000) < 0.4, 0, rng.integers(0, 30, 4000))
        y = np.where(rng.random(4000) < rate(values), 1, -1)
        assert self.found(values, y) is None

    def test_is_no_chance(self):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            y = np.where(rng.random(600) < 0.1, 1, -1)
            assert self.found(rng.integers(0, 40, 600), y) is None

    @pytest.mark.parametrize("n_values", [3, 900])
    def test_needs_many_values_that_repeat(self, n_values):
        rng = np.random.default_rng(2)
        values = rng.integers(0, n_values, 1000)
        y = np.where(rng.random(n_values)[values] < 0.5, 1, -1)
        assert self.found(values, y) is None

    def test_is_none_of_the_quantities_of_real_data(self, mirror):
        for name, folder in (("pima", "keel"), ("vehicle1", "keel"), ("yeast3", "keel")):
            raw = download.fn(name, str(mirror / folder / f"{name}.dat"))
            table = load(convert.fn(raw, ConversionRule()))
            assert check.codes_as_quantities(table, row_keys(table.X)) is None

    def test_is_no_age_of_patients_who_come_again(self, tmp_path):
        """Their own other visits, and copies of rows, tell their class by whatever they have in common."""
        rng = np.random.default_rng(4)
        age, ill = rng.integers(20, 90, 400), rng.random(400) < 0.3
        patient = np.repeat(np.arange(400), 6)
        frame = pd.DataFrame({"patient": patient, "age": age[patient], "ill": np.where(ill, "yes", "no")[patient]})
        frame["weight"] = rng.normal(size=len(frame))
        once = frame.drop_duplicates("patient").drop(columns="patient")
        copied = pd.concat([once, *[once[once["ill"] == "yes"]] * 2])  # as often as there are others
        for of, rule in (
            (frame, ConversionRule("ill", "yes", group="patient")),
            (frame, ConversionRule("ill", "yes", drop=("patient",))),
            (copied, ConversionRule("ill", "yes")),
        ):
            dataset = dataset_of(of, tmp_path / "visits.csv", rule)
            told = [f.kind for f in check.check.fn(dataset, 3, 1, 0)]
            assert ("codes_as_quantities" in told) == (rule.drop == ("patient",)), "nothing tells of whom rows are"

    def test_hardly_one_that_comes_again_is_told(self):
        column = pd.Series([str(i) for i in range(500)])
        assert check.category_column("c", column).severity == "warning"
        assert check.category_column("c", column.where(column < "3", "3")).severity == "info"
