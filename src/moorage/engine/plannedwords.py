"""What is said to pods that the plan has no node for: why, what would help, and which units come first."""

from __future__ import annotations

from moorage.core.gangs import lasting
from moorage.core.nodeplan import Ask, NodePlan
from moorage.core.pods import Pod
from moorage.core.seating import Seating
from moorage.engine.context import EngineContext
from moorage.engine.planunits import PlanUnits
from moorage.engine.units import Unit, gang_uid
from moorage.engine.usablenodes import UsableNodes

NO_NODES = "no nodes available to schedule pods"
_LEFT_OUT = "units that come first in the plan leave it too few of them"
_MOST_NAMED = 5


class PlannedWords:
    """Words about the units of one engine."""

    def __init__(self, context: EngineContext, units: PlanUnits, usable: UsableNodes) -> None:
        self._context, self._state = context, context.state
        self._units, self._usable = units, usable

    def refusal(self, unit: Unit, plan: NodePlan | None) -> str:
        """Why a unit that the plan does not admit has to wait."""
        count = self._state.node_count
        if not count:
            return NO_NODES
        needs = None if unit.gang is None else self._units.needs(unit.uid, unit.gang)
        obstacle = None if needs is None else needs.lasting_obstacle(self._state)
        said = _LEFT_OUT if obstacle is None else obstacle.message
        ask = None if plan is None else plan.ask(unit.uid)
        if obstacle is None and ask is not None and not ask.stands:
            seats = self._seats(ask)
            if seats < len(ask.wants):
                said = f"the unit needs {len(ask.wants)}, one for each of its pods, and the plan has {seats} to give"
        return f"0/{count} nodes are available: {said}.{self._of_running(unit)}"

    def _seats(self, ask: Ask) -> int:
        """How many of the waiting pods could have a node at the same time if nobody else needed one."""
        seating = Seating(0)
        return sum(seating.sit(self._usable.bits(kind)) for kind in ask.wants)

    def _of_running(self, unit: Unit) -> str:
        if unit.gang is None:
            return ""
        there = len(lasting(self._state, unit.gang))
        runs = f" Pod group {unit.gang.object_key} runs with {there} members, and a further one needs a node of its own"
        return f"{runs}: a rollout needs a free node or maxSurge 0." if there else ""

    def ahead(self, pod: Pod, unit: Unit, plan: NodePlan) -> tuple[str, ...]:
        """The units that come first and have nodes that the pod could use; empty if it has a place in the plan."""
        ask = plan.ask(pod.uid) or plan.ask(unit.uid)
        if ask is None or plan.share(ask.id) is not None:
            return ()
        usable = self._usable.bits(self._usable.kind_of(pod))
        found = [self._named(each) for each in plan.taken() if each.order < ask.order and self._meets(each, usable)]
        more = len(found) - _MOST_NAMED
        return (*found[:_MOST_NAMED], *((f"{more} more",) if more > 0 else ()))

    def _meets(self, ask: Ask, usable: int) -> bool:
        """Whether a unit has a node of these, or may get one."""
        stands = any(usable >> stand.row & 1 for stand in ask.stands)
        return stands or any(self._usable.bits(kind) & usable for kind in ask.wants)

    def _named(self, ask: Ask) -> str:
        """A unit with its priority and, if there are several, the number of its pods."""
        record, unit = self._state.record(ask.id), self._context.queue.find(ask.id)
        if record is not None:
            return f"pod {record.pod.key} (priority {record.pod.template.priority})"
        if unit is not None and ask.id in unit.members:
            pod = unit.members[ask.id].pod
            return f"pod {pod.key} (priority {pod.template.priority})"
        pods = [self._state.records_on(stand.row) for stand in ask.stands]
        members = [record.pod for records in pods for record in records if self._is_of(record.pod, ask)]
        members += [] if unit is None else [entry.pod for entry in unit.members.values()]
        if not members:
            return ask.id
        lowest = min(pod.template.priority for pod in members)
        gang = members[0].template.gang
        name = members[0].key if gang is None else gang.object_key
        return f"pod group {name} ({len(ask.stands) + len(ask.wants)} pods, priority {lowest})"

    def _is_of(self, pod: Pod, ask: Ask) -> bool:
        gang = pod.template.gang
        return gang is not None and gang_uid(gang) == ask.id
