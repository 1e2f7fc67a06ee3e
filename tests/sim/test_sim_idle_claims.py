"""Claims that hold devices and are reserved for nobody: one pod's decision gives up what another pod names, too."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest
from moorage.core.labelnames import HOSTNAME
from tests.sim.simulating import places, run

Plain = dict[str, Any]


def published(node: str, devices: int) -> Plain:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": f"g{number}"} for number in range(devices)]
    return manifest("ResourceSlice", node, spec={"driver": "d", "nodeName": node, "pool": pool, "devices": listed})


def idle(name: str, node: str) -> Plain:
    """A claim that holds the first device of a node."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    result = {"request": "r", "driver": "d", "pool": node, "device": "g0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    finalizers = ["resource.kubernetes.io/delete-protection"]
    spec, status = {"devices": {"requests": [request]}}, {"allocation": allocation}
    return manifest("ResourceClaim", name, "default", uid=name, finalizers=finalizers, spec=spec, status=status)


def naming(name: str, claim: str, node: str = "") -> Plain:
    selector: Plain = {"nodeSelector": {HOSTNAME: node}} if node else {}
    return pod_manifest(name, resourceClaims=[{"name": "x", "resourceClaimName": claim}], **selector)


class Case(NamedTuple):
    """Devices of the nodes a and b, claims and pods, and where the pods come to run."""

    devices: int
    claims: list[Plain]
    pods: list[Plain]
    want: dict[str, str | None]


CASES = {
    "the first pod takes it elsewhere, the second one follows": Case(
        2,
        [idle("c", "a")],
        [naming("first", "c", "b"), naming("second", "c")],
        {"default/first": "b", "default/second": "b"},
    ),
    "the first pod fits nowhere, the second one gets devices anew": Case(
        1,
        [idle("c", "a"), idle("d", "b")],
        [naming("first", "c", "b"), naming("other", "d"), naming("second", "c")],
        {"default/first": None, "default/other": "b", "default/second": "a"},
    ),
    "the second pod cannot follow": Case(
        2,
        [idle("c", "a")],
        [naming("first", "c", "b"), naming("second", "c", "a")],
        {"default/first": "b", "default/second": None},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_claim_that_is_given_up_is_allocated_anew(case: Case) -> None:
    """As if each pod had been created once the one before it was decided."""
    nodes = [each for name in "ab" for each in (node_manifest(name), published(name, case.devices))]
    outcome = run([*nodes, manifest("DeviceClass", "gpu", spec={}), *case.claims, *case.pods])
    assert places(outcome) == case.want
    assert not any("in the meantime" in (story.message or "") for story in outcome.pods)
