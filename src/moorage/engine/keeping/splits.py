"""How the pods of each workload with a placement strategy are split over its rules, and how they should be.

Pods count as `core.strategies` counts them: by their stamp, else by their node; pods of a node that is gone do not.
Each direct owner of pods has a split of its own, so during a rollout there are two for one Deployment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from moorage.core.controllers import Controller, controller_of
from moorage.core.objects import PLACEMENT_POLICY
from moorage.core.ownercounts import strategy_group
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.strategies import pods_wanted, policy_of, strategy_of
from moorage.core.strategy import Strategy, rule_of, stamp_of, stamped_rule, targets
from moorage.core.values import dataclass
from moorage.engine.keeping.removal import Sequences, keep_order


@dataclass(frozen=True, slots=True)
class Split:
    """The pods of one owner."""

    owner: str
    """`strategy_group` of its pods."""
    title: tuple[str, str, str]
    """Namespace, kind and name of the controller that users know; owners of one rollout share it. Of pods without an
    owner, those of the oldest.
    """
    strategy: Strategy
    policy: str
    """Key of the PlacementPolicy that the strategy comes from; empty for an annotation."""
    pods: tuple[tuple[Pod, int | None], ...]
    """Pods on nodes, the one to be kept longest first, each with its rule; None if its node matches no rule."""
    waiting: int
    """How many pods have no node yet, or one that is gone."""
    desired: int | None
    actual: tuple[int, ...]
    target: tuple[int, ...]
    """For as many pods as are desired."""
    stamped: bool
    """Whether a webhook stamps its pods with their rules."""

    @property
    def number(self) -> int:
        """For how many pods the target is."""
        return pods_wanted(self.desired, len(self.pods) + self.waiting)

    @property
    def settled(self) -> bool:
        """Whether all desired pods are on nodes, and no others."""
        return not self.waiting and self.desired in (None, len(self.pods))

    @property
    def off(self) -> bool:
        """Whether the split deviates from the target."""
        return self.actual != self.target


class Splits:
    """All splits."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._sequences = Sequences()
        self._splits: dict[str, Split] = {}
        self._titles: Counter[tuple[str, str, str]] = Counter()
        """How many owners have pods of a controller."""
        self.version = 0
        """Rises whenever a split changes."""

    def __len__(self) -> int:
        return len(self._splits)

    def __iter__(self) -> Iterator[Split]:
        return iter(self._splits.values())

    def get(self, owner: str) -> Split | None:
        """The split of an owner, None if it has no strategy."""
        return self._splits.get(owner)

    def is_rolling_out(self, split: Split) -> bool:
        """Whether another owner of the same controller has pods, too."""
        return self._titles[split.title] > 1

    def review(self, owner: str, members: Iterable[Pod]) -> Split | None:
        """Compute the split of an owner again."""
        found = self._split([*members])
        before = self._splits.pop(owner, None)
        if before is not None:
            self._titles[before.title] -= 1
            if not self._titles[before.title]:
                del self._titles[before.title]
        if found is not None:
            self._splits[owner] = found
            self._titles[found.title] += 1
        if found != before:
            self.version += 1
        return found

    def _split(self, members: list[Pod]) -> Split | None:
        if not members:
            return None
        template = members[0].template
        holding = strategy_of(self._state, template)
        if holding is None or holding.strategy is None:
            return None
        strategy = holding.strategy
        by_rule: list[list[Pod]] = [[] for _ in strategy.rules]
        strays: list[Pod] = []
        waiting, stamped = 0, False
        for pod in members:
            row = None if pod.node is None else self._state.row_of(pod.node)
            if row is None:
                waiting += 1
                continue
            given = stamp_of(pod.template)
            stamped |= stamped_rule(strategy, given) is not None
            rule = rule_of(strategy, given, self._state.node(row).labels)
            (strays if rule is None else by_rule[rule]).append(pod)
        actual = tuple(map(len, by_rule))
        sequence = self._sequences.of(strategy, sum(actual))
        kept = keep_order(sequence, [*map(spread_out, by_rule)], spread_out(strays))
        rules = {pod.uid: rule for rule, pods in enumerate(by_rule) for pod in pods}
        controller = controller_of(self._state, template)
        policy = policy_of(self._state, template) if holding.source.startswith(PLACEMENT_POLICY) else None
        return Split(
            owner=strategy_group(template),
            title=_title(members, controller),
            strategy=strategy,
            policy="" if policy is None else policy.key,
            pods=tuple((pod, rules.get(pod.uid)) for pod in kept),
            waiting=waiting,
            desired=holding.desired,
            actual=actual,
            target=targets(strategy, pods_wanted(holding.desired, len(members))),
            stamped=stamped,
        )


def _title(members: list[Pod], controller: Controller | None) -> tuple[str, str, str]:
    template = members[0].template
    if controller is not None:
        return template.namespace, controller.kind, controller.name
    if template.owner is not None:
        return template.namespace, "", ""
    return template.namespace, "Pod", min(members, key=lambda pod: (pod.created_s, pod.name)).name


def spread_out(pods: Iterable[Pod]) -> list[Pod]:
    """In the order in which they should be kept: one of each node before a second one, and the oldest first."""
    by_age = sorted(pods, key=lambda pod: (pod.created_s, pod.key))
    on_node: dict[str | None, int] = {}
    turns: dict[str, int] = {}
    for pod in by_age:
        turns[pod.uid] = on_node[pod.node] = on_node.get(pod.node, 0) + 1
    return sorted(by_age, key=lambda pod: turns[pod.uid])
