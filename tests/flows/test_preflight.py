"""Prefect's start beside the imports: what must not happen at the same time."""

import subprocess
import sys

# Prefect's tables as MLflow would find them, by the state of their module when the stores of MLflow are imported.
OPENED = """
import sys
from contextlib import nullcontext
from types import SimpleNamespace

from flows import preflight

answer = SimpleNamespace(hello=lambda: SimpleNamespace(raise_for_status=lambda: None))
preflight.get_client = lambda sync_client: nullcontext(answer)
assert "prefect.server.database.orm_models" not in sys.modules
started = preflight.PrefectStart()
started.wait_for_imports()
assert hasattr(sys.modules["prefect.server.database.orm_models"], "WorkQueue")
import mlflow.store.tracking.sqlalchemy_store
started.wait()
"""


def test_mlflow_opens_no_store_while_prefect_declares_its_tables():
    done = subprocess.run([sys.executable, "-c", OPENED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_server_elsewhere_needs_no_import_of_one(monkeypatch):
    code = OPENED.split("assert hasattr")[0] + 'assert "prefect.server.database.orm_models" not in sys.modules'
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
