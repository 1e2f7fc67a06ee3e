"""The replicas of the takeover drill: `moorage scheduler` as the chart runs it, in processes that can be signalled."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from moorage.bench.controlplane import ControlPlane
from tests.deploy.chart import account_kubeconfig, installed_configuration

VERBOSITY = 3
"""From which the log says what was decided, before it is bound."""
POLL_S = 0.02
STOP_S = 20.0
_STANDING_BY = re.compile(r"attempting to acquire leader lease.*?identity=(\S+)")
_DECIDED = re.compile(r"Attempting to bind pod to node.*?pod=default/(\S+)")


class DrillError(Exception):
    """The drill cannot go on; the text is one line."""


@dataclass(slots=True)
class Replica:
    """A running scheduler, or what is left of it."""

    name: str
    process: subprocess.Popen[bytes]
    log_file: Path
    _identity: str = ""

    @property
    def log(self) -> str:
        """What it has said so far, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log_file.read_text(errors="replace"))

    @property
    def identity(self) -> str:
        """Its name in the Lease; empty until it knows the whole cluster and stands by."""
        if not self._identity and (found := _STANDING_BY.search(self.log)):
            self._identity = found[1]
        return self._identity

    @property
    def decided(self) -> set[str]:
        """Pods that it wanted to bind, by name."""
        return set(_DECIDED.findall(self.log))

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self.process.poll() is None


class Replicas:
    """Two replicas with the account and the configuration of the installed chart; a context manager."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.all: list[Replica] = []
        self._folder = folder
        self._kubeconfig = account_kubeconfig(plane, folder, "scheduler")
        self._config = installed_configuration(plane, folder)

    @property
    def kubeconfig(self) -> Path:
        """Credentials of the chart's account."""
        return self._kubeconfig

    @property
    def running(self) -> list[Replica]:
        """Those whose process is there."""
        return [replica for replica in self.all if replica.running]

    def start(self) -> Replica:
        """Start one more."""
        name = f"replica-{len(self.all) + 1:02}"
        log = self._folder / f"{name}.log"
        files = [f"--kubeconfig={self._kubeconfig}", f"--config={self._config}"]
        command = [sys.executable, "-m", "moorage", "scheduler", *files, "--secure-port=0", f"--v={VERBOSITY}"]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        self.all.append(Replica(name, process, log))
        return self.all[-1]

    async def ready(self, replica: Replica, within_s: float) -> None:
        """Wait until it stands by, or leads."""
        what = f"{replica.name} stands by"
        await until(lambda: bool(replica.identity) or not replica.running, what, within_s)
        if not replica.running:
            raise DrillError(f"{replica.name} ended with code {replica.process.returncode}: {replica.log[-400:]!r}")

    def named(self, identity: str) -> Replica:
        """The one with this name in the Lease."""
        found = next((replica for replica in self.all if replica.identity == identity), None)
        if found is None:
            raise DrillError(f"the lease names {identity}, which is none of ours")
        return found

    async def stop(self) -> list[int]:
        """Tell all to stop, and wait; their exit codes."""
        ending = self.running
        for replica in ending:
            replica.process.send_signal(signal.SIGTERM)
        await until(lambda: not self.running, "all replicas have ended", STOP_S)
        return [replica.process.returncode for replica in ending]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for replica in self.running:
            replica.process.send_signal(signal.SIGCONT)
            replica.process.kill()
        for replica in self.all:
            replica.process.wait()


async def until(condition: Callable[[], object], what: str, within_s: float) -> None:
    """Wait until it holds; DrillError if it does not in that time."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise DrillError(f"not within {within_s:g} s: {what}")
        await asyncio.sleep(POLL_S)


async def meanwhile(*works: Awaitable[object]) -> None:
    """Await all of them; the first error ends the others."""

    async def one(work: Awaitable[object]) -> None:
        await work

    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(one(work))
    except* DrillError as errors:
        raise errors.exceptions[0] from None
