"""Attempts that end without a node: say why, perhaps make room, and let the pod wait for what can help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from moorage.core.commands import PatchPodStatus, RecordEvent
from moorage.core.pods import Condition, Pod
from moorage.core.state import PodRecord
from moorage.engine.asking import Asking
from moorage.engine.board import Board, Commands
from moorage.engine.evictor import preempted_event
from moorage.engine.evictor import ref_of as _ref
from moorage.engine.failures import Failure, failure_of_judgement
from moorage.engine.faults import Faults
from moorage.engine.flights import Flight
from moorage.engine.lifecycle import BINDING
from moorage.engine.planning import Planning
from moorage.engine.queue import QueuedPod
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Code, Nomination, Status

BringBack = Callable[[Flight, Failure, float, Commands], None]
"""Undo the assumption of a pod on its way, and put it back into the queue."""


class Failing:
    """Ends attempts; `bring_back` undoes what is on its way, `asking` are the extenders if there are any."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.asking: Asking | None = None
        self.bring_back: BringBack | None = None
        self.planning: Planning | None = None

    def unschedulable(
        self, entry: QueuedPod, runner: Runner, cycle: Cycle, judgement: Judgement, now: float, commands: Commands
    ) -> None:
        """No node: look for room that could be made, and conclude."""
        state = self._board.state
        failure = failure_of_judgement(judgement, state.node_count)
        nomination, tail = None, ""
        if failure.code is not Code.ERROR and state.node_count:
            if self.asking is not None:
                self.asking.prepare(cycle)
            nomination, tail = make_room(self._board.faults, runner, cycle, judgement)
        self.heed(cycle, entry, runner, now, commands)
        if nomination is not None or tail:
            if self.asking is not None and self.asking.consults(entry, runner, failure, nomination, now, commands):
                return
            if tail:
                failure = replace(failure, message=f"{failure.message} {tail}")
        self.conclude(entry, runner, failure, nomination, now, commands)

    def heed(self, cycle: Cycle, entry: QueuedPod, runner: Runner, now: float, commands: Commands) -> None:
        """What plugins said beside their answers: warnings, and when to ask again."""
        if cycle.warnings:
            self._board.warnings.tell(cycle, runner.profile.scheduler_name, commands)
        if cycle.expires_s is not None and cycle.expires_s > now:
            self._board.set_alarm(cycle.expires_s, entry)

    def conclude(
        self,
        entry: QueuedPod,
        runner: Runner,
        failure: Failure,
        nomination: Nomination | None,
        now: float,
        commands: Commands,
    ) -> None:
        """Do what was found out to help, and let the pod wait."""
        nominate = None if nomination is None else self._apply_nomination(entry, nomination, now, commands)
        self.fail(entry, runner, failure, now, commands, nominate)

    def _apply_nomination(self, entry: QueuedPod, nomination: Nomination, now: float, commands: Commands) -> str | None:
        """Evict, and promise the node; returns what status.nominatedNodeName should become, None if it may stay."""
        pod, promises = entry.pod, self._board.state.nominations
        promised = promises.node_of(pod.uid)
        if promised not in (None, nomination.node):
            self._board.end_promise(pod.uid)
        if nomination.node is None:
            return "" if promised or pod.nominated_node else None
        for uid in nomination.victims:
            self.evict(uid, pod, now, commands)
        self.promise(pod, nomination.node, now, commands)
        return None if pod.nominated_node == nomination.node else nomination.node

    def promise(self, pod: Pod, node: str, now: float, commands: Commands) -> None:
        """Promise a node; less important pods that were promised it had better look elsewhere."""
        promises = self._board.state.nominations
        for other in promises.on(node):
            if other.template.priority < pod.template.priority:
                self.break_promise(other, now, commands)
        promises.set(pod, node)

    def evict(self, uid: str, preemptor: Pod, now: float, commands: Commands, holds: str | None = None) -> None:
        """Delete a victim; one that still waits in Permit or PreBind only goes back to the queue.

        `holds` is who has to wait for the deletion, if not the preemptor itself.
        """
        record, flight = self._board.state.record(uid), self._board.flights.get(uid)
        if record is None or not self._outranks(preemptor, record):
            return
        if flight is not None and flight.state is not BINDING and self.bring_back is not None:
            self.bring_back(flight, Failure(f"preempted by pod {preemptor.key}", frozenset()), now, commands)
            commands.append(preempted_event(flight.entry.pod, preemptor, record.node, deleted=False))
        else:
            self._board.evictor.evict(record.pod, preemptor, record.node, commands, holds)

    def _outranks(self, preemptor: Pod, victim: PodRecord) -> bool:
        """Checked once more, right before the eviction: nobody goes for a pod that is not more important."""
        if self.planning is not None and self.planning.plans(victim.pod):
            return self.planning.rank(victim) < preemptor.template.priority
        return self._board.priorities.may_evict(preemptor, victim.pod)

    def break_promise(self, pod: Pod, now: float, commands: Commands) -> None:
        """The node that was promised to this pod is taken or gone: it had better look elsewhere.

        What another scheduler promised is that scheduler's to withdraw.
        """
        if self._board.runner_of(pod) is None:
            return
        self._board.end_promise(pod.uid)
        commands.append(PatchPodStatus(_ref(pod), nominated_node=""))
        entry = self._board.queue.get(pod.uid)
        if entry is not None:
            self._board.queue.wake(entry, now)

    def fail(
        self,
        entry: QueuedPod,
        runner: Runner,
        failure: Failure,
        now: float,
        commands: Commands,
        nominate: str | None = None,
    ) -> None:
        """Tell the user, and put the pod where it waits. `nominate` is written too, the empty string clears.

        A nomination to a node that is gone is cleared in any case, whoever wrote it.
        """
        named = entry.pod.nominated_node
        if nominate is None and named and self._board.state.row_of(named) is None:
            self._board.end_promise(entry.pod.uid)
            nominate = ""
        entry.message = failure.message
        self._board.queue.requeue(
            entry,
            now,
            rejected_by=failure.rejected_by,
            error=failure.code is Code.ERROR,
            pending=failure.code is Code.PENDING,
            cause=failure.message,
        )
        self.tell(entry.pod, runner, failure, commands, nominate)

    def tell(self, pod: Pod, runner: Runner, failure: Failure, commands: Commands, nominate: str | None = None) -> None:
        """Write down and announce why a pod has no node; what the pod says already is not written again."""
        reason = "SchedulerError" if failure.code is Code.ERROR else "Unschedulable"
        condition = Condition("PodScheduled", "False", reason, failure.message)
        told = pod.scheduled_condition == condition
        if not told or nominate is not None:
            commands.append(PatchPodStatus(_ref(pod), None if told else condition, nominate, pod.generation))
        reporter = runner.profile.scheduler_name
        commands.append(RecordEvent(_ref(pod), "Warning", "FailedScheduling", "Scheduling", failure.message, reporter))


def make_room(faults: Faults, runner: Runner, cycle: Cycle, judgement: Judgement) -> tuple[Nomination | None, str]:
    """PostFilter: the first plugin that nominates a node decides, else all are heard; also the message's tail."""
    said: list[str] = []
    found: Nomination | None = None
    for plugin in runner.plugins.post_filter:
        answer = faults.ask(plugin, plugin.post_filter, cycle, runner, judgement)
        if isinstance(answer, Nomination):
            if answer.node is not None:
                return answer, answer.message
            found = answer
            said.append(answer.message)
        elif isinstance(answer, Status):
            said.append(answer.message)
            if answer.code is Code.ERROR:
                break
    return found, ", ".join(text for text in said if text)
