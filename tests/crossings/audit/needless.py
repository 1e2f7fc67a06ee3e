"""No eviction without need: each one left out breaks the plan.

What a round of queues decides at one moment is one plan. Other pods and gangs preempt one after the other, as with
kube-scheduler: each has a plan of its own, made when those before it are carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.crossings.audit.case import Rule
from tests.crossings.audit.evictions import MOVED
from tests.crossings.audit.opaque import is_opaque
from tests.crossings.audit.orders import Order, Verb
from tests.crossings.audit.planning import Planner, TooManyStepsError
from tests.crossings.audit.queues import queue_of
from tests.crossings.audit.scene import Object, is_leaving, node_of, priority, status, uid_of
from tests.crossings.audit.units import gang_of
from tests.crossings.audit.whatif import WhatIf

_MOST_PODS = 8


@dataclass
class Plan:
    """Evictions that belong together, and the pods that get the room."""

    first: int
    """The place of the first one among the orders."""
    shared: bool
    """Whether queues made it."""
    evictions: list[Order] = field(default_factory=list)
    claimants: dict[str, Object] = field(default_factory=dict)


class Needless(Rule):
    """Tries every plan without one of its evictions, on the nodes that it promises; gangs are left out whole."""

    def ordered(self, orders: Sequence[Order]) -> None:
        if self.case.late or not any(each.verb is Verb.EVICT for each in orders):
            return
        for plan in self._plans(orders):
            self._add_promised(plan, orders)
            if len(plan.claimants) > _MOST_PODS or any(map(node_of, plan.claimants.values())):
                self.case.excused["plans not tried, too large"] += 1
            elif not any(is_opaque(self.case, pod) for pod in plan.claimants.values()):
                self._judge(plan, orders)

    # --- plans ---

    def _plans(self, orders: Sequence[Order]) -> list[Plan]:
        scene, found = self.case.scene, dict[str, Plan]()
        for place, order in enumerate(orders):
            claimant = scene.pods.get(order.claimant)
            if order.verb is Verb.EVICT and claimant is not None:
                shared = bool(queue_of(scene, claimant))
                name = "queues" if shared else gang_of(scene, claimant) or order.claimant
                plan = found.setdefault(name, Plan(place, shared))
                plan.evictions.append(order)
                plan.claimants[order.claimant] = claimant
        return list(found.values())

    def _add_promised(self, plan: Plan, orders: Iterable[Order]) -> None:
        """Those who were promised room with them: other pods of queues, or of the gang."""
        scene = self.case.scene
        gangs = {gang_of(scene, pod) for pod in plan.claimants.values()} - {""}
        promised = {each.uid for each in orders if each.verb is Verb.STATUS and each.node}
        for pod in scene.waiting():
            is_promised = uid_of(pod) in promised or (gangs and status(pod).get("nominatedNodeName"))
            if is_promised and (gang_of(scene, pod) in gangs or (plan.shared and queue_of(scene, pod))):
                plan.claimants[uid_of(pod)] = pod

    # --- judging ---

    def _judge(self, plan: Plan, orders: Sequence[Order]) -> None:
        promised = {each.uid: each.node for each in orders if each.verb is Verb.STATUS and each.node}
        for block in self._blocks(plan.evictions):
            pods = [*plan.claimants.values(), *self._movers(plan, block)]
            gone = {each.uid for each in plan.evictions} - block
            if not self._fits(self._view(plan, orders, gone), pods, promised):
                if self._fits(self._view(plan, orders, gone), pods, {}):
                    self.case.excused["evictions that other nodes would have spared"] += 1
            elif not plan.shared and not self._fits(self._view(plan, orders, gone, leaving=False), pods, promised):
                self.case.excused["evictions beside pods that are leaving"] += 1
            else:
                self._say(plan, block, promised)

    def _say(self, plan: Plan, block: set[str], promised: dict[str, str]) -> None:
        spared = ", ".join(each.key for each in plan.evictions if each.uid in block)
        names = [f"{pod['metadata']['name']} on {promised.get(uid, '?')}" for uid, pod in plan.claimants.items()]
        told = f"{spared} need not go of {len(plan.evictions)}, as {', '.join(names)} fit beside it"
        self.case.say("needless", f"{told} ({plan.evictions[0].message})")

    def _fits(self, view: WhatIf, pods: Sequence[Object], promised: dict[str, str]) -> bool:
        try:
            return Planner(self.case.fitting, view, promised).places(pods) is not None
        except TooManyStepsError:
            self.case.excused["plans not tried, too large"] += 1
            return False

    def _movers(self, plan: Plan, block: set[str]) -> list[Object]:
        """Pods that have to find another place."""
        moved = [each.uid for each in plan.evictions if MOVED in each.message and each.uid not in block]
        return [pod for uid in moved if (pod := self.case.scene.pods.get(uid)) is not None]

    def _blocks(self, evictions: Sequence[Order]) -> list[set[str]]:
        """What can be left out: a pod, or a gang."""
        scene, blocks = self.case.scene, dict[str, set[str]]()
        for each in evictions:
            pod = scene.pods.get(each.uid)
            if pod is not None:
                blocks.setdefault(gang_of(scene, pod) or each.uid, set()).add(each.uid)
        return list(blocks.values())

    def _view(self, plan: Plan, orders: Sequence[Order], gone: set[str], *, leaving: bool = True) -> WhatIf:
        """The scene with those gone who leave anyway, and those placed who are on their way."""
        scene, before = self.case.scene, orders[: plan.first]
        rank = min(map(priority, plan.claimants.values()), default=0)
        gone = gone | {each.uid for each in before if each.verb is Verb.EVICT}
        if leaving:
            gone |= {uid_of(pod) for pod in scene.standing() if is_leaving(pod)}
        view = WhatIf(scene, frozenset(gone))
        bound = {each.uid: each.node for each in orders if each.verb is Verb.BIND}
        promised = {each.uid: each.node for each in before if each.verb is Verb.STATUS and each.node}
        for pod in scene.waiting():
            uid = uid_of(pod)
            nominated = promised.get(uid) or status(pod).get("nominatedNodeName")
            where = bound.get(uid) or (nominated if priority(pod) >= rank else None)
            if where and uid not in plan.claimants and where in scene.nodes:
                view.placed.append((pod, where))
        return view
