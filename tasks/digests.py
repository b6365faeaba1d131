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
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from tasks.errors import RunFailed

TIMES = ("time_s", "_time_", "duration_s")  # endings of the names that hold how long something took
DEEPEST = 200


def array_sha256(values: Any) -> str:
    """Return the digest of one array: its kind, shape and values, little-endian and in C order.

    >>> array_sha256([1.0, 2.0]) == array_sha256(np.array([1.0, 2.0], order="F"))
    True
    """
    return state_sha256(np.asarray(values))


def state_sha256(value: Any) -> str:
    """Return the digest of a value and of all that it is made of: arrays, containers, fitted estimators.

    An object is its class's name and what it would keep of itself if it were copied; one that is met again is the
    place where it was met first. Nothing is run but the object's own way of telling its state.

    Raises
    ------
    RunFailed
        If an object does not tell its state, or is nested deeper than anything that a solver keeps.
    """
    walk = _Walk()
    walk.take(value, 0)
    return walk.digest.hexdigest()


class _Walk:
    """One pass over a value; each thing goes into the digest behind the name of its kind."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256(b"aucflow state 1\n")
        self.met: dict[int, tuple[int, Any]] = {}  # the object itself is kept, lest another takes its address

    def take(self, value: Any, depth: int) -> None:
        if depth > DEEPEST:
            raise RunFailed(f"Expected a model nested at most {DEEPEST} deep, got more. Take another solver.")
        if value is None or isinstance(value, (bool, np.bool_, str, bytes, Integral, Real, complex)):
            self._scalar(value)
        elif isinstance(value, (type, np.dtype, PurePath)) or _is_function(value):
            self._put("name", _name(value))
        elif isinstance(value, Enum):
            self._put("name", f"{_name(type(value))}.{value.name}")
        elif id(value) in self.met:
            self._put("again", str(self.met[id(value)][0]))
        else:
            self.met[id(value)] = (len(self.met), value)
            self._compound(value, depth)

    def _put(self, kind: str, text: str | bytes) -> None:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        self.digest.update(f"{kind} {len(data)} ".encode() + data)

    def _scalar(self, value: Any) -> None:
        if value is None or isinstance(value, (bool, np.bool_)):
            self._put("constant", str(value))
        elif isinstance(value, (str, bytes)):
            self._put(type(value).__name__, value)
        elif isinstance(value, Integral):
            self._put("int", str(int(value)))
        elif isinstance(value, Real):
            self._put("float", struct.pack("<d", float(value)))
        else:
            self._put("complex", repr(complex(value)))

    def _compound(self, value: Any, depth: int) -> None:
        if isinstance(value, np.ndarray):
            self._array(value, depth)
        elif sparse.issparse(value):
            self._put("sparse", f"{value.format} {value.shape}")
            self._members({k: v for k, v in vars(value.tocsr()).items() if k in ("data", "indices", "indptr")}, depth)
        elif isinstance(value, (pd.DataFrame, pd.Series, pd.Index)):
            self._put("pandas", type(value).__name__)
            self._each([np.asarray(getattr(value, "columns", ())), value.to_numpy()], depth)
        elif isinstance(value, Mapping):
            self._put("mapping", str(len(value)))
            self._members(value, depth)
        elif isinstance(value, (list, tuple)):
            self._put("sequence", str(len(value)))
            self._each(value, depth)
        elif isinstance(value, (set, frozenset)):
            self._put("set", str(len(value)))
            self._each(sorted(state_sha256(member) for member in value), depth)
        else:
            self._object(value, depth)

    def _array(self, values: np.ndarray, depth: int) -> None:
        self._put("array", f"{values.dtype.kind}{values.dtype.itemsize} {values.shape}")
        if values.dtype.names:  # field by field: what lies between fields is nobody's value
            self._members({name: values[name] for name in values.dtype.names}, depth)
        elif values.dtype == object:
            self._each(values.ravel().tolist(), depth)
        else:
            plain = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
            self.digest.update(plain.tobytes())

    def _each(self, values: Iterable[Any], depth: int) -> None:
        for value in values:
            self.take(value, depth + 1)

    def _members(self, members: Mapping[Any, Any], depth: int) -> None:
        """Take names and values in the order of the names; those that tell a time are left out."""
        for key in sorted(members, key=lambda key: (type(key).__name__, str(key))):
            if not str(key).endswith(TIMES):
                self.take(key, depth + 1)
                self.take(members[key], depth + 1)

    def _object(self, value: Any, depth: int) -> None:
        try:
            parts = value.__reduce_ex__(4)
        except Exception as error:
            raise RunFailed(
                f"Expected a model that tells its state, got {_name(type(value))}: {error}. Take another solver."
            ) from error
        if isinstance(parts, str):  # a module's constant
            self._put("name", parts)
            return
        self._put("object", _name(type(value)))
        made_by, state, items, pairs = (tuple(parts[1:]) + (None,) * 4)[:4]
        self._each((made_by, state), depth)
        self._each((list(items or ()), [list(pair) for pair in pairs or ()]), depth)


def _is_function(value: Any) -> bool:
    return callable(value) and hasattr(value, "__qualname__") and not isinstance(value, type)


def _name(value: Any) -> str:
    if isinstance(value, (np.dtype, PurePath)):
        return str(value)
    return f"{getattr(value, '__module__', '')}.{value.__qualname__}"
