"""Digests: SHA-256 over what numbers mean, not over how they lie in memory or in a file.

A digest is the same wherever the same values are: the same model fitted twice has one digest, though the files that
MLflow writes of it differ. What took how long is left out, for no two runs agree on that.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from enum import Enum
from numbers import Integral, Real
from pathlib import PurePath
from types import MethodType
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from tasks.errors import RunFailed

TIMES = ("time_s", "_time_", "duration_s")  # endings of the names that hold how long something took
DEEPEST = 100


def array_sha256(values: Any) -> str:
    """Return the digest of one array: its kind, shape and values, little-endian and in C order.

    >>> array_sha256([1.0, 2.0]) == array_sha256(np.array([1.0, 2.0], order="F"))
    True
    """
    return state_sha256(np.asarray(values))


def state_sha256(value: Any) -> str:
    """Return the digest of a value and of all that it is made of: arrays, containers, fitted estimators.

    An object is its class's name and what it would keep of itself if it were copied. Whether two parts are one object
    or two equal ones makes no difference; one that holds itself is told by how far up it is met again. Nothing is run
    but the object's own way of telling its state.

    Raises
    ------
    RunFailed
        If an object does not tell its state, or is nested deeper than anything that a solver keeps.
    """
    return _Walk().digest(value, 0).hex()


class _Walk:
    """One pass over a value; each part has a digest of its own, behind the name of its kind."""

    def __init__(self) -> None:
        self.done: dict[int, tuple[bytes, Any]] = {}  # the object itself is kept, lest another takes its address
        self.open: dict[int, int] = {}  # how deep each object lies that the walk is inside of

    def digest(self, value: Any, depth: int) -> bytes:
        if depth > DEEPEST:
            raise RunFailed(f"Expected a model nested at most {DEEPEST} deep, got more. Take another solver.")
        word = _word(value)
        if word is not None:
            return _hash(*word)
        key = id(value)
        if key in self.done:
            return self.done[key][0]
        if key in self.open:
            return _hash("again", str(depth - self.open[key]).encode())
        self.open[key] = depth
        self.done[key] = self._compound(value, depth), value
        del self.open[key]
        return self.done[key][0]

    def _compound(self, value: Any, depth: int) -> bytes:
        if isinstance(value, np.ndarray):
            return self._array(value, depth)
        if sparse.issparse(value):
            return self._sparse(value, depth)
        if isinstance(value, (pd.DataFrame, pd.Series, pd.Index)):
            labels = [np.asarray(getattr(value, name, ())) for name in ("index", "columns")]
            return _hash(f"pandas {type(value).__name__}", *self._each([*labels, value.to_numpy()], depth))
        if isinstance(value, Mapping):
            return _hash("mapping", *self._members(value, depth))
        if isinstance(value, (list, tuple)):
            return _hash("sequence", *self._each(value, depth))
        if isinstance(value, (set, frozenset)):
            return _hash("set", *sorted(self._each(value, depth)))
        return self._object(value, depth)

    def _array(self, values: np.ndarray, depth: int) -> bytes:
        if values.dtype.names:  # field by field: what lies between fields is nobody's value
            fields = {name: values[name] for name in values.dtype.names}
            return _hash(f"record {values.shape}", *self._members(fields, depth))
        if values.dtype.kind in "OSU":  # how wide the longest text is says nothing about the others
            return _hash(f"objects {values.shape}", *self._each(values.ravel().tolist(), depth))
        plain = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        return _hash(f"array {plain.dtype.str[1:]} {values.shape}", plain.tobytes())

    def _sparse(self, values: Any, depth: int) -> bytes:
        """Take a sparse matrix in its one form: by rows, columns ascending, no zero stored."""
        rows = values.tocsr(copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        places = (rows.indices.astype(np.int64), rows.indptr.astype(np.int64))
        return _hash(f"sparse {rows.shape}", *self._each((*places, rows.data), depth))

    def _each(self, values: Iterable[Any], depth: int) -> list[bytes]:
        return [self.digest(value, depth + 1) for value in values]

    def _members(self, members: Mapping[Any, Any], depth: int) -> list[bytes]:
        """Take names and values in the order of the names; those that tell a time are left out."""
        names = [key for key in members if not str(key).endswith(TIMES)]
        names.sort(key=lambda key: (type(key).__name__, str(key)))
        return self._each([part for name in names for part in (name, members[name])], depth)

    def _object(self, value: Any, depth: int) -> bytes:
        try:
            parts = value.__reduce_ex__(4)
        except Exception as error:
            raise RunFailed(
                f"Expected a model that tells its state, got {_name(type(value))}: {error}. Take another solver."
            ) from error
        if isinstance(parts, str):  # a module's constant
            return _hash("name", parts.encode())
        made_of, state, items, pairs = (tuple(parts[1:]) + (None,) * 4)[:4]
        inside = [made_of, state, list(items or ()), [list(pair) for pair in pairs or ()]]
        return _hash(f"object {_name(type(value))}", *self._each(inside, depth))


def _word(value: Any) -> tuple[str, bytes] | None:
    """Return kind and bytes of a value that holds no others, None of one that does."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return "constant", str(value).encode()
    if isinstance(value, Enum):
        return "name", f"{_name(type(value))}.{value.name}".encode()
    if isinstance(value, str):
        return "text", value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return "bytes", value
    if isinstance(value, Integral):
        return "int", str(int(value)).encode()
    if isinstance(value, Real):
        return "float", struct.pack("<d", float(value))
    if isinstance(value, complex):
        return "complex", struct.pack("<dd", value.real, value.imag)
    if isinstance(value, (type, np.dtype, PurePath)) or _is_function(value):
        return "name", _name(value).encode()
    return None


def _hash(kind: str, *parts: bytes) -> bytes:
    """Return the digest of some parts behind the name of their kind, each with its length in front."""
    digest = hashlib.sha256(f"aucflow state 1 {kind}\n".encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _is_function(value: Any) -> bool:
    """Tell whether a value is a function by itself; a method is one of an object, which has a state."""
    return callable(value) and hasattr(value, "__qualname__") and not isinstance(value, (type, MethodType))


def _name(value: Any) -> str:
    if isinstance(value, (np.dtype, PurePath)):
        return str(value)
    return f"{getattr(value, '__module__', '')}.{value.__qualname__}"
