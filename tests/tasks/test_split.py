"""Which rows test, and which are held out: divisions that hold whatever is done to the file around a row."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix, hstack

from tasks.configuration import ExperimentConfig
from tasks.convert import convert, load
from tasks.download import download
from tasks.errors import BadInput
from tasks.search import choose
from tasks.seeds import seed_for
from tasks.split import REFIT, HeldOut, all_rows, make_splits, row_keys, split
from tasks.train import fit_model
from tasks.undersample import draw_sample
from tasks.values import ConversionRule, Split, Table

QUARTER = HeldOut.of(0.25, 3)
FEW = settings(max_examples=60, deadline=None)

cells = st.one_of(st.none(), st.sampled_from(["north", "süd", ""]))
numbers = st.one_of(st.just(np.nan), st.integers(-2, 2).map(float), st.floats(-1e9, 1e9))
frames = st.lists(st.tuples(numbers, cells, numbers), min_size=1, max_size=40).map(
    lambda rows: pd.DataFrame(
        {
            "amount": np.array([row[0] for row in rows], dtype=float) + 0.0,
            "shop": pd.Series([row[1] for row in rows], dtype=object),
            "age": np.array([row[2] for row in rows], dtype=float) + 0.0,
        }
    )
)
matrices = arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 6)), elements=st.sampled_from([0.0, 1, 2.5]))


def many(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"amount": rng.normal(size=n), "shop": rng.choice(["a", "b"], n).astype(object)})


def table(path, n=300, seed=1):
    """Return the data set of a file, and the frame that was written to it."""
    frame = many(n, seed)
    frame["fraud"] = np.where(np.arange(n) % 4 == 0, "yes", "no")
    frame.to_csv(path, index=False)
    return convert.fn(download.fn("claims", str(path)), ConversionRule("fraud"))


class TestHeldOut:
    @given(frames, st.randoms(use_true_random=False))
    @FEW
    def test_a_row_is_held_out_wherever_it_stands(self, X, random):
        order = list(range(len(X)))
        random.shuffle(order)
        np.testing.assert_array_equal(QUARTER.rows(X.iloc[order]), QUARTER.rows(X)[order])

    @given(frames, frames)
    @FEW
    def test_more_rows_change_nothing_for_those_that_were_there(self, X, more):
        together = QUARTER.rows(pd.concat([X, more], ignore_index=True))
        np.testing.assert_array_equal(together[: len(X)], QUARTER.rows(X))

    @given(frames, st.permutations(["amount", "shop", "age"]))
    @FEW
    def test_the_order_of_columns_is_nothing(self, X, names):
        np.testing.assert_array_equal(QUARTER.rows(X[names]), QUARTER.rows(X))

    def test_copies_go_with_their_row(self):
        X = many(500)
        twice = QUARTER.rows(pd.concat([X, X], ignore_index=True))
        np.testing.assert_array_equal(twice[:500], twice[500:])

    @given(matrices, st.randoms(use_true_random=False))
    @FEW
    def test_sparse_rows_in_another_order_and_with_features_that_nobody_has(self, X, random):
        order = list(range(len(X)))
        random.shuffle(order)
        before = QUARTER.rows(csr_matrix(X))
        np.testing.assert_array_equal(QUARTER.rows(csr_matrix(X[order])), before[order])
        wider = csr_matrix(hstack([csr_matrix(X), csr_matrix((len(X), 3))]))
        np.testing.assert_array_equal(QUARTER.rows(wider), before)

    @pytest.mark.parametrize("share", [0.05, 0.25, 0.5])
    @pytest.mark.parametrize("seed", [0, 1, 20140801])
    def test_the_share_is_about_right(self, share, seed):
        held = HeldOut.of(share, seed).rows(many()).mean()
        assert abs(held - share) < 4 * np.sqrt(share * (1 - share) / 4000)

    def test_another_seed_draws_independently(self):
        one, other = (HeldOut.of(0.5, seed).rows(many()) for seed in (0, 1))
        assert abs((one == other).mean() - 0.5) < 0.04

    def test_a_larger_share_holds_out_the_same_rows_and_more(self):
        small, large = (HeldOut.of(share, 3).rows(many()) for share in (0.1, 0.3))
        assert large[small].all() and large.sum() > small.sum()

    def test_nothing_is_held_out_unless_asked_for(self):
        assert not HeldOut().rows(many()).any()


class TestRowKeys:
    @given(frames)
    @FEW
    def test_equal_rows_have_equal_keys_and_others_have_not(self, X):
        keys = row_keys(X)
        rows = [tuple("missing" if pd.isna(cell) else cell for cell in row) for row in X.itertuples(index=False)]
        assert len(set(keys.tolist())) == len(set(rows))
        assert len(set(zip(keys.tolist(), rows, strict=True))) == len(set(rows))

    def test_they_are_the_same_for_ever(self):
        """Rows held out hang on them: another version of pandas must not draw others without anybody noticing."""
        X = pd.DataFrame({"amount": [0.0, 1.5, np.nan, -2e9], "age": [7.0, 7.0, 1e-300, 40.0]})
        mask, keys = 2**64 - 1, []
        for row in X.to_numpy().view(np.uint64).tolist():
            # a cell is scrambled by splitmix64's finaliser; a row is combined as a tuple is by Python 3.7 and before
            key, factor = 0x345678, 1000003
            for place, cell in enumerate(row):
                cell = ((cell ^ (cell >> 30)) * 0xBF58476D1CE4E5B9) & mask
                cell = ((cell ^ (cell >> 27)) * 0x94D049BB133111EB) & mask
                key = ((key ^ cell ^ (cell >> 31)) * factor) & mask
                factor += 82520 + 2 * (len(row) - place)
            keys.append((key + 97531) & mask)
        assert row_keys(X).tolist() == keys
        texts = X.assign(shop=pd.Series(["north", "süd", None, ""], dtype=object))[["amount", "shop"]]
        assert [hex(key) for key in row_keys(texts)] == [  # as they were with pandas 2.3 and 3.0
            "0xeef9b3f0f24e84b2",
            "0x5cccd0f3e4995b76",
            "0x74a0b3e448d4d725",
            "0x68b179304431a71",
        ]
        sparse = csr_matrix([[0, 1.5], [0, 0], [2.0, 1.5]])
        assert [hex(key) for key in row_keys(sparse)] == ["0xfce6663cbd6e2a99", "0x0", "0xf80cfa750ef86239"]

    @given(matrices)
    @FEW
    def test_of_sparse_rows_too(self, X):
        keys, rows = row_keys(csr_matrix(X)).tolist(), [tuple(row) for row in X]
        assert len(set(keys)) == len(set(rows)) == len(set(zip(keys, rows, strict=True)))


class TestSplit:
    @pytest.mark.parametrize("grouped", [False, True])
    @pytest.mark.parametrize("share", [0.0, 0.25])
    def test_rows_held_out_are_in_no_fold_and_all_others_in_each(self, tmp_path, grouped, share):
        dataset, held_out = table(tmp_path / "claims.csv"), HeldOut.of(share, 3)
        refit, splits = all_rows(dataset, held_out), split.fn(dataset, 3, 2, 5, grouped, held_out)
        out = set(refit.test.tolist())
        assert refit.fold == REFIT and out.isdisjoint(refit.train) and len(out) + len(refit.train) == 300
        assert bool(out) == bool(share)
        assert [one.fold for one in splits] == list(range(6))
        for one in splits:
            train, test = set(one.train.tolist()), set(one.test.tolist())
            assert train.isdisjoint(test) and out.isdisjoint(train | test)
            assert train | test == set(refit.train.tolist())
        for repeat in (splits[:3], splits[3:]):
            tested = np.concatenate([one.test for one in repeat])
            assert sorted(tested.tolist()) == refit.train.tolist(), "each row is tested once a repeat"

    def test_folds_have_the_classes_in_proportion(self):
        y = np.where(np.arange(100) % 5 == 0, 1, -1)
        assert {int((y[one.test] > 0).sum()) for one in make_splits(y, 4, 2, 0)} == {5}

    @given(st.lists(st.integers(0, 30), min_size=60, max_size=60), st.integers(0, 5))
    @FEW
    def test_rows_of_one_group_stay_together(self, groups, seed):
        y, groups = np.where(np.arange(60) % 2 == 0, 1, -1), np.array(groups)
        try:
            parts = make_splits(y, 3, 1, seed, groups)
        except BadInput:
            assume(False)  # too few groups of a class
        for one in parts:
            assert not set(groups[one.train].tolist()) & set(groups[one.test].tolist())

    def test_folds_hang_on_which_rows_are_copies_and_not_on_what_they_are_hashed_to(self):
        """The least bit of a feature, or another hash, made other folds."""
        rng = np.random.default_rng(0)
        y, copies = np.where(np.arange(80) % 4 == 0, 1, -1), rng.integers(0, 60, size=80)
        hashes = [rng.integers(2**63, size=60)[copies] for _ in range(2)]
        first, second = (make_splits(y, 4, 2, 5, groups) for groups in hashes)
        for one, other in zip(first, second, strict=True):
            assert np.array_equal(one.test, other.test)

    @pytest.mark.parametrize("groups", [np.zeros(60), np.arange(60) // 30])
    def test_fewer_groups_than_folds_are_told_of_as_copies(self, groups):
        with pytest.raises(BadInput, match="copies of each other"):
            make_splits(np.where(np.arange(60) % 2 == 0, 1, -1), 3, 1, 0, groups)

    def test_too_few_rows_of_a_class_are_told_with_what_to_do(self, tmp_path):
        pd.DataFrame({"a": range(40), "fraud": ["yes"] * 4 + ["no"] * 36}).to_csv(tmp_path / "few.csv", index=False)
        few = convert.fn(download.fn("few", str(tmp_path / "few.csv")), ConversionRule("fraud"))
        refused = []
        for seed in range(12):
            held_out = HeldOut.of(0.25, seed)
            try:
                all_rows(few, held_out)
                split.fn(few, 4, 1, 0, False, held_out)
            except BadInput as error:
                refused.append(str(error))
        assert any(
            "among the 25% held out" in message and "Raise validation.held_out" in message for message in refused
        )
        assert any("beside the 25% held out, got" in message and "Use fewer folds, a" in message for message in refused)

    def test_few_groups_are_counted_where_none_with_a_class_is_held_out(self, tmp_path):
        frame = pd.DataFrame({"a": range(40), "shop": [1, 2, 3, 4] * 10, "fraud": ["yes", "no", "no", "no"] * 10})
        frame.to_csv(tmp_path / "few.csv", index=False)
        few = convert.fn(download.fn("few", str(tmp_path / "few.csv")), ConversionRule("fraud", group="shop"))
        with pytest.raises(BadInput, match=r"Whole groups are held out, of which there are 4: raise validation\."):
            for seed in range(12):
                all_rows(few, HeldOut.of(0.25, seed))

    def test_fewer_folds_than_two_are_no_remedy(self, tmp_path):
        pd.DataFrame({"a": range(40), "fraud": ["yes"] * 3 + ["no"] * 37}).to_csv(tmp_path / "few.csv", index=False)
        few = convert.fn(download.fn("few", str(tmp_path / "few.csv")), ConversionRule("fraud"))
        for grouped, kept, remedies in (
            (False, "", "a smaller held_out"),
            (True, " and what is kept together with them", "a smaller held_out, less that is kept together"),
        ):
            refused = []
            for seed in range(30):  # some of which hold out all positives but one
                try:
                    split.fn(few, 2, 1, 0, grouped, HeldOut.of(0.25, seed))
                except BadInput as error:
                    refused.append(str(error))
            words = rf"held out{kept}, got 1 positive and \d+ negative\. Use {remedies} or more data\.$"
            assert any(re.search(words, message) for message in refused)


CONFIG = ExperimentConfig.model_validate(
    {
        "datasets": ["wine"],
        "methods": [{"solver": "linear_svm", "sampler": "u1"}],
        "validation": {"inner_folds": 2, "held_out": 0.25},
    }
)


def everything_fitted(table, splits):
    """Return all that folds and refit are fitted to, as comparable values."""
    told = []
    for one in splits:
        sample = draw_sample(table, one, CONFIG.methods[0], CONFIG.preprocessing, 3)
        chosen = choose(table, one, CONFIG.methods[0], CONFIG, 4)
        model = fit_model(table, one, sample, chosen, CONFIG.methods[0], CONFIG, 4)
        told.append((sample.rows.tolist(), model.pipeline["solver"].coef_.tolist(), model.threshold, model.search))
    return told


def test_rows_held_out_reach_nothing_that_is_fitted_and_a_planted_leak_shows():
    """Two tables differ in the held-out rows alone: absurd ones, drawn until the rule holds them out as well."""
    X, y = many(200), np.where(np.arange(200) % 4 == 0, 1, -1).astype(np.int8)
    out = np.flatnonzero(QUARTER.rows(X))
    absurd = many(4000, seed=9).assign(amount=lambda frame: 1e6 + 1e6 * frame["amount"], shop="nowhere")
    disturbed = X.copy()
    disturbed.iloc[out] = absurd[QUARTER.rows(absurd)].iloc[: len(out)].to_numpy()
    disturbed["amount"] = disturbed["amount"].astype(float)
    np.testing.assert_array_equal(np.flatnonzero(QUARTER.rows(disturbed)), out)
    flipped = np.where(np.isin(np.arange(200), out), -y, y).astype(np.int8)
    honest = np.setdiff1d(np.arange(200), out)
    folds = [Split(i, honest[one.train], honest[one.test]) for i, one in enumerate(make_splits(y[honest], 2, 1, 0))]

    def reached(splits):
        return everything_fitted(Table(X, y), splits) != everything_fitted(Table(disturbed, flipped), splits)

    assert not reached([*folds, Split(REFIT, honest, out)])
    assert reached([Split(REFIT, np.sort(np.append(honest, out[0])), out)]), "one held-out row among those trained on"


def test_load_gives_rows_that_the_rule_was_made_for(tmp_path):
    """What a file holds, written by other columns' order, is held out the same."""
    dataset = table(tmp_path / "claims.csv")
    frame = pd.read_csv(tmp_path / "claims.csv", float_precision="round_trip")
    frame[["fraud", "shop", "amount"]].to_csv(tmp_path / "other.csv", index=False)
    other = convert.fn(download.fn("claims", str(tmp_path / "other.csv")), ConversionRule("fraud"))
    np.testing.assert_array_equal(QUARTER.rows(load(dataset).X), QUARTER.rows(load(other).X))


def test_copies_kept_together_are_divided_anew_in_each_repeat():
    """Repeats with one seed were the same folds again: no repeat, and standard deviations of half the truth."""
    y, groups = np.where(np.arange(120) % 4 == 0, 1, -1), np.arange(120) // 2
    parts = make_splits(y, 3, 2, 5, groups)
    assert not any(np.array_equal(one.test, other.test) for one in parts[:3] for other in parts[3:])


def test_names_of_a_draw_do_not_run_into_each_other():
    assert len({seed_for(1, "inner", 12), seed_for(1, "inner1", 2), seed_for(11, "nner", 12)}) == 3
    assert seed_for(1, 23) != seed_for(12, 3)


def test_rows_held_out_are_drawn_by_a_seed_of_their_own():
    """Not by the experiment's, by which folds and samples are drawn too."""
    assert HeldOut.of(0.25, 3) == HeldOut(0.25, seed_for(3, "held out"))


def test_copies_stay_together_beside_rows_held_out(tmp_path):
    frame = many(60).assign(fraud=np.where(np.arange(60) % 3 == 0, "yes", "no"))
    pd.concat([frame] * 4, ignore_index=True).to_csv(tmp_path / "copies.csv", index=False)
    copies = convert.fn(download.fn("copies", str(tmp_path / "copies.csv")), ConversionRule("fraud"))
    held_out = all_rows(copies, QUARTER).test
    for one in split.fn(copies, 3, 1, 0, True, QUARTER):
        parts = [set((rows % 60).tolist()) for rows in (one.train, one.test, held_out)]
        assert sum(map(len, parts)) == 60 == len(set.union(*parts))


def test_a_row_of_each_class_for_every_fold_is_enough(tmp_path):
    pd.DataFrame({"a": range(40), "fraud": ["yes"] * 4 + ["no"] * 36}).to_csv(tmp_path / "few.csv", index=False)
    few = convert.fn(download.fn("few", str(tmp_path / "few.csv")), ConversionRule("fraud"))
    assert [len(np.intersect1d(one.test, range(4))) for one in split.fn(few, 4, 1, 0)] == [1] * 4


def test_rows_held_out_are_the_same_for_ever():
    """By the keys of rows scrambled, joined with the seed and scrambled again: models of years are compared on them."""

    def mixed(value):
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            value = (value ^ (value >> shift)) * factor % 2**64
        return value ^ (value >> 31)

    X, rule = many(200), HeldOut(0.25, 123456789)
    drawn = [mixed(mixed(key) ^ rule.seed) / 2**64 for key in row_keys(X).tolist()]  # "amount" comes before "shop"
    np.testing.assert_array_equal(rule.rows(X), np.array(drawn) < 0.25)
