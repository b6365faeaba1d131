"""Groups: rows that depend on each other, as the visits of one patient, are on one side of every division."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedGroupKFold

from tasks.calibrate import calibration_splits, settle_threshold
from tasks.configuration import DatasetConfig, ExperimentConfig
from tasks.convert import convert, load, refuse_roles
from tasks.download import download
from tasks.errors import BadInput
from tasks.evaluate import score_rows
from tasks.manifest import data_section
from tasks.schema import parse
from tasks.search import inner_splits
from tasks.split import HeldOut, _QuickGroupKFold, all_rows, kept_together, row_keys, split
from tasks.values import ConversionRule, Table

RULE = ConversionRule("ill", "yes", group="patient")
QUARTER = HeldOut.of(0.25, 3)
FEW = settings(max_examples=60, deadline=None)


def visits(n_patients=90, seed=0):
    """Return visits of patients who are ill or not, shuffled; a patient's numbers are much the same each time."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), rng.integers(1, 8, n_patients))
    ill = np.where(rng.random(n_patients) < 0.4, "yes", "no")[patient]
    pressure = rng.normal(size=n_patients)[patient] + 0.1 * rng.normal(size=len(patient))
    frame = pd.DataFrame({"patient": patient, "pressure": pressure.round(6), "age": 40.0 + patient % 7, "ill": ill})
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def siphash(data):
    """Return SipHash-2-4 (Aumasson and Bernstein 2012) under pandas' key, and scrambled as pandas does (splitmix64)."""
    mask = 2**64 - 1

    def turned(value, by):
        return (value << by | value >> (64 - by)) & mask

    def mixed(a, b, c, d):
        a, c = (a + b) & mask, (c + d) & mask
        b, d = turned(b, 13) ^ a, turned(d, 16) ^ c
        a, c = (turned(a, 32) + d) & mask, (c + b) & mask
        b, d = turned(b, 17) ^ c, turned(d, 21) ^ a
        return a, b, turned(c, 32), d

    halves = [int.from_bytes(b"0123456789123456"[place : place + 8], "little") for place in (0, 8)]
    initial = [
        int.from_bytes(b"somepseudorandomlygeneratedbytes"[place : place + 8], "big") for place in range(0, 32, 8)
    ]
    state = [word ^ halves[i % 2] for i, word in enumerate(initial)]
    blocks = [data[place : place + 8] for place in range(0, len(data) - 7, 8)]
    blocks.append(data[8 * len(blocks) :].ljust(7, b"\0") + bytes([len(data) % 256]))
    for block in blocks:
        word = int.from_bytes(block, "little")
        state[3] ^= word
        state = [*mixed(*mixed(*state))]
        state[0] ^= word
    state[2] ^= 0xFF
    for _ in range(4):
        state = [*mixed(*state)]
    value = state[0] ^ state[1] ^ state[2] ^ state[3]
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def dataset_of(frame, path, rule=RULE):
    frame.to_csv(path, index=False)
    return convert.fn(download.fn("visits", str(path)), rule)


@pytest.fixture
def dataset(tmp_path):
    return dataset_of(visits(), tmp_path / "visits.csv")


def config_of(**validation):
    return ExperimentConfig.model_validate(
        {
            "datasets": [{"source": "visits.csv", "group": "patient"}],
            "methods": ["linear_svm"],
            "validation": {"inner_folds": 3} | validation,
        }
    )


class TestColumn:
    def test_it_is_no_feature_and_a_file_to_score_may_have_it_or_not(self, dataset):
        assert dataset.columns == ("pressure", "age") and dataset.n_features == 2
        assert dataset.layout.left_out == ("patient",)
        assert dataset.provenance.rule.endswith("; rows of one 'patient' stay together")

    def test_rows_of_one_value_have_one_key_and_others_have_others(self, dataset):
        frame, keys = visits(), load(dataset).groups
        assert len(set(zip(frame["patient"], keys.tolist(), strict=True))) == frame["patient"].nunique()
        assert len(set(keys.tolist())) == frame["patient"].nunique()

    def test_a_value_is_known_again_however_it_is_written(self, tmp_path):
        """As a whole number, as one with a point, as a text, and in Parquet: rows held out hang on it."""
        frame = visits()
        written = [
            dataset_of(frame, tmp_path / "a.csv"),
            dataset_of(frame.astype({"patient": float}), tmp_path / "b.csv"),
        ]
        for name, kind in (("c", "int64"), ("d", "float64"), ("e", "str"), ("f", "Int32"), ("g", "category")):
            frame.astype({"patient": kind}).to_parquet(tmp_path / f"{name}.parquet")
            written.append(convert.fn(download.fn("visits", str(tmp_path / f"{name}.parquet")), RULE))
        assert {one.sha256 for one in written} == {written[0].sha256}

    @pytest.mark.parametrize("other", ["EXT-1", "12345678901234567890123", "1.5", "yes"])
    def test_a_key_hangs_on_its_own_value_alone(self, tmp_path, other):
        """One new id with letters made texts of all, 000017 was no longer 17, and other patients were held out."""
        frame = visits().assign(patient=lambda f: f["patient"].map("{:06d}".format))
        usual = load(dataset_of(frame, tmp_path / "usual.csv")).groups
        frame.loc[3, "patient"] = other
        mixed = load(dataset_of(frame, tmp_path / "mixed.csv")).groups
        same = np.arange(len(frame)) != 3
        assert np.array_equal(usual[same], mixed[same]) and mixed[3] not in mixed[same]

    def test_numbers_that_no_float_holds_are_told_apart(self, tmp_path):
        frame = visits().assign(patient=lambda f: f["patient"].map(lambda i: str(10**22 + i)))
        for separator in ",;":
            frame.to_csv(tmp_path / "long.csv", index=False, sep=separator)
            dataset = convert.fn(download.fn("visits", str(tmp_path / "long.csv")), RULE)
            assert len(np.unique(load(dataset).groups)) == visits()["patient"].nunique()

    def test_of_two_columns_of_that_name_none_is_taken(self, tmp_path):
        visits().assign(other=1).rename(columns={"other": "patient"}).to_csv(tmp_path / "two.csv", index=False)
        with pytest.raises(BadInput, match="expected one column 'patient' as group, got 2"):
            convert.fn(download.fn("visits", str(tmp_path / "two.csv")), RULE)

    def test_keys_are_the_same_for_ever(self, tmp_path):
        """Patients held out hang on them: another version of pandas must not draw others without anybody noticing."""
        frame = pd.DataFrame({"patient": ["17", "anna", "süd"], "a": [1, 2, 3], "ill": ["yes", "no", "no"]})
        keys = load(dataset_of(frame, tmp_path / "few.csv")).groups
        assert keys.tolist() == [siphash(text.encode()) for text in frame["patient"]]
        assert hex(keys[0]) == "0x15c4bf1f29650475"  # as it was with pandas 2.3

    def test_a_manifest_has_it_where_there_is_one_and_else_is_what_it_always_was(self, dataset):
        """With a new key of no meaning each replay of an earlier run ended as `differs`."""
        plain = convert.fn(dataset.raw, ConversionRule("ill", "yes"))
        assert data_section(dataset)["conversion"]["group"] == "patient"
        assert "group" not in data_section(plain)["conversion"]

    def test_a_column_without_a_name_is_read_as_spelt_too(self, tmp_path):
        ids = [str(2**55 + i) for i in range(2)] * 6
        lines = [f"{one},{i},{'yes' if i % 3 else 'no'}" for i, one in enumerate(ids)]
        (tmp_path / "index.csv").write_text("\n".join([",a,ill", *lines]))
        rule = ConversionRule("ill", "yes", group="column_1")
        assert len(np.unique(load(convert.fn(download.fn("index", str(tmp_path / "index.csv")), rule)).groups)) == 2

    def test_a_decimal_comma_makes_no_other_number_of_it(self, tmp_path):
        ids, found = ["17", "18,0", "0019"], []
        for mark in (",", ".", ""):
            lines = [f"{one.replace(',', mark)};{i},5;{'yes' if i % 2 else 'no'}" for i, one in enumerate(ids)]
            (tmp_path / "ids.csv").write_text("\n".join(["id;a;ill", *lines]))
            rule = ConversionRule("ill", "yes", group="id")
            found.append(load(convert.fn(download.fn("ids", str(tmp_path / "ids.csv")), rule)).groups.tolist())
        assert found[0] == found[1] and found[2][1] != found[0][1], "180 is another"
        (tmp_path / "ids.csv").write_text("id;a;ill\n1;1,5;no\n1.000;2,5;yes\n1;3,5;yes\n")
        many = load(convert.fn(download.fn("ids", str(tmp_path / "ids.csv")), rule)).groups
        assert many[0] == many[2] != many[1], "which may be a thousand"

    def test_it_is_part_of_the_digest(self, tmp_path, dataset):
        """Who is whose patient decides the folds, though features and labels are the same."""
        frame = visits()
        other = dataset_of(frame.assign(patient=frame["patient"] // 2), tmp_path / "other.csv")
        assert (other.X_sha256, other.y_sha256) == (dataset.X_sha256, dataset.y_sha256)
        assert other.sha256 != dataset.sha256
        plain = convert.fn(dataset.raw, ConversionRule("ill", "yes", drop=("patient",)))
        assert (plain.X_sha256, plain.y_sha256) == (dataset.X_sha256, dataset.y_sha256)
        assert plain.sha256 != dataset.sha256 and load(plain).groups is None

    def test_rows_that_are_left_out_take_their_groups_along(self, tmp_path):
        frame = visits().assign(ill=lambda f: np.where(np.arange(len(f)) % 3 == 0, "unknown", f["ill"]))
        rule = ConversionRule("ill", conversion="class_groups", groups=(("yes",), ("no",)), group="patient")
        table = load(dataset_of(frame, tmp_path / "some.csv", rule))
        kept = frame[frame["ill"] != "unknown"]
        assert np.array_equal(pd.factorize(table.groups)[0], pd.factorize(kept["patient"])[0])

    @pytest.mark.parametrize("empty", ["", "NA", "  "])
    def test_a_row_of_nobody_is_refused_with_its_line(self, tmp_path, empty):
        frame = visits().astype({"patient": object})
        frame.loc[[4, 9], "patient"] = empty
        with pytest.raises(BadInput, match=r"visits.csv, line 6: expected a value of the group 'patient'.*2 in all"):
            dataset_of(frame, tmp_path / "visits.csv")

    def test_a_name_that_is_no_column_is_refused_with_the_nearest(self, tmp_path):
        with pytest.raises(BadInput, match=r"expected a group out of .*got 'patients'. Did you mean 'patient'\?"):
            dataset_of(visits(), tmp_path / "visits.csv", ConversionRule("ill", "yes", group="patients"))

    def test_the_target_and_a_feature_of_svmlight_are_none(self, tmp_path):
        with pytest.raises(BadInput, match="got group 'ill': that is the target"):
            dataset_of(visits(), tmp_path / "visits.csv", ConversionRule("ill", "yes", group="ill"))
        (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n" * 5)
        rule = ConversionRule(group="patient")
        with pytest.raises(BadInput, match="svmlight has no columns' names"):
            refuse_roles(convert.fn(download.fn("rows", str(tmp_path / "rows.svm")), rule))

    def test_a_config_may_name_it_by_number_or_with_blanks_and_not_among_the_dropped(self):
        assert parse(DatasetConfig, {"source": "a.csv", "group": 3}, "c").group == "3"
        assert parse(DatasetConfig, {"source": "a.csv", "group": " patient "}, "c").group == "patient"
        assert parse(DatasetConfig, {"source": "catalogue:wine", "group": "x"}, "c").published_key is None
        with pytest.raises(BadInput, match="expected a column's name, got blanks"):
            parse(DatasetConfig, {"source": "a.csv", "group": " "}, "c")
        with pytest.raises(BadInput, match="Expected the group 'patient' outside of drop"):
            parse(DatasetConfig, {"source": "a.csv", "group": "patient", "drop": ["patient"]}, "c")


def apart(groups, *parts):
    """Tell whether no group has rows in two of the parts."""
    sets = [set(groups[rows].tolist()) for rows in parts]
    return sum(map(len, sets)) == len(set.union(*sets))


class TestDivisions:
    def test_no_patient_is_on_two_sides(self, dataset):
        table, held_out = load(dataset), all_rows(dataset, QUARTER).test
        assert 0.1 < len(held_out) / dataset.n_rows < 0.4
        for one in split.fn(dataset, 4, 2, 5, False, QUARTER):
            assert apart(table.groups, one.train, one.test, held_out)
            inside = table.rows(one.train)
            for divide in (inner_splits, calibration_splits):
                inner = divide(inside, config_of())
                assert len(inner) == 3
                assert all(apart(inside.groups, part.train, part.test) for part in inner)

    def test_a_patient_held_out_stays_so_with_every_visit_to_come(self, tmp_path, dataset):
        frame = visits()
        more = pd.concat([frame, visits(seed=4)], ignore_index=True).sample(frac=1, random_state=8)
        later = dataset_of(more, tmp_path / "later.csv")

        def out(one):
            return set(load(one).groups[all_rows(one, QUARTER).test].tolist())

        assert out(later) == out(dataset)  # these are the same ninety patients
        assert len(all_rows(later, QUARTER).test) > len(all_rows(dataset, QUARTER).test)

    def test_a_copy_of_a_row_held_out_trains_nothing_where_copies_stay_together(self, tmp_path):
        """It may be of another patient, who is not held out."""
        frame = visits()
        copies = frame[:60].assign(patient=lambda f: f["patient"] + 500)
        dataset = dataset_of(pd.concat([frame, copies], ignore_index=True), tmp_path / "copies.csv")
        keys = row_keys(load(dataset).X)
        for grouped in (False, True):
            refit = all_rows(dataset, QUARTER, grouped)
            crossing = np.isin(keys[refit.train], keys[refit.test]).sum()
            assert (crossing == 0) == grouped
            assert np.array_equal(refit.test, all_rows(dataset, QUARTER).test)
        assert all(apart(keys, one.train, one.test, refit.test) for one in split.fn(dataset, 3, 1, 0, True, QUARTER))

    @given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40), st.booleans())
    @FEW
    def test_what_stays_together_is_linked_by_patients_and_copies(self, rows, copies):
        groups, points = np.array(rows, dtype=np.uint64).T
        table = Table(pd.DataFrame({"a": points.astype(float)}), np.ones(len(rows)), groups)
        linked = [{i} for i in range(len(rows))]  # sets that are merged until nothing is linked any more
        for i, (group, point) in enumerate(rows):
            for j in range(i):
                if (group == rows[j][0] or (copies and point == rows[j][1])) and linked[i] is not linked[j]:
                    whole = linked[i] | linked[j]
                    for k in whole:
                        linked[k] = whole
        found = kept_together(table, copies)
        assert all((found[i] == found[j]) == (j in linked[i]) for i in range(len(rows)) for j in range(i))

    def test_without_either_nothing_does(self):
        table = Table(pd.DataFrame({"a": [1.0, 1.0]}), np.array([1, -1]))
        assert kept_together(table, False) is None
        assert len(set(kept_together(table, True).tolist())) == 1

    @given(
        st.integers(2, 8), st.integers(8, 60), st.integers(0, 10**6), st.sampled_from([0.1, 0.3, 0.5]), st.booleans()
    )
    @FEW
    def test_folds_are_those_of_scikit_learn(self, folds, n_groups, seed, share, uneven):
        rng = np.random.default_rng(seed)
        groups = rng.integers(0, n_groups, 200)
        groups = np.minimum(groups, rng.geometric(0.1, 200)) if uneven else groups
        y = np.where(rng.random(200) < share, 1, -1)
        if len(np.unique(groups)) < folds or len(np.unique(y)) < 2:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a class that has fewer rows than there are folds
            kinds = (StratifiedGroupKFold, _QuickGroupKFold)
            theirs, ours = ([*kind(folds, shuffle=True, random_state=1).split(y, y, groups)] for kind in kinds)
        assert all(np.array_equal(one[1], other[1]) for one, other in zip(theirs, ours, strict=True))

    def test_scikit_learn_still_asks_our_method_for_the_fold(self, monkeypatch):
        """Else each division of many groups would take ten times as long, and nothing would tell."""
        asked = []
        find = _QuickGroupKFold._find_best_fold
        monkeypatch.setattr(_QuickGroupKFold, "_find_best_fold", lambda *a, **k: asked.append(1) or find(*a, **k))
        y = np.where(np.arange(40) % 4 == 0, 1, -1)
        list(_QuickGroupKFold(2, shuffle=True, random_state=0).split(y, y, np.arange(40) // 2))
        assert len(asked) == 20

    def test_one_patient_with_all_that_are_ill_is_too_many(self, tmp_path):
        frame = visits().assign(patient=lambda f: np.where(f["ill"] == "yes", -1, f["patient"]))
        with pytest.raises(BadInput, match="too many rows, of one group or copies of each other"):
            split.fn(dataset_of(frame, tmp_path / "one.csv"), 3, 1, 0)


class TestUse:
    def test_the_interval_of_an_auc_is_that_of_groups(self, dataset):
        table = load(dataset)
        model = type("Model", (), {"pipeline": type("P", (), {"decision_function": _pressure})(), "threshold": 0.0})()
        by_groups, _ = score_rows(model, table)
        by_rows, _ = score_rows(model, Table(table.X, table.y))
        assert by_groups.auc == by_rows.auc and by_groups.auc_variance > 2 * by_rows.auc_variance

    def test_whether_training_rows_divide_is_asked_of_every_fold(self, dataset):
        """As it is where copies stay together: the rarer class alone does not say it."""
        config = config_of(threshold="auto")
        splits = split.fn(dataset, 4, 1, 5)
        settled = settle_threshold(config, config.methods[0], dataset, splits)
        assert settled.validation.threshold != "auto"


def _pressure(_self, X):
    return X["pressure"].to_numpy()
