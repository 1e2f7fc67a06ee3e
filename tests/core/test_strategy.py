"""Placement strategies: what counts as one, what is said about the others, and how pods are split."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.limits import STRATEGY_RULES
from moorage.core.strategies import read_strategy
from moorage.core.strategy import (
    RULE_STAMP,
    Rule,
    Strategy,
    StrategyError,
    matching_rule,
    next_rule,
    parse_stamp,
    parse_strategy,
    ranking,
    rule_of,
    stamp,
    stamp_of,
    stamped_rule,
    targets,
)
from moorage.core.strategy_syntax import MAX_BASE, MAX_WEIGHT, excess_of
from moorage.testing.builders import make_pod

WEB = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"
ON_DEMAND, SPOT = (("node-type", "ondemand"),), (("node-type", "spot"),)


def weighted(*rules: tuple[int, int]) -> Strategy:
    """A strategy from bases and weights."""
    return Strategy(tuple(Rule(base, weight, (("pool", f"p{i}"),)) for i, (base, weight) in enumerate(rules)))


# --- the language ---

READABLE: dict[str, tuple[str, tuple[Rule, ...]]] = {
    "base and weights": (WEB, (Rule(1, 1, ON_DEMAND), Rule(0, 2, SPOT))),
    "one rule": ("weight=1,nodeSelector=a:b", (Rule(0, 1, (("a", "b"),)),)),
    "a base on the second rule": (
        "weight=1,nodeSelector=node-type:ondemand;base=3,weight=2,nodeSelector=node-type:spot",
        (Rule(0, 1, ON_DEMAND), Rule(3, 2, SPOT)),
    ),
    "several labels": (
        "base=1,weight=2,nodeSelector=zone:us-west-1a,node-type:ondemand",
        (Rule(1, 2, (("zone", "us-west-1a"), ("node-type", "ondemand"))),),
    ),
    "keys with a prefix": (
        "weight=1,nodeSelector=topology.kubernetes.io/zone:us-west-1a,topology.kubernetes.io/region:us-west-1",
        (Rule(0, 1, (("topology.kubernetes.io/zone", "us-west-1a"), ("topology.kubernetes.io/region", "us-west-1"))),),
    ),
    "an empty value": (
        "weight=1,nodeSelector=node-role.kubernetes.io/worker:",
        (Rule(0, 1, (("node-role.kubernetes.io/worker", ""),)),),
    ),
    "fields in another order": (
        "nodeSelector=a:b,c:d,weight=2,base=1",
        (Rule(1, 2, (("a", "b"), ("c", "d"))),),
    ),
    "spaces and lines": (
        " base = 1 , weight = 1 , nodeSelector = node-type : ondemand ;\n\tweight=2, nodeSelector=node-type:spot\n",
        (Rule(1, 1, ON_DEMAND), Rule(0, 2, SPOT)),
    ),
    "a rule for its base only": (
        "base=2,weight=0,nodeSelector=node-type:ondemand;weight=1,nodeSelector=node-type:spot",
        (Rule(2, 0, ON_DEMAND), Rule(0, 1, SPOT)),
    ),
    "a semicolon at the end": ("weight=1,nodeSelector=a:b ;\n", (Rule(0, 1, (("a", "b"),)),)),
    "leading zeros": ("weight=0007,nodeSelector=a:b", (Rule(0, 7, (("a", "b"),)),)),
    "the largest numbers": (
        f"base={MAX_BASE},weight={MAX_WEIGHT},nodeSelector=a:b",
        (Rule(MAX_BASE, MAX_WEIGHT, (("a", "b"),)),),
    ),
}


@pytest.mark.parametrize(("text", "rules"), READABLE.values(), ids=READABLE.keys())
def test_strategies_are_read(text: str, rules: tuple[Rule, ...]) -> None:
    """What the grammar allows means these rules, and writing them down gives a text that means the same."""
    strategy = parse_strategy(text)
    assert strategy.rules == rules
    assert parse_strategy(str(strategy)) == strategy


MISTAKES: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "nothing": ("", [(1, "the strategy is empty")]),
    "only spaces": (" \n ", [(1, "the strategy is empty")]),
    "only a semicolon": (";", [(1, "rule 1 is empty")]),
    "two semicolons at the end": ("weight=1,nodeSelector=a:b;;", [(27, "rule 2 is empty")]),
    "an empty rule in between": ("weight=1,nodeSelector=a:b;;weight=1,nodeSelector=a:c", [(27, "rule 2 is empty")]),
    "words": ("put half on spot", [(1, "is no field"), (1, "has no weight"), (1, "has no nodeSelector")]),
    "no nodeSelector": ("base=1,weight=1", [(1, "rule 1 has no nodeSelector")]),
    "no weight": ("base=1,nodeSelector=a:b", [(1, "rule 1 has no weight")]),
    "an empty nodeSelector": ("weight=1,nodeSelector=", [(23, "a label is missing")]),
    "a label without a colon": ("weight=1,nodeSelector=spot", [(23, '"spot" is no label')]),
    "an equals sign in a label": ("weight=1,nodeSelector=node-type=spot", [(23, '"node-type=spot" is no label')]),
    "an equals sign in the second label": ("weight=1,nodeSelector=a:b,c=d", [(27, '"c" is no field of a rule')]),
    "a second colon": ("weight=1,nodeSelector=a:b:c", [(26, 'label "a:b:c" has a second colon')]),
    "no key": ("weight=1,nodeSelector=:b", [(23, '"" is no label key')]),
    "a bad key": ("weight=1,nodeSelector=-a:b", [(23, '"-a" is no label key')]),
    "a bad prefix": ("weight=1,nodeSelector=Example.COM/a:b", [(23, '"Example.COM/a" is no label key')]),
    "two slashes": ("weight=1,nodeSelector=a/b/c:d", [(23, '"a/b/c" is no label key')]),
    "a bad value": ("weight=1,nodeSelector=a:b b", [(25, '"b b" is no label value')]),
    "a value with a slash": ("weight=1,nodeSelector=a:b/c", [(25, '"b/c" is no label value')]),
    "a value that is too long": (f"weight=1,nodeSelector=a:{'b' * 64}", [(25, "is no label value")]),
    "a key twice": ("weight=1,nodeSelector=a:b,a:c", [(27, 'the label key "a" twice')]),
    "a field twice": ("weight=1,weight=2,nodeSelector=a:b", [(10, "rule 1 has weight twice")]),
    "a comma between rules": (
        "base=1,weight=1,nodeSelector=a:b,weight=2,nodeSelector=a:c",
        [(34, "rule 1 has weight twice, behind a ,; write ; before weight if the next rule begins there")],
    ),
    "a mistake behind a comma between rules": (
        "weight=1,nodeSelector=a:b,weight=x,nodeSelector=a:c",
        [(27, "write ; before weight"), (34, 'weight is "x"')],
    ),
    "a selector twice": ("nodeSelector=a:b,nodeSelector=c:d,weight=1", [(18, "has nodeSelector twice")]),
    "a misspelt field": ("wieght=1,nodeSelector=a:b", [(1, '"wieght" is no field of a rule; write weight=')]),
    "another case": ("Weight=1,nodeselector=a:b", [(1, "write weight="), (10, "write nodeSelector=")]),
    "an unknown field": ("weight=1,max=3,nodeSelector=a:b", [(10, '"max" is no field of a rule')]),
    "a negative number": ("weight=-1,nodeSelector=a:b", [(8, 'weight is "-1"')]),
    "a fraction": ("weight=0.5,nodeSelector=a:b", [(8, 'weight is "0.5"')]),
    "a percentage": ("weight=50%,nodeSelector=a:b", [(8, 'weight is "50%"')]),
    "other digits": ("weight=１２,nodeSelector=a:b", [(8, 'weight is "１２"')]),
    "an underscore": ("weight=1_0,nodeSelector=a:b", [(8, 'weight is "1_0"')]),
    "no number": ("base=,weight=1,nodeSelector=a:b", [(6, "base has no value")]),
    "a weight that is too large": (f"weight={MAX_WEIGHT + 1},nodeSelector=a:b", [(8, "which is too large")]),
    "a base that is too large": (f"base={MAX_BASE + 1},weight=1,nodeSelector=a:b", [(6, "which is too large")]),
    "a number of thousands of digits": (f"weight={'9' * 9999},nodeSelector=a:b", [(8, "which is too large")]),
    "all weights zero": (
        "base=1,weight=0,nodeSelector=a:b;weight=0,nodeSelector=a:c",
        [(1, "all weights are 0")],
    ),
    "rules with the same nodes": (
        "weight=1,nodeSelector=a:b,c:d;weight=2,nodeSelector=c:d,a:b",
        [(31, "rule 2 has the nodeSelector of rule 1")],
    ),
    "too many rules": (
        ";".join(f"weight=1,nodeSelector=a:{number:02}" for number in range(STRATEGY_RULES + 1)),
        [(1 + 27 * STRATEGY_RULES, f"there are {STRATEGY_RULES + 1} rules")],
    ),
    "a label before nodeSelector": ("weight=1,a:b,nodeSelector=c:d", [(10, "does not follow nodeSelector")]),
    "a comma at the end": ("weight=1,nodeSelector=a:b,", [(27, "a label is missing")]),
    "a comma at the start": (",weight=1,nodeSelector=a:b", [(1, "rule 1 has an empty field")]),
    "JSON": ('[{"weight": 1}]', [(1, "does not follow nodeSelector"), (1, "has no weight"), (1, "no nodeSelector")]),
    "a mistake in every rule": (
        "base=x,weight=1,nodeSelector=a:b;weight=y,nodeSelector=a:c;weight=1",
        [(6, 'base is "x"'), (41, 'weight is "y"'), (60, "rule 3 has no nodeSelector")],
    ),
}


@pytest.mark.parametrize(("text", "want"), MISTAKES.values(), ids=MISTAKES.keys())
def test_every_mistake_is_named_with_its_column_and_a_remedy(text: str, want: list[tuple[int, str]]) -> None:
    """All mistakes of a text come at once, in the order of their columns, each in one line."""
    with pytest.raises(StrategyError) as caught:
        parse_strategy(text)
    mistakes = caught.value.mistakes
    assert [mistake.column for mistake in mistakes] == [column for column, _ in want]
    for mistake, (column, words) in zip(mistakes, want, strict=True):
        assert words in str(mistake)
        assert str(mistake).startswith(f"column {column}: ")
        assert mistake.remedy
        assert str(mistake).isprintable()
        assert len(str(mistake)) < 300
    assert str(caught.value).isprintable()


def test_an_event_names_a_few_mistakes_and_counts_the_rest() -> None:
    """Messages of Kubernetes events hold 1024 bytes; a strategy can be wrong in more places."""
    with pytest.raises(StrategyError) as caught:
        parse_strategy(";".join(["weight=x,nodeSelector=a:b"] * 9))
    assert len(caught.value.mistakes) == 9 + 8
    assert "And 14 more" in str(caught.value)
    assert len(str(caught.value)) < 1000


FRAGMENTS = ["base=", "weight=", "nodeSelector=", "a:b", "c.d/e:f", "node-type:spot", "1", "0", "x", *";,:=- \n\t/.é１"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)))
def test_any_text_is_a_strategy_or_a_strategy_error(text: str) -> None:
    """Nothing else is ever raised, columns lie in the text, and what was read can be written and split."""
    said = read_strategy(text)
    if isinstance(said, StrategyError):
        assert said.mistakes
        assert all(1 <= mistake.column <= len(text) + 1 for mistake in said.mistakes)
        assert str(said).isprintable()
    else:
        assert parse_strategy(str(said)) == said
        assert sum(targets(said, 5)) == 5


KEYS = st.from_regex(r"\A([a-z]{1,5}\.io/)?[a-zA-Z0-9]([a-z._-]{0,3}[a-z])?\Z")
VALUES = st.from_regex(r"\A([a-zA-Z0-9]([a-z._-]{0,3}[a-z0-9])?)?\Z")
SELECTORS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=3).map(lambda labels: tuple(labels.items()))
RULES = st.builds(Rule, st.integers(0, MAX_BASE), st.integers(0, MAX_WEIGHT), SELECTORS)


@given(st.lists(RULES, min_size=1, max_size=5, unique_by=lambda rule: frozenset(rule.selector)))
def test_what_is_written_down_reads_the_same(rules: list[Rule]) -> None:
    """Text round trip, for every strategy that can be kept."""
    strategy = Strategy(tuple(rules))
    if any(rule.weight for rule in rules) and excess_of([(rule.weight, 1) for rule in rules]) is None:
        assert parse_strategy(str(strategy)) == strategy


# --- the split ---

SPLITS: dict[str, tuple[Strategy, list[tuple[int, ...]]]] = {
    "base 1, weights 1 to 2": (
        parse_strategy(WEB),
        [(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (2, 3), (3, 3), (3, 4), (3, 5), (4, 5)],
    ),
    "base 2, weights 1 to 3": (
        weighted((2, 1), (0, 3)),
        [(0, 0), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (3, 3), (3, 4), (4, 4)],
    ),
    "3 to 3 to 1, where largest remainder would move a pod": (
        weighted((0, 3), (0, 3), (0, 1)),
        [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1), (2, 1, 1), (2, 2, 1), (3, 2, 1), (3, 3, 1), (4, 3, 1)],
    ),
    "bases on two rules, the earlier first": (
        weighted((2, 1), (2, 1)),
        [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (3, 2), (3, 3)],
    ),
    "a weight of 0": (weighted((1, 0), (0, 5)), [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)]),
    "a weight of 0 that comes later": (weighted((0, 5), (1, 0)), [(0, 0), (0, 1), (1, 1), (2, 1)]),
    "one rule": (weighted((0, 7)), [(0,), (1,), (2,)]),
}


@pytest.mark.parametrize(("strategy", "want"), SPLITS.values(), ids=SPLITS.keys())
def test_pods_are_split_base_first_then_by_weight(strategy: Strategy, want: list[tuple[int, ...]]) -> None:
    """The targets for 0, 1, 2 ... pods."""
    assert [targets(strategy, number) for number in range(len(want))] == want


def test_six_replicas_of_the_sample() -> None:
    """1 base and 2 on the first rule, 3 on the second."""
    assert targets(parse_strategy(WEB), 6) == (1 + 2, 3)


def test_fewer_than_no_pods_are_none() -> None:
    """A number below 0 counts as 0."""
    assert targets(parse_strategy(WEB), -3) == (0, 0)


def test_large_numbers_are_split_by_rounds() -> None:
    """Two billion replicas, by a slip of the finger, cost no more than one round."""
    strategy = weighted((0, MAX_WEIGHT), (0, MAX_WEIGHT - 1))
    number = 2**31 - 1
    share = Fraction(MAX_WEIGHT, 2 * MAX_WEIGHT - 1)
    assert abs(targets(strategy, number)[0] - share * number) < 1


PAIRS = st.tuples(st.integers(0, 6), st.integers(0, 12))
STRATEGIES = st.lists(PAIRS, min_size=1, max_size=5).filter(lambda rules: any(weight for _, weight in rules))


def greedy(strategy: Strategy, number: int) -> tuple[int, ...]:
    """The definition, word by word, with exact fractions."""
    left = number
    base = []
    for rule in strategy.rules:
        base.append(min(rule.base, left))
        left -= base[-1]
    beyond = [0] * len(base)
    total = sum(rule.weight for rule in strategy.rules)
    for k in range(1, left + 1):
        lead = [Fraction(k * rule.weight, total) - has for rule, has in zip(strategy.rules, beyond, strict=True)]
        beyond[lead.index(max(lead))] += 1
    return tuple(has + more for has, more in zip(base, beyond, strict=True))


@given(STRATEGIES, st.integers(0, 80))
def test_the_split_is_the_definition(rules: list[tuple[int, int]], number: int) -> None:
    """Whole numbers and rounds give what the definition gives with fractions, one pod after the other."""
    strategy = weighted(*rules)
    assert targets(strategy, number) == greedy(strategy, number)


@given(STRATEGIES, st.integers(0, 200))
def test_the_split_is_whole_and_never_moves_a_pod(rules: list[tuple[int, int]], number: int) -> None:
    """Targets sum up to the number, and one pod more is one more in one rule: every prefix is a prefix."""
    strategy = weighted(*rules)
    before, after = targets(strategy, number), targets(strategy, number + 1)
    assert sum(before) == number
    assert sorted(b - a for a, b in zip(before, after, strict=True)) == [0] * (len(rules) - 1) + [1]


@given(STRATEGIES, st.integers(0, 300))
def test_the_split_is_close_to_the_ratio(rules: list[tuple[int, int]], number: int) -> None:
    """Beyond the bases no rule is a whole pod over its share; with two rules none is a whole pod below it either."""
    strategy = weighted(*rules)
    bases = sum(rule.base for rule in strategy.rules)
    beyond = [
        target - rule.base for target, rule in zip(targets(strategy, bases + number), strategy.rules, strict=True)
    ]
    total = sum(weight for _, weight in rules)
    off = [has - Fraction(number * weight, total) for has, (_, weight) in zip(beyond, rules, strict=True)]
    assert max(off) < 1
    assert min(off) > -max(len(rules) - 1, 1)


@given(STRATEGIES, st.integers(0, 60))
def test_pods_that_come_one_by_one_end_up_at_the_target(rules: list[tuple[int, int]], number: int) -> None:
    """`next_rule` from nothing on walks along the targets."""
    strategy = weighted(*rules)
    counts = [0] * len(rules)
    for _ in range(number):
        counts[next_rule(strategy, counts)] += 1
    assert tuple(counts) == targets(strategy, number)


@given(STRATEGIES, st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_debts_are_paid_back(rules: list[tuple[int, int]], start: list[int]) -> None:
    """Wherever pods stand, enough new ones bring the split to its target."""
    strategy = weighted(*rules)
    counts = [has if weight else 0 for has, (_, weight) in zip(start, rules, strict=False)]
    for _ in range(600):
        if tuple(counts) == targets(strategy, sum(counts)):
            return
        counts[next_rule(strategy, counts)] += 1
    raise AssertionError(f"{counts} instead of {targets(strategy, sum(counts))}")


def test_the_ranking_is_by_deficit_and_then_by_order() -> None:
    """(0, 3) of four wanted (2, 2): the first rule is two below, the second one above."""
    strategy = parse_strategy(WEB)
    assert ranking(strategy, (0, 3)) == (0, 1)
    assert ranking(strategy, (3, 0)) == (1, 0)
    assert ranking(weighted((0, 1), (0, 1), (0, 1)), (0, 0, 0)) == (0, 1, 2)


def test_rounds_repeat() -> None:
    """After each full round every rule has its share exactly."""
    strategy = weighted((1, 6), (0, 4), (0, 2))
    rounds = [targets(strategy, 1 + 6 * number) for number in range(5)]
    assert {tuple(b - a for a, b in zip(one, two, strict=True)) for one, two in pairwise(rounds)} == {(3, 2, 1)}


# --- nodes and stamps ---

ZONES = parse_strategy(
    "weight=1,nodeSelector=zone:a;weight=1,nodeSelector=zone:a,node-type:spot;weight=1,nodeSelector=node-type:spot"
)


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"zone": "a"}, 0, id="one match"),
        pytest.param({"zone": "a", "node-type": "spot"}, 1, id="most labels win"),
        pytest.param({"zone": "b", "node-type": "spot"}, 2, id="the last"),
        pytest.param({"zone": "b"}, None, id="none"),
        pytest.param({}, None, id="no labels"),
    ],
)
def test_a_node_belongs_to_one_rule(labels: dict[str, str], want: int | None) -> None:
    """Where several match, the one that asks for most labels has it."""
    assert matching_rule(ZONES, labels) == want


def test_of_equally_many_labels_the_earlier_rule_wins() -> None:
    """So that every node has one rule, and always the same one."""
    strategy = parse_strategy("weight=1,nodeSelector=zone:a;weight=1,nodeSelector=node-type:spot")
    assert matching_rule(strategy, {"zone": "a", "node-type": "spot"}) == 0


@pytest.mark.parametrize(
    ("text", "held", "want"),
    [
        pytest.param(stamp(1), {"node-type": "spot"}, 1, id="held to it"),
        pytest.param(stamp(1), {"node-type": "spot", "disk": "ssd"}, 1, id="held to more"),
        pytest.param(stamp(1), {}, None, id="held to nothing"),
        pytest.param(stamp(0), {"node-type": "spot"}, None, id="older than the strategy"),
        pytest.param(stamp(2), {"node-type": "spot"}, None, id="beyond the rules"),
        pytest.param("0", {"node-type": "spot"}, None, id="zero"),
        pytest.param("²", {"node-type": "spot"}, None, id="no number"),
        pytest.param("", {"node-type": "spot"}, None, id="empty"),
        pytest.param("9" * 5000, {"node-type": "spot"}, None, id="huge"),
    ],
)
def test_a_stamp_is_believed_if_the_pod_is_held_to_it(text: str, held: dict[str, str], want: int | None) -> None:
    """As annotation and as label alike."""
    strategy = parse_strategy(WEB)
    marks = {RULE_STAMP: text}
    for pod in (make_pod("a", labels=marks, node_selector=held), make_pod("a", annotations=marks, node_selector=held)):
        template = pod.template
        assert stamped_rule(strategy, stamp_of(template)) == want
        assert rule_of(strategy, stamp_of(template), {"node-type": "ondemand"}) == (0 if want is None else want)


@given(st.integers(0, STRATEGY_RULES - 1))
def test_stamps_are_read_as_written(rule: int) -> None:
    """Round trip for every rule that there can be."""
    assert parse_stamp(stamp(rule)) == rule
