"""Mistakes in claims, classes and slices that only an API server, or an allocator, would notice otherwise."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.checks import FileFindings, check_file
from tests.docs.fences import ROOT

Plain = dict[str, Any]


def checked(*bodies: Plain) -> FileFindings:
    data = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
    return check_file("f", data, Registry(BUILTIN))


def thing(kind: str, spec: Plain, name: str = "x") -> Plain:
    api = "v1" if kind == "Pod" else "resource.k8s.io/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def claim(request: Plain, **devices: Any) -> Plain:
    return thing("ResourceClaim", {"devices": {"requests": [{"name": "r", **request}], **devices}})


def exactly(**fields: Any) -> Plain:
    return claim({"exactly": {"deviceClassName": "gpu", **fields}})


def selector(expression: str) -> list[Plain]:
    return [{"cel": {"expression": expression}}]


ONE: Plain = {"exactly": {"deviceClassName": "gpu"}}
SLICE: Plain = {"driver": "d", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        pytest.param(exactly(count=33), "spec.devices", "asks for 33 devices; a claim can hold 32", id="too many"),
        pytest.param(
            exactly(allocationMode="All", count=1),
            "exactly.count",
            "must be left out with allocationMode All",
            id="all",
        ),
        pytest.param(exactly(allocationMode="Al"), "allocationMode", "is unknown; write one of", id="mode"),
        pytest.param(exactly(selectors=selector("device.drivr")), "expression", "undefined field 'drivr'", id="CEL"),
        pytest.param(exactly(selectors=[{"cel": {}}]), "expression", "is missing; write a CEL expression", id="no CEL"),
        pytest.param(exactly(selector=[]), "exactly.selector", "did you mean selectors?", id="misspelt"),
        pytest.param(claim({"exactly": {}}), "deviceClassName", "is missing; name a DeviceClass", id="no class"),
        pytest.param(claim({}), "requests[0]", "asks for nothing; write exactly or firstAvailable", id="nothing"),
        pytest.param(
            claim(ONE, constraints=[{"matchAttribute": "model"}]), "matchAttribute", "has no domain", id="no domain"
        ),
        pytest.param(claim(ONE, constraints=[{}]), "constraints[0]", "must have either", id="empty constraint"),
        pytest.param(
            claim(ONE, constraints=[{"matchAttribute": "d/a", "requests": ["s"]}]),
            "constraints[0].requests",
            "is not a request of this claim",
            id="unknown request",
        ),
        pytest.param(
            claim({"firstAvailable": [{"name": str(n), "deviceClassName": "gpu"} for n in range(9)]}),
            "firstAvailable",
            "has too many alternatives",
            id="alternatives",
        ),
        pytest.param(
            thing("DeviceClass", {"selectors": selector("1 +")}), "selectors[0]", "compilation failed", id="class"
        ),
        pytest.param(
            thing("ResourceSlice", {**SLICE, "allNodes": True}), "spec", "must say once which nodes", id="two reaches"
        ),
        pytest.param(
            thing("ResourceSlice", {**SLICE, "devices": [{"name": "a"}, {"name": "a"}]}),
            "spec.devices",
            "is the name of several devices",
            id="same names",
        ),
        pytest.param(
            thing("ResourceSlice", {**SLICE, "devices": [{"name": "a", "atributes": {}}]}),
            "spec.devices[0].atributes",
            "did you mean attributes?",
            id="misspelt in a list",
        ),
        pytest.param(
            thing("ResourceSlice", {**SLICE, "devices": [{"name": "a", "attributes": {"m": {}}}]}),
            "attributes.m",
            "must have one value",
            id="no value",
        ),
        pytest.param(
            thing("ResourceClaimTemplate", {"spec": {"devices": {"requests": [{"name": "r"}]}}}),
            "spec.spec.devices.requests[0]",
            "asks for nothing",
            id="template",
        ),
        pytest.param(
            thing("Pod", {"containers": [{"name": "m", "resources": {"claims": [{"name": "gp"}]}}]}),
            "containers[0].resources.claims[0]",
            "is not in resourceClaims of the pod",
            id="container",
        ),
        pytest.param(
            thing("Pod", {"containers": [], "resourceClaims": [{"name": "gpu"}]}),
            "spec.resourceClaims[0]",
            "must have either resourceClaimName",
            id="claim of nothing",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(body: Plain, path: str, message: str) -> None:
    """One line for each, with what to do."""
    (problem,) = checked(body).problems
    assert path in problem.path
    assert message in problem.message


def test_names_of_requests() -> None:
    """Each has one of its own."""
    body = thing("ResourceClaim", {"devices": {"requests": [{"name": "r", **ONE}, {"name": "r", **ONE}, ONE]}})
    messages = [problem.message for problem in checked(body).problems]
    assert messages == ["is the name of several requests; names must differ", "a request has no name; give it one"]


def test_names_that_are_no_text_are_told_once_each() -> None:
    """By reading; other rules leave them alone."""
    bodies = (
        claim({"exactly": {"deviceClassName": ["gpu"]}}),
        thing("DeviceClass", {}, "gpu"),
        thing("ResourceSlice", {**SLICE, "devices": [{"name": {}}, {"name": {}}]}),
    )
    messages = [problem.message for problem in checked(*bodies).problems]
    assert len(messages) == 2
    assert all("does not fit (expected str" in message for message in messages)


def test_a_class_that_is_perhaps_misspelt_is_noted() -> None:
    """Others may be in the cluster."""
    near, far = thing("DeviceClass", {}, "gpus"), thing("DeviceClass", {}, "network")
    assert "did you mean gpus?" in checked(exactly(), near).notices[0].message
    assert checked(exactly(), far).notices == []
    assert "no DeviceClass of this name" in checked(exactly(), far, thing("ResourceSlice", SLICE)).notices[0].message
    assert checked(exactly(), thing("DeviceClass", {}, "gpu")).notices == []


@pytest.mark.parametrize("name", ["devices", "device-claims"])
def test_the_examples_are_right(name: str) -> None:
    """No problems, no notes."""
    path = ROOT / f"examples/{name}.yaml"
    found = check_file(str(path), path.read_bytes(), Registry(BUILTIN))
    assert (found.problems, found.notices) == ([], [])
