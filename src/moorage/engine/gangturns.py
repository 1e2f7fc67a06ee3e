"""Freed room that is kept for a gang which has waited for long: a turn, of one gang at a time and of limited length.

- While a gang has a turn, nodes on which members fit are kept from everybody of equal or lower priority.
- After each turn there is a pause for as long as it lasted, so that room is kept for at most half of the time, however
  many gangs wait. It is a pause for gangs of the same or a lower priority; and a gang that has kept room from less
  important pods only goes on without one.
- A gang of higher priority takes over at once, for the rest of the turn.
- Of the gangs in line, the one of the highest priority is next; among those, queues or namespaces take turns, and so
  do the gangs of each. It is tried at the end of the pause, the next one if it needs no turn, and so on.
- A turn is only for a gang that could start once what is running ends: beside the pods that stay as long as their
  nodes, and its own. The turn ends when that is no longer so.

Room for gangs of queues is made in rounds (`makingroom`). They take turns only while pods end by themselves so often
that room is soon gathered (`turnover`): then nobody is evicted for them unless a turn has ended in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from moorage.core.disruption.ledger import belongs_to_node
from moorage.core.gangneeds import GangNeeds
from moorage.core.membership import GangKey
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.times import minute_text
from moorage.engine.bindingcycles import BindingCycle
from moorage.engine.context import EngineContext
from moorage.engine.lifecycle import ACTIVE, BACKOFF, UNSCHEDULABLE
from moorage.engine.units import QueuedPod, Unit
from moorage.framework.cycle import Cycle
from moorage.framework.gang_capacity import outlasts
from moorage.framework.runner import Runner

_SERVED_S = 3600.0
"""How long it is remembered that a namespace without gangs in line has had a turn."""
_CALLED_S = 10.0
"""How long the next gang in line has to be tried; then it is the turn of the one after it."""
_NEVER, _ALL = float("-inf"), float("inf")
_COMPETING = (ACTIVE, BACKOFF, UNSCHEDULABLE)
_Standing = tuple[int, float, int]
Rank = tuple[int, float, int, float, float, str]


class TurnPatience(Protocol):
    """After which time a gang may have a turn, and how long that is."""

    @property
    def reserve_after_seconds(self) -> float:
        """How long it has waited before."""

    @property
    def reserve_for_seconds(self) -> float:
        """How long room is kept for it at most."""


class Gathering(NamedTuple):
    """The patience with gangs of queues while pods end all the time: room is soon gathered, or others are evicted."""

    reserve_for_seconds: float
    reserve_after_seconds: float = 0.0


class GangTurns:
    """Which gang has room kept; `priority` and `needs` are those of gangs."""

    def __init__(
        self,
        context: EngineContext,
        priority: Callable[[Unit], int],
        needs: Callable[[GangKey, Collection[Pod]], GangNeeds | None],
    ) -> None:
        self._context = context
        self._priority = priority
        self._needs = needs
        self.favoured: GangKey | None = None
        """The gang whose turn it is."""
        self._began_s = 0.0
        """When the latest turn began; a gang that took it over counts on."""
        self._until_s = 0.0
        self._kept: dict[str, None] = {}
        """Members that have a node kept."""
        self._doubtful = False
        """Whether something has happened to nodes or members since the gang was known to be able to start."""
        self._priority_kept = 0
        """Up to this priority pods are kept out by the turn, or were by the latest one."""
        self._open_s = _NEVER
        """When the pause after the latest turn ends."""
        self._pauses = 0.0
        """Gangs up to this priority wait for that."""
        self._term_s = _NEVER
        """When this process began to lead; a turn that an earlier one gave may have ended just then."""
        self._in_line: dict[GangKey, None] = {}
        """Gangs that may have a turn, and asked for one when they could not get it."""
        self._called: GangKey | None = None
        """The gang in line that is about to be tried, and gets the turn if it needs it."""
        self._called_until_s = 0.0
        self._served: dict[str, float] = {}
        """Queue or namespace -> when a gang of it last had a turn."""
        self._last: dict[GangKey, float] = {}
        """The same for gangs that still exist."""

    @property
    def busy(self) -> bool:
        """Whether `review` has something to do, now or later."""
        return self.favoured is not None or bool(self._in_line)

    def keep(
        self,
        gang: Unit,
        ready: Iterable[QueuedPod],
        needs: GangNeeds,
        bindings: Iterable[BindingCycle],
        patience: TurnPatience,
        now: float,
    ) -> None:
        """Nominate the members that fit to their nodes, if the gang has waited for long and gets a turn."""
        due_s = gang.first_s + patience.reserve_after_seconds
        self._pause(self._term_s + patience.reserve_for_seconds, _ALL, now)
        if now < due_s:
            self._context.set_alarm(due_s, gang)
        elif self.stands_in_line(gang, now):
            return
        elif not self._could_start([entry.pod for entry in ready], needs, now):
            self.leave(gang.key, now)
        else:
            self._begin(gang, patience, now)
            for binding in bindings:
                pod = binding.entry.pod
                self._kept[pod.uid] = None
                self._context.state.nominations.set(pod, binding.node)

    def is_in_line(self, key: GangKey) -> bool:
        """Whether a gang waits for its turn."""
        return key in self._in_line

    def stands_in_line(self, gang: Unit, now: float) -> bool:
        """Let a gang wait for its turn, unless it could have one now."""
        if self._may_begin(gang, now):
            return False
        self._in_line[gang.key] = None
        return True

    def _may_begin(self, gang: Unit, now: float) -> bool:
        """Whether the gang has the turn, or gets it if it could start."""
        if self.favoured is not None:
            other = self._context.queue.gang(self.favoured)
            return gang.key == self.favoured or other is None or self._outranks(gang, other)
        if now < self._open_s and self._priority(gang) <= self._pauses:
            return False
        called = None if self._called is None else self._context.queue.gang(self._called)
        return called is None or called is gang or self._rank(gang) < self._rank(called)

    def _outranks(self, gang: Unit, other: Unit) -> bool:
        """Whether a gang is more important than another; priorities of different queues are not compared."""
        if self._is_shared(gang) and self._home(gang) != self._home(other):
            return False
        return self._priority(other) < self._priority(gang)

    def _is_shared(self, gang: Unit) -> bool:
        """Whether a gang belongs to a queue."""
        sharing = self._context.sharing
        return sharing is not None and sharing.governs(gang.pod)

    def _begin(self, gang: Unit, patience: TurnPatience, now: float) -> None:
        key = gang.key
        if self.favoured == key:
            return
        until_s, priority = now + patience.reserve_for_seconds, max(self._priority(gang), _highest(gang))
        if self.favoured is None:
            self._began_s, self._until_s, self._priority_kept = now, until_s, priority
        else:
            self._in_line[self.favoured] = None
            self._until_s, self._priority_kept = min(self._until_s, until_s), max(self._priority_kept, priority)
            self._release()
        self._in_line.pop(key, None)
        self._called = None
        others = (self._context.queue.gang(each) for each in self._in_line)
        unlike = {each.line or each.uid: each for each in others if each is not None}
        lined = {self._home(each) for each in unlike.values()}
        self._served = {
            name: at_s for name, at_s in self._served.items() if name in lined or now - at_s < _SERVED_S
        } | {self._home(gang): now}
        self._last[key] = now
        self.favoured, self._doubtful = key, False

    def _may_go_on(self, gang: Unit) -> bool:
        """Whether nominations of the members keep others out, and only such that are less important than the gang."""
        highest = _highest(gang)
        entries = (entry for entry in self._context.queue.entries() if entry.unit is not gang)
        others = [entry.pod.template.priority for entry in entries if entry.state in _COMPETING]
        kept_out = max((priority for priority in others if priority <= highest), default=None)
        return kept_out is not None and kept_out < self._priority(gang)

    def _rank(self, gang: Unit, known: dict[int, _Standing] | None = None) -> Rank:
        """Sort key: by priority; then the longest time without a turn first, of the namespace and of the gang.

        Of gangs of queues the priority counts inside their queue only. `known`, by line: the part in which gangs that
        are alike do not differ.
        """
        standing = known.get(gang.line) if known is not None and gang.line else None
        if standing is None:
            priority, served_s = self._priority(gang), self._served.get(self._home(gang), _NEVER)
            standing = (0 if self._is_shared(gang) else -priority, served_s, -priority)
            if known is not None:
                known[gang.line] = standing
        return *standing, self._last.get(gang.key, _NEVER), gang.first_s, gang.uid

    def _home(self, gang: Unit) -> str:
        """By what turns go round: the queue of a gang, else its namespace. No namespace has the form of the former."""
        sharing = self._context.sharing
        shared = sharing is not None and self._is_shared(gang)
        return f"queue {sharing.member(gang.pod).queue}" if sharing is not None and shared else gang.key.namespace

    def _could_start(self, pods: Collection[Pod], needs: GangNeeds, now: float) -> bool:
        """Whether enough members would fit, in one of the domains, once all pods have ended that do not stay."""
        state = self._context.state
        if needs.lasting_obstacle(state) is not None:
            return False
        return any(self._outlasts(pods, needs, domain, now) for domain in needs.domains(state))

    def _outlasts(self, pods: Collection[Pod], needs: GangNeeds, domain: frozenset[str] | None, now: float) -> bool:
        cycles = [Cycle(pod, self._context.state, now) for pod in pods]
        for cycle in cycles:
            cycle.domain = domain
        try:
            return outlasts(
                cycles,
                needs.members,
                lambda cycle: self._context.responsible(cycle.pod),
                lambda pod: belongs_to_node(pod.template) or pod.template.gang == needs.key,
            )
        except Exception:  # noqa: BLE001 - reported when the gang itself is tried
            return False

    # --- what happens meanwhile ---

    def term_began(self, now: float) -> None:
        """This process leads from now on."""
        self._term_s = now

    def node_changed(self, before: Node | None, after: Node | None) -> None:
        """A node came, went or is another one now."""
        if self.favoured is not None and before != after:
            self._doubtful = True

    def concern(self, key: GangKey) -> None:
        """Something happened to a member of a gang."""
        if self.favoured == key:
            self._doubtful = True

    def nominated(self, key: GangKey, uids: Iterable[str], now: float) -> None:
        """These members were nominated to nodes by preemption, which needs no turn."""
        if self.favoured == key:
            for uid in uids:
                self._kept.pop(uid, None)
        self.leave(key, now)

    def leave(self, key: GangKey, now: float) -> None:
        """A gang does not need a turn."""
        self._in_line.pop(key, None)
        if self.favoured == key:
            self._end(now)
        if self._called == key:
            self._called = None
        if self._called is None:
            self._call_next(now)

    def forget(self, key: GangKey) -> None:
        """A gang has no members any more."""
        if self._called == key:
            self._called = None
        self._in_line.pop(key, None)
        self._last.pop(key, None)

    # --- what is due ---

    def next_review_s(self) -> float | None:
        """When `review` has something to do even if nothing happens."""
        if self.favoured is not None:
            return self._until_s
        if not self._in_line:
            return None
        return self._open_s if self._called is None else self._called_until_s

    def review(self, now: float) -> None:
        """End the turn if it is over, its gang is gone or cannot start any more; call the next gang after a pause."""
        if self.favoured is not None:
            gang = self._context.queue.gang(self.favoured)
            if gang is None or (self._doubtful and not self._still_could_start(gang, now)):
                self._end(now)
            elif now >= self._until_s:
                gang.had_turn = True
                self._in_line[gang.key] = None
                if self._may_go_on(gang):  # in a turn that is new, so that those who are kept out are told
                    self._release()
                    self.favoured = None
                    self._call(gang, now)
                else:
                    self._end(now)
        elif self._called is not None and now >= self._called_until_s:
            self._in_line.pop(self._called, None)
            self._called = None
        if self._called is None:
            self._call_next(now)

    def _still_could_start(self, gang: Unit, now: float) -> bool:
        """The same as at the beginning; a gang that lacks members is given some time (`gangroom`)."""
        self._doubtful = False
        pods = [entry.pod for entry in gang.members.values()]
        needs = self._needs(gang.key, pods)
        return needs is None or not needs.enough(len(pods)) or self._could_start(pods, needs, now)

    def _end(self, now: float) -> None:
        """The turn is over, and a pause begins."""
        self._release()
        self.favoured = None
        self._pause(now + (now - self._began_s), self._priority_kept, now)

    def _pause(self, until_s: float, priority: float, now: float) -> None:
        """Gangs up to this priority wait until then, and those that are waiting for the end of a pause already."""
        if until_s > now:
            self._pauses = max(priority, self._pauses) if now < self._open_s else priority
            self._open_s = max(until_s, self._open_s)

    def _release(self) -> None:
        for uid in self._kept:
            self._context.end_nomination(uid)
        self._kept.clear()

    def _call_next(self, now: float) -> None:
        """Have the next gang in line tried, unless there is a turn or a pause; gangs that cannot be tried leave it."""
        if self.favoured is not None or now < self._open_s:
            return
        gangs = {key: self._context.queue.gang(key) for key in self._in_line}
        there = {key: gang for key, gang in gangs.items() if gang is not None and gang.state in _COMPETING}
        self._in_line = dict.fromkeys(there)
        if there:
            self._call(min(there.values(), key=partial(self._rank, known={})), now)

    def _call(self, gang: Unit, now: float) -> None:
        self._called, self._called_until_s = gang.key, now + _CALLED_S
        self._context.queue.wake(gang, now)

    # --- in words ---

    def told_to(self, gang: Unit) -> str:
        """What a gang that has the turn is told; empty for others."""
        return f"Free room is kept for it until {minute_text(self._until_s)}." if gang.key == self.favoured else ""

    def keeps_out(self, pod: Pod, runner: Runner, now: float) -> str:
        """For whom room is kept that a pod which found no node would fit into; empty if there is none."""
        if self.favoured is None or pod.template.gang == self.favoured:
            return ""
        if not any(self._fits_beside_none(pod, runner, node, now) for node in self._roomy(pod)):
            return ""
        return f"Room is kept for gang {self.favoured.object_key} until {minute_text(self._until_s)}."

    def _roomy(self, pod: Pod) -> list[str]:
        """Nodes kept for the gang that have what the pod requests."""
        state = self._context.state
        nodes = dict.fromkeys(node for uid in self._kept if (node := state.nominations.node_of(uid)) is not None)
        rows = np.array([row for node in nodes if (row := state.row_of(node)) is not None], dtype=np.intp)
        resources = state.resources
        for column, amount in resources.vector(pod.requests).pairs:
            rows = rows[resources.allocatable[column, rows] - resources.requested[column, rows] >= amount]
        return [state.node(row).name for row in rows.tolist()]

    def _fits_beside_none(self, pod: Pod, runner: Runner, node: str, now: float) -> bool:
        """Whether a pod would fit on a node if nothing of it were kept for the gang."""
        state = self._context.state
        row = np.array([state.row_of(node)], dtype=np.intp)
        with state.statement():
            for other in state.nominations.on(node):
                if other.uid in self._kept:
                    state.nominations.clear(other.uid)
            try:
                return len(runner.judge(Cycle(pod, state, now), row).passed) > 0
            except Exception:  # noqa: BLE001 - reported when the pod itself is tried
                return False


def _highest(gang: Unit) -> int:
    """The highest priority of the members: their nominations keep out pods up to this."""
    return max(entry.pod.template.priority for entry in gang.members.values())
