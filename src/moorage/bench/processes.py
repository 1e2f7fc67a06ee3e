"""Child processes of the benchmarks and tests, each with a log file and none that outlives us.

Invariant: a child ends when its starter does, also after SIGKILL; `supervisor.py` sees to it.
"""

from __future__ import annotations

import contextlib
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from moorage.bench import supervisor
from moorage.bench.processcost import only_child
from moorage.core.values import dataclass

# Below the range from which the kernel picks ports of outgoing connections, so that none of them comes in between.
FIRST_PORT, LAST_PORT = 20_000, 32_000
POLL_S = 0.05


class ProcessError(Exception):
    """A child did not start, or ended when it should not have; the message is one line."""


class PortTakenError(ProcessError):
    """A child ended because another process listens on its port."""


@dataclass(frozen=True, slots=True)
class Child:
    """A running child. `stop` ends it; as a context manager it is stopped at the end of the block."""

    name: str
    log: Path
    url: str | None
    _process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls,
        name: str,
        arguments: Sequence[str],
        *,
        log: Path,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        remove_when_orphaned: Path | None = None,
    ) -> Self:
        """Start a program with its output in the log file; the folder is removed if we die without stopping it.

        url is where the child serves.
        """
        removal = [] if remove_when_orphaned is None else ["--remove", str(remove_when_orphaned)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, *removal, "--", *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=None if env is None else dict(env),
                # Ctrl-C in a terminal goes to the whole group; we stop our children ourselves, in order.
                process_group=0,
            )
        return cls(name, log, url, process)

    @property
    def running(self) -> bool:
        """Whether the child is still there."""
        return self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """Process id of the program itself, not of its supervisor; None before it started and after it ended."""
        return only_child(self._process.pid)

    @property
    def exit_code(self) -> int | None:
        """Its exit code, 128 plus the number if a signal ended it, None while it runs."""
        return self._process.poll()

    def stop(self, grace_s: float = 5.0) -> None:
        """Ask it to end, and kill it when the grace is over. Stopping twice is fine."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self.kill()

    def kill(self) -> None:
        """End it at once, with no chance to clean up, as a crash would."""
        if self.running:
            self._process.send_signal(signal.SIGUSR1)
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait_until(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Poll until it is ready; a child that ends or takes too long is an error that says why."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                kind = PortTakenError if "address already in use" in self._log_text() else ProcessError
                raise kind(f"{self.name} ended with code {self.exit_code}: {self.complaint()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} is not ready after {timeout_s:.0f} s: {self.complaint()}")
            time.sleep(POLL_S)

    def complaint(self) -> str:
        """Return the line of the log that says best why it ended."""
        lines = [line for line in self._log_text().splitlines() if line.strip()]
        telling = [line for line in lines if re.search(r"^E\d{4}|^F\d{4}|error|panic|fatal", line, re.IGNORECASE)]
        return (telling or lines or ["no output"])[-1].strip()[:400]

    def _log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def free_ports(count: int) -> list[int]:
    """Free loopback ports; a child that still finds one taken has to be started again."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.append(candidate)
            try:
                candidate.bind(("127.0.0.1", random.randrange(FIRST_PORT, LAST_PORT)))
            except OSError:
                held.pop().close()
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()
