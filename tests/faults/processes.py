"""Processes of ours under test: started as their users start them, behind a proxy of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from moorage.bench.controlplane import ADMIN, ControlPlane
from moorage.bench.processes import Child
from tests.faults.proxy import Proxy
from tests.faults.rules import Rule

READY_S = 60.0
POLL_S = 0.05


@dataclass(slots=True)
class Subject:
    """One process, or what is left of it, and its proxy."""

    name: str
    child: Child
    proxy: Proxy
    log: Path
    urls: Mapping[str, str] = field(default_factory=dict)
    """Where it serves: health, metrics."""
    may_end: bool = False
    """Somebody ended it, or it is allowed to end by itself."""

    @property
    def text(self) -> str:
        """What it has said so far."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text(errors="replace"))

    @property
    def breaches(self) -> list[str]:
        """It ended by itself, or something was not caught."""
        found = []
        if not self.child.running and not self.may_end:
            found.append(f"{self.name} ended by itself with {self.child.exit_code}: {self.child.complaint()}")
        if "Traceback" in self.text:
            found.append(f"{self.name} has a traceback in its log")
        return found

    async def kill(self) -> None:
        """End it as a crash would."""
        self.may_end = True
        await asyncio.to_thread(self.child.kill)

    async def stop(self) -> int | None:
        """End it as a kubelet would; its exit code."""
        self.may_end = True
        await asyncio.to_thread(self.child.stop, 20.0)
        return self.child.exit_code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program itself."""
        pid = self.child.pid
        if pid is not None:
            os.kill(pid, number)

    async def says(self, pattern: str, within_s: float = READY_S) -> bool:
        """Wait until its log has such a line."""
        return await until(lambda: re.search(pattern, self.text) or not self.child.running, within_s) and bool(
            re.search(pattern, self.text)
        )

    async def ready(self, within_s: float = READY_S) -> bool:
        """Wait until it says that it is ready, if it serves."""
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s and self.child.running:
            if await fetched(f"{self.urls['health']}/readyz") is not None:
                return True
            await asyncio.sleep(POLL_S)
        return False

    async def metric(self, name: str, **labels: str) -> float:
        """The sum over the series of a metric that have these labels."""
        page = await fetched(f"{self.urls['metrics']}/metrics") or ""
        found = 0.0
        for series, value in re.findall(rf"^{name}(?:\{{([^}}]*)\}})? (\S+)", page, re.MULTILINE):
            if all(f'{key}="{wanted}"' in series for key, wanted in labels.items()):
                found += float(value)
        return found

    async def dump(self, within_s: float = 10.0) -> dict[str, dict[str, Any]]:
        """What a scheduler knows of nodes, by name; it must log JSON."""
        before = self.log.stat().st_size
        self.signal(signal.SIGUSR2)

        def lines() -> list[dict[str, Any]]:
            with self.log.open("rb") as log:
                log.seek(before)
                return [json.loads(line) for line in log.read().splitlines() if line.endswith(b"}")]

        def is_whole() -> bool:
            return any("Dump of scheduling queue" in str(line.values()) for line in lines())

        await until(is_whole, within_s)
        return {line["node"]: line for line in lines() if "requested" in line and "node" in line}

    @property
    def rss_bytes(self) -> int:
        """Resident memory now."""
        return self._memory("VmRSS")

    @property
    def peak_bytes(self) -> int:
        """The most resident memory it ever had."""
        return self._memory("VmHWM")

    @property
    def cpu_s(self) -> float:
        """CPU time that it has used so far."""
        stat = Path(f"/proc/{self.child.pid}/stat")
        if not stat.exists():
            return 0.0
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _memory(self, key: str) -> int:
        pid = self.child.pid
        status = Path(f"/proc/{pid}/status")
        if pid is None or not status.exists():
            return 0
        return next(int(line.split()[1]) << 10 for line in status.read_text().splitlines() if line.startswith(key))


@dataclass(slots=True)
class Launcher:
    """Starts processes for one run, in a folder of its own; all of them end with `close`."""

    plane: ControlPlane
    folder: Path
    all: list[Subject] = field(default_factory=list)

    async def start(
        self,
        component: str,
        arguments: Sequence[str],
        *,
        rules: Iterable[Rule] = (),
        env: Mapping[str, str] | None = None,
        token_file: Path | None = None,
        urls: Mapping[str, str] | None = None,
        wrapper: Sequence[str] = (),
        direct: bool = False,
    ) -> Subject:
        """Start `moorage COMPONENT` with its kubeconfig pointing at a new proxy, or directly at the API server."""
        name = f"{component}-{len(self.all) + 1}"
        proxy = Proxy(self.plane, rules, token=None if token_file is None else self.plane.token_of(ADMIN.name))
        await proxy.__aenter__()
        kubeconfig = (
            self.plane.admin_kubeconfig
            if direct
            else proxy.kubeconfig(ADMIN.name, self.folder / f"{name}.kubeconfig", token_file=token_file)
        )
        command = [*wrapper, sys.executable, "-m", "moorage", component, *arguments, f"--kubeconfig={kubeconfig}"]
        log = self.folder / f"{name}.log"
        child = Child.start(name, command, log=log, env=None if env is None else {**os.environ, **env})
        self.all.append(Subject(name, child, proxy, log, urls or {}))
        return self.all[-1]

    async def close(self) -> None:
        """End all of them."""
        for subject in self.all:
            with contextlib.suppress(ProcessLookupError):
                subject.signal(signal.SIGCONT)
            await subject.kill()
            (self.folder / f"{subject.name}.writes").write_text("\n".join(subject.proxy.journal))
            await subject.proxy.__aexit__()


async def until(condition: Any, within_s: float) -> bool:
    """Wait until it holds; False if it does not in that time."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        await asyncio.sleep(POLL_S)
    return True


async def fetched(url: str) -> str | None:
    """What a server of ours says to a GET, None if nothing good. Its certificate is its own."""
    timeout = aiohttp.ClientTimeout(total=5.0)
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, ssl=False) as answer:
            return await answer.text() if answer.status == 200 else None
    return None
