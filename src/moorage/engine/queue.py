"""The scheduling queue, with kube-scheduler's rules.

A pod is in exactly one place: active (to be tried), backing off, unschedulable (waiting for an event that can help),
gated (a PreEnqueue plugin refused it) or in flight (taken out by `pop`, given back by `requeue` or removed). Places
follow from the states of a pod's life (`lifecycle`).
- Active pods come out in the order of QueueSort.
- Backoff doubles with each failure up to a maximum; failures by error count separately. When nothing is active, a pod
  that backs off because it did not fit is tried at once; after an error it waits for the end of its backoff.
- Unschedulable and gated pods wake up on changes that may help against the plugin that rejected them; unschedulable
  ones also after five minutes.
- A pod that fails repeatedly at the same instant also waits for the end of its backoff, as nothing can have changed.
- A gang is one unit: its waiting members are where it is, and come out with it.
- Units that are alike (`kind`) stand in line while they are unschedulable: a change wakes the first, and the next one
  is tried as soon as that one is placed. What the first does not fit, the others do not fit either.
- Active pods of a namespace that is slow or has its share of the binds in flight give way to others (`pacing`).
Every operation costs O(log pods); heaps hold stale items, recognised by a ticket number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import field
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.backoff import Backoff
from moorage.engine.lifecycle import (
    ACTIVE,
    BACK,
    BACKOFF,
    BOUND,
    GATED,
    GONE,
    ON_ITS_WAY,
    TRYING,
    UNSCHEDULABLE,
    WAITING,
)
from moorage.engine.pacing import Pacing
from moorage.engine.sharedorder import SharedOrder
from moorage.engine.units import QueuedPod, Unit, gang_uid
from moorage.framework.changes import Change, What
from moorage.framework.gangs import GANG_SCHEDULING

FLUSH_AFTER_S = 300.0
FLUSH_EVERY_S = 30.0
_HASTY_ATTEMPTS = 32
"""How often a pod may fail at one instant before it has to wait."""
_LISTED = (UNSCHEDULABLE, GATED)
_ENDS_ELSEWHERE = ON_ITS_WAY | {BOUND}


QueueKey = Callable[[Unit], tuple[Any, ...]]
Gate = Callable[[Unit, float], str | None]
"""PreEnqueue: the name of the plugin that keeps the unit out, None if it may enter."""
Helps = Callable[[str, Unit, Change, float], bool]
"""(plugin, unit, change, now): whether the change may help a unit that the plugin rejected."""
Kind = Callable[[Unit], Hashable]
"""Equal for units of which all or none fit; None for units that are like no other."""
_FEW_STALE = 64
"""How many more stale items than pods the active heap may hold."""


Timed = tuple[float, tuple[Any, ...], int, Unit]
"""(time, queue key, ticket, unit)"""

NEW, FAILED, WAITED, HASTY, FORCED, FLUSHED, UNGATED, UNFINISHED = (
    "UnscheduledPodAdd", "ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ", "ForceActivate",
    "UnschedulableTimeout", "TargetPodUpdatePodSchedulingGatesEliminated", "AttemptUnfinished",
)  # fmt: skip
"""Why pods enter a place, apart from changes in the cluster; the label `event` of kube-scheduler's metrics."""


@dataclass(slots=True)
class Arrivals:
    """How many pods entered the places of the queue, by cause; gated counts as unschedulable, as in kube-scheduler."""

    active: dict[str, int] = field(default_factory=dict)
    backoff: dict[str, int] = field(default_factory=dict)
    unschedulable: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class SchedulingQueue:
    """Pods and gangs that wait. `key` orders the active ones, `gate` is PreEnqueue, `helps` the queueing hints."""

    key: QueueKey
    gate: Gate
    helps: Helps
    backoff: Backoff = Backoff()
    pacing: Pacing = field(default_factory=lambda: Pacing(lambda _: 1))
    kind: Kind = lambda _: None
    _pods: dict[str, QueuedPod] = field(default_factory=dict)
    get: Callable[[str], QueuedPod | None] = field(init=False)
    """A pod by uid, in flight or waiting."""
    _gangs: dict[str, Unit] = field(default_factory=dict)
    """By `gang_uid`."""
    _by_key: dict[GangKey, Unit] = field(default_factory=dict)
    """The same."""
    _active: list[tuple[tuple[Any, ...], int, Unit]] = field(default_factory=list)
    _postponed: list[tuple[tuple[Any, ...], int, Unit]] = field(default_factory=list)
    """Active, but not tried again in this call."""
    _backing_off: list[Timed] = field(default_factory=list)
    _after_error: list[Timed] = field(default_factory=list)
    _by_plugin: dict[str, dict[str, Unit]] = field(default_factory=dict)
    _unschedulable: dict[str, Unit] = field(default_factory=dict)
    _gated: dict[str, Unit] = field(default_factory=dict)
    _lines: dict[int, dict[str, Unit]] = field(default_factory=dict)
    """Units that are alike, by the number of their line; the first may be anywhere, the others wait for it."""
    _line_count: int = 0
    """How many lines there have been."""
    _line_of: dict[Hashable, int] = field(default_factory=dict)
    """Kind -> the number of its line."""
    _kind_of: dict[int, Hashable] = field(default_factory=dict)
    """The same, by number."""
    _tickets: int = 0
    _flush_s: float | None = None
    arrivals: Arrivals = field(default_factory=Arrivals)
    shared: SharedOrder | None = None
    """The order of units that belong to queues; None while there are no queues."""

    def __post_init__(self) -> None:
        self.get = self._pods.get

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def quiet(self) -> bool:
        """Whether no pod waits for a change."""
        return not self._by_plugin

    def gang(self, key: GangKey) -> Unit | None:
        """A gang that has waiting members."""
        return self._by_key.get(key)

    def unit_of(self, entry: QueuedPod) -> Unit:
        """What a pod is queued with; for a member in its binding cycle, the waiting rest of its gang, if any."""
        unit = entry.unit
        return unit if unit.gang is None else self._by_key.get(unit.gang, unit)

    def find(self, uid: str) -> Unit | None:
        """The unit of a pod, or a gang by its `gang_uid`."""
        entry = self._pods.get(uid)
        return self._gangs.get(uid) if entry is None else self.unit_of(entry)

    def holds(self, unit: Unit) -> bool:
        """Whether the unit is still in the queue."""
        return self.find(unit.uid) is unit

    def entries(self) -> Iterable[QueuedPod]:
        """All pods, in order of first arrival, including members of gangs."""
        return self._pods.values()

    def gangs(self) -> Iterable[Unit]:
        """All gangs that have waiting members."""
        return self._gangs.values()

    # --- in ---

    def upsert(self, pod: Pod, now: float, gang: GangKey | None = None) -> QueuedPod:
        """Add a pod, or update it; a change of the pod itself may wake it."""
        entry = self._pods.get(pod.uid)
        if entry is not None and entry.unit.gang != gang and entry.state in WAITING:
            self.remove(pod.uid, now)
            entry = None
        if self.shared is not None and not pod.gates:
            self.shared.waits(pod)
        if entry is None:
            return self._add(pod, now) if gang is None else self._add_member(pod, gang, now)
        before, entry.pod = entry.pod, pod
        unit = entry.unit
        if unit.pod.uid == pod.uid:
            unit.pod = pod
        if unit.gang is not None:
            self._member_changed(entry, before, now)
        elif entry.state is GATED:
            self._wake(unit, now, UNGATED if before.gates and not pod.gates else What.SELF.label)
        elif entry.state is UNSCHEDULABLE and _differs(before, pod):
            change = Change(What.SELF, pod=pod)
            if any(self.helps(name, unit, change, now) for name in sorted(unit.rejected_by)):
                self._wake(unit, now, change.label)
        elif entry.state is ACTIVE and before.template is not pod.template:
            self._push_active(unit, now, "")
        return entry

    def _add(self, pod: Pod, now: float) -> QueuedPod:
        unit = Unit(pod.uid, pod, None, now, now)
        entry = self._pods[pod.uid] = unit.members[pod.uid] = QueuedPod(pod, unit, now)
        self._enter(unit, now, NEW)
        return entry

    def _add_member(self, pod: Pod, key: GangKey, now: float) -> QueuedPod:
        entry = self._pods[pod.uid] = QueuedPod(pod, self._gang(key, pod, now), now)
        self._join(entry, now, NEW)
        return entry

    def requeue(
        self,
        unit: Unit,
        now: float,
        *,
        rejected_by: frozenset[str],
        error: bool,
        pending: bool,
        cause: str = "",
    ) -> None:
        """Give back a unit whose attempt failed; it waits for a change that helps, or backs off after an error."""
        if not self.holds(unit):
            return
        unit.move(BACK, now, cause)
        again = unit.since_s == now and any(entry.attempts > 1 for entry in unit.members.values())
        unit.hasty = unit.hasty + 1 if again else 0
        unit.since_s, unit.pauses = now, 0
        unit.failed_by_error = error
        unit.rejected_by = rejected_by
        unit.skip_backoff = pending and unit.hasty < _HASTY_ATTEMPTS
        if error:
            unit.errors += 1
            unit.backoff_until_s = now + self.backoff.after(unit.errors)
        else:
            unit.errors = 0
            unit.misfits += 1
            for entry in unit.members.values():
                entry.misfit_s = now if entry.misfit_s is None else entry.misfit_s
            unit.backoff_until_s = now + self.backoff.after(unit.misfits)
        if error or not rejected_by:
            self._enter(unit, now, FAILED)
        else:
            self._park(unit, now)

    def remove(self, uid: str, now: float, cause: str = "") -> QueuedPod | None:
        """Remove a pod for good; the story of one in a binding cycle ends with that."""
        entry = self._pods.pop(uid, None)
        if entry is None:
            return None
        if self.shared is not None:
            self.shared.leaves(uid)
        unit = entry.unit
        if entry.state not in _ENDS_ELSEWHERE:
            if unit.gang is None:
                self._drop(unit, now, cause)
            else:
                self.detach(entry, now)
                entry.move(GONE, now, cause)
        if unit.gang is None:
            unit.members.clear()  # what refers to each other lives until the next collection
        return entry

    def hold(self, unit: Unit, gate: str, now: float) -> None:
        """Give back a unit that may not be tried after all."""
        if self.holds(unit):
            self._hold(unit, gate, now)

    @property
    def unfinished(self) -> bool:
        """Whether attempts go on in the next call, even if nothing happens."""
        return bool(self._postponed)

    def postpone(self, unit: Unit, now: float) -> int:
        """Give back a unit whose attempt is not finished: it goes on in the next call; counts as one decision."""
        if self.holds(unit):
            unit.pauses += 1
            unit.move(BACK, now, UNFINISHED)
            unit.move(ACTIVE, now, UNFINISHED)
            self._tickets = unit.ticket = self._tickets + 1
            self._postponed.append((self.key(unit), unit.ticket, unit))
        return 1

    # --- out ---

    def pop(self, now: float) -> Unit | None:
        """The next unit to try, now in flight; None when nothing may be tried yet."""
        if self._backing_off or self._after_error or self._flush_s is not None:
            self.tick(now)
        unit = self._pop_active(now)
        if unit is None and not self.pacing.ready():
            unit = self._pop_backing_off(now)
        if unit is not None:
            unit.move(TRYING, now, "")
        return unit

    def away(self) -> set[int]:
        """`id` of active units that were taken out and come back by themselves: they give way, or are postponed."""
        items = (*self.pacing.items(), *self._postponed)
        return {id(unit) for _, ticket, unit in items if unit.ticket == ticket}

    def admit(self, now: float, untouched: int) -> None:
        """Put active pods back that were postponed, or set aside and need not give way any more.

        `untouched` is how many may be tried before a namespace could have its share of the binds.
        """
        self.pacing.begin(now, untouched)
        if not self._postponed and not self.pacing.aside:
            return
        for item in (*self._postponed, *self.pacing.admitted(now)):
            if item[2].ticket == item[1] and (self.shared is None or not self.shared.takes(item[2])):
                heappush(self._active, item)
        self._postponed.clear()

    def pop_slow(self, now: float) -> Unit | None:
        """The next unit to try of a slow namespace, now in flight; for when `pop` finds nothing else."""
        item = self.pacing.next_slow()
        if item is None:
            return None
        unit: Unit = item[2]
        unit.move(TRYING, now, "")
        return unit

    def tick(self, now: float) -> None:
        """Move pods whose backoff or time as unschedulable is over."""
        for heap in (self._backing_off, self._after_error) if self._backing_off or self._after_error else ():
            while heap and (heap[0][0] <= now or _stale(heap[0])):
                _, _, ticket, unit = heappop(heap)
                if unit.ticket == ticket:
                    self._push_active(unit, now, WAITED)
                    _count(self.arrivals.active, len(unit.members), WAITED)
        if self._flush_s is not None and now >= self._flush_s:
            for unit in [each for each in self._unschedulable.values() if now - each.since_s > FLUSH_AFTER_S]:
                self._wake(unit, now, FLUSHED)
            self._flush_s = now + FLUSH_EVERY_S if self._unschedulable else None

    def next_wakeup(self) -> float | None:
        """When `tick` next has something to do, if nothing else happens."""
        times = [self._flush_s] if self._flush_s is not None else []
        for heap in (self._backing_off, self._after_error):
            while heap and _stale(heap[0]):
                heappop(heap)
            if heap:
                times.append(heap[0][0])
        return min(times) if times else None

    def ready(self) -> bool:
        """Whether `pop` would find a unit without time passing."""
        while self._active and self._active[0][2].ticket != self._active[0][1]:
            heappop(self._active)
        while self._backing_off and _stale(self._backing_off[0]):
            heappop(self._backing_off)
        if self.shared is not None and self.shared.peek() is not None:
            return True
        return bool(self._active or self._postponed or (self._backing_off and not self.pacing.ready()))

    def tidy(self) -> None:
        """Drop stale items of the heaps; what comes out, and in which order, stays the same."""
        self.get = self._pods.get
        for heap in (self._backing_off, self._after_error):
            heap[:] = sorted((item for item in heap if not _stale(item)), key=lambda item: item[:3])
        self._name_lines()
        active = [item for item in self._active if item[2].ticket == item[1]]
        self._active[:] = sorted(active, key=lambda item: item[:2])
        if self.shared is not None:
            self.shared.renew(entry.pod for entry in self._pods.values())

    def changed(self, change: Change, now: float, plugins: Iterable[str]) -> None:
        """Wake the units that one of these plugins rejected and that the change may help."""
        for name in plugins:
            waiting = self._by_plugin.get(name)
            if waiting:
                for unit in [each for each in waiting.values() if self.helps(name, each, change, now)]:
                    self._wake(unit, now, change.label)

    def wake(self, unit: Unit, now: float) -> None:
        """Wake an unschedulable or gated unit, whatever rejected it."""
        if unit.state in _LISTED:
            self._wake(unit, now, FORCED)

    def soon(self, unit: Unit) -> bool:
        """Whether `pop` returns a unit without waiting for the end of its backoff."""
        return unit.state is ACTIVE or (unit.state is BACKOFF and not _is_patient(unit))

    def sort_again(self, unit: Unit, now: float) -> None:
        """An active unit belongs elsewhere than before, or may not be tried any more."""
        if unit.state is ACTIVE:
            self._enter(unit, now, "")

    def retry(self, unit: Unit, now: float) -> None:
        """A step towards placing a waiting unit failed: try it again after the backoff of an error."""
        if unit.state not in _LISTED:
            return
        unit.failed_by_error, unit.skip_backoff = True, False
        unit.errors += 1
        unit.backoff_until_s = now + self.backoff.after(unit.errors)
        self._wake(unit, now, FORCED)

    def restart(self, now: float, namespace: str | None = None) -> None:
        """Order and gates have changed, or the gates of one namespace: sort in its waiting units anew, or all."""
        if namespace is None:
            for heap in (self._active, self._postponed, self._backing_off, self._after_error):
                heap.clear()  # keys of two orders cannot be compared
            self.pacing.clear()
        single = (entry.unit for entry in self._pods.values() if entry.unit.gang is None)
        for unit in [*single, *self._gangs.values()]:
            if unit.state in WAITING and namespace in (None, unit.pod.template.namespace):
                self._wake(unit, now, FORCED)

    # --- gangs ---

    def _gang(self, key: GangKey, pod: Pod, now: float) -> Unit:
        """The unit of a gang; a new one is represented by this pod, which is about to join it."""
        gang = self._by_key.get(key)
        if gang is None:
            self._tickets += 1
            gang = Unit(gang_uid(key), pod, key, now, now, first_ticket=self._tickets)
            self._gangs[gang.uid] = self._by_key[key] = gang
            self._hold(gang, GANG_SCHEDULING, now)
        return gang

    def _join(self, entry: QueuedPod, now: float, why: str = "") -> None:
        """Add a member to its gang. Without `why` it is not counted as an arrival.

        The gang may be complete now. The caller wakes it after adding all members, so that its gate runs once and
        not for each of them.
        """
        gang = entry.unit
        gang.members[entry.pod.uid] = entry
        gang.arrived_s = now
        if gang.state is UNSCHEDULABLE:
            self._wake(gang, now, why)
            return
        entry.move(gang.state, now, why)
        if gang.state is ACTIVE:
            entry.ready_s = now if entry.ready_s is None else entry.ready_s
            self._push_active(gang, now, why)
            _count(self.arrivals.active, 1, why)
        elif gang.state is GATED:
            _count(self.arrivals.unschedulable, 1, why)

    def rejoin(self, entry: QueuedPod, now: float, cause: str) -> Unit:
        """What a pod is given back with after its attempt: its unit, or the gang, which a member joins again."""
        unit, pod = entry.unit, entry.pod
        if pod.uid in unit.members or unit.gang is None or self._pods.get(pod.uid) is not entry:
            return unit
        entry.move(BACK, now, cause)
        gang = entry.unit = self._gang(unit.gang, pod, now)
        self._join(entry, now)
        self._unlist(gang)
        return gang

    def detach(self, entry: QueuedPod, now: float) -> None:
        """A member leaves the waiting members of its gang: for its binding cycle, until `rejoin`, or for good."""
        gang = entry.unit
        if gang.members.pop(entry.pod.uid, None) is None:
            return
        if not gang.members:
            self._drop(gang, now, "")
            del self._gangs[gang.uid], self._by_key[gang.key]
        elif gang.pod.uid == entry.pod.uid:
            gang.pod = next(iter(gang.members.values())).pod

    def separate(self, entry: QueuedPod) -> None:
        """A member in its binding cycle is not placed with its gang any more: it comes back by itself."""
        pod, first_s = entry.pod, entry.first_s
        entry.unit = Unit(pod.uid, pod, None, first_s, first_s, {pod.uid: entry}, state=TRYING)

    def _member_changed(self, entry: QueuedPod, before: Pod, now: float) -> None:
        gang = entry.unit
        if entry.pod.uid not in gang.members:
            return
        differs = _differs(before, entry.pod)
        if gang.state is GATED or (gang.state is UNSCHEDULABLE and differs):
            self._wake(gang, now, What.SELF.label)
        elif gang.state is ACTIVE and differs:
            self._push_active(gang, now, What.SELF.label)

    # --- inside ---

    def _enter(self, unit: Unit, now: float, why: str) -> None:
        """Put a unit where it belongs: gated, backing off or active."""
        gate = self.gate(unit, now)
        if gate is not None:
            if unit.state is not GATED:
                _count(self.arrivals.unschedulable, len(unit.members), why)
            self._hold(unit, gate, now)
            return
        for pod in unit.members.values():
            if pod.ready_s is None:
                pod.ready_s = now
        if unit.backoff_until_s > now and not unit.skip_backoff:
            _count(self.arrivals.backoff, len(unit.members), why)
            self._back_off(unit, now, why)
        else:
            _count(self.arrivals.active, len(unit.members), why)
            self._push_active(unit, now, why)

    def _hold(self, unit: Unit, gate: str, now: float) -> None:
        self.leave_line(unit, now)
        unit.move(GATED, now, gate)
        unit.ticket = 0
        unit.rejected_by = frozenset({gate})
        self._gated[unit.uid] = unit
        self._by_plugin.setdefault(gate, {})[unit.uid] = unit

    def _push_active(self, unit: Unit, now: float, why: str) -> None:
        unit.move(ACTIVE, now, why)
        ticket, unit.first_ticket = unit.first_ticket, 0
        if not ticket:
            self._tickets = ticket = self._tickets + 1
        unit.ticket = ticket
        if self.shared is not None and self.shared.takes(unit):
            return
        active = self._active
        heappush(active, (self.key(unit), ticket, unit))
        if len(active) > 2 * len(self._pods) + _FEW_STALE:
            self.tidy()  # a standby never pops, and would keep every pod that has come and gone

    def _back_off(self, unit: Unit, now: float, why: str) -> None:
        unit.move(BACKOFF, now, why)
        key = self.key(unit)
        heap = self._after_error if _is_patient(unit) else self._backing_off
        self._tickets = unit.ticket = self._tickets + 1
        heappush(heap, (unit.backoff_until_s, key, unit.ticket, unit))

    def _park(self, unit: Unit, now: float) -> None:
        _count(self.arrivals.unschedulable, len(unit.members), FAILED)
        unit.move(UNSCHEDULABLE, now, FAILED)
        unit.ticket = 0
        self._unschedulable[unit.uid] = unit
        if self._stands_first(unit, now):
            self._file(unit)
        if self._flush_s is None:
            self._flush_s = now + FLUSH_EVERY_S

    def _drop(self, unit: Unit, now: float, cause: str) -> None:
        self._unlist(unit)
        self.leave_line(unit, now)
        unit.ticket = -1
        unit.move(GONE, now, cause)

    def _wake(self, unit: Unit, now: float, why: str) -> None:
        self._unlist(unit)
        self._enter(unit, now, why)

    def _unlist(self, unit: Unit) -> None:
        if unit.state not in _LISTED:
            return
        uid = unit.uid
        listed = self._gated.pop(uid, None) or self._unschedulable.pop(uid, None)
        if listed is not None:
            self._unfile(unit)

    def _file(self, unit: Unit) -> None:
        """Note which changes may help a unit."""
        for name in unit.rejected_by:
            self._by_plugin.setdefault(name, {})[unit.uid] = unit

    def _unfile(self, unit: Unit) -> None:
        for name in unit.rejected_by:
            waiting = self._by_plugin.get(name)
            if waiting is not None:
                waiting.pop(unit.uid, None)
                if not waiting:
                    del self._by_plugin[name]

    # --- lines ---

    def _stands_first(self, unit: Unit, now: float) -> bool:
        """Let a unit stand in line with others of its kind; whether it is the first, or alone."""
        kind = self.kind(unit)
        if unit.line and self._kind_of[unit.line] != kind:
            self.leave_line(unit, now)
        if kind is None:
            return True
        number = self._line_of.get(kind, 0)
        if not number:
            self._line_count = number = self._line_count + 1
            self._line_of[kind], self._kind_of[number], self._lines[number] = number, kind, {}
        unit.line = number
        before = next(iter(self._lines[number].values()), unit)
        if unit.uid not in self._lines[number]:
            self._line_up(unit)
        line = self._lines[number]
        if next(iter(line.values())) is not unit:
            return False
        if before is unit:
            _tell(line, unit)
        elif before.state is UNSCHEDULABLE:
            self._unfile(before)
        return True

    def _line_up(self, unit: Unit) -> None:
        """Let a unit into its line, where it would come out among those: nearly always as the last."""
        line, key = self._lines[unit.line], self._key_in_line(unit)
        ahead = len(line)
        for other in reversed(line.values()):
            if self._key_in_line(other) <= key:
                break
            ahead -= 1
        items = list(line.items())[ahead:]
        for uid, _ in items:
            del line[uid]
        line[unit.uid] = unit
        line.update(items)

    def _key_in_line(self, unit: Unit) -> tuple[Any, ...]:
        shared = self.shared
        return (unit.first_s,) if shared is None or not shared.governs(unit.pod) else shared.unit_key(unit)

    def leave_line(self, unit: Unit, now: float) -> None:
        """A unit does not stand in line any more; the next one is tried if it was the first."""
        if not unit.line:
            return
        number, unit.line = unit.line, 0
        line = self._lines[number]
        was_first = next(iter(line)) == unit.uid
        del line[unit.uid]
        if not line:
            del self._lines[number], self._line_of[self._kind_of.pop(number)]
        elif was_first:
            following = next(iter(line.values()))
            if following.state is UNSCHEDULABLE:
                self._wake(following, now, FORCED)

    def step_out(self, unit: Unit, now: float) -> None:
        """A unit has been promised room of its own: it wakes by itself from now on."""
        if unit.line:
            self.leave_line(unit, now)
            if unit.state is UNSCHEDULABLE:
                self._file(unit)

    def _name_lines(self) -> None:
        """Find the kinds of lines again, after an image was read; the numbers stay."""
        self._line_of.clear()
        self._kind_of.clear()
        for number, line in list(self._lines.items()):
            kind = self.kind(next(iter(line.values())))
            if kind is None or kind in self._line_of:
                del self._lines[number]
                for unit in line.values():
                    unit.line = 0
                    if unit.state is UNSCHEDULABLE:
                        self._file(unit)
            else:
                self._line_of[kind], self._kind_of[number] = number, kind

    def _pop_active(self, now: float) -> Unit | None:
        active, pacing, shared = self._active, self.pacing, self.shared
        while active or shared is not None:
            item = heappop(active) if shared is None else self._next_of_both(shared)
            if item is None:
                return None
            unit: Unit = item[2]
            if unit.ticket != item[1]:
                continue
            if pacing.untouched > 0:
                pacing.untouched -= 1
                return unit
            namespace = unit.pod.template.namespace
            if not pacing.holds_back(namespace, now):
                return unit
            pacing.set_aside(namespace, (item[0], item[1], unit))
        return None

    def _next_of_both(self, shared: SharedOrder) -> tuple[Any, ...] | None:
        """The next unit with queues and without: by priority, then age."""
        active = self._active
        while active and active[0][2].ticket != active[0][1]:
            heappop(active)
        if active and ((key := shared.peek()) is None or active[0][0] <= key):
            return heappop(active)
        return shared.pop()

    def _pop_backing_off(self, now: float) -> Unit | None:
        """With nothing active, the first pod in backoff that did not fail by error; pods of queues in their order."""
        while self._backing_off:
            _, key, ticket, unit = heappop(self._backing_off)
            if unit.ticket != ticket:
                continue
            if self.shared is not None and self.shared.governs(unit.pod):
                for each in [unit, *(item[3] for item in self._backing_off if not _stale(item))]:
                    if self.shared.governs(each.pod):
                        _count(self.arrivals.active, len(each.members), HASTY)
                        self._push_active(each, now, HASTY)
                if (first := self._pop_active(now)) is not None:
                    return first
                continue
            _count(self.arrivals.active, len(unit.members), HASTY)
            namespace = unit.pod.template.namespace
            if self.pacing.room(namespace) > 0:
                return unit
            unit.move(ACTIVE, now, HASTY)
            self.pacing.set_aside(namespace, (key, ticket, unit))
        return None


def _count(arrivals: dict[str, int], pods: int, why: str) -> None:
    """Count pods as arrived."""
    if why:
        arrivals[why] = arrivals.get(why, 0) + pods


def _tell(line: dict[str, Unit], first: Unit) -> None:
    """Those who stand in line behind another wait for the same reason. If the next and the last know it, all do."""
    parts = [first.message] if first.gang is None else first.message.split(first.gang.object_key)
    ends = (*islice(line.values(), 1, 2), next(reversed(line.values())))
    if all(each.message == _told(each, parts) for each in ends):
        return
    for behind in line.values():
        behind.message = _told(behind, parts)


def _told(unit: Unit, parts: list[str]) -> str:
    """A message about another unit, cut where its name is, as this one's."""
    return parts[0] if unit.gang is None or len(parts) == 1 else unit.gang.object_key.join(parts)


def _stale(item: Timed) -> bool:
    return item[3].ticket != item[2]


def _differs(before: Pod, after: Pod) -> bool:
    """Whether something changed that could let the pod fit now (not merely its status)."""
    if before.template is not after.template and before.template != after.template:
        return True
    return before.gates != after.gates or before.requests != after.requests


def _is_patient(unit: Unit) -> bool:
    """Whether a unit waits for the end of its backoff even if there is nothing else to try."""
    return unit.failed_by_error or unit.hasty >= _HASTY_ATTEMPTS
