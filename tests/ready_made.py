"""What is empty and takes seconds to make: made by the first of these tests' processes that asks, copied by all."""

import atexit
import functools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from filelock import FileLock

FOLDER = "AUCFLOW_TESTS_READY_MADE"  # the workers of a run inherit it from the process that started them


def open_folder() -> None:
    """Make the folder that this process shares with those that it starts, unless it has been given one."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="aucflow-tests-")
        atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)


def ready_made(name: str, make: Callable[[Path], None]) -> Path:
    """Return the file or folder of that name, whole; ``make`` fills a draft if nobody has yet."""
    place = Path(os.environ[FOLDER]) / name
    with FileLock(f"{place}.lock"):
        if not place.exists():
            draft = place.with_name(f"{name}.{os.getpid()}")  # one who was killed may have left another behind
            make(draft)
            os.replace(draft, place)
    return place


def copy_mlflows_tables() -> None:
    """Have MLflow copy the tables of a new SQLite store, all empty, where its migrations would take two seconds."""
    import sqlalchemy
    from mlflow.store.db import utils

    migrate = utils._upgrade_db

    def make(draft: Path) -> None:
        engine = utils.create_sqlalchemy_engine(f"sqlite:///{draft}")
        utils.InitialBase.metadata.create_all(engine)
        migrate(engine)
        engine.dispose()

    def copy(engine) -> None:
        is_new = "alembic_version" not in sqlalchemy.inspect(engine).get_table_names()
        if engine.dialect.name == "sqlite" and engine.url.database and is_new:
            with (
                closing(sqlite3.connect(ready_made("mlflow.db", make))) as source,
                closing(sqlite3.connect(engine.url.database)) as target,
            ):
                source.backup(target)
        else:
            migrate(engine)

    utils._upgrade_db = copy
    # which is read from all migrations for each store that is opened
    utils._get_latest_schema_revision = functools.cache(utils._get_latest_schema_revision)
