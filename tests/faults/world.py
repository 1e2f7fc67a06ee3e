"""One run of a scenario: a namespace, nodes and processes of its own on an API server that others may share.

    async def story(world: World) -> None:
        await workloads.mixed(world)                 # objects, and which of them are to be bound in the end
        await world.scheduler(rules=[...])           # a real process behind a proxy; no rules in the calm run
        await world.settled(60)

Nodes are found by a label, pods have the run's own schedulerName, and names begin with the run's name where they have
no namespace, so that runs do not meet.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.faults import checks, stopwatch
from tests.faults.auditor import Auditor
from tests.faults.checks import End, Terms
from tests.faults.history import History, is_leaving, node_of
from tests.faults.processes import Launcher, Subject
from tests.faults.rules import Rule
from tests.faults.stopwatch import Waits
from tests.gangs.cluster import Cluster, each

RUN = "faults.moorage.dev/run"
IMAGE = "registry.example/app:v1"
SEEN_S = 30.0
SAID_S = 8.0
"""How long events may take to be written after the last bind."""
AT_ONCE = 32

Object = dict[str, Any]


@dataclass(slots=True)
class World:
    """One run while it lasts."""

    name: str
    plane: ControlPlane
    cluster: Cluster
    auditor: Auditor
    folder: Path
    seed: int
    faulty: bool = True
    """False: the same run without the fault, for comparison."""
    terms: Terms = field(default_factory=Terms)
    figures: dict[str, float] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    wanted: set[str] = field(default_factory=set)
    """Names of pods that are bound in the end."""
    namespaces: list[str] = field(default_factory=list)
    """More of them, of other tenants."""
    began_s: float = field(default_factory=time.monotonic)
    rng: random.Random = field(init=False)
    launcher: Launcher = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.launcher = Launcher(self.plane, self.folder)

    # --- objects ---

    @property
    def pods_path(self) -> str:
        """Of this run's namespace."""
        return f"/api/v1/namespaces/{self.name}/pods"

    def node(self, stem: str, *, cpu: str = "4", labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
        """A node of this run, ready."""
        name, amounts = f"{self.name}-{stem}", {"cpu": cpu, "memory": "32Gi", "pods": "110"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, RUN: self.name, **(labels or {})}},
            "spec": spec,
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }

    def pod(
        self,
        name: str,
        *,
        cpu: str = "250m",
        port: int | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        """A pod for this run's scheduler and nodes."""
        container: Object = {"name": "c", "image": IMAGE, "resources": {"requests": {"cpu": cpu}}}
        if port is not None:
            container["ports"] = [{"containerPort": port, "hostPort": port}]
        metadata: Object = {"name": name, "namespace": self.name}
        metadata |= {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
        base = {"schedulerName": self.name, "nodeSelector": {RUN: self.name}, "terminationGracePeriodSeconds": 0}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**base, "containers": [container], **spec},
        }

    async def add_namespace(self, stem: str) -> str:
        """Make a namespace of another tenant."""
        self.namespaces.append(f"{self.name}-{stem}")
        await self.cluster.create("/api/v1/namespaces", {"metadata": {"name": self.namespaces[-1]}})
        return self.namespaces[-1]

    async def add_nodes(self, *nodes: Object) -> None:
        """Create nodes."""
        await self.each(self.cluster.create("/api/v1/nodes", node) for node in nodes)

    async def add_pods(self, *pods: Object, wanted: bool = True) -> None:
        """Create pods, many at a time; they are to be bound in the end unless said otherwise."""
        if wanted:
            self.wanted |= {pod["metadata"]["name"] for pod in pods}
        paths = [f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods" for pod in pods]
        await self.each(self.cluster.create(path, pod) for path, pod in zip(paths, pods, strict=True))

    async def add_pods_steadily(self, *pods: Object, per_s: float) -> None:
        """Create pods at this pace, or as fast as the API server can; none of them has to be bound."""
        began_s = time.monotonic()

        async def add(number: int, pod: Object) -> None:
            await asyncio.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
            await self.add_pods(pod, wanted=False)

        await self.each(add(number, pod) for number, pod in enumerate(pods))

    async def each(self, works: Iterable[Any]) -> None:
        """Await all of them, some at a time."""
        places = asyncio.Semaphore(AT_ONCE)

        async def one(work: Any) -> None:
            async with places:
                await work

        await each(one(work) for work in works)

    async def patch_node(self, stem: str, patch: Object) -> None:
        """Merge into a node of this run."""
        await self.patch(f"/api/v1/nodes/{self.name}-{stem}", patch)

    async def patch_pod(self, name: str, patch: Object, *, part: str = "") -> None:
        """Merge into a pod of this run, or into its status."""
        await self.patch(f"{self.pods_path}/{name}{part}", patch)

    async def patch(self, path: str, patch: Object) -> None:
        """Merge into any object."""
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self.cluster.session.patch(path, json=patch, headers=headers) as answer:
            if answer.status >= 400:
                raise RuntimeError(f"{path}: {answer.status} {await answer.text()}")

    async def delete_pods(self, *names: str) -> None:
        """Delete pods as the scenario's own doing."""
        self.terms = replace(self.terms, removed=self.terms.removed | set(names))
        self.wanted -= set(names)
        known = self.pods()
        going = {known[name]["metadata"]["uid"] for name in names if name in known}
        await self.each(self.cluster.delete(f"{self.pods_path}/{name}") for name in names)
        # A cache that is compared with what the auditor has not yet seen would look right.
        await self.until(lambda: not going & self._staying(), SEEN_S, "the auditor has seen what was deleted")

    def _staying(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods().values() if not is_leaving(pod)}

    async def delete_node(self, stem: str) -> None:
        """Delete a node."""
        await self.cluster.delete(f"/api/v1/nodes/{self.name}-{stem}")

    # --- processes ---

    def configuration(self, **fields: Any) -> Object:
        """A KubeSchedulerConfiguration with this run's profile."""
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": 1000, "burst": 2000},
            "profiles": [{"schedulerName": self.name}],
            **fields,
        }

    def election(self, **fields: Any) -> Object:
        """Leader election among this run's replicas."""
        return {"leaderElect": True, "resourceName": "scheduler", "resourceNamespace": self.name, **fields}

    def written(self, *documents: Object, name: str = "config.yaml") -> Path:
        """Write a configuration file."""
        path = self.folder / name
        path.write_text(yaml.safe_dump_all(documents))
        return path

    async def scheduler(
        self,
        *more: str,
        rules: Iterable[Rule] = (),
        config: Object | None = None,
        ready: bool = True,
        **options: Any,
    ) -> Subject:
        """Start a scheduler; rules hold only in the run with the fault."""
        path = self.written(config or self.configuration(), name=f"config-{len(self.launcher.all)}.yaml")
        port = free_ports(1)[0]
        url = f"https://127.0.0.1:{port}"
        open_paths = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"
        arguments = [f"--config={path}", f"--secure-port={port}", "--bind-address=127.0.0.1", open_paths]
        subject = await self.launcher.start(
            "scheduler",
            [*arguments, "--check-invariants", "--log-format=json", "--v=3", *more],
            rules=rules if self.faulty else (),
            urls={"health": url, "metrics": url},
            **options,
        )
        if ready:
            await self.is_ready(subject)
        return subject

    async def is_ready(self, subject: Subject) -> None:
        """Wait until a process is ready; there is no story without it."""
        if not await subject.ready():
            raise RuntimeError(f"{subject.name} did not become ready: {subject.child.complaint()}")

    # --- waiting and judging ---

    def pods(self) -> Mapping[str, Mapping[str, Any]]:
        """Pods of this run that are there, by name."""
        return {pod["metadata"]["name"]: pod for pod in self.auditor.now("pods", self.name)}

    def bound(self) -> set[str]:
        """Names of the pods that have a node."""
        return {name for name, pod in self.pods().items() if node_of(pod) and not is_leaving(pod)}

    async def until(self, condition: Callable[[], object], within_s: float, what: str) -> float:
        """Wait for something the auditor sees, a breach if it does not come; how long it took."""
        began_s = time.monotonic()
        if not await self.auditor.until(condition, within_s):
            self.breaches.append(f"not within {within_s:g} s: {what}")
        return time.monotonic() - began_s

    async def settled(self, within_s: float = 60.0) -> float:
        """Wait until all are bound that are to be, and all has been said about it; seconds until the last bind."""
        took_s = await self.until(self.is_settled, within_s, "all pods are bound that have to be")
        if missing := sorted(self.wanted - self.bound()):
            self.breaches.append(f"{len(missing)} pods are not bound, such as {missing[:3]}")
        await self.auditor.until(self._is_told, 1.0 if self.terms.events_may_be_lost else SAID_S)
        return took_s

    def is_settled(self) -> bool:
        """Whether all are bound that have to be, and nobody is on the way out."""
        pods = self.pods()
        return not any(map(is_leaving, pods.values())) and self.wanted <= self.bound()

    def _is_told(self) -> bool:
        events = self.auditor.now("events", self.name)
        told = {event["regarding"].get("uid") for event in events if event.get("reason") == "Scheduled"}
        # By uid: a pod may have had a namesake.
        return all(pod["metadata"]["uid"] in told for name, pod in self.pods().items() if name in self.wanted)

    def allow(self, **fields: Any) -> None:
        """Say what this scenario allows."""
        self.terms = replace(self.terms, **fields)

    def limit(self, figure: str, value: float, most: float) -> None:
        """Note a figure, and a breach if it is too large."""
        self.figures[figure] = round(value, 2)
        if value > most and self.faulty:
            self.breaches.append(f"{figure} is {value:.2f}, at most {most:g} is promised")

    def claim(self, holds: object, otherwise: str) -> None:
        """Note a breach unless it holds."""
        if not holds:
            self.breaches.append(otherwise)

    async def same_cache(self, subject: Subject, within_s: float) -> float:
        """Wait until what a scheduler knows of this run's nodes is what is there; how long that took."""
        began_s = time.monotonic()
        unlike = "nothing was dumped"
        while unlike and time.monotonic() - began_s < within_s:
            unlike = _unlike(await subject.dump(), self._truth())
        if unlike:
            self.breaches.append(f"after {within_s:g} s the cache of {subject.name} still differs: {unlike}")
        return time.monotonic() - began_s

    def _truth(self) -> dict[str, set[str]]:
        """Node -> keys of the pods on it, from a list of the auditor's."""
        nodes = {node["metadata"]["name"] for node in self.auditor.now("nodes", "")}
        found: dict[str, set[str]] = {name: set() for name in nodes if name.startswith(f"{self.name}-")}
        for name, pod in self.pods().items():
            if node_of(pod) in found:
                found[node_of(pod)].add(f"{self.name}/{name}")
        return found

    def history(self) -> History:
        """What the auditor saw of this run."""
        return self.auditor.history.part([self.name, *self.namespaces], f"{self.name}-")

    def p99_s(self, prefix: str) -> float:
        """How long after their creation 99 of 100 pods were bound, as the auditor saw both."""
        made: dict[str, float] = {}
        took: dict[str, float] = {}
        for seen in self.history().of("pods"):
            if seen.name.startswith(prefix):
                made.setdefault(seen.uid, seen.seen_s)
                if node_of(seen.object):
                    took.setdefault(seen.uid, seen.seen_s - made[seen.uid])
        ordered = sorted(took.values())
        return ordered[int(len(ordered) * 0.99)] if ordered else float("inf")

    def waits(self, prefix: str) -> Waits:
        """How long these pods waited for their nodes, by the API server's clock."""
        return stopwatch.waits(self.plane.audit_log, self.name, prefix)

    def judge(self, calm: End | None) -> End:
        """Take all breaches down, and return how it came out."""
        history = self.history()
        lag_s = self.auditor.lag_s(self.began_s)
        self.allow(late_s=checks.LATE_S + lag_s)
        if lag_s > checks.LATE_S:
            self.figures["laboratory late s"] = round(lag_s, 1)
        self.breaches += checks.audit(history, self.terms)
        for subject in self.launcher.all:
            self.breaches += subject.breaches
        end = checks.end_of(history, self.terms)
        if calm is not None:
            self.breaches += end.differs(calm)
        return end

    async def close(self) -> None:
        """End the processes and remove what would cost others time."""
        await self.launcher.close()
        for kind in ("deployments", "statefulsets", "replicasets"):
            path = f"/apis/apps/v1/namespaces/{self.name}/{kind}"
            found = (await self.cluster.get(path))["items"]
            await self.each(self.cluster.delete(f"{path}/{one['metadata']['name']}") for one in found)
        await self.each(self.cluster.delete(f"{self.pods_path}/{name}") for name in self.pods())
        nodes = [str(node["metadata"]["name"]) for node in self.auditor.now("nodes", "")]
        mine = [name for name in nodes if name.startswith(f"{self.name}-")]
        await self.each(self.cluster.delete(f"/api/v1/nodes/{name}") for name in mine)
        self.auditor.forget([self.name, *self.namespaces])


def _unlike(known: Mapping[str, Mapping[str, Any]], truth: Mapping[str, set[str]]) -> str:
    for name, pods in truth.items():
        if name not in known:
            return f"{name} is not known"
        if (found := {key.removesuffix(" (assumed)") for key in known[name]["pods"]}) != pods:
            return f"{name} holds {len(found)} pods there and {len(pods)} in the cluster"
    prefix = next(iter(truth), "").rpartition("-")[0]
    ghosts = [name for name in known if prefix and name.rpartition("-")[0] == prefix and name not in truth]
    return f"{ghosts[0]} is a ghost" if ghosts else ""
