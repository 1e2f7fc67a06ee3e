"""Pods follow their allocated device claims, and are never bound without an allocation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from moorage.core.claims import Allocation, ClaimConsumer, DeviceClass, ResourceClaim
from moorage.core.commands import PatchObject
from moorage.core.pods import UNRESOLVED_CLAIM
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.status import Code, Hold, Status
from moorage.plugins.dynamic_resources import DynamicResources, DynamicResourcesArgs
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask
from moorage.testing.builders import make_node_term
from moorage.testing.storage import put

ELSEWHERE = ("resourceclaim not available on the node", False)


def claim(name: str = "gpu", **fields: Any) -> ResourceClaim:
    return ResourceClaim("default", name, f"claim/{name}", **{"allocation": Allocation(), **fields})


def on(term: str) -> Allocation:
    return Allocation(node_terms=(make_node_term(term),))


def test_an_allocation_decides_where_the_pod_can_go() -> None:
    """By label or by name of the node; without a node selector everywhere."""
    state = make_state([make_node("a", zone="z"), make_node("b")])
    put(state, claim("here", allocation=on("metadata.name In a")), claim("anywhere"))
    put(state, claim("zonal", allocation=on("topology.kubernetes.io/zone In z")))
    for names in (("here",), ("anywhere", "here"), ("zonal",)):
        answer = ask(DynamicResources(), state, make_pod("p", claims=names))
        assert answer.reasons == {"a": (), "b": (ELSEWHERE,)}
    assert ask(DynamicResources(), state, make_pod("p", claims=("anywhere",))).reasons == {"a": (), "b": ()}


REFUSALS = [
    pytest.param({"claims": ("gpu",)}, [], 'could not find resource claim "default/gpu"', id="missing"),
    pytest.param(
        {"claims": ("gpu",)},
        [claim(allocation=None)],
        'resourceclaim "default/gpu" is not allocated, and this scheduler does not allocate devices',
        id="not allocated",
    ),
    pytest.param({"claims": ("gpu",)}, [claim(deleting=True)], 'resourceclaim "gpu" is being deleted', id="going away"),
    pytest.param(
        {"claims": (UNRESOLVED_CLAIM + "gpu",)},
        [],
        'pod "default/p": ResourceClaim not created yet: gpu',
        id="not made yet",
    ),
    pytest.param(
        {"requests": {"example.com/gpu": 1}},
        [DeviceClass("gpus", "example.com/gpu")],
        'extended resource "example.com/gpu" is backed by DeviceClass "gpus", and this scheduler does not allocate '
        "devices",
        id="extended resource",
    ),
    pytest.param(
        {"requests": {"deviceclass.resource.kubernetes.io/gpus": 1}},
        [DeviceClass("gpus")],
        'extended resource "deviceclass.resource.kubernetes.io/gpus" is backed by DeviceClass "gpus", and this '
        "scheduler does not allocate devices",
        id="by the name of the class",
    ),
]


@pytest.mark.parametrize(("spec", "objects", "want"), REFUSALS)
def test_pods_that_would_need_an_allocation_wait(spec: dict[str, Any], objects: list[Any], want: str) -> None:
    """The reason names the claim; removing pods does not help."""
    state = put(make_state([make_node("a")]), *objects)
    pod = make_pod("p", **spec)
    assert DynamicResources().concerns(pod.template, state)
    assert DynamicResources().pre_filter(Cycle(pod, state, 0.0)) == Status(Code.UNRESOLVABLE, (want,))


def test_a_node_that_offers_the_resource_itself_will_do() -> None:
    """A device plugin and a DeviceClass may name the same resource: only nodes without it would need an allocation."""
    state = make_state([make_node("plugin", resources={"example.com/gpu": 4}), make_node("bare")])
    put(state, DeviceClass("gpus", "example.com/gpu"))
    answer = ask(DynamicResources(), state, make_pod("p", requests={"example.com/gpu": 1}))
    want = (
        'extended resource "example.com/gpu" is backed by DeviceClass "gpus", and this scheduler does not allocate '
        "devices"
    )
    assert answer.reasons == {"plugin": (), "bare": ((want, False),)}


@pytest.mark.parametrize(
    "spec", [pytest.param({}, id="plain"), pytest.param({"requests": {"example.com/gpu": 1}}, id="device plugin")]
)
def test_pods_without_claims_skip_the_plugin(spec: dict[str, Any]) -> None:
    """An extended resource that no DeviceClass stands behind is a device plugin's."""
    state = make_state([make_node("a")])
    pod = make_pod("p", **spec)
    assert ask(DynamicResources(), state, pod).filter_skipped
    assert not DynamicResources().concerns(pod.template, state)


def test_pre_bind_writes_the_pod_into_its_claims() -> None:
    """It waits until the claims show it, and gives up if an allocation vanishes meanwhile."""
    state = put(make_state([make_node("a")]), claim())
    pod = make_pod("p", claims=("gpu",))
    plugin, cycle = DynamicResources(), Cycle(pod, state, 100.0)
    answer = plugin.pre_bind(cycle, 0)
    assert isinstance(answer, Hold)
    assert answer.deadline_s == 700.0
    (command,) = answer.commands
    assert isinstance(command, PatchObject)
    assert (command.kind, command.name, command.uid, command.subresource) == (
        "ResourceClaim",
        "gpu",
        "claim/gpu",
        "status",
    )
    assert command.patch == {"status": {"reservedFor": ({"resource": "pods", "name": "p", "uid": pod.uid},)}}
    reserved = claim(reserved_for=(ClaimConsumer("pods", "p", pod.uid),))
    put(state, reserved)
    assert plugin.pre_bind(cycle, 0) is None
    put(state, replace(reserved, allocation=None))
    lost = plugin.pre_bind(cycle, 0)
    assert isinstance(lost, Status)
    assert lost.code is Code.ERROR


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"filterTimeout": "-1s"}, id="negative"),
        pytest.param({"bindingTimeout": "500ms"}, id="less than a second"),
        pytest.param({"bindingTimeout": 5}, id="no unit"),
        pytest.param({"timeout": "5s"}, id="unknown"),
    ],
)
def test_bad_arguments(given: dict[str, Any]) -> None:
    """What kube-scheduler refuses is refused."""
    with pytest.raises(ValidationError):
        DynamicResourcesArgs.model_validate(given)


def test_only_its_own_claims_wake_a_pod() -> None:
    """A DeviceClass may always help."""
    template = make_pod("p", claims=("gpu",)).template
    assert DynamicResources().helps(template, Change(What.OBJECT, kind="ResourceClaim", key="default/gpu"))
    assert not DynamicResources().helps(template, Change(What.OBJECT, kind="ResourceClaim", key="default/tpu"))
    assert DynamicResources().helps(template, Change(What.OBJECT, kind="DeviceClass", key="gpus"))


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(DynamicResources)
