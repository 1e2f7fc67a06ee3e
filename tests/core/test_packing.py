"""The placement of gangs in a tree of domains is the best one there is, compared with trying everything."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from moorage.core.packalike import pack_alike, suits
from moorage.core.packbalanced import pack_balanced
from moorage.core.packing import Layer, Offers, Question, Role, RoleScope, value_of
from moorage.core.packmerge import merged
from moorage.core.packsearch import pack
from moorage.core.packtables import pack_by_tables
from tests.core.small_worlds import best_of_all, small_world

WORLDS = int(os.environ.get("MOORAGE_WORLDS", "300"))
"""2,000 take about 20 s."""


def test_the_value_is_the_best_in_every_small_world() -> None:
    """Tables, the way for equal pods, and the choice between them agree with trying everything."""
    possible = alike = 0
    for seed in range(WORLDS):
        question = small_world(Random(seed))
        want = best_of_all(question)
        ways = [pack_by_tables, pack, *([pack_alike] if suits(question) else [])]
        for way in ways:
            found = way(question)
            assert (None if found is None else found.value) == want, (seed, way)
            assert found is None or found.optimal
        possible += want is not None
        alike += suits(question)
    assert possible > WORLDS // 5
    assert alike > WORLDS // 5


@pytest.mark.parametrize("halves", [51, 0], ids=["two halves of a complex number", "Python's integers"])
def test_costs_with_many_digits_decide_alike(monkeypatch: pytest.MonkeyPatch, halves: int) -> None:
    """Costs that do not fit 64 bits, as of memory in bytes at several levels, are kept in other types."""
    from moorage.core import packtables  # noqa: PLC0415 - the limits are no promise

    worlds = [small_world(Random(seed)) for seed in range(WORLDS // 4)]

    def values() -> list[object]:
        found = [way(world) for world in worlds for way in (pack_by_tables, pack)]
        return [None if each is None else each.value for each in found]

    want = values()
    monkeypatch.setattr(packtables, "_DIGITS", 0)
    monkeypatch.setattr(packtables, "_HALF_DIGITS", halves)
    assert values() == want


def test_the_bound_of_the_search_is_never_above_the_best_value() -> None:
    """Where tables would be too large, a search answers; it never claims too much, and leaves no room too narrow."""
    from moorage.core import packsearch  # noqa: PLC0415 - what it does alone is no promise

    for seed in range(WORLDS):
        question = small_world(Random(seed))
        best = pack_by_tables(question)
        narrowed = packsearch._narrowed(question)
        found = None if narrowed is None else packsearch._Search(narrowed).run()
        simpler = merged(question)
        if simpler is not None:
            together = pack_by_tables(simpler.question)
            assert (together is None) == (best is None)
            if together is not None and best is not None:
                assert value_of(question, simpler.dealt(together.counts), best.fits) == best.value
        if found is not None:
            assert best is not None
            assert found.bound <= best.value <= found.value[: len(best.value)] or found.value >= best.value


def flat(caps: list[int], racks: list[int], *roles: Role, required: int | None = None) -> Question:
    """Nodes in racks, each a domain of its own."""
    n = len(caps)
    each = np.array([caps], dtype=np.int64)
    offers = Offers(
        np.array([racks, range(n)]), np.repeat(each, len(roles), axis=0), each[0], np.ones((len(roles), n), bool),
        np.zeros((len(roles), n), dtype=np.int64), np.zeros((len(roles), n), dtype=np.int64),
        np.ones((len(roles), 1), dtype=np.int64), each,
    )  # fmt: skip
    return Question(offers, roles, (RoleScope(tuple(range(len(roles))), required),))


@pytest.mark.parametrize(
    ("caps", "racks", "role", "required", "want"),
    [
        pytest.param([1, 1, 1, 1, 2, 2], [0, 0, 0, 0, 1, 2], Role(4, 4), None, [1, 1, 1, 1, 0, 0], id="racks first"),
        pytest.param([4, 3, 2, 2], [0, 0, 1, 1], Role(4, 4), 0, [4, 0, 0, 0], id="one node before the tighter rack"),
        pytest.param([3, 3], [0, 1], Role(4, 4), 0, None, id="no rack holds all"),
        pytest.param([3, 3], [0, 1], Role(4, 2), 0, [3, 0], id="as many as fit the rack"),
        pytest.param([3, 3, 2], [0, 0, 1], Role(6, 6, (Layer(1, 2),)), None, [2, 2, 2], id="whole slices per node"),
        pytest.param([8, 8], [0, 1], Role(6, 6, (Layer(0, 4),)), None, None, id="no whole number of slices"),
        pytest.param([8, 8], [0, 1], Role(6, 4, (Layer(0, 4),)), None, [4, 0], id="as many whole slices as fit"),
    ],
)  # fmt: skip
def test_where_equal_pods_go(
    caps: list[int], racks: list[int], role: Role, required: int | None, want: list[int] | None
) -> None:
    """Cases that greedy ways get wrong."""
    found = pack(flat(caps, racks, role, required=required))
    assert (None if found is None else found.counts[0].tolist()) == want


def test_a_leader_goes_where_it_costs_the_workers_least() -> None:
    """The workers fill one node, the leader takes the one that is left in their rack."""
    question = flat([4, 1, 4], [0, 0, 1], Role(1, 1), Role(4, 4), required=0)
    found = pack(question)
    assert found is not None
    assert found.counts.tolist() == [[0, 1, 0], [4, 0, 0]]


def test_large_gangs_of_several_roles_get_an_answer_with_a_bound() -> None:
    """Tables would have 10^8 states; the search finds a placement, and says how far it may be from the best."""
    roles = tuple(Role(100, 100, amount=1) for _ in range(4))
    question = flat([50] * 40, [rack // 10 for rack in range(40)], *roles)
    found = pack(question)
    assert found is not None
    assert found.counts.sum() == 400
    assert found.bound <= found.value


def test_domains_that_hold_each_role_but_not_all_are_no_obstacle() -> None:
    """Forty racks hold each of the roles, none holds all of them; the wider domain, which does, is still looked at."""
    roles = tuple(Role(40, 40, amount=1 + number) for number in range(4))
    offers = flat([100] * 80, [rack // 2 for rack in range(80)], *roles).offers
    needs = np.array([[1], [2], [3], [4]])
    caps = np.stack([offers.free[0] // need for need in needs[:, 0]])
    domains = np.stack([np.zeros(80, dtype=np.intp), *offers.domains])
    question = Question(replace(offers, needs=needs, caps=caps, domains=domains), roles, (RoleScope((0, 1, 2, 3), 0),))
    found = pack(question)
    assert found is not None
    assert found.counts.sum() == 160
    assert found.bound <= found.value


def test_roles_that_are_alike_are_placed_as_one_and_keep_their_slices() -> None:
    """Two hundred pods of two roles in slices of four: in the order of paths, no slice is cut, and the best value."""
    roles = tuple(Role(100, 100, (Layer(0, 4),), amount=1) for _ in range(2))
    found = pack(flat([6] * 40, [rack // 4 for rack in range(40)], *roles))
    assert found is not None
    assert found.optimal
    for counts in found.counts:
        assert counts.sum() == 100
        assert not (counts.reshape(10, 4).sum(axis=1) % 4).any()


def test_room_in_units_too_large_for_64_bits_still_decides() -> None:
    """Memory in bytes at several levels: costs are then Python's integers."""
    question = flat([2, 2, 2, 2], [0, 0, 1, 1], Role(3, 3, amount=1 << 40), required=0)
    spare = np.array([1 << 45, 1 << 44, 1 << 43, (1 << 44) + 1], dtype=np.int64)
    found = pack(replace(question, offers=replace(question.offers, spare=spare)))
    assert found is not None
    assert found.counts[0].tolist() == [0, 0, 2, 1] or found.counts[0].tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(
    ("caps", "racks", "want"),
    [
        pytest.param([15, 9, 8], [0, 1, 2], [0, 8, 8], id="the two that are tightest"),
        pytest.param([15, 9, 7], [0, 1, 2], [8, 8, 0], id="one would get less"),
        pytest.param([16, 9, 9], [0, 1, 2], [16, 0, 0], id="one rack holds all"),
        pytest.param([5, 5, 5, 3], [0, 1, 2, 3], None, id="all of them, as even as it goes"),
    ],
)
def test_an_even_split(caps: list[int], racks: list[int], want: list[int] | None) -> None:
    """16 members over racks below one root."""
    question = flat(caps, racks, Role(16, 16))
    found = pack_balanced(question, 0)
    assert found is not None
    counts = found.counts[0].tolist()
    assert sum(counts) == 16
    assert counts == want or (want is None and sorted(counts) == [3, 4, 4, 5])
