"""The rules of a PlacementPolicy: the same strategies as in annotations, and every mistake with its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.limits import STRATEGY_RULES
from moorage.core.policy_rules import parse_rules
from moorage.core.strategies import read_rules
from moorage.core.strategy import Strategy, StrategyError, parse_strategy
from moorage.core.strategy_syntax import MAX_WEIGHT

SPOT = {"weight": 1, "nodeSelector": {"node-type": "spot"}}


def written(*rules: Any) -> list[str]:
    return [json.dumps(rule) for rule in rules]


def test_rules_mean_what_an_annotation_means() -> None:
    """Fields and text are two ways to write one strategy."""
    rules = written({"base": 2, "weight": 1, "nodeSelector": {"node-type": "ondemand"}}, SPOT | {"weight": 3})
    text = "base=2,weight=1,nodeSelector=node-type:ondemand;weight=3,nodeSelector=node-type:spot"
    assert parse_rules(rules) == parse_strategy(text)


MISTAKES: dict[str, tuple[list[str], list[str]]] = {
    "no rule": ([], ["spec.rules: there is no rule"]),
    "a text": (["weight=1"], ['spec.rules[0]: "weight=1" is no rule']),
    "a number": (["1"], ['spec.rules[0]: "1" is no rule']),
    "null": (["null"], ['spec.rules[0]: "null" is no rule']),
    "no fields": (written({}), ["spec.rules[0]: has no weight", "spec.rules[0].nodeSelector: is missing"]),
    "a misspelt field": (written(SPOT | {"wieght": 1}), ["spec.rules[0].wieght: is no field of a rule; write weight"]),
    "a strange field": (written(SPOT | {"max": 1}), ["spec.rules[0].max: is no field of a rule; write base,"]),
    "a negative base": (written(SPOT | {"base": -1}), ['spec.rules[0].base: is "-1"']),
    "a truth": (written(SPOT | {"base": True}), ['spec.rules[0].base: is "true"']),
    "a text as number": (written(SPOT | {"weight": "1"}), ['spec.rules[0].weight: is "1"']),
    "a weight that is too large": (written(SPOT | {"weight": MAX_WEIGHT + 1}), ["spec.rules[0].weight: is"]),
    "a number of thousands of digits": (
        [f'{{"weight": {"9" * 9999}, "nodeSelector": {{"a": "b"}}}}'],
        ["spec.rules[0]: "],
    ),
    "an empty nodeSelector": (written({"weight": 1, "nodeSelector": {}}), ['spec.rules[0].nodeSelector: is "{}"']),
    "a list of labels": (written({"weight": 1, "nodeSelector": ["a"]}), ["spec.rules[0].nodeSelector: is"]),
    "a bad key": (
        written({"weight": 1, "nodeSelector": {"a b": "c"}}),
        ['spec.rules[0].nodeSelector: "a b" is no label key'],
    ),
    "a bad value": (
        written({"weight": 1, "nodeSelector": {"a": "b c"}}),
        ['spec.rules[0].nodeSelector[a]: "b c" is no label value'],
    ),
    "a number as value": (
        written({"weight": 1, "nodeSelector": {"a": 1}}),
        ['spec.rules[0].nodeSelector[a]: "1" is no text; put the value in quotes'],
    ),
    "all weights 0": (written(SPOT | {"weight": 0}), ["spec.rules: all weights are 0"]),
    "the same nodes": (written(SPOT, SPOT), ["spec.rules[1].nodeSelector: is the nodeSelector of rule 1 too"]),
    "too many rules": (
        written(*(SPOT | {"nodeSelector": {"a": str(number)}} for number in range(STRATEGY_RULES + 1))),
        [f"spec.rules: there are {STRATEGY_RULES + 1} rules"],
    ),
    "several at once": (
        written(SPOT | {"base": "x"}, {"weight": 1}),
        ['spec.rules[0].base: is "x"', "spec.rules[1].nodeSelector: is missing"],
    ),
}


@pytest.mark.parametrize(("rules", "want"), MISTAKES.values(), ids=MISTAKES.keys())
def test_every_mistake_is_named_with_its_field_and_a_remedy(rules: list[str], want: list[str]) -> None:
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


@given(st.lists(JSON.map(json.dumps) | st.text(), max_size=3))
def test_any_rules_are_a_strategy_or_a_strategy_error(rules: list[str]) -> None:
    """Nothing else is ever raised."""
    assert isinstance(read_rules(tuple(rules)), Strategy | StrategyError)
