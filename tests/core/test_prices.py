"""Prices: texts become whole millionths, the most specific rule counts, one node and the column agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.capacity import Capacity
from moorage.core.frozen import FrozenDict
from moorage.core.prices import (
    INSTANCE_TYPE,
    LARGEST,
    MICROS,
    NO_PRICE,
    PriceError,
    PriceRule,
    PriceTable,
    format_price,
    read_price,
    repeated,
)
from moorage.testing import make_node, make_state

CAPACITY = "node.kubernetes.io/capacity"
GOOD = {
    "0": 0,
    "0.096": 96_000,
    "1": MICROS,
    "12.345678": 12_345_678,
    "0.0960000000": 96_000,
    "007.5": 7_500_000,
    str(LARGEST): LARGEST * MICROS,
}
BAD = {
    "": "not a price",
    "-1": "not a price",
    "+1": "not a price",
    ".5": "not a price",
    "5.": "not a price",
    "1e3": "not a price",
    "1_000": "not a price",
    "1,5": "not a price",
    " 1": "not a price",
    "nan": "not a price",
    "\uff11": "not a price",
    "$1": "not a price",
    "0.0000001": "more than 6 digits",
    f"{LARGEST}.000001": "is more than",
}


@pytest.mark.parametrize(("text", "want"), GOOD.items())
def test_texts_become_millionths(text: str, want: int) -> None:
    """Exactly, without a float in between."""
    assert read_price(text) == want


@pytest.mark.parametrize(("text", "want"), BAD.items())
def test_what_is_no_price_says_what_to_write(text: str, want: str) -> None:
    """Neither signs nor exponents nor other digits, and nothing that would have to be rounded."""
    with pytest.raises(PriceError, match=want):
        read_price(text)


@pytest.mark.parametrize(
    ("micros", "want"), [(0, "0.0000"), (96_000, "0.0960"), (1_234_567, "1.234567"), (12_000_050, "12.00005")]
)
def test_prices_are_shown_exactly(micros: int, want: str) -> None:
    """Four digits after the point, more where they say something."""
    assert format_price(micros) == want


@given(st.integers(0, LARGEST * MICROS))
def test_what_is_shown_can_be_read(micros: int) -> None:
    """The two functions are each other's inverse."""
    assert read_price(format_price(micros)) == micros


def rule(micros: int, capacity: Capacity | None = None, **labels: str) -> PriceRule:
    named = {INSTANCE_TYPE if key == "type" else key: value for key, value in labels.items()}
    return PriceRule(micros, FrozenDict(named), capacity)


SPOT, ON_DEMAND = Capacity.SPOT, Capacity.ON_DEMAND
RULES = [
    rule(1),
    rule(2, type="m5"),
    rule(3, SPOT, type="m5"),
    rule(4, pool="web"),
    rule(5, SPOT),
    rule(6, pool="web", zone="a"),
]
PRICES = {
    "any node": ({}, 1),
    "instance type": ({INSTANCE_TYPE: "m5"}, 2),
    "instance type and capacity": ({INSTANCE_TYPE: "m5", CAPACITY: "spot"}, 3),
    "another capacity": ({INSTANCE_TYPE: "m5", CAPACITY: "on-demand"}, 2),
    "capacity alone": ({INSTANCE_TYPE: "c5", CAPACITY: "spot"}, 5),
    "the first of equals": ({INSTANCE_TYPE: "m5", "pool": "web"}, 2),
    "the first of equals, another pair": ({"pool": "web", CAPACITY: "spot"}, 4),
    "two labels": ({INSTANCE_TYPE: "m5", "pool": "web", "zone": "a"}, 6),
    "the first of equals with two": ({INSTANCE_TYPE: "m5", CAPACITY: "spot", "pool": "web", "zone": "a"}, 3),
}


@pytest.mark.parametrize(("labels", "want"), PRICES.values(), ids=PRICES.keys())
def test_the_most_specific_rule_counts(labels: dict[str, str], want: int) -> None:
    """The one with most conditions, then the first in the list; one node and the column agree."""
    table, state = PriceTable(RULES), make_state([make_node("n1", labels=labels)])
    assert table.of(labels) == want
    assert table.column(state)[state.row_of("n1")] == want


def test_a_node_without_a_rule_has_no_price() -> None:
    """Which is not the price 0."""
    table = PriceTable([rule(0, pool="free")])
    state = make_state([make_node("free", labels={"pool": "free"}), make_node("other")])
    column = table.column(state)
    assert (table.of({"pool": "free"}), table.of({})) == (0, None)
    assert [column[state.row_of(name)] for name in ("free", "other")] == [0, NO_PRICE]


def test_rules_for_the_same_nodes_are_found() -> None:
    """Only one of them could count."""
    assert repeated(RULES) is None
    assert repeated([*RULES, rule(9, SPOT, type="m5")]) == (2, 6)


TEXTS = st.sampled_from(["a", "b", "spot", "on-demand"])
KEYS = st.sampled_from([INSTANCE_TYPE, CAPACITY, "pool", "zone"])
LABELS = st.dictionaries(KEYS, TEXTS)
ANY_RULES = st.lists(
    st.builds(
        PriceRule,
        st.integers(0, 99),
        LABELS.map(FrozenDict),
        st.sampled_from([None, Capacity.SPOT, Capacity.ON_DEMAND]),
    ),
    max_size=8,
)
BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 40), st.none() | LABELS), max_size=50), max_size=5)


@given(rules=ANY_RULES, batches=BATCHES)
def test_the_column_equals_the_prices_node_by_node(
    rules: list[PriceRule], batches: list[list[tuple[int, dict[str, str] | None]]]
) -> None:
    """Nodes come, change and go, few or many at a time; rows of dead nodes have no price."""
    table, state = PriceTable(rules), make_state()
    for batch in batches:
        for number, labels in batch:
            if labels is None:
                state.remove_node(f"n{number}")
            else:
                state.upsert_node(make_node(f"n{number}", labels=labels))
        column = table.column(state)
        want = {int(row): table.of(state.node(int(row)).labels) for row in state.rows()}
        assert [*column] == [NO_PRICE if (price := want.get(row)) is None else price for row in range(state.capacity)]


@given(rules=ANY_RULES, labels=LABELS)
def test_the_price_is_that_of_the_rule_one_would_pick_by_hand(rules: list[PriceRule], labels: dict[str, str]) -> None:
    """The reference looks at every rule."""
    capacity = {"spot": Capacity.SPOT, "on-demand": Capacity.ON_DEMAND}.get(labels.get(CAPACITY, ""))
    fitting = [
        (-each.conditions, place, each.micros_per_hour)
        for place, each in enumerate(rules)
        if each.labels.items() <= labels.items() and each.capacity in (None, capacity)
    ]
    assert PriceTable(rules).of(labels) == (min(fitting)[2] if fitting else None)
