"""From a chosen node to a bound pod: assume, Reserve, Permit, PreBind, Bind; and back to the queue if that fails."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, get_args

from moorage.core.commands import Bind, Command, PatchPodStatus, RecordEvent
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod, on_node
from moorage.core.state import ClusterState
from moorage.engine.bindingcycles import BindingCycle
from moorage.engine.context import EngineContext
from moorage.engine.evictor import ref_of as _ref
from moorage.engine.failing import Failing
from moorage.engine.failures import Failure, failure_of
from moorage.engine.faults import Faults, failed
from moorage.engine.lifecycle import BINDING, BOUND, GONE, ON_ITS_WAY, READY
from moorage.engine.turn import Turn
from moorage.engine.units import QueuedPod
from moorage.framework.changes import Change, What
from moorage.framework.contract import Unreserve
from moorage.framework.cycle import Cycle
from moorage.framework.instances import Instances
from moorage.framework.runner import Runner
from moorage.framework.status import Code, Status

if TYPE_CHECKING:
    from moorage.engine.gangs import Gangs

_BIND_ANSWERS: tuple[type, ...] = (*get_args(Command), Status)


class Placing:
    """Runs binding cycles; `gangs` decides when the members of a gang may be bound."""

    def __init__(self, context: EngineContext, failing: Failing, gangs: Callable[[], Gangs]) -> None:
        self._context = context
        self._state = context.state
        self._failing = failing
        self._gangs = gangs

    def place(self, entry: QueuedPod, runner: Runner, cycle: Cycle, row: int, turn: Turn) -> None:
        """The second half of an attempt, once a row is chosen."""
        # 4. Assume it there, and let plugins reserve what they need.
        try:
            binding = assume(self._state, entry, runner, cycle, row)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            self._failing.fail(entry, runner, Failure(failed(error), frozenset(), Code.ERROR), turn)
            return
        self.begin(binding)
        status = reserve(self._context.faults, binding) if binding.late.reserve else None
        if status is not None:
            self.bring_back(binding, failure_of(status), turn)
            return
        # 5. Permit, PreBind, Bind: now, or once what the plugins wait for has happened.
        self.go_on(binding, turn)
        # 6. Tell waiting pods, unless it was undone already.
        if entry.state in ON_ITS_WAY:
            self.tell(binding)

    def begin(self, binding: BindingCycle) -> None:
        """The decision stands: the binding cycle begins, and a nomination to another node ends."""
        pod, nominations = binding.entry.pod, self._state.nominations
        if nominations.count and nominations.clear(pod.uid) not in (None, binding.node):
            self._context.changes.append(Change(What.POD_REMOVED, pod=pod))
        self._context.bindings.add(binding)
        if self._context.planning is not None:
            self._note(binding)

    def tell(self, binding: BindingCycle) -> None:
        """Tell waiting pods that this one is on its node."""
        binding.told = True
        if not self._context.queue.quiet or self._context.bindings.waiting:
            self._context.changes.append(Change(What.POD_ADDED, pod=binding.entry.pod))

    def go_on(self, binding: BindingCycle, turn: Turn) -> None:
        """Continue with Permit and PreBind; the pod is bound if they agree and it need not wait for its gang."""
        if binding.cycle.warnings:
            self._context.warnings.tell(binding.cycle, binding.runner.profile.scheduler_name, turn.commands)
        new, refusal = binding.advance(turn.now)
        if new:
            turn.commands.extend(new)
            self._state.devices.ordered(new)
        if refusal is not None:
            self.bring_back(binding, failure_of(refusal), turn)
            return
        self._context.bindings.note(binding)
        state = binding.entry.state
        if state is BINDING:
            self._bind(binding, turn)
        elif state is READY:
            self._gangs().ready(binding, turn)
        elif binding.entry.pod.nominated_node != binding.node and not binding.announced:
            binding.announced = True
            turn.commands.append(PatchPodStatus(_ref(binding.entry.pod), nominated_node=binding.node))

    def _bind(self, binding: BindingCycle, turn: Turn) -> None:
        for plugin in binding.runner.plugins.bind:
            try:
                answer = plugin.bind(binding.cycle, binding.row)
            except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
                answer = self._context.faults.note(plugin, "bind", error)
            if type(answer) is not Bind:  # nearly always it is
                answer = self._context.faults.check(plugin, "bind", answer, *_BIND_ANSWERS)
                if isinstance(answer, Status):
                    if answer.code is Code.SKIP:
                        continue
                    self.bring_back(binding, failure_of(Status(answer.code, answer.reasons, plugin.name)), turn)
                    return
            plugins = binding.runner.plugins
            if (plugins.annotating or plugins.assigning) and isinstance(answer, Bind):
                answer = self._annotated(answer, plugins, binding)
            asking = self._context.asking
            turn.commands.append(answer if asking is None else asking.delegated(answer, binding.cycle.template))
            return
        failure = Failure("no bind plugin took the pod", frozenset(), Code.ERROR)
        self.bring_back(binding, failure, turn)

    def _annotated(self, bind: Bind, plugins: Instances, binding: BindingCycle) -> Bind:
        found: dict[str, str] = {}
        for annotating in plugins.annotating:
            found.update(annotating.binding_annotations(binding.cycle, binding.row))
        assigned = (each.assignment(binding.cycle, binding.row) for each in plugins.assigning)
        given = next((each for each in assigned if each is not None), None)
        if not found and given is None:
            return bind
        return bind._replace(annotations=FrozenDict(found) if found else bind.annotations, assigned=given)

    def arrived(self, binding: BindingCycle, turn: Turn) -> None:
        """The pod is bound."""
        uid = binding.entry.pod.uid
        self._context.bindings.remove(uid)
        binding.entry.move(BOUND, turn.now, binding.node)
        if self._context.sides.on:
            self._context.sides.placed(binding.entry, turn.now)
        if self._context.queue.shared is not None:
            self._context.turnover.placed(uid, turn.now)
        self._context.queue.remove(uid, turn.now)
        for plugin in binding.late.post_bind:
            self._context.faults.ask(plugin, plugin.post_bind, binding.cycle, binding.row)
        turn.commands.append(_scheduled_event(binding))
        if binding.gang is not None:
            self._gangs().concern(binding.gang.key)

    # --- back ---

    def bring_back(self, binding: BindingCycle, failure: Failure, turn: Turn) -> None:
        """Undo the assumption and put the pod back into the queue, with its gang if no member was bound yet."""
        if binding.gang is not None and not binding.gang.begun:
            self._gangs().roll_back(binding.gang, failure, turn)
            return
        if not self.undo(binding, turn):
            return
        pod = binding.entry.pod
        if pod.nominated_node and not binding.announced:
            self._state.nominations.set(pod, pod.nominated_node)
        self._failing.fail(binding.entry, binding.runner, failure, turn, "" if binding.announced else None)
        if binding.gang is not None:
            self._gangs().concern(binding.gang.key)

    def undo(self, binding: BindingCycle, turn: Turn) -> bool:
        """End a binding cycle without a bind; returns whether the pod is still in the queue."""
        self._context.bindings.remove(binding.entry.pod.uid)
        commands = self._forget(binding)
        wanted = self._context.queue.get(binding.entry.pod.uid) is binding.entry
        if wanted:
            turn.commands += commands
            self._state.devices.ordered(commands)
        else:
            binding.entry.move(GONE, turn.now, "")
        return wanted

    def abandon(self, uid: str, turn: Turn) -> None:
        """A pod is gone during its binding cycle: let plugins release what they reserved for it."""
        binding = self._context.bindings.remove(uid)
        if binding is None:
            return
        binding.entry.move(GONE, turn.now, "")
        self._forget(binding)
        if binding.gang is not None:
            self._gangs().lost(binding, turn)

    def take_over(self, pod: Pod, node: str) -> None:
        """Another process bound the pod: assume it on that node until the watch shows it."""
        self._state.observe_pod(on_node(pod, node))
        record = self._state.record(pod.uid)
        if record is not None:
            record.assumed = True
            self._context.changes.append(Change(What.POD_ADDED, pod=record.pod))

    def _note(self, binding: BindingCycle) -> None:
        """Tell the plan that the unit runs from now on, or waits again."""
        if self._context.planning is not None:
            self._context.planning.note(binding.entry.pod, binding.entry.unit.gang)

    def _forget(self, binding: BindingCycle) -> list[Command]:
        self._note(binding)
        commands = unreserve(self._context.faults, binding)
        if self._state.forget(binding.entry.pod.uid) is not None and binding.told:
            self._context.changes.append(Change(What.POD_REMOVED, pod=binding.entry.pod))
        return commands


def _scheduled_event(binding: BindingCycle) -> RecordEvent:
    pod = binding.entry.pod
    note = f"Successfully assigned {pod.key} to {binding.node}"
    return RecordEvent(_ref(pod), "Normal", "Scheduled", "Binding", note, binding.runner.profile.scheduler_name)


def assume(state: ClusterState, entry: QueuedPod, runner: Runner, cycle: Cycle, row: int) -> BindingCycle:
    """Assume the pod on its row; `Placing.begin` starts the binding cycle."""
    late = runner.late(cycle)  # calls plugins, so nothing may be assumed yet
    state.assume(entry.pod, row)
    node = state.node(row)
    return BindingCycle(entry, cycle, runner, row, node.name, late, state.node_log.position, node.uid)


def reserve(faults: Faults, binding: BindingCycle) -> Status | None:
    """Run Reserve; returns the status of the plugin that refuses, if one does."""
    for plugin in binding.late.reserve:
        answer = faults.ask(plugin, plugin.reserve, binding.cycle, binding.row)
        status = faults.check(plugin, "reserve", answer, Status, NoneType)
        if status is not None and status.code is not Code.SUCCESS:
            return Status(status.code, status.reasons, plugin.name)
    return None


def unreserve(faults: Faults, binding: BindingCycle) -> list[Command]:
    """Let plugins release what they reserved; returns what takes back what was written for the pod."""
    commands: list[Command] = []
    for plugin in reversed(binding.late.reserve):
        if isinstance(plugin, Unreserve):
            answer = faults.ask(plugin, plugin.unreserve, binding.cycle, binding.row)
            commands += () if answer is None or isinstance(answer, Status) else answer
    return commands


def choose(state: ClusterState, runner: Runner, cycle: Cycle) -> int:
    """The row that the pod is nominated to if it fits there, else the best of all; NOWHERE if nothing fits."""
    nominated = state.nominations.node_of(cycle.pod.uid) if state.nominations.count else None
    if nominated is not None:
        row = state.row_of(nominated)
        if row is not None and runner.fits(cycle, row):
            cycle.feasible = 1
            return row
    return runner.decide(cycle)
