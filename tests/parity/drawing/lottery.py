"""Which kind of question a seed gives."""

from __future__ import annotations

from collections.abc import Callable

from tests.parity.drawing.devices import draw_devices
from tests.parity.drawing.placement import draw_placement
from tests.parity.drawing.preemption import draw_preemption
from tests.parity.drawing.volumes import draw_volumes
from tests.parity.questions import Question

WHEEL: tuple[Callable[[int], Question], ...] = (
    draw_placement,
    draw_preemption,
    draw_placement,
    draw_volumes,
    draw_placement,
    draw_devices,
)
KINDS: dict[str, Callable[[int], Question]] = {
    "placement": draw_placement,
    "preemption": draw_preemption,
    "volumes": draw_volumes,
    "devices": draw_devices,
}


def draw(seed: int, kind: str | None = None) -> Question:
    """The question of a seed: half of them are about placement, unless only one kind is wanted."""
    return KINDS[kind](seed) if kind is not None else WHEEL[seed % len(WHEEL)](seed)
