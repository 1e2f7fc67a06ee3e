"""Simulations with the shipped example: every convention, the indices that are printed, and the published trace."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from moorage.adapters.memory.manifests import node_manifest, pod_manifest
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.report import write_json
from moorage.sim.simulation import SimulationRules
from moorage.wire.configuration import read_configuration
from tests.plugins.controlled import simulated
from tests.sim.openb_claims import claiming, devices_by_pod

ROOT = Path(__file__).parents[2]
TRACE = ROOT.parent / "shared" / "traces" / "openb"
EXAMPLE = ROOT / "examples" / "gpu-sharing.yaml"
CONVENTIONS = ("kai", "hami", "koordinator", "alibaba")


def rules() -> SimulationRules:
    registry = Registry(BUILTIN)
    reading = read_configuration(EXAMPLE.read_bytes(), EXAMPLE.name, registry)
    assert reading.configuration is not None, reading.problems
    return SimulationRules(build_profiles(reading.configuration, registry), EngineSettings())


def gpus(outcome: SimulationOutcome) -> dict[str, list[int] | None]:
    """Pod -> what `-o json` prints of its devices."""
    text = StringIO()
    write_json(outcome, text)
    return {pod["name"]: pod.get("gpus") for pod in json.loads(text.getvalue())["pods"]}


def asking(name: str, annotations: Mapping[str, str], limits: Mapping[str, str] | None = None) -> dict[str, Any]:
    pod: dict[str, Any] = pod_manifest(name)
    pod["metadata"]["annotations"] = dict(annotations)
    limits = limits or {}
    resources = {"requests": {"cpu": "1", **limits}, "limits": dict(limits)}
    pod["spec"]["containers"][0]["resources"] = resources
    return pod


def test_mig_profiles_are_devices_of_their_own() -> None:
    """Counted one by one, and apart from the GPUs that are shared."""
    node = node_manifest("n1")
    profile = "nvidia.com/mig-1g.5gb"
    node["status"]["allocatable"] = node["status"]["capacity"] = {
        "cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "1", profile: "2",
    }  # fmt: skip
    pods = [asking(f"mig-{number}", {}, {profile: "1"}) for number in range(3)]
    outcome = simulated([node, *pods, asking("whole", {}, {"nvidia.com/gpu": "1"})], rules())
    assert {pod.name: pod.node for pod in outcome.pods} == {"mig-0": "n1", "mig-1": "n1", "mig-2": None, "whole": "n1"}
    assert gpus(outcome) == {"mig-0": None, "mig-1": None, "mig-2": None, "whole": [0]}
    late = next(pod for pod in outcome.pods if pod.name == "mig-2")
    assert f"Insufficient {profile}" in (late.message or "")


def test_devices_are_printed_and_no_device_holds_too_much() -> None:
    node = node_manifest("n1")
    node["status"]["allocatable"] = node["status"]["capacity"] = {
        "cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "3",
    }  # fmt: skip
    pods = [asking(f"share-{number}", {"gpu-fraction": "0.6"}) for number in range(2)]
    pods += [asking("whole", {}, {"nvidia.com/gpu": "1"}), asking("late", {"gpu-fraction": "0.5"}), asking("cpu", {})]
    outcome = simulated([node, *pods], rules())
    assert gpus(outcome) == {"share-0": [0], "share-1": [1], "whole": [2], "late": None, "cpu": None}
    late = next(pod for pod in outcome.pods if pod.name == "late")
    assert late.message is not None
    assert "Insufficient devices with 500m compute left" in late.message


@pytest.fixture
def trace() -> Iterator[ModuleType]:
    """The converter of the published trace; the yardsticks lie beside the checkout."""
    if not TRACE.is_dir():
        pytest.skip("the trace is not beside the checkout")
    sys.path.insert(0, str(TRACE))
    try:
        yield importlib.import_module("fgd_manifests")
    finally:
        sys.path.remove(str(TRACE))


def test_every_convention_gives_the_same_plan(trace: ModuleType) -> None:
    """The first arrivals of the published experiment, on every tenth node."""
    known = trace.fgd.Trace()
    order = known.arrivals(42)[:700]
    plans = {}
    for convention in CONVENTIONS:
        world = trace.world(known, order, convention)["items"]
        nodes = [each for each in world if each["kind"] == "Node"][::10]
        outcome = simulated([*nodes, *(each for each in world if each["kind"] == "Pod")], rules())
        placement = {pod.name: (pod.node, list(pod.devices) or None) for pod in outcome.pods if pod.node}
        _, _, misfits = trace.figures(known, order, placement)
        assert not misfits
        plans[convention] = placement
        if convention == "kai":
            claimed = simulated(claiming([*nodes, *(each for each in world if each["kind"] == "Pod")]), rules())
            devices = devices_by_pod(claimed.claims)
            plans["claims"] = {pod.name: (pod.node, devices.get(pod.name) or None) for pod in claimed.pods if pod.node}
    assert len(plans["kai"]) > 500
    for convention in (*CONVENTIONS, "claims"):
        assert plans[convention] == plans["kai"], convention
