"""A pod that a search places holds what it would hold in reality: it is assumed, and plugins reserve for it.

The searches below the engine use this, with what plugins hold in the state, where `let_go` gives it up. The engine asks
every plugin (`engine.trial`), and so has the last word.
"""

from __future__ import annotations

from moorage.core.disruption.away import give_up_reservations
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.framework.status import Code


def hold(runner: Runner, cycle: Cycle, row: int) -> bool:
    """Place a pod on a row that passed its filters, until the statement ends; whether plugins reserve it its place.

    If one refuses, the pod stands nowhere. What is reserved is given up with the statement.
    """
    state, uid = cycle.state, cycle.pod.uid
    plugins = [each for each in runner.late(cycle).reserve if each.name in runner.in_state]  # before it is assumed
    if not plugins:
        state.assume(cycle.pod, row)
        return True
    with state.statement() as what_if:
        state.assume(cycle.pod, row)
        state.undo.note(lambda: give_up_reservations(state, uid))
        for plugin in plugins:
            status = plugin.reserve(cycle, row)
            if status is not None and status.code is not Code.SUCCESS:
                return False
        what_if.commit()
    return True
