"""Array files: NumPy's .npz archives and the IDX files of MNIST, to the columns and labels in them."""

import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.errors import BadInput
from tasks.files import read_bytes
from tasks.readers import RawTable

# IDX: the third byte of a file names the type of its (big-endian) values, the fourth the number of dimensions
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
NPZ_NAMES = (("X", "y"), ("X_train", "y_train"), ("data", "target"), ("x", "y"))


def read_npz(path: Path) -> RawTable:
    """Return rows and labels of an .npz archive: arrays X and y, or the training part X_train and y_train.

    Nothing is unpickled: an archive of Python objects is refused.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = next((pair for pair in NPZ_NAMES if set(pair) <= set(archive.files)), None)
            if names is None:
                raise BadInput(
                    f"{path.name}: expected arrays X and y (or X_train and y_train), got {', '.join(archive.files)}. "
                    "Save the file again: numpy.savez(FILE, X=rows, y=labels)."
                )
            X, y = (archive[name] for name in names)
    except BadInput:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError, MemoryError) as error:
        raise BadInput(
            f"{path.name}: expected an .npz archive of plain arrays, got: {str(error)[:200].rstrip('.')}. "
            "Save the file again with numpy.savez."
        ) from None
    return _table(X, y, path.name)


def read_idx(images: Path, labels: Path) -> RawTable:
    """Return rows and labels of a pair of IDX files, such as MNIST's; an image becomes a row of its pixels."""
    return _table(_idx(images), _idx(labels), images.name)


def labels_beside(images: Path) -> Path:
    """Return the label file that belongs to an IDX file of images, by the names that MNIST uses.

    >>> labels_beside(Path("train-images-idx3-ubyte.gz")).name
    'train-labels-idx1-ubyte.gz'
    """
    name = images.name.replace("images", "labels").replace("idx3", "idx1")
    found = images.with_name(name)
    if name == images.name or not found.is_file():
        wanted = name if name != images.name else "a file …labels…-idx1-ubyte"
        raise BadInput(f"{images.name}: expected its labels beside it, in {wanted}, found none. Put both side by side.")
    return found


def _idx(path: Path) -> np.ndarray:
    data = read_bytes(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES or data[3] == 0:
        raise BadInput(f"{path.name}: expected an IDX file, got one that starts with {data[:4]!r}. Name its format.")
    dtype, start = np.dtype(IDX_TYPES[data[2]]), 4 + 4 * data[3]
    if len(data) < start:
        raise BadInput(
            f"{path.name}: expected {data[3]} dimensions in its head, got the end of the file. Fetch it again."
        )
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    size = dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object))
    if len(data) - start != size:
        got = len(data) - start
        raise BadInput(f"{path.name}: expected {size:,} bytes for shape {shape}, got {got:,}. Fetch it again.")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _table(X: np.ndarray, y: np.ndarray, name: str) -> RawTable:
    y = y.reshape(-1) if y.ndim == 2 and 1 in y.shape else y
    if y.ndim != 1 or X.ndim < 1 or len(X) != len(y):
        raise BadInput(
            f"{name}: expected as many labels as rows, got rows of shape {X.shape} and labels of shape {y.shape}. "
            "Save the arrays again."
        )
    for kind, array in (("rows", X), ("labels", y)):
        if array.dtype.kind not in ("biufUS" if kind == "labels" else "biuf"):
            raise BadInput(f"{name}: expected {kind} of plain numbers, got type {array.dtype}. Convert them first.")
    columns = X.reshape(len(X), -1)
    names = [f"column_{j + 1}" for j in range(columns.shape[1])]
    frame = pd.DataFrame(columns.astype(np.float64), columns=names)
    frame["label"] = y.astype(str).astype(object) if y.dtype.kind in "US" else y
    return RawTable(frame, target="label", named=False)
