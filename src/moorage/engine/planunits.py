"""What the plan is asked for: which pods need nodes together, and which of them by themselves.

A single pod is a unit. Of a gang, as many members as it needs to run are one; every other member is a unit of its own
with the gang's priority. It may have a node that nobody more important needs, and it never costs the gang its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from moorage.core.gangneeds import GangNeeds, needs_of
from moorage.core.gangs import Disruption, GangTerms, lasting
from moorage.core.membership import GangKey
from moorage.core.nodeplan import Ask, Stand
from moorage.core.pods import Pod
from moorage.core.state import NOWHERE, PodRecord
from moorage.engine.context import EngineContext
from moorage.engine.units import QueuedPod, gang_uid
from moorage.engine.usablenodes import UsableNodes
from moorage.framework.contract import PlansUnits


class KnowsGangs(Protocol):
    """What is known of gangs that run (`engine.recovery`)."""

    def runs(self, key: GangKey, terms: GangTerms, /) -> bool:
        """Whether a gang that has lost members was complete before."""

    def whole(self, key: GangKey, terms: GangTerms, /) -> int:
        """How many members make it complete."""


class UnitAsks(NamedTuple):
    """What a pod or a gang asks for."""

    asks: tuple[Ask, ...] = ()
    """The unit itself first, then the members that are units of their own."""
    waiting: tuple[str, ...] = ()
    """The pods that the first ask has among its wants, in this order."""


_NOTHING = UnitAsks()


class PlanUnits:
    """Reads the queue, the state, and what is known of gangs."""

    def __init__(self, context: EngineContext, sort: PlansUnits, gangs: KnowsGangs, usable: UsableNodes) -> None:
        self._context, self._state = context, context.state
        self._sort, self._gangs, self._usable = sort, gangs, usable

    def of(self, uid: str, gang: GangKey | None) -> UnitAsks:
        """What a unit asks for now; nothing if it is gone or incomplete."""
        standing, waiting = self.pods(uid, gang)
        if gang is not None:
            return self._of_gang(gang, standing, waiting)
        everyone = [*(record.pod for record in standing), *waiting]
        if not everyone:
            return _NOTHING
        ask = self._ask(uid, everyone[0].template.priority, standing, waiting, everyone[0].key)
        return UnitAsks((ask,), tuple(pod.uid for pod in waiting))

    def needs(self, uid: str, gang: GangKey) -> GangNeeds | None:
        """What a gang needs; None while its PodGroup object is missing."""
        return needs_of(self._state, gang, self.pods(uid, gang)[1], self._gangs.runs)

    def pods(self, uid: str, gang: GangKey | None) -> tuple[list[PodRecord], list[Pod]]:
        """The unit's pods on nodes that are going to stay, and those that wait."""
        if gang is not None:
            known = self._context.queue.gang(gang)
            waiting = [] if known is None else [entry.pod for entry in known.members.values()]
            return sorted(lasting(self._state, gang), key=_record_age), sorted(waiting, key=_age)
        record, entry = self._state.record(uid), self._context.queue.get(uid)
        if self._is_member(record or entry):
            return [], []  # it has joined a gang since
        if record is not None:
            stays = record.pod.deleted_s is None and not self._state.evictions.evicting(uid)
            return ([record] if stays else []), []
        return [], [] if entry is None or entry.pod.gates else [entry.pod]

    def _is_member(self, known: PodRecord | QueuedPod | None) -> bool:
        if known is None or known.pod.template.gang is None:
            return False
        runner = self._context.runner_of(known.pod)
        return runner is not None and runner.places_gangs

    # --- gangs ---

    def _of_gang(self, gang: GangKey, standing: list[PodRecord], waiting: list[Pod]) -> UnitAsks:
        needs = needs_of(self._state, gang, waiting, self._gangs.runs)
        if not standing and (needs is None or not waiting or not needs.possible(self._state, len(waiting))):
            return _NOTHING
        wanted = self._wanted(gang, needs, len(standing), len(waiting))
        if wanted is None:
            return _NOTHING
        if wanted < len(waiting):
            waiting = sorted(waiting, key=lambda pod: not self._usable.bits(self._usable.kind_of(pod)))
        priority = None if needs is None else needs.terms.priority
        if priority is None:
            counted = waiting[:wanted] if standing else waiting
            priority = min(each.template.priority for each in [*counted, *(record.pod for record in standing)])
        uid = gang_uid(gang)
        first = self._ask(uid, priority, standing, waiting[:wanted], gang.object_key)
        first = first._replace(
            spare=0 if wanted else self._spare(needs, len(standing)),
            wants=(*first.wants, *self._coming(gang, needs, standing, len(waiting))),
        )
        rest = waiting[wanted:] if standing and needs is not None else ()  # a gang starts without them
        more = [self._ask(pod.uid, min(priority, pod.template.priority), [], [pod], pod.key) for pod in rest]
        return UnitAsks((first, *(ask._replace(behind=uid) for ask in more)), tuple(p.uid for p in waiting[:wanted]))

    def _wanted(self, gang: GangKey, needs: GangNeeds | None, there: int, waiting: int) -> int | None:
        """How many of the waiting members are placed with the gang; None if there are not enough of them.

        Of a gang that has yet to start that is all of them, but not more than its controllers want in the end: while
        a Deployment is rolled out, there are more.
        """
        if needs is None:
            return 0
        if there and self._gangs.runs(gang, needs.terms):
            return min(waiting, max(self._gangs.whole(gang, needs.terms) - there, 0))
        if not needs.enough(waiting):
            return None
        return needs.members if needs.terms.estimated else waiting

    def _coming(
        self, gang: GangKey, needs: GangNeeds | None, standing: Sequence[PodRecord], waiting: int
    ) -> tuple[int, ...]:
        """The kinds of members that a running gang has lost and that its controllers have yet to make again.

        Their place is kept: a rollout replaces one after the other.
        """
        if needs is None or not standing or not needs.terms.estimated or not self._gangs.runs(gang, needs.terms):
            return ()
        missing = self._gangs.whole(gang, needs.terms) - len(standing) - waiting
        return (self._usable.kind_of(standing[0].pod),) * max(missing, 0)

    def _spare(self, needs: GangNeeds | None, there: int) -> int:
        """How many of the members on nodes the gang could do without."""
        if needs is None or needs.terms.min_count is None or needs.terms.disruption is Disruption.WHOLE:
            return 0
        return max(there - needs.terms.min_count, 0)

    def _ask(self, uid: str, priority: int, standing: Sequence[PodRecord], waiting: Sequence[Pod], name: str) -> Ask:
        pods = [*(record.pod for record in standing), *waiting]
        created_s = min(pod.created_s for pod in pods)
        alone = len(pods) == 1
        return Ask(
            uid,
            self._sort.unit_key(priority, len(pods), bool(standing), created_s, name),
            tuple(
                Stand(
                    record.row, None if alone or record.pod.template.owner is None else self._usable.kind_of(record.pod)
                )
                for record in standing
                if record.row != NOWHERE
            ),
            tuple(self._usable.kind_of(pod) for pod in waiting),
        )


def _age(pod: Pod) -> tuple[int, float, str]:
    """The most important first, then the oldest."""
    return -pod.template.priority, pod.created_s, pod.key


def _record_age(record: PodRecord) -> tuple[int, float, str]:
    return _age(record.pod)
