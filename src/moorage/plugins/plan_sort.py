"""PlanSort: the order of a plan, in which units (single pods and whole gangs) are allotted nodes.

More important units come first; among equally important ones running before pending ones, then smaller before larger
ones, then older ones. The name decides the rest, so that the order of the same units is always the same.
"""

from __future__ import annotations

from typing import ClassVar

from moorage.core.pods import Pod, PodTemplate
from moorage.framework.changes import What
from moorage.framework.plugin import Plugin, Reads

Key = tuple[int, bool, int, float, str]


class PlanSort(Plugin):
    """Orders the queue and the plan alike."""

    name: ClassVar[str] = "PlanSort"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What(0)

    def sign(self, template: PodTemplate) -> None:
        """Reads nothing for placing a pod."""

    def queue_key(self, pod: Pod, since_s: float) -> Key:  # noqa: ARG002 - age counts from the creation
        """Smallest first: the place of a waiting unit of one pod."""
        return self.unit_key(pod.template.priority, 1, False, pod.created_s, pod.key)

    def unit_key(self, priority: int, size: int, running: bool, created_s: float, name: str) -> Key:
        """Smallest first: the place of a unit of `size` pods in the plan."""
        return (-priority, not running, size, created_s, name)
