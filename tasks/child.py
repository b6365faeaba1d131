"""Child processes that end with their parent, even one that is killed.

The parent holds the other end of the child's standard input. The system closes it when the parent ends, however that
comes about, and the child then ends itself as by SIGTERM.
"""

import gc
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

GRACE_S = 10  # from SIGTERM to the end, if that was not heard
# Objects made between two looks for garbage. At Python's 700, a tenth of an import of Prefect or MLflow is spent on
# looking through modules, which are none.
OBJECTS = 50_000


def start_child(
    module: str, *arguments: str, env: Mapping[str, str], log: Path, linger_s: float = 0
) -> subprocess.Popen[bytes]:
    """Run a module in a process and a group of its own; without its parent it lives ``linger_s`` seconds at most.

    What it says goes into ``log``. Signals of the terminal do not reach it: its parent is to end it.
    """
    # -P: a folder of the user's with the name of a package of ours is not ours
    command = [sys.executable, "-P", "-m", "tasks.child", str(linger_s), module, *arguments]
    with log.open("wb") as stream:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=stream, stderr=stream, env=dict(env), start_new_session=True
        )


def end_child(child: subprocess.Popen[bytes], patience_s: float) -> None:
    """End a child by SIGTERM and, if that takes too long, by SIGKILL."""
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdin is not None:
        child.stdin.close()


def end_with_parent(linger_s: float) -> None:
    """Wait for the parent's end, then end this process."""
    while os.read(0, 1):
        pass
    time.sleep(linger_s)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(128 + signal.SIGTERM)


def main() -> None:
    """Run a module as a program in this process, which is a child."""
    linger_s, module, *arguments = sys.argv[1:]
    gc.set_threshold(OBJECTS)
    Thread(target=end_with_parent, args=(float(linger_s),), name="end-with-parent", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
