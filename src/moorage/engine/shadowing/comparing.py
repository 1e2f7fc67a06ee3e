"""One decision of another scheduler, compared with that of a profile on the same state.

The profile's own choice is made as the engine makes it: the node that the pod is nominated to if it fits there, else
the best of all. Where it is another node, all nodes are judged and scored again, without kept answers, and totals
decide whether the two are a tie. Members of gangs are compared one by one, as the other scheduler placed them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from moorage.core.arrays import Ints
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.core.state import NOWHERE
from moorage.engine.diagnosis import rejections_by_row, unschedulable_message
from moorage.engine.engine import Engine
from moorage.engine.faults import describe
from moorage.engine.placing import choose
from moorage.engine.shadowing.verdicts import Finding, ShadowVerdict
from moorage.engine.units import WORK
from moorage.framework.cycle import Cycle, UnfinishedError
from moorage.framework.runner import Judgement, Runner

_TOO_LONG = "the search for devices takes too long to be compared"


def cycle_of(engine: Engine, pod: Pod, now: float) -> Cycle:
    """A scheduling cycle in which no plugin works longer than in a first attempt of the scheduler."""
    cycle = Cycle(pod, engine.state, now)
    cycle.work = WORK
    return cycle


def compared(engine: Engine, pod: Pod, there: str, now: float, here: str | None = None) -> Finding:
    """Compare the choice of node `there` with the profile's, for a pod that does not stand in the state.

    With `here`, that node is what the profile has chosen already.
    """
    runner, other = engine.runner_of(pod), engine.state.row_of(there)
    if runner is None:
        return Finding(
            ShadowVerdict.UNDECIDED, message=f"no profile for the scheduler name {pod.template.scheduler_name}"
        )
    if other is None:
        return Finding(ShadowVerdict.UNDECIDED, message="the node is not known")
    try:
        cycle = cycle_of(engine, pod, now)
        row = choose(engine.state, runner, cycle) if here is None else engine.state.row_of(here)
        if row is None:
            return Finding(ShadowVerdict.UNDECIDED, message="the node is not known")
        if row == other:
            return Finding(ShadowVerdict.SAME, there, cycle.feasible)
        return _compared(engine, runner, cycle_of(engine, pod, now), row, other)
    except UnfinishedError:
        return Finding(ShadowVerdict.UNDECIDED, message=_TOO_LONG)
    except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the comparison of other pods
        return Finding(ShadowVerdict.UNDECIDED, message=f"a plugin failed: {describe(error)}")


def placed(engine: Engine, pod: Pod, now: float) -> Finding:
    """What the profile would do with a pod that the other scheduler finds no node for."""
    runner = engine.runner_of(pod)
    if runner is None:
        return Finding(
            ShadowVerdict.UNDECIDED, message=f"no profile for the scheduler name {pod.template.scheduler_name}"
        )
    try:
        cycle = cycle_of(engine, pod, now)
        row = choose(engine.state, runner, cycle)
        if row != NOWHERE:
            return Finding(ShadowVerdict.PENDING_THERE, engine.state.node(row).name, cycle.feasible)
        judgement = runner.judge(cycle_of(engine, pod, now), engine.state.rows())
    except UnfinishedError:
        return Finding(ShadowVerdict.UNDECIDED, message=_TOO_LONG)
    except Exception as error:  # noqa: BLE001 - as above
        return Finding(ShadowVerdict.UNDECIDED, message=f"a plugin failed: {describe(error)}")
    return Finding(ShadowVerdict.BOTH_PENDING, message=unschedulable_message(judgement, engine.state.node_count))


def _compared(engine: Engine, runner: Runner, cycle: Cycle, row: int, other: int) -> Finding:
    state = engine.state
    judgement = runner.judge(cycle, state.rows())
    if judgement.failure:
        return Finding(ShadowVerdict.UNDECIDED, message=judgement.failure)
    judgement = judgement.preferring(runner.prefer(cycle, judgement.passed))
    here = None if row == NOWHERE else state.node(row).name
    verdict = ShadowVerdict.PENDING_HERE if here is None else ShadowVerdict.DIFFERENT
    rows, feasible = judgement.passed, len(judgement.passed)
    if here is None or not len(np.flatnonzero(rows == other)):
        message = unschedulable_message(judgement, state.node_count) if here is None else ""
        return Finding(verdict, here, feasible, rejected=_rejection(judgement, other), message=message)
    found = np.flatnonzero(rows == row)
    if not len(found):
        return Finding(
            ShadowVerdict.UNDECIDED, message="a plugin's answers do not agree: asked again, it rejects its choice"
        )
    mine, yours = int(found[0]), int(np.flatnonzero(rows == other)[0])
    table = runner.score_table(cycle, rows)
    totals = _sum(table.values(), len(rows))
    if totals[yours] >= totals[mine]:
        return Finding(ShadowVerdict.TIE, here, feasible)
    return Finding(
        verdict,
        here,
        feasible,
        FrozenDict({name: int(scores[yours]) for name, scores in table.items()}),
        FrozenDict({name: int(scores[mine]) for name, scores in table.items()}),
        without=tuple(name for name, scores in table.items() if _is_best(totals - scores, yours)),
        reversed=tuple(name for name, scores in table.items() if _is_best(totals - 2 * scores, yours)),
    )


def _sum(columns: Iterable[Ints], size: int) -> Ints:
    total: Ints = np.zeros(size, dtype=np.int64)
    for column in columns:
        total = total + column
    return total


def _is_best(totals: Ints, index: int) -> bool:
    return bool(totals[index] == totals.max())


def _rejection(judgement: Judgement, row: int) -> FrozenDict[str, tuple[str, ...]]:
    if judgement.refusal is not None:
        return FrozenDict({judgement.refusal.plugin: tuple(judgement.refusal.reasons)})
    found = rejections_by_row(judgement).get(row)
    return FrozenDict() if found is None else FrozenDict({found[0]: tuple(found[1])})
