"""From Python: an experiment on a DataFrame or a file, with the checks, store and report of the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flows.quiet import quiet
from tasks.errors import BadInput
from tasks.frames import keep
from tasks.values import ExperimentResult


def run(
    data: pd.DataFrame | str | Path | None = None,
    target: str | None = None,
    *,
    config: str | Path | None = None,
    positive: Any = None,
    drop: Sequence[Any] = (),
    categories: Sequence[Any] = (),
    group: str | None = None,
    time: str | None = None,
    gap: str | float | None = None,
    methods: Sequence[str] = (),
    folds: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    name: str | None = None,
    format: str | None = None,
) -> ExperimentResult:
    """Run methods on a table, or a config, and return what `aucflow run` shows; ``mlruns/`` is in the current folder.

    Prefect, MLflow and warnings are silent while it runs.

    Parameters
    ----------
    data : DataFrame or path
        Rows with the target among the columns; a DataFrame's index is no feature, but may be target, group or time. A
        DataFrame is kept as Parquet in ``AUCFLOW_HOME/frames``, under the digest of its contents, so that the run can
        be traced to it.
    target : str
        The column that holds the class.
    config : str or path
        In place of data: a config file, or the name of one that is shipped.
    positive, drop, categories, group, time, gap, methods, folds, seed, workers, name, format
        As the options of `aucflow run`; ``drop`` and ``categories`` hold names of columns, ``group`` and ``time`` are
        one each, and each of ``methods`` is one ``--method``, such as "auto+linear_svm".

    Raises
    ------
    BadInput
        If table, config or an option cannot be used; nothing is written to the store.
    RunFailed
        If a part of the experiment failed; its reason is in MLflow.

    Examples
    --------
    ::

        from flows.api import run
        result = run(frame, "fraud", positive="yes", methods=("svm_or", "auto+linear_svm"), seed=7)
        {cell.method: cell.mean_sd("auc") for cell in result.results}
        run(config="claims.yaml", folds=10).as_frame()
    """
    if (data is None) == (config is None):
        raise BadInput(f"Expected either data or a config, got {'neither' if data is None else 'both'}. Give one.")
    drop, categories = (tuple(str(name).strip() for name in _several(names)) for names in (drop, categories))
    options = {"target": target, "positive": positive, "drop": drop, "categories": categories}
    options |= {"group": group, "time": time, "gap": gap}
    options |= {"methods": _several(methods), "folds": folds, "seed": seed, "workers": workers}
    options |= {"name": name, "format_": format}
    options = {key: value.item() if isinstance(value, np.generic) else value for key, value in options.items()}
    with quiet():
        from flows.run import make_config, run_flow

        if isinstance(data, pd.DataFrame):
            # the file's name holds a digest; what is drawn at random goes by the data set's name
            name = name or "frame"
            roles = tuple(role for role in (target, group, time) if role)
            options |= {"data": str(keep(data, name, drop, roles)), "dataset": name, "name": name}
        elif data is not None:
            options["data"] = str(data)
        return run_flow(make_config(None if config is None else str(config), options))[0]


def _several(given: Any) -> tuple[Any, ...]:
    """Return several texts, or the one that stands alone and whose letters are no texts of their own."""
    return (given,) if isinstance(given, str) else tuple(given)
