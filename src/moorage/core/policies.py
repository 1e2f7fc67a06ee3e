"""The PlacementPolicies of each namespace, so that no pod is ever compared with those of others."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from operator import attrgetter

from moorage.core.limits import POLICIES, POLICY_REQUIREMENTS
from moorage.core.objects import PlacementPolicy

_BY_NAME = attrgetter("name")


class PolicyIndex:
    """Policies by namespace, sorted by name: of several that select a pod the first counts."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, list[PlacementPolicy]] = {}

    def replace(self, before: PlacementPolicy | None, after: PlacementPolicy | None) -> None:
        """Take over a change of one policy; None stands for none."""
        if before is not None:
            there = self._by_namespace[before.namespace]
            del there[bisect_left(there, before.name, key=_BY_NAME)]
            if not there:
                del self._by_namespace[before.namespace]
        if after is not None:
            insort(self._by_namespace.setdefault(after.namespace, []), after, key=_BY_NAME)

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> PlacementPolicy | None:
        """The policy that selects a pod with these labels."""
        for policy in self._by_namespace.get(namespace, ())[:POLICIES]:
            if not _is_too_large(policy) and policy.selector.matches(labels):
                return policy
        return None

    def excess(self, policy: PlacementPolicy) -> str:
        """Why a policy applies to no pod, whatever its rules say; empty if it is within the limits."""
        if _is_too_large(policy):
            return f"spec.selector has more than {POLICY_REQUIREMENTS} requirements, or values in one; write fewer"
        there = self._by_namespace.get(policy.namespace, [])
        if bisect_left(there, policy.name, key=_BY_NAME) < POLICIES:
            return ""
        return f"the namespace has {len(there)} policies, and only the first {POLICIES} by name count; delete some"


def _is_too_large(policy: PlacementPolicy) -> bool:
    requirements = policy.selector.requirements
    return len(requirements) > POLICY_REQUIREMENTS or any(len(r.values) > POLICY_REQUIREMENTS for r in requirements)
