"""Broken files, some four hundred of them: the reference reader's result, or one clear refusal; never anything else.

The law, for every format and every fault: what our reader returns equals what the reader that everybody trusts
(pandas, scikit-learn, SciPy, NumPy) returns, unless ours refuses; a refusal is BadInput in one line that names the
file, and the line where the fault has one, and says what to do.
"""

import bz2
import gzip
import io
import json
import lzma
import re
import struct
import tarfile
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from scipy.io.arff import loadarff
from sklearn.datasets import load_svmlight_file

from tasks import arrays, chunks, files, readers
from tasks.convert import convert
from tasks.download import download
from tasks.errors import BadInput, RunFailed
from tasks.fetch import cached, fetch
from tasks.unpack import unpack
from tasks.values import ConversionRule, RawFile, Remote

REMEDY = re.compile(
    r"\b(Mend|Fetch|Write|Give|Name|Convert|Close|Check|Save|Export|Declare|Put|Is the file|Break|Break it|Unpack it|"
    r"break it|Drop|Replace|Leave|Choose|Fill|Try again|It is not|Allow|Remove|Change)\b"
)
N = 12  # rows of the small valid files
NUMBERS = np.random.default_rng(0).normal(size=(N, 3)).round(6)
LABELS = [("no", "yes")[i % 3 == 0] for i in range(N)]


def csv_text(delimiter=",", ending="\n"):
    lines = [delimiter.join(("a", "b", "c", "y"))]
    lines += [delimiter.join((*map(repr, map(float, row)), label)) for row, label in zip(NUMBERS, LABELS, strict=True)]
    return ending.join(lines) + ending


def svmlight_text(ending="\n"):
    lines = [
        f"{1 if label == 'yes' else -1} " + " ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row))
        for row, label in zip(NUMBERS, LABELS, strict=True)
    ]
    return ending.join(lines) + ending


ATTRIBUTES = "@relation r\n" + "".join(f"@attribute {c} real\n" for c in "abc") + "@attribute y {no, yes}\n"


def arff_text():
    return ATTRIBUTES + "@data\n" + csv_text().partition("\n")[2]


def keel_text():
    return ATTRIBUTES + "@inputs a, b, c\n@outputs y\n@data\n" + csv_text().partition("\n")[2]


def parquet_bytes():
    frame = pd.DataFrame(NUMBERS, columns=list("abc")).assign(y=LABELS)
    frame.to_parquet(buffer := io.BytesIO())
    return buffer.getvalue()


def npz_bytes(save=np.savez, **members):
    members = members or {"X": NUMBERS, "y": np.array([label == "yes" for label in LABELS], dtype=int)}
    save(buffer := io.BytesIO(), **members)
    return buffer.getvalue()


def idx_bytes(values, magic=None, shape=None, kind=0x08):
    head = bytes([0, 0, kind, values.ndim]) if magic is None else magic
    return head + struct.pack(f">{values.ndim}I", *(shape or values.shape)) + values.astype(">u1").tobytes()


IMAGES, IDX_LABELS = np.arange(N * 6, dtype=np.uint8).reshape(N, 2, 3), np.arange(N, dtype=np.uint8) % 2
VALID = {
    "csv": csv_text().encode(),
    "svmlight": svmlight_text().encode(),
    "arff": arff_text().encode(),
    "keel": keel_text().encode(),
    "parquet": parquet_bytes(),
    "npz": npz_bytes(),
    "npz, deflated": npz_bytes(np.savez_compressed),
    "idx": idx_bytes(IMAGES),
}
TEXTS = ("csv", "svmlight", "arff", "keel")
READERS = {
    "csv": readers.read_csv,
    "svmlight": readers.read_svmlight,
    "arff": readers.read_arff,
    "keel": readers.read_arff,
    "parquet": readers.read_parquet,
    "npz": arrays.read_npz,
    "npz, deflated": arrays.read_npz,
    "idx": lambda path: arrays.read_idx(path, path.with_name("labels")),
}


def reference(kind, data):
    """Return what the trusted reader makes of the bytes, or the exception with which it refuses them."""
    data = decompressed(data)
    try:
        if kind == "csv":
            return pd.read_csv(io.BytesIO(data), skipinitialspace=True, float_precision="round_trip")
        if kind == "svmlight":
            by_line = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # a line ends with any of the three, to us
            return load_svmlight_file(io.BytesIO(by_line), zero_based="auto")
        if kind in ("arff", "keel"):
            return pd.DataFrame(loadarff(io.StringIO(data.decode()))[0])
        if kind == "parquet":
            return parquet.read_table(io.BytesIO(data)).to_pandas()
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return archive["X"], archive["y"]
    except Exception as error:
        return error


def decompressed(data):
    for magic, library in ((b"\x1f\x8b", gzip), (b"BZh", bz2), (b"\xfd7zXZ\x00", lzma)):
        if data.startswith(magic):
            return library.decompress(data)
    return data


def outcome(kind, path):
    """Return our reader's table, or the message of its refusal, which has to be a good one."""
    if kind == "idx":
        path.with_name("labels").write_bytes(idx_bytes(IDX_LABELS))
    try:
        table = READERS[kind](path)
    except BadInput as error:
        message = str(error)
        assert path.name in message and "\n" not in message and len(message) < 900, message
        assert "xpected" in message and REMEDY.search(message), message
        return message
    assert table.X.shape[0] == len(table.lines if table.lines is not None else table.X)
    return table


def agrees(kind, table, expected):
    """Assert that a table is what the trusted reader read; cells are compared as numbers where both are."""
    assert not isinstance(expected, Exception), f"ours reads what the reference refuses: {expected}"
    if kind == "svmlight":
        X, labels = expected
        cells = [sorted(zip(*M.nonzero(), M.data[M.data != 0].tolist(), strict=True)) for M in (X, table.X)]
        assert cells[0] == cells[1]
        np.testing.assert_array_equal(table.labels, labels)
    elif kind.startswith("npz"):
        np.testing.assert_array_equal(table.X.drop(columns="label").to_numpy(), expected[0].reshape(len(table.X), -1))
        assert [str(v) for v in table.X["label"]] == [str(v) for v in np.ravel(expected[1])]
    else:
        assert table.X.shape == expected.shape
        for i in range(table.X.shape[1]):
            ours, theirs = table.X.iloc[:, i], expected.iloc[:, i]
            if pd.api.types.is_numeric_dtype(ours):  # pandas leaves 1e400 and 20 digits as texts
                np.testing.assert_array_equal(ours.to_numpy(float), theirs.to_numpy(float))
            else:
                texts = [v.decode() if isinstance(v, bytes) else v for v in theirs]
                assert ours.tolist() == [None if pd.isna(v) or not str(v).strip() else str(v).strip() for v in texts]


def law(kind, path, data):
    path.write_bytes(data)
    found = outcome(kind, path)
    if not isinstance(found, str) and kind != "idx":
        agrees(kind, found, reference(kind, data))
    return found


# Faults that any text may have ------------------------------------------------------------------------------------


COMPRESS = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("packing", COMPRESS)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_whole_file_is_read_as_the_reference_reads_it(kind, packing, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(COMPRESS[packing](VALID[kind]))
    table = outcome(kind, path)
    expected = reference("arff", VALID["arff"]) if kind == "keel" else reference(kind, VALID[kind])
    agrees(kind, table, expected)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("packing", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_truncated_packing_is_refused(kind, packing, share, tmp_path):
    packed = COMPRESS[packing](VALID[kind] * 30)
    (tmp_path / "data").write_bytes(packed[: max(7, int(share * len(packed)))])
    assert "expected a whole, readable file" in outcome(kind, tmp_path / "data")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize("kind", TEXTS)
def test_line_ends_marks_and_encodings(kind, encoding, ending, tmp_path):
    text = VALID[kind].decode().replace("\n", ending)
    (tmp_path / "data").write_bytes(text.encode(encoding))
    found = outcome(kind, tmp_path / "data")
    if encoding == "utf-16-le":  # has no mark: refused, not guessed
        assert found.endswith(": iconv -f UTF-16LE -t UTF-8 data > utf8-data")
    else:
        agrees(kind, found, reference("arff" if kind == "keel" else kind, VALID["arff" if kind == "keel" else kind]))


@pytest.mark.parametrize(
    "head",
    [
        b"<!DOCTYPE html><html><body>404</body></html>",
        b"\xef\xbb\xbf <html>moved</html>",
        b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>",
        b"<!-- proxy --><p>Access denied",
        b"PK\x03\x04\x14\x00",
        b"PK\x05\x06" + bytes(18),
        b"PAR1\x15\x04",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        b"\x89HDF\r\n\x1a\n",
        b"\x93NUMPY\x01\x00",
        b"(\xb5/\xfd\x04\x00",
        b"7z\xbc\xaf\x27\x1c",
        b"Rar!\x1a\x07",
        b"\x80\x04\x95\x00",
        b"%PDF-1.7\n",
        b"ARROW1\x00\x00",
        b'[{"a":1,"y":0},{"a":2,"y":1}]',
        b'\xef\xbb\xbf\n{"a": 1, "y": 0}\n{"a": 2, "y": 1}\n',
        b'{"a": {"b": [1, 2',
        gzip.compress(gzip.compress(b"a,b\n1,2\n", mtime=0), mtime=0),
        bytes(257) + b"ustar\x0000",
    ],
    ids=lambda head: repr(head[:12]),
)
@pytest.mark.parametrize("kind", TEXTS)
def test_another_kind_of_file_is_named(kind, head, tmp_path):
    (tmp_path / "data").write_bytes(head)
    assert re.search(r"expected text data, got an? ", outcome(kind, tmp_path / "data"))


@pytest.mark.parametrize(
    "text",
    [
        "ARROW1,ARROW2,y\n1,2,0\n3,4,1\n",
        '{"a"},b,y\n1,2,0\n3,4,1\n',
        "[[a]],b,y\n1,2,0\n3,4,1\n",
        '{"k": 1}\t2\t0\n{"k": 2}\t3\t1\n',
    ],
)
def test_a_table_whose_first_cell_looks_like_another_kind_of_file_is_read(text, tmp_path):
    (tmp_path / "data").write_text(text)
    assert readers.read_csv(tmp_path / "data").X.shape == (2, 3)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("data", [b"", b"\n", b" \t\r\n \n", b"\xef\xbb\xbf", b"\xff\xfe"], ids=repr)
def test_nothing_at_all_is_refused(kind, data, tmp_path):
    (tmp_path / "data").write_bytes(data)
    assert "got none" in outcome(kind, tmp_path / "data")


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("byte", [b"\xe9", b"\xff", b"\x00", b"\xc3"], ids=repr)
@pytest.mark.parametrize("line", [2, 9])
def test_a_byte_that_is_no_text_is_refused_on_its_line(kind, byte, line, tmp_path):
    lines = VALID[kind].split(b"\n")
    lines[line - 1] += byte
    (tmp_path / "data").write_bytes(b"\n".join(lines))
    assert f"data, line {line}: " in outcome(kind, tmp_path / "data")


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("filler", ["1,", "1 ", "x", "'", '"', "1:", "{0 1,", "a" * 50 + " ", "9", "\\"])
def test_a_line_of_ten_megabytes_ends_soon(kind, filler, tmp_path):
    text = {"csv": "a,b\n", "svmlight": "1 1:1\n"}.get(kind, ATTRIBUTES + "@data\n")
    (tmp_path / "data").write_text(text + filler * (10_000_000 // len(filler)))
    started = time.monotonic()
    outcome(kind, tmp_path / "data")
    assert time.monotonic() - started < 30  # seconds are for a loaded machine: anything quadratic takes hours


@pytest.mark.parametrize("packing", ["gz", "bz2", "xz"])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_bomb_ends_at_the_ratio(kind, packing, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 20)
    (tmp_path / "data").write_bytes(COMPRESS[packing](b"1" * (8 << 20)))
    assert "when unpacked" in outcome(kind, tmp_path / "data")


# Faults of one format ---------------------------------------------------------------------------------------------


def with_line(text, line, number):
    lines = text.split("\n")
    lines[number - 1] = line
    return "\n".join(lines)


CSV_LINES = [
    "1,2,3", "1,2,3,yes,5", "1", "1,2,3,yes,", '1,2,"3,yes', '"1,2,3,yes', '1,2,3,"yes', "1;2;3;yes", "1\t2\t3\tyes",
    ",,,", "1,,3,yes", "nan,2,3,no", "inf,2,3,no", "-inf,2,3,no", "1e400,2,3,no", "1e-400,2,3,no", "x,2,3,no",
    '"1",2,3,no', '"1,5",2,3,no', '1,2,3,"n""o"', " 1 , 2 , 3 , no ", "1,2,3,größe", "1,2,3,\u2028", "1_0,2,3,no",
    "0x1f,2,3,no", "True,2,3,no", "--1,2,3,no", "1,2,3,'no'", "1.2.3,2,3,no", "+1,2,3,no", "1,2,3,#no", "𝟙,2,3,no",
    "99999999999999999999,2,3,no", "9007199254740993,2,3,no", "1d5,2,3,no", "1e,2,3,no", "1,2,3,\x0b", "01,2,3,no",
]  # fmt: skip


@pytest.mark.parametrize("line", CSV_LINES)
@pytest.mark.parametrize("number", [2, 8])
def test_csv_lines(line, number, tmp_path):
    found = law("csv", tmp_path / "data", with_line(csv_text(), line, number).encode())
    widths = len(line.replace('"1,5"', "1").split(","))
    if isinstance(found, str) and widths != 4:
        assert f"line {number}: expected 4 values" in found


SVMLIGHT_LINES = [
    "1 2:1 1:1", "1 1:1 1:2", "1 -1:1", "1 0:1", "1 1:nan", "1 1:inf", "1 1:-inf", "1 1:1e999", "1 1:1e-999", "nan 1:1",
    "inf 1:1", "1 1:1 # 3:x", "1#2:3", "1 qid:1 1:1", "1 qid:x 1:1", "1 qid: 1:1", "1 1:1 qid:1", "1,2 1:1", " 1 1:1",
    "1\t1:1", "1 1: 1", "1 1 :1", "1 1:1:1", "1 :1", "1 1:", "1", "-1.5 1:1", "1e2 1:1", "1 99999999:1",
    "1 100000001:1",
    "1 2147483648:1", "1 4294967297:1", "1 18446744073709551617:1", "1 1:0x1p3", "1 1:1_0", "1_0 1:1", "1 1:1,5",
    "1 1:+5",
    "1 1:.5", "1 1:5.", "1 1:.", "1 1:e5", "1 1:1e", "1 1:1e+", "1 1:--1", "1 １:1", "1 1:1\x0b2:1", "1 1:1\x0c",
    "1\xa01:1",
    "1 1:9007199254740993", "1 1:0.1000000000000000055511151231257827", "1 1:" + "0" * 500 + "7",
    "1 1:0." + "0" * 400 + "7e401",
    "1 1:1" + "0" * 450 + "e-450", "+1 +1:1", "1 01:1", "one 1:1", "# only this",
]  # fmt: skip


@pytest.mark.parametrize("line", SVMLIGHT_LINES, ids=lambda line: line[:30])
def test_svmlight_lines(line, tmp_path):
    found = law("svmlight", tmp_path / "data", with_line(svmlight_text(), line, 5).encode())
    if isinstance(found, str):
        assert found.startswith("data, line 5: expected 'label index:value …', got ")
        assert "something else" not in found


ARFF_LINES = [
    "1,2,3", "1,2,3,yes,5", "1,2,3,maybe", "?,2,3,no", "1,2,3,?", "nan,2,3,no", "inf,2,3,no", "x,2,3,no", ",2,3,no",
    "'1',2,3,no", "1,2,3,'yes'", '1,2,3,"yes"', "1,2,3,'yes", "1,2,3,yes'", "% a comment", "1, 2,\t3 , yes",
    "1;2;3;yes", "{0 1, 3 yes}", "{0 1, 0 2}", "{9 1}", "{-1 1}", "{x 1}", "{0}", "{0 1", "{}", "{0 1,}",
    "1,2,3,yes,{5}", "@data",
    "1,2,3,YES", "1e400,2,3,no", "0x1f,2,3,no", "1_0,2,3,no", "1,2,3,größe", "<null>,2,3,no", "1,2,3,no % x",
    "𝟙,2,3,no",
]  # fmt: skip


@pytest.mark.parametrize("line", ARFF_LINES)
@pytest.mark.parametrize("kind", ["arff", "keel"])
def test_arff_lines(kind, line, tmp_path):
    number = 9 if kind == "arff" else 11
    path = tmp_path / "data"
    path.write_text(with_line(VALID[kind].decode(), line, number))
    found = outcome(kind, path)
    if isinstance(found, str):
        assert found.startswith(f"data, line {number}: expected ")
    elif not line.startswith("{") and "<null>" not in line:  # SciPy reads neither sparse rows nor KEEL's gaps
        expected = reference("arff", with_line(arff_text(), line, 9).encode())
        if isinstance(expected, Exception):  # a missing label is b'?' to SciPy, a quoted number nothing at all
            assert set(line) & set("'\"\t")
        else:
            frame = expected.replace({b"?": None})
            np.testing.assert_array_equal(found.X.iloc[:, :3].to_numpy(float), frame.iloc[:, :3].to_numpy(float))
            assert found.X["y"].tolist() == [None if v is None else v.decode().strip("'\"") for v in frame["y"]]


def test_sparse_arff_is_the_dense_one(tmp_path):
    rows = zip(NUMBERS.tolist(), LABELS, strict=True)
    lines = [f"{{0 {a!r}, 1 {b!r}, 2 {c!r}, 3 {y}}}" for (a, b, c), y in rows]
    (tmp_path / "data").write_text(ATTRIBUTES + "@data\n" + "\n".join(lines))
    agrees("arff", outcome("arff", tmp_path / "data"), reference("arff", VALID["arff"]))


KEEL_HEADS = {
    "no outputs": (lambda text: text.replace("@outputs y\n", ""), None),
    "no inputs": (lambda text: text.replace("@inputs a, b, c\n", ""), None),
    "outputs of a strange name": (lambda text: text.replace("@outputs y", "@outputs z"), "got 'z'"),
    "no data": (lambda text: text.partition("@data")[0], "expected a line @data"),
    "no relation": (lambda text: text.partition("\n")[2], None),
    "rows on the line of @data": (lambda text: text.replace("@data\n", "@data 1,2,3,no\n"), "line of its own"),
    "an unknown type": (lambda text: text.replace("@attribute b real", "@attribute b complex"), "line 3"),
    "no type": (lambda text: text.replace("@attribute b real", "@attribute b"), "line 3"),
    "an open set": (lambda text: text.replace("{no, yes}", "{no, yes"), "line 5"),
    "an open quote": (lambda text: text.replace("attribute b", "attribute 'b"), "line 3"),
    "a name of a megabyte": (lambda text: text.replace("@outputs y", "@outputs " + "z" * 1_000_000), "got 'zzz"),
    "in capitals": (lambda text: re.sub(r"@\w+", lambda m: m[0].upper(), text), None),
}


@pytest.mark.parametrize("name", KEEL_HEADS)
def test_keel_heads(name, tmp_path):
    change, words = KEEL_HEADS[name]
    (tmp_path / "data").write_text(change(keel_text()))
    found = outcome("keel", tmp_path / "data")
    if words is None:
        agrees("arff", found, reference("arff", VALID["arff"]))
        assert found.target == "y"
    else:
        assert words in found


Y = np.arange(N) % 2
ARCHIVES = {
    "objects": ({"X": NUMBERS.astype(object), "y": Y}, "Object"),
    "objects as labels": ({"X": NUMBERS, "y": np.array(LABELS, dtype=object)}, "Object"),
    "other lengths": ({"X": NUMBERS, "y": Y[:-1]}, "as many labels as rows"),
    "a table of labels": ({"X": NUMBERS, "y": np.ones((N, 2))}, "as many labels as rows"),
    "one number": ({"X": np.float64(1), "y": np.float64(1)}, "as many labels as rows"),
    "no labels": ({"X": NUMBERS}, "got X"),
    "no rows of data": ({"y": Y}, "got y"),
    "other names": ({"a": NUMBERS, "b": Y}, "got a, b"),
    "complex rows": ({"X": NUMBERS.astype(complex), "y": Y}, "plain numbers"),
    "dates": ({"X": NUMBERS.astype("datetime64[s]"), "y": Y}, "plain numbers"),
    "a record": ({"X": np.zeros(N, dtype=[("p", "f8")]), "y": Y}, "plain numbers"),
    "labels that are no text": ({"X": NUMBERS, "y": np.array([b"\xff"] * N)}, "UTF-8"),
    "too wide": ({"X": np.zeros((2, 100_001), np.int8), "y": Y[:2]}, "at most 100,000 columns"),
    "no columns": ({"X": np.empty((N, 0)), "y": Y}, None),
    "one column": ({"X": NUMBERS[:, 0], "y": Y}, None),
    "pictures": ({"X": NUMBERS.reshape(N, 3, 1, 1), "y": Y}, None),
    "labels as a column": ({"X": NUMBERS, "y": Y[:, None]}, None),
    "labels as texts": ({"X": NUMBERS, "y": np.array(LABELS)}, None),
    "column by column": ({"X": np.asfortranarray(NUMBERS), "y": Y}, None),
    "half precision": ({"X": NUMBERS.astype(np.float16), "y": Y}, None),
    "big-endian": ({"X": NUMBERS.astype(">f8"), "y": Y.astype(">i2")}, None),
    "truth values": ({"X": NUMBERS > 0, "y": Y > 0}, None),
}


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_of_arrays(name, save, tmp_path):
    members, words = ARCHIVES[name]
    found = law("npz", tmp_path / "data.npz", npz_bytes(save, **members))
    assert isinstance(found, str) == (words is not None)
    assert words is None or words in found


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["npz", "npz, deflated", "parquet", "idx"])
def test_a_truncated_binary_file_is_refused(kind, share, tmp_path):
    (tmp_path / "data").write_bytes(VALID[kind][: int(share * len(VALID[kind]))])
    assert isinstance(outcome(kind, tmp_path / "data"), str)


def npy_header(shape):
    np.lib.format.write_array_header_1_0(
        buffer := io.BytesIO(), {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


@pytest.mark.parametrize("shape", [(10**6, 10**6), (2**62, 4), (N, 3, 10**12), (-1, 3), (2**63, 2)])
def test_an_array_that_promises_more_than_there_is(shape, tmp_path):
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("X.npy", npy_header(shape) + bytes(100))
        archive.writestr("y.npy", npy_header((N,)) + bytes(8 * N))
    assert isinstance(outcome("npz", tmp_path / "data.npz"), str)


@pytest.mark.parametrize("data", [b"", b"text", VALID["csv"], b"\x93NUMPY" + bytes(20), b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_of_arrays(data, tmp_path):
    (tmp_path / "data.npz").write_bytes(data)
    assert "numpy.savez" in outcome("npz", tmp_path / "data.npz")


def test_a_single_array_is_no_archive(tmp_path):
    np.save(tmp_path / "data.npy", NUMBERS)
    assert "numpy.savez" in outcome("npz", tmp_path / "data.npy")


def test_an_archive_that_would_unpack_to_far_more(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 20)
    np.savez_compressed(tmp_path / "data.npz", X=np.zeros((1 << 20, 4)), y=np.zeros(1 << 20))
    assert "out of far fewer" in outcome("npz", tmp_path / "data.npz")


IDX = {
    "first bytes": (idx_bytes(IMAGES, b"\x01\x00\x08\x03"), "expected an IDX file"),
    "an unknown type": (idx_bytes(IMAGES, b"\0\0\x07\x03"), "expected an IDX file"),
    "no dimension": (b"\0\0\x08\0", "expected an IDX file"),
    "too many dimensions": (b"\0\0\x08\xff" + bytes(2000), "expected an IDX file"),
    "a head cut off": (b"\0\0\x08\x03\0\0", "dimensions in its head"),
    "too short": (idx_bytes(IMAGES)[:-1], "for shape (12, 2, 3)"),
    "too long": (idx_bytes(IMAGES) + b"\0", "for shape (12, 2, 3)"),
    "another shape": (idx_bytes(IMAGES, shape=(N, 3, 3)), "for shape (12, 3, 3)"),
    "a huge shape": (idx_bytes(IMAGES, shape=(2**32 - 1,) * 3), "bytes for shape"),
    "a wider type": (idx_bytes(IMAGES, kind=0x0E), "bytes for shape"),
    "more images than labels": (idx_bytes(np.concatenate([IMAGES, IMAGES])), "as many labels as rows"),
    "no images": (idx_bytes(IMAGES[:0]), "got none"),
    "no images of huge size": (idx_bytes(IMAGES[:0], shape=(0, 2**32 - 1, 2**32 - 1)), "got none"),
    "a page": (b"<html></html>", "expected an IDX file"),
}


@pytest.mark.parametrize("name", IDX)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_idx_files(name, pack, tmp_path):
    data, words = IDX[name]
    (tmp_path / "data").write_bytes(pack(data))
    assert words in outcome("idx", tmp_path / "data")


def test_a_whole_idx_file_is_read(tmp_path):
    (tmp_path / "data").write_bytes(VALID["idx"])
    frame = outcome("idx", tmp_path / "data").X
    np.testing.assert_array_equal(frame.to_numpy(), np.column_stack([IMAGES.reshape(N, 6), IDX_LABELS]))


# Random damage ----------------------------------------------------------------------------------------------------


@st.composite
def damage(draw, data):
    """A file with some bytes changed, inserted, removed or doubled, perhaps cut off."""
    spoilt = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(spoilt) - 1)))
        piece = draw(st.binary(min_size=1, max_size=3) | st.sampled_from([b"\n", b",", b":", b'"', b"'", b"9" * 20]))
        how = draw(st.sampled_from(["change", "insert", "remove", "double"]))
        if how == "change":
            spoilt[at : at + len(piece)] = piece
        elif how == "insert":
            spoilt[at:at] = piece
        elif how == "remove":
            del spoilt[at : at + draw(st.integers(1, 30))]
        else:
            spoilt[at:at] = spoilt[at : at + draw(st.integers(1, 40))]
    return bytes(spoilt[: draw(st.integers(0, len(spoilt)))] if draw(st.integers(0, 5)) == 0 else spoilt)


@pytest.mark.parametrize("kind", VALID)
@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
@given(data=st.data())
def test_random_damage(kind, tmp_path, data):
    (tmp_path / "data").write_bytes(spoilt := data.draw(damage(VALID[kind])))
    found = outcome(kind, tmp_path / "data")
    if not isinstance(found, str) and kind == "svmlight":
        agrees(kind, found, reference(kind, spoilt))
    if kind == "idx":
        return
    format_ = "npz" if kind.startswith("npz") else kind
    raw = RawFile("d", tmp_path / "data", format_, "data", "", len(spoilt))
    target = None if kind != "parquet" and kind != "csv" else "-1"
    try:
        list(chunks.chunks(raw, ConversionRule(target, conversion="one_vs_rest"), rows=5))
    except BadInput as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("packing", ["gz", "bz2", "xz", "zip", "tar.gz"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_packing_leaves_the_file_or_nothing(packing, tmp_path, monkeypatch, data):
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AUCFLOW_MIRROR", raising=False)
    plain, packed = VALID["csv"], tmp_path / "packed"
    packed.write_bytes(data.draw(damage(packings(plain)[packing])))
    remote = Remote("set/data.csv", (packed.as_uri(),))
    cached(remote).unlink(missing_ok=True)
    try:
        found = fetch(remote)
    except (RunFailed, BadInput) as error:
        assert "set/data.csv" in str(error)
        assert not cached(remote).exists()
    else:
        assert found.size_bytes == cached(remote).stat().st_size > 0
    beside = {path.suffix for path in cached(remote).parent.rglob("*")} - {".lock", ".csv"}
    assert not beside, f"left behind: {beside}"


def test_an_archive_whose_member_has_lost_its_name_is_refused(tmp_path):
    whole = packings(VALID["csv"])["zip"]
    start = whole.rindex(b"data.csv")
    (tmp_path / "packed.zip").write_bytes(whole[:start] + bytes(8) + whole[start + 8 :])
    with pytest.raises(RunFailed, match=r"expected one file 'data.csv' in the archive, got 0"):
        unpack(tmp_path / "packed.zip", tmp_path / "plain", "data.csv")


def packings(plain):
    with zipfile.ZipFile(zipped := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.csv", plain)
    with tarfile.open(fileobj=(tarred := io.BytesIO()), mode="w:gz") as archive:
        info = tarfile.TarInfo("data.csv")
        info.size = len(plain)
        archive.addfile(info, io.BytesIO(plain))
    packed = {name: pack(plain) for name, pack in COMPRESS.items()}
    return packed | {"zip": zipped.getvalue(), "tar.gz": tarred.getvalue()}


# From the file to the data set ------------------------------------------------------------------------------------


DATA_SETS = {
    "one class": ("a,y\n1,0\n2,0\n", "one (0)"),
    "a row without a label": ("a,y\n1,0\n2,\n3,1\n", "line 3"),
    "infinity": ("a,y\n1,0\ninf,1\n", "line 3"),
    "no other column": ("y\n0\n1\n", "besides the target"),
    "empty columns": ("a,y\n,0\n?,1\n", "only empty columns"),
    "only a header": ("a,y\n", "got none"),
    "a measurement": ("a,y\n" + "".join(f"{i},{i / 7}\n" for i in range(99)), "looks like a measurement"),
    "three labels": ("a,y\n1,0\n2,1\n3,2\n", "--positive"),
}


@pytest.mark.parametrize("name", DATA_SETS)
def test_what_makes_no_data_set_is_refused_whole_and_in_chunks(name, tmp_path):
    text, words = DATA_SETS[name]
    path = tmp_path / "data.csv"
    path.write_text(text)
    raw = download.fn("d", str(path))
    with pytest.raises(BadInput) as whole:
        convert.fn(raw, ConversionRule("y"))
    with pytest.raises(BadInput) as piecewise:
        list(chunks.chunks(raw, ConversionRule("y"), rows=2))
    assert words in str(whole.value) and words in str(piecewise.value)


@pytest.mark.parametrize("story", [{}, [], "x", {"data_set_description": 3}, {"data_set_description": {"url": "x"}}])
def test_a_broken_description_of_openml(story, tmp_path, monkeypatch):
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path))
    place = cached(Remote("openml/7.json"))
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(story))
    with pytest.raises((BadInput, RunFailed), match="openml:7: expected"):
        download.fn("d", "openml:7", offline=True)


@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (0,), (0, 2, 2)])
def test_arrays_without_rows_are_no_data_set(shape, tmp_path):
    np.savez(tmp_path / "data.npz", X=np.empty(shape), y=np.empty(0))
    assert outcome("npz", tmp_path / "data.npz").X.shape[0] == 0
    with pytest.raises(BadInput, match="expected rows of data"):
        convert.fn(download.fn("d", str(tmp_path / "data.npz")), ConversionRule())
