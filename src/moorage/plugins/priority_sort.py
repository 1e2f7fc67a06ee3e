"""PrioritySort: more important pods first, then those that have waited longer."""

from __future__ import annotations

from typing import ClassVar

from moorage.core.pods import Pod, PodTemplate
from moorage.framework.changes import What
from moorage.framework.plugin import Plugin, Reads


class PrioritySort(Plugin):
    """Orders the queue."""

    name: ClassVar[str] = "PrioritySort"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What(0)

    def sign(self, template: PodTemplate) -> None:
        """Reads nothing for placing a pod."""

    def queue_key(self, pod: Pod, since_s: float) -> tuple[int, float]:
        """Smallest first: the higher priority, then the earlier time of entering the queue."""
        return (-pod.template.priority, since_s)
