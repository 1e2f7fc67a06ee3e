"""Which moves would make room for one pod that waits: for explanations, with a small search."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.budgets import Budgets
from moorage.core.disruption.ledger import BUDGET
from moorage.core.objects import PodDisruptionBudget
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.repacking.census import take_census
from moorage.engine.repacking.plans import PlannedMove
from moorage.engine.repacking.room import RoomMaking, waiting_units

MOST_MOVES = 50
_STEPS = 2_000


def moves_for(
    world: Engine, pod: Pod, now: float, budgets: Iterable[PodDisruptionBudget] | None = None
) -> tuple[PlannedMove, ...]:
    """The moves, proven one after the other, for a pod or its gang in a world's queue; empty if none help.

    `budgets` are those of the world's state unless they are given.
    """
    unit = next((each for each in waiting_units(world) if any(one.uid == pod.uid for one in each.pods)), None)
    if unit is None:
        return ()
    known = world.state.objects.get(BUDGET, {}).values() if budgets is None else budgets
    census = take_census(world.state, Budgets(known))
    making = RoomMaking(world, Proofs(world), census, now, most_moves=MOST_MOVES, most_steps=_STEPS)
    plan = making.plan(unit)
    return () if plan is None else plan.moves
