"""From a chosen node to a bound pod: assume, reserve, Permit, PreBind, Bind; and back where that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moorage.core.commands import PatchPodStatus, RecordEvent
from moorage.core.state import ClusterState
from moorage.engine.board import Board
from moorage.engine.evictor import ref_of as _ref
from moorage.engine.failing import Failing
from moorage.engine.failures import Failure, failure_of
from moorage.engine.faults import Faults
from moorage.engine.flights import Flight
from moorage.engine.lifecycle import BINDING, BOUND, GONE, READY
from moorage.engine.queue import QueuedPod
from moorage.engine.turn import Turn
from moorage.framework.changes import Change, What
from moorage.framework.contract import Unreserve
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.framework.status import Code, Status

if TYPE_CHECKING:
    from moorage.engine.gangs import Gangs


class Placing:
    """Takes pods to their nodes; `gangs` decides when the members of one may be bound."""

    def __init__(self, board: Board, failing: Failing, gangs: Callable[[], Gangs]) -> None:
        self._board = board
        self._state = board.state
        self._failing = failing
        self._gangs = gangs

    def place(self, entry: QueuedPod, runner: Runner, cycle: Cycle, row: int, turn: Turn) -> None:
        """The other half of a cycle, once there is a row."""
        # 4. Assume it there, and let plugins reserve what they need.
        flight = assume(self._state, entry, runner, cycle, row)
        self.embark(flight)
        status = reserve(self._board.faults, flight) if flight.late.reserve else None
        if status is not None:
            self.bring_back(flight, failure_of(status), turn)
            return
        # 5. Permit, PreBind, Bind: now, or when what they wait for has happened.
        self.go_on(flight, turn)
        # 6. What did not last is not worth telling.
        if self._board.flights.get(entry.pod.uid) is flight:
            self.tell(flight)

    def embark(self, flight: Flight) -> None:
        """The decision stands: the pod is on its way, and what it was promised elsewhere is free."""
        pod, nominations = flight.entry.pod, self._state.nominations
        if nominations.count and nominations.clear(pod.uid) not in (None, flight.node):
            self._board.changes.append(Change(What.POD_REMOVED, pod=pod))
        self._board.flights.add(flight)
        if self._board.planning is not None:
            self._note(flight)

    def tell(self, flight: Flight) -> None:
        """Waiting pods hear that this one stands on its node."""
        flight.told = True
        if not self._board.queue.quiet or self._board.flights.waiting:
            self._board.changes.append(Change(What.POD_ADDED, pod=flight.entry.pod))

    def go_on(self, flight: Flight, turn: Turn) -> None:
        """Ask Permit and PreBind on; the pod is bound if they say yes and nobody has to be waited for."""
        if flight.cycle.warnings:
            self._board.warnings.tell(flight.cycle, flight.runner.profile.scheduler_name, turn.commands)
        new, refusal = flight.advance(turn.now)
        if new:
            turn.commands.extend(new)
        if refusal is not None:
            self.bring_back(flight, failure_of(refusal), turn)
            return
        self._board.flights.note(flight)
        state = flight.entry.state
        if state is BINDING:
            self._bind(flight, turn)
        elif state is READY:
            self._gangs().ready(flight, turn)
        elif flight.entry.pod.nominated_node != flight.node and not flight.announced:
            flight.announced = True
            turn.commands.append(PatchPodStatus(_ref(flight.entry.pod), nominated_node=flight.node))

    def _bind(self, flight: Flight, turn: Turn) -> None:
        for plugin in flight.runner.plugins.bind:
            try:
                answer = plugin.bind(flight.cycle, flight.row)
            except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
                answer = self._board.faults.note(plugin, "bind", error)
            if isinstance(answer, Status):
                if answer.code is Code.SKIP:
                    continue
                self.bring_back(flight, failure_of(Status(answer.code, answer.reasons, plugin.name)), turn)
                return
            asking = self._board.asking
            turn.commands.append(answer if asking is None else asking.delegated(answer, flight.cycle.template))
            return
        failure = Failure("no bind plugin took the pod", frozenset(), Code.ERROR)
        self.bring_back(flight, failure, turn)

    def arrived(self, flight: Flight, turn: Turn) -> None:
        """The pod is bound."""
        uid = flight.entry.pod.uid
        self._board.flights.remove(uid)
        flight.entry.move(BOUND, turn.now, flight.node)
        self._board.queue.remove(uid, turn.now)
        for plugin in flight.late.post_bind:
            self._board.faults.ask(plugin, plugin.post_bind, flight.cycle, flight.row)
        turn.commands.append(_scheduled_event(flight))
        if flight.party is not None:
            self._gangs().concern(flight.party.key)

    # --- back ---

    def bring_back(self, flight: Flight, failure: Failure, turn: Turn) -> None:
        """Undo the assumption and put the pod back into the queue, together with its gang if none of that is bound."""
        if flight.party is not None and not flight.party.begun:
            self._gangs().disband(flight.party, failure, turn)
            return
        if not self.undo(flight, turn.now):
            return
        pod = flight.entry.pod
        if pod.nominated_node and not flight.announced:
            self._state.nominations.set(pod, pod.nominated_node)
        self._failing.fail(flight.entry, flight.runner, failure, turn, "" if flight.announced else None)
        if flight.party is not None:
            self._gangs().concern(flight.party.key)

    def undo(self, flight: Flight, now: float) -> bool:
        """Take a pod off its way; whether it is still wanted in the queue."""
        self._board.flights.remove(flight.entry.pod.uid)
        self._forget(flight)
        wanted = self._board.queue.get(flight.entry.pod.uid) is flight.entry
        if not wanted:
            flight.entry.move(GONE, now, "")
        return wanted

    def abandon(self, uid: str, turn: Turn) -> None:
        """A pod vanished while on its way: let the plugins give back what they hold for it."""
        flight = self._board.flights.remove(uid)
        if flight is None:
            return
        flight.entry.move(GONE, turn.now, "")
        self._forget(flight)
        if flight.party is not None:
            self._gangs().lost(flight, turn)

    def _note(self, flight: Flight) -> None:
        """For the plan a unit runs from here on, or waits again."""
        if self._board.planning is not None:
            self._board.planning.note(flight.entry.pod, flight.entry.unit)

    def _forget(self, flight: Flight) -> None:
        self._note(flight)
        unreserve(self._board.faults, flight)
        if self._state.forget(flight.entry.pod.uid) is not None and flight.told:
            self._board.changes.append(Change(What.POD_REMOVED, pod=flight.entry.pod))


def _scheduled_event(flight: Flight) -> RecordEvent:
    pod = flight.entry.pod
    note = f"Successfully assigned {pod.key} to {flight.node}"
    return RecordEvent(_ref(pod), "Normal", "Scheduled", "Binding", note, flight.runner.profile.scheduler_name)


def assume(state: ClusterState, entry: QueuedPod, runner: Runner, cycle: Cycle, row: int) -> Flight:
    """Count the pod on its row; it has yet to embark."""
    name = state.assume(entry.pod, row).node
    late = runner.late(cycle)
    return Flight(entry, cycle, runner, row, name, late, nodes_at=state.node_log.position, node_uid=state.node(row).uid)


def reserve(faults: Faults, flight: Flight) -> Status | None:
    """Ask Reserve; the status of the plugin that says no."""
    for plugin in flight.late.reserve:
        status: Status | None = faults.ask(plugin, plugin.reserve, flight.cycle, flight.row)
        if status is not None and status.code is not Code.SUCCESS:
            return Status(status.code, status.reasons, plugin.name)
    return None


def unreserve(faults: Faults, flight: Flight) -> None:
    """Let plugins give back what they hold."""
    for plugin in reversed(flight.late.reserve):
        if isinstance(plugin, Unreserve):
            faults.ask(plugin, plugin.unreserve, flight.cycle, flight.row)


def choose(state: ClusterState, runner: Runner, cycle: Cycle) -> int:
    """The promised row if the pod fits there, else the best of all; NOWHERE if nothing fits."""
    promised = state.nominations.node_of(cycle.pod.uid) if state.nominations.count else None
    if promised is not None:
        row = state.row_of(promised)
        if row is not None and runner.fits(cycle, row):
            cycle.feasible = 1
            return row
    return runner.decide(cycle)
