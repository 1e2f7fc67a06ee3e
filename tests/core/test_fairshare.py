"""Divisions of one resource among sibling queues: the rules, KAI's results, and what holds for any claims."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.fairshare import PARTS, UNLIMITED, Claim, divide

TABLES = Path(__file__).resolve().parents[3] / "shared" / "queues" / "fairshare.json"
UNIT = 10**14
"""Some amounts of the tables are fractions of a device."""


def amount(value: float | None) -> int:
    return UNLIMITED if value is None else int(Fraction(str(value)) * UNIT)


@pytest.mark.skipif(not TABLES.exists(), reason=f"no {TABLES}")
def test_divisions_are_those_of_the_tables() -> None:
    """Every table of ../shared/queues/fairshare.json, time-based shares included."""
    tables: list[dict[str, Any]] = json.loads(TABLES.read_text())["tables"]
    assert tables
    wrong = []
    for table in tables:
        claims = [
            Claim(
                each["name"],
                min(amount(each["limit"]), amount(each["request"])),
                amount(each["quota"]),
                each["weight"],
                each["priority"],
                each["created"],
                round(each["usage"] * PARTS),
            )
            for each in table["queues"]
        ]
        shares = divide(amount(table["total"]), claims, round(table["k"] * 1000), UNIT)
        if shares != {name: amount(share) for name, share in table["share"].items()}:
            wrong.append(table["id"])
    assert not wrong


@pytest.mark.parametrize(
    ("total", "claims", "want_shares"),
    [
        pytest.param(4, [Claim("a", 2, 1, 3), Claim("b", 3, 2)], {"a": 2, "b": 2}, id="the rest by fraction"),
        pytest.param(
            10,
            [Claim("a", 10, 2), Claim("b", 3, 2), Claim("c", 10, 0, 2)],
            {"a": 3, "b": 3, "c": 4},
            id="a second round once a queue has enough",
        ),
        pytest.param(
            8,
            [Claim("high", 5, 0, 1, 200), Claim("low", 8, 2, 10)],
            {"high": 5, "low": 3},
            id="weight does not cross priorities",
        ),
        pytest.param(4, [Claim("a", 4, 3), Claim("b", 4, 3)], {"a": 3, "b": 3}, id="quotas are never scaled down"),
        pytest.param(4, [Claim("a", 4, 0, 0), Claim("b", 1)], {"a": 0, "b": 1}, id="nothing by right with weight 0"),
        pytest.param(3, [Claim("b", 2), Claim("a", 2)], {"a": 2, "b": 1}, id="the name breaks ties"),
        pytest.param(3, [Claim("a", 2, created_s=2), Claim("b", 2, created_s=1)], {"a": 1, "b": 2}, id="after the age"),
    ],
)
def test_rules(total: int, claims: list[Claim], want_shares: dict[str, int]) -> None:
    """One rule each."""
    assert divide(total, claims) == want_shares


_CLAIMS = st.lists(
    st.builds(
        Claim,
        st.uuids().map(str),
        st.integers(0, 40),
        st.one_of(st.integers(0, 20), st.just(UNLIMITED)),
        st.integers(0, 5),
        st.integers(99, 101),
        st.integers(0, 3).map(float),
        st.integers(0, PARTS),
    ),
    max_size=6,
    unique_by=lambda claim: claim.name,
)


@given(st.integers(0, 60), _CLAIMS, st.sampled_from([0, 500, 2000]), st.randoms(use_true_random=False))
def test_what_holds_for_any_claims(total: int, claims: list[Claim], factor: int, order: random.Random) -> None:
    """Each share is between what is guaranteed and what is asked for; the sum is within the amount unless guarantees
    alone exceed it; the order of the claims does not matter; more to divide is never less for all together.
    """
    shares = divide(total, claims, factor)
    sure = {each.name: min(total if each.quota == UNLIMITED else each.quota, each.requestable) for each in claims}
    assert all(sure[each.name] <= shares[each.name] <= each.requestable for each in claims)
    assert sum(shares.values()) <= max(total, sum(sure.values()))
    shuffled = order.sample(claims, len(claims))
    assert divide(total, shuffled, factor) == shares
    assert sum(divide(total + 1, claims, factor).values()) >= sum(shares.values()) or any(
        each.quota == UNLIMITED for each in claims
    )


@given(st.integers(0, 60), _CLAIMS)
def test_nothing_is_left_while_a_queue_wants_more(total: int, claims: list[Claim]) -> None:
    """Pareto efficiency: what is not given away is wanted by no queue that has a weight."""
    shares = divide(total, claims)
    wanting = any(each.weight and shares[each.name] < each.requestable for each in claims)
    assert sum(shares.values()) >= total or not wanting


# --- the properties of fair division ---

_WHOLE = st.lists(
    st.builds(
        Claim,
        st.uuids().map(str),
        st.integers(0, 40),
        st.just(0),
        st.integers(1, 5),
        st.just(100),
        st.just(0.0),
        st.just(0),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda claim: claim.name,
)
"""Claims without quotas, all of one priority."""


@given(st.integers(0, 60), _WHOLE)
def test_nobody_gets_less_than_his_part(total: int, claims: list[Claim]) -> None:
    """Sharing incentive: a queue gets at least what its weight would give it alone, in whole units, if it asks."""
    shares = divide(total, claims)
    weights = sum(each.weight for each in claims)
    assert all(shares[each.name] >= min(each.requestable, total * each.weight // weights) for each in claims)


@given(st.integers(0, 60), _CLAIMS)
def test_nobody_envies_another(total: int, claims: list[Claim]) -> None:
    """Envy-freeness: of what goes by weight, no queue of the same priority has more for its weight than one that wants
    more; but for a unit that was left over, and less than one that each round of the division rounds off.
    """
    shares = divide(total, claims)
    sure = {each.name: min(total if each.quota == UNLIMITED else each.quota, each.requestable) for each in claims}
    beyond = {name: share - sure[name] for name, share in shares.items()}
    for one in claims:
        for other in claims:
            if one.priority == other.priority and one.weight and shares[one.name] < one.requestable:
                has = max(0, beyond[other.name] - 1) * one.weight
                assert has <= (beyond[one.name] + len(claims)) * other.weight


@given(st.integers(0, 60), _CLAIMS, st.integers(0, 60))
def test_asking_for_more_or_less_than_needed_gains_nothing(total: int, claims: list[Claim], said: int) -> None:
    """Strategy-proofness: of what a queue needs it never gets more by saying that it needs something else."""
    if claims:
        true, *others = claims
        lie = divide(total, [true._replace(requestable=said), *others])[true.name]
        assert min(lie, true.requestable) <= divide(total, claims)[true.name]
