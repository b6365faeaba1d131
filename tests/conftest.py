"""What all tests share: a quiet Prefect with a home of its own, and where the real data are."""

import gc
import logging
import os
import shutil
import tempfile
from pathlib import Path

import pytest
import ready_made
from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # the first example may load a compiled kernel
settings.load_profile("unhurried")

ROOT = Path(__file__).resolve().parent.parent
# The first compiles all kernels, which others then load; the next ones need few, and keep other workers from compiling
# them meanwhile. The last two wait for schedules some of the time.
FIRST = (
    "tests/flows/test_warmup.py",
    "tests/tasks/test_registry.py",
    "tests/tasks/test_datasets.py",
    "tests/tasks/test_prefect_server.py",
    "tests/flows/test_deploy.py",
    "tests/flows/test_readme_story.py",
)
THEN = ("tests/flows/", "tests/tasks/", "tests/")  # from files of minutes to files of seconds


def pytest_configure():
    """Silence what `aucflow` silences, before anybody imports Prefect."""
    import scipy.linalg  # noqa: F401 - limits bind the libraries that are there
    from threadpoolctl import threadpool_limits

    import tasks  # noqa: F401 - skops, which takes seconds where many modules are there already
    from flows.quiet import quieten

    # as in a run; the threads of two test processes on two cores would wait for each other most of the time
    threadpool_limits(1)
    os.environ["PYTHONWARNINGS"] = os.environ.get("PYTHONWARNINGS", "")
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    os.environ.pop("PREFECT_API_URL", None)
    os.environ["PREFECT_SERVER_EPHEMERAL_ENABLED"] = "false"  # what no command has Prefect start, no test does
    os.environ["AUCFLOW_HOME"] = tempfile.mkdtemp(prefix="aucflow-tests-")  # nobody's own cache
    os.environ["PREFECT_HOME"] = str(Path(os.environ["AUCFLOW_HOME"]) / "prefect")
    ready_made.open_folder()
    ready_made.copy_mlflows_tables()
    ready_made.spare_mlflows_self_tests()
    quieten(verbose=True)  # telemetry off; warnings stay visible to the tests


def pytest_collection_modifyitems(items):
    """Put first what takes longest, for workers who take the next file when they are done with one."""
    items.sort(key=lambda item: [not item.nodeid.startswith(place) for place in (*FIRST, *THEN)])
    # what is imported by now are a million objects and no garbage: not to be looked through again and again
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_unconfigure():
    """Leave no cache behind."""
    shutil.rmtree(os.environ["AUCFLOW_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_of_another_test():
    """Forget the store that a test gave MLflow, which keeps it in the environment, and that a command silenced logs."""
    logging.getLogger("aucsolvers").setLevel(logging.NOTSET)
    yield
    os.environ.pop("MLFLOW_TRACKING_URI", None)


@pytest.fixture(scope="session")
def mirror():
    """The folder with real data, or a skip that says why."""
    named = os.environ.get("AUCFLOW_MIRROR") or str(ROOT.parent / "shared" / "data")
    folder = Path(named.removeprefix("file://"))
    if not (folder / "index.csv").is_file():
        pytest.skip(f"no real data: {folder} has no index.csv (name a mirror in AUCFLOW_MIRROR)")
    return folder


@pytest.fixture(scope="session")
def store_and_copy(tmp_path_factory):
    """The store of `audited`, and a copy of it to go back to."""
    from audited import make

    folder = tmp_path_factory.mktemp("audited")
    store = make(folder / "here")
    shutil.copytree(store.folder, folder / "copy")
    return store, folder / "copy"


@pytest.fixture
def audited(store_and_copy):
    """A store as an auditor meets it, in the current folder; afterwards it is as it was."""
    from audited import inside, restore

    store, copy = store_and_copy
    with inside(store.folder):
        yield store
        restore(store.folder, copy)
