"""Room for a gang that does not fit: made by evictions, or reserved as it becomes free (`turns`).

If a gang with nominations loses waiting members and so cannot start, the nominations end unless the members are
replaced soon.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace

from moorage.core.commands import PatchPodStatus
from moorage.core.disruption.away import GONE, Away
from moorage.core.disruption.claims import free_abandoned
from moorage.core.gangneeds import Domain, GangNeeds
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.context import EngineContext
from moorage.engine.deadlines import Deadlines
from moorage.engine.evictor import ref_of
from moorage.engine.failing import Failing
from moorage.engine.gangturns import GangTurns
from moorage.engine.trial import Trial
from moorage.engine.turn import Turn
from moorage.engine.units import QueuedPod, Unit
from moorage.framework.contract import GangPostFilter
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.framework.status import Code, GangNomination, Status, unschedulable

_IDLE_S = 30.0
"""How long room is reserved for a gang that lacks members: a controller usually replaces them sooner."""


@dataclass(frozen=True, slots=True)
class Made:
    """What was done to make room."""

    nominate: Mapping[str, str] = field(default_factory=dict)
    """Member -> what status.nominatedNodeName should become, the empty string to clear it."""
    message: str = ""
    nominated: bool = False
    """Whether members were nominated to nodes."""
    evicts: bool = False
    """Whether pods have to be evicted first."""
    rejected_by: frozenset[str] = frozenset()
    """Plugins whose Reserve refused."""
    domain: Domain | None = None
    """The domain of the nominated nodes."""
    awaits: bool = False
    """Whether nothing was done, as nodes are on their way."""


NOTHING_MADE = Made()


class GangRoom:
    """Makes and reserves room; `priority` and `needs` are those of gangs."""

    def __init__(
        self,
        context: EngineContext,
        failing: Failing,
        priority: Callable[[Unit], int],
        needs: Callable[[GangKey, Collection[Pod]], GangNeeds | None],
    ) -> None:
        self._context = context
        self._state = context.state
        self._failing = failing
        self.turns = GangTurns(context, priority, needs)
        self._idle: Deadlines[GangKey] = Deadlines()
        """Gangs that have nominations but too few members -> when the nominations end."""

    # --- evictions ---

    def make(
        self,
        gang: Unit,
        ready: Sequence[QueuedPod],
        needs: GangNeeds,
        domains: Iterable[Domain | None],
        turn: Turn,
    ) -> Made:
        """PostFilter for the gang, in one domain after the other: evict, and nominate the members to nodes."""
        obstacle = needs.lasting_obstacle(self._state)
        if obstacle is not None:
            return Made(self.clear(ready), f"preemption: {obstacle.not_helpful}.")
        runner = self._context.responsible(gang.pod)
        said, hopeless, rejected_by = "", True, set[str]()
        for domain in domains:
            cycles = [Cycle(entry.pod, self._state, turn.now) for entry in ready]
            planning = self._context.planning
            for cycle in cycles:
                cycle.domain = domain
                cycle.only = None if planning is None else planning.rows_for(cycle.pod)
            answer = self._ask(runner, cycles, needs)
            for cycle in cycles:
                self._failing.heed(cycle, gang, runner, turn)
            if isinstance(answer, GangNomination):
                self._apply(gang, ready, answer, turn)
                return Made(answer.nodes, answer.message, True, bool(answer.victims), domain=domain)
            if answer is not None:
                said = said or answer.message
                hopeless = hopeless and answer.code is Code.UNRESOLVABLE
                if answer.plugin and answer.code is not Code.ERROR:
                    rejected_by.add(answer.plugin)
        return Made(self.clear(ready) if hopeless else {}, said, rejected_by=frozenset(rejected_by))

    def _ask(self, runner: Runner, cycles: list[Cycle], needs: GangNeeds) -> GangNomination | Status | None:
        """The first nomination with which the gang may start; else the last status with a message."""
        said: Status | None = None
        for plugin in runner.plugins.post_filter:
            if not isinstance(plugin, GangPostFilter):
                continue
            with self._state.statement() as what_if:  # evictions that are not ordered must not count
                answer = self._context.faults.ask(plugin, plugin.post_filter_gang, cycles, runner, needs)
                if isinstance(answer, GangNomination):
                    refusal = self._context.faults.ask(plugin, self._refusal, plugin.name, answer, cycles, needs)
                    if refusal is None:
                        what_if.commit()
                        return answer
                    answer = refusal
            if isinstance(answer, Status) and answer.message:
                said = answer
        return said

    def _refusal(
        self, plugin: str, nomination: GangNomination, cycles: Sequence[Cycle], needs: GangNeeds
    ) -> Status | None:
        """Why the gang may not start once the victims are gone and the members have the nodes; None if it may.

        Reserve is not asked if a victim is on its way to a node itself, as what is held for it ends with it.
        """
        state, placed = self._state, 0
        members = {cycle.pod.uid: cycle.pod for cycle in cycles}
        leaving = map(self._context.bindings.get, nomination.victims)
        trial = Trial(self._context, cycles[0].now, reserves=not any(leaving))
        preempts_devices = self._context.responsible(cycles[0].pod).preempts_devices
        with state.statement():
            away = Away(state, with_claims=preempts_devices)
            away.take(map(state.record, nomination.victims), GONE)
            if preempts_devices:
                free_abandoned(state)  # of pods that went for the gang before
            for uid in members:  # the nomination of one member must not block another
                state.nominations.clear(uid)
            for uid, node in nomination.nodes.items():
                row = state.row_of(node)
                if uid in members and row is not None and trial.put(members[uid], row) is not None:
                    placed += 1
            if needs.admits(state, placed):
                return None
        why = f"preemption: the nodes that {plugin} nominated are too few"
        if trial.refusal is None:
            return unschedulable(f"{why}.")
        return replace(unschedulable(f"{why}: {trial.refusal.message}."), plugin=trial.refusal.plugin)

    def _apply(
        self,
        gang: Unit,
        ready: Sequence[QueuedPod],
        nomination: GangNomination,
        turn: Turn,
    ) -> None:
        for uid in nomination.victims:
            self._failing.evict(uid, gang.pod, turn, holds=gang.uid)
        self.turns.nominated(gang.key, nomination.nodes, turn.now)
        for entry in ready:
            node = nomination.nodes.get(entry.pod.uid)
            if node is not None:
                self._failing.nominate(entry.pod, node, turn)

    def clear(self, ready: Iterable[QueuedPod]) -> Mapping[str, str]:
        """Evictions cannot help: end the nominations of the members."""
        for entry in ready:
            self._context.end_nomination(entry.pod.uid)
        return {entry.pod.uid: "" for entry in ready if entry.pod.nominated_node}

    # --- room that cannot be used ---

    @property
    def busy(self) -> bool:
        """Whether `review` has something to do, now or later."""
        return bool(self._idle) or self.turns.busy

    def lies_idle(self, gang: Unit, now: float) -> None:
        """A gang lacks members, so it cannot use its nominations at present."""
        nominations = self._state.nominations
        if nominations.count and any(nominations.node_of(uid) is not None for uid in gang.members):
            until_s = self._idle.setdefault(gang.key, now + _IDLE_S)
            if now < until_s:  # else `review` is due, which may have to wait until we decide again
                self._context.set_alarm(until_s, gang)

    def is_of_use(self, key: GangKey) -> None:
        """A gang has enough members."""
        self._idle.drop(key)

    def review(self, turn: Turn) -> None:
        """End the nominations of gangs that have lacked members for too long, and turns that are over."""
        self.turns.review(turn.now)
        for key in self._idle.take_due(turn.now):
            gang = self._context.queue.gang(key)
            if gang is None:
                continue
            self.turns.leave(key, turn.now)
            for entry in gang.members.values():
                if self._state.nominations.node_of(entry.pod.uid) is not None:
                    self._context.end_nomination(entry.pod.uid)
                    turn.commands.append(PatchPodStatus(ref_of(entry.pod), nominated_node=""))
