"""A signal's exception, in whatever it comes wrapped, and a signal that comes twice."""

import subprocess
import sys

import pytest
from prefect.exceptions import TerminationSignal

from flows.signals import is_stopped


def caused(error, cause):
    try:
        raise error from cause
    except type(error) as raised:
        return raised


@pytest.mark.parametrize("signal", [KeyboardInterrupt(), TerminationSignal(signal=15)])
def test_what_a_kernel_makes_of_a_signal_is_one(signal):
    """numba's dispatcher: SystemError("returned a result with an exception set") from the signal's exception."""
    assert is_stopped(signal)
    assert is_stopped(caused(SystemError("returned a result with an exception set"), signal))
    assert is_stopped(caused(ValueError("above"), caused(SystemError("below"), signal)))


def test_an_error_of_its_own_is_none():
    assert not is_stopped(caused(ValueError("above"), KeyError("below")))
    assert not is_stopped(None)


TWICE = """
import os, signal, time
from flows.signals import stoppable
with stoppable():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    except KeyboardInterrupt:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
"""


def test_a_second_signal_ends_at_once_and_says_so():
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 143
    assert done.stderr == "aucflow: ended at once: the next command settles what was left open\n"


IN_LLVM = """
import os, signal, time
from flows.signals import stoppable
from tasks.errors import Stopped
from tasks.progress import announce

add_module = '''
os.kill(os.getpid(), signal.SIGTERM)
owned = True  # an interrupt before this line would have LLVM and Python free the same object
'''
bindings = dict(__name__="llvmlite.binding.executionengine", os=os, signal=signal)
start = time.monotonic()
try:
    with stoppable():
        exec(add_module, bindings)
        print("owned by one:", bindings["owned"])
        try:
            {}
        finally:
            time.sleep(0.1)
            print("runs are marked")
except Stopped as stopped:
    print(stopped.exit_code, time.monotonic() - start < 5)
"""


@pytest.mark.parametrize("then", ["time.sleep(10)", "announce('search')"])
def test_a_signal_waits_until_llvms_objects_have_changed_hands(then):
    done = subprocess.run([sys.executable, "-c", IN_LLVM.format(then)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("owned by one: True\nruns are marked\n143 True\n", "")


LOST = """
import os, signal, time
from flows.signals import stoppable
from tasks.errors import Stopped

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)

class Careless:
    def __del__(self):
        raise OSError("of a terminal that was closed")

start = time.monotonic()
try:
    with stoppable():
        Finalised()
        try:
            time.sleep(10)
        finally:
            Careless()
            time.sleep(0.1)
            print("runs are marked")
except Stopped as stopped:
    print(stopped.exit_code, time.monotonic() - start < 5)
"""


def test_a_signal_that_a_finaliser_lost_comes_once_more_and_no_other_error_brings_it_back():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("runs are marked\n130 True\n", "")


SWALLOWED = """
import os, signal
from flows.signals import stoppable
from tasks.errors import Stopped
from tasks.progress import announce

class Foreign(BaseException):
    pass

def take(*_):
    raise Foreign

try:
    with stoppable():
        signal.signal(signal.SIGTERM, take)  # as Prefect does within a flow
        try:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except Foreign as error:
                raise SystemError("returned a result with an exception set") from error  # as numba's dispatcher does
        except Exception:
            print("failed fit")  # as model selection does
        announce("search")
        print("went on")
except Stopped as stopped:
    print(stopped, stopped.exit_code)
"""


def test_a_signal_that_another_handler_took_and_that_was_taken_for_a_failed_fit_ends_the_run():
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=60)
    assert done.stdout == "failed fit\nterminated; nothing was written 143\n", done.stderr


HELD = """
import os, signal
from flows.signals import stoppable
from tasks.errors import Stopped
try:
    with stoppable() as signals:
        try:
            with signals.held():
                os.kill(os.getpid(), signal.SIGTERM)
                print("done")
                raise OSError("of a server that is gone")
        except OSError:
            print("the signal was lost")
        print("not reached")
except Stopped as stopped:
    print(stopped.exit_code)
"""


def test_a_signal_waits_for_the_end_of_steps_that_belong_together_even_if_these_fail():
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("done\n143\n", "")


AFTER_ALL = """
import os, signal
from flows.signals import stoppable
from tasks.errors import Stopped
from tasks.progress import RECORDED, announce
try:
    with stoppable():
        announce(RECORDED)
        os.kill(os.getpid(), signal.SIGINT)
except Stopped as stopped:
    print(stopped)
"""


def test_a_signal_after_the_run_was_closed_says_that_it_is_kept():
    done = subprocess.run([sys.executable, "-c", AFTER_ALL], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted; the run is marked FINISHED in MLflow\n", done.stderr


FORKED = """
import multiprocessing, signal, time
from flows.signals import stoppable
from tasks.progress import announce

def tell(pipe):
    pipe.send([signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)])
    time.sleep(30)

before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
with stoppable() as signals:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=tell, args=(theirs,))
    child.start()
    assert ours.recv() == before
    child.terminate()
    child.join()
    assert child.exitcode == -signal.SIGTERM
    announce("fit", "cell")
    print("goes on")
    signal.raise_signal(signal.SIGINT)
"""


def test_a_worker_that_is_terminated_does_not_stop_the_run():
    """multiprocessing's pools end their workers by SIGTERM: a forked child has the pipe that the run listens to."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert done.stdout == "goes on\n"
    assert done.stderr.rstrip().endswith("Stopped: interrupted; nothing was written")
