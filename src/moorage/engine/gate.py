"""Whether a pod may be tried at all; used by the queue, by gangs and by all what-ifs."""

from __future__ import annotations

from moorage.core import limits
from moorage.core.pods import Pod
from moorage.engine.faults import Faults
from moorage.framework.runner import Runner
from moorage.framework.status import Code, Status


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
        if answer is not None:
            answer = faults.check(plugin, "pre_enqueue", answer, Status)
        if answer is not None and answer.code is not Code.SUCCESS:
            return Status(answer.code, answer.reasons, plugin.name)
    return None
