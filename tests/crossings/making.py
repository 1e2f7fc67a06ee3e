"""Worlds by seed and number; a capability draws for itself, so that leaving one out changes nothing of the others."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.crossings.capabilities import TABLE
from tests.crossings.covering import capabilities_of
from tests.crossings.sketch import Sketch
from tests.crossings.world import World

LONGEST = 120
"""Commands among which leaders die."""


def make_world(seed: int, number: int, names: Sequence[str] | None = None, *, crashes: bool = False) -> World:
    """A world, with the capabilities of its number or these."""
    chosen = capabilities_of(seed, number) if names is None else names
    stem = f"{seed}/{number}"
    sketch = Sketch(Random(stem))
    for name, add in TABLE.items():
        if name in chosen:
            add(sketch, Random(f"{stem}/{name}"))
    sketch.complete()
    draw = Random(f"{stem}/crashes")
    return World(
        name=f"{seed}-{number}{'-crashes' if crashes else ''}",
        capabilities=list(chosen),
        configuration=sketch.configuration(),
        objects=[*sketch.nodes, *sketch.objects],
        script=sketch.script,
        terms=sketch.terms,
        crashes=sorted({int(LONGEST ** draw.random()) for _ in range(draw.randint(1, 4))}) if crashes else [],
        met=[sorted({*each.marks}) for each in sketch.workloads],
    )
