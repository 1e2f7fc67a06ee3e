"""What one tenant writes neither reaches nor slows another: more than forty attempts on the engine, none succeeds.

Each attempt puts its objects first, so that everything after it has to live with them. Attempts on servers are in the
tests of those servers.
"""

from __future__ import annotations

import pytest

from tests.attacks.arena import EVIL, Arena, broken_promises, victims
from tests.attacks.hostile import ATTEMPTS, Attempt

MOST_CALLS = 100_000
"""Calls inside the engine that one object may cost: some 25 ms of an ordinary core."""
MOST_CALLS_EACH = 2_000
"""The same for each object of a flood."""
SLOWER = 1.1
"""How much more work a decision for others may be."""


@pytest.fixture(scope="module")
def usual_calls() -> int:
    """What the second batch of victims costs where nobody is hostile."""
    arena = Arena()
    arena.load(victims("a"))
    before = arena.calls
    arena.load(victims("b"))
    return arena.calls - before


@pytest.mark.parametrize("attempt", [pytest.param(each, id=each.__name__) for each in ATTEMPTS])
def test_a_tenant_neither_reaches_nor_slows_another(attempt: Attempt, usual_calls: int) -> None:
    """The others' rules hold, their pods cost no more, and nothing is left when the objects are gone."""
    arena, objects = Arena(), attempt()
    before = arena.calls
    arena.load(objects)
    assert arena.calls - before <= max(MOST_CALLS, MOST_CALLS_EACH * len(objects))
    arena.load(victims("a"))
    before = arena.calls
    arena.load(victims("b"))
    assert broken_promises(arena, "a") + broken_promises(arena, "b") == []
    assert arena.calls - before <= SLOWER * usual_calls
    arena.clear(EVIL)
    before = arena.calls
    arena.load(victims("c"))
    assert broken_promises(arena, "c") == []
    assert arena.calls - before <= SLOWER * usual_calls
