"""What a strategy may cost: length, mistakes, weights, what is kept of it, and how many policies are looked at."""

from __future__ import annotations

import itertools
import sys

import pytest

from moorage.core import limits, strategy_syntax
from moorage.core.frozen import FrozenDict
from moorage.core.objects import PLACEMENT_POLICY, PlacementPolicy
from moorage.core.pods import PodTemplate
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.core.state import ClusterState
from moorage.core.strategies import policy_of, read_strategy, strategy_of
from moorage.core.strategy import (
    STRATEGY_ANNOTATIONS,
    Strategy,
    StrategyError,
    parse_strategy,
    sequence,
    targets,
)
from moorage.core.strategy_syntax import SyntaxRefusal
from moorage.core.texts import Readings
from moorage.wire.policy_rules import parse_rules, read_rules

KB_250 = 250 * 1024
HOSTILE = {
    "commas": "," * KB_250,
    "semicolons": ";" * KB_250,
    "unknown fields": "basee=1," * (KB_250 // 8),
    "labels": "weight=1,nodeSelector=" + ",".join(f"k{n}:v" for n in range(KB_250 // 9)),
    "rules": ";".join(f"weight=1,nodeSelector=a:{n}" for n in range(KB_250 // 28)),
    "one word": "x" * KB_250,
    "digits": "weight=" + "9" * KB_250,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_long_strategy_is_refused_by_its_length(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is read, and one short line names the length and the limit."""
    monkeypatch.setattr(strategy_syntax, "_split", lambda *_: pytest.fail("it was read"))
    said = read_strategy(text)
    assert isinstance(said, StrategyError)
    assert said.too_large
    assert str(said) == f"column 1: the strategy has {len(text)} characters; write at most 16384 characters"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_reading_ends_after_a_few_mistakes(text: str) -> None:
    """A text as long as it may be, wrong all through, has a list of mistakes that is as long as it may be."""
    with pytest.raises(StrategyError) as caught:
        parse_strategy(text[: limits.STRATEGY_TEXT])
    assert len(caught.value.mistakes) <= limits.STRATEGY_MISTAKES + 1
    assert len(str(caught.value)) < 1024


def test_the_end_of_the_list_says_that_there_may_be_more() -> None:
    """Nobody believes that the mistakes that are named are all."""
    with pytest.raises(StrategyError) as caught:
        parse_strategy("," * 100)
    assert "there may be more mistakes" in str(caught.value.mistakes[-1])


def test_a_long_policy_is_refused_by_its_length() -> None:
    """The same limit as for an annotation."""
    said = read_rules([{"weight": 1, "nodeSelector": {f"k{n}": "v" for n in range(20_000)}}])
    assert isinstance(said, SyntaxRefusal)
    assert said.too_large
    assert "spec.rules: the strategy has" in str(StrategyError(*said))


def test_a_policy_has_a_bounded_list_of_mistakes() -> None:
    """As an annotation."""
    with pytest.raises(StrategyError) as caught:
        parse_rules([{}] * 1000)
    assert len(caught.value.mistakes) <= limits.STRATEGY_MISTAKES + 1


TOO_LARGE = {
    "labels": (f"weight=1,nodeSelector={','.join(f'k{n}:v' for n in range(33))}", "rule 1 has 33 labels"),
    "rules": (";".join(f"weight=1,nodeSelector=a:{n}" for n in range(33)), "there are 33 rules"),
    "weights": (
        ";".join(f"weight={10_000 - n},nodeSelector=a:{n}" for n in range(32)),
        "the weights sum up to 319504; write at most 3125 in all",
    ),
}


@pytest.mark.parametrize(("text", "words"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_strategy_that_costs_too_much_says_what_is_too_much(text: str, words: str) -> None:
    """It is over a limit, not malformed."""
    said = read_strategy(text)
    assert isinstance(said, StrategyError)
    assert said.too_large
    assert words in str(said)


@pytest.mark.parametrize("rules", [1, 2, 3])
def test_any_weights_of_a_few_rules_are_fine(rules: int) -> None:
    """What people write has no limit but that of each weight."""
    text = ";".join(f"weight={10_000 - n},nodeSelector=a:{n}" for n in range(rules))
    assert isinstance(read_strategy(text), Strategy)


def test_the_sequence_gives_the_targets() -> None:
    """The first n of the sequence are the targets of n pods."""
    strategy = parse_strategy(
        "base=2,weight=3,nodeSelector=a:b;weight=5,nodeSelector=a:c;base=1,weight=0,nodeSelector=d:e"
    )
    for n in range(40):
        first = [*itertools.islice(sequence(strategy), n)]
        assert tuple(first.count(rule) for rule in range(3)) == targets(strategy, n)


def test_strategies_are_kept_by_bytes() -> None:
    """However many texts of whatever size are read, what is kept stays within its bytes."""
    readings: Readings[str, str] = Readings(lambda text: text * 2, lambda text, _: len(text), 1000)
    for n in range(500):
        readings(f"{n:03}" * 10)
        assert readings.kept_bytes <= 1000
    readings("x" * 5000)
    assert readings.kept_bytes <= 1000
    assert len(readings._known) == 1000 // 30


def test_the_largest_strategies_leave_little() -> None:
    """A strategy that may be read takes less than ten times its text."""
    label = ",".join(f"key-{n:05}:val{n:04}" for n in range(32))
    text = ";".join(f"weight=1,nodeSelector=r:{n},{label[:440]}".rpartition(",")[0] for n in range(32))
    said = read_strategy(text)
    assert isinstance(said, Strategy), said
    parts = [part for rule in said.rules for label in rule.selector for part in (label, *label)]
    assert sum(map(sys.getsizeof, parts)) < 10 * len(text)


# --- policies ---


def _policy(namespace: str, name: str, selector: Selector) -> PlacementPolicy:
    return PlacementPolicy(namespace, name, selector=selector, rules=parse_strategy("weight=1,nodeSelector=a:b"))


WEB = Selector((Requirement("app", Operator.IN, ("web",)),))


class _Untouched(Selector):
    """A selector that must not be asked."""

    def matches(self, labels: object) -> bool:  # noqa: ARG002 - as `Selector`
        raise AssertionError("a policy of another namespace was asked")


def _state(*policies: PlacementPolicy) -> ClusterState:
    state = ClusterState()
    for policy in policies:
        state.put_object(PLACEMENT_POLICY, policy.key, policy)
    return state


def test_policies_of_other_namespaces_are_not_even_looked_at() -> None:
    """A tenant with thousands of policies slows nobody else."""
    hostile = [_policy("hostile", f"p{n}", _Untouched(())) for n in range(1000)]
    state = _state(*hostile, _policy("default", "web", WEB))
    pod = PodTemplate(labels=FrozenDict({"app": "web"}))
    found = policy_of(state, pod)
    assert found is not None
    assert found.key == "default/web"


def test_of_too_many_policies_the_first_count_and_the_others_say_so() -> None:
    """The number that a pod is compared with is bounded."""
    policies = [_policy("default", f"p{n:03}", WEB) for n in range(limits.POLICIES + 1)]
    first, last = policies[0], policies[-1]
    state = _state(*reversed(policies))
    assert policy_of(state, PodTemplate(labels=FrozenDict({"app": "web"}))) is first
    assert state.policies.excess(first) == ""
    assert "101 policies" in state.policies.excess(last)
    state.remove_object(PLACEMENT_POLICY, first.key)
    assert state.policies.excess(last) == ""


def test_a_policy_with_a_huge_selector_holds_for_nobody() -> None:
    """And says so."""
    huge = Selector(tuple(Requirement(f"k{n}", Operator.DOES_NOT_EXIST) for n in range(65)))
    policy = _policy("default", "web", huge)
    state = _state(policy)
    assert strategy_of(state, PodTemplate()) is None
    assert "more than 64 requirements" in state.policies.excess(policy)


def test_an_event_about_a_strategy_that_is_too_large_has_a_reason_of_its_own() -> None:
    """`LimitExceeded`, where a mistake would be `MalformedStrategy`."""
    state = ClusterState()
    key = STRATEGY_ANNOTATIONS[0]
    reasons = []
    for text in ("x" * 20_000, "x"):
        holding = strategy_of(state, PodTemplate(annotations=FrozenDict({key: text})))
        assert holding is not None
        reasons.append(holding.reason)
    assert reasons == ["LimitExceeded", "MalformedStrategy"]
