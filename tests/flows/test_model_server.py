"""`mlflow models serve` on loopback: POST /invocations answers the pipeline's scores, to the last bit."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from installed import claims
from shop import Shop
from sklearn.datasets import dump_svmlight_file

from tasks.values import ConversionRule, Layout

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Found unknown categories")]

STARTUP_S = 120  # 8 on an idle machine


class Server:
    """MLflow's scoring server of one champion, in a process group of its own."""

    def __init__(self, shop, name):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        # MLflow starts uvicorn by its name
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = os.environ | {"MLFLOW_TRACKING_URI": shop.uri, "PATH": path}
        command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", f"models:/{name}@champion"]
        command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", self.address.rpartition(":")[2]]
        self.log = (shop.folder / f"{name}.log").open("w+")
        self.process = subprocess.Popen(command, env=env, stdout=self.log, stderr=self.log, start_new_session=True)

    def wait(self):
        """Return once it answers."""
        deadline = time.monotonic() + STARTUP_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"{self.address}/ping", timeout=2).close()
                return self
            except OSError:
                time.sleep(0.2)
        self.log.seek(0)
        raise AssertionError(f"the server did not start: {self.log.read()[-2000:]}")

    def post(self, body):
        """Return the scores of a request in JSON."""
        data = json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(
            f"{self.address}/invocations", data, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return np.array(json.load(answer)["predictions"])

    def stop(self):
        """End it and what it started."""
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(20)
        self.log.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The champions of a CSV file and of an svmlight file, each with its server."""
    folder = tmp_path_factory.mktemp("served")
    table = claims(300).assign(flag=np.arange(300) % 3 == 0)
    table.to_csv(folder / "claims.csv", index=False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12)).round(3) * (rng.random((200, 12)) < 0.3)
    dump_svmlight_file(X, np.where(X.sum(axis=1) > 0, 1, -1), str(folder / "words.svm"), zero_based=False)
    shop = Shop(folder)
    models = {
        "claims": shop.crown("claims", folder / "claims.csv", ConversionRule("fraud"), Layout("fraud")),
        "words": shop.crown("words", folder / "words.svm", ConversionRule(), Layout(index_base=1)),
    }
    servers = {}
    try:
        for name in models:
            servers[name] = Server(shop, name)
        yield {name: (model, servers[name].wait()) for name, model in models.items()}
    finally:
        for server in servers.values():
            server.stop()


def cells(frame):
    """Return a frame as JSON has it: null where a cell is missing, whole numbers and truth values where they are."""
    return frame.astype(object).where(frame.notna(), None)


def split(frame):
    return {"dataframe_split": {"columns": list(frame), "data": cells(frame).to_numpy().tolist()}}


def test_scores_of_numbers_texts_and_gaps_are_the_pipelines(served):
    model, server = served["claims"]
    X = model.table.X
    want = model.ranker.scorer.decision_function(X)
    np.testing.assert_array_equal(server.post(split(X)), want)
    records = {"dataframe_records": cells(X).to_dict("records")}
    np.testing.assert_array_equal(server.post(records), want)


def test_rows_one_by_one_have_the_same_scores(served):
    model, server = served["claims"]
    X, want = model.table.X, model.ranker.predict(model.table.X)
    gaps = X.index[X.isna().any(axis=1)][:5]
    for i in (0, *gaps):
        assert server.post(split(X.iloc[[i]])).tolist() == [want[i]]


def test_columns_in_another_order_or_too_many_and_types_as_they_come(served):
    model, server = served["claims"]
    X = model.table.X.iloc[:40]
    want = model.ranker.predict(X)
    np.testing.assert_array_equal(server.post(split(X[list(X)[::-1]].assign(more=1))), want)
    typed = X.assign(age=X["age"].astype("Int64"), flag=X["flag"].astype(bool))
    np.testing.assert_array_equal(server.post(split(typed)), want)


def test_a_column_without_a_value_and_a_text_that_training_had_not(served):
    model, server = served["claims"]
    X = model.table.X.iloc[:6].assign(shop="new")
    np.testing.assert_array_equal(server.post(split(X)), model.ranker.predict(X))
    empty = X.assign(amount=np.nan, shop=None)
    np.testing.assert_array_equal(server.post(split(empty)), model.ranker.predict(empty))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda X: X.drop(columns="amount"), "amount"),
        (lambda X: X.assign(amount="much"), "amount"),
        (lambda X: X.assign(shop=7), "shop"),
    ],
    ids=["a column is missing", "a text for a number", "a number for a text"],
)
def test_rows_that_do_not_fit_are_refused(change, name, served):
    model, server = served["claims"]
    with pytest.raises(urllib.error.HTTPError) as error:
        server.post(split(change(model.table.X.iloc[:3])))
    assert error.value.code == 400 and name in error.value.read().decode()


def test_sparse_rows_are_sent_as_lists_of_all_their_features(served):
    model, server = served["words"]
    rows = model.table.X.toarray()
    np.testing.assert_array_equal(server.post({"inputs": rows.tolist()}), model.ranker.predict(model.table.X))
    assert server.post({"inputs": rows[:1].tolist()}).tolist() == [model.ranker.predict(model.table.X)[0]]
