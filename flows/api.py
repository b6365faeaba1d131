"""From Python: an experiment on a DataFrame or a file, with the checks, store and report of the command line."""

import hashlib
import os
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from tasks.errors import BadInput
from tasks.fetch import home
from tasks.values import ExperimentResult


def run(data: pd.DataFrame | str | Path, target: str | None = None, **options: Any) -> ExperimentResult:
    """Run methods on a table and return what `aucflow run` shows; ``mlruns/`` is made in the current folder.

    Parameters
    ----------
    data : DataFrame or path
        Rows with the target among the columns; a DataFrame's index is no feature. A DataFrame is kept as Parquet in
        ``AUCFLOW_HOME/frames``, under the digest of its contents, so that the run can be traced to it.
    target : str
        The column that holds the class.
    **options
        ``positive``, ``methods`` (as in "auto+linear_svm"), ``folds``, ``seed``, ``workers``, ``name``: as the options
        of `aucflow run`.

    Raises
    ------
    BadInput
        If the table or an option cannot be used; nothing is written to the store.
    RunFailed
        If a part of the experiment failed; its reason is in MLflow.

    Examples
    --------
    ::

        from flows.api import run
        result = run(frame, "fraud", positive="yes", methods=("svm_or", "auto+linear_svm"), seed=7)
        {cell.method: cell.mean_sd("auc") for cell in result.results}
    """
    from flows.quiet import quieten

    quieten()
    from flows.commands import make_config, run_flow

    name = options.pop("name", None) or (Path(data).stem if isinstance(data, (str, Path)) else "frame")
    options |= {"target": target, "name": name}
    if isinstance(data, pd.DataFrame):
        # the file's name holds a digest; what is drawn at random goes by the data set's name
        options |= {"data": str(_kept(data, name)), "dataset": name}
    else:
        options["data"] = str(data)
    return run_flow(make_config(None, options))[0]


def _kept(frame: pd.DataFrame, name: str) -> Path:
    """Write a DataFrame as Parquet, the digest of its contents in the file's name; return where."""
    folder = home() / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f"draft-{uuid4().hex}"  # a name of this call's own: other threads may have frames of theirs
    try:
        plain = frame.reset_index(drop=True).rename(columns=str)
        parquet.write_table(pa.Table.from_pandas(plain, preserve_index=False), draft)
    except (pa.ArrowException, ValueError, TypeError) as error:
        draft.unlink(missing_ok=True)
        raise BadInput(f"Expected columns of numbers, texts or dates, each name once, got: {error}. Mend it.") from None
    stem = re.sub(r"[^\w.-]", "_", name)
    target = folder / f"{stem}-{hashlib.sha256(draft.read_bytes()).hexdigest()[:12]}.parquet"
    os.replace(draft, target)
    return target
