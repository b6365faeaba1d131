"""Numbers: a run's test scores and coefficients themselves, beside the digests of them that its manifest keeps.

Digests say whether two runs agree to the last bit. Where other hardware or other versions make the last bits differ, it
takes the numbers to say by how much. They lie in one ``.npz`` without a pickled object.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from aucsolvers.adapters import unwrapped
from tasks.errors import BadInput
from tasks.values import MethodResult

FILE = "numbers.npz"
KINDS = "fiub"  # of arrays that hold numbers


def numbers_of(result: MethodResult) -> dict[str, np.ndarray]:
    """Return a cell's test scores, fold by fold in the order of the test rows, and the coefficients of its models."""
    found = {f"scores {e.fold}": np.asarray(e.test_scores, dtype=np.float64) for e in result.evaluations}
    for model in result.all_models:
        coefficients = getattr(unwrapped(model.pipeline[-1]), "coef_", None)
        if isinstance(coefficients, np.ndarray) and coefficients.dtype.kind in KINDS:
            found[f"coef {model.fold}"] = coefficients
    return found


def write_numbers(path: Path, numbers: Mapping[str, np.ndarray]) -> None:
    """Write arrays of numbers under their names."""
    with path.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **numbers)  # of wide sparse data most coefficients are 0


def read_numbers(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file that `write_numbers` wrote; nothing in it is run."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise BadInput(f"{path}: expected arrays of numbers, got: {error}. Restore {FILE} from a copy.") from None


def largest_gap(first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest difference of two arrays, in units of the first's largest magnitude, or of 1 if that is less.

    >>> largest_gap(np.array([100.0, 1.0]), np.array([101.0, 1.0]))
    0.01
    """
    if first.shape != second.shape:
        return float("inf")
    if first.size == 0:
        return 0.0
    gap = float(np.max(np.abs(first - second))) / max(1.0, float(np.max(np.abs(first))))
    return gap if gap == gap else float("inf")  # NaN on one side
