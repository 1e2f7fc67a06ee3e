"""Nodes and pods of many kinds, so that every scoring plugin has something to say."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from moorage.bench.clusterload import NAMESPACE, Manifest, pod
from moorage.bench.virtualnodes import VirtualNode, node_object
from moorage.core.labelnames import HOSTNAME, ZONE

SIZES = (("16", "64Gi"), ("32", "128Gi"), ("64", "128Gi"), ("32", "256Gi"))
_ZONES = 5
_TEAMS = 12


def nodes(count: int) -> Iterator[Manifest]:
    """Four sizes in five zones; a few are tainted, some have faster disks."""
    now = datetime.now(UTC)
    for number in range(count):
        cpu, memory = SIZES[number % len(SIZES)]
        node = VirtualNode(
            name=f"node-{number}",
            capacity={"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "500Gi"},
            zone=f"zone-{number % _ZONES}",
            labels={"disk": "ssd" if number % 3 == 0 else "hdd"},
            taints=[{"key": "team", "value": "data", "effect": "PreferNoSchedule"}] if number % 11 == 0 else (),
        )
        yield node_object(node, f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", now)


def services() -> Iterator[tuple[str, Manifest]]:
    """One for half of the teams: their pods are spread by default."""
    for team in range(0, _TEAMS, 2):
        yield (
            f"/api/v1/namespaces/{NAMESPACE}/services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": f"team-{team}", "namespace": NAMESPACE},
                "spec": {"selector": {"team": f"team-{team}"}, "ports": [{"port": 80}]},
            },
        )


def pods(app: str, count: int, seed: int = 0) -> Iterator[Manifest]:
    """Eight kinds of pods of twelve teams, with requests of many sizes, in random order; the same for a seed."""
    drawn = random.Random(f"{app}/{seed}")
    for number in range(count):
        team = f"team-{drawn.randrange(_TEAMS)}"
        requests = {"cpu": f"{drawn.randrange(50, 900, 25)}m", "memory": f"{drawn.randrange(64, 1500, 32)}Mi"}
        kind = drawn.choice(_KINDS)
        yield pod(f"{app}-{number}", labels={"team": team}, **requests, **kind(team))


def _selector(team: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"team": team}}}


def _spread(team: str, key: str, when: str, skew: int) -> dict[str, Any]:
    rule = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **_selector(team)}
    return {"topologySpreadConstraints": [rule]}


def _near(team: str, kind: str, key: str) -> dict[str, Any]:
    term = {"weight": 20, "podAffinityTerm": {"topologyKey": key, **_selector(team)}}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _fast(_: str) -> dict[str, Any]:
    wish = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    preferred = [{"weight": 30, "preference": wish}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def _slow(_: str) -> dict[str, Any]:
    return {"nodeSelector": {"disk": "hdd"}, "tolerations": [{"key": "team", "operator": "Exists"}]}


_KINDS: tuple[Callable[[str], dict[str, Any]], ...] = (
    lambda _: {},
    lambda team: _spread(team, ZONE, "DoNotSchedule", 6),
    lambda team: _spread(team, HOSTNAME, "ScheduleAnyway", 1),
    lambda team: _near(team, "podAffinity", ZONE),
    lambda team: _near(team, "podAntiAffinity", HOSTNAME),
    _fast,
    _slow,
    lambda _: {"tolerations": [{"key": "team", "operator": "Equal", "value": "data"}]},
)
