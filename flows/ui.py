"""The ui command: MLflow's pages."""

import os
import sys

from rich.console import Console

from tasks.errors import BadInput


def ui_command(port: int) -> None:
    """Become ``mlflow server`` on loopback."""
    from tasks import store

    uri = store.tracking_uri()
    if not uri.startswith(("sqlite:", "postgresql", "mysql", "mssql")):
        address = store.shown_uri()
        raise BadInput(f"MLFLOW_TRACKING_URI names a server that has pages of its own: open {address} in a browser.")
    store.existing()
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    console = Console(highlight=False)
    console.print(f"MLflow on http://127.0.0.1:{port} (Ctrl-C ends it)")
    console.print('its pages show runs under "Model training", the switch at the top left')
    # not as an argument, which every user of the machine may read: it may hold a password
    os.environ["MLFLOW_BACKEND_STORE_URI"] = os.environ["MLFLOW_REGISTRY_STORE_URI"] = uri
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--uvicorn-opts", "--log-level warning"]
    sys.stdout.flush()
    os.execv(sys.executable, command)
