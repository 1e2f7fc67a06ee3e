"""The units of queues that wait, the pod in question among them: who gets what, in the order of queues.

After each unit that is placed the order is another one, so a younger pod of another queue may come first. A change is
only good for the pod if it still stands once all have had their turn, and room was made for those that may have some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from moorage.core.disruption.away import GONE
from moorage.core.pods import Pod, as_pending
from moorage.core.queueorder import within
from moorage.core.reclaiming import may_reclaim
from moorage.core.state import NOWHERE, ClusterState
from moorage.engine.engine import Engine
from moorage.engine.roomanswers import wanted
from moorage.engine.roomefforts import RoomEfforts
from moorage.engine.roommemory import RoomMemory
from moorage.engine.roomparts import Order, enough_free
from moorage.engine.settling import make_room
from moorage.engine.sharing import Sharing
from moorage.engine.trial import Trial
from moorage.engine.units import QueuedPod, Unit, gang_uid
from moorage.engine.unittree import Item
from moorage.framework.cycle import UnfinishedError
from moorage.framework.gang_capacity import kind_of

MOST_RIVALS = 2048
"""So many pods of queues beside the one in question; of more the oldest."""
_MOST_CLAIMS = 32
"""Of so many units that found no node it is found out at once whether room is made for them."""
_MOST_ROUNDS = 4
"""So many rounds of making room are looked at."""
_WORK = 250_000
"""So many pods on nodes are looked at for all of them together, half of what is left each time; what takes more is not
proven."""


class Turns(NamedTuple):
    """What came of it."""

    seated: list[str]
    """Pods that found a node."""
    left: list[Unit]
    """Units that found none, or not for all of their pods; in their order."""


class Others(NamedTuple):
    """Pods that belong to no queue. It depends on how long the scheduler has known them when their turn comes."""

    pods: Sequence[Pod]
    seat: Callable[[Iterable[Pod]], None]
    """Decides on some of them."""
    early: bool = False
    """Whether they come before pods of queues that are as important."""


_NOBODY = Others((), lambda _: None)


class _Line:
    """Units in the order of queues, with shares as they are before every decision."""

    def __init__(self, state: ClusterState, sharing: Sharing, units: Iterable[Unit]) -> None:
        self._state = state
        self._sharing = sharing
        self._units = {unit.uid: unit for unit in units}
        self._order = sharing.order(units)
        self._builds = self._order.tree.builds

    def peek(self) -> Item | None:
        """The unit that comes next: a pod without a queue that found a node, or left one, changes shares, too."""
        tree = self._state.queues.settle(self._state)
        if tree.builds != self._builds:
            self._order, self._builds = self._sharing.order(self._units.values()), tree.builds
        return self._order.peek()

    def pop(self) -> Unit:
        """Take out that unit."""
        item = self._order.pop()
        if item is None:
            raise LookupError("nobody waits")
        return self._units.pop(item[2].uid)

    def push(self, unit: Unit) -> None:
        """It waits for more."""
        leaf = self._sharing.member(unit.pod).leaf
        if leaf is not None:
            self._units[unit.uid] = unit
            self._order.push(leaf, self._sharing.item(unit))


class Rivals:
    """The waiting pods of queues; use it inside a statement."""

    def __init__(
        self, engine: Engine, trial: Trial, pod: Pod, others: Iterable[Pod], times_s: tuple[float, float]
    ) -> None:
        """`pod` is the one in question; `times_s` are now and since when all of them count as misfits."""
        self._engine = engine
        self._state: ClusterState = engine.state
        self._trial = trial
        self._own = pod.uid
        self._now_s, self._since_s = times_s
        self.pods = [pod, *(each for each in others if each.uid != pod.uid)]
        """All of them, the one in question first."""
        self._units = list(self._made(self.pods))
        self._work = _WORK
        self._moved = False
        """Whether a pod was moved for others in the rounds that were looked at last."""
        self._least_priority = min((record.pod.template.priority for record in self._state.records()), default=0)

    @property
    def _sharing(self) -> Sharing:
        sharing = self._trial.context.sharing
        if sharing is None:
            raise LookupError("there are no queues")
        return sharing

    def before(self, leaf: str) -> list[Pod]:
        """The pods of the queue of the one in question that come first, have no node, and could ever have one."""
        key, member = self._sharing.pod_key, self._state.queues.member
        own = key(self.pods[0], 0)
        found = (each for each in self.pods if member(each.template).queue == leaf)
        first = [each for each in found if key(each, 0) < own and self._state.record(each.uid) is None]
        possible: dict[object, bool] = {}
        for each in first:
            unit = self._engine.gangs.unit_of(each) or kind_of(each)
            if unit not in possible:
                possible[unit] = not wanted(self._engine, each, self._now_s).obstacle()
        return [each for each in first if possible[self._engine.gangs.unit_of(each) or kind_of(each)]]

    # --- turns ---

    def play(self, swapped: Mapping[str, Pod], others: Others, *, until_own: bool = False) -> Turns:
        """Place all in the order of queues, or those that come before the pod in question; they stay where they are.

        Of others, which belong to no queue, those come before a unit that are more important, or as important if they
        are `early`.
        """
        line, turns = _Line(self._state, self._sharing, self._swapped(swapped)), Turns([], [])
        in_vain: set[tuple[object, ...]] = set()
        waiting = sorted(others.pods, key=lambda pod: -pod.template.priority)[::-1]
        while (item := line.peek()) is not None:
            if waiting and waiting[-1].template.priority + others.early > -int(item[0][0]):
                others.seat([waiting.pop()])
                continue
            unit = line.pop()
            if until_own and self._own in unit.members:
                return turns
            leaf, entries = self._sharing.member(unit.pod).leaf, self._sharing.next_pods(unit)
            kind = (leaf, *sorted(map(str, {kind_of(entry.pod) for entry in entries})), len(entries))
            # Room only gets less, so what did not fit does not fit later.
            if leaf is None or not entries or kind in in_vain or not self._place(unit, entries):
                in_vain.add(kind)
                turns.left.append(unit)
                continue
            turns.seated.extend(entry.pod.uid for entry in entries if self._state.record(entry.pod.uid) is not None)
            if self._sharing.next_pods(unit):
                line.push(unit)
        return turns

    def _place(self, unit: Unit, entries: Sequence[QueuedPod]) -> bool:
        try:
            return self._fits(unit, entries)
        except UnfinishedError:  # what takes too long is not placed, and those after it may take less
            self._trial.work = (self._trial.work or 0) // 2
            return False

    def _fits(self, unit: Unit, entries: Sequence[QueuedPod]) -> bool:
        if unit.gang is None:
            return self._trial.place(unit.pod) is not None
        needs = self._engine.gangs.needs(unit.gang, [entry.pod for entry in unit.members.values()])
        return needs is not None and self._trial.place_gang(entries, needs, needs.domains(self._state)).enough

    # --- room ---

    def row_of_own(self, swapped: Mapping[str, Pod], others: Others, *, evicts: bool) -> tuple[int, tuple[str, ...]]:
        """The row on which the pod in question is once all have had their turn, and which pods left for it."""
        turns = self.play(swapped, others)
        record = self._state.record(self._own)
        if record is not None:
            return (record.row if self._stays_anyway(swapped, turns.left) else NOWHERE), ()
        own = next((unit for unit in turns.left if self._own in unit.members), None)
        if own is None or not evicts or not self._claims(own, self._least_priority):
            return NOWHERE, ()
        orders = self._orders(turns.left, self._least_priority, own)
        row, leaving = self._given(orders or ())
        if orders is None or row == NOWHERE:
            return NOWHERE, ()
        return (row, leaving) if self._stays_anyway(swapped, turns.left, orders) else (NOWHERE, ())

    def _stays_anyway(self, swapped: Mapping[str, Pod], left: Sequence[Unit], orders: Sequence[Order] = ()) -> bool:
        """Whether the pod keeps its node whether or not pods that are moved for others come back in time."""
        self._moved = False
        for back in (True, False):
            with self._state.statement():
                after = self._next_round(swapped, orders, back=back) if orders else left
                if not self._stays(swapped, after, back=back):
                    return False
            if not self._moved:
                return True
        return True

    def _next_round(self, swapped: Mapping[str, Pod], orders: Iterable[Order], *, back: bool) -> list[Unit]:
        """Do what was ordered, and let all have their turns again; those that found no node then."""
        self._carry_out(orders, back=back)
        return self.play(swapped, _NOBODY).left

    def _carry_out(self, orders: Iterable[Order], *, back: bool) -> None:
        """Do what was ordered; `back`: pods that move are on their new nodes already."""
        entries = {uid: entry.pod for order in orders for uid, entry in order.unit.members.items()}
        for order in orders:
            self._moved = self._moved or bool(order.moves)
            for uid in order.victims:
                gone = self._state.record(uid)
                self._trial.away().take((gone,), GONE)
                row = self._state.row_of(order.moves.get(uid, "")) if back else None
                if gone is not None and row is not None:
                    self._trial.hold(as_pending(gone.pod), row)
        for uid, node in ((uid, node) for order in orders for uid, node in order.nodes.items()):
            row = self._state.row_of(node)
            if row is not None and uid in entries and self._state.record(uid) is None:
                self._trial.hold(entries[uid], row)

    def _given(self, orders: Iterable[Order]) -> tuple[int, tuple[str, ...]]:
        for order in orders:
            row = self._state.row_of(order.nodes.get(self._own, ""))
            if row is not None:
                leaving = (record for uid in order.victims if (record := self._state.record(uid)) is not None)
                return row, tuple(record.pod.key for record in leaving)
        return NOWHERE, ()

    def _stays(self, swapped: Mapping[str, Pod], left: Sequence[Unit], *, back: bool) -> bool:
        """Whether the pod, and its gang, need not leave again for those that found no node.

        Room is made in rounds: what a gang needs comes first, and what it has above that may want this one's place.
        """
        for _ in range(_MOST_ROUNDS):
            record = self._state.record(self._own)
            if record is None:
                return False
            above = record.pod.template.priority
            if not (self._sharing.member(record.pod).preemptible and any(self._claims(unit, above) for unit in left)):
                return True
            orders = self._orders(left, above)
            gang = record.pod.template.gang
            kin = {self._own} if gang is None else {*self._state.gangs.standing(gang)}
            if orders is None or not all(kin.isdisjoint(order.victims) for order in orders):
                return False
            if not orders:
                return True
            left = self._next_round(swapped, orders, back=back)
        return True

    def _orders(self, left: Sequence[Unit], above: int, own: Unit | None = None) -> list[Order] | None:
        """What a round of making room does for units that found no node, `own` among them; None if that takes too long.

        Of many only those that may claim room: they come first, and the others stand for their queues at most.
        """
        count = min(_MOST_CLAIMS, self._work // (2 * max(1, self._state.pod_count)))
        self._work -= count * self._state.pod_count
        if not count:
            return None
        units = list(left)
        if len(units) > count:
            units = [unit for unit in units if unit is own or self._claims(unit, above)]
        if own is not None and own not in units[:count]:
            units = [*units[: count - 1], own]
        _, found = make_room(
            self._trial.context, self._sharing, self._now_s, RoomMemory(RoomEfforts(inf)), units[:count]
        )
        self._sharing.renew()
        return found

    def _claims(self, unit: Unit, above: int) -> bool:
        """Whether room could be made for a unit at all: among its own for one of a higher priority than `above`, by the
        share of its queue, or by moving others.
        """
        member = self._sharing.member(unit.pod)
        need = self._sharing.need(entry.pod for entry in self._sharing.next_pods(unit))
        if member.leaf is None or not need:
            return False
        if -int(self._sharing.unit_key(unit)[0]) > above:
            return True
        if not within(member.leaf.allocated, need, member.leaf.limit):
            return False
        return may_reclaim(member.leaf, need, preemptible=member.preemptible) or enough_free(self._state, need)

    # --- units ---

    def _made(self, pods: Iterable[Pod]) -> Iterator[Unit]:
        units: dict[str, Unit] = {}
        for pod in pods:
            gang = self._engine.gangs.unit_of(pod)
            uid = pod.uid if gang is None else gang_uid(gang)
            unit = units.setdefault(uid, Unit(uid, pod, gang, self._since_s, self._since_s))
            unit.members[pod.uid] = QueuedPod(pod, unit, self._since_s, misfit_s=self._since_s)
        return iter(units.values())

    def _swapped(self, swapped: Mapping[str, Pod]) -> list[Unit]:
        """The units with some of their pods changed."""
        if not swapped:
            return self._units
        return list(self._made(swapped.get(pod.uid, pod) for pod in self.pods))
