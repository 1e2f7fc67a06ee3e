"""A keeper with the cluster around it played by hand: evictions are answered, successors made, time is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from moorage.core.commands import EvictPod, KeeperCommand, PatchNode, PatchObject
from moorage.core.events import (
    EvictDone,
    EvictOutcome,
    KeeperEvent,
    NodePatched,
    NodeSeen,
    ObjectSeen,
    PatchDone,
    PodGone,
    PodSeen,
)
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.nodes import Node
from moorage.core.objects import PodDisruptionBudget, Workload
from moorage.core.pods import RUNNING, Pod
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.core.taints import Taint
from moorage.engine.keeping.keeper import PLAN_S, Keeper
from moorage.framework.keeping import KeeperConfiguration
from moorage.plugins.default_binder import DefaultBinder
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.spot_placement import SpotPlacement, SpotPlacementArgs
from moorage.plugins.taint_toleration import TaintToleration
from moorage.testing import make_node, make_pod
from tests.framework.readers import make_profile

CAPACITY = "node.kubernetes.io/capacity"
NOTICE = Taint("aws-node-termination-handler/spot-itn", "", "NoSchedule")
SCHEDULER = "moorage"
C = TypeVar("C", bound=KeeperCommand)


def spot(name: str, **fields: Any) -> Node:
    """A spot node."""
    return make_node(name, labels={CAPACITY: "spot"}, **fields)


def on_demand(name: str, **fields: Any) -> Node:
    """An on-demand node."""
    return make_node(name, labels={CAPACITY: "on-demand"}, **fields)


def member(name: str, node: str | None, app: str = "web", **fields: Any) -> Pod:
    """A pod of a ReplicaSet, which runs if it has a node."""
    given = {"cpu": "1", "scheduler_name": SCHEDULER, "labels": {"app": app}, "owner": app, **fields}
    return make_pod(name, node=node, **given)


def budget(allowed: int, app: str = "web", **fields: Any) -> ObjectSeen:
    """A disruption budget that allows so much just now."""
    selector = Selector((Requirement("app", Operator.IN, (app,)),))
    value = PodDisruptionBudget("default", app, selector, allowed, **fields)
    return ObjectSeen("PodDisruptionBudget", value.key, value)


def replica_set(replicas: int, app: str = "web") -> ObjectSeen:
    """The owner of `member` pods."""
    value = Workload("ReplicaSet", "default", app, uid=f"default/{app}", replicas=replicas)
    return ObjectSeen("ReplicaSet", value.key, value)


class Shore:
    """One keeper, the objects that exist, the time, and what was ordered so far."""

    def __init__(self, *, rule: SpotPlacementArgs | None = None, **settings: Any) -> None:
        self.settings = KeeperConfiguration(**settings)
        self._rule = rule
        self.now = 1000.0
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self._others: dict[tuple[str, str], ObjectSeen] = {}
        self.ordered: list[KeeperCommand] = []
        self.wakeup: float | None = None
        self.keeper = self._made()

    def _made(self) -> Keeper:
        plugins = (PrioritySort(), NodeUnschedulable(), TaintToleration(), NodeResourcesFit())
        rule = SpotPlacement(self._rule)
        profile = make_profile(
            [*plugins, rule, DefaultBinder()], scheduler_name=SCHEDULER, weights={"SpotPlacement": 100}
        )
        return Keeper([profile], self.settings)

    def restart(self) -> None:
        """Another keeper takes over; it knows what can be seen, and nothing else."""
        self.keeper = self._made()
        pods = [PodSeen(pod) for pod in self.pods.values()]
        self.tell(*map(NodeSeen, self.nodes.values()), *self._others.values(), *pods)

    # --- what happens ---

    def tell(self, *events: KeeperEvent, acting: bool = True) -> list[KeeperCommand]:
        """One call of the keeper, late enough for a plan; what it ordered."""
        self.now += PLAN_S
        for event in events:
            if isinstance(event, NodeSeen):
                self.nodes[event.node.name] = event.node
            elif isinstance(event, PodSeen):
                self.pods[event.pod.uid] = event.pod
            elif isinstance(event, PodGone):
                self.pods.pop(event.uid, None)
            elif isinstance(event, ObjectSeen):
                self._others[event.kind, event.key] = event
        commands, self.wakeup = self.keeper.handle(events, self.now, acting=acting)
        self.ordered += commands
        check_invariants(self.keeper.world.state)
        return commands

    def see(self, *things: Node | Pod) -> list[KeeperCommand]:
        """Nodes and pods as they are now."""
        return self.tell(*(NodeSeen(thing) if isinstance(thing, Node) else PodSeen(thing) for thing in things))

    def wait(self, seconds: float) -> list[KeeperCommand]:
        """Time passes, in steps as the keeper asks for them; what it ordered meanwhile."""
        end, before = self.now + seconds, len(self.ordered)
        while self.now < end:
            self.tell()
        return self.ordered[before:]

    def notice(self, *names: str, taint: Taint = NOTICE) -> None:
        """Nodes are about to go; what the keeper writes on them is written."""
        self.see(*(replace(self.nodes[name], taints=(taint,)) for name in names))
        self.write()

    def withdraw(self, *names: str) -> None:
        """Nodes stay after all."""
        self.see(*(replace(self.nodes[name], taints=()) for name in names))
        self.write()

    def write(self) -> None:
        """Carry out what was ordered for nodes and other objects."""
        events: list[KeeperEvent] = []
        for command in [*self.ordered]:
            if isinstance(command, PatchNode):
                self.ordered.remove(command)
                events += [NodeSeen(_written(self.nodes[command.node], command)), NodePatched(command, ok=True)]
            elif isinstance(command, PatchObject):
                self.ordered.remove(command)
                events += [PodSeen(_annotated(self.pods[command.pod.uid], command)), PatchDone(command, ok=True)]
        self.tell(*events)

    def move(self, name: str, to: str | None) -> Pod:
        """An ordered eviction is carried out, and the successor stands on another node, or waits."""
        command = next(each for each in self.of(EvictPod) if each.pod.name == name)
        self.ordered.remove(command)
        old = self.pods[command.pod.uid]
        # What the keeper writes on a pod is not in the template of its controller.
        template = replace(old.template, annotations=FrozenDict())
        new = replace(old, uid=f"{old.uid}+", name=f"{name}+", template=template, node=to, created_s=self.now)
        new = replace(new, phase=RUNNING if to else "Pending")
        budgets = [each for each in self._others.values() if isinstance(each.value, PodDisruptionBudget)]
        paying = [each for each in budgets if each.value.selector.matches(old.template.labels)]
        less = [
            ObjectSeen(each.kind, each.key, replace(each.value, disruptions_allowed=each.value.disruptions_allowed - 1))
            for each in paying
        ]
        self.tell(EvictDone(old.uid, EvictOutcome.EVICTED), PodSeen(replace(old, deleted_s=self.now)), *less)
        self.tell(PodGone(old.uid), PodSeen(new), *paying)
        return new

    def answer(self, name: str, outcome: EvictOutcome) -> None:
        """An ordered eviction ends otherwise."""
        command = next(each for each in self.of(EvictPod) if each.pod.name == name)
        self.ordered.remove(command)
        self.tell(EvictDone(command.pod.uid, outcome))

    # --- what was ordered ---

    def of(self, kind: type[C]) -> list[C]:
        """The commands of one kind, in order."""
        return [command for command in self.ordered if isinstance(command, kind)]

    @property
    def evicted(self) -> list[str]:
        """Names of the pods whose eviction was ordered and not yet played, in order."""
        return [command.pod.name for command in self.of(EvictPod)]

    @property
    def places(self) -> Mapping[str, str | None]:
        """Evicted pod -> the place that was proven for it."""
        return {command.pod.name: command.place for command in self.of(EvictPod)}


def _written(node: Node, command: PatchNode) -> Node:
    annotations: dict[str, str | None] = {**node.annotations, **command.annotations}
    kept = FrozenDict({key: value for key, value in annotations.items() if value is not None})
    unschedulable = node.unschedulable if command.unschedulable is None else command.unschedulable
    return replace(node, annotations=kept, unschedulable=unschedulable)


def _annotated(pod: Pod, command: PatchObject) -> Pod:
    more = command.patch["metadata"]["annotations"]
    kept = {key: value for key, value in {**pod.template.annotations, **more}.items() if value is not None}
    return replace(pod, template=replace(pod.template, annotations=FrozenDict(kept)))
