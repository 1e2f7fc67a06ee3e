"""What the engine and a plugin that plans gangs tell each other: where members go, and where fewer fit than thought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from moorage.core.packing import Value, is_optimal
from moorage.core.phrases import counted
from moorage.core.values import dataclass

TOPOLOGY_PLACEMENT = "TopologyPlacement"


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The nodes of the members of a gang."""

    rows: Mapping[str, int]
    """Uid of a member -> its row; members without one are left out."""
    levels: tuple[str, ...] = ()
    """The levels that the value is about, the widest first."""
    value: Value = ()
    """Members left out, domains used at each level, and what decides between equals (see `core.packing`)."""
    bound: Value = ()
    """No plan has a smaller value, as far as it goes."""

    @property
    def optimal(self) -> bool:
        """Whether it is known that there is no better plan."""
        return is_optimal(self.value, self.bound)

    @property
    def told(self) -> str:
        """The domains used, in words."""
        used = ", ".join(f"{count} of {level}" for level, count in zip(self.levels, self.value[1:], strict=False))
        if used and self.value[0]:
            used = f"{used}, without {counted(self.value[0], 'member')}"
        if self.optimal:
            return f"{used} (optimal)" if used else ""
        over = sum(self.value[1 : len(self.bound)]) - sum(self.bound[1:])
        return f"{used} (within {counted(over, 'domain')} of the bound)"


@dataclass(slots=True)
class RoomLimits:
    """What was found out about room while a plan was carried out."""

    on_row: dict[tuple[int, int], int] = field(default_factory=dict)
    """Class of pods, row -> how many fit at most."""
    on_any: dict[int, int] = field(default_factory=dict)
    """Class of pods -> how many fit on any one row."""

    prices: Mapping[int, int] = field(default_factory=dict)
    """Row -> points for a member there, below 0 where pods would have to be evicted; between plans that use as many
    domains, the one with most points is better."""

    def note(self, pods: int, row: int, fitted: int) -> None:
        """After so many pods of a class no further one fit on a row, though there was room."""
        if fitted:
            self.on_any[pods] = fitted
        self.on_row[pods, row] = fitted
