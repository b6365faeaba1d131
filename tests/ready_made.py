"""What takes seconds to make and is empty: made by the first of these tests' processes that asks, copied by all.

And a Prefect server on such a copy, one for each process.
"""

import atexit
import functools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir, closing
from pathlib import Path
from types import SimpleNamespace

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
    read_mlflows_migrations_once()


def read_mlflows_migrations_once() -> None:
    """Have MLflow find out once, and not for each store that it opens, which schema is its latest."""
    from mlflow.store.db import utils

    utils._get_latest_schema_revision = functools.cache(utils._get_latest_schema_revision)


def put_empty_store(folder: Path) -> None:
    """Put a store without runs into a folder where a command as installed is to run; it would make one, in seconds."""
    from tasks.store import open_store

    with chdir(folder):
        open_store()


def spare_mlflows_self_tests() -> None:
    """Have MLflow read as it does for users: under pytest it watches each session that reads, for a third more time."""
    import sqlalchemy
    from mlflow.store.db import utils

    utils.event = SimpleNamespace(listen=lambda *_: None, listens_for=sqlalchemy.event.listens_for)


def bare_environment(home):
    """Return an environment without ours, with that Prefect home; if it is new, Prefect takes its time to fill it."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "PYTEST_"))}
    return env | {"PREFECT_HOME": str(home), "COLUMNS": "80"}


@functools.cache
def prefect_url():
    """Return the address of a server that lives as long as this process: a run needs as long to start one as itself."""
    from tasks.prefect_server import server_of_this_process

    home = Path(os.environ["PREFECT_HOME"])
    if not (home / "prefect.db").exists():  # else a run in this process has a server on it already
        # Prefect keeps other things there too, which a test before may have made it write
        shutil.copytree(prefect_home(), home, dirs_exist_ok=True)
    server = server_of_this_process()
    server.wait()
    return server.url


def prefect_home():
    """Return a Prefect home whose database has its tables and no rows, to be copied."""

    def make(home):
        command = [Path(sys.executable).with_name("prefect"), "server", "database", "upgrade", "--yes"]
        subprocess.run(command, env=bare_environment(home), check=True, capture_output=True)

    return ready_made("prefect", make)
