"""The status of PlacementPolicies: target, actual and cost of each rule, over all workloads that a policy applies to.

Written only when it changes, and at most every `PAUSE_S` for one policy.
"""

from __future__ import annotations

from typing import Any

from moorage.core.commands import PatchObject, PodRef
from moorage.core.frozen import FrozenDict
from moorage.core.objects import PLACEMENT_POLICY, PlacementPolicy
from moorage.core.prices import PRICE_LIST
from moorage.core.state import ClusterState
from moorage.core.strategies import policy_strategy
from moorage.core.strategy import Strategy
from moorage.engine.keeping.rule_costs import RuleCosts
from moorage.engine.keeping.splits import Split, Splits

PAUSE_S = 2.0
FAILURE_S = 30.0
"""How long after a failure a write is tried again."""


class PolicyStatuses:
    """What was written on each policy."""

    def __init__(self, state: ClusterState, splits: Splits) -> None:
        self._state = state
        self._splits = splits
        self._written: dict[str, tuple[str, FrozenDict[str, Any]]] = {}
        """Key -> uid and status."""
        self._written_s: dict[str, float] = {}
        self._costs = RuleCosts(state)
        self._seen = (-1, -1, -1)
        self._late = False
        """Whether a status waits for the end of its pause."""

    @property
    def late(self) -> bool:
        """Whether a status has to wait before it may be written again."""
        return self._late

    def failed(self, key: str, now: float) -> None:
        """A write did not succeed; it is tried again."""
        self._written.pop(key, None)
        self._written_s[key] = now + FAILURE_S - PAUSE_S
        self._late = True

    def plan(self, now: float) -> list[PatchObject]:
        """What to write now."""
        versions = self._state.object_versions
        seen = (self._splits.version, versions.get(PLACEMENT_POLICY, 0), versions.get(PRICE_LIST, 0))
        if seen == self._seen and not self._late:
            return []
        self._seen, self._late = seen, False
        policies: dict[str, PlacementPolicy] = self._state.objects.get(PLACEMENT_POLICY, {})
        self._written = {key: written for key, written in self._written.items() if key in policies}
        by_policy: dict[str, list[Split]] = {}
        for split in self._splits if policies else ():
            by_policy.setdefault(split.policy, []).append(split)
        commands = (self._write(policy, by_policy.get(policy.key, []), now) for policy in policies.values())
        return [command for command in commands if command is not None]

    def _write(self, policy: PlacementPolicy, splits: list[Split], now: float) -> PatchObject | None:
        status = _status(policy, splits, self._costs, self._state.policies.excess(policy))
        if self._written.get(policy.key) == (policy.uid, status):
            return None
        if now - self._written_s.get(policy.key, -PAUSE_S) < PAUSE_S:
            self._late = True
            return None
        self._written[policy.key], self._written_s[policy.key] = (policy.uid, status), now
        name = PodRef(policy.namespace, policy.name, policy.uid)
        patch = FrozenDict({"status": status})
        return PatchObject(
            name, PLACEMENT_POLICY, policy.namespace, policy.name, patch, policy.uid, subresource="status"
        )


def _status(policy: PlacementPolicy, splits: list[Split], costs: RuleCosts, excess: str) -> FrozenDict[str, Any]:
    said = policy_strategy(policy)
    strategy = said if isinstance(said, Strategy) else Strategy(())
    ours = [split for split in splits if split.strategy == strategy]
    lines = [
        FrozenDict(
            {
                "nodeSelector": rule.labels,
                "target": sum(split.target[index] for split in ours),
                "actual": sum(split.actual[index] for split in ours),
                **costs.of(ours, index),
            }
        )
        for index, rule in enumerate(strategy.rules)
    ]
    return FrozenDict(
        {
            "observedGeneration": policy.generation,
            "workloads": len({split.title for split in ours}),
            "target": "/".join(str(line["target"]) for line in lines),
            "actual": "/".join(str(line["actual"]) for line in lines),
            "rules": tuple(lines),
            "message": excess or ("" if isinstance(said, Strategy) else str(said)),
        }
    )
