"""aucflow warmup: every kernel that a run needs is there afterwards, on disk, and whoever waits is told."""

import gc
import glob
import itertools
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from compiled import guarded_loops
from filelock import FileLock
from installed import AUCFLOW, children, environment, run_alone
from joblib import cpu_count

from flows.warmup import OBJECTS, warmup_command
from tasks import warmers, warmup
from tasks.errors import RunFailed

AFTERWARDS = """
import warnings
import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from tasks import catalogue, warmup

for name in warmup.entries():
    warmup.warm(name)
before = {kernel: len(kernel.signatures) for kernel in warmup.kernels()}
assert sum(before.values()) > 30, before

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
digits = X[:500], y[:500] == 8
tall = rng.normal(size=(41_000, 2)), rng.random(41_000) < 0.1
large = rng.normal(size=(5_300, 100)), rng.random(5_300) < 0.1  # of 4.2 MB
wide, long = (
    (sparse.random_array((rows, 3000), density=0.02, format="csr", rng=rng), np.arange(rows) % 7 == 0)
    for rows in (300, 2500)
)
text = sparse.csr_matrix(digits[0][:, :40]), digits[1]
mapped = [(X.copy(), y) for X, y in (digits, text)]  # as rows come that another process has mapped into memory
for X, _ in mapped:
    for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        array.flags.writeable = False
few = {"max_iter": 50}  # the whole budget takes 30 s of one and 11 s of the other, in the same kernels
options = {"opauc": {"rank": 4}, "zo_svm": few, "zovr": few, "spdam": few}
also = dict.fromkeys(["svm_or", "ls_svm", "linear_svm"], (tall, long)) | {"spdam": (large,)}
for name, entry in catalogue.SOLVERS.items():
    params = options.get(name, {})
    for X, y in (digits, wide, text, *mapped, *also.get(name, ())):
        entry.build(**params).fit(X, y).decision_function(X)
for name in ("u1", "u2", "wu"):
    catalogue.SAMPLERS[name].build().fit_resample(*digits)
more = [kernel for kernel in warmup.kernels() if len(kernel.signatures) > before.get(kernel, 0)]
assert not more, more
"""
# Stores and sums in one loop; the second only stores.
CARELESS = """
import numpy as np
from aucsolvers._jit import kernel
from aucsolvers._rows import REDUCE

@kernel(fastmath=REDUCE)
def careless(x, y, by):
    total = 0.0
    for i in range(y.size):
        y[i] = 2.0 * x[i + by]
        total += y[i]
    return total

@kernel(fastmath=REDUCE)
def careful(x, y, by):
    for i in range(y.size):
        y[i] = 2.0 * x[i + by]

careless(np.ones(9), np.ones(8), 1)
careful(np.ones(9), np.ones(8), 1)
"""


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """A folder of compiled kernels that was empty, what LLVM made of them, and what the command said."""
    folder = tmp_path_factory.mktemp("cold")
    done = run_alone(folder, "warmup", NUMBA_CACHE_DIR=str(folder / "kernels"), NUMBA_DUMP_OPTIMIZED="1")
    assert done.returncode == 0, done.stderr
    spare_others(folder / "kernels")
    return folder, done


def spare_others(cache):
    """Let other tests load what has been compiled here, where they would compile it: beside the source."""
    for package in ("aucsolvers", "tasks"):
        beside = Path(__file__).parents[2] / package / "__pycache__"
        for compiled in cache.glob(f"{package}_*"):
            with suppress(OSError), FileLock(beside / "aucsolvers.lock", mode=0o666):
                for index in compiled.glob("*.nbi"):
                    if not (beside / index.name).exists():
                        for code in compiled.glob(f"{glob.escape(index.stem)}.*.nbc"):
                            shutil.copy(code, beside)
                        shutil.copy(index, beside)


@pytest.fixture(scope="module")
def again(cold):
    """What it says where all is compiled."""
    done = run_alone(cold[0], "warmup", NUMBA_CACHE_DIR=str(cold[0] / "kernels"))
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_from_nothing_it_compiles_all_and_the_next_one_loads_all(cold, again):
    folder, first = cold
    compiled = int(re.search(r"^(\d+) kernels compiled", first.stdout, re.MULTILINE).group(1))
    assert compiled > 30
    assert str(folder / "kernels") in first.stdout
    loops = list(guarded_loops(first.stdout))
    assert len(loops) > 50
    assert {function for function, sums in loops if sums} == set(), "bits depend on where arrays lie: see _rows.py"
    assert again.stdout.startswith("0 kernels compiled, ")


def test_it_says_what_it_did_for_each_entry_and_where_the_kernels_are(cold, again):
    for done in (cold[1], again):
        lines = done.stderr.splitlines()
        names = [line.split()[0] for line in lines]
        assert sorted(names) == sorted(warmup.entries())
        assert names[0] == warmers.in_order()[-1] and (done is not again or names == warmers.in_order()[::-1])
        assert all(re.search(r" \d+ compiled, \d+ loaded, \d+\.\d s$", line) for line in lines)
        *_, total = re.findall(r"^\d+ kernels compiled.*", done.stdout, re.MULTILINE)
        told = [[int(n) for n in re.findall(r"(\d+) (?:compiled|loaded)", line)] for line in lines]
        assert [int(n) for n in re.findall(r"(\d+) (?:kernels compiled|loaded)", total)] == [
            sum(n) for n in zip(*told, strict=True)
        ]
    _, *folders = again.stdout.splitlines()
    assert folders and all(os.path.isdir(folder.removeprefix("cache").strip()) for folder in folders)
    assert not (cold[0] / "mlruns").exists()


def test_after_it_no_fit_meets_a_kernel_that_is_not_there(cold):
    env = os.environ | {"NUMBA_CACHE_DIR": str(cold[0] / "kernels")}
    done = subprocess.run([sys.executable, "-c", AFTERWARDS], env=env, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr


def test_a_sum_whose_order_depends_on_where_arrays_lie_is_seen(tmp_path):
    (tmp_path / "kernels.py").write_text(CARELESS)
    env = os.environ | {"NUMBA_DUMP_OPTIMIZED": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, tmp_path / "kernels.py"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loops = set(guarded_loops(done.stdout))
    assert {(sums, "careless" in function, "careful" in function) for function, sums in loops} == {
        (True, True, False),
        (False, False, True),
    }


def test_an_interrupt_ends_it_and_keeps_what_is_compiled(tmp_path):
    cache = tmp_path / "kernels"
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            [AUCFLOW, "warmup"], cwd=tmp_path, env=environment(tmp_path, NUMBA_CACHE_DIR=str(cache)), stderr=err
        )
        while not list(cache.rglob("*.nbc")) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert (tmp_path / "err").read_text().splitlines()[-1] == (
        "aucflow: interrupted; kernels compiled so far stay in the cache"
    )


@pytest.mark.skipif(cpu_count() == 1, reason="one core: one process")
def test_killed_it_leaves_no_process_behind(tmp_path):
    env = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"), TMPDIR=str(tmp_path))
    with subprocess.Popen([AUCFLOW, "warmup"], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL) as process:
        started = {}
        while len(started) < min(cpu_count(), warmers.MOST):
            assert process.poll() is None
            time.sleep(0.05)
            started = {pid for pid, words in children(process.pid).items() if "tasks.warmers" in words}
        process.kill()
    deadline = time.monotonic() + 60
    while any(is_running(number) for number in started):
        assert time.monotonic() < deadline, started
        time.sleep(0.05)


def is_running(number):
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True).stdout
    return state.strip() not in ("", "Z")


@pytest.mark.usefixtures("hangups")
def test_a_closed_terminal_ends_it_though_nothing_can_be_written_any_more(tmp_path):
    """The terminal's process group gets SIGHUP, and what it writes from then on fails."""
    cache = tmp_path / "kernels"
    env = environment(tmp_path, NUMBA_CACHE_DIR=str(cache))
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execve(AUCFLOW, [AUCFLOW, "warmup"], env)
    while not list(cache.rglob("*.nbc")):
        os.read(terminal, 65536)  # the bar, which would otherwise fill the terminal's buffer
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 129


@pytest.fixture
def alone(monkeypatch):
    """No second process, in which what a test puts in place of a function is not there."""
    monkeypatch.setattr(warmers, "cpu_count", lambda: 1)


@pytest.mark.usefixtures("alone")
def test_an_entry_that_fails_does_not_keep_the_others(monkeypatch, capsys):
    def warm(name, float32):
        thresholds.add(gc.get_threshold()[0])
        if name == "msgd":
            raise TypeError("no such kernel")

    before, thresholds = gc.get_threshold(), set()
    monkeypatch.setattr(warmup, "warm", warm)
    with pytest.raises(RunFailed, match=r"1 of \d+ entries failed: msgd: TypeError: no such kernel"):
        warmup_command(False)
    assert len(capsys.readouterr().err.splitlines()) == len(warmup.entries())
    assert (thresholds, gc.get_threshold()) == ({OBJECTS}, before), "it is for the time of compiling"


def test_what_is_left_by_processes_that_were_killed_is_done_by_the_first(monkeypatch, capsys):
    """As when the system is out of memory. It says something before, which is passed on."""

    def start(module, folder, rows, *names, env, log):
        log.write_bytes(b"LLVM: out of memory\xff")
        for name in ("zovr", "sdcd"):
            Path(folder, name).touch()
        return subprocess.Popen([sys.executable, "-c", "import os; os.abort()"])

    warmed = []

    def compile_one(name, float32):
        warmed.append(name)

    monkeypatch.setattr(warmers, "cpu_count", lambda: 2)
    monkeypatch.setattr(warmers, "start_child", start)
    monkeypatch.setattr(warmup, "warm", compile_one)
    monkeypatch.setattr(warmup, "tally", lambda: (len(warmed), 0))
    outcomes = [news for news in warmers.warm_all(False) if not isinstance(news, str)]
    assert sorted(outcome.name for outcome in outcomes) == sorted(warmed) == sorted(warmup.entries())
    assert warmed[1] == "svm_or", "the longest first, once one had compiled"
    assert capsys.readouterr().out == 2 * "LLVM: out of memory\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("compiled", [0, 1])
def test_where_all_is_compiled_or_there_is_no_place_for_shares_no_process_is_started(monkeypatch, compiled):
    def start(*arguments, **options):
        raise AssertionError(arguments)

    def no_folder(**options):
        raise FileNotFoundError("no usable temporary directory")

    tallies = itertools.count(step=compiled)
    monkeypatch.setattr(warmers, "cpu_count", lambda: 2)
    monkeypatch.setattr(warmers, "start_child", start)
    monkeypatch.setattr(warmup, "warm", lambda name, float32: None)
    monkeypatch.setattr(warmup, "tally", lambda: (next(tallies), 0))
    if compiled:
        monkeypatch.setattr(warmers, "TemporaryDirectory", no_folder)
    outcomes = [news for news in warmers.warm_all(False) if not isinstance(news, str)]
    assert sorted(outcome.name for outcome in outcomes) == sorted(warmup.entries())


@pytest.mark.usefixtures("alone")
def test_without_a_folder_for_the_cache_it_fails_and_names_the_variable(monkeypatch):
    monkeypatch.setattr(warmup, "warm", lambda name, float32: None)
    monkeypatch.setattr(warmup, "cache_folders", lambda: ())
    with pytest.raises(RunFailed, match="NUMBA_CACHE_DIR"):
        warmup_command(False)


def test_float32_rows_are_given_when_asked_for():
    kinds = {(X.dtype.name, isinstance(X, warmup.np.ndarray)) for X, _ in warmup._data(((20, 5),), True)}
    assert kinds == {("float64", True), ("float64", False), ("float32", True), ("float32", False)}
