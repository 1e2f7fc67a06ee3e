"""A cluster that two tenants share: what the hostile one adds, and what becomes of the other one's workloads.

The engine is the real one with every rule that tenants can reach; API server and controllers are the embedded ones.
Work is counted in calls of functions inside the engine, which does not depend on the machine.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.adapters.memory.runner import CommandRunner
from moorage.app.plugins import find_plugins
from moorage.core.commands import Command, RecordEvent
from moorage.core.events import Event
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import Profile
from moorage.sim.feed import Feed
from moorage.wire.configuration import read_configuration

Object = dict[str, Any]
GOOD, EVIL = "good", "evil"
NODES = 12
_CONFIG = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: moorage
  plugins:
    multiPoint:
      enabled:
      - name: PlacementStrategy
      - name: ControllerSpread
      - name: PriorityAnnotation
  pluginConfig:
  - name: PriorityAnnotation
    args: {keys: [priority], max: 100, namespaces: [good]}
"""
_STRATEGY = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"
_REPLICAS = 6


def profiles() -> tuple[Profile, ...]:
    """One profile with every rule."""
    reading = read_configuration(_CONFIG, "arena", find_plugins().registry)
    assert not reading.problems, reading.problems
    return tuple(reading.profiles)


class Arena:
    """One cluster, and the scheduler that both tenants use."""

    def __init__(self) -> None:
        self._cluster = EmbeddedCluster(SIMULATION)
        self._runner = CommandRunner(self._cluster.store)
        self._feed = Feed(self._cluster)
        self.engine = Engine(profiles(), EngineSettings())
        self.events: Counter[tuple[str, str]] = Counter()
        """(namespace, reason) of what was told."""
        self.calls = 0
        """Calls inside the engine so far."""
        self.load(map(_node, range(NODES)))

    def load(self, objects: Iterable[Object]) -> None:
        """Objects appear, and everybody reacts until nothing happens any more."""
        self._cluster.load(objects)
        self.settle()

    def settle(self, seconds: float = 0.0) -> None:
        """Let some time pass, and everybody react."""
        self._cluster.advance(self._cluster.now_s + seconds)
        answers: list[Event] = []
        while True:
            self._cluster.step()
            seen = [*answers, *self._feed.pull()]
            commands = self._handle(seen)
            if not seen and not commands:
                return
            answers = [answer for command in commands if (answer := self._runner.run(command)) is not None]

    def clear(self, namespace: str) -> None:
        """Everything of a tenant vanishes at once."""
        for kind in ("Deployment", "ReplicaSet", "PodDisruptionBudget", "PlacementPolicy", "Pod"):
            for found in [each["metadata"] for each in self._cluster.store.list(kind)]:
                if found["namespace"] == namespace:
                    self._cluster.delete(kind, namespace, found["name"], grace_s=0)
        self.settle()

    def _handle(self, events: list[Event]) -> list[Command]:
        def count(_frame: object, event: str, _argument: object) -> None:
            self.calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            commands, _ = self.engine.handle(events, self._cluster.now_s)
        finally:
            sys.setprofile(None)
        for command in commands:
            if isinstance(command, RecordEvent):
                self.events[command.pod.namespace, command.reason] += 1
        return commands

    def pods(self, namespace: str) -> list[Object]:
        """The pods of a namespace."""
        return [dict(pod) for pod in self._cluster.store.list("Pod") if pod["metadata"]["namespace"] == namespace]

    def placed(self, namespace: str = GOOD) -> dict[str, list[str]]:
        """App -> the nodes of its pods, the empty text for a pod without one."""
        found: dict[str, list[str]] = defaultdict(list)
        for pod in self.pods(namespace):
            found[pod["metadata"]["labels"]["app"]].append(pod["spec"].get("nodeName") or "")
        return dict(found)


def _node(number: int) -> Object:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "100Gi"}
    labels = {
        "kubernetes.io/hostname": f"n{number}",
        "topology.kubernetes.io/zone": f"z{number % 3}",
        "node-type": "spot" if number % 2 else "ondemand",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, namespace: str = EVIL, *, meta: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    """A pod, the hostile tenant's unless said otherwise."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "labels": {"app": name},
            **(meta or {}),
        },
        "spec": {"schedulerName": "moorage", "containers": [container], **spec},
    }


def requesting(name: str, requests: Mapping[str, str], **spec: Any) -> Object:
    """A hostile pod that asks for these."""
    container = {"name": "c", "image": "i", "resources": {"requests": dict(requests), "limits": dict(requests)}}
    return pod(name, **{"containers": [container], **spec})


def deployment(
    name: str,
    replicas: int,
    namespace: str = GOOD,
    *,
    annotations: Mapping[str, str] | None = None,
    template: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """A workload; `spec` is of its pods, `template` metadata too."""
    labels = {"app": name}
    body = pod(name, namespace, **spec)["spec"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"deployment-{namespace}-{name}",
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, **(template or {})}, "spec": body},
        },
    }


def victims(batch: str) -> list[Object]:
    """Workloads of the good tenant, one for each kind of rule."""
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": f"apart-{batch}"}}}
    even = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": f"even-{batch}"}},
    }
    gang = {"pod-group": f"gang-{batch}", "moorage.dev/pod-group-min-available": str(_REPLICAS)}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return [
        deployment(f"plain-{batch}", _REPLICAS),
        deployment(f"apart-{batch}", _REPLICAS, affinity=required),
        deployment(f"even-{batch}", _REPLICAS, topologySpreadConstraints=[even]),
        deployment(f"split-{batch}", _REPLICAS, annotations={"smart-scheduler.io/schedule-strategy": _STRATEGY}),
        deployment(f"hosts-{batch}", _REPLICAS, annotations={"controller-spread-scheduler/min-hosts": "5"}),
        deployment(f"gang-{batch}", _REPLICAS, template={"annotations": gang}),
    ]


def broken_promises(arena: Arena, batch: str) -> list[str]:
    """What the good tenant was promised and did not get; empty if all is well."""
    placed, found = arena.placed(), []
    for name in ("plain", "apart", "even", "split", "hosts", "gang"):
        nodes = placed.get(f"{name}-{batch}", [])
        if len(nodes) != _REPLICAS or not all(nodes):
            found.append(f"{name}: placed on {nodes}")
    if found:
        return found
    if len(set(placed[f"apart-{batch}"])) != _REPLICAS:
        found.append(f"apart: share nodes {placed[f'apart-{batch}']}")
    zones = Counter(int(node[1:]) % 3 for node in placed[f"even-{batch}"])
    if sorted(zones.values()) != [2, 2, 2]:
        found.append(f"even: zones {dict(zones)}")
    spot = sum(int(node[1:]) % 2 for node in placed[f"split-{batch}"])
    if spot not in (3, 4):
        found.append(f"split: {spot} of {_REPLICAS} on spot")
    if len(set(placed[f"hosts-{batch}"])) < 5:
        found.append(f"hosts: {sorted(set(placed[f'hosts-{batch}']))}")
    return found
