"""Rules in the input that the simulation does not apply, since the profile that decides has no plugin that reads them.

A profile leaves out what it does not enable, so the result is right for it; but the author expects the rule to apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moorage.core.annotations import MIN_HOSTS, ON_DEMAND_BASE, SPOT
from moorage.core.gangowners import GANG_ANNOTATION
from moorage.core.membership import GROUP_ANNOTATIONS, GROUP_LABEL, MIN_AVAILABLE
from moorage.core.objects import PLACEMENT_POLICY, object_key
from moorage.core.pods import DEFAULT_SCHEDULER
from moorage.core.shareasks import SHARE_ANNOTATIONS
from moorage.core.strategy import STRATEGY_ANNOTATIONS
from moorage.framework.profiles import Profile
from moorage.sim.inputs import POD, TEMPLATE_PATHS
from moorage.sim.specs import inside
from moorage.wire.topology import KEYS as TOPOLOGY_KEYS
from moorage.wire.topology import SUBGROUPS

Objects = Iterable[Mapping[str, Any]]

READERS: Mapping[str, Mapping[str, str]] = {
    "annotation": {
        **dict.fromkeys(MIN_HOSTS, "ControllerSpread"),
        **dict.fromkeys((*ON_DEMAND_BASE, SPOT), "SpotPlacement"),
        **dict.fromkeys(STRATEGY_ANNOTATIONS, "PlacementStrategy"),
        **dict.fromkeys(("moorage.dev/priority", "priority"), "PriorityAnnotation"),
        **dict.fromkeys((*GROUP_ANNOTATIONS, MIN_AVAILABLE, GANG_ANNOTATION), "GangScheduling"),
        **dict.fromkeys(SHARE_ANNOTATIONS, "SharedDevices"),
        **dict.fromkeys((*sorted(TOPOLOGY_KEYS), SUBGROUPS), "TopologyPlacement"),
    },
    "label": {GROUP_LABEL: "GangScheduling", SPOT: "SpotPlacement"},
}
"""The annotations and labels that are rules -> the plugins that read them."""
EXAMPLES: Mapping[str, str] = {
    "controller-spread-scheduler": "ControllerSpread",
    "custom-scheduler": "PlanSort, OnePodPerNode and PriorityAnnotation",
    "custom-k8s-scheduler": "NodeResourcesFit with MostAllocated",
}
"""The scheduler names of the shipped examples -> what their profiles have and the default one has not."""


def unread_rules(objects: Objects, profiles: Iterable[Profile], *, answers_to_all: bool) -> list[str]:
    """One line for each rule that is not applied, with the first object that has it and how many others.

    `answers_to_all` says that there is no configuration, and the first profile decides on all pods.
    """
    plugins = {profile.scheduler_name: {plugin.name for plugin in profile.plugins} for profile in profiles}
    every = set().union(*plugins.values())
    found: dict[str, list[str]] = {}
    for body in objects:
        scheduler = _scheduler_of(body)
        if answers_to_all and scheduler in EXAMPLES:
            found.setdefault(_replaced(scheduler), []).append(_title(body))
            continue
        # A pod without a profile is not placed at all, and says so; what is not a pod is for all profiles.
        read = every if answers_to_all or not scheduler else plugins.get(scheduler)
        for rule, plugin in _rules_of(body, scheduler):
            if read is not None and plugin not in read:
                line = f"{rule} is not read, as the profile has no {plugin}; enable it in the file of --config"
                found.setdefault(line, []).append(_title(body))
    return [
        f"{line} ({first}{f' and {len(others)} more' if others else ''})" for line, (first, *others) in found.items()
    ]


def _replaced(scheduler: str) -> str:
    return (
        f"schedulerName {scheduler}: the default profile decides, without {EXAMPLES[scheduler]}; "
        f"give --config, such as deploy/examples/{scheduler}/config.yaml"
    )


def _title(body: Mapping[str, Any]) -> str:
    metadata = body["metadata"]
    return f"{body['kind']} {object_key(metadata.get('namespace') or 'default', metadata['name'])}"


def _scheduler_of(body: Mapping[str, Any]) -> str:
    """The scheduler that a pod asks for, or that the pods of a workload do; empty for other objects."""
    if body["kind"] == POD:
        spec = inside(body, "spec")
    elif body["kind"] in TEMPLATE_PATHS:
        spec = inside(body, f"{TEMPLATE_PATHS[body['kind']]}.spec")
    else:
        return ""
    return str(spec.get("schedulerName") or DEFAULT_SCHEDULER)


def _rules_of(body: Mapping[str, Any], scheduler: str) -> Iterator[tuple[str, str]]:
    """What an object asks for, and the plugin that reads it. Keys without a prefix may be anybody's at the default
    scheduler.
    """
    if body["kind"] == PLACEMENT_POLICY:
        yield PLACEMENT_POLICY, "PlacementStrategy"
    if not scheduler:
        return
    paths = ["metadata", *(f"{path}.metadata" for path in [TEMPLATE_PATHS.get(body["kind"])] if path)]
    for what, readers in READERS.items():
        for key in dict.fromkeys(key for path in paths for key in inside(body, f"{path}.{what}s") if key in readers):
            if "/" in key or scheduler != DEFAULT_SCHEDULER:
                yield f"{what} {key}", readers[key]
