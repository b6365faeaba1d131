"""Numbers kept beside a manifest: read as they were written, without a pickle, or one clear error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import Pipeline

from aucsolvers import LSSVM, KernelSVM
from tasks.errors import BadInput
from tasks.numeric import largest_gap, numbers_of, read_numbers, write_numbers
from tasks.values import Evaluation, FittedModel, MethodResult


def model(fold, solver):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    fitted = Pipeline([("solver", solver.fit(rows, np.sign(rows[:, 0])))])
    return FittedModel(fold, fitted, {}, {}, 0.0, 0.0, 0.0, "converged", 1, {}, 0.0, 0.0)


def evaluation(fold, scores):
    return Evaluation(fold, 0.0, None, None, None, None, np.array(scores))


def test_coefficients_and_scores_are_read_as_they_were_written(tmp_path):
    models = (model(0, LSSVM()), model(1, KernelSVM()))
    scored = tuple(evaluation(fold, scores) for fold, scores in enumerate([[0.5, -1.0], [np.inf]]))
    cell = MethodResult("set", "method", "solver", "none", (), models, scored, final=model(-1, LSSVM()))
    numbers = numbers_of(cell)
    assert set(numbers) == {"coef 0", "coef -1", "scores 0", "scores 1"}  # a kernel's solver has no coefficients
    write_numbers(tmp_path / "numbers.npz", numbers)
    read = read_numbers(tmp_path / "numbers.npz")
    assert read.keys() == numbers.keys()
    assert all(np.array_equal(read[name], numbers[name]) for name in numbers)


def test_a_pickle_is_neither_written_nor_read(tmp_path):
    path = tmp_path / "numbers.npz"
    with pytest.raises(ValueError, match="allow_pickle"):
        write_numbers(path, {"coef 0": np.array([{}], dtype=object)})
    np.savez(path, **{"coef 0": np.array([{}], dtype=object)})
    with pytest.raises(BadInput, match="expected arrays of numbers"):
        read_numbers(path)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_arrays_are_one_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "numbers.npz"
    path.write_bytes(data)
    with pytest.raises(BadInput, match="expected arrays of numbers"):
        read_numbers(path)


def test_a_gap_is_one_of_the_largest_number_or_of_1():
    assert largest_gap(np.array([2.0, -4.0]), np.array([2.0, -5.0])) == 0.25
    assert largest_gap(np.array([0.1]), np.array([0.2])) == pytest.approx(0.1)
    assert largest_gap(np.zeros(0), np.zeros(0)) == 0.0
    assert largest_gap(np.zeros(2), np.zeros(3)) == np.inf
    assert largest_gap(np.array([1.0]), np.array([np.nan])) == np.inf
