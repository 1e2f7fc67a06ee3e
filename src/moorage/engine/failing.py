"""Attempts that end without a node: report why, perhaps make room, and let the pod wait for what can help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from moorage.core.commands import Command, PatchPodStatus
from moorage.core.pods import Condition, Pod
from moorage.core.state import PodRecord
from moorage.engine.context import EngineContext
from moorage.engine.evictor import preempted_event
from moorage.engine.evictor import ref_of as _ref
from moorage.engine.failures import Failure, failure_of_judgement
from moorage.engine.faults import Faults
from moorage.engine.lifecycle import BINDING
from moorage.engine.turn import Turn
from moorage.engine.units import QueuedPod, Unit
from moorage.engine.words import WaitingWords
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Code, Nomination, Status

if TYPE_CHECKING:
    from moorage.engine.gangturns import GangTurns
    from moorage.engine.placing import Placing


HOPELESS = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)
"""Results of attempts that would be the same if nothing changed."""


class Failing:
    """Ends attempts; `placing` ends binding cycles of victims, `turns` knows for whom room is kept."""

    def __init__(
        self,
        context: EngineContext,
        words: WaitingWords,
        placing: Callable[[], Placing],
        turns: Callable[[], GangTurns],
    ) -> None:
        self._context = context
        self._words = words
        self._placing = placing
        self._turns = turns

    def unschedulable(self, entry: QueuedPod, runner: Runner, cycle: Cycle, judgement: Judgement, turn: Turn) -> None:
        """No node fits: run PostFilter, and conclude."""
        state, asking = self._context.state, self._context.asking
        failure = failure_of_judgement(judgement, state.node_count)
        kept = self._turns().keeps_out(entry.pod, runner, turn.now)
        if kept:
            failure = replace(failure, message=f"{failure.message} {kept}")
        nomination, tail = None, ""
        sharing = self._context.sharing
        if sharing is not None and sharing.governs(entry.pod):
            said = f"{sharing.reason((entry.pod,), failure)}{failure.message}"
            failure = sharing.wants_room(entry.unit, replace(failure, message=said))
        elif failure.code is not Code.ERROR and state.node_count:
            if asking is not None:
                asking.prepare(cycle)
            nomination, tail, commands = make_room(self._context.faults, runner, cycle, judgement)
            turn.commands.extend(commands)
            self._context.state.devices.ordered(commands)
        self.heed(cycle, entry.unit, runner, turn)
        if nomination is not None or tail:
            if asking is not None and asking.consults(entry, runner, failure, nomination, turn):
                return
            if tail:
                failure = replace(failure, message=f"{failure.message} {tail}")
        self.conclude(entry, runner, failure, nomination, turn)

    def heed(self, cycle: Cycle, unit: Unit, runner: Runner, turn: Turn) -> None:
        """Handle what plugins left in the cycle: warnings, and when their answers expire."""
        if cycle.warnings:
            self._context.warnings.tell(cycle, runner.profile.scheduler_name, turn.commands)
        if cycle.expires_s is not None and cycle.expires_s > turn.now:
            self._context.set_alarm(cycle.expires_s, unit)

    def conclude(
        self,
        entry: QueuedPod,
        runner: Runner,
        failure: Failure,
        nomination: Nomination | None,
        turn: Turn,
    ) -> None:
        """Apply the nomination, if there is one, and let the pod wait."""
        nominate = None if nomination is None else self._apply_nomination(entry, nomination, turn)
        self.fail(entry, runner, failure, turn, nominate)
        planning, promised = self._context.planning, self._context.state.nominations.node_of(entry.pod.uid)
        if planning is not None and promised is None and failure.code in HOPELESS:
            planning.failed(entry.unit)

    def _apply_nomination(self, entry: QueuedPod, nomination: Nomination, turn: Turn) -> str | None:
        """Evict, and nominate the node; returns what status.nominatedNodeName should become, None if it may stay."""
        pod, nominations = entry.pod, self._context.state.nominations
        nominated = nominations.node_of(pod.uid)
        if nominated not in (None, nomination.node):
            self._context.end_nomination(pod.uid)
        if nomination.node is None:
            return "" if nominated or pod.nominated_node else None
        for uid in nomination.victims:
            self.evict(uid, pod, turn)
        self.nominate(pod, nomination.node, turn)
        return None if pod.nominated_node == nomination.node else nomination.node

    def nominate(self, pod: Pod, node: str, turn: Turn) -> None:
        """Nominate a pod to a node; nominations to that node which do not bind it are withdrawn."""
        nominations = self._context.state.nominations
        for other in nominations.on(node):
            if not nominations.binds(other, pod.template):
                self.withdraw_nomination(other, turn)
        nominations.set(pod, node)

    def evict(self, uid: str, preemptor: Pod, turn: Turn, holds: str | None = None) -> None:
        """Delete a victim; one that still waits in Permit or PreBind only goes back to the queue.

        `holds` is the uid of the entry that has to wait for the deletion, if not the preemptor itself.
        """
        record, binding = self._context.state.record(uid), self._context.bindings.get(uid)
        if record is None or not self._outranks(preemptor, record):
            return
        if binding is not None and binding.state is not BINDING:
            self._placing().bring_back(binding, Failure(f"preempted by pod {preemptor.key}", frozenset()), turn)
            turn.commands.append(preempted_event(binding.entry.pod, preemptor, record.node, deleted=False))
        else:
            self._context.evictor.evict(record.pod, preemptor, record.node, turn, holds)

    def _outranks(self, preemptor: Pod, victim: PodRecord) -> bool:
        """Checked again right before the eviction: no pod is evicted for one that is not more important."""
        planning = self._context.planning
        if planning is not None and planning.plans(victim.pod):
            return planning.rank(victim) < preemptor.template.priority
        return self._context.priorities.may_evict(preemptor, victim.pod)

    def withdraw_nomination(self, pod: Pod, turn: Turn) -> None:
        """The node that this pod is nominated to is taken or gone: the pod is tried again.

        Nominations by other schedulers are left to them.
        """
        if self._context.runner_of(pod) is None:
            return
        self._context.end_nomination(pod.uid)
        turn.commands.append(PatchPodStatus(_ref(pod), nominated_node=""))
        entry = self._context.queue.get(pod.uid)
        if entry is not None:
            self._context.queue.wake(self._context.queue.unit_of(entry), turn.now)

    def fail(
        self,
        entry: QueuedPod,
        runner: Runner,
        failure: Failure,
        turn: Turn,
        nominate: str | None = None,
    ) -> None:
        """Report the failure, and put the pod back into the queue. `nominate` is written too; empty clears.

        A nomination to a node that is gone is always cleared, even if another process wrote it.
        """
        named = entry.pod.nominated_node
        if nominate is None and named and self._context.state.row_of(named) is None:
            self._context.end_nomination(entry.pod.uid)
            nominate = ""
        unit = self._context.queue.rejoin(entry, turn.now, failure.message)
        unit.message = failure.message
        self._context.queue.requeue(
            unit,
            turn.now,
            rejected_by=failure.rejected_by,
            error=failure.code is Code.ERROR,
            pending=failure.code is Code.PENDING,
            cause=failure.message,
        )
        self.tell(entry, runner, failure, turn, nominate)

    def tell(self, entry: QueuedPod, runner: Runner, failure: Failure, turn: Turn, nominate: str | None = None) -> None:
        """Have the condition and the event written that say why a pod has no node."""
        reason = "SchedulerError" if failure.code is Code.ERROR else "Unschedulable"
        condition = Condition("PodScheduled", "False", reason, failure.message)
        self._words.tell(entry, condition, runner.profile.scheduler_name, turn, nominate)


class Room(NamedTuple):
    """What PostFilter plugins said."""

    nomination: Nomination | None
    tail: str
    """Of the message."""
    commands: tuple[Command, ...]


def make_room(faults: Faults, runner: Runner, cycle: Cycle, judgement: Judgement) -> Room:
    """PostFilter: the first plugin that nominates a node decides, else all are called."""
    said: list[str] = []
    found: Nomination | None = None
    commands: tuple[Command, ...] = ()
    for plugin in runner.plugins.post_filter:
        answer = faults.ask(plugin, plugin.post_filter, cycle, runner, judgement)
        if isinstance(answer, Nomination):
            if answer.node is not None:
                return Room(answer, answer.message, commands)
            found = answer
            said.append(answer.message)
        elif isinstance(answer, Status):
            said.append(answer.message)
            commands += answer.commands
            if answer.code is Code.ERROR:
                break
    return Room(found, ", ".join(text for text in said if text), commands)
