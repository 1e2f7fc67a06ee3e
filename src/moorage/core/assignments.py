"""Which devices a pod was given: what the scheduler knows because it decided so; how it is written is in
`wire.assignments`.
"""

from __future__ import annotations

from moorage.core.shareasks import ShareAsk
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Assignment:
    """The devices of a node that pods share, and how much of each a pod was given."""

    node: str
    devices: tuple[int, ...]
    """Their indices, ascending."""
    ask: ShareAsk
    """How much of each; what the pod's annotations ask for may have been edited since."""

    def confirms(self, ask: ShareAsk | None, devices: tuple[int, ...]) -> bool:
        """Whether a pod that is thought to have so much of these devices has just that."""
        mine = self.ask
        return (
            ask is not None
            and self.devices == devices
            and (mine.milli, mine.memory_milli, mine.memory_mib) == (ask.milli, ask.memory_milli, ask.memory_mib)
        )
