"""Predict: new rows scored by a kept model, a file larger than memory included.

The file is read some thousand rows at a time, and scored in blocks whose size depends on the model alone. So what is
written is the same to the last bit however much is read at once, also by a model whose products are summed in another
order for another number of rows, as those of BLAS are.

New rows have the columns of training, in any order. The target and what else training left out may be among them and
is not read. Every cell is told by itself: in a column of numbers a number, a truth value (1 or 0) or nothing; in a
column of texts a text or nothing; in one of categories any of these. What is missing is imputed. A text that training
had not goes with the rare ones of its column, if they have one in common (of as many values as ``max_categories``);
else it is none of those that the model knows. How many there are is told.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from pyarrow import parquet
from scipy import sparse

from aucsolvers.columns import as_numbers, as_texts, asked_for
from tasks import chunks, registry, store
from tasks.classes import name_list
from tasks.column_names import unique_names
from tasks.convert import canonical, category_points, feature_columns, no_features_of
from tasks.errors import BadInput, NotAsRecorded, RunFailed, nearest
from tasks.files import CHUNK, brief, open_plain, replacing, sha256_or_reason
from tasks.manifests import find_run, read_manifest
from tasks.models import KeptModel, load_ranker
from tasks.preprocess import known_texts
from tasks.readers import RawTable, unclear, unclear_numbers
from tasks.runs import PARENT
from tasks.values import ConversionRule, RawFile

BLOCK_CELLS = 1 << 22  # numbers that are scored at once: 32 MB of them
BLOCK_ROWS = 10_000  # at most
EXAMPLES = 3  # of texts that training had not
OUTPUTS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}
DIGESTS = {"model_sha256": "model_sha256", "manifest_sha256": "manifest_sha256", "training_sha256": "data_sha256"}

_VERSION = re.compile(r"[@/][^@/]*\Z")  # @ALIAS or /NUMBER
_RUN = re.compile(r"(?:runs:/)?([0-9a-f]{32})(?:/model)?")

Rows: TypeAlias = pd.DataFrame | sparse.csr_matrix


@dataclass(frozen=True)
class Source:
    """Where a model is kept, and what is told of it beside its scores."""

    name: str  # "fraud/3", or the run's id
    uri: str
    run_id: str
    tags: dict[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fit:
    """How a file's columns fit those of a model."""

    ignored: tuple[str, ...] = ()  # columns that are there and not read
    texts: frozenset[int] = frozenset()  # positions of those that are texts whatever they look like
    rule: ConversionRule = field(default_factory=ConversionRule)  # which columns may be of any type
    base: int = 0  # of svmlight: whether the model's features count from 0 or 1


@dataclass
class Texts:
    """What a column of texts has that training had not."""

    known: frozenset[str]
    shared: bool  # whether the rare texts of training have a column in common, which others go with
    cells: int = 0  # with a text
    unknown: int = 0  # of these
    examples: tuple[str, ...] = ()  # the first few that differ

    @property
    def is_foreign(self) -> bool:
        """Tell whether most of them are none of those that the model tells apart."""
        return self.unknown > self.cells / 2 and not self.shared

    def take_in(self, texts: pd.Series) -> None:
        """Count the texts of further rows."""
        given = texts.dropna().str.strip()
        given = given[given != ""]
        strange = given[~given.isin(self.known)]
        self.cells, self.unknown = self.cells + len(given), self.unknown + len(strange)
        self.examples = tuple(dict.fromkeys((*self.examples, *strange.unique()[:EXAMPLES])))[:EXAMPLES]


@dataclass(frozen=True)
class Scored:
    """What was written."""

    rows: int
    positive: int  # rows above the threshold
    ignored: tuple[str, ...]
    texts: dict[str, Texts] = field(default_factory=dict)  # by column


# The model --------------------------------------------------------------------------------------------------------


def find_model(client: MlflowClient, reference: str) -> Source:
    """Return the model that NAME@ALIAS or NAME/VERSION names, or the run that ``find_run`` takes the words for.

    ``models:/`` or ``runs:/`` may go before.
    """
    run = _RUN.fullmatch(reference)
    if run:
        return _of_run(client, run[1])
    wanted = reference.removeprefix("models:/")
    name = _VERSION.sub("", wanted)
    versions = registry.versions(client, name) if name else ()
    if not versions:
        return _of_named_run(client, reference, name)
    named = {f"{name}@{alias}": version for version in versions for alias in version.aliases}
    numbered = {f"{name}/{version.number}": version for version in versions}
    found = (named | numbered).get(wanted)
    if found is None:
        choices = [*sorted(named), *numbered]
        raise BadInput(f"Expected a version of '{name}', got '{reference}'. Choose one of {name_list(choices, False)}.")
    found = registry.as_registered(store.ledger(), found)
    moved = next((one for one in registry.moved_by_hand(client, store.ledger(), name) if one.subject == wanted), None)
    if moved is not None:
        raise NotAsRecorded(
            f"Expected {wanted} where the ledger left it, got another: {moved.message}. Name a version, such as "
            f"{name}/{found.number}, or `aucflow settle {name} --to ledger` first."
        )
    return Source(f"{name}/{found.number}", found.source, found.run_id, found.tags, found.aliases)


def _of_named_run(client: MlflowClient, reference: str, name: str) -> Source:
    """Return the model of the run that the first letters of its id name, or its own name, as tables have them."""
    try:
        run = find_run(client, reference)
    except BadInput as error:
        if "Expected the " in str(error):  # of several runs
            raise
        raise _no_model(client, reference, name) from None
    return _of_run(client, run.info.run_id)


def _no_model(client: MlflowClient, reference: str, name: str) -> BadInput:
    known = tuple(registry.models(client))
    listed = f"the registry has {name_list(known)}" if known else "the registry is empty"
    return BadInput(
        f"Expected a registered model, or the id or name of a run, got '{reference}': {listed}.{nearest(name, known)} "
        "Give --model NAME@ALIAS, NAME/VERSION or RUN."
    )


def _of_run(client: MlflowClient, run_id: str) -> Source:
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        raise BadInput(f"Expected the id of a run in the store, got '{run_id}': {error}. Correct the id.") from None
    models = run.outputs.model_outputs if run.outputs else []
    if not models:
        below = client.search_runs([run.info.experiment_id], f"tags.`{PARENT}` = '{run_id}'")
        listed = name_list([child.info.run_id for child in below], False)
        remedy = f"Name one of its children: {listed}" if below else "Name another"
        raise BadInput(f"Expected a run with a model, got '{run.info.run_name}', which has none. {remedy}.")
    location = client.get_logged_model(models[0].model_id).artifact_location
    return Source(run_id, location, run_id, run.data.tags)


def bring_model(client: MlflowClient, source: Source, trusted: tuple[str, ...] = ()) -> KeptModel:
    """Return the model of a source; one that is no longer what was registered is refused.

    Raises
    ------
    RunFailed
        If its files are gone, damaged or changed.
    BadInput
        If it holds types that are not trusted.
    """
    try:
        promised = source.tags.get(f"{registry.PREFIX}model_sha256")
        with store.artifact_folder(source.uri) as folder:
            if promised and registry.folder_sha256(folder) != promised:
                got = "others" if folder.is_dir() and any(folder.iterdir()) else "none"
                raise NotAsRecorded(
                    f"Expected the files of {source.name} as registered, got {got}. Run `aucflow audit verify`, which "
                    "tells them."
                )
            return load_ranker(folder, trusted)
    except (MlflowException, OSError) as error:
        raise RunFailed(
            f"Expected the files of {source.name} at {source.uri}, got: {str(error)[:200].rstrip('.')}. Run `aucflow "
            "audit verify`."
        ) from error


def digests(client: MlflowClient, source: Source) -> dict[str, str]:
    """Return the SHA-256 of a model's files, of its run's manifest and of its training data, as far as there are any.

    They are those that were registered; of a model that was not registered those of what is there now.
    """
    promised = {name: source.tags.get(registry.PREFIX + tag) for name, tag in DIGESTS.items()}
    if not any(promised.values()):
        promised = {"model_sha256": registry.artifact_sha256(source.uri), **_of_manifest(client, source)}
    return {name: digest for name, digest in promised.items() if digest}


def _of_manifest(client: MlflowClient, source: Source) -> dict[str, str | None]:
    try:
        manifest, digest = read_manifest(client, source.run_id)
    except (BadInput, MlflowException):  # its run is not over, was killed, or is nobody's
        return {}
    return {"manifest_sha256": digest, "training_sha256": manifest["data"].get("sha256")}


# Scores -----------------------------------------------------------------------------------------------------------


def predict(
    model: KeptModel,
    raw: RawFile,
    out: Path,
    facts: dict[str, str],
    rows: int = chunks.ROWS,
    drop: tuple[str, ...] = (),
    tell: Callable[[int], None] = lambda done: None,
) -> Scored:
    """Score the rows of a file and write ``out`` at the end; say after each block how many rows are done.

    ``out`` gets the number of each row from 1, its score, the label that the threshold gives it and, of a calibrated
    model, its probability of the positive label. As Parquet it also holds ``facts``.

    Raises
    ------
    BadInput
        If the rows do not fit the model.
    RunFailed
        If the file changed while it was read.
    """
    fit = fit_to(model, raw, drop)
    known = known_texts(model.ranker.scorer)
    texts = {name: Texts(*known[name]) for name in model.columns if name in known}
    done = positive = 0
    with replacing(out) as draft, _writer(draft, OUTPUTS[out.suffix], _schema(model, facts)) as write:
        for X in _blocks(read_rows(model, raw, fit, rows), _block_rows(model)):
            table = score(model, X, done)
            write(table)
            for name, of_column in texts.items():
                of_column.take_in(X[name])
            done += len(table)
            positive += int(np.sum(table["score"].to_numpy() > model.ranker.threshold))
            tell(done)
        if not done:
            raise _no_rows(raw)
        _check_unchanged(raw)
    return Scored(done, positive, fit.ignored, texts)


def _check_unchanged(raw: RawFile) -> None:
    """Raise RunFailed if a file that was read is another by now than the digest beside its scores says."""
    found = sha256_or_reason(raw.path)
    if found != raw.sha256:
        raise RunFailed(
            f"{raw.path.name}: expected the rows with SHA-256 {brief(raw.sha256)} to the end, got {brief(found)}: the "
            "file changed while it was read. No scores were written: run again when nobody writes to it."
        )


def score(model: KeptModel, X: Rows, before: int = 0) -> pa.Table:
    """Return one line of output for each row; ``before`` rows have gone before."""
    scores = _finite_scores(model, X, before)
    columns: dict[str, Any] = {
        "row": np.arange(before + 1, before + 1 + len(scores)),
        "score": scores,
        "predicted": model.ranker.cut(scores).astype(object),
    }
    if model.ranker.calibrator is not None:
        columns["probability"] = model.ranker.calibrate(scores)[:, 1]
    return pa.table(columns)


def _finite_scores(model: KeptModel, X: Rows, before: int) -> np.ndarray:
    what = "Expected numbers of the size that training had, got some that overflow in data row"
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.asarray(model.ranker.predict(X), dtype=np.float64)
    except ValueError as error:  # the rows have the right types: what is left is a number that scaling makes infinite
        raise BadInput(f"{what}s {before + 1} to {before + X.shape[0]} ({error}). Mend them.") from None
    if not np.isfinite(scores).all():
        raise BadInput(f"{what} {before + 1 + int(np.argmin(np.isfinite(scores)))}. Mend it.")
    return scores


def _block_rows(model: KeptModel) -> int:
    return max(1, min(BLOCK_ROWS, BLOCK_CELLS // model.n_features)) if model.columns else BLOCK_ROWS


def _blocks(parts: Iterable[Rows], size: int) -> Iterator[Rows]:
    """Yield the same rows in blocks of ``size``, the last one as it comes."""
    kept: list[Rows] = []
    n = 0
    for part in parts:
        start = 0
        while n + part.shape[0] - start >= size:
            stop = start + size - n
            yield _joined([*kept, part[start:stop]])
            kept, n, start = [], 0, stop
        if start < part.shape[0]:
            kept.append(part[start:])
            n += part.shape[0] - start
    if kept:
        yield _joined(kept)


def _joined(parts: list[Rows]) -> Rows:
    if isinstance(parts[0], pd.DataFrame):
        return pd.concat(parts, ignore_index=True)
    return sparse.vstack(parts, format="csr")


# Columns ----------------------------------------------------------------------------------------------------------


def fit_to(model: KeptModel, raw: RawFile, drop: tuple[str, ...] = ()) -> Fit:
    """Return how a file's columns fit a model's; all that is wrong with them is one BadInput."""
    rule = ConversionRule(drop=(*drop, *model.layout.left_out))
    first = next(chunks.pieces(raw, rule, 1, frozenset()), None)
    if first is None:
        raise _no_rows(raw)
    if isinstance(first.X, pd.DataFrame) != bool(model.columns):
        wanted, got = ("a table", "svmlight data") if model.columns else ("svmlight data", "a table")
        raise BadInput(f"{raw.path.name}: expected {wanted}, as in training, got {got}. Write it as the training data.")
    if not model.columns:
        return _fit_sparse(model, raw, drop)
    plain = [str(name).strip() for name in first.X.columns]
    names = unique_names(plain)
    _refuse_drop(model, raw, drop, (*plain, *names))
    ignorable = {model.layout.target, *model.layout.left_out, *no_features_of(first), *drop}
    problems = _problems(model, plain, names, ignorable)
    if problems:
        raise _misfit(model, raw, names, problems, first.named)
    texts = frozenset(i for i, name in enumerate(names) if model.columns.get(name) in ("text", "category"))
    return Fit(tuple(name for name in names if name not in model.columns), texts, rule)


def _fit_sparse(model: KeptModel, raw: RawFile, drop: tuple[str, ...]) -> Fit:
    if drop:
        raise BadInput(f"{raw.path.name}: expected no --drop, for svmlight has no columns' names. Leave it out.")
    base = model.layout.index_base
    if base is None:
        raise BadInput(
            f"{raw.path.name}: expected a model that tells whether features count from 0 or 1, got one of an older "
            "aucflow. Train it again."
        )
    return Fit(base=base)


def _misfit(model: KeptModel, raw: RawFile, names: list[str], problems: list[str], named: bool) -> BadInput:
    if raw.format == "csv" and not named:
        return BadInput(
            f"{raw.path.name}: expected a header that names {name_list(tuple(model.columns))}, found none. "
            "Put the columns' names in the first line."
        )
    divided = " Are columns divided by tab, semicolon, bar, comma or blanks?" if len(names) == 1 else ""
    return BadInput(
        f"{raw.path.name}: expected the columns of training, got others: {'; '.join(problems)}.{divided} "
        "Rename, add or remove columns, or name those to leave out with --drop."
    )


def _problems(model: KeptModel, plain: list[str], names: list[str], ignorable: set[str | None]) -> list[str]:
    """Return, in words, which columns are missing, unknown or there twice."""
    strange = [(p, name) for p, name in zip(plain, names, strict=True) if name not in model.columns]
    strange = [(p, name) for p, name in strange if name not in ignorable and p not in ignorable]
    twice = {p: Counter(plain)[p] for p, name in strange if p != name and p in model.columns}
    unknown = [name for p, name in strange if p not in twice]
    missing = [name for name in model.columns if name not in names]
    problems = [f"'{name}' is there {count} times" for name, count in twice.items()]
    if missing:
        hints = {name: nearest(name, unknown).replace(" Did you mean", " is it").rstrip("?") for name in missing}
        shown = [f"'{name}'{f' ({hint.strip()}?)' if hint else ''}" for name, hint in hints.items()]
        problems.append(f"missing: {name_list(shown, False)}")
    if unknown:
        problems.append(f"unknown: {name_list(unknown)}")
    return problems


def _refuse_drop(model: KeptModel, raw: RawFile, drop: tuple[str, ...], names: tuple[str, ...]) -> None:
    for name in drop:
        if name in model.columns:
            raise BadInput(f"Expected to drop columns that the model does not need, got '{name}'. Keep that column.")
        if name not in names:
            raise BadInput(
                f"{raw.path.name}: expected to drop a column that is there, got '{name}'.{nearest(name, names)} "
                "Correct the name."
            )


def _no_rows(raw: RawFile) -> BadInput:
    return BadInput(f"{raw.path.name}: expected rows to score, got none. Give a file with rows.")


# Rows -------------------------------------------------------------------------------------------------------------


def read_rows(model: KeptModel, raw: RawFile, fit: Fit, rows: int = chunks.ROWS) -> Iterator[Rows]:
    """Yield the rows in order as the model takes them, at most so many at a time; what its dots mean all rows tell."""
    marks: dict[int, frozenset[str]] = defaultdict(frozenset)
    names: list[str] = []
    for piece in chunks.pieces(raw, fit.rule, rows, fit.texts):
        for place, found in piece.marks.items():
            marks[place] |= found
        names = names or (unique_names([str(name) for name in piece.X.columns]) if piece.marks else [])
        yield _frame(model, piece, raw.path.name) if model.columns else _matrix(model, fit.base, piece, raw.path.name)
    if odd := [names[place] for place in sorted(unclear(marks)) if model.columns.get(names[place]) == "number"]:
        raise unclear_numbers(odd[0], raw.path.name)


def _frame(model: KeptModel, piece: RawTable, file: str) -> pd.DataFrame:
    names = unique_names([str(name) for name in piece.X.columns])
    categories = [name for name, kind in model.columns.items() if kind == "category"]
    points = category_points(piece, categories)
    columns = feature_columns(piece.X.set_axis(names, axis=1)[list(model.columns)], piece.place, file, points)
    strange: list[tuple[int, str]] = []
    for name, kind in model.columns.items():
        columns[name], wrong = as_numbers(columns[name]) if kind == "number" else as_texts(columns[name])
        if wrong is not None:
            strange.append((wrong, name))
    if strange:
        row, name = min(strange, key=lambda found: found[0])
        value = piece.X.iloc[row, names.index(name)]
        raise BadInput(f"{file}, {piece.place(row)}: expected {asked_for(model.columns[name], name, value)}")
    return pd.DataFrame(columns)


def _matrix(model: KeptModel, base: int, piece: RawTable, file: str) -> sparse.csr_matrix:
    X = piece.X
    outside = np.flatnonzero((X.indices < base) | (X.indices >= base + model.n_features))
    if len(outside):
        row = int(np.searchsorted(X.indptr, outside[0], "right")) - 1
        raise BadInput(
            f"{file}, {piece.place(row)}: expected indices from {base} to {base + model.n_features - 1}, as in "
            f"training, got {X.indices[outside[0]]}. Number the features as in training, and leave others out."
        )
    shape = (X.shape[0], model.n_features)
    return canonical(sparse.csr_matrix((X.data, X.indices - np.int32(base), X.indptr), shape=shape))


def expected_rows(raw: RawFile) -> int | None:
    """Return about how many rows a file has, for a progress bar; None if only reading it tells."""
    if raw.format == "parquet":
        try:
            return parquet.read_metadata(raw.path).num_rows
        except (OSError, pa.ArrowException):  # reading will say what is wrong with it
            return None
    if raw.format not in ("csv", "svmlight"):
        return None
    with open_plain(raw.path) as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(CHUNK), b"")) or None


# The file of scores -----------------------------------------------------------------------------------------------


def check_out(out: Path, data: str, force: bool) -> None:
    """Refuse an output file that could not be written in the end, or would take another's place."""
    if out.suffix not in OUTPUTS:
        raise BadInput(f"Expected --out FILE.parquet or FILE.csv, got '{out}'. Change its ending.")
    if not out.parent.is_dir():
        raise BadInput(f"Expected --out in a folder that exists, got '{out}'. Make {out.parent} first.")
    if out.is_dir() or (out.exists() and Path(data).exists() and out.samefile(data)):
        raise BadInput(f"Expected --out to be a file of its own, got '{out}'. Choose another name.")
    if out.exists() and not force:
        raise BadInput(f"Expected a new file for --out, got '{out}', which exists. Choose another name or add --force.")
    if not os.access(out.parent, os.W_OK):
        raise BadInput(f"Expected --out in a folder that may be written to, got '{out}'. Choose another.")


def _schema(model: KeptModel, facts: dict[str, str]) -> pa.Schema:
    fields = [("row", pa.int64()), ("score", pa.float64()), ("predicted", pa.string())]
    if model.ranker.calibrator is not None:
        fields.append(("probability", pa.float64()))
    return pa.schema(fields, metadata={f"aucflow.{name}": value for name, value in facts.items()})


@contextmanager
def _writer(path: Path, format: str, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Open a file; yield what appends a table to it."""
    if format == "parquet":
        with parquet.ParquetWriter(path, schema) as file:
            yield lambda table: file.write_table(table.cast(schema))
        return
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(",".join(schema.names) + "\n")
        # every number in the fewest digits that bring it back to the last bit
        yield lambda table: table.to_pandas().to_csv(stream, index=False, header=False)
