"""Who may be evicted at all, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.crossings.audit.case import Case, Rule
from tests.crossings.audit.neighbours import neighbours_fit
from tests.crossings.audit.orders import Order, Verb
from tests.crossings.audit.queues import beside, beyond_quota, held, queue_of
from tests.crossings.audit.scene import (
    Object,
    condition,
    controller,
    is_leaving,
    is_over,
    name_of,
    node_of,
    priority,
    spec,
    status,
    uid_of,
)
from tests.crossings.audit.units import gang_of, is_made_again, units
from tests.crossings.audit.whatif import WhatIf

MOVED = "moved so that"
SCHEDULER_REASON = "PreemptionByScheduler"


class BarePods(Rule):
    """A pod that nobody makes again is deleted only by preemption and reclaim."""

    def ordered(self, orders: Sequence[Order]) -> None:
        for order in orders:
            pod = self.case.scene.pods.get(order.uid)
            if order.verb is not Verb.EVICT or pod is None or is_made_again(self.case.scene, pod) or is_leaving(pod):
                continue
            allowed = order.reason == SCHEDULER_REASON and MOVED not in order.message
            if not allowed:
                self.case.say("bare pod", f"{order.key} is deleted ({order.reason}: {order.message})")


class Guarantee(Rule):
    """A queue within its quota loses nothing to queues beside it. What its pods are given in the same moment counts;
    a pod that runs elsewhere afterwards was not lost.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._taken: list[tuple[str, Object, int]] = []
        """What to say, the victim, and how many pods of its owner stood."""

    def ordered(self, orders: Sequence[Order]) -> None:
        scene = self.case.scene
        evictions = [each for each in orders if each.verb is Verb.EVICT and MOVED not in each.message]
        if not evictions or not scene.of("Queue") or self.case.late:
            return
        given = {each.uid for each in orders if each.verb in (Verb.BIND, Verb.STATUS) and each.node}
        coming = [pod for pod in scene.waiting() if uid_of(pod) in given or status(pod).get("nominatedNodeName")]
        holds = held(scene, [*scene.standing(), *coming])
        for order in evictions:
            victim, claimant = scene.pods.get(order.uid), scene.pods.get(order.claimant)
            theirs = "" if victim is None else queue_of(scene, victim)
            ours = "" if claimant is None else queue_of(scene, claimant)
            name = beside(scene, theirs, ours) if theirs and ours else ""
            if victim is not None and name and not beyond_quota(scene, name, holds):
                told = f"{order.key} of queue {name}, which is within its quota, goes for queue {ours}"
                self._taken.append((f"{told} ({order.message})", victim, self._siblings(victim)))

    def rested(self) -> None:
        for told, victim, before in self._taken:
            if not controller(victim) or self._siblings(victim) < before:
                self.case.say("guarantee", told)
        self._taken.clear()

    def _siblings(self, pod: Object) -> int:
        owner = controller(pod).get("uid")
        return sum(controller(other).get("uid") == owner for other in self.case.scene.standing())


@dataclass
class Eviction:
    """One that has begun."""

    order: Order
    node: str
    at_s: float
    deeds: int
    crashes: int
    gang: str


class InVain(Rule):
    """Whoever others were evicted for runs afterwards."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._ordered: dict[str, Order] = {}
        self._open: list[Eviction] = []
        self._ran: set[str] = set()
        self._bound: list[tuple[str, int]] = []
        """Node and priority of every pod that was bound since the last rest, and may have been."""

    def ordered(self, orders: Sequence[Order]) -> None:
        for order in orders:
            if order.verb is Verb.EVICT:
                self._ordered[order.uid] = order

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        if kind != "Pod":
            return
        pod = new if new is not None else old
        if pod is None:
            return
        if new is not None and node_of(new) and (old is None or not node_of(old)):
            self._ran.add(uid_of(new))
            self._note_bind(new)
        order = self._ordered.get(uid_of(pod))
        told = condition(pod, "DisruptionTarget").get("reason") == SCHEDULER_REASON
        if order is not None and told and (new is None or is_leaving(new)):
            del self._ordered[uid_of(pod)]
            if not is_over(pod) and order.claimant:
                gang = gang_of(self.case.scene, pod)
                case = self.case
                self._open.append(Eviction(order, node_of(pod), case.now_s, case.deeds, case.crashes, gang))

    def rested(self) -> None:
        for each in self._open:
            self._judge(each)
        self._partial_victims()
        self._open.clear()
        self._bound.clear()
        self._ordered.clear()

    def _judge(self, eviction: Eviction) -> None:
        case, claimant = self.case, self.case.scene.pods.get(eviction.order.claimant)
        if eviction.order.claimant in self._ran or claimant is None or is_leaving(claimant) or is_over(claimant):
            return
        if eviction.deeds != case.deeds:
            case.excused["in vain, as something else happened"] += 1
        elif eviction.crashes != case.crashes:
            case.excused["in vain, as the leader died"] += 1
        elif self._outdone(eviction, claimant):
            case.excused["in vain, as a more important pod came first"] += 1
        elif self._beside_others(eviction, claimant):
            case.excused["in vain, as pods on other nodes were in the way"] += 1
        else:
            about = f"{eviction.order.key} on {eviction.node} was evicted for {name_of(claimant)}, which does not run"
            case.say("in vain", f"{about} ({eviction.order.message})")

    def _note_bind(self, pod: Object) -> None:
        scene = self.case.scene
        name = queue_of(scene, pod)
        if not name or not beyond_quota(scene, name, held(scene, scene.standing())):
            self._bound.append((node_of(pod), priority(pod)))

    def _outdone(self, eviction: Eviction, claimant: Object) -> bool:
        """Whether a more important pod got the node, as kube-scheduler would have it."""
        if queue_of(self.case.scene, claimant):
            return False
        return any(node == eviction.node and rank > priority(claimant) for node, rank in self._bound)

    def _beside_others(self, eviction: Eviction, claimant: Object) -> bool:
        """Whether pods that were promised other nodes stand in the way; kube-scheduler looks at none, either."""
        scene = self.case.scene
        if queue_of(scene, claimant) or eviction.node not in scene.nodes:
            return False
        return bool(neighbours_fit(WhatIf(scene), claimant, eviction.node))

    def _partial_victims(self) -> None:
        """A gang goes whole, but for what it has above its minimum, unless its object says that members go singly."""
        gangs = {each.gang for each in self._open if each.gang and each.deeds == self.case.deeds}
        scene = self.case.scene
        for unit in units(scene) if gangs else ():
            pod = unit.members[0]
            singly = spec(pod).get("schedulingGroup") is not None
            if unit.name in gangs and unit.partial and not singly:
                told = f"{unit.name}: {len(unit.standing)} of {unit.least} members are left, the others were evicted"
                self.case.say("partial victim", told)
