"""The command line: instant help, one spelling for one thing, and bad input refused in one line with exit code 2."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from flows.cli import cli
from flows.run import make_config, parse_method
from tasks.errors import NotAsRecorded


def frame(n=60, positives=12):
    rng = np.random.default_rng(0)
    fraud = np.where(np.arange(n) < positives, "yes", "no")
    return pd.DataFrame({"amount": rng.normal(size=n), "age": rng.integers(18, 90, n), "fraud": fraud})


def refused(aucflow, folder, *arguments):
    """Return the one line on stderr of a refusal, having checked all that a refusal must be."""
    code, out, err = aucflow("run", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("aucflow: ")
    assert err.count("\n") == 1
    assert not (folder / "mlruns").exists()
    return err


def test_help_version_and_lists_need_neither_prefect_nor_mlflow():
    code = (
        "import sys\n"
        "from flows.cli import main\n"
        "for arguments in (['--help'], ['--version'], ['run', '--help'], ['list', 'solvers']):\n"
        "    try: main(arguments)\n"
        "    except SystemExit as end: assert end.code == 0, arguments\n"
        "    if arguments[0] != 'list':\n"
        "        heavy = {'prefect', 'mlflow', 'numpy', 'pandas', 'sklearn', 'numba', 'rich'} & set(sys.modules)\n"
        "        assert not heavy, (arguments, heavy)\n"
        "heavy = {'prefect', 'mlflow', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_models_are_listed_rolled_back_and_deleted_and_a_store_verified_without_prefect(tmp_path):
    code = (
        "import sys\n"
        "from flows.cli import main\n"
        "import tasks.registry\n"
        "from tasks.log import run_logger\n"
        "words = {'list models': 0, 'rollback m': 2, 'delete m/1': 2, 'audit verify': 2, 'audit champions m': 2}\n"
        "for arguments, expected in words.items():\n"
        "    try: main(arguments.split())\n"
        "    except SystemExit as end: assert end.code == expected, arguments\n"
        "assert run_logger().name == 'aucflow'\n"
        "heavy = {'prefect', 'sklearn', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_one_is_not_allowed_is_said_with_what_to_do(aucflow, monkeypatch):
    """An auditor of another account was told to ask for a traceback."""

    def closed():
        raise PermissionError(13, "Permission denied", "mlruns/mlflow.db")

    monkeypatch.setattr("tasks.store.exists", closed)
    code, out, err = aucflow("audit", "verify")
    said = "Expected to be allowed to read or write mlruns/mlflow.db, got: permission denied."
    assert (code, out, err) == (1, "", f"aucflow: {said} Allow it, or run as an account that may.\n")


def test_a_model_that_is_not_as_it_was_recorded_is_an_audit_finding(aucflow, monkeypatch):
    def changed(*_given, **_named):
        raise NotAsRecorded("Expected the files of m/1 as registered, got others.")

    monkeypatch.setattr("flows.lists.list_command", changed)
    assert aucflow("list", "models") == (3, "", "aucflow: Expected the files of m/1 as registered, got others.\n")


@pytest.mark.parametrize("what", ["runs", "models"])
def test_an_empty_list_is_said_to_be_empty(aucflow, what):
    assert aucflow("list", what) == (0, f"no {what} in this folder\n", "")


@pytest.mark.parametrize(
    "arguments",
    [("list", "runs"), ("list", "models"), ("predict", "--model", "m", "--data", "new.csv", "--out", "s.csv")],
)
def test_a_damaged_store_is_told_of_in_one_sentence(aucflow, folder, arguments):
    (folder / "new.csv").write_text("a\n1\n")
    (folder / "mlruns").mkdir()
    (folder / "mlruns" / "mlflow.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    code, out, err = aucflow(*arguments)
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "Expected an MLflow store at" in err and err.rstrip().endswith("Restore a copy.")


@pytest.mark.parametrize("arguments", [["data", "show", "sonar"], ["audit", "verify"]])
def test_nobody_is_told_of_its_use(tmp_path, arguments):
    """Prefect sends what its users do, and says so on a terminal, unless it is told not to before it is imported."""
    code = (
        "import os, sys\n"
        "from flows.cli import main\n"
        f"try: main({arguments})\n"
        "except SystemExit: assert os.environ['DO_NOT_TRACK'] == 'true'\n"
    )
    env = {name: value for name, value in os.environ.items() if name != "DO_NOT_TRACK"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["datasets", "solvers", "samplers", "kernels"])
def test_lists_name_what_a_config_may_name(aucflow, what):
    from tasks import catalogue, datasets

    known = datasets.entries() if what == "datasets" else getattr(catalogue, what.upper())
    code, out, _ = aucflow("list", what)
    assert code == 0
    for name in known:
        assert any(line.split()[0] == name for line in out.splitlines() if line.strip())


def test_no_runs_is_an_empty_table_and_makes_no_store(aucflow, folder):
    code, _, err = aucflow("list", "runs")
    assert (code, err) == (0, "")
    assert not (folder / "mlruns").exists()


def test_the_pages_need_a_store(aucflow):
    code, _, err = aucflow("ui")
    assert code == 2
    assert "Run `aucflow run` here first" in err


def test_the_pages_get_the_stores_address_where_other_users_cannot_read_it(aucflow, folder, monkeypatch):
    """Arguments of a process are everybody's to read, and an address may hold a password."""
    uri = f"sqlite:///{folder / 'shared.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for name in ("MLFLOW_BACKEND_STORE_URI", "MLFLOW_REGISTRY_STORE_URI"):
        monkeypatch.setenv(name, "")
    started = []
    monkeypatch.setattr("os.execv", lambda _, command: started.append((command, dict(os.environ))))
    assert aucflow("ui", "--port", "5007")[0] == 0
    ((command, env),) = started
    assert "5007" in command and not any(uri in word for word in command)
    assert env["MLFLOW_BACKEND_STORE_URI"] == env["MLFLOW_REGISTRY_STORE_URI"] == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://bob:secret@tracking.example/")
    code, _, err = aucflow("ui")
    assert code == 2 and "open https://tracking.example/ in a browser" in err


def test_the_traceback_is_there_for_every_command(aucflow, folder):
    def walk(command, *words):
        assert any(option.opts == ["-v", "--verbose"] for option in command.params), words
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, name)

    walk(cli)
    assert "-v, --verbose" in aucflow("warmup", "--help")[1]
    (folder / "mlruns" / "ledger" / "ledger.jsonl").mkdir(parents=True)
    code, _, err = aucflow("audit", "champions", "claims")
    assert code == 1 and "Is a directory" in err and err.endswith("Run again with -v for the traceback.\n")
    code, _, err = aucflow("audit", "champions", "claims", "-v")
    assert code == 1 and err.startswith("Traceback") and "Run again" not in err
    for words in (["audit", "-v", "champions", "claims"], ["-v", "audit", "champions", "claims"]):
        assert aucflow(*words)[2].startswith("Traceback"), words


def test_misspelt_commands_and_options_name_the_nearest(aucflow):
    assert aucflow("lst")[0] == 2
    assert "Did you mean 'list'?" in aucflow("lst")[2]
    assert "--seed" in aucflow("run", "--sed", "1")[2]


def test_methods_are_spelt_as_the_table_shows_them():
    method = parse_method("u1+linear_svm")
    assert (method.sampler, method.solver) == ("u1", "linear_svm")
    assert (parse_method("msgd").sampler, parse_method("msgd").solver) == ("none", "msgd")
    for text, parts in (
        ("gaussian+svm_or", ("none", "gaussian", "svm_or")),
        ("auto+polynomial+ls_svm", ("auto", "polynomial", "ls_svm")),
    ):
        method = parse_method(text)
        assert (method.sampler, method.kernel, method.solver) == parts
        assert method.label == text


def test_options_override_the_config():
    config = make_config("quickstart", {"folds": 3, "seed": 9, "methods": ("msgd",), "name": "mine"})
    assert (config.validation.folds, config.seed, config.name) == (3, 9, "mine")
    assert [m.label for m in config.methods] == ["msgd"]
    assert config.validation.inner_folds == 3


def test_a_data_file_names_its_experiment():
    config = make_config(None, {"data": "/data/claims 2026-01.csv", "target": "fraud"})
    assert config.name == "claims-2026-01"
    assert config.datasets[0].source == "/data/claims 2026-01.csv"
    assert make_config(None, {"data": "Kündigungen im März.csv", "target": "x"}).name == "Kundigungen-im-Marz"
    packed = make_config(None, {"data": "claims.csv.gz", "target": "fraud"})
    assert (packed.name, packed.datasets[0].name) == ("claims", "claims")


# file name, content (None: no such file), further arguments, words that the line must hold
BAD_FILES = [
    ("missing.csv", None, ["--target", "fraud"], ["missing.csv"]),
    ("empty.csv", "", ["--target", "fraud"], ["empty.csv", "empty"]),
    ("blank.csv", "\n \n", ["--target", "fraud"], ["blank.csv"]),
    ("no_rows.csv", "amount,fraud\n", ["--target", "fraud"], ["no_rows.csv"]),
    ("data.csv", "csv", ["--target", "fruad"], ["'fruad'", "Did you mean 'fraud'"]),
    ("data.csv", "csv", [], ["--target", "fraud"]),
    ("data.csv", "csv", ["--target", "fraud", "--positive", "yess"], ["'yess'", "'yes'"]),
    ("data.csv", "csv", ["--target", "fraud", "--folds", "20"], ["12", "20", "Use 12 folds or fewer"]),
    ("data.csv", "csv", ["--target", "fraud", "--method", "sdcd_prem"], ["'sdcd_prem'", "Did you mean 'sdcd_perm'?"]),
    ("data.csv", "csv", ["--target", "fraud", "--method", "u9+msgd"], ["'u9'"]),
    ("data.csv", "csv", ["--target", "fraud", "--method", "+msgd"], ["a sampler out of", "got ''"]),
    ("data.csv", "csv", ["--target", "fraud", "--method", "u1+gauss+msgd"], ["'gauss'", "Did you mean 'gaussian'?"]),
    ("data.csv", "csv", ["--target", "fraud", "--method", "gausian+msgd"], ["a kernel", "Did you mean 'gaussian'?"]),
    ("data.csv", "csv", ["--target", "fraud", "--method", "gaussian+kernel_svm"], ["a kernel of its own"]),
    ("data.csv", "csv", ["--target", "fraud", "--folds", "1"], ["folds", "got 1"]),
    (
        "one.csv",
        "a,fraud\n1,0\n2,0\n3,0\n",
        ["--target", "fraud"],
        ["Expected two classes in column 'fraud', got one (0)"],
    ),
    ("three.csv", "a,k\n" + "1,x\n2,y\n3,z\n" * 9, ["--target", "k"], ["--positive", "x", "y", "z"]),
    ("inf.csv", "a,k\n" + "1,0\n2,1\n" * 9 + "inf,1\n", ["--target", "k"], ["'a'", "inf"]),
    ("bad.svm", "1 1:2\n-1 1:3\n1 1:abc\n", [], ["line 3"]),
    ("words.svm", "1 1:2\nspam 1:3\n", [], ["line 2"]),
]


@pytest.mark.parametrize(
    ("name", "content", "arguments", "words"), BAD_FILES, ids=lambda v: v if isinstance(v, str) else None
)
def test_bad_data_is_refused_before_anything_is_written(aucflow, folder, name, content, arguments, words):
    if content is not None:
        (folder / name).write_text(frame().to_csv(index=False) if content == "csv" else content)
    line = refused(aucflow, folder, "--data", name, *arguments)
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("datasets: [wine\n", ["line"]),
        ("datasets: [wine]\nmethods: [ls_svm]\nfold: 3\n", ["'fold'"]),
        ("datasets: [wine]\nmethods: [{solver: ls_svm, params: {lam: -0.1}}]\n", ["lam", "> 0", "-0.1"]),
        ("datasets: [wine]\nmethods: [{solver: ls_svm, grid: [-0.1]}]\n", ["greater than 0", "-0.1"]),
        ("datasets: [wnie]\nmethods: [ls_svm]\n", ["'wnie'", "Did you mean 'wine'?"]),
        ("datasets: [{source: gone.csv, target: y}]\nmethods: [ls_svm]\n", ["gone.csv"]),
        (
            "datasets: [{source: sparse.svm}]\nmethods: [{solver: ls_svm, scale: piecewise}]\n",
            ["ls_svm to have a scale", "got piecewise alone", "standard, minmax or quantile"],
        ),
    ],
)
def test_bad_configs_are_refused_before_anything_is_written(aucflow, folder, text, words):
    (folder / "bad.yaml").write_text(text)
    (folder / "sparse.svm").write_text("1 1:2\n-1 1:3\n" * 20)
    line = refused(aucflow, folder, "bad.yaml")
    for word in words:
        assert word in line


def test_of_several_data_sets_the_bad_one_is_named(aucflow, folder):
    (folder / "one.csv").write_text("a,y\n1,0\n2,0\n")
    (folder / "bad.yaml").write_text("datasets: [wine, {source: one.csv, target: y}]\nmethods: [ls_svm]\n")
    assert "Data set 'one': Expected two classes" in refused(aucflow, folder, "bad.yaml")


def test_a_config_and_data_together_are_one_too_many(aucflow, folder):
    assert "got both" in refused(aucflow, folder, "quickstart", "--data", "x.csv")


def test_data_options_without_data(aucflow, folder):
    assert "--data FILE" in refused(aucflow, folder, "--target", "fraud")
