"""What the status of a PlacementPolicy says about money."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moorage.core.events import ObjectSeen
from moorage.core.frozen import FrozenDict
from moorage.core.prices import PRICE_LIST, PriceList, PriceRule
from tests.engine.harbour import Harbour, fleet, nodes, owner, policy, statuses

SPOT = PriceRule(100_000, FrozenDict({"kind": "spot"}))
OD = PriceRule(400_000, FrozenDict({"kind": "od"}))
CLOUD = PriceList("cloud", "USD", (SPOT, OD))


def rules_of(shore: Harbour) -> list[dict[str, Any]]:
    """The rules of the status that was written since the last question."""
    shore.wait(5)
    (status,) = statuses(shore.ordered)
    shore.ordered.clear()
    return [dict(rule) for rule in status["rules"]]


def told(shore: Harbour, prices: PriceList) -> list[dict[str, Any]]:
    shore.tell(ObjectSeen(PRICE_LIST, prices.key, prices))
    return rules_of(shore)


def test_the_status_follows_the_prices() -> None:
    """A pod costs its share of its node, an eighth here; unknown prices count apart, stale ones give no figures."""
    shore = Harbour()
    shore.see(*nodes(), *fleet(3, 2))
    shore.tell(policy(), owner(6, text=None))
    assert [set(rule) for rule in rules_of(shore)] == [{"nodeSelector", "target", "actual"}] * 2
    first, second = told(shore, CLOUD)
    assert (first["costPerHour"], second["costPerHour"]) == ("0.1500 USD", "0.0250 USD")
    first, second = told(shore, replace(CLOUD, rules=(SPOT,)))
    assert (first["costPerHour"], first["withoutPrice"]) == ("0.0000 USD", 3)
    assert "withoutPrice" not in second
    first, second = told(shore, replace(CLOUD, stale=True))
    assert "costPerHour" not in {*first, *second}
