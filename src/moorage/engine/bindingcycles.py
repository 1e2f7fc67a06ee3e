"""Binding cycles: pods from the decision to the answer of their bind, through Permit, PreBind and Bind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from types import NoneType
from typing import TypeAlias

from moorage.core.commands import Command, PodRef
from moorage.core.membership import GangKey
from moorage.core.values import dataclass
from moorage.engine.deadlines import Deadlines
from moorage.engine.faults import describe, wrong_type
from moorage.engine.interests import Interests
from moorage.engine.lifecycle import BINDING, PERMIT, PRE_BIND, READY, State
from moorage.engine.units import QueuedPod
from moorage.framework.changes import Change, What
from moorage.framework.classes import LatePoints
from moorage.framework.contract import PermitPlugin, PreBindPlugin
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.framework.status import Code, Hold, Status

_LONGEST_WAIT_S = 900.0
"""The longest wait in Permit, where a plugin returns Wait without a deadline."""
_KEPT_WAITS = 4096
PLACES = 512
"""How many binds may be in flight. A namespace may take another place while it has fewer than are left: half of them
if it is alone, a third each if there are two. So there is always one left for another namespace."""
_HALF = PLACES // 2


_WENT_ON: tuple[Sequence[Command], Status | None] = ((), None)
"""No plugin had to be called."""


_Waits: TypeAlias = PermitPlugin | PreBindPlugin
_ANSWERS: tuple[type, ...] = (Status, Hold, NoneType)


@dataclass(slots=True, eq=False)
class GangBinding:
    """The members of a gang that are bound together, once all of them are ready and the start is on record."""

    key: GangKey
    members: list[BindingCycle] = field(default_factory=list)
    begun: bool = False
    """Whether their binds were ordered."""
    recorder: PodRef | None = None
    """The member that carries the record, once the write was ordered."""


@dataclass(slots=True, eq=False)
class BindingCycle:
    """The binding cycle of one pod."""

    entry: QueuedPod
    cycle: Cycle
    runner: Runner
    row: int
    node: str
    late: LatePoints
    nodes_at: int = 0
    """Position in the log of nodes at which the node was last found suitable."""
    node_uid: str = ""
    held_by: _Waits | None = None
    deadline_s: float | None = None
    awaits: tuple[tuple[str, str], ...] = ()
    """Kinds and keys of the objects that `held_by` is waiting for; empty if any change in its `wakes` may matter."""
    _asked: int = 0
    """How many plugins of Permit, or afterwards of PreBind, have agreed."""
    sent: tuple[Command, ...] = ()
    """Commands of `Hold` answers that were returned already."""
    told: bool = False
    """Whether waiting pods were told that this one is on its node."""
    announced: bool = False
    """Whether status.nominatedNodeName was written for it."""
    gang: GangBinding | None = None
    """The members that it has to wait for."""
    waits_since_s: float | None = None
    """Since when it has been waiting in Permit."""

    @property
    def state(self) -> State:
        """The state of the pod."""
        return self.entry.state

    def advance(self, now: float) -> tuple[Sequence[Command], Status | None]:
        """Call the remaining plugins of Permit and PreBind; returns new commands, and a status if a plugin refuses.

        Afterwards the pod is BINDING, or READY if it has to wait for other members, or `held_by` holds it until
        `deadline_s`.
        """
        entry, gang_binding, late = self.entry, self.gang, self.late
        last = BINDING if gang_binding is None or gang_binding.begun else READY
        if entry.state is READY or not (late.permit or late.pre_bind):
            entry.move(last, now, self.node)
            return _WENT_ON
        commands: list[Command] = []
        self.cycle.now = now
        for point in (PRE_BIND,) if entry.state is PRE_BIND else (PERMIT, PRE_BIND):
            count = len(late.permit if point is PERMIT else late.pre_bind)
            while self._asked < count:
                plugin, answer = self._ask(now, point)
                if isinstance(answer, Hold):
                    return self._hold(plugin, answer, point, now, commands)
                if answer is not None and answer.code not in (Code.SUCCESS, Code.SKIP):
                    return commands, Status(answer.code, answer.reasons, plugin.name)
                self._asked += 1
                self.held_by = self.deadline_s = None
            self._asked = 0
        entry.move(last, now, self.node)
        return commands, None

    def _ask(self, now: float, point: State) -> tuple[_Waits, Status | Hold | None]:
        """Call the next plugin of Permit or PreBind."""
        plugin: _Waits
        try:
            if point is PERMIT:
                plugin = permit = self.late.permit[self._asked]
                answer = permit.permit(self.cycle, self.row)
            else:
                plugin = pre_bind = self.late.pre_bind[self._asked]
                answer = pre_bind.pre_bind(self.cycle, self.row)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            return plugin, Status(Code.ERROR, (describe(error),))
        if not isinstance(answer, _ANSWERS):
            return plugin, Status(Code.ERROR, (describe(wrong_type(answer)),))
        if isinstance(answer, Status) and answer.code is Code.WAIT:
            deadline_s = self.deadline_s if self.held_by is plugin else None
            return plugin, Hold(now + _LONGEST_WAIT_S if deadline_s is None else deadline_s, reason=answer.message)
        return plugin, answer

    def _hold(
        self, plugin: _Waits, hold: Hold, point: State, now: float, commands: list[Command]
    ) -> tuple[Sequence[Command], Status | None]:
        if hold.deadline_s <= now:
            reason = hold.reason or f"timed out in {point.value}"
            return commands, Status(Code.UNSCHEDULABLE, (reason,), plugin.name)
        self.held_by, self.deadline_s, self.awaits = plugin, hold.deadline_s, hold.objects
        self.entry.move(point, now, plugin.name)
        if self.waits_since_s is None and point is PERMIT:
            self.waits_since_s = now
        new = [command for command in hold.commands if command not in self.sent]
        commands.extend(new)
        self.sent += tuple(new)
        return commands, None


class BindingCycles:
    """All binding cycles by uid of their pod; those that wait are indexed by what they are waiting for."""

    def __init__(self) -> None:
        self._cycles: dict[str, BindingCycle] = {}
        self.get: Callable[[str], BindingCycle | None] = self._cycles.get
        """The binding cycle of a pod, by uid."""
        self._held: dict[str, BindingCycle] = {}
        self._deadlines: Deadlines[str] = Deadlines()
        """Deadlines of pods that are held, by uid."""
        self._interests = Interests()
        """Objects that pods are waiting for, of those that wait for certain ones."""
        self._wakes = What(0)
        """The kinds of changes that the other held pods wake on; may include some that none of them needs any more."""
        self._ready: dict[str, BindingCycle] = {}
        self._posted: dict[str, int] = {}
        """Namespace -> number of its binds in flight."""
        self._beyond: dict[str, int] = {}
        """Namespace -> how many of them exceed its share, since a gang is bound as a whole."""
        self.waited: deque[tuple[Code, float]] = deque(maxlen=_KEPT_WAITS)
        """How the latest waits in Permit ended, and when they began; readers remove what they have read."""

    def __len__(self) -> int:
        return len(self._cycles)

    @property
    def posted(self) -> int:
        """Number of binds that were ordered and are not answered yet.

        Members of a gang that wait for the others do not count: that may take minutes, and must not stop decisions,
        which run only so far ahead of the answers.
        """
        return len(self._cycles) - len(self._held) - len(self._ready)

    @property
    def free(self) -> int:
        """How many more binds may be ordered."""
        return max(0, PLACES - self._taken)

    @property
    def untouched(self) -> int:
        """How many more binds may be ordered before `room` could be 0 for any namespace."""
        return _HALF - self._taken

    @property
    def _taken(self) -> int:
        """Number of places in use."""
        posted = len(self._cycles) - len(self._held) - len(self._ready)
        return posted - sum(self._beyond.values()) if self._beyond else posted

    def room(self, namespace: str) -> int:
        """How many more binds a namespace may order within its share; negative while a gang exceeds it."""
        return PLACES - self._taken - self._posted.get(namespace, 0)

    @property
    def waiting(self) -> bool:
        """Whether any pod is waiting in Permit or PreBind."""
        return bool(self._held)

    def unposted(self) -> list[BindingCycle]:
        """Binding cycles whose bind was not ordered yet."""
        return [*self._held.values(), *self._ready.values()]

    def waiting_for(self, node: str) -> list[BindingCycle]:
        """Binding cycles towards a node whose bind was not ordered yet."""
        return [binding for binding in self.unposted() if binding.node == node]

    def all(self) -> Iterable[BindingCycle]:
        """All binding cycles."""
        return self._cycles.values()

    def add(self, binding: BindingCycle) -> None:
        """A binding cycle starts."""
        self._cycles[binding.entry.pod.uid] = binding

    def remove(self, uid: str) -> BindingCycle | None:
        """A binding cycle ends, either way. Must be called before the state of the pod changes."""
        if self._held:
            self._release(uid)
        if self._ready:
            self._ready.pop(uid, None)
        binding = self._cycles.pop(uid, None)
        if binding is None:
            return None
        if binding.entry.state is BINDING:
            namespace, posted = binding.entry.pod.template.namespace, self._posted
            left = posted[namespace] - 1
            if left:
                posted[namespace] = left
            else:
                del posted[namespace]
            if self._beyond:
                self._pass_on_place(namespace)
        if binding.waits_since_s is not None:
            self._end_wait(binding, Code.UNSCHEDULABLE)
        return binding

    def note(self, binding: BindingCycle) -> None:
        """File the binding cycle by its state. Must be called once for every state."""
        entry = binding.entry
        uid, state = entry.pod.uid, entry.state
        if binding.waits_since_s is not None and state is not PERMIT:
            self._end_wait(binding, Code.SUCCESS)
        if binding.held_by is not None:
            self._hold(uid, binding, binding.held_by)
        elif self._held:
            self._release(uid)
        if state is READY:
            self._ready[uid] = binding
        elif self._ready:
            self._ready.pop(uid, None)
        if state is BINDING:
            namespace, posted = entry.pod.template.namespace, self._posted
            posted[namespace] = posted.get(namespace, 0) + 1
            if len(self._cycles) > _HALF and self.room(namespace) < -1:  # with fewer there is room
                self._beyond[namespace] = self._beyond.get(namespace, 0) + 1

    def _pass_on_place(self, namespace: str) -> None:
        """The place of an answered bind goes to one of its namespace that has none."""
        left = self._beyond.pop(namespace, 0) - 1
        if left > 0:
            self._beyond[namespace] = left

    def _end_wait(self, binding: BindingCycle, result: Code) -> None:
        if binding.waits_since_s is not None:
            self.waited.append((result, binding.waits_since_s))
            binding.waits_since_s = None

    def _hold(self, uid: str, binding: BindingCycle, plugin: _Waits) -> None:
        self._held[uid] = binding
        self._interests.set(uid, binding.awaits)
        if not binding.awaits:
            self._wakes |= plugin.wakes
        if binding.deadline_s is not None:
            self._deadlines.set(uid, binding.deadline_s)

    def _release(self, uid: str) -> None:
        if self._held.pop(uid, None) is not None:
            self._deadlines.drop(uid)
            self._interests.drop(uid)
            if not self._held:
                self._wakes = What(0)

    def tidy(self) -> None:
        """Rebuild deadlines and interests from the pods that are held."""
        self.get = self._cycles.get
        self._deadlines, self._interests, self._wakes = Deadlines(), Interests(), What(0)
        for uid, binding in self._held.items():
            if binding.held_by is not None:
                self._hold(uid, binding, binding.held_by)

    def concerned(self, changes: Sequence[Change], now: float) -> list[BindingCycle]:
        """Held cycles whose deadline is due, earliest first, then those whose plugin may care about a change."""
        if not self._held:
            return []
        found = {uid: self._held[uid] for uid in self._deadlines.take_due(now)}
        for uid in self._interests.of(thing for change in changes for thing in change.objects):
            found.setdefault(uid, self._held[uid])
        what = What(0)
        for change in changes if self._wakes else ():
            what |= change.what
        if what & self._wakes:
            for uid, binding in self._held.items():
                if binding.held_by is not None and not binding.awaits and binding.held_by.wakes & what:
                    found.setdefault(uid, binding)
        return list(found.values())

    def next_wakeup(self) -> float | None:
        """The first deadline of a held pod."""
        return self._deadlines.first_s()
