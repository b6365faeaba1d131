"""Download: a source becomes a file with a format and a digest, or one line that says what to do."""

import gzip
import hashlib
import os

import pytest

from tasks.download import detect_format, download
from tasks.errors import BadInput

CSV = "a,b,y\n1,2,0\n3,4,1\n"


def refusal(source, *args):
    with pytest.raises(BadInput) as error:
        download.fn("d", str(source), *args)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_local_file_gets_its_path_format_and_digest(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(CSV)
    raw = download.fn("mine", str(path))
    assert (raw.name, raw.path, raw.format, raw.source) == ("mine", path, "csv", str(path))
    assert raw.sha256 == hashlib.sha256(CSV.encode()).hexdigest()
    assert raw.size_bytes == len(CSV)


def test_paths_may_be_relative_or_in_the_home_folder(tmp_path, monkeypatch):
    (tmp_path / "mine.csv").write_text(CSV)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert download.fn("d", "~/mine.csv").path == download.fn("d", "mine.csv").path == tmp_path / "mine.csv"


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine"])
def test_scikit_learns_own_files_are_digested_where_they_lie(name):
    raw = download.fn(name, f"sklearn:{name}")
    assert raw.format == "sklearn"
    assert raw.sha256 == hashlib.sha256(raw.path.read_bytes()).hexdigest()


KEEL = "@relation r\n@attribute a real\n@attribute c {x,y}\n@inputs a\n@outputs c\n@data\n1,x\n"


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("a.csv", CSV, "csv"),
        ("a.TSV", "a\tb\n1\t2\n", "csv"),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0), "csv"),
        ("a.libsvm", "1 1:2\n", "svmlight"),
        ("a.arff", KEEL, "arff"),
        ("a.pq", b"PAR1", "parquet"),
        ("a.dat", KEEL, "keel"),
        ("a.dat", "1 1:2 3:4\n-1 2:1\n", "svmlight"),
        ("a.dat", "1.0  2.0 0\n3.0  4.0 1\n", "csv"),
        ("a.txt", CSV, "csv"),
        ("a.txt", CSV.encode("utf-16"), "csv"),
        ("ijcnn1.t", "# LIBSVM\n-1.0 6:1 11:-0.73\n1 7:1\nabc 1:2\n", "svmlight"),
        ("noextension", "\ufeff% KEEL's\n" + KEEL, "keel"),
        ("noextension", KEEL.replace("@inputs a\n@outputs c\n", ""), "arff"),
        ("noextension", b"PAR1....PAR1", "parquet"),
        ("adult.data", "39, State-gov, <=50K\n50, Private, >50K\n", "csv"),
        ("long.data", "12,34,5\n" * 20_000, "csv"),  # longer than the part that is looked at
    ],
)
def test_format_by_extension_and_else_by_contents(tmp_path, name, data, format):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    assert detect_format(path) == format
    assert download.fn("d", str(path)).format == format


def test_a_format_that_is_given_wins(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("1 1:2\n-1 1:3\n")
    assert download.fn("d", str(path), "svmlight").format == "svmlight"
    assert "got 'svmlite'. Did you mean 'svmlight'?" in refusal(path, "svmlite")


def test_missing_files_are_refused_with_the_nearest_name(tmp_path):
    (tmp_path / "transactions.csv").write_text(CSV)
    path = tmp_path / "transaction.csv"
    assert refusal(path) == f"Expected a data file, found no {path}. Did you mean 'transactions.csv'?"
    assert "Check the path" in refusal(tmp_path / "zzz")
    assert "found no folder" in refusal(tmp_path / "no" / "such.csv")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.csv", b"", "got an empty file"),
        ("blank.csv", b"\xef\xbb\xbf \r\n\n\t\n", "got an empty file"),
        ("empty.csv.gz", gzip.compress(b"", mtime=0), "got an empty file"),
        ("cut.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-9], "expected a whole, readable file"),
        ("page", b"<!doctype html><p>404", "got a web page"),
        ("book.xlsx", b"PK\x03\x04...", "Excel workbook"),
        ("model.bin", b"\x01\x00\x02", "got binary content"),
        ("words.md", b"hello\n", "got 'hello' in front. Name its format with --format"),
    ],
)
def test_what_is_no_data_is_refused(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    message = refusal(path)
    assert words in message
    assert name in message


def test_what_is_no_file_is_refused(tmp_path):
    assert "got the folder" in refusal(tmp_path)
    assert "device or pipe" in refusal(os.devnull)
    assert "Check the path" in refusal("x" * 5000)
    assert "Check the path" in refusal("a\0b.csv")
    assert "Download it" in refusal("https://example.org/a.csv")
    assert "got 'digit'. Did you mean 'digits'?" in refusal("sklearn:digit")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_refused(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text(CSV)
    path.chmod(0)
    assert "permission denied" in refusal(path)
