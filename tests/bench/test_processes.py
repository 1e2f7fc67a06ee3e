"""Children never outlive their starter, and say why they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.bench.processes import Child, PortTakenError, ProcessError, free_ports
from tests.patience import await_true

# Writes its process id and then waits; the marker in its arguments makes it easy to find.
SLEEPER = ["/bin/sh", "-c", 'echo $$ > "$1.new"; mv "$1.new" "$1"; exec sleep 600', "sleeper"]


def exists(pid: int) -> bool:
    try:
        # A zombie is gone for our purposes: nobody but its parent can see it.
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def sleeper_pid(mark: Path) -> int:
    await_true(mark.exists)
    return int(mark.read_text())


def test_stop_ends_a_child_that_listens(tmp_path: Path) -> None:
    """SIGTERM reaches the child, and its exit code reaches us."""
    ready = tmp_path / "ready"
    script = f'trap "exit 7" TERM; touch {ready}; while :; do sleep 0.02; done'
    with Child.start("polite", ["/bin/sh", "-c", script], log=tmp_path / "log") as child:
        child.wait_until(ready.exists, timeout_s=30)
        child.stop()
        assert child.exit_code == 7


def test_stop_kills_a_child_that_does_not_listen(tmp_path: Path) -> None:
    """When the grace is over the child is gone all the same."""
    mark = tmp_path / "pid"
    script = f'trap "" TERM; echo $$ > {mark}.new; mv {mark}.new {mark}; while :; do sleep 0.02; done'
    child = Child.start("deaf", ["/bin/sh", "-c", script], log=tmp_path / "log")
    pid = sleeper_pid(mark)
    child.stop(grace_s=0.2)
    assert not child.running
    assert not exists(pid)
    child.stop()


def test_killing_keeps_the_folder(tmp_path: Path) -> None:
    """A child may be killed and started again on the same files."""
    mark = tmp_path / "folder" / "pid"
    mark.parent.mkdir()
    child = Child.start("etcd", [*SLEEPER, str(mark)], log=tmp_path / "log", remove_when_orphaned=mark.parent)
    pid = sleeper_pid(mark)
    child.kill()
    assert not exists(pid)
    assert mark.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_a_child_ends_with_its_starter(tmp_path: Path, number: signal.Signals) -> None:
    """However the starter ends, its child ends too and the folder is removed."""
    folder = tmp_path / "folder"
    folder.mkdir()
    mark = tmp_path / "pid"
    script = (
        "import sys, threading\nfrom pathlib import Path\nfrom moorage.bench.processes import Child\n"
        "folder, log, *command = sys.argv[1:]\n"
        "start = lambda: Child.start('x', command, log=Path(log), remove_when_orphaned=Path(folder))\n"
        # The thread that starts a child may end long before the process does.
        "starter = threading.Thread(target=lambda: kept.append(start()))\nkept = []\nstarter.start()\nstarter.join()\n"
        "threading.Event().wait()\n"
    )
    arguments = [sys.executable, "-c", script, str(folder), str(tmp_path / "log"), *SLEEPER, str(mark)]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        pid = sleeper_pid(mark)
        assert exists(pid)
        process.send_signal(number)
    await_true(lambda: not exists(pid))
    await_true(lambda: not folder.exists())


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux'")
def test_a_child_ends_with_its_supervisor(tmp_path: Path) -> None:
    """Not even the death of the process in between leaves a child behind."""
    mark = tmp_path / "pid"
    child = Child.start("x", [*SLEEPER, str(mark)], log=tmp_path / "log")
    pid = sleeper_pid(mark)
    os.kill(child._process.pid, signal.SIGKILL)
    await_true(lambda: not exists(pid))
    child.stop()


@pytest.mark.parametrize(
    ("script", "want_error", "want"),
    [
        pytest.param(
            "echo starting; echo 'Error: unknown flag: --x' >&2; echo usage; exit 3",
            ProcessError,
            "thing ended with code 3: Error: unknown flag: --x",
            id="says-error",
        ),
        pytest.param("exit 1", ProcessError, "thing ended with code 1: no output", id="says-nothing"),
        pytest.param(
            "echo 'listen tcp 127.0.0.1:80: bind: address already in use'; exit 1",
            PortTakenError,
            "address already in use",
            id="port-taken",
        ),
    ],
)
def test_a_child_that_ends_too_early_says_why(
    tmp_path: Path, script: str, want_error: type[ProcessError], want: str
) -> None:
    """The error names the child, its code and the telling line of its log."""
    with (
        Child.start("thing", ["/bin/sh", "-c", script], log=tmp_path / "log") as child,
        pytest.raises(want_error, match=want) as caught,
    ):
        child.wait_until(lambda: False, timeout_s=30)
    assert type(caught.value) is want_error


def test_a_child_that_is_never_ready_is_an_error(tmp_path: Path) -> None:
    """Waiting ends at the deadline."""
    with (
        Child.start("slow", ["sleep", "600"], log=tmp_path / "log") as child,
        pytest.raises(ProcessError, match="slow is not ready after 0 s"),
    ):
        child.wait_until(lambda: False, timeout_s=0.1)


def test_free_ports_are_different_and_free() -> None:
    """As many ports as asked for, all of them different."""
    assert len(set(free_ports(20))) == 20
