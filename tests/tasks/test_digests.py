"""Digests: the same for the same values, however they lie in memory; another for any other value."""

import functools
from enum import Enum

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from imblearn.ensemble import BalancedRandomForestClassifier
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from tasks.digests import DEEPEST, array_sha256, state_sha256
from tasks.errors import RunFailed

NUMBERS = arrays.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.bool_]), arrays.array_shapes(max_dims=3, max_side=5)
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


class Box:
    """An object with a state."""

    def __init__(self, **state):
        vars(self).update(state)

    def method(self):
        return self


def copied(value):
    """The same value in other objects, in another order of keys."""
    if isinstance(value, list):
        return [copied(member) for member in value]
    if isinstance(value, dict):
        return {key: copied(value[key]) for key in reversed(value)}
    return value


@given(NUMBERS)
def test_the_layout_of_an_array_makes_no_difference(values):
    expected = array_sha256(values)
    wide = np.zeros((*values.shape, 2), dtype=values.dtype)
    wide[..., 0] = values
    for other in (
        np.asfortranarray(values),
        wide[..., 0],
        values.astype(values.dtype.newbyteorder(">")),
        values.copy(),
    ):
        assert array_sha256(other) == expected
        assert state_sha256({"coef_": other}) == state_sha256({"coef_": values})


@given(NUMBERS, st.data())
def test_any_changed_bit_shape_or_type_is_another_digest(values, data):
    memory = bytearray(values.tobytes())
    memory[data.draw(st.integers(0, len(memory) - 1))] ^= 1
    other = np.frombuffer(memory, values.dtype).reshape(values.shape)
    assert array_sha256(other) != array_sha256(values)
    assert array_sha256(values[None]) != array_sha256(values)
    assert array_sha256(values.astype(np.complex128)) != array_sha256(values)


@given(TREES, TREES)
def test_trees_have_one_digest_just_when_they_are_equal(first, second):
    assert state_sha256(copied(first)) == state_sha256(first)
    assert (state_sha256(first) == state_sha256(second)) == (repr(_sorted(first)) == repr(_sorted(second)))


def _sorted(value):
    if isinstance(value, list):
        return [_sorted(member) for member in value]
    return {key: _sorted(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


def test_kinds_that_look_alike_are_told_apart():
    alike = [0, 0.0, -0.0, False, None, "0", b"0", "", [], {}, [[]], [0], {0}, np.zeros(1), np.zeros(1, np.float32), 0j]
    assert len({state_sha256(value) for value in alike}) == len(alike)
    assert state_sha256(["a", "b"]) != state_sha256(["ab"])
    assert state_sha256([["a"], "b"]) != state_sha256([["a", "b"]])


def test_what_numpy_wraps_is_what_it_wraps():
    pairs = [(np.float64(0.5), 0.5), (np.int32(3), 3), (np.str_("a"), "a"), (np.bool_(True), True)]
    assert all(state_sha256(theirs) == state_sha256(ours) for theirs, ours in pairs)


def test_texts_count_and_not_the_width_of_their_array():
    assert array_sha256(np.array(["a", "b"], dtype="U1")) == array_sha256(np.array(["a", "b"], dtype="U9"))
    assert array_sha256(np.array(["a", "b"])) != array_sha256(np.array(["a", "c"]))


def test_times_of_other_units_are_other_times():
    assert array_sha256(np.array([5], "M8[s]")) != array_sha256(np.array([5], "M8[ms]"))


def test_what_lies_between_the_fields_of_a_record_is_nobodys_value():
    kind = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 16})
    memory = bytearray(b"\xff" * 32)
    first, second = np.zeros(2, kind), np.frombuffer(memory, kind)
    second["a"], second["b"] = 0, 0.0
    assert b"\xff" in memory
    assert array_sha256(first) == array_sha256(second)
    second["b"][1] = 1.0
    assert array_sha256(first) != array_sha256(second)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array])
def test_a_sparse_matrix_is_its_entries(kind):
    dense = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    expected = state_sha256(sparse.csr_matrix(dense))
    assert state_sha256(kind(dense)) == expected
    unsorted = sparse.csr_matrix(([2.0, 1.0, 3.0, 0.0], [2, 1, 0, 1], [0, 2, 4]), shape=(2, 3))
    assert state_sha256(unsorted) == expected
    assert state_sha256(kind(dense * 2)) != expected
    assert state_sha256(kind(np.vstack([dense, [0.0, 0.0, 0.0]]))) != expected


def test_a_table_is_its_names_labels_and_cells():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", None]})
    assert state_sha256(table) == state_sha256(table.copy())
    others = [table.rename(columns={"a": "c"}), table.set_axis([5, 6]), table.assign(a=[1.0, 3.0]), table["a"]]
    assert len({state_sha256(other) for other in (table, *others)}) == 5


def test_shared_parts_are_equal_parts_and_a_cycle_ends():
    part = [1.0]
    assert state_sha256([part, part]) == state_sha256([[1.0], [1.0]])

    def ring(value):
        box = Box(value=value)
        box.itself = box
        return box

    assert state_sha256(ring(1)) == state_sha256(ring(1)) != state_sha256(ring(2))
    assert state_sha256(ring(1)) != state_sha256(Box(value=1, itself=None))


def test_names_are_taken_for_functions_and_classes_and_states_for_methods():
    assert state_sha256(len) != state_sha256(max)
    assert state_sha256(Box) != state_sha256(Enum)
    assert state_sha256(Box(a=1).method) != state_sha256(Box(a=2).method)
    assert state_sha256(functools.partial(max, 1)) != state_sha256(functools.partial(max, 2))


def test_how_long_it_took_is_left_out_and_nothing_else():
    kept = {"coef_": np.ones(3), "history_": {"objective": [1.0], "time_s": [0.1]}, "refit_time_": 0.2}
    later = {"coef_": np.ones(3), "history_": {"objective": [1.0], "time_s": [0.7]}, "refit_time_": 0.9}
    assert state_sha256(Box(**kept)) == state_sha256(Box(**later))
    assert state_sha256(Box(**kept)) != state_sha256(Box(**(kept | {"history_": {"objective": [2.0]}})))


def test_what_cannot_tell_its_state_or_is_nested_too_deeply_is_refused():
    with pytest.raises(RunFailed, match=r"tells its state, got builtins\.generator"):
        state_sha256([1, (number for number in (1,))])
    deep = []
    for _ in range(DEEPEST + 1):
        deep = [deep]
    with pytest.raises(RunFailed, match="nested at most"):
        state_sha256(deep)
    boxes = None
    for _ in range(1000):
        boxes = Box(inside=boxes)
    with pytest.raises(RunFailed, match="nested at most"):
        state_sha256(boxes)


FOREIGN = {
    "BalancedRandomForest": lambda seed: BalancedRandomForestClassifier(5, random_state=seed),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(
        max_iter=5, max_features=0.5, random_state=seed
    ),
    "MLP": lambda seed: MLPClassifier((4,), max_iter=5, random_state=seed),
    "KNeighbors": lambda seed: KNeighborsClassifier(3 + seed),
    "SVC": lambda seed: SVC(C=1.0 + seed),
    "LogisticRegression": lambda seed: LogisticRegression(C=1.0 + seed),
    "GaussianNB": lambda seed: GaussianNB(var_smoothing=1e-9 + 1e-3 * seed),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_a_model_of_another_library_fitted_twice_has_one_digest(make):
    X, y = make_classification(120, 6, random_state=0)
    first = state_sha256(make(0).fit(X, y))
    assert state_sha256(make(0).fit(X.copy(), y.copy())) == first
    assert state_sha256(make(1).fit(X, y)) != first
