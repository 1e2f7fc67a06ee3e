"""A keeper of placement rules with a small fleet around it, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from moorage.core.commands import EvictPod, KeeperCommand, PatchObject
from moorage.core.events import KeeperEvent, ObjectSeen, PatchDone, PodSeen, WebhookAsked
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.objects import PlacementPolicy, Workload
from moorage.core.pods import Pod
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.core.strategy import STRATEGY_ANNOTATIONS, parse_strategy
from moorage.engine.keeping.deletion_costs import COST
from moorage.engine.keeping.keeper import Keeper
from moorage.plugins.controller_spread import ControllerSpread
from moorage.plugins.default_binder import DefaultBinder
from moorage.plugins.node_affinity import NodeAffinity
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.placement_strategy import PlacementStrategy
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.taint_toleration import TaintToleration
from moorage.testing import make_node
from tests.engine.keeping import SCHEDULER, Shore, member
from tests.framework.readers import make_profile

ANSWERS = WebhookAsked(excluded=frozenset({"kube-system"}))
STRATEGY = "base=1,weight=1,nodeSelector=kind:od;weight=2,nodeSelector=kind:spot"


class Harbour(Shore):
    """A shore whose profile has rules about workloads, and on which pods are written on.

    `webhook` is what one hears who asks the webhook: the answer, or None while nobody answers the question.
    """

    def __init__(
        self,
        *,
        plugin: bool = True,
        spread: bool = False,
        webhook: WebhookAsked | None = None,
        scheduler: str = SCHEDULER,
        **settings: Any,
    ) -> None:
        self.webhook = webhook
        self._scheduler = scheduler
        self._rules = [*([ControllerSpread()] if spread else []), *([PlacementStrategy()] if plugin else [])]
        super().__init__(**settings)

    def _made(self) -> Keeper:
        plugins = [PrioritySort(), NodeUnschedulable(), TaintToleration(), NodeAffinity(), NodeResourcesFit()]
        return Keeper(
            [make_profile([*plugins, *self._rules, DefaultBinder()], scheduler_name=self._scheduler)], self.settings
        )

    def tell(self, *events: KeeperEvent, acting: bool = True) -> list[KeeperCommand]:
        """One call of the keeper; if it wants to know about the webhook, that is asked."""
        asked = (self.webhook,) if self.webhook is not None and self.keeper.wants_webhook(self.now) else ()
        return super().tell(*events, *asked, acting=acting)

    def write(self) -> None:
        """Carry out what was ordered for pods; the rest is only answered."""
        events: list[Any] = []
        for command in self.of(PatchObject):
            self.ordered.remove(command)
            if command.kind == "Pod" and command.pod.uid in self.pods:
                events.append(PodSeen(_written(self.pods[command.pod.uid], command)))
            events.append(PatchDone(command, ok=True))
        self.tell(*events)

    def costs(self) -> dict[str, int]:
        """Pod -> its deletion cost, where it has one."""
        notes = {pod.name: pod.template.annotations.get(COST) for pod in self.pods.values()}
        return {name: int(cost) for name, cost in notes.items() if cost is not None}

    def removal(self) -> list[str]:
        """The pods in the order in which a ReplicaSet controller would remove them."""
        costs = self.costs()
        return sorted((pod.name for pod in self.pods.values()), key=lambda name: costs.get(name, 0))

    def gather(self, settle_s: float = 20.0) -> list[str]:
        """Play every move that is ordered, until nothing is; the nodes that successors went to."""
        went: list[str] = []
        for _ in range(20):
            self.wait(settle_s)
            self.write()
            if not self.evicted:
                return went
            (command,) = self.of(EvictPod)
            assert command.place is not None
            went.append(command.place)
            self.arrive(command, command.place)
        raise AssertionError("it never ends")

    def arrive(self, command: EvictPod, node: str, **fields: Any) -> Pod:
        """The pod of an order is replaced by one on a node."""
        new = self.move(command.pod.name, node)
        return replace(new, **fields)


def _written(pod: Pod, command: PatchObject) -> Pod:
    notes = {**pod.template.annotations, **command.patch["metadata"]["annotations"]}
    kept = FrozenDict({key: value for key, value in notes.items() if value is not None})
    return replace(pod, template=replace(pod.template, annotations=kept))


def nodes(od: int = 2, spot: int = 3, **fields: Any) -> list[Node]:
    """Nodes of both rules, with room for 8 pods each."""
    found = [make_node(f"od{i}", cpu="8", labels={"kind": "od"}, **fields) for i in range(od)]
    return [*found, *(make_node(f"spot{i}", cpu="8", labels={"kind": "spot"}, **fields) for i in range(spot))]


def owner(
    replicas: int, app: str = "web", text: str | None = STRATEGY, namespace: str = "default", **fields: Any
) -> ObjectSeen:
    """The ReplicaSet of `member` pods."""
    notes = FrozenDict({STRATEGY_ANNOTATIONS[0]: text} if text else {})
    uid = f"{namespace}/{app}"
    value = Workload("ReplicaSet", namespace, app, uid=uid, annotations=notes, replicas=replicas, **fields)
    return ObjectSeen("ReplicaSet", value.key, value)


def fleet(od: int, spot: int, **fields: Any) -> list[Pod]:
    """Pods of one workload on nodes of both rules, in turn over the nodes; older ones come first."""
    made = [(f"o{i}", f"od{i % 2}") for i in range(od)] + [(f"s{i}", f"spot{i % 3}") for i in range(spot)]
    return [member(name, node, **{"created_s": float(i + 1), **fields}) for i, (name, node) in enumerate(made)]


def policy(**fields: Any) -> ObjectSeen:
    """A PlacementPolicy for the app."""
    rules = parse_strategy("base=1,weight=1,nodeSelector=kind:od;weight=2,nodeSelector=kind:spot")
    selector = Selector((Requirement("app", Operator.IN, ("web",)),))
    value = PlacementPolicy("default", "web", "p", selector, **{"rules": rules, "generation": 3, **fields})
    return ObjectSeen("PlacementPolicy", value.key, value)


def statuses(commands: Iterable[KeeperCommand]) -> list[dict[str, Any]]:
    """What was written on policies."""
    found = [command for command in commands if isinstance(command, PatchObject) and command.kind == "PlacementPolicy"]
    assert all((command.subresource, command.uid) == ("status", "p") for command in found)
    return [command.patch["status"] for command in found]
