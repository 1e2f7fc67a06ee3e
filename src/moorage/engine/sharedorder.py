"""What the queue of units asks of the order of those that belong to queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from moorage.core.pods import Pod
from moorage.engine.units import Unit


class SharedOrder(Protocol):
    """Active units that belong to queues (`engine.sharing`)."""

    def takes(self, unit: Unit) -> bool:
        """Add a unit; False if it belongs to no queue, or the queue of units orders it."""

    def governs(self, pod: Pod) -> bool:
        """Whether a pod belongs to a queue."""

    def peek(self) -> tuple[Any, ...] | None:
        """The key of the unit that comes next among them."""

    def pop(self) -> tuple[Any, ...] | None:
        """Take that out: its key, its ticket, the unit, and what is of no concern here."""

    def unit_key(self, unit: Unit) -> tuple[Any, ...]:
        """The place of a unit among those of its queue."""

    def renew(self, pods: Iterable[Pod]) -> None:
        """Sort active units again; these are all pods that wait."""

    def waits(self, pod: Pod) -> None:
        """A pod without gates waits, or was changed while it does."""

    def leaves(self, uid: str) -> None:
        """A pod waits no more."""
