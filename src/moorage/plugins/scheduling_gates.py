"""SchedulingGates: a pod with scheduling gates does not enter the queue."""

from __future__ import annotations

from typing import ClassVar

from moorage.core.pods import Pod, PodTemplate
from moorage.framework.changes import What
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import Status, unresolvable


class SchedulingGates(Plugin):
    """Holds gated pods until their last gate is removed."""

    name: ClassVar[str] = "SchedulingGates"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What.SELF

    def sign(self, template: PodTemplate) -> None:
        """Reads nothing for placing a pod."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod while it has gates."""
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.gates)}]") if pod.gates else None
