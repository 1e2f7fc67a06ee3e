"""No eviction without need: each one left out breaks the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.crossings.audit.case import Rule
from tests.crossings.audit.evictions import MOVED
from tests.crossings.audit.opaque import is_opaque
from tests.crossings.audit.orders import Order, Verb
from tests.crossings.audit.planning import Planner, TooManyStepsError
from tests.crossings.audit.scene import Object, is_leaving, node_of, priority, status, uid_of
from tests.crossings.audit.units import gang_of
from tests.crossings.audit.whatif import WhatIf

_MOST_PODS = 8


class Needless(Rule):
    """Tries every plan without one of its evictions, on the nodes that it promises; gangs are left out whole."""

    def ordered(self, orders: Sequence[Order]) -> None:
        evictions = [each for each in orders if each.verb is Verb.EVICT and each.claimant]
        if not evictions or self.case.late:
            return
        claimants = self._claimants(evictions, orders)
        if claimants is None or len(claimants) > _MOST_PODS:
            self.case.excused["plans not tried, too large"] += 1
            return
        rank = min(map(priority, claimants), default=0)
        for block in self._blocks(evictions):
            movers = [
                self.case.scene.pods[each.uid]
                for each in evictions
                if MOVED in each.message and each.uid not in block and each.uid in self.case.scene.pods
            ]
            gone = {each.uid for each in evictions} - block
            view = self._view(orders, gone, claimants, rank)
            pods = [*claimants, *movers]
            if any(is_opaque(self.case, pod) for pod in pods):
                return
            promised = {each.uid: each.node for each in orders if each.verb is Verb.STATUS and each.node}
            if self._fits(view, pods, promised):
                spared = ", ".join(each.key for each in evictions if each.uid in block)
                names = ", ".join(f"{pod['metadata']['name']} on {promised.get(uid_of(pod), '?')}" for pod in claimants)
                told = f"{spared} need not go of {len(evictions)}, as {names} fit beside it"
                self.case.say("needless", f"{told} ({evictions[0].message})")
            elif self._fits(view, pods, {}):
                self.case.excused["evictions that other nodes would have spared"] += 1

    def _fits(self, view: WhatIf, pods: Sequence[Object], promised: dict[str, str]) -> bool:
        try:
            return Planner(self.case.fitting, view, promised).places(pods) is not None
        except TooManyStepsError:
            self.case.excused["plans not tried, too large"] += 1
            return False

    def _claimants(self, evictions: Iterable[Order], orders: Iterable[Order]) -> list[Object] | None:
        """The pods that get the room: those that are evicted for, and those that were promised room with them."""
        scene = self.case.scene
        promised = [each.uid for each in orders if each.verb is Verb.STATUS and each.node]
        found: dict[str, Object] = {}
        for uid in dict.fromkeys([*(each.claimant for each in evictions), *promised]):
            pod = scene.pods.get(uid)
            if pod is None or node_of(pod):
                return None
            found[uid] = pod
            gang = gang_of(scene, pod)
            for other in scene.waiting() if gang else ():
                if status(other).get("nominatedNodeName") and gang_of(scene, other) == gang:
                    found[uid_of(other)] = other
        return list(found.values())

    def _blocks(self, evictions: Sequence[Order]) -> list[set[str]]:
        """What can be left out: a pod, or a gang."""
        scene, blocks = self.case.scene, dict[str, set[str]]()
        for each in evictions:
            pod = scene.pods.get(each.uid)
            if pod is not None:
                blocks.setdefault(gang_of(scene, pod) or each.uid, set()).add(each.uid)
        return list(blocks.values())

    def _view(self, orders: Sequence[Order], gone: set[str], claimants: Sequence[Object], rank: int) -> WhatIf:
        """The scene with those gone who leave anyway, and those placed who are on their way."""
        scene = self.case.scene
        leaving = {uid_of(pod) for pod in scene.standing() if is_leaving(pod)}
        view = WhatIf(scene, frozenset(gone | leaving))
        mine = {uid_of(pod) for pod in claimants}
        bound = {each.uid: each.node for each in orders if each.verb is Verb.BIND}
        promised = {each.uid: each.node for each in orders if each.verb is Verb.STATUS and each.node}
        for pod in scene.waiting():
            uid = uid_of(pod)
            nominated = promised.get(uid) or status(pod).get("nominatedNodeName")
            where = bound.get(uid) or (nominated if priority(pod) >= rank else None)
            if where and uid not in mine and where in scene.nodes:
                view.placed.append((pod, where))
        return view
