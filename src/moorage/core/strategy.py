"""Placement strategies: "two replicas on on-demand, the rest one to three on spot", as one pure function.

`targets(strategy, n)` says how many of n pods each rule gets. Bases come first, in the order of the rules. The pods
beyond go one by one: pod k (from 1) to the rule with the largest

    k * weight / sum of weights - what the rule has beyond its base,

ties to the earlier rule. The target for n pods is what the first n give, so a scale-up never moves a pod. Everything is
computed in whole numbers.

Invariants: the targets sum up to n; no target shrinks when n grows; beyond its base no rule is ever a whole pod over
its exact share. So after each full round (sum of weights / their greatest common divisor) every rule has its share
exactly, and only the rest has to be counted out.

What a strategy looks like as text is in `strategy_syntax`; which one holds for a pod is in `strategies`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from math import gcd
from typing import NamedTuple

from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.pods import PodTemplate
from moorage.core.strategy_syntax import Mistake, Rule, Strategy, StrategyError, parse_strategy

__all__ = [
    "RULE_STAMP",
    "STRATEGY_ANNOTATIONS",
    "Mistake",
    "Rule",
    "Stamp",
    "Strategy",
    "StrategyError",
    "matching_rule",
    "next_rule",
    "parse_stamp",
    "parse_strategy",
    "ranking",
    "restamped",
    "rule_of",
    "rules_of_crowd",
    "sequence",
    "stamp",
    "stamp_of",
    "stamped_rule",
    "targets",
]

STRATEGY_ANNOTATIONS = ("moorage.dev/schedule-strategy", "smart-scheduler.io/schedule-strategy")
"""On a controller, or on a pod. The first key that is there counts."""
RULE_STAMP = "moorage.dev/strategy-rule"
"""On a pod, as annotation or label: the rule that it was given, see `stamp`."""


class Stamp(NamedTuple):
    """What is written on a pod about its rule: the one that it was given, if any, and what holds the pod to it."""

    text: str
    node_selector: FrozenDict[str, str] = EMPTY


def targets(strategy: Strategy, n: int) -> tuple[int, ...]:
    """How many of n pods each rule gets, in the order of the rules; n below 0 counts as 0."""
    left = max(n, 0)
    found: list[int] = []
    for rule in strategy.rules:
        found.append(min(rule.base, left))
        left -= found[-1]
    weights = [rule.weight for rule in strategy.rules]
    divisor = gcd(*weights) or 1
    weights = [weight // divisor for weight in weights]
    total = sum(weights)
    if not left or not total:
        return tuple(found)
    rounds, rest = divmod(left, total)
    beyond = _counted_out(weights, total, rest)
    return tuple(has + rounds * weight + more for has, weight, more in zip(found, weights, beyond, strict=True))


def _counted_out(weights: list[int], total: int, pods: int) -> list[int]:
    """The first `pods` pods beyond the bases, by rule; less than one round of them."""
    counts = [0] * len(weights)
    deficits = [0] * len(weights)  # k * weight - count * total: the exact share's lead over the count, times total
    for _ in range(pods):
        counts[_due(weights, deficits, total)] += 1
    return counts


def _due(weights: Sequence[int], deficits: list[int], total: int) -> int:
    """The rule of the next pod beyond the bases; `deficits` are changed to what they are after it."""
    best = 0
    for i, weight in enumerate(weights):
        deficits[i] += weight
        if deficits[i] > deficits[best]:
            best = i
    deficits[best] -= total
    return best


def sequence(strategy: Strategy) -> Iterator[int]:
    """The rule of the first, the second, the third pod and so on, without end: the targets of n pods are what the
    first n get.
    """
    for rule, given in enumerate(strategy.rules):
        yield from repeat(rule, given.base)
    weights = [rule.weight for rule in strategy.rules]
    deficits, total = [0] * len(weights), sum(weights)
    while total:
        yield _due(weights, deficits, total)


def ranking(strategy: Strategy, counts: Sequence[int]) -> tuple[int, ...]:
    """All rules, the one that the next pod should get first.

    `counts` is how many pods each rule has now. The rule furthest below its target for one pod more comes first, ties
    to the earlier rule; so pods that stand where they should not are made up for by the next ones.
    """
    wanted = targets(strategy, sum(counts) + 1)
    return tuple(sorted(range(len(wanted)), key=lambda i: counts[i] - wanted[i]))


def next_rule(strategy: Strategy, counts: Sequence[int]) -> int:
    """The index of the rule that the next pod should get, see `ranking`."""
    return ranking(strategy, counts)[0]


def matching_rule(strategy: Strategy, labels: Mapping[str, str]) -> int | None:
    """The index of the rule that a node with these labels belongs to, None if to none.

    Where several match, the one with most labels has it, ties to the earlier: `zone:a,type:spot` before `zone:a`.
    """
    best: int | None = None
    for i, rule in enumerate(strategy.rules):
        if all(labels.get(key) == value for key, value in rule.selector) and (
            best is None or len(rule.selector) > len(strategy.rules[best].selector)
        ):
            best = i
    return best


def stamp(rule: int) -> str:
    """What is written on a pod that was given the rule with this index: its number, counted from 1 as messages do."""
    return str(rule + 1)


def parse_stamp(text: str | None) -> int | None:
    """The index that a stamp means, None where there is none or it is no number."""
    if not text or len(text) > len("10") or not (text.isascii() and text.isdigit()):
        return None
    return int(text) - 1 if int(text) else None


def stamp_of(template: PodTemplate) -> Stamp:
    """What is written on such a pod."""
    text = template.annotations.get(RULE_STAMP) or template.labels.get(RULE_STAMP) or ""
    return Stamp(text, template.node_selector)


def stamped_rule(strategy: Strategy, given: Stamp) -> int | None:
    """The index of the rule that a pod was given, None if it was given none of this strategy.

    A stamp counts if the pod's nodeSelector holds it to the rule: so a stamp that is older than a change of the
    strategy, or one that nothing enforces, is not believed.
    """
    rule = parse_stamp(given.text)
    if rule is None or rule >= len(strategy.rules):
        return None
    held = all(given.node_selector.get(key) == value for key, value in strategy.rules[rule].selector)
    return rule if held else None


def restamped(template: PodTemplate, strategy: Strategy, rule: int, former: Strategy | None = None) -> PodTemplate:
    """Such a pod as the webhook would make it with this rule; `former` is the strategy of its stamp, if another."""
    held = former or strategy
    given = stamped_rule(held, stamp_of(template))
    old = {} if given is None else dict(held.rules[given].selector)
    selector = {key: value for key, value in template.node_selector.items() if key not in old}
    return replace(
        template,
        annotations=FrozenDict({**template.annotations, RULE_STAMP: stamp(rule)}),
        node_selector=FrozenDict({**selector, **dict(strategy.rules[rule].selector)}),
    )


def rule_of(strategy: Strategy, given: Stamp, place: Mapping[str, str]) -> int | None:
    """The index of the rule that a pod counts for: that of its stamp, else the one that its place belongs to.

    `place` are the labels of its node. None where neither says one.
    """
    rule = stamped_rule(strategy, given)
    return matching_rule(strategy, place) if rule is None else rule


def rules_of_crowd(
    strategy: Strategy, given: Stamp, crowd: Mapping[str, int], place: Callable[[str], Mapping[str, str]]
) -> Iterator[tuple[int, int]]:
    """`rule_of` for many pods with one stamp, node -> number: rules, and how many more pods count for each."""
    rule = stamped_rule(strategy, given)
    if rule is not None:
        yield rule, sum(crowd.values())
        return
    for node, number in crowd.items():
        rule = matching_rule(strategy, place(node))
        if rule is not None:
            yield rule, number
