"""What the engine and a plugin that plans gangs tell each other: where members go, and where fewer fit than thought."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.packing import Value, is_optimal
from moorage.core.phrases import counted
from moorage.core.values import dataclass

TOPOLOGY_PLACEMENT = "TopologyPlacement"
_MANY = 1 << 40


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


Spot = tuple[Hashable, int]
"""A sort of members, and a row."""


@dataclass(slots=True)
class RoomLimits:
    """What was found out about room while a plan was carried out.

    What is known of a node limits plans. What was seen elsewhere, or while others of the members stood, only says what
    to try first, and is given up if there is no plan that keeps to it (`ease`).
    """

    prices: Mapping[int, int] = field(default_factory=dict)
    """Row -> points for a member there, below 0 where pods would have to be evicted; between plans that use as many
    domains, the one with most points is better."""
    on_row: dict[Spot, int] = field(default_factory=dict)
    """How many of them the node takes while no other member stands anywhere."""
    found: dict[Spot, int] = field(default_factory=dict)
    """How many of them stood there when another one found no place beside the other members."""
    exactly: Mapping[Spot, int] | None = None
    """How many of them may be there, and nowhere else; None: that is open."""
    eased: int = 0
    """Which guesses were given up: 1, that other nodes take no more than those that are known; 2, what was found."""

    @property
    def guesses(self) -> bool:
        """Whether plans rest on more than facts."""
        return self.exactly is not None or bool(self.on_row and self.eased < 1) or bool(self.found and self.eased < 2)

    def ease(self) -> bool:
        """Give up the boldest guess; whether there was one."""
        if not self.guesses:
            return False
        self.eased = 1 if self.on_row and not self.eased else 2
        return True

    def limited(self, sort: Hashable, rows: Rows, room: Ints) -> Ints:
        """How many members of a sort each of the rows can hold, of which amounts allow so many."""
        if self.exactly is not None:
            return np.array([self.exactly.get((sort, row), 0) for row in rows.tolist()], dtype=np.int64)
        known = {row: most for (each, row), most in self.on_row.items() if each == sort}
        usual = max(known.values(), default=0) if self.eased < 1 else 0
        found = {row: most for (each, row), most in self.found.items() if each == sort} if self.eased < 2 else {}
        if not known and not found:
            return room
        most = [min(known.get(row, usual or _MANY), found.get(row, _MANY)) for row in rows.tolist()]
        return np.minimum(room, np.array(most, dtype=np.int64))
