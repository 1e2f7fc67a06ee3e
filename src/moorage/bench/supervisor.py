"""A process between us and a child that ends the child when we are gone, however we went.

Run as a program of its own, by path, with nothing but the standard library:

    python supervisor.py [--remove FOLDER] -- PROGRAM ARGUMENT...

Its standard input is a pipe from the process that started it. End of file on that pipe, or another parent than the
first one, means that the starter is dead, SIGKILL included: the child is killed and the folder, if one is named, is
removed. SIGTERM is passed on, SIGUSR1 kills the child and keeps the folder. It exits as the child does.

The kernel's own parent-death signal is not enough for the starter, since it fires when the *thread* that started the
child ends; it is used one level down, where there is only one thread, so that killing the supervisor ends the child.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LOOK_S = 1.0
REMOVE_PATIENCE_S = 10.0
PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run the child until it ends; the code is the child's own, or 128 plus the signal that ended it."""
    cut = arguments.index("--")
    remove = Path(arguments[1]) if arguments[0] == "--remove" else None
    starter = os.getppid()
    child = subprocess.Popen(
        arguments[cut + 1 :],
        stdin=subprocess.DEVNULL,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 there is one thread only
    )
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    signal.signal(signal.SIGUSR1, lambda *_: child.kill())
    orphaned = threading.Event()
    threading.Thread(target=_watch_starter, args=(starter, child, orphaned), daemon=True).start()
    code = child.wait()
    if orphaned.is_set() and remove is not None:
        _remove(remove)
    return code if code >= 0 else 128 - code


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch_starter(starter: int, child: subprocess.Popen[bytes], orphaned: threading.Event) -> None:
    # A signal that this thread took would wait for the main thread, which waits for the child.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    while os.getppid() == starter:
        # Nothing is ever written to the pipe, so readable means that its other end is closed.
        if select.select([0], [], [], LOOK_S)[0]:
            break
    orphaned.set()
    child.kill()


def _remove(folder: Path) -> None:
    """Remove a folder in which siblings, that are being killed right now, may still create files."""
    deadline = time.monotonic() + REMOVE_PATIENCE_S
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
