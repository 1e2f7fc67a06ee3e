"""Freed room that is reserved for a gang which has waited for long: for one gang at a time, and for a limited time.

Only one gang has a turn, so no two gangs wait for each other's reservations. When a turn ends, other gangs that have
waited long enough go first, and the gang itself may have another turn after a pause of the same length, so that smaller
work gets a chance too. Namespaces take turns, and so do the gangs of each, so that many old gangs of one namespace do
not pass the turn among themselves. A gang of higher priority takes over at once. A gang that could not start even if
all nodes were empty gets no turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from moorage.core.gangneeds import GangNeeds
from moorage.core.membership import GangKey
from moorage.engine.bindingcycles import BindingCycle
from moorage.engine.context import EngineContext
from moorage.engine.units import Place, QueuedPod, Unit
from moorage.framework.contract import GangPatience
from moorage.framework.cycle import Cycle
from moorage.framework.gang_capacity import holdable

_SERVED_S = 3600.0
"""How long it is remembered that a namespace has had a turn."""
_BEHIND_S = 10.0
"""How long after giving way to another gang a gang is tried again, in case that one did not use its turn."""
_NEVER = float("-inf")
_ABOUT_TO_BE_TRIED = (Place.ACTIVE, Place.BACKOFF)


class GangTurns:
    """Which gang has room reserved; `priority` returns the priority of a gang."""

    def __init__(self, context: EngineContext, priority: Callable[[Unit], int]) -> None:
        self._context = context
        self._priority = priority
        self.favoured: GangKey | None = None
        """The gang whose turn it is."""
        self._until_s = 0.0
        self._kept: dict[str, None] = {}
        """Members that have a node reserved."""
        self._rests: dict[GangKey, float] = {}
        """Gangs that have had a turn -> when they may have another one."""
        self._in_line: dict[GangKey, None] = {}
        """Gangs that asked for a turn while another one had it."""
        self._served: dict[str, float] = {}
        """Namespace -> when a gang of it last had a turn."""

    @property
    def busy(self) -> bool:
        """Whether `review` has something to do, now or later."""
        return self.favoured is not None

    def keep(
        self,
        gang: Unit,
        ready: Sequence[QueuedPod],
        needs: GangNeeds,
        bindings: Iterable[BindingCycle],
        patience: GangPatience,
        now: float,
    ) -> None:
        """Nominate the members that fit to their nodes, if the gang has waited for long and gets a turn."""
        due_s = gang.first_s + patience.reserve_after_seconds
        if self.favoured != gang.key:
            due_s = max(due_s, self._rests.get(gang.key, due_s))
        if now < due_s:
            self._context.set_alarm(due_s, gang)
        elif self.favoured != gang.key and self._is_taken(gang):
            self._in_line[gang.key] = None
        elif self.favoured is None and self._is_behind(gang):
            self._in_line[gang.key] = None
            self._context.set_alarm(now + _BEHIND_S, gang)
        elif not self._is_possible(ready, needs, now):
            self.leave(gang.key, now)
        else:
            self._begin(gang.key, patience, now)
            for binding in bindings:
                pod = binding.entry.pod
                self._kept[pod.uid] = None
                self._context.state.nominations.set(pod, binding.node)

    def _begin(self, key: GangKey, patience: GangPatience, now: float) -> None:
        if self.favoured == key:
            return
        if self.favoured is not None:  # it gives way, and continues its turn later
            self._in_line[self.favoured] = None
            self._rests.pop(self.favoured, None)
            self._end()
        self._in_line.pop(key, None)
        self._served = {name: at_s for name, at_s in self._served.items() if now - at_s < _SERVED_S}
        self._served[key.namespace] = now
        self.favoured, self._until_s = key, now + patience.reserve_for_seconds
        self._rests[key] = self._until_s + patience.reserve_for_seconds

    def _is_taken(self, gang: Unit) -> bool:
        other = None if self.favoured is None else self._context.queue.gang(self.favoured)
        return other is not None and self._priority(other) >= self._priority(gang)

    def _is_behind(self, gang: Unit) -> bool:
        """Whether a gang of at least the same priority, with an earlier last turn, is in line and about to be tried."""
        own, priority = self._last_turn(gang.key), self._priority(gang)
        earlier = (self._context.queue.gang(key) for key in self._in_line if self._last_turn(key) < own)
        tried = (each for each in earlier if each is not None and each.place in _ABOUT_TO_BE_TRIED)
        return any(self._priority(each) >= priority for each in tried)

    def _last_turn(self, key: GangKey) -> tuple[float, float]:
        """Sort key: the longest time without a turn first, of the namespace and then of the gang itself."""
        return self._served.get(key.namespace, _NEVER), self._rests.get(key, _NEVER)

    def _is_possible(self, ready: Sequence[QueuedPod], needs: GangNeeds, now: float) -> bool:
        """Whether enough members would fit if all nodes were empty."""
        state = self._context.state
        cycles = [Cycle(entry.pod, state, now) for entry in ready]
        try:
            held = holdable(cycles, lambda cycle: self._context.responsible(cycle.pod))
        except Exception:  # noqa: BLE001 - reported when the gang itself is tried
            return False
        return needs.possible(state, len(held))

    def nominated(self, key: GangKey, uids: Iterable[str], now: float) -> None:
        """These members were nominated to nodes by preemption, which needs no turn."""
        if self.favoured == key:
            for uid in uids:
                self._kept.pop(uid, None)
            self.leave(key, now)

    def leave(self, key: GangKey, now: float) -> None:
        """A gang does not need a turn."""
        self._rests.pop(key, None)
        self._in_line.pop(key, None)
        if self.favoured == key:
            self._end()
            self._next(now)

    def forget(self, key: GangKey) -> None:
        """A gang has no members any more."""
        self._rests.pop(key, None)
        self._in_line.pop(key, None)

    def next_review_s(self) -> float | None:
        """When `review` has something to do even if nothing happens."""
        return None if self.favoured is None else self._until_s

    def review(self, now: float) -> None:
        """End the turn if its time is over or its gang is gone."""
        if self.favoured is None:
            return
        gang = self._context.queue.gang(self.favoured)
        if gang is not None and now < self._until_s:
            return
        if gang is None:
            self._rests.pop(self.favoured, None)
        else:
            self._context.set_alarm(self._rests[self.favoured], gang)
        self._end()
        self._next(now)

    def _end(self) -> None:
        for uid in self._kept:
            self._context.end_nomination(uid)
        self._kept.clear()
        self.favoured = None

    def _next(self, now: float) -> None:
        """Try the gangs in line again; the first by priority, last turn and age gets the turn."""
        for key in list(self._in_line):
            gang = self._context.queue.gang(key)
            if gang is None:
                del self._in_line[key]
            else:
                self._context.queue.wake(gang, now)
