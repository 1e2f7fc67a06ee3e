"""Whether a pod, or a unit of the queue, may be tried at all; used by the queue, by gangs and by all what-ifs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.core import limits
from moorage.core.pods import Pod
from moorage.engine.faults import Faults
from moorage.framework.runner import Runner
from moorage.framework.status import Code, Status

if TYPE_CHECKING:
    from moorage.engine.context import EngineContext
    from moorage.engine.gangs import Gangs
    from moorage.engine.notices import Notices
    from moorage.engine.units import Unit


def may_enter(runner: Runner | None, pod: Pod, faults: Faults) -> bool:
    """Whether a profile decides on the pod and nothing keeps it from being tried."""
    return runner is not None and refused(runner, pod, faults) is None


def refused(runner: Runner, pod: Pod, faults: Faults) -> Status | None:
    """What keeps a pod from being tried: a limit that it exceeds, else the first PreEnqueue plugin that refuses."""
    if pod.template.excess:
        message = f"the pod is beyond what is scheduled: {limits.describe(pod.template.excess)}"
        return Status(Code.UNRESOLVABLE, (message,), limits.REASON)
    for plugin in runner.plugins.pre_enqueue:
        try:
            answer = plugin.pre_enqueue(pod)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            answer = faults.note(plugin, "pre_enqueue", error)
        if answer is None:
            continue
        answer = faults.check(plugin, "pre_enqueue", answer, Status)
        if answer is not None and answer.code is not Code.SUCCESS:
            return Status(answer.code, answer.reasons, plugin.name)
    return None


class UnitGates:
    """PreEnqueue for units: the name of the plugin that keeps one from being tried, None if it may be."""

    def __init__(self, context: EngineContext, gangs: Gangs, notices: Notices) -> None:
        self._context = context
        self._gangs = gangs
        self._notices = notices

    def of(self, unit: Unit, now: float) -> str | None:
        """Everything that may keep it from being tried."""
        sharing = self._context.sharing if self._context.queue.shared is not None else None
        if sharing is not None and (held := sharing.gate(unit)) is not None:
            self._notices.later(unit, held[1], now)
            return held[0]
        if unit.gang is not None:
            return self._gangs.gate(unit, now) or self.plan(unit, now)
        pod = unit.pod
        runner = self._context.runner_of(pod)
        if runner is None:
            return ""
        refusal = refused(runner, pod, self._context.faults)
        if refusal is not None:
            if refusal.plugin == limits.REASON:
                self._notices.later(unit, refusal.message, now)
            return refusal.plugin
        return None if self._context.planning is None else self.plan(unit, now)

    def plan(self, unit: Unit, now: float) -> str | None:
        """The plan of who gets the nodes."""
        planning = self._context.planning
        if planning is None:
            return None
        planning.try_again(unit, now)
        if planning.admits(unit):
            return None
        self._notices.later(unit, planning.refusal(unit), now)
        return planning.name
