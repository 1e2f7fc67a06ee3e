"""Evictions for a preemptor: ordered once, reported when carried out; the preemptor is held until they are done."""

from __future__ import annotations

from moorage.core.commands import DeletePod, RecordEvent, ref_of
from moorage.core.events import DeleteDone
from moorage.core.evictions import Released
from moorage.core.pods import FINISHED, PREEMPTION, Pod
from moorage.core.state import ClusterState
from moorage.engine.queue import SchedulingQueue
from moorage.engine.sides import Sides
from moorage.engine.turn import Turn
from moorage.engine.turnover import Turnover
from moorage.engine.units import Place

SHARES, RELEASES = "queues", "releases"
"""Evictions of queues and of gangs that cannot run, in the ledger; others count for the profile of the preemptor."""
__all__ = ["Evictor", "preempted_event", "ref_of"]


class Evictor:
    """Orders evictions and tracks them; `state.evictions` knows which are in progress."""

    def __init__(self, state: ClusterState, queue: SchedulingQueue, sides: Sides, turnover: Turnover) -> None:
        self._state = state
        self._turnover = turnover
        self._queue = queue
        self._sides = sides
        self._notes: dict[str, RecordEvent] = {}
        """Victim -> the event to publish once its eviction has succeeded."""
        self.stayed: set[str] = set()
        """Members of gangs that could not be deleted, though they were to go."""

    def evict(
        self,
        victim: Pod,
        preemptor: Pod,
        node: str,
        turn: Turn,
        holds: str | None = None,
        why: str = "",
        *,
        by: str = "",
    ) -> None:
        """Delete a pod for another one, unless it is being deleted; `holds` has to wait for it, else the preemptor.

        `why` says what else it is than a preemption by a more important pod; `by` for whose limit it counts, else that
        of the preemptor's profile.
        """
        if victim.deleted_s is not None or not self._state.evictions.order(victim.uid, holds or preemptor.uid):
            return
        self._sides.evicts(preemptor)
        scheduler = preemptor.template.scheduler_name
        message = f"{scheduler}: {why or 'preempting to accommodate a higher priority pod'}"
        self._order(victim, DeletePod(ref_of(victim), PREEMPTION, message, ref_of(preemptor)), by or scheduler, turn)
        told = preempted_event(victim, preemptor, node)
        self._notes[victim.uid] = told._replace(note=f"{told.note}: {why}") if why else told

    def release(self, pod: Pod, reason: str, message: str, reporter: str, turn: Turn) -> None:
        """Delete a pod so that its own gang can start as a whole."""
        if pod.deleted_s is not None or not self._state.evictions.order(pod.uid, ""):
            return
        self._order(pod, DeletePod(ref_of(pod), reason, message), RELEASES, turn)
        self._notes[pod.uid] = RecordEvent(ref_of(pod), "Warning", reason, "Releasing", message, reporter)

    def _order(self, pod: Pod, command: DeletePod, by: str, turn: Turn) -> None:
        turn.commands.append(command)
        self.stayed.discard(pod.uid)
        self._state.disruptions.ordered(pod, by, turn.now)

    def answered(self, event: DeleteDone, turn: Turn) -> None:
        """A deletion succeeded or failed."""
        note = self._notes.pop(event.uid, None)
        if not event.ok:
            self._state.disruptions.failed(event.uid)
            record = self._state.record(event.uid)
            if record is not None and record.pod.template.gang is not None:
                self.stayed.add(event.uid)
        elif note is not None:
            turn.commands.append(note)
        self._release(self._state.evictions.answered(event.uid, ok=event.ok), turn.now)

    def ending(self, pod: Pod, now: float) -> None:
        """A pod was seen that has finished, or has a deletionTimestamp."""
        self._state.disruptions.going(pod.uid)
        if pod.phase in FINISHED or pod.node is None:
            self.gone(pod.uid, now)
        elif self._state.evictions.evicting(pod.uid):
            self._release(self._state.evictions.answered(pod.uid, ok=True), now)

    def gone(self, uid: str, now: float) -> None:
        """A pod is on no node any more, and does not wait for one either."""
        self._state.disruptions.going(uid)
        self.stayed.discard(uid)
        record = self._state.record(uid)
        if record is not None and record.pod.deleted_s is None and not self._state.evictions.evicting(uid):
            self._turnover.ended(record.pod, now)
        self._turnover.placed_s.pop(uid, None)
        self._release(self._state.evictions.gone(uid), now)
        self._state.evictions.forget(uid)

    def _release(self, released: list[Released], now: float) -> None:
        """Preemptors are held no longer; those that are not woken here wake when the watch shows the victims gone."""
        for uid, failed in released:
            unit = self._queue.find(uid)
            if unit is None:
                continue
            if failed:
                self._queue.retry(unit, now)
            elif unit.place is Place.GATED:
                self._queue.wake(unit, now)


def preempted_event(victim: Pod, preemptor: Pod, node: str, *, deleted: bool = True) -> RecordEvent:
    """The event on a victim; one that was not bound yet is sent back to the queue instead of being deleted."""
    note = f"Preempted by pod {preemptor.uid} on node {node}"
    if not deleted:
        note += " before it was bound there"
    reporter = preemptor.template.scheduler_name
    return RecordEvent(ref_of(victim), "Normal", "Preempted", "Preempting", note, reporter, ref_of(preemptor))
