"""What a changed strategy would do: how many pods each rule should have, and which pods would go where.

In a statement the changed object is put into the state, and the pods that then exceed their rule's share are placed
again by the profile itself. The state does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from moorage.core.disruption.away import MOVED, Away
from moorage.core.frozen import FrozenDict
from moorage.core.objects import PlacementPolicy, Workload, object_key
from moorage.core.pods import Pod, as_pending
from moorage.core.state import ClusterState
from moorage.core.strategy import (
    Strategy,
    StrategyError,
    next_rule,
    parse_strategy,
    restamped,
    rule_of,
    stamp_of,
    targets,
)
from moorage.engine.faults import describe
from moorage.engine.keeping.splits import Split
from moorage.views.placements import StrategyLocation, find_split, place_of_strategy
from moorage.views.world import World

_MOST_MOVES = 500


def check_strategy(text: str) -> dict[str, Any]:
    """The errors of a strategy, each with its column; or its rules."""
    try:
        strategy = parse_strategy(text)
    except StrategyError as error:
        mistakes = [
            {"column": each.column, "what": each.what, "remedy": each.remedy, "where": each.where}
            for each in error.mistakes
        ]
        return {"ok": False, "mistakes": mistakes, "rules": []}
    return {"ok": True, "mistakes": [], "rules": [_rule(rule) for rule in strategy.rules]}


def rules_of(text: str) -> list[dict[str, Any]]:
    """The rules of a PlacementPolicy that are equivalent to this strategy; StrategyError if it cannot be parsed."""
    return [
        {"base": rule.base, "weight": rule.weight, "nodeSelector": dict(rule.selector)}
        for rule in parse_strategy(text).rules
    ]


def preview(world: World, namespace: str, kind: str, name: str, text: str, now: float) -> dict[str, Any]:
    """What would happen to a workload's pods with this strategy."""
    checked = check_strategy(text)
    split = find_split(world, namespace, kind, name)
    if not checked["ok"] or split is None:
        return {**checked, "known": split is not None}
    strategy = parse_strategy(text)
    wanted = targets(strategy, split.number)
    staying, leaving = _sorted_out(world.state, split, strategy, wanted)
    with world.state.statement():
        _put(world, place_of_strategy(world, split), text)
        placed, stuck, fault = _placed(world, _remade(split, strategy, staying, leaving), now)
    after = [*staying]
    for _, ghost, node in placed:
        _count(world.state, strategy, ghost, node, after)
    moves = [(pod, pod.node or "", node) for pod, _, node in placed if node != pod.node]
    rows = zip(strategy.rules, wanted, staying, after, strict=True)
    return {
        **checked,
        "known": True,
        "pods": split.number,
        "rules": [{**_rule(rule), "target": t, "staying": s, "after": a} for rule, t, s, a in rows],
        "moves": [{"pod": pod.key, "from": origin, "to": node} for pod, origin, node in moves[:_MOST_MOVES]],
        "moving": len(moves),
        "stuck": [pod.key for pod in stuck[:_MOST_MOVES]],
        "fault": fault,
    }


def _rule(rule: Any) -> dict[str, Any]:
    return {"labels": rule.labels, "base": rule.base, "weight": rule.weight}


def _count(state: ClusterState, strategy: Strategy, pod: Pod, node: str | None, counts: list[int]) -> int | None:
    """Count a pod for its rule on a node, as the keeper does; returns the rule."""
    row = None if node is None else state.row_of(node)
    rule = None if row is None else rule_of(strategy, stamp_of(pod.template), state.node(row).labels)
    if rule is not None:
        counts[rule] += 1
    return rule


def _sorted_out(
    state: ClusterState, split: Split, strategy: Strategy, wanted: tuple[int, ...]
) -> tuple[list[int], list[Pod]]:
    """How many pods of each rule may stay, and the pods that may not; those to be kept longest stay."""
    staying = [0] * len(wanted)
    leaving: list[Pod] = []
    for pod, _ in split.pods:
        rule = _count(state, strategy, pod, pod.node, staying)
        if rule is None:
            leaving.append(pod)
        elif staying[rule] > wanted[rule]:
            staying[rule] -= 1
            leaving.append(pod)
    return staying, leaving


def _remade(split: Split, strategy: Strategy, staying: list[int], leaving: list[Pod]) -> Iterator[tuple[Pod, Pod]]:
    """Pods that leave, each with its successor; successors are stamped if the webhook stamps the workload's pods."""
    counts = [*staying]
    for pod in leaving:
        template = pod.template
        if split.stamped:
            rule = next_rule(strategy, counts)
            counts[rule] += 1
            template = restamped(template, strategy, rule, split.strategy)
        yield pod, as_pending(replace(pod, template=template))


def _put(world: World, location: StrategyLocation | None, text: str) -> None:
    """Put the object with the changed strategy into the state."""
    key = "" if location is None else object_key(location.namespace, location.name)
    before = None if location is None else world.state.object(location.kind, key)
    if location is not None and before is not None:
        world.state.put_object(location.kind, key, _changed(before, location, text))


def _changed(before: Workload | PlacementPolicy, location: StrategyLocation, text: str) -> Workload | PlacementPolicy:
    if isinstance(before, PlacementPolicy):
        return replace(before, rules=parse_strategy(text))
    return replace(before, annotations=FrozenDict({**before.annotations, location.key: text}))


def _placed(
    world: World, successors: Iterable[tuple[Pod, Pod]], now: float
) -> tuple[list[tuple[Pod, Pod, str]], list[Pod], str]:
    """Pods with their successors and the successors' nodes; pods whose successor fits nowhere; a plugin's fault."""
    pairs = [*successors]
    placed: list[tuple[Pod, Pod, str]] = []
    stuck: list[Pod] = []
    trial = world.engine.trial(now)
    Away(world.state).take((world.state.record(pod.uid) for pod, _ in pairs), MOVED)
    for pod, ghost in pairs:
        try:
            record = trial.place(ghost)
        except Exception as error:  # noqa: BLE001 - a plugin's fault is told, and ends the preview only
            return placed, stuck, describe(error)
        if record is None:
            stuck.append(pod)
        else:
            placed.append((pod, ghost, record.node))
    return placed, stuck, ""
