"""Convert: from a raw file to two classes and features, with a digest of the arrays and the story of how.

Labels become +1 (the positive class) and -1. Features keep their columns: numbers, truth values and dates as float64
(dates as seconds since 1970-01-01 UTC), everything else as text, missing cells as NaN and None. Encoding and
imputing come later, inside each fold. Columns without a single value are dropped, and the provenance says so.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import csr_matrix

from aucsolvers.cells import MISSING, PLAIN, as_categories, cell_text, plain_whole
from aucsolvers.columns import NUMBER, plain_column
from tasks.classes import Classes, name_list, two_classes
from tasks.column_names import renamed_columns, unique_names
from tasks.dates import gap_of, read_times
from tasks.errors import BadInput, RunFailed, nearest
from tasks.files import brief, sha256_or_reason
from tasks.moments import in_words
from tasks.readers import RawTable, read, unclear, unclear_numbers
from tasks.stage import stage
from tasks.values import ConversionRule, Dataset, Layout, Provenance, RawFile, Table

TELLS = {"group": "which rows stay together", "time": "which rows are later"}
TITLE = 20  # rows, at most, that a report may have above its table
SMALLEST = 1e-150  # of a column's largest number: the square of a smaller one is 0, or about to be
LARGEST = 1e150  # squares of larger numbers, summed over rows, are infinite


@dataclass(frozen=True)
class _Converted:
    table: Table
    classes: Classes
    dropped: tuple[str, ...]  # for want of values
    set_aside: tuple[str, ...]  # by the file's own header
    renamed: dict[str, str]
    layout: Layout
    sha256: str
    X_sha256: str
    y_sha256: str


@stage(name="convert", task_run_name="convert {raw.name}")
def convert(raw: RawFile, rule: ConversionRule) -> Dataset:
    """Return the data set that this rule makes of a raw file; `load` brings its arrays."""
    converted = _read_and_convert(raw, rule)
    pa.default_memory_pool().release_unused()  # what reading took: of Parquet, as much again as the arrays
    X = converted.table.X
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame()
    missing = {name: int(count) for name, count in frame.isna().sum().items() if count}
    return Dataset(
        name=raw.name,
        raw=raw,
        rule=rule,
        sha256=converted.sha256,
        X_sha256=converted.X_sha256,
        y_sha256=converted.y_sha256,
        n_rows=X.shape[0],
        n_features=X.shape[1],
        n_pos=int((converted.table.y > 0).sum()),
        n_neg=int((converted.table.y < 0).sum()),
        is_sparse=not isinstance(X, pd.DataFrame),
        text_columns=tuple(name for name in frame if frame[name].dtype == object),
        missing_cells=missing,
        columns=tuple(frame),
        renamed=_shared_names(frame, converted.renamed),
        empty_columns=converted.dropped,
        provenance=_provenance(raw, rule, converted),
        layout=converted.layout,
    )


def _shared_names(frame: pd.DataFrame, renamed: dict[str, str]) -> dict[str, str]:
    """Return, of the columns that were renamed, those whose name in the file is another's too."""
    given = {name: renamed.get(name, name) for name in frame}
    shared = Counter(given.values())
    return {name: given[name] for name in frame if name in renamed and shared[given[name]] > 1}


def _provenance(raw: RawFile, rule: ConversionRule, converted: _Converted) -> Provenance:
    classes, words = converted.classes, converted.classes.rule
    if rule.group is not None:
        words += f"; rows of one '{rule.group}' stay together"
    if rule.time is not None:
        words += f"; divided by '{rule.time}', tested on later rows"
        words += "" if rule.gap is None else f", later by {in_words(rule.gap)} or more"
    if converted.table.categories:
        words += f"; taken as categories: {name_list(converted.table.categories)}"
    if converted.set_aside:
        words += f"; no inputs by the file's header: {name_list(converted.set_aside)}"
    if converted.dropped:
        words += f"; dropped for want of values: {name_list(converted.dropped)}"
    return Provenance(
        source=raw.source,
        format=raw.format,
        raw_sha256=raw.sha256,
        raw_size_bytes=raw.size_bytes,
        rule=words,
        label_counts=classes.counts,
        positive_label=classes.positive,
        negative_label=classes.negative,
        label_sides=classes.sides,
        rows_left_out=int((classes.y == 0).sum()),
    )


def load(dataset: Dataset) -> Table:
    """Return a data set's arrays, read again unless this process has just read them; they are not to be written to.

    Raises
    ------
    RunFailed
        If the raw file is no longer the one that was converted.
    """
    try:
        converted = _read_and_convert(dataset.raw, dataset.rule)
    except BadInput as error:  # it could be read before
        raise RunFailed(f"{dataset.name}: the data changed or went during the run. {error}") from None
    if converted.sha256 != dataset.sha256:
        raise RunFailed(
            f"{dataset.name}: expected arrays with SHA-256 {brief(dataset.sha256)}, got {brief(converted.sha256)}. "
            "Start the run again: another version of the reader made this data set."
        )
    return converted.table


@lru_cache(maxsize=4)
def _read_and_convert(raw: RawFile, rule: ConversionRule) -> _Converted:
    """Return arrays and classes; the last few are kept, for every stage of every method asks for the same ones."""
    _refuse_changed(raw)
    raw_table = read(raw, rule.delimiter, rule.drop, (*rule.roles.values(), *rule.categories))
    if raw_table.X.shape[0] == 0:
        raise BadInput(f"{raw.path.name}: expected rows of data, got none. Give a file with rows.")
    if isinstance(raw_table.X, pd.DataFrame):
        features, labels, name = take_target(raw_table, rule, raw.path.name)
        classes = two_classes(labels, name, rule, raw_table.place)
        points = category_points(raw_table, rule.categories)
        X, dropped = _features(features, raw_table.place, raw.path.name, classes.y != 0, points)
        groups, times = _divided(raw_table, rule, raw.path.name, classes.y != 0)
        renamed = renamed_columns([str(name) for name in raw_table.X.columns])
        set_aside = tuple(c for c in no_features_of(raw_table) if c not in {name, *no_features(rule)})
        layout = Layout(name, (*no_features(rule), *set_aside, *dropped))
    else:
        groups, times = None, None
        classes = _sparse_classes(raw_table, rule, raw.path.name)
        X, dropped, set_aside, renamed = canonical(raw_table.X), (), (), {}
        _refuse_unscalable_features(X, raw_table.index_base or 0, raw.path.name)
        layout = Layout(index_base=raw_table.index_base)
    kept = classes.y != 0
    y = classes.y if kept.all() else classes.y[kept]
    if len(y) < len(classes.y):
        X = X.loc[kept].reset_index(drop=True) if isinstance(X, pd.DataFrame) else X[kept]
        groups, times = (None if of_rows is None else of_rows[kept] for of_rows in (groups, times))
    if not isinstance(X, pd.DataFrame) and X.nnz == 0:
        raise only_zeros(raw.path.name)
    y.flags.writeable = False
    gap = 0 if times is None else gap_of(rule, times, raw.path.name)
    categories = tuple(name for name in rule.categories if isinstance(X, pd.DataFrame) and name in X)
    table = Table(X, y, groups, times, gap, categories)
    return _Converted(table, classes, dropped, set_aside, renamed, layout, *table_digests(table))


def _refuse_changed(raw: RawFile) -> None:
    for file in raw.files:
        found = sha256_or_reason(file.path)
        if found != file.sha256:
            raise RunFailed(
                f"{raw.name}: expected {file.path} with SHA-256 {brief(file.sha256)}, got {brief(found)}. "
                "The file changed during the run: start the run again."
            )


def refuse_roles(dataset: Dataset) -> None:
    """Refuse a new run's columns to drop, categories, group or time that are none; one on record stays as it was."""
    file, drop, target = dataset.raw.path.name, dataset.rule.drop, dataset.layout.target
    for role, name in dataset.rule.roles.items():
        if dataset.is_sparse:
            raise _no_role(role, name, "svmlight has no columns' names", file)
    if drop and dataset.is_sparse:
        raise BadInput(
            f"{file}: expected no columns to drop, got '{drop[0]}': svmlight has no columns' names. Take the feature "
            "out of the file."
        )
    lost = [name for name in dataset.rule.categories if name not in (*dataset.columns, *dataset.empty_columns)]
    if lost and not dataset.is_sparse:
        raise BadInput(f"{file}: expected features as categories, got '{lost[0]}', which is left out. Leave it out.")
    if dataset.is_sparse and dataset.rule.categories:
        raise BadInput(
            f"{file}: expected no categories, got '{dataset.rule.categories[0]}': svmlight has no columns' names. Give "
            "each category a feature of its own."
        )
    if target in drop:
        raise BadInput(
            f"{file}: expected to drop columns other than the target, got '{target}'. Leave it in, or choose another "
            "target with --target (target, in a config)."
        )


# The target -------------------------------------------------------------------------------------------------------


def take_target(table: RawTable, rule: ConversionRule, file: str) -> tuple[pd.DataFrame, pd.Series, str]:
    """Return the feature columns under unique names, the labels, and the target's name."""
    position = _target_position(table, rule.target, file)
    names = unique_names([str(name) for name in table.X.columns])
    X = table.X.set_axis(names, axis=1)
    _refuse_unknown(rule.drop, names, f"{file}: expected to drop columns")
    _refuse_unknown(rule.categories, names, f"{file}: expected categories")
    if names[position] in rule.categories:
        raise BadInput(f"{file}: expected features as categories, got '{names[position]}', the target. Leave it out.")
    for role, wanted in rule.roles.items():
        others = names[:position] + names[position + 1 :]
        _refuse_unknown((wanted,), names if wanted in names else others, f"{file}: expected a {role}")
        if wanted == names[position]:
            raise _no_role(role, wanted, "that is the target", file)
        same = [str(name).strip() for name in table.X.columns].count(wanted)
        if same > 1:
            raise BadInput(f"{file}: expected one column '{wanted}' as {role}, got {same}. Rename one of them.")
    left_out = {names[position], *no_features(rule), *no_features_of(table)}
    return X.drop(columns=[name for name in names if name in left_out]), X[names[position]], names[position]


def _no_role(role: str, name: str, why: str, file: str) -> BadInput:
    return BadInput(
        f"{file}: expected a column beside target and features that tells {TELLS[role]}, got {role} '{name}': {why}. "
        f"Leave it out, or name another with --{role} ({role}, in a config)."
    )


def _refuse_unknown(wanted: tuple[str, ...], names: list[str], expected: str) -> None:
    for name in wanted:
        if name not in names:
            hint = nearest(name, names)
            raise BadInput(f"{expected} out of {name_list(names)}, got '{name}'.{hint} Correct the name.")


def no_features_of(table: RawTable) -> tuple[str, ...]:
    """Return the columns that the file itself says are no features, by the names that they get."""
    names = unique_names([str(name) for name in table.X.columns])
    return (*table.no_features, *names[len(names) - table.n_index :])


def no_features(rule: ConversionRule) -> tuple[str, ...]:
    """Return the columns that a rule takes out of the features: those to drop, its group and its time."""
    return (*rule.drop, *rule.roles.values())


def _target_position(table: RawTable, wanted: str | None, file: str) -> int:
    """Return which column is the target: by name, by number (from 1, or -1 for the last), or the format's own."""
    names = [str(name).strip() for name in table.X.columns]
    unnamed = "" if table.named else " (the file has no header)"
    listed = f"the columns of {file} are {name_list(names)}{unnamed}"
    wanted = wanted if wanted is not None else table.target
    if wanted is None:
        raise BadInput(f"Expected a target column, got none: {listed}. Name it with --target (target, in a config).")
    matches = [i for i, name in enumerate(names) if name == wanted.strip()]
    if len(matches) > 1:
        raise BadInput(f"Expected one column '{wanted}' as target, got {len(matches)}: {listed}. Rename one of them.")
    number, counted = int(wanted) if re.fullmatch(r"-?[0-9]{1,9}", wanted) else 0, len(names) - table.n_index
    if not matches and number and -counted <= number <= counted:
        matches = [number - 1 if number > 0 else counted + number]
    if not matches:
        hint = nearest(wanted, names) or _where_it_is(table, wanted.strip())
        raise BadInput(
            f"Expected a target column, got '{wanted}': {listed}.{hint} Name it with --target (target, in a config)."
        )
    return matches[0]


def _where_it_is(table: RawTable, name: str) -> str:
    """Return where a column's name stands among others, below a title that is as wide as the table."""
    if table.lines is None:
        return ""
    for row in range(min(TITLE, len(table.X))):
        cells = [str(cell).strip() for cell in table.X.iloc[row]]
        if name in cells and len({*cells}) == len(cells) and not any(map(NUMBER.fullmatch, cells)):
            return f" It stands in {table.place(row)}: if the columns' names do, remove the lines above."
    return ""


def refuse_target(rule: ConversionRule, file: str) -> None:
    """Refuse a target for an svmlight file, which has its labels in front of each line and no column names."""
    if rule.target not in (None, "label"):
        raise BadInput(
            f"Expected no target for {file}, got '{rule.target}': an svmlight file has its label first in each line. "
            "Leave it out."
        )


def _divided(
    table: RawTable, rule: ConversionRule, file: str, kept: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the groups and times of all rows, where the rule names their columns."""
    groups = None if rule.group is None else _groups(rule.group, table, file, kept)
    if rule.time is None:
        return groups, None
    if _position(table, rule.time) in unclear(table.marks):
        raise unclear_numbers(rule.time, file)
    column, commas = _named_column(table, rule.time), bool(table.marks)
    return groups, read_times(column, kept, rule.time, file, table.place, commas)


def _groups(group: str, table: RawTable, file: str, kept: np.ndarray) -> np.ndarray:
    """Return a uint64 for each row, equal where the group's column has one value.

    It hangs on that value alone, and not on what else is in the column: 17, 17.0, 017 and a text of these are one, in
    files of all formats. So a later version of the file has the same numbers for it.
    """
    codes, values = pd.factorize(_named_column(table, group))
    points = "." if not table.marks else "," if _position(table, group) in unclear(table.marks) else ".,"
    texts = [plain_whole(cell_text(value), points) for value in values]
    missing = np.array([text is None or text in MISSING for text in texts] + [True])[codes] & kept
    if missing.any():
        raise BadInput(
            f"{file}, {table.place(int(np.argmax(missing)))}: expected a value of the group '{group}', got none "
            f"({int(missing.sum()):,} in all): nothing tells with which rows it stays. Fill them in, or leave these "
            "rows out of the file."
        )
    return pd.util.hash_array(np.array([*map(str, texts), ""], dtype=object), categorize=False)[codes]


def _named_column(table: RawTable, name: str) -> pd.Series:
    return table.X.iloc[:, _position(table, name)]


def _position(table: RawTable, name: str) -> int:
    return unique_names([str(name) for name in table.X.columns]).index(name)


def _sparse_classes(table: RawTable, rule: ConversionRule, file: str) -> Classes:
    refuse_target(rule, file)
    if (table.labels == table.labels[0]).all():
        raise BadInput(
            f"Expected two classes among the labels of {file}, got one ({cell_text(table.labels[0])}). "
            "Give a file that has both."
        )
    return two_classes(pd.Series(table.labels), "label", rule, table.place)


# Features ---------------------------------------------------------------------------------------------------------


def _features(
    frame: pd.DataFrame, place: Callable[[int], str], file: str, kept: np.ndarray, categories: Mapping[str, str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the columns as float64 or texts, and the names of those empty in the rows kept, which are left out."""
    if frame.shape[1] == 0:
        raise BadInput(f"{file}: expected at least one column besides the target, got none. Check the delimiter.")
    columns = feature_columns(frame, place, file, categories)
    dropped = tuple(name for name, values in columns.items() if pd.isna(values[kept]).all())
    if len(dropped) == len(columns):
        raise only_empty(file)
    for name in dropped:
        del columns[name]
    _refuse_unscalable(columns, file)
    return pd.DataFrame(columns), dropped


def _refuse_unscalable(columns: dict[str, np.ndarray], file: str) -> None:
    """Refuse a column of numbers that no scaling can do with."""
    for name, values in columns.items():
        largest = 0.0 if values.dtype == object else float(max(np.nanmax(values), -np.nanmin(values)))
        if are_unscalable(largest):
            raise unscalable_numbers(f"column '{name}'", largest, file)


def _refuse_unscalable_features(X: csr_matrix, base: int, file: str) -> None:
    """Refuse a feature of sparse rows of such numbers."""
    sizes = np.abs(X.data)
    if sizes.min(initial=SMALLEST) < SMALLEST or sizes.max(initial=0.0) > LARGEST:
        largest = np.zeros(X.shape[1])
        np.maximum.at(largest, X.indices, sizes)
        for i in np.flatnonzero(are_unscalable(largest))[:1]:
            raise unscalable_numbers(feature_name(i, base), largest[i], file)


def are_unscalable(largest: Any) -> Any:
    """Tell of a column's largest magnitude whether the square of all its numbers is 0, or of some is infinite."""
    return ((largest > 0.0) & (largest < SMALLEST)) | (largest > LARGEST)


def unscalable_numbers(column: str, largest: float, file: str) -> BadInput:
    """Return the error for a column of numbers too small or too large to be scaled."""
    expected = f"{file}: expected numbers that can be scaled in {column}, got"
    if largest > LARGEST:
        return BadInput(
            f"{expected} {largest:.3g}, whose square is infinite. Divide them, or leave out what stands for a missing "
            "value."
        )
    return BadInput(
        f"{expected} none beyond {largest:.3g}, whose square is 0. Multiply them, or leave the column out"
        + (" with --drop (drop, in a config)." if column.startswith("column") else " of the file.")
    )


def feature_name(position: int, base: int) -> str:
    """Return a sparse feature's name by its index in the file, which counts from ``base``."""
    return f"feature {base + position}"


def only_empty(file: str) -> BadInput:
    """Return the error for a file without a single value besides its labels."""
    return BadInput(f"{file}: expected values besides the target, got only empty columns. Check the file.")


def category_points(table: RawTable, categories: Iterable[str]) -> dict[str, str]:
    """Return the columns of categories with the marks behind which a whole number may have zeros: 17.0, or 17,0."""
    return dict.fromkeys(categories, ".," if table.marks else ".")


def feature_columns(
    frame: pd.DataFrame, place: Callable[[int], str], file: str, categories: Mapping[str, str] | None = None
) -> dict[str, np.ndarray]:
    """Return the columns by name as float64 or texts, as which categories are taken; an infinite number is refused.

    ``categories`` are those of `category_points`.
    """
    named = categories or {}
    columns = {
        name: _category(frame[name], file, named[name]) if name in named else _feature(frame[name], file)
        for name in frame
    }
    for name, values in columns.items():
        if values.dtype != object and np.isinf(values).any():
            row = int(np.argmax(np.isinf(values)))
            raise BadInput(
                f"{file}, {place(row)}: expected finite numbers in column '{name}', got {values[row]} "
                f"({int(np.isinf(values).sum())} in all). Replace them, or leave the cells empty if they are missing; "
                "numbers beyond 1.8e308, as 1e400, are read as infinite."
            )
    return columns


def _category(column: pd.Series, file: str, points: str) -> np.ndarray:
    """Return a column as texts that name categories, with None where one is missing."""
    texts = as_categories(column, points)
    _refuse_strange((text for text in texts if text is not None and not isinstance(text, str)), file, column.name)
    return texts


def _feature(column: pd.Series, file: str) -> np.ndarray:
    """Return a column as float64, or as texts with None where one is missing."""
    values = plain_column(column)
    return values if values.dtype != object else _object_feature(pd.Series(values, name=column.name), file)


def _object_feature(column: pd.Series, file: str) -> np.ndarray:
    """Return a column of Python objects: numbers if all of them are numbers or truth values, otherwise texts."""
    codes, values = pd.factorize(column)
    if len(values) and all(isinstance(v, (Number, np.bool_)) for v in values):
        return np.array([*map(float, values), np.nan])[codes] + 0.0
    _refuse_strange(values, file, column.name)
    texts = np.empty(len(values) + 1, dtype=object)
    texts[:-1] = [None if (text := str(v).strip()) in MISSING else text for v in values]
    return texts[codes]


def _refuse_strange(values: Iterable[Any], file: str, name: Any) -> None:
    strange = next((v for v in values if not isinstance(v, PLAIN)), None)
    if strange is not None:
        raise BadInput(
            f"{file}: expected numbers, texts or dates in column '{name}', got a {type(strange).__name__}. "
            "Drop the column or convert it."
        )


def canonical(X: csr_matrix) -> csr_matrix:
    """Return a sparse matrix in its one form: ascending indices, no zero stored."""
    X = csr_matrix(X, dtype=np.float64, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def only_zeros(file: str) -> BadInput:
    """Return the error for a sparse file of nothing but labels."""
    return BadInput(f"{file}: expected features other than zero, got none. Expected lines 'label index:value …'.")


# Digest -----------------------------------------------------------------------------------------------------------


def table_sha256(table: Table) -> str:
    """Return the SHA-256 of a table: the first of `table_digests`."""
    return table_digests(table)[0]


def table_digests(table: Table) -> tuple[str, str, str]:
    """Return the SHA-256 over names, types, shapes and values of a table's arrays; that of X alone, and of y alone.

    Groups and times are part of the first, where there are any.

    The bytes that are hashed depend on the content alone: sizes as little-endian 64-bit integers, numbers as
    little-endian doubles with one NaN, texts as UTF-8 behind their lengths (-1: missing). Not on memory layout,
    platform, or the version of any library.
    """
    digest = hashlib.sha256(b"aucflow table 1\n")
    _hash_features(digest, table.X)
    features = digest.hexdigest()
    _update(digest, "<i1", table.y)
    if table.groups is not None:
        digest.update(b"groups")
        _update(digest, "<u8", table.groups)
    if table.times is not None:
        digest.update(b"times")
        _update(digest, "<f8" if table.times.dtype.kind == "f" else "<i8", table.times)
    labels = hashlib.sha256(b"aucflow labels 1\n")
    _update(labels, "<i1", table.y)
    return digest.hexdigest(), features, labels.hexdigest()


def _hash_features(digest: Any, X: pd.DataFrame | csr_matrix) -> None:
    _update(digest, "<i8", X.shape)
    if isinstance(X, pd.DataFrame):
        for name in X:
            _hash_texts(digest, [str(name)])
            if X[name].dtype == object:
                digest.update(b"text")
                _hash_texts(digest, X[name].tolist())
            else:
                digest.update(b"number")
                values = X[name].to_numpy(np.float64)
                _update(digest, "<f8", np.where(np.isnan(values), np.nan, values))
    else:
        digest.update(b"sparse")
        for kind, values in (("<i8", X.indptr), ("<i8", X.indices), ("<f8", X.data)):
            _update(digest, kind, values)


def _hash_texts(digest: Any, texts: list[str | None]) -> None:
    encoded = [None if text is None else text.encode("utf-8", "surrogatepass") for text in texts]
    _update(digest, "<i8", [-1 if text is None else len(text) for text in encoded])
    digest.update(b"".join(text for text in encoded if text is not None))


def _update(digest: Any, kind: str, values: Any) -> None:
    digest.update(np.ascontiguousarray(values, dtype=kind).tobytes())
