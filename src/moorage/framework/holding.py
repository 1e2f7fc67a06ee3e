"""A pod that a search places holds what it would hold in reality: it is assumed, and plugins reserve for it.

The searches below the engine use this; `engine.trial` does the same with binding cycles, and catches faults of plugins.
"""

from __future__ import annotations

from collections.abc import Sequence

from moorage.framework.contract import ReservePlugin, Unreserve
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.framework.status import Code


def hold(runner: Runner, cycle: Cycle, row: int) -> bool:
    """Place a pod on a row that passed its filters, until the statement ends; whether plugins reserve it its place.

    If one refuses, the pod stands nowhere. What is reserved is released with the statement.
    """
    state, plugins = cycle.state, runner.late(cycle).reserve  # asks plugins, so nothing may be assumed yet
    if not plugins:
        state.assume(cycle.pod, row)
        return True
    with state.statement() as what_if:
        state.assume(cycle.pod, row)
        state.undo.note(lambda: _unreserve(plugins, cycle, row))
        for plugin in plugins:
            status = plugin.reserve(cycle, row)
            if status is not None and status.code is not Code.SUCCESS:
                return False
        what_if.commit()
    return True


def _unreserve(plugins: Sequence[ReservePlugin], cycle: Cycle, row: int) -> None:
    for plugin in reversed(plugins):
        if isinstance(plugin, Unreserve):
            plugin.unreserve(cycle, row)
