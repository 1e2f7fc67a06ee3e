"""The reclaim drill: one team takes back its share from another, and the scheduler is killed again and again meanwhile.

    python -m tests.queues.drill [--pods 400] [--reclaim 100] [--every 10]

Team b runs on all nodes, beyond its quota. Then team a asks for its own. The scheduler runs behind a proxy that stops
it at every tenth eviction, in turns before it is forwarded and after it was answered; it is killed (SIGKILL), and the
next one is started. A controller makes evicted pods anew. At the end each team has exactly its quota, as many pods of b
were evicted as a needed, none of a was, and no pod has changed its node: the same end as without any kill, which is
tried first. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.bench.controlplane import ADMIN, ControlPlane, ControlPlaneError, Options
from moorage.bench.kubelet import VirtualKubelet
from moorage.bench.processes import Child
from moorage.core.queues import QUEUE_LABEL
from tests.faults.proxy import Proxy
from tests.faults.rules import DELETE, EVICT, Rule, Stop
from tests.gangs import subjects
from tests.gangs.cluster import Cluster, PodWatch, each

CRD = Path(__file__).parents[2] / "deploy" / "crds" / "queues.yaml"
PER_NODE = 8
PATIENCE_S = 300.0
QUIET_S = 3.0
"""So long nothing may happen at the end."""
EVICTIONS = f"{EVICT}|{DELETE}"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is at stake."""

    pods: int
    reclaimed: int
    every: int

    @property
    def quotas(self) -> dict[str, int]:
        """Team -> how many pods it is guaranteed."""
        return {"a": self.reclaimed, "b": self.pods - self.reclaimed}


@dataclass(slots=True)
class TeamLedger:
    """What a watch of pods shows."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Pod -> its node."""
    teams: dict[str, str] = field(default_factory=dict)
    """Pod that is there -> its team."""
    evicted: Counter[str] = field(default_factory=Counter)
    """Team -> pods that left a node."""
    moved: list[str] = field(default_factory=list)

    def see(self, kind: str, pod: Object) -> None:
        """An event of the watch."""
        name, team = pod["metadata"]["name"], pod["metadata"]["labels"][QUEUE_LABEL]
        node, known = pod["spec"].get("nodeName"), self.nodes.get(name)
        if node is not None and known not in (None, node):
            self.moved.append(f"{name} went from {known} to {node}")
        if kind == "DELETED" or pod["metadata"].get("deletionTimestamp"):
            if self.teams.pop(name, None) and node is not None:
                self.evicted[team] += 1
            return
        self.teams[name] = team
        if node is not None:
            self.nodes[name] = node

    def count(self, team: str, *, bound: bool = True) -> int:
        """How many pods of a team are there, with a node or without."""
        return sum(each == team and (name in self.nodes) is bound for name, each in self.teams.items())


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended."""

    bound: dict[str, int]
    waiting: dict[str, int]
    evicted: dict[str, int]
    kills: int
    moved: tuple[str, ...]
    took_s: float

    def breaches(self, size: Size) -> list[str]:
        """What must not be."""
        found = list(self.moved)
        want = {"a": 0, "b": size.reclaimed}
        found += [f"team {team} has {self.bound[team]} of {least}" for team, least in size.quotas.items()
                  if self.bound[team] != least]  # fmt: skip
        found += [f"{self.waiting[team]} pods of team {team} wait, not {count}" for team, count in want.items()
                  if self.waiting[team] != count]  # fmt: skip
        found += [f"{self.evicted[team]} pods of team {team} were evicted, not {count}" for team, count in want.items()
                  if self.evicted[team] != count]  # fmt: skip
        return found

    def __str__(self) -> str:
        return (
            f"{self.kills} kills: a has {self.bound['a']}, b {self.bound['b']}; {self.waiting['b']} of b wait; "
            f"{self.evicted['b']} of b evicted, {self.evicted['a']} of a; {self.took_s:.0f} s"
        )


class ReclaimDrill:
    """One control plane with nodes and queues; `folder` takes logs and kubeconfigs."""

    def __init__(self, plane: ControlPlane, folder: Path, size: Size) -> None:
        self._plane, self._folder, self._size = plane, folder, size
        self._started = 0

    async def run(self, kills: Sequence[bool]) -> list[End]:
        """A run for each of these, in which the scheduler is killed or not."""
        client = KubeClient(load_credentials(str(self._plane.admin_kubeconfig)), user_agent="virtual-kubelet")
        async with Cluster(self._plane) as cluster, client, VirtualKubelet(client, adopt_all=True):
            await self._set_up(cluster)
            return [await self._one(cluster, f"run-{number}", killed=killed) for number, killed in enumerate(kills)]

    async def _set_up(self, cluster: Cluster) -> None:
        crd = yaml.safe_load(CRD.read_text())
        await cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for name, quota in self._size.quotas.items():
            body = {"apiVersion": "moorage.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}}
            body["spec"] = {"resources": {"cpu": {"quota": str(quota)}}}
            await cluster.create_until_served("/apis/moorage.dev/v1alpha1/queues", body)
        nodes = self._size.pods // PER_NODE
        await each(cluster.create("/api/v1/nodes", _node(f"n{number}")) for number in range(nodes))

    async def _one(self, cluster: Cluster, namespace: str, *, killed: bool) -> End:
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        ledger, pods, size = TeamLedger(), f"/api/v1/namespaces/{namespace}/pods", self._size
        async with contextlib.AsyncExitStack() as stack:
            watch = await stack.enter_async_context(PodWatch(cluster, namespace, ledger))  # type: ignore[arg-type]
            async with self._scheduler(namespace, ()):
                await each(cluster.create(pods, _pod(f"b-{number}", "b", namespace)) for number in range(size.pods))
                await watch.until(lambda: ledger.count("b") == size.pods, PATIENCE_S)
            controller = asyncio.ensure_future(self._controller(cluster, pods, watch, ledger))
            stack.callback(controller.cancel)
            began_s = time.monotonic()
            await each(cluster.create(pods, _pod(f"a-{number}", "a", namespace)) for number in range(size.reclaimed))
            kills = await self._kill(namespace) if killed else 0
            async with self._scheduler(namespace, ()):
                await self._rest(watch, ledger)
            end = End(
                {team: ledger.count(team) for team in size.quotas},
                {team: ledger.count(team, bound=False) for team in size.quotas},
                {team: ledger.evicted[team] for team in size.quotas}, kills, (*ledger.moved, *watch.lost),
                time.monotonic() - began_s,
            )  # fmt: skip
        await each(cluster.delete(f"{pods}/{name}") for name in list(ledger.teams))
        return end

    async def _kill(self, namespace: str) -> int:
        """Kill schedulers at every tenth eviction, for as long as evictions are due; how many."""
        for number in range(self._size.reclaimed // self._size.every):
            rule = Rule(act=Stop(before=number % 2 == 1), verb=EVICTIONS, path="/pods/", nth=self._size.every)
            async with self._scheduler(namespace, (rule,)) as (proxy, child):
                deadline_s = time.monotonic() + PATIENCE_S
                while child.running and not proxy.reached.is_set() and time.monotonic() < deadline_s:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(proxy.reached.wait(), 0.2)
                if not proxy.reached.is_set():
                    return number
        return self._size.reclaimed // self._size.every

    async def _rest(self, watch: PodWatch, ledger: TeamLedger) -> None:
        """Wait until everything is where it belongs, and nothing happens any more."""
        quotas = self._size.quotas
        await watch.until(lambda: all(ledger.count(team) == count for team, count in quotas.items()), PATIENCE_S)
        with contextlib.suppress(TimeoutError):
            while True:
                await asyncio.wait_for(watch.next_change(), QUIET_S)

    async def _controller(self, cluster: Cluster, pods: str, watch: PodWatch, ledger: TeamLedger) -> None:
        """Make pods of b anew that are gone."""
        namespace, made = pods.split("/")[4], 0
        while True:
            while self._size.pods + made - ledger.evicted["b"] < self._size.pods:
                made += 1
                await cluster.create(pods, _pod(f"b-again-{made}", "b", namespace))
            await watch.next_change()

    @contextlib.asynccontextmanager
    async def _scheduler(self, namespace: str, rules: Sequence[Rule]) -> AsyncIterator[tuple[Proxy, Child]]:
        """A scheduler behind a proxy, killed without warning at the end of the block."""
        self._started += 1
        stem = self._folder / f"{namespace}-{self._started:02}"
        async with Proxy(self._plane, rules) as proxy:
            kubeconfig = proxy.kubeconfig(ADMIN.name, stem.with_suffix(".kubeconfig"))
            child = subjects.start("moorage", self._plane, kubeconfig, namespace, stem.with_suffix(".log"))
            try:
                yield proxy, child
            finally:
                await asyncio.to_thread(child.kill)
                stem.with_suffix(".writes").write_text("".join(f"{line}\n" for line in proxy.journal))


def _node(name: str) -> Object:
    amounts = {"cpu": str(PER_NODE), "memory": "32Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def _pod(name: str, team: str, scheduler: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
    metadata = {"name": name, "labels": {QUEUE_LABEL: team}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=400, help="pods that the nodes have room for (400)")
    parser.add_argument("--reclaim", type=int, default=100, help="quota of team a (100)")
    parser.add_argument("--every", type=int, default=10, help="evictions from kill to kill (10)")
    parser.add_argument("--logs", type=Path, default=None, help="folder for the schedulers' logs, kept")
    options = parser.parse_args()
    size = Size(options.pods, options.reclaim, options.every)
    try:
        with tempfile.TemporaryDirectory(prefix="moorage-drill-") as scratch, ControlPlane.start(Options()) as plane:
            folder = options.logs or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            ends = asyncio.run(ReclaimDrill(plane, folder, size).run((False, True)))
    except ControlPlaneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for end in ends:
        sys.stdout.write("".join(f"{line}\n" for line in (str(end), *end.breaches(size))))
    return int(any(end.breaches(size) for end in ends))


if __name__ == "__main__":
    sys.exit(main())
