"""Array files: NumPy's .npz archives and the IDX files of MNIST, to the columns and labels in them."""

import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.errors import BadInput
from tasks.files import is_bomb, read_bytes, refuse_width
from tasks.readers import RawTable

# IDX: the third byte of a file names the type of its (big-endian) values, the fourth the number of dimensions
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
NPZ_NAMES = (("X", "y"), ("X_train", "y_train"), ("data", "target"), ("x", "y"))
MAX_DIMENSIONS = 32  # NumPy's own limit was this until 2.0

# Whatever the damage to an archive leads its decoders to.
_DAMAGED: tuple[type[Exception], ...]
_DAMAGED = (OSError, ValueError, EOFError, KeyError, NotImplementedError, MemoryError, RuntimeError, OverflowError)
_DAMAGED += (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, SyntaxError, TypeError, IndexError)


def read_npz(path: Path) -> RawTable:
    """Return rows and labels of an .npz archive: arrays X and y, or the training part X_train and y_train.

    Nothing is unpickled: an archive of Python objects is refused.
    """
    with open_npz(path) as (archive, names):
        X, y = (_member(archive, name) for name in names)
    return as_table(X, y, path.name)


@contextmanager
def open_npz(path: Path) -> Iterator[tuple[zipfile.ZipFile, tuple[str, str]]]:
    """Open an .npz archive; yield it with the names of rows and labels in it. What cannot be read is BadInput."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            names = next((pair for pair in NPZ_NAMES if set(pair) <= set(found)), None)
            if names is None:
                listed = ", ".join(list(found)[:10]) or "none"
                raise BadInput(
                    f"{path.name}: expected arrays X and y (or X_train and y_train), got {listed}. "
                    "Save the file again: numpy.savez(FILE, X=rows, y=labels)."
                )
            for name in names:
                if is_bomb(found[name].file_size, found[name].compress_size):
                    raise ValueError(f"array {name} of {found[name].file_size:,} bytes out of far fewer")
            yield archive, names
    except BadInput:
        raise
    except _DAMAGED as error:
        raise BadInput(
            f"{path.name}: expected an .npz archive of plain arrays, got: {str(error)[:200].rstrip('.')}. "
            "Save the file again with numpy.savez."
        ) from None


def _member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as stream, np.errstate(invalid="ignore"):  # of a shape that overflows
        return np.lib.format.read_array(stream, allow_pickle=False)


def read_idx(images: Path, labels: Path) -> RawTable:
    """Return rows and labels of a pair of IDX files, such as MNIST's; an image becomes a row of its pixels."""
    return as_table(_idx(images), _idx(labels), images.name)


def labels_beside(images: Path) -> Path:
    """Return the label file beside an IDX file of images, by MNIST's names.

    That of train-images-idx3-ubyte.gz is train-labels-idx1-ubyte.gz.
    """
    name = images.name.replace("images", "labels").replace("idx3", "idx1")
    found = images.with_name(name)
    if name == images.name or not found.is_file():
        wanted = name if name != images.name else "a file …labels…-idx1-ubyte"
        raise BadInput(f"{images.name}: expected its labels beside it, in {wanted}, found none. Put both side by side.")
    return found


def _idx(path: Path) -> np.ndarray:
    data = read_bytes(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES or not 0 < data[3] <= MAX_DIMENSIONS:
        raise BadInput(f"{path.name}: expected an IDX file, got one that starts with {data[:4]!r}. Name its format.")
    dtype, start = np.dtype(IDX_TYPES[data[2]]), 4 + 4 * data[3]
    if len(data) < start:
        raise BadInput(
            f"{path.name}: expected {data[3]} dimensions in its head, got the end of the file. Fetch it again."
        )
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    if 0 in shape:
        raise BadInput(f"{path.name}: expected values, got none: its shape is {shape}. Fetch it again.")
    size = dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
    if len(data) - start != size:
        got = len(data) - start
        raise BadInput(f"{path.name}: expected {size:,} bytes for shape {shape}, got {got:,}. Fetch it again.")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def check_shapes(rows: tuple[int, ...], labels: tuple[int, ...], name: str) -> None:
    """Refuse shapes that do not belong together; labels may be a column, as MATLAB has it, or a row."""
    n_labels = math.prod(labels)
    if not rows or rows[0] != n_labels or not (len(labels) == 1 or (len(labels) == 2 and 1 in labels)):
        raise BadInput(
            f"{name}: expected as many labels as rows, got rows of shape {rows} and labels of shape {labels}. "
            "Save the arrays again."
        )
    refuse_width(math.prod(rows[1:]), name)


def as_table(X: np.ndarray, y: np.ndarray, name: str) -> RawTable:
    """Return rows, of whatever shape each is, and labels as a table with a column ``label``."""
    check_shapes(X.shape, y.shape, name)
    y = y.reshape(-1)
    y = y.astype(y.dtype.newbyteorder("="), copy=False)  # pandas takes no other
    for kind, array in (("rows", X), ("labels", y)):
        if array.dtype.kind not in ("biufUS" if kind == "labels" else "biuf"):
            raise BadInput(f"{name}: expected {kind} of plain numbers, got type {array.dtype}. Convert them first.")
    width = math.prod(X.shape[1:])
    frame = pd.DataFrame(X.reshape(len(X), width).astype(np.float64), columns=[f"column_{j + 1}" for j in range(width)])
    frame["label"] = _texts(y, name) if y.dtype.kind in "US" else y
    return RawTable(frame, target="label", named=False)


def _texts(y: np.ndarray, name: str) -> np.ndarray:
    """Return texts, or bytes that are texts in UTF-8, as Python's."""
    try:
        return (np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y).astype(object)
    except UnicodeDecodeError:
        raise BadInput(f"{name}: expected labels in UTF-8, got other bytes. Convert them to numbers or str.") from None
