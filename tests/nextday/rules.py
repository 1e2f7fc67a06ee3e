"""The rules of the five examples in the auditor's own words. Shares no code with Moorage."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from tests.nextday.scene import Object, Scene, annotation, app_of, fits, is_whole, label, name_of, node_of, takes

GROUP = ("moorage.dev/pod-group", "pod-group")
PRIORITY = ("moorage.dev/priority", "priority")
MIN_HOSTS = ("moorage.dev/min-hosts", "controller-spread-scheduler/min-hosts")
STRATEGY = ("moorage.dev/schedule-strategy", "smart-scheduler.io/schedule-strategy")
BASE = "moorage.dev/on-demand-base"
CAPACITY = "node.kubernetes.io/capacity"


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that a component of the example deleted or evicted after it had got a node."""

    pod: str
    app: str
    node: str
    by_keeper: bool = False


class Rule(Protocol):
    """What an example promises."""

    def lets(self, pod: Object, node: Object, scene: Scene) -> bool:
        """Whether the rule lets a pod go to a node that takes it otherwise."""
        ...

    def broken(self, scene: Scene) -> list[str]:
        """Where it is broken though it could hold."""
        ...

    def names(self, gone: Eviction, scene: Scene) -> bool:
        """Whether the rule itself lets a component move this pod."""
        ...


@dataclass(frozen=True, slots=True)
class NoRule:
    """What fits runs."""

    def lets(self, pod: Object, node: Object, scene: Scene) -> bool:
        """See `Rule`."""
        return fits(pod, node, scene)

    def broken(self, scene: Scene) -> list[str]:  # noqa: ARG002
        """See `Rule`."""
        return []

    def names(self, gone: Eviction, scene: Scene) -> bool:  # noqa: ARG002
        """See `Rule`: it moves nobody."""
        return False


@dataclass(frozen=True, slots=True)
class OnePerNode:
    """One pod of the scheduler on each node; gangs start whole; the more important ones go first."""

    scheduler: str

    def lets(self, pod: Object, node: Object, scene: Scene) -> bool:
        """See `Rule`: a node is free for a pod if all that stands in its way is less important."""
        if not takes(node, pod):
            return False
        there = [other for other in scene.on(name_of(node)) if self._is_mine(other)]
        return all(priority(other) < priority(pod) for other in there)

    def broken(self, scene: Scene) -> list[str]:
        """Two pods on one node, or a gang that runs in part while none of it is leaving."""
        found = []
        for node in scene.nodes:
            there = [name_of(pod) for pod in scene.on(name_of(node)) if self._is_mine(pod)]
            if len(there) > 1:
                found.append(f"{name_of(node)} has {len(there)} pods: {', '.join(sorted(there))}")
        return found

    def names(self, gone: Eviction, scene: Scene) -> bool:  # noqa: ARG002
        """See `Rule`: it moves nobody."""
        return False

    def _is_mine(self, pod: Object) -> bool:
        return str(pod["spec"].get("schedulerName")) == self.scheduler


@dataclass(frozen=True, slots=True)
class HostsAtLeast:
    """A controller with several replicas is on min(replicas, its number) hosts at least."""

    default: int = 2

    def lets(self, pod: Object, node: Object, scene: Scene) -> bool:
        """See `Rule`: what is still to come must be able to reach the hosts that are missing."""
        if not fits(pod, node, scene):
            return False
        deployment = next((each for each in scene.deployments if name_of(each) == app_of(pod)), None)
        if deployment is None:
            return True
        placed = [node_of(other) for other in scene.of(app_of(pod)) if node_of(other)]
        hosts = len({*placed, name_of(node)})
        to_come = max(0, int(deployment["spec"]["replicas"]) - len(placed) - 1)
        wanted: int = self._wanted(deployment)
        return hosts + to_come >= wanted

    def broken(self, scene: Scene) -> list[str]:
        """A workload that is whole is on too few hosts, though there are nodes that could be hosts."""
        found = []
        for deployment in filter(is_whole, scene.deployments):
            pods = scene.of(name_of(deployment))
            hosts = {node_of(pod) for pod in pods}
            more = [node for node in scene.nodes if name_of(node) not in hosts and fits(pods[0], node, scene)]
            reachable = min(self._wanted(deployment), len(hosts) + len(more))
            if len(hosts) < reachable:
                found.append(f"{name_of(deployment)} is on {len(hosts)} hosts instead of {reachable}")
        return found

    def names(self, gone: Eviction, scene: Scene) -> bool:  # noqa: ARG002
        """See `Rule`: the keeper repairs what has drifted."""
        return gone.by_keeper

    def _wanted(self, deployment: Object) -> int:
        text = annotation(deployment, *MIN_HOSTS) or ""
        number = int(text) if text.isdigit() and int(text) else self.default
        return min(int(deployment["spec"]["replicas"]), number)


@dataclass(frozen=True, slots=True)
class Split:
    """Base and weights over groups of nodes."""

    def lets(self, pod: Object, node: Object, scene: Scene) -> bool:
        """See `Rule`: the group is in the pod's node selector."""
        return fits(pod, node, scene)

    def broken(self, scene: Scene) -> list[str]:
        """The numbers of a workload that is whole differ from those of its strategy, though each group has room."""
        found = []
        for deployment in filter(is_whole, scene.deployments):
            text = annotation(deployment, *STRATEGY)
            rules = None if text is None else parsed(text)
            if rules is None:
                continue
            pods = scene.of(name_of(deployment))
            want = shares(rules, len(pods))
            have = [sum(self._matches(pod, rule, scene) for pod in pods) for rule in rules]
            if have != want and self._has_room(pods, rules, want, have, scene):
                found.append(f"{name_of(deployment)} is split {have} instead of {want}")
        return found

    def names(self, gone: Eviction, scene: Scene) -> bool:  # noqa: ARG002
        """See `Rule`: the keeper repairs what has drifted."""
        return gone.by_keeper

    def _matches(self, pod: Object, rule: Share, scene: Scene) -> bool:
        node = scene.node(node_of(pod))
        return node is not None and rule.labels.items() <= (node["metadata"].get("labels") or {}).items()

    def _has_room(
        self, pods: Sequence[Object], rules: Sequence[Share], want: list[int], have: list[int], scene: Scene
    ) -> bool:
        for rule, wanted, there in zip(rules, want, have, strict=True):
            probe = {**pods[0], "spec": {**pods[0]["spec"], "nodeSelector": dict(rule.labels)}}
            if wanted > there and any(fits(probe, node, scene) for node in scene.nodes):
                return True
        return False


@dataclass(frozen=True, slots=True)
class SpotFirst:
    """Workloads with several replicas are on spot nodes, those with one on on-demand nodes, while there is room."""

    def lets(self, pod: Object, node: Object, scene: Scene) -> bool:
        """See `Rule`: it rejects nobody."""
        return fits(pod, node, scene)

    def broken(self, scene: Scene) -> list[str]:
        """A pod is on the wrong capacity while there is room for it on the right one."""
        found = []
        for deployment in filter(is_whole, scene.deployments):
            pods = scene.of(name_of(deployment))
            several = len(pods) > 1
            text = annotation(deployment, BASE) or ""
            base = int(text) if several and text.isdigit() else 0
            where: dict[str, list[Object]] = defaultdict(list)
            for pod in pods:
                node = scene.node(node_of(pod))
                where[(label(node, CAPACITY) if node else None) or ""].append(pod)
            too_many = where["on-demand"][base:] if several else where["spot"]
            right = "spot" if several else "on-demand"
            if too_many and _room(too_many[0], right, scene):
                found.append(f"{len(too_many)} of {name_of(deployment)} are not on {right}, which has room")
            if len(where["on-demand"]) < min(base, len(pods)) and _room(pods[0], "on-demand", scene):
                found.append(
                    f"{name_of(deployment)} has {len(where['on-demand'])} of {base} on on-demand, which has room"
                )
        return found

    def names(self, gone: Eviction, scene: Scene) -> bool:
        """See `Rule`: the keeper moves who stands on the wrong capacity for the size of the workload."""
        node = scene.node(gone.node)
        several = scene.deployment(gone.app)["spec"]["replicas"] > 1
        wrong = "on-demand" if several else "spot"
        return gone.by_keeper and node is not None and label(node, CAPACITY) == wrong


@dataclass(frozen=True, slots=True)
class Share:
    """One rule of a strategy."""

    base: int
    weight: int
    labels: dict[str, str]


def parsed(text: str) -> list[Share] | None:
    """A strategy; None if it cannot be read."""
    found = []
    for part in text.split(";"):
        share, labels, selecting = {"base": 0, "weight": 0}, {}, False
        for word in part.split(","):
            key, equals, value = word.partition("=")
            selecting = selecting or key == "nodeSelector"
            if equals and key in share and value.isdigit():
                share[key] = int(value)
            elif selecting and (value or word).count(":") == 1:
                name, _, wanted = (value or word).partition(":")
                labels[name] = wanted
            else:
                return None
        found.append(Share(share["base"], share["weight"], labels))
    return found


def shares(rules: Sequence[Share], pods: int) -> list[int]:
    """How many pods each rule gets: the bases, then one by one to the rule that is furthest behind its weight."""
    found, left = [], pods
    for rule in rules:
        found.append(min(rule.base, left))
        left -= found[-1]
    total = sum(rule.weight for rule in rules)
    beyond: Counter[int] = Counter()
    for number in range(1, left + 1 if total else 1):
        behind = [Fraction(number * rule.weight, total) - beyond[index] for index, rule in enumerate(rules)]
        beyond[behind.index(max(behind))] += 1
    return [count + beyond[index] for index, count in enumerate(found)]


def priority(pod: Object) -> int:
    """The priority by which the plan orders."""
    text = annotation(pod, *PRIORITY)
    return int(text) if text is not None else int(pod["spec"].get("priority") or 0)


def _room(pod: Object, capacity: str, scene: Scene) -> bool:
    return any(fits(pod, node, scene) for node in scene.nodes if label(node, CAPACITY) == capacity)
