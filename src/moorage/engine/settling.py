"""Rounds of making room whose result lasts: nobody is evicted for what the next round would take back."""

from __future__ import annotations

from collections.abc import Sequence

from moorage.engine.context import EngineContext
from moorage.engine.refusals import Refusals
from moorage.engine.roommemory import RoomMemory
from moorage.engine.roomparts import Order
from moorage.engine.sharedroom import RoomRound
from moorage.engine.sharing import Sharing
from moorage.engine.units import Unit

_MOST_LOOKS = 8
"""How often a round looks at what the next one would do, and how often it is made again for that."""


def make_room(
    context: EngineContext, sharing: Sharing, now: float, memory: RoomMemory, units: Sequence[Unit]
) -> tuple[RoomRound, list[Order]]:
    """A round, and what it does for these units; the state is as before. `memory` is what is known about it."""
    refusals, tried = Refusals(), set(memory.hopeless)
    for looks in (*[_MOST_LOOKS] * _MOST_LOOKS, 0):
        memory.hopeless.clear()
        memory.hopeless |= tried
        room = RoomRound(context, sharing, now, memory, refusals)
        orders = room.make(units, looks)
        if not room.undone:
            break
    return room, orders
