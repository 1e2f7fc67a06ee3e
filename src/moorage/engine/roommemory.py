"""What rounds of making room have found out about a state: while that is the same, the next one need not do it again.

A turn that is told to end leaves a round unfinished. The next turn starts it once more, and would come no further than
the last one if it had to look at everything again that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moorage.core.pods import Pod
from moorage.engine.refusals import Kind
from moorage.engine.roomefforts import RoomEfforts
from moorage.engine.units import QueuedPod, Unit
from moorage.framework.gang_capacity import kind_of


class RoomMemory:
    """What is known about one state; whoever keeps it clears it once there is another one."""

    def __init__(self, efforts: RoomEfforts) -> None:
        self.efforts = efforts
        """How much may be searched in vain; unlike the rest it outlasts the state."""
        self.hopeless: set[tuple[str, Kind]] = set()
        """What has been tried in vain, and for whom."""
        self.worth = False
        """Whether a search may help any of the units."""
        self._suits: dict[object, bool] = {}
        """Kind of pod -> whether some node could hold it."""

    def clear(self) -> None:
        """The state is another one."""
        self.hopeless.clear()
        self.worth = False
        self._suits.clear()

    def suited(
        self,
        units: Iterable[Unit],
        next_pods: Callable[[Unit], list[QueuedPod]],
        could_fit: Callable[[Unit, Pod], bool],
    ) -> list[Unit]:
        """Units whose next pods some node could hold. The others take no part, and do not stand for their queues: these
        would be compared with pods that never start, and others wait for it.
        """
        suits, found = self._suits, []
        for unit in units:
            pods = {kind_of(entry.pod): entry.pod for entry in next_pods(unit)}
            for kind, pod in pods.items():
                if kind not in suits:  # no difference of keys: that looks at all kinds for every unit
                    suits[kind] = could_fit(unit, pod)
            if pods and all(suits[kind] for kind in pods):
                found.append(unit)
        return found
