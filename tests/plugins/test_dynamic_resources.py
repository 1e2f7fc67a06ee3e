"""Pods get the devices that their claims ask for, or go where their claims have them already."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from pydantic import ValidationError

from moorage.core.claims import (
    Allocation,
    ClaimConsumer,
    DeviceChoice,
    DeviceCondition,
    DeviceRequest,
    DeviceStatus,
    ResourceClaim,
)
from moorage.core.commands import PatchObject, RecordEvent, Verb
from moorage.core.frozen import FrozenDict
from moorage.core.pods import UNRESOLVED_CLAIM, Owner, Pod
from moorage.core.state import ClusterState
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Judgement, PluginRejections, Runner
from moorage.framework.status import Code, Hold, Status
from moorage.plugins.dynamic_resources import DynamicResources, DynamicResourcesArgs
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask
from moorage.testing.builders import make_node_term
from moorage.testing.devices import make_allocation, make_device, make_device_class, make_resource_claim, make_slice
from moorage.testing.storage import put

ELSEWHERE = ("resourceclaim not available on the node", False)
NONE = ("cannot allocate all claims", False)
GPUS = make_device_class("gpu", extended_resource="example.com/gpu")


def claim(name: str = "gpu", **fields: Any) -> ResourceClaim:
    return ResourceClaim("default", name, f"claim/{name}", **{"allocation": Allocation(), **fields})


def on(term: str) -> Allocation:
    return Allocation(node_terms=(make_node_term(term),))


def cluster(*devices: str) -> ClusterState:
    """Node `a` has these devices, node `b` has none."""
    return put(make_state([make_node("a"), make_node("b")]), GPUS, make_slice("s", node="a", devices=devices))


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
    pytest.param(("gpu",), [], 'could not find v1.ResourceClaim "default/gpu"', id="missing"),
    pytest.param(("gpu",), [claim(deleting=True)], 'resourceclaim "gpu" is being deleted', id="going away"),
    pytest.param((UNRESOLVED_CLAIM + "gpu",), [], 'pod "default/p": ResourceClaim not created yet', id="not made yet"),
    pytest.param(
        ("gpu",),
        [make_resource_claim("gpu", DeviceChoice(device_class="none"))],
        "request r0: device class none does not exist",
        id="no such class",
    ),
    pytest.param(
        ("gpu",),
        [make_resource_claim("gpu", requests=(DeviceRequest("r", alternatives=(DeviceChoice("s", "none"),)),))],
        "request r/s: device class none does not exist",
        id="no such class for an alternative",
    ),
    pytest.param(
        ("gpu",),
        [claim(reserved_for=tuple(ClaimConsumer("pods", f"q{n}", f"u{n}") for n in range(256)))],
        "resourceclaim in use",
        id="too many consumers",
    ),
]


@pytest.mark.parametrize(("claims", "objects", "want"), REFUSALS)
def test_pods_that_no_node_can_serve_wait(claims: tuple[str, ...], objects: list[Any], want: str) -> None:
    """In the words of kube-scheduler; removing pods does not help."""
    state = put(make_state([make_node("a")]), *objects)
    pod = make_pod("p", claims=claims)
    assert DynamicResources().concerns(pod.template, state)
    assert DynamicResources().pre_filter(Cycle(pod, state, 0.0)) == Status(Code.UNRESOLVABLE, (want,))


def test_devices_are_looked_for_on_every_node() -> None:
    """A claim that is on its way to its devices keeps others from being decided on."""
    state = put(cluster("g0"), make_resource_claim("gpu"))
    pod = make_pod("p", claims=("gpu",))
    assert ask(DynamicResources(), state, pod).reasons == {"a": (), "b": (NONE,)}
    put(state, make_resource_claim("other", allocation=make_allocation("a/g0")))
    assert ask(DynamicResources(), state, pod).reasons == {"a": (NONE,), "b": (NONE,)}
    state.devices.reserve("q", {"default/gpu": make_allocation("a/g0")})
    want = "resource claim default/gpu is in the process of being allocated"
    assert DynamicResources().pre_filter(Cycle(pod, state, 0.0)) == Status(Code.UNRESOLVABLE, (want,))


def test_slices_that_contradict_each_other_are_named() -> None:
    """Where nothing else could be allocated."""
    state = put(cluster("g0", "g0"), make_resource_claim("gpu"))
    answer = ask(DynamicResources(), state, make_pod("p", claims=("gpu",)))
    assert answer.reasons["a"] == (("invalid resource pools were encountered", False),)


def test_a_selector_that_fails_ends_the_attempt() -> None:
    """Whatever other nodes have."""
    state = put(cluster("g0"), make_resource_claim("gpu", DeviceChoice(device_class="gpu", selectors=("1",))))
    plugin, cycle = DynamicResources(), Cycle(make_pod("p", claims=("gpu",)), state, 0.0)
    plugin.pre_filter(cycle)
    answer = plugin.filter(cycle, state.rows())
    assert answer is not None
    assert answer.failure.startswith("claim default/gpu: selector #0: CEL compile error: ")
    assert answer.bits.all()


def test_nodes_where_the_first_alternative_is_left_score_best() -> None:
    """8 points for the first alternative of a request, 7 for the next; the best node gets 100."""
    state = put(
        make_state([make_node("a"), make_node("b")]),
        make_device_class("big", 'device.attributes["gpu.example.com"].big'),
        make_slice("sa", node="a", devices=[make_device("g", big=True)]),
        make_slice("sb", node="b", devices=[make_device("g", big=False)]),
        GPUS,
        make_resource_claim(
            "gpu",
            requests=(DeviceRequest("r", alternatives=(DeviceChoice("one", "big"), DeviceChoice("two", "gpu"))),),
        ),
    )
    answer = ask(DynamicResources(), state, make_pod("p", claims=("gpu",)))
    assert answer.scores == {"a": 8, "b": 7}
    assert answer.normalized == {"a": 100, "b": 87}


@pytest.mark.parametrize(
    "spec", [pytest.param({}, id="plain"), pytest.param({"requests": {"example.com/gpu": 1}}, id="device plugin")]
)
def test_pods_without_claims_skip_the_plugin(spec: dict[str, Any]) -> None:
    """An extended resource that no DeviceClass stands behind is a device plugin's."""
    state = make_state([make_node("a")])
    pod = make_pod("p", **spec)
    assert ask(DynamicResources(), state, pod).filter_skipped
    assert not DynamicResources().concerns(pod.template, state)


def begun(state: ClusterState, pod: Pod) -> tuple[DynamicResources, Cycle]:
    """The pod has reserved what it needs on node `a`."""
    plugin, cycle = DynamicResources(), Cycle(pod, state, 100.0)
    assert plugin.pre_filter(cycle) is None
    plugin.filter(cycle, state.rows())
    row = state.row_of("a")
    assert row is not None
    assert plugin.reserve(cycle, row) is None
    return plugin, cycle


def held(plugin: DynamicResources, cycle: Cycle) -> list[PatchObject]:
    """What PreBind writes next."""
    answer = plugin.pre_bind(cycle, cycle.state.row_of("a") or 0)
    assert isinstance(answer, Hold)
    return [command for command in answer.commands if isinstance(command, PatchObject)]


def test_devices_are_written_to_the_claim_step_by_step() -> None:
    """Protection first, then devices and reservation in one write; then nothing is reserved in memory any more."""
    state = put(cluster("g0"), make_resource_claim("gpu"))
    pod = make_pod("p", claims=("gpu",))
    plugin, cycle = begun(state, pod)
    assert state.devices.pending("default/gpu") is not None
    (first,) = held(plugin, cycle)
    assert first.patch == {"metadata": {"finalizers": ("resource.kubernetes.io/delete-protection",)}}
    put(state, make_resource_claim("gpu", protected=True))
    (second,) = held(plugin, cycle)
    assert second.subresource == "status"
    assert second.patch["status"]["reservedFor"] == ({"resource": "pods", "name": "p", "uid": pod.uid},)
    written = second.patch["status"]["allocation"]
    assert written["devices"] == {
        "results": ({"request": "r0", "driver": "gpu.example.com", "pool": "a", "device": "g0"},)
    }
    assert written["allocationTimestamp"] == "1970-01-01T00:01:40Z"
    allocation = state.devices.pending("default/gpu")
    consumers = (ClaimConsumer("pods", "p", pod.uid),)
    put(state, make_resource_claim("gpu", protected=True, allocation=allocation, reserved_for=consumers))
    assert plugin.pre_bind(cycle, 0) is None
    assert not state.devices.reservations


def test_a_claim_that_others_allocated_meanwhile_ends_the_way() -> None:
    """And one that lost its devices does."""
    state = put(cluster("g0"), make_resource_claim("gpu"))
    plugin, cycle = begun(state, make_pod("p", claims=("gpu",)))
    put(state, make_resource_claim("gpu", allocation=make_allocation("a/other")))
    want = ("claim default/gpu got allocated elsewhere in the meantime",)
    assert plugin.pre_bind(cycle, 0) == Status(Code.ERROR, want)
    plugin.unreserve(cycle, 0)
    assert not state.devices.reservations
    put(state, make_resource_claim("gpu"))
    assert plugin.pre_bind(cycle, 0) == Status(
        Code.ERROR, ("claim default/gpu got deallocated elsewhere in the meantime",)
    )


def waiting(**status: Any) -> ResourceClaim:
    allocation = make_allocation("a/g0", binding_conditions=("ready",), binding_failure_conditions=("broken",))
    fields = {"reserved_for": (ClaimConsumer("pods", "p", "default/p"),), **status}
    return make_resource_claim("gpu", allocation=replace(allocation, allocated_s=100.0), **fields)


def told(**conditions: str) -> tuple[DeviceStatus, ...]:
    made = tuple(DeviceCondition(name, status, "why", "m") for name, status in conditions.items())
    return (DeviceStatus("gpu.example.com", "a", "g0", made),)


def test_drivers_have_to_be_ready() -> None:
    """They have bindingTimeout since the allocation; a failure ends the way."""
    state = put(cluster("g0"), waiting())
    plugin, cycle = DynamicResources(), Cycle(make_pod("p", claims=("gpu",)), state, 110.0)
    answer = plugin.pre_bind(cycle, state.row_of("a") or 0)
    assert isinstance(answer, Hold)
    assert answer.deadline_s == 700.0
    assert [command.reason for command in answer.commands if isinstance(command, RecordEvent)] == [
        "BindingConditionsPending"
    ]
    put(state, waiting(devices=told(ready="True")))
    assert plugin.pre_bind(cycle, 0) is None
    put(state, waiting(devices=told(ready="False", broken="True")))
    failed = plugin.pre_bind(cycle, 0)
    assert isinstance(failed, Status)
    assert failed.reasons == ('device binding failed: claim=gpu, reason=why, message="m"',)


@pytest.mark.parametrize(
    ("found", "now", "want"),
    [
        pytest.param(waiting(devices=told(broken="True")), 110.0, True, id="drivers failed"),
        pytest.param(waiting(), 701.0, True, id="too late"),
        pytest.param(waiting(), 110.0, False, id="still time"),
        pytest.param(claim(allocation=on("metadata.name In gone")), 110.0, True, id="no such node"),
        pytest.param(
            claim(allocation=on("metadata.name In gone"), reserved_for=(ClaimConsumer("pods", "q", "u"),)),
            110.0,
            False,
            id="others use it",
        ),
    ],
)
def test_a_claim_that_stands_against_all_nodes_is_deallocated(found: ResourceClaim, now: float, want: bool) -> None:
    """If nobody else needs it; the update wakes the pod."""
    state = put(cluster("g0"), found)
    plugin, cycle, rows = DynamicResources(), Cycle(make_pod("p", claims=("gpu",)), state, now), state.rows()
    assert plugin.pre_filter(cycle) is None
    rejections = plugin.filter(cycle, rows)
    verdicts = () if rejections is None else (PluginRejections(plugin.name, rows, rejections),)
    answer = plugin.post_filter(cycle, cast("Runner", None), Judgement(rows[:0], verdicts))
    commands = answer.commands if isinstance(answer, Status) else ()
    assert [command.patch["status"] for command in commands if isinstance(command, PatchObject)] == (
        [{"allocation": None, "reservedFor": None, "devices": None}] if want else []
    )


# --- extended resources ---


def test_resources_that_a_class_backs_are_served_from_a_special_claim() -> None:
    """Made, protected, allocated and reserved; the pod's status says which request serves which container."""
    state = cluster("g0", "g1")
    pod = make_pod("p", requests={"example.com/gpu": 2})
    assert ask(DynamicResources(), state, pod).reasons == {"a": (), "b": (NONE,)}
    plugin, cycle = begun(state, pod)
    made, status = held(plugin, cycle)
    assert (made.verb, made.kind, made.name[:21]) == (Verb.CREATE, "ResourceClaim", "p-extended-resources-")
    (request,) = made.patch["spec"]["devices"]["requests"]
    assert request == {
        "name": "container-0-request-0",
        "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
    }
    assert status.patch["status"]["extendedResourceClaimStatus"] == {
        "requestMappings": (
            {"containerName": "c0", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"},
        ),
        "resourceClaimName": made.name,
    }
    owner = Owner("Pod", "p", pod.uid, "v1")
    annotations = made.patch["metadata"]["annotations"]
    special = make_resource_claim(made.name, owner=owner, annotations=annotations)
    put(state, special)
    assert [command.subresource for command in held(plugin, cycle)] == [""]
    put(state, replace(special, protected=True))
    (write,) = held(plugin, cycle)
    assert [each["device"] for each in write.patch["status"]["allocation"]["devices"]["results"]] == ["g0", "g1"]


def test_a_node_that_offers_the_resource_itself_needs_no_claim() -> None:
    """A device plugin goes first."""
    state = put(make_state([make_node("a", resources={"example.com/gpu": 4})]), GPUS)
    pod = make_pod("p", requests={"example.com/gpu": 1})
    assert ask(DynamicResources(), state, pod).reasons == {"a": ()}
    plugin, cycle = begun(state, pod)
    assert plugin.pre_bind(cycle, 0) is None
    assert not state.devices.reservations


def test_the_special_claim_of_an_earlier_attempt_goes_first() -> None:
    """It asked for what that attempt needed."""
    state, pod = cluster("g0"), make_pod("p", requests={"example.com/gpu": 1})
    plugin, cycle = begun(state, pod)
    made, _ = held(plugin, cycle)
    left = make_resource_claim(
        made.name, owner=Owner("Pod", "p", pod.uid, "v1"), annotations=made.patch["metadata"]["annotations"]
    )
    put(state, left)
    answer = ask(DynamicResources(), state, pod)
    assert set(answer.reasons.values()) == {(("cannot schedule extended resource claim", False),)}


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


def test_what_wakes_a_pod() -> None:
    """Its own claims, claims that give devices back, and whatever may bring devices; what takes them away does not."""
    helps, template = DynamicResources().helps, make_pod("p", claims=("gpu",)).template
    assert helps(template, Change(What.OBJECT, kind="ResourceClaim", key="default/gpu"))
    assert not helps(template, Change(What.OBJECT, kind="ResourceClaim", key="default/tpu"))
    assert helps(template, Change(What.OBJECT, kind="ResourceClaim", key="default/tpu", frees=True))
    assert helps(template, Change(What.OBJECT, kind="DeviceClass", key="gpus"))
    assert helps(template, Change(What.OBJECT, kind="ResourceSlice", key="s"))
    assert helps(template, Change(What.POD_REMOVED, pod=make_pod("q", claims=("other",))))
    assert not helps(template, Change(What.POD_REMOVED, pod=make_pod("q")))
    assert not helps(template, Change(What.POD_REMOVED, pod=make_pod("q", claims=("other",), node="n")))
    assert not helps(template, Change(What.OBJECT, kind="ResourceSlice", key="s", gone=True))
    assert not helps(template, Change(What.OBJECT, kind="DeviceClass", key="gpus", gone=True))
    assert not helps(template, Change(What.OBJECT, kind="DeviceTaintRule", key="rule", added=True))
    assert helps(template, Change(What.OBJECT, kind="DeviceTaintRule", key="rule", gone=True))


def test_a_packed_order_prefers_devices_that_are_partly_in_use() -> None:
    """Those of which most is consumed, as long as they suffice; by default devices come as they are listed."""
    devices = [make_device(name, capacity={"memory": "80Gi"}, shared=True) for name in ("empty", "full", "half")]
    state = put(make_state([make_node("a")]), GPUS, make_slice("s", node="a", devices=devices))
    for name, device, amount in (("c1", "full", "80Gi"), ("c2", "half", "40Gi")):
        taken = make_allocation(f"a/{device}", share_id=name, consumed=FrozenDict({"memory": amount}))
        put(state, make_resource_claim(name, allocation=taken))
    choice = DeviceChoice(device_class="gpu", capacity=FrozenDict({"memory": "10Gi"}))
    put(state, make_resource_claim("gpu", choice))

    def got(**args: Any) -> str:
        plugin = DynamicResources(DynamicResourcesArgs.model_validate(args))
        cycle = Cycle(make_pod("p", claims=("gpu",)), state, 0.0)
        plugin.pre_filter(cycle)
        assert plugin.reserve(cycle, 0) is None
        found = state.devices.pending("default/gpu")
        plugin.unreserve(cycle, 0)
        return "" if found is None else found.devices[0].device

    assert [got(), got(deviceOrder="Upstream"), got(deviceOrder="Packed")] == ["empty", "empty", "half"]


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(DynamicResources)


MEMORY = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0'


def test_a_rejection_says_which_devices_nearly_fit() -> None:
    """Per row and request; a claim whose devices are elsewhere says where they are."""
    state = cluster()
    put(state, make_slice("s", node="a", devices=[make_device("g0", capacity={"memory": "40Gi"})]))
    put(state, make_resource_claim("want", DeviceChoice(device_class="gpu", selectors=(MEMORY,))))
    plugin, cycle = DynamicResources(), Cycle(make_pod("p", claims=("want",)), state, 0.0)
    assert plugin.pre_filter(cycle) is None
    plugin.filter(cycle, state.rows())
    found = {state.node(row).name: details for row, details in plugin.details(cycle, state.rows()).items()}
    assert [each.text for each in found["a"][0].nearest] == ["memory 40Gi, wanted 80Gi"]
    assert found["b"][0].text == "request r0 of claim default/want: wants 1, none fits"

    put(
        state,
        claim("held", allocation=replace(make_allocation("a/g0"), node_terms=on("metadata.name In a").node_terms)),
    )
    cycle = Cycle(make_pod("p", claims=("held",)), state, 0.0)
    assert plugin.pre_filter(cycle) is None
    plugin.filter(cycle, state.rows())
    row = state.row_of("b")
    assert row is not None
    told = plugin.details(cycle, np.array([row]))[row]
    assert [each.text for each in told] == ["claim default/held: holds g0 of pool a, which this node cannot use"]
