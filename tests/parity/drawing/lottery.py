"""Which kind of question a seed gives."""

from __future__ import annotations

from collections.abc import Callable

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
)


def draw(seed: int) -> Question:
    """The question of a seed: three of five are about placement."""
    return WHEEL[seed % len(WHEEL)](seed)
