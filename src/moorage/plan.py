"""The plan without Kubernetes: plain dicts in, actions out.

    >>> from moorage.plan import decide
    >>> nodes = [{"name": "n1"}, {"name": "n2"}]
    >>> pods = [{"name": "low", "priority": 1, "node": "n1"}, {"name": "high", "priority": 9}]
    >>> pods.append({"name": "mid", "priority": 5})
    >>> decide(nodes, pods)["preempt"]
    [{'pod': 'default/low', 'node': 'n1'}]

What is decided is what a scheduler with the profile of the example `custom-scheduler` decides, since its engine does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from moorage.core.commands import Bind, Command, DeletePod, PatchPodStatus
from moorage.core.events import BindDone, BindOutcome, DeleteDone, Event, NodeSeen, PodGone, PodSeen, StatusDone
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import read_configuration
from moorage.wire.node import node_from_builtin
from moorage.wire.pod import pod_from_builtin

_SCHEDULER = "custom-scheduler"
_CONFIGURATION = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: custom-scheduler
    plugins:
      multiPoint:
        enabled: [{name: PlanSort}, {name: OnePodPerNode}, {name: PriorityAnnotation}]
        disabled: [{name: PrioritySort}]
    pluginConfig:
      - name: PriorityAnnotation
        args: {keys: [moorage.dev/priority, priority], max: 1000000000, namespaces: ["*"]}
"""
_PLENTY = {"cpu": "1000000", "memory": "1000000Gi", "pods": "1000000"}
_MOST_ROUNDS = 100
_MOST_PRIORITY = 1_000_000_000
_LATEST_S = 253_402_300_799
"""The end of the year 9999."""
_NODE_KEYS = frozenset({"name", "labels", "taints", "unschedulable", "resources"})
_POD_KEYS = frozenset(
    {"name", "namespace", "priority", "group", "node", "created", "selector", "tolerations", "requests", "labels"}
)


def decide(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, str]]]:
    """What to do next: `{"bind": [{"pod", "node"}], "preempt": [{"pod", "node"}]}`, pods as `namespace/name`.

    A node has a `name` and may have `labels`, `taints`, `unschedulable` and `resources`. A pod has a `name` and may
    have a `namespace` ("default"), a `priority` (0), a `group`, the `node` on which it runs, when it was `created`
    (seconds), `labels`, a `selector` of node labels, `tolerations` and `requests`. Taints, tolerations and amounts are
    written as in Kubernetes. Members of a group are placed together; a group has the pods that are given. Pods to be
    bound to the nodes of pods that are preempted are in the list, too: they are bound when those are gone.
    A pod on a node that is not given holds none. A ValueError names what cannot be read, and the remedy.
    """
    world = _World(nodes, pods)
    world.run()
    return {"bind": world.binds, "preempt": world.preempted}


class _World:
    """The dicts as a cluster that does what it is told."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> None:
        registry = Registry(BUILTIN)
        found = read_configuration(_CONFIGURATION, "plan", registry).configuration
        if found is None:
            raise ValueError("the configuration of the plan cannot be read")
        self._engine = Engine(build_profiles(found, registry), EngineSettings())
        given = [_checked(each, _POD_KEYS, "pod") for each in pods]
        sizes = Counter(_group(each) for each in given)
        there = {}
        for each in (_checked(each, _NODE_KEYS, "node") for each in nodes):
            if str(each["name"]) in there:
                raise ValueError(f"node {each['name']} is given twice; give each node a name of its own")
            there[str(each["name"])] = node_from_builtin(_node(each))
        self._events: list[Event] = [NodeSeen(node) for node in there.values()]
        self._pods: dict[str, Pod] = {}
        for each in given:
            pod = pod_from_builtin(_pod(each, sizes[_group(each)]))
            if pod.uid in self._pods:
                raise ValueError(f"pod {pod.key} is given twice; give each pod of a namespace a name of its own")
            self._pods[pod.uid] = pod
        self._events += [PodSeen(pod) for pod in self._pods.values()]
        self.binds: list[dict[str, str]] = []
        self.preempted: list[dict[str, str]] = []

    def run(self) -> None:
        """Let the engine decide until it has nothing more to say."""
        now, events = 0.0, self._events
        for _ in range(_MOST_ROUNDS + len(self._pods)):
            commands, next_s = self._engine.handle(events, now)
            events = [event for command in commands for event in self._answer(command)]
            if not events and (next_s is None or next_s > now + 60.0):
                return
            now = now if events or next_s is None else max(next_s, now)

    def _answer(self, command: Command) -> list[Event]:
        if isinstance(command, Bind):
            pod = self._pods[command.pod.uid] = replace(self._pods[command.pod.uid], node=command.node, phase="Running")
            self.binds.append({"pod": pod.key, "node": command.node})
            return [BindDone(pod.uid, BindOutcome.BOUND, command.node, ""), PodSeen(pod)]
        if isinstance(command, DeletePod):
            pod = self._pods.pop(command.pod.uid)
            self.preempted.append({"pod": pod.key, "node": pod.node or ""})
            return [DeleteDone(pod.uid, True, ""), PodGone(pod.uid)]
        if isinstance(command, PatchPodStatus) and command.token:
            return [StatusDone(command.pod.uid, True, "", command.token)]
        return []


def _checked(given: Mapping[str, Any], known: frozenset[str], what: str) -> dict[str, Any]:
    """What is given; keys whose value is None are as if they were not."""
    said = {key: value for key, value in given.items() if value is not None}
    if not said.get("name"):
        raise ValueError(f"a {what} has no name: {dict(given)}")
    unknown = sorted(set(said) - known)
    if unknown:
        raise ValueError(f"{what} {said['name']}: unknown key {unknown[0]}; known are {', '.join(sorted(known))}")
    return said


def _group(given: Mapping[str, Any]) -> tuple[str, str]:
    return str(given.get("namespace", "default")), str(given.get("group", ""))


def _priority(given: Mapping[str, Any]) -> int:
    value = given.get("priority", 0)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST_PRIORITY:
        raise ValueError(f"pod {given['name']}: priority is {value!r}; write a whole number up to {_MOST_PRIORITY}")
    return value


def _created(given: Mapping[str, Any]) -> str:
    value = given.get("created", 0)
    if not isinstance(value, int | float) or not 0 <= value <= _LATEST_S:
        raise ValueError(f"pod {given['name']}: created is {value!r}; write seconds since 1970")
    return datetime.fromtimestamp(int(value), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _node(given: Mapping[str, Any]) -> dict[str, Any]:
    """A node as Kubernetes writes it; one without resources has plenty."""
    amounts = {key: str(amount) for key, amount in {**_PLENTY, **given.get("resources", {})}.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": given["name"], "labels": dict(given.get("labels", {}))},
        "spec": {
            "unschedulable": bool(given.get("unschedulable")),
            "taints": [dict(t) for t in given.get("taints", ())],
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(given: Mapping[str, Any], size: int) -> dict[str, Any]:
    """A pod as Kubernetes writes it."""
    namespace, name = str(given.get("namespace", "default")), str(given["name"])
    annotations = {"priority": str(_priority(given))}
    if given.get("group"):
        annotations |= {"pod-group": str(given["group"]), "moorage.dev/pod-group-min-available": str(size)}
    requests = {key: str(amount) for key, amount in given.get("requests", {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "creationTimestamp": _created(given),
            "labels": dict(given.get("labels", {})),
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": _SCHEDULER,
            "nodeName": given.get("node"),
            "nodeSelector": dict(given.get("selector", {})),
            "tolerations": [dict(each) for each in given.get("tolerations", ())],
            "containers": [{"name": "c", "image": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running" if given.get("node") else "Pending"},
    }
