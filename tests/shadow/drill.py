"""The shadow drill: a shadow with the same profile beside a real kube-scheduler on a real API server.

    python -m tests.shadow.drill [--nodes 500] [--pods 2000] [--burst 5000] [--broken 300]

Pods of many kinds come one after another: every decision must be the same node or a tie. Then a profile in which one
plugin counts the other way round: the report must name it. Then many pods come at once, so that nobody can see the
order of decisions: each difference is judged again with the neighbouring binds undone, and what no order explains is
listed. Last, a shadow that goes on with its own placements. Exit code 1 if the first part differs anywhere, or the
plugin is not named.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.bench.clustercreation import NAMESPACES, NODES, PODS, create_all
from moorage.bench.clusterload import NAMESPACE, Manifest
from moorage.bench.clusterwatch import Watcher, settled
from moorage.bench.controlplane import ControlPlane, ControlPlaneError
from tests.patience import eventually
from tests.shadow import workload
from tests.shadow.running import OPTIONS, UPSIDE_DOWN, ShadowRun, allow_reading, shadowing, start_kube_scheduler

PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Result:
    """One part of the drill."""

    name: str
    report: dict[str, Any]
    took_s: float
    peak_mb: float

    def line(self) -> str:
        """It in a line."""
        decisions, cost = self.report["decisions"], self.report["cost"]
        counts = ", ".join(f"{number} {name}" for name, number in decisions.items() if number)
        lag = cost["lagSeconds"]
        return (
            f"{self.name}: {counts}; agreement {self.report['agreement'] or 0:.2%}; "
            f"{cost['cpuMillisecondsPerDecision']} ms CPU a decision, lag p50 {lag['p50']} s, p99 {lag['p99']} s, max "
            f"{lag['max']} s; {self.peak_mb:.0f} MB; {self.took_s:.0f} s"
        )


class Drill:
    """One cluster with its kube-scheduler."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane = plane
        self._folder = folder

    def fill(self, nodes: int) -> None:
        """Create the nodes, the namespace and services, and start kube-scheduler."""
        allow_reading(self._plane)
        everything = [
            (NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            *((NODES, node) for node in workload.nodes(nodes)),
            *workload.services(),
        ]
        asyncio.run(self._create(everything[:1]))
        asyncio.run(self._create(everything[1:]))
        start_kube_scheduler(self._plane)

    async def _create(self, objects: list[tuple[str, Manifest]]) -> None:
        async with self._client() as client:
            await create_all(client, objects, lambda: None)

    def _client(self) -> KubeClient:
        return KubeClient(load_credentials(str(self._plane.admin_kubeconfig)))

    def one_by_one(self, name: str, count: int, *flags: str, config: dict[str, Any] | None = None) -> Result:
        """Create pods one after another, each when the one before has a node."""
        return self._run(name, count, self._one_by_one(workload.pods(name, count)), flags, config)

    def burst(self, name: str, count: int, *flags: str) -> Result:
        """Create pods all at once."""
        return self._run(name, count, self._burst([*workload.pods(name, count)]), flags, None)

    def _run(self, name: str, count: int, work: Any, flags: tuple[str, ...], config: dict[str, Any] | None) -> Result:
        with shadowing(self._plane, self._folder, *flags, config=config, name=name) as run:
            began_s = time.monotonic()
            asyncio.run(work)
            self._catch_up(run, count)
            took_s = time.monotonic() - began_s
            report = run.end()
            return Result(name, report, took_s, run.peak_bytes / 1e6)

    def _catch_up(self, run: ShadowRun, count: int) -> None:
        eventually(lambda: run.counted() >= count, 600, lambda: f"{run.counted()} of {count} decisions\n{run.text()}")

    async def _one_by_one(self, pods: Iterator[Manifest]) -> None:
        async with self._client() as client:
            watcher = Watcher()
            async with watcher.watching(client):
                for body in pods:
                    name = body["metadata"]["name"]
                    await client.request("POST", PODS, body=msgspec.json.encode(body))
                    await self._bound(watcher, {name})

    async def _burst(self, pods: list[Manifest]) -> None:
        async with self._client() as client:
            watcher = Watcher()
            async with watcher.watching(client):
                await create_all(client, ((PODS, body) for body in pods), lambda: None)
                await self._bound(watcher, {body["metadata"]["name"] for body in pods})

    async def _bound(self, watcher: Watcher, names: set[str]) -> None:
        if not await settled(watcher, lambda: names <= watcher.bound_at_s.keys(), lambda: None, PATIENCE_S):
            raise ControlPlaneError(f"not bound: {sorted(names - watcher.bound_at_s.keys())[:5]}")


def problems(results: dict[str, Result]) -> list[str]:
    """What must not be; an order that explains a difference is looked for, and need not be found."""
    found = []
    decisions = results["single"].report["decisions"] if "single" in results else {}
    off = {verdict: number for verdict, number in decisions.items() if verdict not in _FINE and number}
    if off:
        found.append(f"single: {off}")
    if "broken" in results and "NodeResourcesFit" not in " ".join(results["broken"].report["conclusions"][:1]):
        found.append(f"broken: {results['broken'].report['conclusions']}")
    return found


_FINE = ("total", "same", "tie")


def main(arguments: list[str]) -> int:
    """Run the parts that are asked for, and say what came of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.shadow.drill", description=__doc__)
    for name, number in (("nodes", 500), ("pods", 2000), ("burst", 5000), ("broken", 300), ("own", 500)):
        parser.add_argument(f"--{name}", type=int, default=number)
    asked = parser.parse_args(arguments)
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory() as folder, ControlPlane.start(OPTIONS) as plane:
        drill = Drill(plane, Path(folder))
        drill.fill(asked.nodes)
        parts: dict[str, Callable[[], Result]] = {
            "single": lambda: drill.one_by_one("single", asked.pods),
            "broken": lambda: drill.one_by_one("broken", asked.broken, config=UPSIDE_DOWN),
            "burst": lambda: drill.burst("burst", asked.burst),
            "own": lambda: drill.burst("own", asked.own, "--mode=own"),
        }
        for name, part in parts.items():
            if getattr(asked, "pods" if name == "single" else name):
                results[name] = part()
                listed = results[name].report["differences"][-5:] if name in ("single", "burst") else ()
                _say(results[name].line(), *results[name].report["conclusions"], *listed)
    wrong = problems(results)
    _say(*(wrong or ["as it should be"]))
    return 1 if wrong else 0


def _say(*lines: object) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
