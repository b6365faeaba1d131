"""The MLflow store: where it is, and how an experiment in it is found or made."""

import os
import re
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

import mlflow
import requests
from mlflow import MlflowClient
from mlflow.entities import Experiment
from mlflow.exceptions import MlflowException

from aucsolvers.process import ProcessWide
from tasks.errors import BadInput, RunFailed, without_password
from tasks.files import is_there, locked
from tasks.ledger import Ledger

FOLDER = Path("mlruns")
SERVERS = ("postgresql", "mysql", "mssql")  # databases that addresses lead to over a network
MEND = "Start it, mend its address, or unset MLFLOW_TRACKING_URI"
MEND_IT = "Mend it or its address, or unset MLFLOW_TRACKING_URI"
KNOCK_S = 30.0  # a server that says nothing for so long hangs: MLflow's own patience with one call
SOON_S = 4.0  # of one that is asked at the end of a run, perhaps interrupted: a cell and its experiment ask
LEDGER = "aucflow.ledger"  # the tag of a run or of a model's version: where the ledger is that tells of it
LOCK_S = 300.0  # MLflow makes its tables in some seconds, on a busy machine in more
KIND = {"mlflow.experimentKind": "custom_model_development"}  # the pages then open on runs, not on chat traces
_CAUSE = re.compile(r"\(Caused by \w+\((.*)\)\)")  # urllib3's
_PLACE = re.compile(r"^(HTTPS?Connection(Pool)?\([^)]*\)|<[^>]*>): ")
README = """\
What `aucflow` writes in this folder:
mlflow.db    the MLflow tracking store (SQLite): runs, parameters, metrics, tags
artifacts/   models, curves, configs and manifests (lineage.json), one folder per experiment
ledger/      what happened to runs and models, entry by entry, each with the digest of the one before
reports/     one HTML page per experiment run
Look at it with `aucflow ui`. Deleting the folder deletes the history.
"""


class StoreAway(RunFailed):
    """The store is on a server, and that cannot be reached: nothing is said of what is in it."""


def tracking_uri() -> str:
    """Return ``MLFLOW_TRACKING_URI`` where set, else the SQLite store in ``mlruns/`` of the current folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or _local_uri()


def _local_uri() -> str:
    return f"sqlite:///{(FOLDER / 'mlflow.db').resolve()}"


def shown_uri() -> str:
    """Return the store's address as others may read it, without a password."""
    scheme, mark, rest = tracking_uri().partition("://")
    if scheme.startswith(SERVERS):  # these take a password with any sign in it but an @
        rest = rest.rpartition("@")[2]
    return without_password(scheme + mark + rest)


def is_local() -> bool:
    """Tell whether the store is the one in ``mlruns/``: MLflow itself may have put its address into the environment."""
    return tracking_uri() == _local_uri()


def mlflow_command() -> str:
    """Return how MLflow's own command is called on the store; by itself it would make another in the current folder."""
    return f"MLFLOW_TRACKING_URI=sqlite:///{FOLDER}/mlflow.db mlflow" if is_local() else "mlflow"


def exists() -> bool:
    """Tell whether there is a store to read: a remote one is taken at its word."""
    return not is_local() or (FOLDER / "mlflow.db").is_file()


def open_store() -> MlflowClient:
    """Return a client of the store; make ``mlruns/`` if it is the local one."""
    if is_local():
        FOLDER.mkdir(exist_ok=True)
        note = FOLDER / "README.md"
        if not note.exists():
            note.write_text(README, encoding="utf-8")
        if not exists():
            _make_database()
    return MlflowClient(tracking_uri())


def _make_database() -> None:
    """Make the store's tables in a draft and move it into place whole: MLflow opens no database that is half made."""
    database, draft = FOLDER / "mlflow.db", FOLDER / "mlflow.draft.db"
    busy = f"{FOLDER}: another process has been making the store for {LOCK_S:g} s. Wait for it or stop it."
    with locked(FOLDER / "mlflow.lock", LOCK_S, lambda: busy):
        if exists():  # by now: somebody else was quicker
            return
        draft.unlink(missing_ok=True)
        MlflowClient(f"sqlite:///{draft.resolve()}").search_experiments(max_results=1)
        os.replace(draft, database)


def ledger() -> Ledger:
    """Return the ledger of this folder's runs and models; its first entry makes it."""
    return Ledger(FOLDER / "ledger")


def ledger_place() -> str:
    """Return host and folder of that ledger."""
    return f"{socket.gethostname()}:{ledger().folder.resolve()}"


def told_elsewhere(tags: Mapping[str, str]) -> str | None:
    """Return the place of the ledger that tells of a run or version with these tags, None if it is this folder's.

    Folders may share a store; that in ``mlruns/`` is its folder's own, wherever this one was before.
    """
    place = tags.get(LEDGER)
    return None if is_local() or place == ledger_place() else place


@contextmanager
def artifact_folder(uri: str) -> Iterator[Path]:
    """Bring what lies under an artifact address as a folder: itself where it is a local one, else a copy of it."""
    path = artifact_path(uri)
    if path is not None:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, mlflow_on_store():
        yield Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=folder))


def artifact_path(uri: str) -> Path | None:
    """Return where what has an artifact address lies on this machine now, None if it lies elsewhere."""
    path = _local_path(uri)
    return None if path is None else lies_now(path, uri)


def lies_now(path: Path, uri: str) -> Path:
    """Return where a file of the folder in which the store gave out an artifact address lies now.

    MLflow keeps absolute addresses. In a folder that was moved or copied here they lead to the former place, where by
    now there is nothing, or the original, which may differ, or another store: what came along counts.
    """
    former, here = _former_folder(uri), FOLDER.resolve().parent
    if former is None or not path.is_relative_to(former):
        return path
    now = here / path.relative_to(former)
    is_here = is_there(now) and (is_local() or _has_gone(former, path))
    return now if is_here or _has_come_from(former, here) else path


def _has_gone(former: Path, path: Path) -> bool:
    """Tell whether a folder that files are said to be in is no more there, or begun anew without this one.

    Files of a store on a server may be in another's folder, or in nobody's, and here what is called as they are.
    """
    began_anew = bool(_first_entry(Ledger(former / FOLDER.name / "ledger").path)) and not is_there(path)
    return began_anew or not is_there(former / FOLDER.name)


def refuse_copy(uri: str) -> None:
    """Raise RunFailed if the folder in which the store gave out an artifact address is still there beside this one."""
    former, here = _former_folder(uri), FOLDER.resolve().parent
    if former is None:
        return
    if _first_entry(Ledger(former / FOLDER.name / "ledger").path) and _has_come_from(former, here):
        raise RunFailed(
            f"Expected the folder in which the store was made, {former}, got {here}, a copy of it: what serves there "
            "would not change. Run the command there."
        )


def _former_folder(uri: str) -> Path | None:
    """Return the folder in which the store gave out an artifact address, None if it is the current one or cannot be.

    A database on a server leaves it to MLflow where below ``mlruns/`` of that folder files are.
    """
    address = _local_path(uri)
    if address is None:
        return None
    names = (FOLDER.name, "artifacts") if is_local() else (FOLDER.name,)
    roots = (above.parents[len(names) - 1] for above in address.parents if above.parts[-len(names) :] == names)
    return next((root for root in roots if not _is_here(root)), None)


def _is_here(root: Path) -> bool:
    """Tell whether a folder is the current one, be it by a link that leads here, or to the same ``mlruns/``."""
    with suppress(OSError):  # nothing is there, or nothing that may be seen
        return root == FOLDER.resolve().parent or (root / FOLDER.name).samefile(FOLDER)
    return False


def _has_come_from(former: Path, here: Path) -> bool:
    """Tell whether what is here was in another folder: none is seen there now, or one that began as this one did.

    Where a server's files are there may never have been a ledger: then only the latter tells.
    """
    began, begins = (_first_entry(Ledger(folder / FOLDER.name / "ledger").path) for folder in (former, here))
    return began == begins if began else is_local()


def _first_entry(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as lines:  # also where another may not read it
        return lines.readline()
    return b""


def _local_path(uri: str) -> Path | None:
    parts = urlparse(uri)
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


@ProcessWide
@contextmanager
def mlflow_on_store() -> Iterator[None]:
    """Let MLflow's functions that take no client work on the store while the block runs.

    MLflow keeps the address that it is given in the environment, where it would read as the user's own afterwards.
    """
    given = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(tracking_uri())
    try:
        yield
    finally:
        mlflow.set_tracking_uri(given)  # type: ignore[arg-type]  # it does take None


def check_store() -> None:
    """Raise RunFailed in one sentence if the store cannot be used; nothing is made."""
    if is_local() and FOLDER.exists() and not FOLDER.is_dir():
        raise RunFailed(f"Expected {FOLDER}/ to be a folder, got a file. Move it away or run in another folder.")
    if is_local() and not os.access(FOLDER if FOLDER.exists() else Path.cwd(), os.W_OK):
        raise RunFailed(f"Expected to write {FOLDER}/ in {Path.cwd()}, which is read-only. Run in another folder.")
    if is_local() and "?" in str(FOLDER.resolve()):
        raise RunFailed(
            f"Expected a path without a question mark for {FOLDER}/, which ends the path in a database's address, got "
            f"{FOLDER.resolve()}. Rename the folder or run in another."
        )
    if exists():
        reader("Move it away or run in another folder")


def reader(remedy: str = "Restore a copy") -> MlflowClient:
    """Return a client of a store that has shown that it can be read, or raise RunFailed in one sentence.

    StoreAway where it is a server that cannot be reached.
    """
    try:
        _knock()
    except Exception as error:  # whatever a driver makes of it
        install = "Install this driver beside aucflow, or unset MLFLOW_TRACKING_URI"
        hangs = isinstance(error, requests.exceptions.ReadTimeout)
        remedy = install if isinstance(error, ModuleNotFoundError) else MEND_IT if hangs else MEND
        raise StoreAway(_no_store(getattr(error, "orig", error), remedy)) from error
    try:
        client = MlflowClient(tracking_uri())
        client.search_experiments(max_results=1)
    except Exception as error:  # whatever a damaged database makes of it
        if not tracking_uri().startswith(("sqlite", *SERVERS)):  # what a server says is not read in its database
            raise StoreAway(_no_store(error, MEND_IT)) from error  # it did answer to the knock
        remedy = remedy if is_local() else MEND_IT
        raise RunFailed(_no_store(error, remedy)) from error
    return client


def _no_store(error: Exception, remedy: str) -> str:
    return f"Expected an MLflow store at {shown_uri()}, got: {what_it_said(error)}. {remedy}."


def what_it_said(error: Exception) -> str:
    """Return in some words what a store, or the way to it, said: of retries what the last one came upon."""
    said = str(error).strip().partition("\n")[0].replace(tracking_uri(), shown_uri())
    caused = _CAUSE.search(said)
    said = _PLACE.sub("", caused[1].strip("\"'") if caused else said)
    return without_password(said)[:200].rstrip(". ")


def answers() -> bool:
    """Tell whether the store is no tracking server, or one that answers to a knock in some seconds."""
    try:
        if _is_tracking_server():
            _knock_at_server(SOON_S)
    except requests.exceptions.RequestException:
        return False
    return True


def _knock() -> None:
    """Ask a store on a server for a sign of life, once: MLflow tries for two minutes, also where no try can help."""
    if _is_tracking_server():
        _knock_at_server(KNOCK_S)
    elif tracking_uri().startswith(SERVERS):
        _knock_at_database()


def _is_tracking_server() -> bool:
    return tracking_uri().lower().startswith(("http://", "https://"))


def _knock_at_server(seconds: float) -> None:
    with suppress(requests.exceptions.SSLError):  # MLflow may have been told of its certificate
        requests.get(tracking_uri(), timeout=seconds, stream=True, allow_redirects=False).close()


def _knock_at_database() -> None:
    from mlflow.store.db.utils import create_sqlalchemy_engine  # with the options that MLflow takes from its variables

    engine = create_sqlalchemy_engine(tracking_uri())
    try:
        engine.connect().close()
    finally:
        engine.dispose()


def existing(made_by: str = "aucflow run") -> MlflowClient:
    """Return a client as ``reader`` does, or refuse a folder without a store and name the command that makes one."""
    if not exists():
        raise BadInput(f"Expected mlruns/mlflow.db in this folder, found none. Run `{made_by}` here first.")
    return reader()


def experiment_id(client: MlflowClient, name: str) -> str:
    """Return the id of the experiment with this name, made if it is new, by us or by whoever was quicker."""
    found = client.get_experiment_by_name(name)
    if found is None:
        _refuse_renamed(client, name)
        try:
            return client.create_experiment(name, artifact_location=_artifact_location(name), tags=KIND)
        except MlflowException:
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return _usable(found)


def _refuse_renamed(client: MlflowClient, name: str) -> None:
    """Raise RunFailed if the experiment that the ledger's runs are of is there under another name: it would be two."""
    for run_id in _told_of(name)[-1:]:
        with suppress(MlflowException):  # it is gone, which an audit tells
            found = client.get_experiment(client.get_run(run_id).info.experiment_id)
            if found.name != name:
                raise RunFailed(
                    f"Expected the MLflow experiment '{name}', of which the ledger tells, got it under the name "
                    f"'{found.name}'. Rename it with `{mlflow_command()} experiments rename -x {found.experiment_id} "
                    f"--new-name '{name}'`, or choose another name."
                )


def _usable(experiment: Experiment) -> str:
    if experiment.lifecycle_stage != "active":
        raise RunFailed(
            f"Expected an active MLflow experiment '{experiment.name}', got a deleted one. Restore it with "
            f"`{mlflow_command()} experiments restore -x {experiment.experiment_id}` or choose another name."
        )
    _check_place(experiment)
    return experiment.experiment_id


def _check_place(experiment: Experiment) -> None:
    """Raise RunFailed if an experiment keeps its files where this folder was before; of the local store, elsewhere."""
    place = _local_path(experiment.artifact_location)
    if place is None or not (is_local() or _came_along(experiment, place)):
        return
    here = FOLDER.resolve()
    if not any(os.path.exists(above) and above.samefile(here) for above in place.resolve().parents):
        other = f"move {FOLDER}/ away to begin a new store here" if is_local() else "choose another name"
        raise RunFailed(
            f"Expected the files of the experiment '{experiment.name}' below {here}, got {place}: {FOLDER}/ was "
            f"copied or moved here, and MLflow would write there. Run in the folder where it was made, move it back, "
            f"or {other}."
        )


def _came_along(experiment: Experiment, place: Path) -> bool:
    """Tell whether an experiment's files were below this folder, and this folder where they are: its ledger knows."""
    return bool(_told_of(experiment.name)) and lies_now(place, experiment.artifact_location) != place


def _told_of(experiment: str) -> list[str]:
    """Return the runs of an experiment that the ledger tells of, the last one last."""
    return [entry.subject for entry in ledger().last_of_runs().values() if entry.data.get("experiment") == experiment]


def _artifact_location(name: str) -> str | None:
    """Return where a new experiment keeps its artifacts; None leaves it to a remote server."""
    return (FOLDER / "artifacts" / name).resolve().as_uri() if is_local() else None
