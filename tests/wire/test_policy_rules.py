"""The rules of a PlacementPolicy: the same strategies as in annotations, and every mistake with its field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.limits import STRATEGY_RULES
from moorage.core.strategy import Strategy, StrategyError, parse_strategy
from moorage.core.strategy_syntax import MAX_WEIGHT, SyntaxRefusal
from moorage.wire.policy_rules import parse_rules, read_rules

SPOT = {"weight": 1, "nodeSelector": {"node-type": "spot"}}


def test_rules_mean_what_an_annotation_means() -> None:
    """Fields and text are two ways to write one strategy."""
    rules = [{"base": 2, "weight": 1, "nodeSelector": {"node-type": "ondemand"}}, SPOT | {"weight": 3}]
    text = "base=2,weight=1,nodeSelector=node-type:ondemand;weight=3,nodeSelector=node-type:spot"
    assert parse_rules(rules) == parse_strategy(text)


MISTAKES: dict[str, tuple[list[Any], list[str]]] = {
    "no rule": ([], ["spec.rules: there is no rule"]),
    "a text": (["weight=1"], ['spec.rules[0]: "weight=1" is no rule']),
    "a number": ([1], ['spec.rules[0]: "1" is no rule']),
    "null": ([None], ['spec.rules[0]: "null" is no rule']),
    "no fields": ([{}], ["spec.rules[0]: has no weight", "spec.rules[0].nodeSelector: is missing"]),
    "a misspelt field": ([SPOT | {"wieght": 1}], ["spec.rules[0].wieght: is no field of a rule; write weight"]),
    "a strange field": ([SPOT | {"max": 1}], ["spec.rules[0].max: is no field of a rule; write base,"]),
    "a negative base": ([SPOT | {"base": -1}], ['spec.rules[0].base: is "-1"']),
    "a truth": ([SPOT | {"base": True}], ['spec.rules[0].base: is "true"']),
    "a text as number": ([SPOT | {"weight": "1"}], ['spec.rules[0].weight: is "1"']),
    "a weight that is too large": ([SPOT | {"weight": MAX_WEIGHT + 1}], ["spec.rules[0].weight: is"]),
    "a number of thousands of digits": (
        [SPOT | {"weight": 10**9999}],
        ["spec.rules[0].weight: is"],
    ),
    "an empty nodeSelector": ([{"weight": 1, "nodeSelector": {}}], ['spec.rules[0].nodeSelector: is "{}"']),
    "a list of labels": ([{"weight": 1, "nodeSelector": ["a"]}], ["spec.rules[0].nodeSelector: is"]),
    "a bad key": (
        [{"weight": 1, "nodeSelector": {"a b": "c"}}],
        ['spec.rules[0].nodeSelector: "a b" is no label key'],
    ),
    "a bad value": (
        [{"weight": 1, "nodeSelector": {"a": "b c"}}],
        ['spec.rules[0].nodeSelector[a]: "b c" is no label value'],
    ),
    "a number as value": (
        [{"weight": 1, "nodeSelector": {"a": 1}}],
        ['spec.rules[0].nodeSelector[a]: "1" is no text; put the value in quotes'],
    ),
    "all weights 0": ([SPOT | {"weight": 0}], ["spec.rules: all weights are 0"]),
    "the same nodes": ([SPOT, SPOT], ["spec.rules[1].nodeSelector: is the nodeSelector of rule 1 too"]),
    "too many rules": (
        [*(SPOT | {"nodeSelector": {"a": str(number)}} for number in range(STRATEGY_RULES + 1))],
        [f"spec.rules: there are {STRATEGY_RULES + 1} rules"],
    ),
    "several at once": (
        [SPOT | {"base": "x"}, {"weight": 1}],
        ['spec.rules[0].base: is "x"', "spec.rules[1].nodeSelector: is missing"],
    ),
}


@pytest.mark.parametrize(("rules", "want"), MISTAKES.values(), ids=MISTAKES.keys())
def test_every_mistake_is_named_with_its_field_and_a_remedy(rules: list[Any], want: list[str]) -> None:
    """All of them at once, each in one line."""
    with pytest.raises(StrategyError) as caught:
        parse_rules(rules)
    mistakes = [str(mistake) for mistake in caught.value.mistakes]
    assert len(mistakes) == len(want), mistakes
    assert all(text.startswith(start) and text.isprintable() for text, start in zip(mistakes, want, strict=True))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["base", "weight", "nodeSelector", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=3))
def test_any_rules_are_a_strategy_or_refused(rules: list[Any]) -> None:
    """Nothing is ever raised."""
    assert isinstance(read_rules(rules), Strategy | SyntaxRefusal)
