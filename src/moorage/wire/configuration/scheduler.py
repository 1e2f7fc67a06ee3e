"""A `KubeSchedulerConfiguration` document becomes a value; what has no effect in Moorage is said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from moorage.framework.configuration import Configuration, Extender, ProfileConfiguration
from moorage.framework.registry import Registry
from moorage.wire.configuration.connections import read_client_connection, read_extenders, read_leader_election
from moorage.wire.configuration.findings import Findings, at_least
from moorage.wire.configuration.profiles import percentage, read_profiles
from moorage.wire.configuration.schema import SchedulerShape
from moorage.wire.configuration.shapes import read_shape

_FIT = "NodeResourcesFit"


def read_scheduler(document: dict[str, Any], registry: Registry, findings: Findings) -> Configuration:
    """The value; it means something only if the findings hold no problem. The document is consumed."""
    shape = read_shape(SchedulerShape, document, findings)
    initial_s, maximum_s = _read_backoff(shape, findings)
    parallelism = 16 if shape.parallelism is None else shape.parallelism
    at_least(parallelism, 1, "parallelism", findings)
    percentage("percentageOfNodesToScore", shape.percentage_of_nodes_to_score, findings)
    profiling = shape.enable_profiling is not False
    extenders = read_extenders(shape.extenders, findings)
    profiles = read_profiles(shape.profiles, registry, findings)
    configuration = Configuration(
        profiles=tuple(_leaving_to_extenders(profile, extenders, registry) for profile in profiles),
        leader_election=read_leader_election(shape.leader_election, findings),
        client_connection=read_client_connection(shape.client_connection, findings),
        parallelism=parallelism,
        percentage_of_nodes_to_score=shape.percentage_of_nodes_to_score or 0,
        pod_initial_backoff_s=initial_s,
        pod_max_backoff_s=maximum_s,
        extenders=extenders,
        enable_profiling=profiling,
        enable_contention_profiling=profiling and shape.enable_contention_profiling is not False,
        delay_cache_until_active=shape.delay_cache_until_active,
    )
    _say_what_has_no_effect(shape, findings)
    return configuration


def _leaving_to_extenders(
    profile: ProfileConfiguration, extenders: Iterable[Extender], registry: Registry
) -> ProfileConfiguration:
    """NodeResourcesFit ignores the resources that extenders say it should, and then no others, as in kube-scheduler."""
    ignored = tuple(r.name for extender in extenders for r in extender.managed_resources if r.ignored_by_scheduler)
    plugin = registry.get(_FIT)
    if not ignored or plugin is None:
        return profile
    args = profile.args.get(_FIT) or plugin.Args()
    return replace(profile, args={**profile.args, _FIT: args.model_copy(update={"ignored_resources": ignored})})


def _read_backoff(shape: SchedulerShape, findings: Findings) -> tuple[int, int]:
    default = Configuration()
    initial_s, maximum_s = shape.pod_initial_backoff_seconds, shape.pod_max_backoff_seconds
    if initial_s is None:
        initial_s = default.pod_initial_backoff_s
    if maximum_s is None:
        maximum_s = default.pod_max_backoff_s
    if initial_s <= 0:
        findings.problem("podInitialBackoffSeconds", initial_s, "must be 1 or more")
    elif maximum_s < initial_s and not findings.touches("podMaxBackoffSeconds"):
        message = f"must not be below podInitialBackoffSeconds, which is {initial_s}"
        findings.problem("podMaxBackoffSeconds", maximum_s, message)
    return initial_s, maximum_s


def _say_what_has_no_effect(shape: SchedulerShape, findings: Findings) -> None:
    """Once per setting, whatever its value: the file looks as if it did something."""
    percentages = {"percentageOfNodesToScore": shape.percentage_of_nodes_to_score}
    for index, profile in enumerate(shape.profiles):
        percentages[f"profiles[{index}].percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    for path, value in percentages.items():
        if value is not None:
            findings.notice(path, value, "has no effect: Moorage scores all nodes, always")
            break
    if shape.parallelism is not None:
        findings.notice("parallelism", shape.parallelism, "has no effect: Moorage judges all nodes at once")
    if shape.enable_profiling:
        findings.notice("enableProfiling", True, "has no effect: Moorage serves no Go profiles")
    if shape.enable_contention_profiling:
        findings.notice("enableContentionProfiling", True, "has no effect: Moorage serves no Go profiles")
    if shape.delay_cache_until_active:
        message = "has no effect: a standby keeps its picture of the cluster up to date, to take over at once"
        findings.notice("delayCacheUntilActive", True, message)
