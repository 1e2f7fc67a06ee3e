"""A gang with a required level starts wherever it fits, whatever else limits what a host takes.

Worlds are made from an answer: how many members each host of one rack takes. Devices, GPU shares, ports, anti-affinity
and spread then allow just that; the other racks have room for fewer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest
from moorage.core.labelnames import HOSTNAME
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.simulation import SimulationRules
from moorage.wire.configuration import read_configuration
from tests.sim.simulating import places, run

SHARING = Path(__file__).parents[2] / "examples/gpu-sharing.yaml"
ZONE, RACK = "example.com/zone", "example.com/rack"
GROUP, ROLE = "scheduling.x-k8s.io/pod-group", "moorage.dev/subgroup"
APP = {"app": "g"}
Plain = dict[str, Any]


class Gang(NamedTuple):
    """What the members of a gang ask for."""

    limits: frozenset[str]
    """Of claims, fractions, ports, apart and spread."""
    size: int
    level: str = RACK
    skew: int = 1
    inside: str = ""
    """The rack that a node selector names."""
    helpers: int = 0
    """How many more members ask for a little cpu only."""

    def objects(self) -> Iterator[Plain]:
        """The PodGroup and its pods."""
        asks = {"moorage.dev/topology-required": self.level}
        api, size = "scheduling.x-k8s.io/v1alpha1", self.size + self.helpers
        group = manifest("PodGroup", "g", "default", annotations=asks, spec={"minMember": size})
        yield {**group, "apiVersion": api}
        for number in range(self.size):
            yield self._member(f"g-{number}")
        for number in range(self.helpers):
            yield pod_manifest(f"h-{number}", labels={GROUP: "g", ROLE: "helper"}, cpu="10m")

    def _member(self, name: str) -> Plain:
        spec: Plain = {"cpu": "1"}
        selector = {"matchLabels": APP}
        if self.inside:
            spec["nodeSelector"] = {RACK: self.inside}
        if "apart" in self.limits:
            term = {"labelSelector": selector, "topologyKey": HOSTNAME}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if "spread" in self.limits:
            evenly = {"maxSkew": self.skew, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [{**evenly, "labelSelector": selector}]
        if "claims" in self.limits:
            spec["resourceClaims"] = [{"name": "dev", "resourceClaimTemplateName": "one"}]
        notes = {"gpu-fraction": "0.5"} if "fractions" in self.limits else {}
        pod = pod_manifest(name, labels={GROUP: "g", ROLE: "member", **APP}, annotations=notes, **spec)
        if "ports" in self.limits:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        return pod


class Host(NamedTuple):
    """A host and how many members it is to take at most."""

    name: str
    rack: str
    takes: int

    def objects(self, gang: Gang, cpu: int) -> Iterator[Plain]:
        """The node, and what makes it take no more."""
        labels = {ZONE: "z", RACK: self.rack}
        node = node_manifest(self.name, cpu=str(cpu), labels=labels)
        if "fractions" in gang.limits:
            node["status"]["capacity"]["nvidia.com/gpu"] = str((self.takes + 1) // 2)
            if self.takes % 2:
                half = {"gpu-fraction": "0.5", "moorage.dev/devices": "0"}
                yield pod_manifest(f"half-{self.name}", annotations=half, nodeName=self.name, cpu="10m")
        node["status"]["allocatable"] = dict(node["status"]["capacity"])
        yield node
        if "claims" in gang.limits and self.takes:
            yield _slice(self.name, self.takes)
        if gang.limits & {"ports", "apart"} and not self.takes:
            yield from self._taken(gang)

    def _taken(self, gang: Gang) -> Iterator[Plain]:
        pod = pod_manifest(f"there-{self.name}", labels=APP, nodeName=self.name, cpu="10m")
        if "ports" in gang.limits:
            pod["metadata"]["labels"] = {}
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        yield pod


def _slice(node: str, number: int) -> Plain:
    devices = [{"name": f"gpu{each}"} for each in range(number)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return manifest("ResourceSlice", node, spec={"driver": "d", "nodeName": node, "pool": pool, "devices": devices})


def _devices() -> list[Plain]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    return [
        manifest("DeviceClass", "gpu", spec={}),
        manifest("ResourceClaimTemplate", "one", "default", spec={"spec": {"devices": {"requests": [request]}}}),
    ]


def cluster(gang: Gang, racks: Sequence[Sequence[int]], cpu: int = 16) -> list[Plain]:
    """A cluster whose hosts take so many members each."""
    objects: list[Plain] = [*_devices(), *gang.objects()]
    levels = [ZONE, RACK, HOSTNAME]
    topology = manifest("Topology", "t", spec={"levels": levels})
    objects.append({**topology, "apiVersion": "moorage.dev/v1alpha1"})
    for rack, takes in enumerate(racks):
        for number, most in enumerate(takes):
            objects += Host(f"r{rack}n{number}", f"r{rack}", most).objects(gang, cpu)
    return objects


def simulated(objects: Sequence[Mapping[str, Any]]) -> SimulationOutcome:
    """Simulate with a profile that counts shares of GPUs."""
    found = read_configuration(SHARING.read_bytes(), "config.yaml", Registry(BUILTIN)).configuration
    assert found is not None
    return run(objects, SimulationRules(build_profiles(found, Registry(BUILTIN)), EngineSettings()))


def hosts_of(objects: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The host of each member."""
    return [node for key, node in places(simulated(objects)).items() if key.startswith(("default/g-", "default/h-"))]


CASES = {
    "hosts with 2, 1 and 1 free devices": (Gang(frozenset({"claims"}), 4), [[2, 1, 1]]),
    "twelve hosts, the full ones first": (Gang(frozenset({"claims"}), 5), [[0, 1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 1]]),
    "the second rack has the devices": (Gang(frozenset({"claims"}), 5), [[2, 1, 1], [1, 1, 3]]),
    "devices, and helpers without": (Gang(frozenset({"claims"}), 4, helpers=3), [[2, 1], [3, 1]]),
    "shares of GPUs": (Gang(frozenset({"fractions"}), 5), [[1, 3, 1]]),
    "a port on hosts some of which have it in use": (Gang(frozenset({"ports"}), 3), [[1, 0, 1, 1, 0]]),
    "members apart from each other": (Gang(frozenset({"apart"}), 3), [[0, 1, 1, 1], [1, 1, 0, 0]]),
    "five spread over three hosts": (Gang(frozenset({"spread"}), 5), [[2, 2, 1]]),
    "seven spread over a rack of two": (Gang(frozenset({"spread"}), 6, inside="r1"), [[9, 9, 9], [3, 3]]),
    "spread, with devices on most hosts": (Gang(frozenset({"spread", "claims"}), 3, skew=2), [[0, 1, 2]]),
}


@pytest.mark.parametrize(("gang", "racks"), CASES.values(), ids=CASES.keys())
def test_a_gang_that_fits_its_level_starts(gang: Gang, racks: list[list[int]]) -> None:
    """What one host takes says nothing about the next one, and what stands against a member now may be lifted."""
    hosts = hosts_of(cluster(gang, racks))
    assert None not in hosts
    assert len({host.split("n")[0] for host in hosts if host}) == 1


def test_a_gang_that_does_not_fit_waits() -> None:
    """The reason counts what was found out about every host."""
    outcome = simulated(cluster(Gang(frozenset({"claims"}), 5), [[2, 1, 1]]))
    messages = {story.message or "" for story in outcome.pods if story.name.startswith("g-")}
    assert all("rack z/r0 has room for 4 of 5 pods" in message for message in messages)


_TAKES_ONE = frozenset({"ports", "apart"})
_LIMITS = ("claims", "fractions", "ports", "apart", "spread")


def made(seed: int) -> tuple[Gang, list[list[int]], int]:
    """A gang, hosts in one rack of which it fits exactly, and their cpu."""
    draw = random.Random(seed)
    limits = frozenset(draw.sample(_LIMITS, draw.choice((1, 1, 2))))
    number, skew, inside = draw.randint(1, 3), draw.randint(1, 2), draw.random() < 0.5
    right = draw.randrange(number)
    least = draw.randint(0, 2) if "spread" in limits and (inside or number == 1) else 0
    most = 1 if limits & _TAKES_ONE else least + skew if "spread" in limits else 4
    racks = [[draw.randint(min(least, most), most) for _ in range(draw.randint(2, 5))] for _ in range(number)]
    racks[right][0] = max(racks[right][0], 1)
    size = sum(racks[right])
    for rack, takes in enumerate(racks):
        while rack != right and sum(takes) >= size:
            takes[takes.index(max(takes))] -= 1
    level = draw.choice((RACK, ZONE)) if number == 1 else RACK
    gang = Gang(limits, size, level, skew, f"r{right}" if inside else "", draw.choice((0, 0, 2)))
    return gang, racks, draw.choice((16, max(map(max, racks)) + 1))


@pytest.mark.parametrize("seed", range(60))
def test_a_random_gang_that_fits_exactly_starts(seed: int) -> None:
    """By construction there is one rack, at least, with a place for every member."""
    gang, racks, cpu = made(seed)
    hosts = hosts_of(cluster(gang, racks, cpu))
    assert None not in hosts
