"""Other rules under a running engine: another configuration, and the beginning and the end of a trial.

The queue, binds in flight and the seed stay. Pods that wait in Permit or PreBind or for an extender's answer go back to
the queue, as other plugins know nothing of what was reserved for them. Every waiting pod is tried again as soon as its
backoff allows, by the profile that decides on it now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from moorage.core.events import ConfigurationChanged, TrialRecalled, TrialRefused
from moorage.core.pods import Pod
from moorage.core.trials import TrialEnd
from moorage.engine.context import EngineContext
from moorage.engine.failures import Failure
from moorage.engine.gangs import Gangs
from moorage.engine.lifecycle import WAITING
from moorage.engine.placing import Placing
from moorage.engine.settings import EngineSettings
from moorage.engine.sides import KEPT_EVERY_S
from moorage.engine.turn import Turn
from moorage.engine.units import QueuedPod
from moorage.framework.status import Code

_RECONFIGURED = Failure("the scheduler's configuration was changed; the pod is tried again", frozenset(), Code.PENDING)
_OTHER_SIDE = Failure("a trial began or ended; the pod is tried again", frozenset(), Code.PENDING)


class Reconfiguration:
    """Changes the rules of one engine."""

    def __init__(
        self,
        context: EngineContext,
        placing: Placing,
        gangs: Gangs,
        instruct: Callable[[EngineSettings], None],
        concern: Callable[[Pod], None],
    ) -> None:
        """`instruct` sets up what follows from settings, `concern` notes that something happened to a pod."""
        self._context = context
        self._queue = context.queue
        self._sides = context.sides
        self._placing = placing
        self._gangs = gangs
        self._instruct = instruct
        self._concern = concern

    def changed(self, event: ConfigurationChanged, turn: Turn) -> None:
        """Continue with other profiles and settings."""
        runners = self._context.runners_for(event.profiles)
        self._send_back(_RECONFIGURED, turn)
        record = self._sides.snapshot(turn.now)
        self._context.equip(runners)
        self._instruct(event.settings)
        if self._sides.recalled:
            self._sides.resume(record, turn.now)
        self._take_up(turn)

    # --- a trial ---

    def recalled(self, event: TrialRecalled, turn: Turn) -> None:
        """What the cluster keeps of a trial is known: go on with it, or begin.

        The leader before may have died some time after it wrote this, which counts as time of the trial: so a trial
        under which leaders die ends, too.
        """
        record = event.record
        if record is not None and record.in_force:
            record = replace(record, ran_s=record.ran_s + KEPT_EVERY_S)
        self._switch(lambda: self._sides.resume(record, turn.now), turn)

    def refused(self, event: TrialRefused, turn: Turn) -> None:
        """The file that has the trial cannot be read any more; a process that leads later begins none, either."""
        self._sides.refused = event.message
        if self._sides.on:
            self._switch(lambda: self._sides.end(TrialEnd.BROKEN, event.message, turn.now), turn)

    def review(self, turn: Turn) -> None:
        """Compare the sides of a trial; ends it if it is due or worse."""
        sides = self._sides
        if sides.review(self._queue.entries(), turn.now):
            self._switch(lambda: sides.conclude(self._queue.entries(), turn.now), turn)

    def namespace_changed(self, name: str, turn: Turn) -> None:
        """A namespace may be selected now, or not any more; only its own pods notice."""
        if self._sides.moved(name):
            self._switch(lambda: self._sides.move(name), turn, name)

    def _switch(self, change: Callable[[], None], turn: Turn, namespace: str | None = None) -> None:
        """Let a change of sides take effect on everything that waits, or on what waits of a namespace."""
        if not self._sides.runners:  # there is no other side
            change()
            return
        self._send_back(_OTHER_SIDE, turn, namespace)
        change()
        self._take_up(turn, namespace)

    # --- what waits ---

    def _send_back(self, failure: Failure, turn: Turn, namespace: str | None = None) -> None:
        """Undo what is not bound yet, of all namespaces or of one."""
        bindings, asking = self._context.bindings, self._context.asking
        for binding in bindings.unposted():
            if bindings.get(binding.entry.pod.uid) is binding and namespace in (None, binding.entry.pod.namespace):
                self._placing.bring_back(binding, failure, turn)
        asked = [] if asking is None else asking.entries()
        if asking is None or (namespace is not None and all(entry.pod.namespace != namespace for entry in asked)):
            return
        for entry in asked:
            cause = failure.message
            self._queue.requeue(entry.unit, turn.now, rejected_by=frozenset(), error=False, pending=True, cause=cause)
        self._context.asking = asking.anew()  # answers to what was asked so far are about other profiles

    def _take_up(self, turn: Turn, namespace: str | None = None) -> None:
        """Have everything that waits tried again, or what waits of a namespace; what has no profile any more leaves."""
        context = self._context
        for entry in [each for each in self._waiting(namespace) if context.runner_of(each.pod) is None]:
            self._queue.remove(entry.pod.uid, turn.now)
            context.end_nomination(entry.pod.uid)
        for entry in self._waiting(namespace):
            self._regroup(entry, turn.now)
        for entry in self._waiting(namespace) if context.planning is not None else ():
            self._concern(entry.pod)
        self._queue.restart(turn.now, namespace)

    def _waiting(self, namespace: str | None) -> list[QueuedPod]:
        return [entry for entry in self._queue.entries() if namespace in (None, entry.pod.namespace)]

    def _regroup(self, entry: QueuedPod, now: float) -> None:
        """Whether a profile places gangs together may have changed."""
        gang = self._gangs.unit_of(entry.pod)
        if entry.unit.gang == gang:
            return
        if entry.state in WAITING:
            self._queue.upsert(entry.pod, now, gang)
        elif gang is None:
            self._queue.separate(entry)
