"""The page of strategies and spread: target and actual of each rule, and where a strategy can be edited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from moorage.core.annotations import hosts_wanted
from moorage.core.controllers import CONTROLLER_KINDS, controller_of
from moorage.core.objects import PLACEMENT_POLICY, PlacementPolicy, Workload, object_key
from moorage.core.ownercounts import owner_key
from moorage.core.pods import PodTemplate
from moorage.core.strategies import policy_strategy, read_strategy
from moorage.core.strategy import STRATEGY_ANNOTATIONS, Strategy, StrategyError
from moorage.engine.keeping.splits import Split
from moorage.framework.contract import FollowsStrategies
from moorage.views.world import World


class StrategyLocation(NamedTuple):
    """Where a strategy is written: an annotation (`key`) of an object, or the rules of a PlacementPolicy."""

    kind: str
    namespace: str
    name: str
    key: str = ""

    @property
    def document(self) -> dict[str, str]:
        """As plain values."""
        return self._asdict()


def strategies_page(world: World) -> dict[str, Any]:
    """Every workload with a strategy, those whose strategy cannot be parsed, and those that must spread."""
    return {
        "version": world.versions.strategies,
        "workloads": sorted((_workload(world, split) for split in world.splits), key=lambda row: str(row["title"])),
        "unreadable": [*_unreadable(world)],
        "policies": [*_policies(world)],
        "spread": sorted(_spread(world), key=lambda row: str(row["title"])),
        "plugin": any(runner.plugins.first(FollowsStrategies) is not None for runner in world.engine.runners.values()),
    }


def find_split(world: World, namespace: str, kind: str, name: str) -> Split | None:
    """The split of a workload that users know; of the two during a rollout, the one with more desired pods."""
    found = [split for split in world.splits if split.title == (namespace, kind, name)]
    return max(found, key=lambda split: split.desired or 0, default=None)


def place_of_strategy(world: World, split: Split) -> StrategyLocation | None:
    """Where the strategy of a split is written; None if it is on pods or on an intermediate owner."""
    namespace, kind, name = split.title
    if split.policy:
        policy_namespace, _, policy = split.policy.partition("/")
        return StrategyLocation(PLACEMENT_POLICY, policy_namespace, policy)
    found = world.state.object(kind, object_key(namespace, name)) if kind else None
    if isinstance(found, Workload):
        key = next((key for key in STRATEGY_ANNOTATIONS if key in found.annotations), "")
        if key:
            return StrategyLocation(kind, namespace, name, key)
    return None


def strategy_text(world: World, location: StrategyLocation) -> str:
    """The strategy as it is written now."""
    found = world.state.object(location.kind, object_key(location.namespace, location.name))
    if isinstance(found, Workload):
        return found.annotations.get(location.key, "")
    if isinstance(found, PlacementPolicy):
        said = policy_strategy(found)
        return str(said) if isinstance(said, Strategy) else ""
    return ""


def takes_strategy(world: World, location: StrategyLocation) -> bool:
    """Whether a strategy can be written here: the annotation of a known controller, or a known policy."""
    found = world.state.object(location.kind, object_key(location.namespace, location.name))
    if not isinstance(found, Workload | PlacementPolicy):
        return False
    keys = STRATEGY_ANNOTATIONS if isinstance(found, Workload) else ("",)
    return (found.namespace, found.name) == (location.namespace, location.name) and location.key in keys


def _workload(world: World, split: Split) -> dict[str, Any]:
    namespace, kind, name = split.title
    location = place_of_strategy(world, split)
    return {
        "title": f"{kind} {namespace}/{name}",
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "owner": split.owner,
        "policy": split.policy,
        "text": str(split.strategy) if location is None else strategy_text(world, location),
        "location": None if location is None else location.document,
        "rules": [
            {"labels": rule.labels, "base": rule.base, "weight": rule.weight, "target": target, "actual": actual}
            for rule, target, actual in zip(split.strategy.rules, split.target, split.actual, strict=True)
        ],
        "strays": sum(rule is None for _, rule in split.pods),
        "waiting": split.waiting,
        "desired": split.desired,
        "off": split.off,
    }


def _unreadable(world: World) -> Iterator[dict[str, Any]]:
    for kind in sorted(CONTROLLER_KINDS):
        for workload in world.state.objects.get(kind, {}).values():
            key = next((key for key in STRATEGY_ANNOTATIONS if key in workload.annotations), "")
            said = read_strategy(workload.annotations[key]) if key else None
            if isinstance(said, StrategyError) and workload.owner is None:
                location = StrategyLocation(kind, workload.namespace, workload.name, key)
                text = workload.annotations[key]
                yield {
                    "title": f"{kind} {workload.key}",
                    "text": text,
                    "location": location.document,
                    "error": str(said),
                }


def _policies(world: World) -> Iterator[dict[str, Any]]:
    for policy in world.state.objects.get(PLACEMENT_POLICY, {}).values():
        said = policy_strategy(policy)
        yield {
            "name": policy.key,
            "error": str(said) if isinstance(said, StrategyError) else "",
            "workloads": len({split.title for split in world.splits if split.policy == policy.key}),
        }


def _spread(world: World) -> Iterator[dict[str, Any]]:
    """Workloads that require a number of hosts."""
    seen: set[str] = set()
    for pod in world.pods.values():
        template: PodTemplate = pod.template
        owner = owner_key(template)
        if not owner or owner in seen:
            continue
        seen.add(owner)
        controller = controller_of(world.state, template)
        if controller is None:
            continue
        hosts, said = hosts_wanted(controller.annotations, controller.desired)
        if said is None:
            continue
        yield {
            "title": f"{controller.kind} {template.namespace}/{controller.name}",
            "wanted": None if said.value is None else hosts,
            "said": said.text,
            "hosts": world.state.owner_rows(template).places,
            "pods": world.state.owner_rows(template).total,
        }
