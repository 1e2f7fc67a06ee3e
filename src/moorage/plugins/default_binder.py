"""DefaultBinder: binds the pod through the API server."""

from __future__ import annotations

from typing import ClassVar

from moorage.core.commands import Bind, PodRef
from moorage.core.pods import PodTemplate
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads


class DefaultBinder(Plugin):
    """Creates the command that binds the pod; an adapter posts it."""

    name: ClassVar[str] = "DefaultBinder"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What(0)

    def sign(self, template: PodTemplate) -> None:
        """Reads nothing for placing a pod."""

    def bind(self, cycle: Cycle, row: int) -> Bind:
        """The command that binds the pod to the row's node."""
        pod = cycle.pod
        state = cycle.state
        return Bind(
            PodRef(pod.template.namespace, pod.name, pod.uid), state.node(row).name, state.node_count, cycle.feasible
        )
