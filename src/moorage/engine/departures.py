"""Pods that had to leave their nodes in a round of making room: for whom, and who of them can stay after all."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence

from moorage.core.disruption.away import GONE
from moorage.core.pods import Pod, as_pending
from moorage.core.queuetree import QueueNode
from moorage.core.state import ClusterState, PodRecord
from moorage.engine.exchanging import exchange
from moorage.engine.kinds import looks_of
from moorage.engine.roomparts import Claimant, Order
from moorage.engine.roomplacing import RoomPlacing
from moorage.engine.trial import Trial
from moorage.engine.units import Unit


class RoundDepartures:
    """What a round has taken from nodes so far, in its what-if."""

    def __init__(self, state: ClusterState, trial: Trial, placing: RoomPlacing) -> None:
        self._state, self._trial, self._placing = state, trial, placing
        self.pods = trial.away()
        """Pods that were on nodes before the round."""
        self._blame: dict[str, tuple[Unit, str]] = {}
        """For whom they went last, and why."""

    def add(self, later: RoundDepartures, own: Container[str]) -> None:
        """Others left after these; `own` are pods that came to nodes in between."""
        self._blame |= later._blame
        self.pods.adopt(later.pods, own)

    def note(self, record: PodRecord, unit: Unit, why: str, *, stood: bool) -> bool:
        """A pod leaves its node for a unit; whether it is the first time that one does that `stood` there before."""
        uid = record.pod.uid
        self._blame[uid] = unit, why
        if not stood:
            self._trial.let_go(uid)
            return False
        self.expect(record.pod, value=True)
        is_first = uid not in self.pods
        self.pods.take((record,), GONE)
        return is_first

    def expect(self, pod: Pod, *, value: bool) -> None:
        """Whether a pod counts as evicted and expected back, as long as the what-if lasts."""
        queues = self._state.queues
        before = queues.expect(pod, value=value)
        if before is not value:
            self._state.undo.note(lambda: queues.expect(pod, value=before))

    def node_of(self, uid: str) -> str:
        """Where a pod is now; empty for nowhere."""
        record = self._state.record(uid)
        return "" if record is None else record.node

    def maker(self, uid: str) -> str:
        """The unit for which a pod went last."""
        return self._blame[uid][0].uid

    def nowhere(self) -> list[PodRecord]:
        """Pods without a node, as they were before."""
        return [home for home in self.pods.records if not self.node_of(home.pod.uid)]

    def leaving(self) -> dict[str, tuple[Unit, str]]:
        """Pods that have to leave their nodes, for whom and why."""
        uids = (home.pod.uid for home in self.pods.records)
        return {uid: self._blame[uid] for uid in uids if not self.pods.stays(uid)}

    def go_home(self) -> None:
        """Pods stay that can after all: of a job all that had to leave, or none."""
        jobs: dict[object, list[PodRecord]] = {}
        for uid in self.leaving():
            home = self.pods.home(uid)
            jobs.setdefault(home.pod.template.gang or uid, []).append(home)
        for homes in jobs.values():
            self._stay(homes)

    def orders(self, served: Iterable[Claimant], leaf_of: Callable[[Pod], QueueNode | None]) -> list[Order]:
        """Who has to go for whom, now that everything has its place: for the unit that it was noted for, or another one
        of its queue that got the room instead, or just for the first one.
        """
        orders: dict[str, Order] = {}
        for claimant in served:
            nodes = {uid: node for entry in claimant.entries if (node := self.node_of(uid := entry.pod.uid))}
            if nodes:
                known = orders.setdefault(claimant.unit.uid, Order(claimant.unit, claimant.leaf, {}, [], {}, []))
                known.nodes.update(nodes)
        for uid, (unit, why) in self.leaving().items():
            leaf = leaf_of(unit.pod)
            same = (order for order in orders.values() if order.leaf is leaf)
            order = orders.get(unit.uid) or next(same, None) or next(iter(orders.values()), None)
            if order is not None:
                order.victims.append(uid)
                order.why.append(why if order.leaf is leaf else f"makes room for queue {order.leaf.name}")
                if node := self.node_of(uid):
                    order.moves[uid] = node
        exchange(orders.values(), self._looks, lambda uid: self.pods.home(uid).node)
        return list(orders.values())

    def _looks(self, uid: str) -> Hashable | None:
        """What a pod that got room looks like to the plugins."""
        record = self._state.record(uid)
        looks = None if record is None else looks_of(self._trial.context, as_pending(record.pod))
        return None if record is None or looks is None else (looks, record.pod.requests)

    def _stay(self, homes: Sequence[PodRecord]) -> None:
        """Put pods back where they were, if there is still room for all of them."""
        with self._state.statement() as what_if:
            for home in homes:
                self.expect(home.pod, value=False)
            if self._placing.go_home(homes, self.pods):
                what_if.commit()
