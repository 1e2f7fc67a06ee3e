"""Which placement strategy holds for a pod, and how many pods each of its rules has.

Where a strategy is looked for; the first place that has one counts, even if it cannot be read:

1. annotations (`STRATEGY_ANNOTATIONS`) of the controller that users know: the Deployment of a ReplicaSet, the CronJob
   of a Job, else the StatefulSet, ReplicaSet or Job itself. What Kubernetes copied from a Deployment to its ReplicaSet
   counts only until the Deployment has been seen, since it is never taken away again;
2. annotations of the Job that a CronJob made;
3. annotations of the pod;
4. a PlacementPolicy in the pod's namespace whose selector matches the labels of the pod, as with a Service or a
   PodDisruptionBudget. If several match, the first by name applies.

Pods of a DaemonSet belong to their node and have no strategy.

Pods are counted by the owner that they name, so a rollout gives the new ReplicaSet its own split. Terminating and
finished pods do not count, assumed ones do. A pod counts for the rule that `rule_of` says: that of its stamp, else the
one that its node belongs to; one on a node of no rule counts for none. Pods without an owner are one workload if they
have the same strategy annotation, or without one the same labels, in one namespace (`strategy_group`). The numbers come
from counters (`OwnerCounts`); no pods are scanned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from moorage.core.arrays import Ids, Mask, Rows
from moorage.core.controllers import CONTROLLER_KINDS, Controller, controller_of
from moorage.core.limits import REASON as LIMIT_EXCEEDED
from moorage.core.limits import STRATEGY_CACHE_BYTES, STRATEGY_TEXT
from moorage.core.objects import DAEMON_SET, JOB, PLACEMENT_POLICY, PlacementPolicy, Workload, object_key
from moorage.core.pods import PodTemplate
from moorage.core.strategy import (
    STRATEGY_ANNOTATIONS,
    Rule,
    Strategy,
    StrategyError,
    parse_strategy,
    ranking,
    stamped_rule,
    targets,
)
from moorage.core.texts import Readings

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

MALFORMED = "MalformedStrategy"
FALLBACK = "StrategyFallback"
"""Reason of the event about a pod that is placed by default, as no node has the labels of its rule."""
STRATEGY_KINDS = CONTROLLER_KINDS | {PLACEMENT_POLICY}
"""Kinds of objects that the answers depend on."""
NO_RULE = -1
_ENTRY_BYTES, _PART_BYTES = 1024, 512


class Holding(NamedTuple):
    """What was found for a pod."""

    source: str
    """Where, for messages: `Deployment default/web: annotation ...`, or `PlacementPolicy default/web`."""
    strategy: Strategy | None
    """None where it cannot be read; `error` says why."""
    error: StrategyError | None = None
    desired: int | None = None
    """How many pods the owner of the pod wants at present; None while that is not known."""

    @property
    def reason(self) -> str:
        """Reason of the event about a strategy that cannot be read."""
        return LIMIT_EXCEEDED if self.error is not None and self.error.too_large else MALFORMED


def strategy_of(state: ClusterState, template: PodTemplate) -> Holding | None:
    """The strategy that holds for such a pod, None if there is none; cheap enough for every decision."""
    owner = template.owner
    if owner is not None and owner.kind == DAEMON_SET:
        return None
    controller = controller_of(state, template)
    desired = None if controller is None else controller.desired
    for title, notes in _annotated(state, template, controller):
        for key in STRATEGY_ANNOTATIONS:
            text = notes.get(key)
            if text is not None:
                return _holding(f"{title}: annotation {key}", read_strategy(text), desired)
    policy = policy_of(state, template)
    if policy is None:
        return None
    return _holding(f"{PLACEMENT_POLICY} {policy.key}", policy_strategy(policy), desired)


def is_awaited(state: ClusterState, template: PodTemplate) -> bool:
    """Whether the pod's controller has not been seen yet, so that what holds for the pod is not known."""
    controller = controller_of(state, template)
    return controller is not None and controller.desired is None


def policy_of(state: ClusterState, template: PodTemplate) -> PlacementPolicy | None:
    """The PlacementPolicy that selects such a pod, whether something else counts before it or not."""
    return state.policies.selecting(template.namespace, template.labels)


def read_strategy(text: str) -> Strategy | StrategyError:
    """`parse_strategy`, with what is wrong as a value."""
    return _strategies(text) if len(text) <= STRATEGY_TEXT else _tried(text)


def policy_strategy(policy: PlacementPolicy) -> Strategy | StrategyError:
    """The strategy of a policy, or what is wrong with it."""
    rules = policy.rules
    return rules if isinstance(rules, Strategy) else StrategyError(*rules)


def rules_at(state: ClusterState, strategy: Strategy, rows: Rows) -> Ids:
    """The rule that each of the rows belongs to, int32[len(rows)]; NO_RULE where none matches (see `matching_rule`)."""
    found: Ids = np.full(len(rows), NO_RULE, dtype=np.int32)
    # What is written last stays: rules with more labels, and of equally many the earlier one.
    order = sorted(range(len(strategy.rules)), key=lambda i: (len(strategy.rules[i].selector), -i))
    for rule in order:
        found[_matches(state, strategy.rules[rule], rows)] = rule
    return found


def _matches(state: ClusterState, rule: Rule, rows: Rows) -> Mask:
    """The rows that have the labels of a rule, bool[len(rows)]."""
    matches: Mask = np.ones(len(rows), dtype=np.bool_)
    for key, value in rule.selector:
        column = state.labels.known(key)
        wanted = None if column is None else column.find(value)
        if column is None or wanted is None:
            return np.zeros(len(rows), dtype=np.bool_)
        matches &= state.pick(column.ids, rows) == wanted
    return matches


def rule_counts(state: ClusterState, template: PodTemplate, strategy: Strategy) -> tuple[int, ...]:
    """How many live pods of the workload of this one each rule has."""
    counts = [0] * len(strategy.rules)
    rows, numbers = state.group_rows(template).above_zero()
    if not len(rows):
        return tuple(counts)
    left = numbers.astype(np.int64)
    for stamp, stamped in state.owners.stamped(template):
        rule = stamped_rule(strategy, stamp)
        if rule is not None:
            counts[rule] += stamped.total
            left -= stamped.dense(state.capacity).take(rows)
    ids = rules_at(state, strategy, rows)
    by_node = np.bincount(ids[ids >= 0], left[ids >= 0], minlength=len(counts))
    return tuple(has + int(more) for has, more in zip(counts, by_node.tolist(), strict=True))


def pods_wanted(desired: int | None, live: int) -> int:
    """How many pods the targets are for: as many as their owner wants, or as there are where that is not known."""
    return live if desired is None else desired


def open_rules(strategy: Strategy, counts: tuple[int, ...], desired: int | None) -> tuple[int, ...]:
    """The rules that can have one more pod without ever being over their share; the one that is due comes first.

    As long as fewer pods stand than are desired, any rule below its target for all of them may be filled: so pods of
    one rule need not wait for those of another that has no room.
    """
    number = max(desired or 0, sum(counts) + 1)
    wanted = targets(strategy, number)
    return tuple(rule for rule in ranking(strategy, counts) if counts[rule] < wanted[rule])


def _annotated(
    state: ClusterState, template: PodTemplate, controller: Controller | None
) -> list[tuple[str, Mapping[str, str]]]:
    """The annotations to read, in order, each with the object it is on."""
    found: list[tuple[str, Mapping[str, str]]] = []
    namespace, owner = template.namespace, template.owner
    if controller is not None and owner is not None:
        found.append((f"{controller.kind} {namespace}/{controller.name}", controller.annotations))
        if controller.kind != owner.kind:
            direct = state.object(owner.kind, object_key(namespace, owner.name))
            unseen = state.object(controller.kind, object_key(namespace, controller.name)) is None
            if isinstance(direct, Workload) and (unseen or direct.kind == JOB):
                found.append((f"{direct.kind} {direct.key}", direct.annotations))
    found.append((f"pod of {namespace}", template.annotations))
    return found


def _holding(source: str, said: Strategy | StrategyError, desired: int | None) -> Holding:
    if isinstance(said, StrategyError):
        return Holding(source, None, said, desired)
    return Holding(source, said, None, desired)


def _tried(text: str) -> Strategy | StrategyError:
    try:
        return parse_strategy(text)
    except StrategyError as error:
        error.__context__ = None
        return error.with_traceback(None)


def _cost(text: str, said: Strategy | StrategyError) -> int:
    """About the bytes that a text and what it means take."""
    parts = said.mistakes if isinstance(said, StrategyError) else [label for r in said.rules for label in r.selector]
    return _ENTRY_BYTES + len(text) + _PART_BYTES * len(parts)


_strategies = Readings(_tried, _cost, STRATEGY_CACHE_BYTES)
