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
        raise BadInput(f"MLFLOW_TRACKING_URI names a server that has pages of its own: open {uri} in a browser.")
    store.existing()
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    console = Console(highlight=False)
    console.print(f"MLflow on http://127.0.0.1:{port} (Ctrl-C ends it)")
    console.print('its pages show runs under "Model training", the switch at the top left')
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--registry-store-uri", uri]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--uvicorn-opts", "--log-level warning"]
    sys.stdout.flush()
    os.execv(sys.executable, command)
