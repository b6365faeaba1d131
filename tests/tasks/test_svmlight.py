"""The compiled svmlight parser against Python's own numbers, line by line, and against scikit-learn's reader."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from tasks.svmlight import Defect, defect, parse


def slowly(text):
    """The twin: label and {index: value} of every row, by splitting and float(); None if any line is defective."""
    rows = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if defect(line.encode()):
            return None
        fields = line.split("#", 1)[0].split()
        if fields:
            items = [f.split(":") for f in fields[1:] if not f.startswith("qid:")]
            rows.append((float(fields[0]), {int(i): float(v) for i, v in items}))
    return rows


def as_rows(parsed):
    bounds = parsed.indptr
    return [
        (label, dict(zip(parsed.indices[a:b].tolist(), parsed.data[a:b].tolist(), strict=True)))
        for label, a, b in zip(parsed.labels.tolist(), bounds[:-1], bounds[1:], strict=True)
    ]


finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.one_of(
    finite.map(repr),
    finite.map("{:.6g}".format),
    finite.map("{:.25e}".format),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(["+1", "-1", "0", "-0", "1.", ".5", "1e5", "1E-5", "9007199254740993", "1e22", "1e23", "5e-324"]),
)
rows = st.builds(
    lambda label, items, blank, tail: blank.join([label, *(f"{i}:{v}" for i, v in sorted(items.items()))]) + tail,
    numbers,
    st.dictionaries(st.integers(0, 999_999), numbers, max_size=5),
    st.sampled_from([" ", "  ", "\t"]),
    st.sampled_from(["", " ", " # a comment: 3", "\t"]),
)


class TestNumbers:
    @settings(max_examples=300, deadline=None)
    @given(
        st.lists(st.one_of(rows, st.just(""), st.just("# only a comment")), max_size=6),
        st.sampled_from(["\n", "\r\n", "\r"]),
    )
    def test_every_number_is_the_nearest_double(self, lines, ending):
        text = ending.join(lines)
        assert as_rows(parse(text.encode())) == slowly(text)

    @settings(max_examples=300, deadline=None)
    @given(st.text(alphabet="01 :.-+e#q\nid\t\r", max_size=60))
    def test_what_is_wrong_is_wrong_for_both(self, text):
        try:
            found = as_rows(parse(text.encode()))
        except Defect as error:
            line = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[error.line - 1]
            assert defect(line.encode()), f"{line!r} was refused but nothing is wrong with it"
        else:
            assert found == slowly(text)

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=80))
    def test_no_bytes_do_harm(self, noise):
        try:
            parse(b"1 1:2\n" + noise)
        except Defect as error:
            assert error.line >= 2


class TestDefects:
    @pytest.mark.parametrize(
        "line, what",
        [
            ("1 1:2 1:3", "index 1 after index 1"),
            ("1 5:2 3:3", "index 3 after index 5"),
            ("1 -1:2", "the index '-1'"),
            ("1 200000000:2", "the index '200000000'"),
            ("1 12345678901:2", "the index '12345678901'"),
            ("1 1:", "the value '' of index 1"),
            ("1 1:x", "the value 'x' of index 1"),
            ("1 1:nan", "not a finite number"),
            ("1 1:1e999", "not a finite number"),
            ("inf 1:1", "the label 'inf'"),
            ("1,2 1:1", "the label '1,2'"),
            ("1 1", "'1' without a colon"),
            ("1 :2", "the index ''"),
            ("1 1:2:3", "the value '2:3'"),
            ("1 1:0x10", "the value '0x10'"),
            ("1 1:1_0", "the value '1_0'"),
        ],
    )
    def test_each_names_its_line(self, line, what):
        with pytest.raises(Defect, match=what) as refusal:
            parse(f"1 1:2\n# fine\n{line}\n-1 1:1\n".encode())
        assert refusal.value.line == 3


class TestFiles:
    def test_as_scikit_learn_reads_what_it_wrote(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(50, 7)) * (rng.random((50, 7)) < 0.5) * 10.0 ** rng.integers(-300, 300, size=(50, 7))
        file = io.BytesIO()
        dump_svmlight_file(X, rng.integers(0, 3, 50), file, zero_based=False)
        expected, labels = load_svmlight_file(io.BytesIO(file.getvalue()), n_features=7)
        found = parse(file.getvalue())
        assert np.array_equal(found.labels, labels)
        assert (found.matrix(False, 7) != expected).nnz == 0

    @pytest.mark.parametrize("name", ["a9a", "german.numer", "sector.t.scale"])
    def test_as_scikit_learn_reads_real_files(self, name, mirror):
        text = (mirror / "libsvm" / name).read_bytes()
        expected, labels = load_svmlight_file(io.BytesIO(text), zero_based=False)
        found = parse(text)
        assert np.array_equal(found.labels, labels)
        assert (found.matrix(False, expected.shape[1]) != expected).nnz == 0

    def test_rows_know_their_lines(self):
        assert parse(b"# head\n1 1:1\r\n\r\n-1\r1 2:1").lines.tolist() == [2, 4, 5]
