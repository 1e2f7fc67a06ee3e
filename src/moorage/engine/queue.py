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
- A gang is one entry: its waiting members are where it is, and come out with it.
- Active pods of a namespace that is slow or has its share of the binds in flight give way to others (`pacing`).
Every operation costs O(log pods); heaps hold stale entries, recognised by a ticket number.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import field
from enum import StrEnum
from typing import Any, cast

from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.lifecycle import (
    ACTIVE,
    BACK,
    BACKOFF,
    BOUND,
    GATED,
    GONE,
    KEPT_STEPS,
    ON_ITS_WAY,
    STEPS,
    TRYING,
    UNSCHEDULABLE,
    WAITING,
    State,
    Step,
    misstep,
)
from moorage.engine.pacing import Pacing
from moorage.framework.changes import Change, What
from moorage.framework.gangs import GANG_SCHEDULING

FLUSH_AFTER_S = 300.0
FLUSH_EVERY_S = 30.0
_HASTY_ATTEMPTS = 32
"""How often a pod may fail at one instant before it has to wait."""


class Place(StrEnum):
    """Where a pod is; values are the label `queue` of kube-scheduler's metrics."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "inflight"


_PLACES = {state: Place(state.value) for state in WAITING}
_LISTED = (UNSCHEDULABLE, GATED)
_ENDS_ELSEWHERE = ON_ITS_WAY | {BOUND}


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod with its history in the queue."""

    pod: Pod
    since_s: float
    """When it last entered the queue; QueueSort uses it among equal priorities."""
    first_s: float
    """When it first entered the queue."""
    state: State = State.NEW
    """Changed by `move` only."""
    attempts: int = 0
    """Number of attempts."""
    misfits: int = 0
    """Failed attempts for lack of a node."""
    misfit_s: float | None = None
    """When the first of them ended."""
    errors: int = 0
    """Consecutive failed attempts by error."""
    failed_by_error: bool = False
    hasty: int = 0
    """Failed attempts at the instant `since_s`, beyond the first."""
    backoff_until_s: float = 0.0
    rejected_by: frozenset[str] = frozenset()
    skip_backoff: bool = False
    """The last rejection was Pending: waking up skips the backoff."""
    ticket: int = 0
    message: str = ""
    """The message of the last failed attempt, or why the pod may not be tried yet."""
    unit: GangKey | None = None
    """The gang that the pod is placed with."""
    ready_s: float | None = None
    """When it could first be tried; None while it has always been gated."""
    story: list[Step] = field(default_factory=list)
    """Its latest steps, oldest first."""

    @property
    def uid(self) -> str:
        """Identifies the entry."""
        return self.pod.uid

    @property
    def place(self) -> Place:
        """Where it is, in the terms of kube-scheduler's metrics."""
        return _PLACES.get(self.state, Place.IN_FLIGHT)

    def move(self, state: State, now: float, cause: str) -> None:
        """Take a step; a step to the current state is ignored."""
        before = self.state
        if state is before:
            return
        if state not in STEPS[before]:
            raise misstep(before, state, self.uid)
        self.state = state
        self.story.append((now, state, cause))
        if state is TRYING:
            self.attempts += 1
        elif state is BACK or state is GATED:  # every long story passes one of them, and most pods never get there
            del self.story[:-KEPT_STEPS]


@dataclass(slots=True, eq=False)
class QueuedGang(QueuedPod):
    """A gang with the members that wait; `pod` is one of them and stands for the gang."""

    members: dict[str, QueuedPod] = field(default_factory=dict)
    """By uid, in order of arrival; without those in binding cycles."""
    arrived_s: float = 0.0
    """When the latest member came."""
    key: GangKey = field(init=False)
    """Which gang it is."""
    _uid: str = field(init=False)

    def __post_init__(self) -> None:
        self.key = cast("GangKey", self.unit)
        self._uid = gang_uid(self.key)

    @property
    def uid(self) -> str:
        """Identifies the entry; no pod has such a uid."""
        return self._uid

    def move(self, state: State, now: float, cause: str) -> None:
        """Take a step, with all waiting members."""
        QueuedPod.move(self, state, now, cause)
        for member in self.members.values():
            member.move(state, now, cause)


def gang_uid(key: GangKey) -> str:
    """The uid of a gang, where pods have their own."""
    return f"gang:{key.by}:{key.object_key}"


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a pod waits after failed attempts."""

    initial_s: float = 1.0
    max_s: float = 10.0

    def after(self, failures: int) -> float:
        """Seconds to wait after so many failures."""
        if failures <= 0:
            return 0.0
        return min(self.max_s, self.initial_s * 2.0 ** min(failures - 1, 32))


QueueKey = Callable[[QueuedPod], tuple[Any, ...]]
Gate = Callable[[QueuedPod, float], str | None]
"""PreEnqueue: the name of the plugin that keeps the entry out, None if it may enter."""
Helps = Callable[[str, QueuedPod, Change], bool]
"""(plugin, entry, change): whether the change may help a pod that the plugin rejected."""
_FEW_STALE = 64
"""How many more stale entries than pods the active heap may hold."""
Timed = tuple[float, tuple[Any, ...], int, QueuedPod]
"""(time, queue key, ticket, entry)"""

NEW, FAILED, WAITED, HASTY, FORCED, FLUSHED, UNGATED = (
    "UnscheduledPodAdd", "ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ", "ForceActivate",
    "UnschedulableTimeout", "TargetPodUpdatePodSchedulingGatesEliminated",
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
    _pods: dict[str, QueuedPod] = field(default_factory=dict)
    _gangs: dict[str, QueuedGang] = field(default_factory=dict)
    """By `gang_uid`."""
    _by_unit: dict[GangKey, QueuedGang] = field(default_factory=dict)
    _active: list[tuple[tuple[Any, ...], int, QueuedPod]] = field(default_factory=list)
    _backing_off: list[Timed] = field(default_factory=list)
    _after_error: list[Timed] = field(default_factory=list)
    _by_plugin: dict[str, dict[str, QueuedPod]] = field(default_factory=dict)
    _unschedulable: dict[str, QueuedPod] = field(default_factory=dict)
    _gated: dict[str, QueuedPod] = field(default_factory=dict)
    _tickets: int = 0
    _flush_s: float | None = None
    arrivals: Arrivals = field(default_factory=Arrivals)

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def quiet(self) -> bool:
        """Whether no pod waits for a change."""
        return not self._by_plugin

    def get(self, uid: str) -> QueuedPod | None:
        """The entry of a pod, in flight or waiting."""
        return self._pods.get(uid)

    def gang(self, key: GangKey) -> QueuedGang | None:
        """The entry of a gang that has waiting members."""
        return self._by_unit.get(key)

    def find(self, uid: str) -> QueuedPod | None:
        """The entry of a pod, or of a gang by its `gang_uid`."""
        return self._pods.get(uid) or self._gangs.get(uid)

    def holds(self, entry: QueuedPod) -> bool:
        """Whether the entry is still in the queue."""
        if isinstance(entry, QueuedGang):
            return self._gangs.get(entry.uid) is entry
        return self._pods.get(entry.pod.uid) is entry

    def entries(self) -> Iterable[QueuedPod]:
        """The entries of all pods, in order of first arrival, including members of gangs."""
        return self._pods.values()

    def gangs(self) -> Iterable[QueuedGang]:
        """The entries of all gangs that have waiting members."""
        return self._gangs.values()

    # --- in ---

    def upsert(self, pod: Pod, now: float, unit: GangKey | None = None) -> QueuedPod:
        """Add a pod, or update it; a change of the pod itself may wake it. `unit` is its gang."""
        entry = self._pods.get(pod.uid)
        if entry is not None and entry.unit != unit and entry.state in WAITING:
            self.remove(pod.uid, now)
            entry = None
        if entry is None:
            entry = self._pods[pod.uid] = QueuedPod(pod, now, now, unit=unit)
            if unit is None:
                self._enter(entry, now, NEW)
            else:
                self._join(entry, now, NEW)
            return entry
        before, entry.pod = entry.pod, pod
        if entry.unit is not None:
            self._member_changed(entry, before, now)
        elif entry.state is GATED:
            self._wake(entry, now, UNGATED if before.gates and not pod.gates else What.SELF.label)
        elif entry.state is UNSCHEDULABLE and _differs(before, pod):
            change = Change(What.SELF, pod=pod)
            if any(self.helps(name, entry, change) for name in sorted(entry.rejected_by)):
                self._wake(entry, now, change.label)
        elif entry.state is ACTIVE and before.template is not pod.template:
            self._push_active(entry, now, "")
        return entry

    def requeue(
        self,
        entry: QueuedPod,
        now: float,
        *,
        rejected_by: frozenset[str],
        error: bool,
        pending: bool,
        cause: str = "",
    ) -> None:
        """Give back a pod whose attempt failed; it waits for a change that helps, or backs off after an error."""
        if not self.holds(entry):
            return
        if entry.unit is not None and not isinstance(entry, QueuedGang):
            entry = self.rejoin(entry, now, cause)
        entry.move(BACK, now, cause)
        entry.hasty = entry.hasty + 1 if entry.since_s == now and entry.attempts > 1 else 0
        entry.since_s = now
        entry.failed_by_error = error
        entry.rejected_by = rejected_by
        entry.skip_backoff = pending and entry.hasty < _HASTY_ATTEMPTS
        if error:
            entry.errors += 1
            entry.backoff_until_s = now + self.backoff.after(entry.errors)
        else:
            entry.errors = 0
            entry.misfits += 1
            for misfit in (entry, *entry.members.values()) if isinstance(entry, QueuedGang) else (entry,):
                misfit.misfit_s = now if misfit.misfit_s is None else misfit.misfit_s
            entry.backoff_until_s = now + self.backoff.after(entry.misfits)
        if error or not rejected_by:
            self._enter(entry, now, FAILED)
        else:
            self._park(entry, now)

    def remove(self, uid: str, now: float, cause: str = "") -> QueuedPod | None:
        """Remove a pod for good; the story of one in a binding cycle ends with that."""
        entry = self._pods.pop(uid, None)
        if entry is not None and entry.state not in _ENDS_ELSEWHERE:
            self._unlist(entry)
            entry.ticket = -1
            if entry.unit is not None:
                self._leave(entry, now)
            entry.move(GONE, now, cause)
        return entry

    def detach(self, entry: QueuedPod, now: float) -> None:
        """A member of a gang in flight starts its binding cycle; `requeue` brings it back."""
        self._leave(entry, now)

    def hold(self, entry: QueuedPod, gate: str, now: float) -> None:
        """Give back an entry that may not be tried after all."""
        if self.holds(entry):
            self._hold(entry, gate, now)

    # --- out ---

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to try, now in flight; None when nothing may be tried yet."""
        if self._backing_off or self._after_error or self._flush_s is not None:
            self.tick(now)
        entry = self._pop_active(now)
        if entry is None and not self.pacing.ready():
            entry = self._pop_backing_off(now)
        if entry is not None:
            entry.move(TRYING, now, "")
        return entry

    def admit(self, now: float, untouched: int) -> None:
        """Put active pods back that were set aside and need not give way any more.

        `untouched` is how many may be tried before a namespace could have its share of the binds.
        """
        self.pacing.begin(now, untouched)
        for item in self.pacing.admitted(now):
            heapq.heappush(self._active, item)

    def pop_slow(self, now: float) -> QueuedPod | None:
        """The next pod to try of a slow namespace, now in flight; for when `pop` finds nothing else."""
        item = self.pacing.next_slow()
        if item is None:
            return None
        entry: QueuedPod = item[2]
        entry.move(TRYING, now, "")
        return entry

    def tick(self, now: float) -> None:
        """Move pods whose backoff or time as unschedulable is over."""
        for heap in (self._backing_off, self._after_error) if self._backing_off or self._after_error else ():
            while heap and (heap[0][0] <= now or _stale(heap[0])):
                _, _, ticket, entry = heapq.heappop(heap)
                if entry.ticket == ticket:
                    self._push_active(entry, now, WAITED)
                    _count(self.arrivals.active, entry, WAITED)
        if self._flush_s is not None and now >= self._flush_s:
            for entry in [e for e in self._unschedulable.values() if now - e.since_s > FLUSH_AFTER_S]:
                self._wake(entry, now, FLUSHED)
            self._flush_s = now + FLUSH_EVERY_S if self._unschedulable else None

    def next_wakeup(self) -> float | None:
        """When `tick` next has something to do, if nothing else happens."""
        times = [self._flush_s] if self._flush_s is not None else []
        for heap in (self._backing_off, self._after_error):
            while heap and _stale(heap[0]):
                heapq.heappop(heap)
            if heap:
                times.append(heap[0][0])
        return min(times) if times else None

    def ready(self) -> bool:
        """Whether `pop` would find a pod without time passing."""
        while self._active and self._active[0][2].ticket != self._active[0][1]:
            heapq.heappop(self._active)
        while self._backing_off and _stale(self._backing_off[0]):
            heapq.heappop(self._backing_off)
        return bool(self._active or (self._backing_off and not self.pacing.ready()))

    def tidy(self) -> None:
        """Drop stale entries of the heaps; what comes out, and in which order, stays the same."""
        for heap in (self._backing_off, self._after_error):
            heap[:] = sorted((item for item in heap if not _stale(item)), key=lambda item: item[:3])
        active = [item for item in self._active if item[2].ticket == item[1]]
        self._active[:] = sorted(active, key=lambda item: item[:2])

    def changed(self, change: Change, now: float, plugins: Iterable[str]) -> None:
        """Wake the pods that one of these plugins rejected and that the change may help."""
        for name in plugins:
            waiting = self._by_plugin.get(name)
            if waiting:
                for entry in [e for e in waiting.values() if self.helps(name, e, change)]:
                    self._wake(entry, now, change.label)

    def wake(self, entry: QueuedPod, now: float) -> None:
        """Wake one unschedulable or gated entry, or the gang of a member, whatever rejected it."""
        if entry.unit is not None:
            entry = self.gang(entry.unit) or entry
        if entry.state in _LISTED:
            self._wake(entry, now, FORCED)

    def retry(self, entry: QueuedPod, now: float) -> None:
        """A step towards placing a waiting entry failed: try it again after the backoff of an error."""
        if entry.unit is not None:
            entry = self.gang(entry.unit) or entry
        if entry.state not in _LISTED:
            return
        entry.failed_by_error, entry.skip_backoff = True, False
        entry.errors += 1
        entry.backoff_until_s = now + self.backoff.after(entry.errors)
        self._wake(entry, now, FORCED)

    def restart(self, now: float) -> None:
        """Order and gates have changed: sort in all waiting entries anew."""
        for heap in (self._active, self._backing_off, self._after_error):
            heap.clear()  # keys of two orders cannot be compared
        self.pacing.clear()
        for entry in [*(entry for entry in self._pods.values() if entry.unit is None), *self._gangs.values()]:
            if entry.state in WAITING:
                self._wake(entry, now, FORCED)

    # --- gangs ---

    def _join(self, entry: QueuedPod, now: float, why: str = "") -> QueuedGang:
        """Add a member. Without `why` it is not counted as an arrival.

        The gang may be complete now. The caller wakes it after adding all members, so that its gate runs once and
        not for each of them.
        """
        gang = self.gang(cast("GangKey", entry.unit))
        if gang is None:
            gang = QueuedGang(entry.pod, now, now, unit=entry.unit)
            self._gangs[gang.uid] = self._by_unit[gang.key] = gang
            self._hold(gang, GANG_SCHEDULING, now)
        gang.members[entry.pod.uid] = entry
        gang.arrived_s = now
        if gang.state is UNSCHEDULABLE:
            self._wake(gang, now, why)
            return gang
        entry.move(gang.state, now, why)
        if gang.state is ACTIVE:
            entry.ready_s = now if entry.ready_s is None else entry.ready_s
            self._push_active(gang, now, why)
            _count(self.arrivals.active, entry, why)
        elif gang.state is GATED:
            _count(self.arrivals.unschedulable, entry, why)
        return gang

    def rejoin(self, entry: QueuedPod, now: float, cause: str) -> QueuedGang:
        """A member whose binding cycle failed joins the others again, which wait as if all of them had failed."""
        entry.move(BACK, now, cause)
        gang = self._join(entry, now)
        self._unlist(gang)
        gang.attempts = max(gang.attempts, entry.attempts)
        return gang

    def _leave(self, entry: QueuedPod, now: float) -> None:
        gang = None if entry.unit is None else self.gang(entry.unit)
        if gang is None or gang.members.pop(entry.pod.uid, None) is None:
            return
        if not gang.members:
            self._unlist(gang)
            gang.ticket = -1
            gang.move(GONE, now, "")
            del self._gangs[gang.uid], self._by_unit[gang.key]
        elif gang.pod.uid == entry.pod.uid:
            gang.pod = next(iter(gang.members.values())).pod

    def _member_changed(self, entry: QueuedPod, before: Pod, now: float) -> None:
        gang = None if entry.unit is None else self.gang(entry.unit)
        if gang is None or entry.pod.uid not in gang.members:
            return
        if gang.pod.uid == entry.pod.uid:
            gang.pod = entry.pod
        differs = _differs(before, entry.pod)
        if gang.state is GATED or (gang.state is UNSCHEDULABLE and differs):
            self._wake(gang, now, What.SELF.label)
        elif gang.state is ACTIVE and differs:
            self._push_active(gang, now, What.SELF.label)

    # --- inside ---

    def _enter(self, entry: QueuedPod, now: float, why: str) -> None:
        """Put an entry where it belongs: gated, backing off or active."""
        gate = self.gate(entry, now)
        if gate is not None:
            if entry.state is not GATED:
                _count(self.arrivals.unschedulable, entry, why)
            self._hold(entry, gate, now)
            return
        if entry.ready_s is None:
            entry.ready_s = now
        if isinstance(entry, QueuedGang):
            _mark_ready(entry.members.values(), now)
        if entry.backoff_until_s > now and not entry.skip_backoff:
            _count(self.arrivals.backoff, entry, why)
            self._back_off(entry, now, why)
        else:
            _count(self.arrivals.active, entry, why)
            self._push_active(entry, now, why)

    def _hold(self, entry: QueuedPod, gate: str, now: float) -> None:
        entry.move(GATED, now, gate)
        entry.ticket = 0
        entry.rejected_by = frozenset({gate})
        self._gated[entry.uid] = entry
        self._by_plugin.setdefault(gate, {})[entry.uid] = entry

    def _push_active(self, entry: QueuedPod, now: float, why: str) -> None:
        entry.move(ACTIVE, now, why)
        self._tickets = entry.ticket = self._tickets + 1
        heapq.heappush(self._active, (self.key(entry), entry.ticket, entry))
        if len(self._active) > 2 * len(self._pods) + _FEW_STALE:
            self.tidy()  # a standby never pops, and would keep every pod that has come and gone

    def _back_off(self, entry: QueuedPod, now: float, why: str) -> None:
        entry.move(BACKOFF, now, why)
        key = self.key(entry)
        patient = entry.failed_by_error or entry.hasty >= _HASTY_ATTEMPTS
        heap = self._after_error if patient else self._backing_off
        self._tickets = entry.ticket = self._tickets + 1
        heapq.heappush(heap, (entry.backoff_until_s, key, entry.ticket, entry))

    def _park(self, entry: QueuedPod, now: float) -> None:
        _count(self.arrivals.unschedulable, entry, FAILED)
        entry.move(UNSCHEDULABLE, now, FAILED)
        entry.ticket = 0
        self._unschedulable[entry.uid] = entry
        for name in entry.rejected_by:
            self._by_plugin.setdefault(name, {})[entry.uid] = entry
        if self._flush_s is None:
            self._flush_s = now + FLUSH_EVERY_S

    def _wake(self, entry: QueuedPod, now: float, why: str) -> None:
        self._unlist(entry)
        self._enter(entry, now, why)

    def _unlist(self, entry: QueuedPod) -> None:
        if entry.state not in _LISTED:
            return
        uid = entry.uid
        listed = self._gated.pop(uid, None) or self._unschedulable.pop(uid, None)
        if listed is not None:
            for name in entry.rejected_by:
                waiting = self._by_plugin[name]
                waiting.pop(uid, None)
                if not waiting:
                    del self._by_plugin[name]

    def _pop_active(self, now: float) -> QueuedPod | None:
        while self._active:
            item = heapq.heappop(self._active)
            entry = item[2]
            if entry.ticket != item[1]:
                continue
            if self.pacing.untouched > 0:
                self.pacing.untouched -= 1
                return entry
            namespace = entry.pod.template.namespace
            if not self.pacing.holds_back(namespace, now):
                return entry
            self.pacing.set_aside(namespace, item)
        return None

    def _pop_backing_off(self, now: float) -> QueuedPod | None:
        """With nothing active, the first pod in backoff that did not fail by error."""
        while self._backing_off:
            _, key, ticket, entry = heapq.heappop(self._backing_off)
            if entry.ticket != ticket:
                continue
            _count(self.arrivals.active, entry, HASTY)
            namespace = entry.pod.template.namespace
            if self.pacing.room(namespace) > 0:
                return entry
            entry.move(ACTIVE, now, HASTY)
            self.pacing.set_aside(namespace, (key, ticket, entry))
        return None


def _count(arrivals: dict[str, int], entry: QueuedPod, why: str) -> None:
    """Count a pod, or all members of a gang, as arrived."""
    if why:
        arrivals[why] = arrivals.get(why, 0) + (len(entry.members) if isinstance(entry, QueuedGang) else 1)


def _mark_ready(members: Iterable[QueuedPod], now: float) -> None:
    for member in members:
        if member.ready_s is None:
            member.ready_s = now


def _stale(item: Timed) -> bool:
    return item[3].ticket != item[2]


def _differs(before: Pod, after: Pod) -> bool:
    """Whether something changed that could let the pod fit now (not merely its status)."""
    if before.template is not after.template and before.template != after.template:
        return True
    return before.gates != after.gates or before.requests != after.requests
