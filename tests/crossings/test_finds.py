"""What random worlds have found, shrunk: no rule is breached any more.

Those that are not mended yet are marked with the item of the table that they belong to; whoever mends one removes the
mark.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crossings.run import judged
from tests.crossings.world import read_world

FOLDER = Path(__file__).parent / "finds"
OPEN: dict[str, str] = {
    "queue-of-a-pod-with-an-idle-claim": "item 13: queues do not give up a claim that nobody uses",
}
"""File -> why it still fails."""


def _cases() -> list[object]:
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    return [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=OPEN[name])) if name in OPEN else name
        for name in names
    ]


@pytest.mark.parametrize("name", _cases())
def test_a_find_stays_mended(name: str) -> None:
    """The file says what it is about."""
    world = read_world(FOLDER / f"{name}.json")
    assert judged(world)["breaches"] == [], world.about


def test_what_is_open_is_there() -> None:
    assert all((FOLDER / f"{name}.json").exists() for name in OPEN)
