"""Frames: a DataFrame becomes a file, so that a run can be traced to its data."""

import hashlib
import os
import re
from pathlib import Path
from uuid import uuid4

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from tasks.errors import BadInput
from tasks.fetch import home


def keep(frame: pd.DataFrame, name: str, drop: tuple[str, ...] = (), of_index: tuple[str, ...] = ()) -> Path:
    """Write a DataFrame as Parquet, the digest of its contents in the file's name; return where.

    Columns in ``drop`` are there and empty: they may hold anything. Of the index only levels ``of_index`` are kept.
    """
    if frame.columns.nlevels > 1:
        raise BadInput(
            f"Expected one name for each column, got {frame.columns.nlevels} levels of names. Join them: "
            "frame.columns = ['_'.join(map(str, names)) for names in frame.columns]."
        )
    folder = home() / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"draft-{uuid4().hex}"  # a name of this call's own: other threads may have frames of theirs
    try:
        useful = {name for name in of_index if name not in map(str, frame.columns)}
        dropped = [i for i, level in enumerate(frame.index.names) if level is None or str(level) not in useful]
        is_kept = len(dropped) < frame.index.nlevels
        plain = (frame.reset_index(dropped, drop=True) if dropped or not is_kept else frame).rename(columns=str)
        plain = plain.assign(**{column: None for column in plain if column.strip() in drop})
        parquet.write_table(pa.Table.from_pandas(plain, preserve_index=is_kept), draft)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        draft.unlink(missing_ok=True)
        raise BadInput(f"Expected columns of numbers, texts or dates, each name once, got: {error}. Mend it.") from None
    stem = re.sub(r"[^\w.-]", "_", name)
    target = folder / f"{stem}-{hashlib.sha256(draft.read_bytes()).hexdigest()[:12]}.parquet"
    os.replace(draft, target)
    return target
