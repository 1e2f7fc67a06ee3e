"""Whether `simulate` answers as the live cluster did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moorage.framework.plugin import Plugin
from tests.sim.simulating import places, rules, run
from tests.simlive.files import KINDS, SCHEDULER, Object
from tests.simlive.live import Rest, top_name

SEEDS = 20
Counts = dict[str, tuple[tuple[int, ...], ...]]
"""Workload -> for each group of equal nodes how many of its pods the nodes have, sorted."""


def differing_nodes(rest: Rest, plugins: Sequence[type[Plugin]] = ()) -> list[str]:
    """(a) The live pods, in their order and with their names, as pending pods: those that get another node.

    Pods that a StatefulSet still holds back come last in a simulation, and are not compared.
    """
    pods = [_pending(pod, place) for place, pod in enumerate(rest.pods)]
    outcome = places(run([*rest.objects, *pods], rules(*plugins, names=(SCHEDULER,))))
    live = {f"default/{pod['metadata']['name']}": pod["spec"].get("nodeName") for pod in rest.pods}
    return [
        f"{name}: live {live[name]}, simulated {outcome.get(name, 'absent')}"
        for name in sorted(live)
        if live[name] != outcome.get(name, "absent")
    ]


def differing_counts(
    objects: Sequence[Object], rest: Rest, plugins: Sequence[type[Plugin]] = (), *, seeds: int = SEEDS
) -> list[str]:
    """(b) The file itself: the workloads whose live counts no seed gives."""
    groups = _groups(objects)
    tops = [each["metadata"]["name"] for each in objects if each["kind"] in KINDS]
    live = _counts(tops, groups, ((pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in rest.pods))
    missing = set(tops)
    found: dict[str, Counter[Any]] = {top: Counter() for top in tops}
    for seed in range(seeds):
        outcome = places(run(objects, rules(*plugins, names=(SCHEDULER,), seed=seed)))
        counts = _counts(tops, groups, ((key.partition("/")[2], place) for key, place in outcome.items()))
        for top in tops:
            found[top][counts[top]] += 1
        missing -= {top for top in tops if counts[top] == live[top]}
        if not missing:
            break
    return [f"{top}: live {live[top]}, simulated {dict(found[top])}" for top in sorted(missing)]


def _pending(pod: Mapping[str, Any], place: int) -> Object:
    """The pod as if it had just come, in its place."""
    metadata = {name: value for name, value in pod["metadata"].items() if name not in ("managedFields", "finalizers")}
    metadata["creationTimestamp"] = f"2026-01-01T{place // 3600:02}:{place // 60 % 60:02}:{place % 60:02}Z"
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _groups(objects: Iterable[Object]) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for each in objects:
        if each["kind"] == "Node":
            labels = {key: value for key, value in each["metadata"]["labels"].items() if "hostname" not in key}
            key = f"{labels} {each['spec']} {each['status']['allocatable']}"
            found.setdefault(key, []).append(each["metadata"]["name"])
    return list(found.values())


def _counts(tops: Iterable[str], groups: Sequence[Sequence[str]], placed: Iterable[tuple[str, str | None]]) -> Counts:
    on: dict[str, Counter[str]] = {top: Counter() for top in tops}
    for name, place in placed:
        if place is not None:
            on[top_name(name)][place] += 1
    return {top: tuple(tuple(sorted(counts[name] for name in group)) for group in groups) for top, counts in on.items()}
