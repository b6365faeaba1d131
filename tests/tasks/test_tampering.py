"""Whatever is done to a store behind the ledger's back is found, and what was touched is named.

The cases are generated: every operation on every kind of thing, a few times each with seeds of their own.
"""

import hashlib
import random
import shutil
import sqlite3
import string
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pytest
from audited import forget

from tasks.ledger import Ledger, LedgerEntry, canonical
from tasks.story import CHANGED, tell
from tasks.verify import verify

pytestmark = pytest.mark.slow
ROUNDS = 3  # of each operation on files; tables have one round for each of their columns


def check(audited, *names):
    """Assert that there are findings, one of them about what was touched: it has one of the names, or all its parts."""
    findings = verify(audited.client, audited.ledger).findings
    assert findings, "nothing was found"
    subjects = [finding.subject for finding in findings]
    wanted = [(name,) if isinstance(name, str) else name for name in names]
    named = [subject for subject in subjects for parts in wanted if all(part in subject for part in parts)]
    assert named, f"{names} not named in {subjects}"


@pytest.mark.parametrize("time", range(2))
def test_a_store_that_nobody_touched_has_no_finding(audited, time):
    assert verify(audited.client, audited.ledger, deep=True).found == ()


# Bytes ------------------------------------------------------------------------------------------------------------


def flip(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def insert(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(string.printable).encode() + data[place:]


def delete(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + data[place + rng.randint(1, 20) :]


def swap(data: bytes, rng: random.Random) -> bytes:
    while True:
        a, b = sorted(rng.sample(range(len(data)), 2))
        if data[a] != data[b]:
            return data[:a] + data[b : b + 1] + data[a + 1 : b] + data[a : a + 1] + data[b + 1 :]


def truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def empty(data: bytes, rng: random.Random) -> bytes:
    return b""


OPERATIONS = (flip, insert, delete, swap, truncate, empty)


def head_file(audited, rng):
    return audited.ledger.head_path, ("head.json",)


def data_file(audited, rng):
    return audited.folder / "claims.csv", (f"data file {audited.folder / 'claims.csv'}",)


def manifest_file(audited, rng):
    name, run_id = rng.choice(sorted(audited.runs.items()))
    (path,) = audited.folder.glob(f"mlruns/artifacts/*/{run_id}/artifacts/lineage.json")
    return path, (f"run {run_id[:8]} {name}, lineage.json",)


def run_artifact(audited, rng):
    name, run_id = rng.choice(sorted(audited.runs.items()))
    (folder,) = audited.folder.glob(f"mlruns/artifacts/*/{run_id}/artifacts")
    path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lineage.json"))
    return path, (f"run {run_id[:8]} {name}, file run/{path.relative_to(folder).as_posix()}",)


def model_file(audited, rng):
    folder = rng.choice(sorted(audited.folder.glob("mlruns/artifacts/*/models/*/artifacts")))
    path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
    return path, (f", file model/{path.relative_to(folder).as_posix()}",)


def report_copy(audited, rng):
    (path,) = audited.folder.glob("mlruns/reports/*.html")
    return path, (f", file mlruns/reports/{path.name}",)


FILES = (head_file, data_file, manifest_file, run_artifact, model_file, report_copy)


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
@pytest.mark.parametrize("target", FILES, ids=lambda target: target.__name__)
def test_bytes_of_a_file(audited, target, operation, seed):
    rng = random.Random(f"{target.__name__} {operation.__name__} {seed}")
    path, names = target(audited, rng)
    before = path.read_bytes()
    path.write_bytes(operation(before, rng))
    assert path.read_bytes() != before
    check(audited, *names)


@pytest.mark.parametrize("target", FILES[1:-1], ids=lambda target: target.__name__)
@pytest.mark.parametrize("seed", range(2))
def test_a_file_taken_away(audited, target, seed):
    path, names = target(audited, random.Random(seed))
    path.unlink()
    check(audited, *names)


@pytest.mark.parametrize("target", [run_artifact, model_file], ids=lambda target: target.__name__)
@pytest.mark.parametrize("name", ["extra.json", "lineage.json.bak", "registered_model_meta", ".hidden"])
def test_a_file_put_beside_the_artifacts(audited, target, name):
    path, _ = target(audited, random.Random(name))
    (path.parent / name).write_text("whatever: it says")
    check(audited, name)


def test_two_artifacts_swapped(audited):
    first, second = sorted(audited.folder.glob("mlruns/artifacts/*/models/*/artifacts/model.skops"))
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    check(audited, "file model/model.skops")


# The ledger's lines -----------------------------------------------------------------------------------------------


def flip_line(lines, number, rng):
    lines[number] = flip(lines[number], rng).replace(b"\n", b"?")
    return [number + 1]


def insert_line(lines, number, rng):
    lines.insert(number, rng.choice([lines[number], b"{}", b"", lines[number].replace(b"finished", b"finishes")]))
    return [number + 1, number + 2]


def delete_line(lines, number, rng):
    del lines[number]
    return [number + 1]


def swap_lines(lines, number, rng):
    other = rng.choice([place for place in range(len(lines)) if place != number])
    lines[number], lines[other] = lines[other], lines[number]
    return [number + 1, other + 1]


def truncate_lines(lines, number, rng):
    del lines[number:]
    return [number + 1]


@pytest.mark.parametrize("operation", [flip_line, insert_line, delete_line, swap_lines, truncate_lines])
@pytest.mark.parametrize("number", range(7))
def test_lines_of_the_ledger(audited, operation, number):
    lines = audited.ledger.path.read_bytes().split(b"\n")[:-1]
    assert len(lines) == 7
    touched = operation(lines, number, random.Random(f"{operation.__name__} {number}"))
    audited.ledger.path.write_bytes(b"".join(line + b"\n" for line in lines))
    check(audited, *(f"ledger line {line}" for line in touched))


@pytest.mark.parametrize("fact", ["status", "end_time", "manifest_sha256", "name"])
@pytest.mark.parametrize("number", range(3))
def test_an_entry_that_lies_and_a_chain_written_anew_from_there(audited, number, fact):
    """Without touching the head: all digests agree but the last."""
    chain = []
    for entry in audited.ledger.entries():
        data = entry.data | ({fact: "0" * 64} if entry.seq == number + 1 else {})
        chain.append(relinked(entry, data, chain))
    audited.ledger.path.write_bytes(b"".join(line + b"\n" for line in chain))
    check(audited, "ledger line 7 or head.json")
    check(audited, f"run {audited.ledger.entries()[number].subject[:8]}")


def relinked(entry: LedgerEntry, data: dict, chain: list[bytes]) -> bytes:
    previous = hashlib.sha256(chain[-1]).hexdigest() if chain else "0" * 64
    fields = ("seq", "time", "kind", "subject", "reason")
    own = {name: getattr(entry, name) for name in fields}
    return canonical({"schema": "aucflow-ledger/1", "data": data, "previous": previous} | own)


# Everything anew ---------------------------------------------------------------------------------------------------


def write_anew(audited, folder, change):
    """Write the whole ledger anew, head and all, with what ``change`` returns of an entry on top of its data."""
    anew = Ledger(folder / "anew")
    for entry in audited.ledger.entries():
        anew.append(entry.kind, entry.subject, entry.reason, entry.data | change(entry))
    shutil.copytree(anew.folder, audited.ledger.folder, dirs_exist_ok=True)
    assert audited.ledger.verify() == ()


def execute(audited, statement, *values):
    with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database, database:
        assert database.execute(statement, values).rowcount > 0


def told(audited):
    return {(one.subject, one.message.partition(" ")[0]) for one in verify(audited.client, audited.ledger).findings}


@pytest.mark.parametrize("names", [{"claims ls_svm"}, {"claims", "claims ls_svm", "claims u1+ls_svm"}])
def test_a_run_that_is_made_one_without_a_manifest(audited, tmp_path, names):
    """There is nothing of its own that it could be held against; its experiment and its versions know better."""
    killed = {audited.runs[name] for name in names}
    ended = {"status": "KILLED", "manifest_sha256": None}
    write_anew(audited, tmp_path, lambda entry: ended if entry.subject in killed else {})
    for run_id in killed:
        execute(audited, "UPDATE runs SET status = 'KILLED' WHERE run_uuid = ?", run_id)
        execute(audited, "UPDATE latest_metrics SET value = 0.9999 WHERE run_uuid = ?", run_id)
    found = told(audited)
    assert ("claims/1", "it") in found
    cell = audited.runs["claims ls_svm"]
    entry = audited.ledger.last_of_runs()[cell].seq
    assert ((f"run {cell[:8]}, entry {entry}", "its") in found) == ("claims" not in names)
    if "claims" not in names:
        (line,) = (one for one in tell(audited.client, audited.ledger, "claims").lines if cell[:8] in one.text)
        assert line.state == CHANGED


def test_a_run_that_ended_without_a_manifest(audited, tmp_path):
    run_id = audited.runs["claims"]
    write_anew(audited, tmp_path, lambda entry: {"manifest_sha256": None} if entry.subject == run_id else {})
    check(audited, f"run {run_id[:8]} claims, lineage.json")


def test_a_cell_that_is_taken_out_whole(audited, tmp_path):
    cell = audited.runs["claims u1+ls_svm"]
    write_anew(audited, tmp_path, lambda entry: {})
    kept = [entry for entry in audited.ledger.entries() if entry.subject != cell]
    anew = Ledger(tmp_path / "without")
    for entry in kept:
        anew.append(entry.kind, entry.subject, entry.reason, entry.data)
    shutil.copytree(anew.folder, audited.ledger.folder, dirs_exist_ok=True)
    forget(audited, cell)
    check(audited, f"run {cell[:8]}")
    check(audited, "claims/2")


@pytest.mark.parametrize("name", ["source", "aucflow.model_sha256", "aucflow.model_id", "aucflow.manifest_sha256"])
def test_a_version_of_other_files_than_its_run_made(audited, tmp_path, name):
    """Ledger and registry agree, and the run is as it was: another model would serve."""
    other = f"file://{audited.folder}/mlruns/elsewhere" if name == "source" else "0" * 64

    def change(entry):
        if entry.kind != "register" or entry.subject != "claims/2":
            return {}
        return {name: other} if name == "source" else {"tags": entry.data["tags"] | {name: other}}

    write_anew(audited, tmp_path, change)
    where = "WHERE name = 'claims' AND version = 2"
    if name == "source":
        execute(audited, f"UPDATE model_versions SET source = ?, storage_location = ? {where}", other, other)
    else:
        execute(audited, f"UPDATE model_version_tags SET value = ? {where} AND key = ?", other, name)
    assert told(audited) == {("claims/2", "it")}


# The database -----------------------------------------------------------------------------------------------------

Row = dict[str, object]


@dataclass(frozen=True)
class Rows:
    """A table of the store: which of its columns say something of a run or a model, and what a finding calls a row."""

    name: str
    columns: tuple[str, ...]
    subject: Callable[[Row], str | tuple[str, ...]]
    where: str = "1"
    key: str = ""  # the column that a new row has another value in; none: no row can be put in


def of_run(row: Row) -> str:
    return f"run {str(row['run_uuid'])[:8]} "


GUARDED = "key != 'mlflow.note.content' AND key LIKE 'aucflow.%'"
TABLES = (
    Rows(
        "runs",
        ("name", "status", "start_time", "end_time", "lifecycle_stage", "artifact_uri", "experiment_id", "user_id"),
        of_run,
        key="run_uuid",
    ),
    Rows("params", ("value", "key", "run_uuid"), lambda row: (of_run(row), f", param {row['key']}"), key="key"),
    Rows(
        "metrics",
        ("value", "timestamp", "step", "is_nan", "key"),
        lambda row: (of_run(row), f", metric {row['key']}"),
        key="key",
    ),
    Rows("metrics", ("run_uuid",), lambda row: (of_run(row), f", metric {row['key']}"), key="step"),
    Rows(
        "latest_metrics",
        ("value", "is_nan", "key"),
        lambda row: (of_run(row), f", latest metric {row['key']}"),
        key="key",
    ),
    Rows("tags", ("value", "key", "run_uuid"), lambda row: (of_run(row), f", tag {row['key']}"), GUARDED, key="key"),
    Rows(
        "datasets",
        ("name", "digest", "dataset_source", "dataset_profile", "dataset_schema", "dataset_source_type"),
        lambda row: f"input {row['name']}",
    ),
    Rows("inputs", ("source_id", "destination_id"), lambda row: INPUTS[row["source_type"]], "source_type = 'DATASET'"),
    Rows("inputs", ("destination_id",), lambda row: INPUTS[row["source_type"]], "source_type = 'RUN_OUTPUT'"),
    Rows("input_tags", ("name", "value"), lambda row: "input claims", key="name"),
    Rows(
        "logged_models",
        ("artifact_location", "name", "status", "source_run_id", "lifecycle_stage", "experiment_id"),
        lambda row: "model",
        key="model_id",
    ),
    Rows(
        "logged_model_params",
        ("param_key", "param_value"),
        lambda row: f"model's param {row['param_key']}",
        key="param_key",
    ),
    Rows(
        "logged_model_metrics",
        ("metric_value", "metric_timestamp_ms", "metric_step", "metric_name"),
        lambda row: f"metric {row['metric_name']} of the model",
        key="metric_step",
    ),
    Rows(
        "logged_model_tags",
        ("tag_value", "tag_key"),
        lambda row: f"model's tag {row['tag_key']}",
        "tag_key != 'mlflow.modelVersions'",
    ),
    Rows(
        "experiments",
        ("name", "lifecycle_stage", "artifact_location"),
        lambda row: f"experiment {row['name']}",
        "experiment_id = 1",
    ),
    Rows("registered_model_aliases", ("version", "alias"), lambda row: f"{row['name']}@{row['alias']}"),
    Rows(
        "model_versions",
        ("source", "run_id", "storage_location", "status"),
        lambda row: f"{row['name']}/{row['version']}",
        key="version",
    ),
    Rows(
        "model_version_tags",
        ("value", "key"),
        lambda row: f"{row['name']}/{row['version']}",
        "key LIKE 'aucflow.%'",
        key="key",
    ),
)
INPUTS = {"DATASET": "input claims", "RUN_OUTPUT": "output m-"}


STATES = {"active": "deleted", "FINISHED": "FAILED", False: True}  # where the database takes no other values


def flipped(value: object, rng: random.Random) -> object:
    """Return another value that the database takes."""
    if value in STATES:
        return STATES[value]
    if isinstance(value, str) and value:
        place = rng.randrange(len(value))
        return value[:place] + ("b" if value[place] != "b" else "c") + value[place + 1 :]
    return value + rng.choice([1, 2]) if isinstance(value, (int, float)) else "something"


def rows_of(database, table: Rows) -> list[Row]:
    """Return the rows of ours, in an order that hangs on nothing but what they say."""
    found = database.execute(f"SELECT rowid AS place, * FROM {table.name} WHERE {table.where}").fetchall()
    return [dict(row) for row in found]


@pytest.fixture
def database(audited):
    with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


FLIPS = [(table, column) for table in TABLES for column in table.columns]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("table", "column"), FLIPS, ids=lambda one: getattr(one, "name", one))
def test_a_value_in_the_database(audited, database, table, column, seed):
    rng = random.Random(f"{table.name} {column} {seed}")
    row = rng.choice(rows_of(database, table))
    statement = f"UPDATE OR REPLACE {table.name} SET {column} = ? WHERE rowid = ?"
    database.execute(statement, (flipped(row[column], rng), row["place"]))
    database.commit()
    check(audited, table.subject(row))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_row_of_the_database_taken_away(audited, database, table, seed):
    row = random.Random(f"{table.name} {seed}").choice(rows_of(database, table))
    database.execute(f"DELETE FROM {table.name} WHERE rowid = ?", (row["place"],))
    database.commit()
    check(audited, table.subject(row))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("table", [table for table in TABLES if table.key], ids=lambda table: table.name)
def test_a_row_put_into_the_database(audited, database, table, seed):
    rng = random.Random(f"{table.name} {seed}")
    row = rng.choice(rows_of(database, table))
    del row["place"]
    row[table.key] = f"{row[table.key]}x" if isinstance(row[table.key], str) else row[table.key] + 1_000_000
    marks = ", ".join("?" for _ in row)
    database.execute(f"INSERT INTO {table.name} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    database.commit()
    check(audited, table.subject(row))


SWAPS = [
    (table, table.columns[0])
    for table in TABLES
    if table.name not in ("experiments", "datasets", "input_tags", "inputs")
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("table", "column"), SWAPS, ids=lambda one: getattr(one, "name", one))
def test_two_values_in_the_database_swapped(audited, database, table, column, seed):
    rows = rows_of(database, table)
    pairs = [(a, b) for a in rows for b in rows if a[column] != b[column]]
    a, b = random.Random(f"{table.name} {seed}").choice(pairs)
    statement = f"UPDATE OR REPLACE {table.name} SET {column} = ? WHERE rowid = ?"
    for place, value in ((a["place"], f"{b[column]} "), (b["place"], a[column]), (a["place"], b[column])):
        database.execute(statement, (value, place))
    database.commit()
    check(audited, table.subject(a), table.subject(b))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_of_the_database_emptied(audited, database, table):
    rows = rows_of(database, table)
    database.execute(f"DELETE FROM {table.name} WHERE {table.where}")
    database.commit()
    check(audited, *{table.subject(row) for row in rows})
