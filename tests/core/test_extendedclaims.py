"""What a pod asks for in the special claim for extended resources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.deviceindex import EXTENDED_RESOURCE_CLAIM
from moorage.core.extendedclaims import SPECIAL_NAME, container_asks, special_claim
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Owner
from moorage.core.requests import ContainerResources, PodResources
from moorage.testing import make_node, make_pod, make_state
from moorage.testing.devices import make_device_class, make_resource_claim
from moorage.testing.storage import put

GPU, NIC = "example.com/gpu", "example.com/nic"


def container(name: str, gpus: int = 0, *, sidecar: bool = False, **others: int) -> ContainerResources:
    wanted = {"cpu": 1, **({GPU: gpus} if gpus else {}), **{f"example.com/{key}": some for key, some in others.items()}}
    return ContainerResources(name, wanted, restartable=sidecar)


def asked(
    init: list[ContainerResources], main: list[ContainerResources]
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Request -> number of devices, and container and request of each mapping."""
    asks = container_asks(PodResources(tuple(main), tuple(init)))
    special = special_claim(asks, [GPU], lambda _: "gpu")
    counts = {each.name: each.exactly.count for each in special.requests if each.exactly is not None}
    return counts, [(each.container, each.request) for each in special.mappings]


@pytest.mark.parametrize(
    ("init", "main", "want"),
    [
        pytest.param(
            [],
            [container("a", 2), container("b"), container("c", 1)],
            (
                {"container-0-request-1": 2, "container-2-request-1": 1},
                [("a", "container-0-request-1"), ("c", "container-2-request-1")],
            ),
            id="each container for itself",
        ),
        pytest.param(
            [container("i", 2)],
            [container("a", 1), container("b", 1)],
            (
                {"container-1-request-1": 1, "container-2-request-1": 1},
                [
                    ("a", "container-1-request-1"),
                    ("b", "container-2-request-1"),
                    ("i", "container-1-request-1"),
                    ("i", "container-2-request-1"),
                ],
            ),
            id="an init container reuses what comes later",
        ),
        pytest.param(
            [container("i", 2), container("j", 3)],
            [container("a", 1)],
            (
                {"container-1-request-1": 2, "container-2-request-1": 1},
                [
                    ("a", "container-2-request-1"),
                    ("i", "container-2-request-1"),
                    ("i", "container-1-request-1"),
                    ("j", "container-2-request-1"),
                    ("j", "container-1-request-1"),
                ],
            ),
            id="what is missing is asked for once",
        ),
        pytest.param(
            [container("s", 1, sidecar=True), container("i", 1)],
            [container("a", 1)],
            (
                {"container-0-request-1": 1, "container-2-request-1": 1},
                [("s", "container-0-request-1"), ("a", "container-2-request-1"), ("i", "container-2-request-1")],
            ),
            id="sidecars stay, and what comes before is not reused",
        ),
    ],
)
def test_what_is_asked_for(
    init: list[ContainerResources],
    main: list[ContainerResources],
    want: tuple[dict[str, int], list[tuple[str, str]]],
) -> None:
    """Named by container and by place of the resource among what the container requests."""
    assert asked(init, main) == want


def test_pods_without_extended_resources_keep_nothing() -> None:
    """So that they cost nothing."""
    assert container_asks(PodResources((container("a"),))) == ()
    assert make_pod("p", cpu="1").template.asks == ()


def test_the_class_that_backs_a_resource() -> None:
    """The newest, then the first by name; one that lost backs nothing, not even by its own name."""
    implicit = "deviceclass.resource.kubernetes.io/"
    state = make_state([make_node("a")])
    assert not state.devices.backing
    put(state, make_device_class("plain"), make_device_class("b", extended_resource=GPU, created_s=5.0))
    assert {name: each.name for name, each in state.devices.backing.items()} == {
        GPU: "b",
        implicit + "b": "b",
        implicit + "plain": "plain",
    }
    put(
        state,
        make_device_class("c", extended_resource=GPU, created_s=9.0),
        make_device_class("d", extended_resource=GPU, created_s=9.0),
    )
    assert {name: each.name for name, each in state.devices.backing.items()} == {
        GPU: "c",
        implicit + "c": "c",
        implicit + "plain": "plain",
    }
    version = state.devices.backing_version
    state.remove_object("DeviceClass", "c")
    assert state.devices.backing[GPU].name == "d"
    assert state.devices.backing_version != version


def test_the_special_claim_of_a_pod_is_found() -> None:
    """By its annotation and its owner."""
    state, pod = make_state([make_node("a")]), make_pod("p")
    mark = FrozenDict({EXTENDED_RESOURCE_CLAIM: "true"})
    claim = make_resource_claim("c", annotations=mark, owner=Owner("Pod", "p", pod.uid, "v1"))
    put(state, claim, make_resource_claim("other", owner=claim.owner))
    assert state.devices.special_of(pod) == claim
    state.remove_object("ResourceClaim", claim.key)
    assert state.devices.special_of(pod) is None


@pytest.mark.parametrize(
    ("namespace", "owner"),
    [
        pytest.param("other", Owner("Pod", "p", "uid-p", "v1"), id="of another namespace"),
        pytest.param("default", Owner("Pod", "q", "uid-p", "v1"), id="of a pod with another name"),
        pytest.param("default", Owner("Pod", "p", "uid-q", "v1"), id="of a pod with another uid"),
        pytest.param("default", Owner("Pod", "p", "uid-p", "x.io/v1"), id="of another API group's pod"),
        pytest.param("default", Owner("Job", "p", "uid-p", "batch/v1"), id="of a Job"),
    ],
)
def test_no_other_claim_stands_in_for_the_special_one(namespace: str, owner: Owner) -> None:
    """A tenant must not take the special claim from another one's pod."""
    state, pod = make_state([make_node("a")]), make_pod("p", uid="uid-p")
    mark = FrozenDict({EXTENDED_RESOURCE_CLAIM: "true"})
    forged = make_resource_claim("b", namespace=namespace, annotations=mark, owner=owner)
    put(state, forged)
    assert state.devices.special_of(pod) is None
    claim = make_resource_claim("c", annotations=mark, owner=Owner("Pod", "p", pod.uid, "v1"))
    put(state, claim, replace(forged, deleting=True), forged)
    assert state.devices.special_of(pod) == claim
    state.remove_object("ResourceClaim", forged.key)
    assert state.devices.special_of(pod) == claim


def test_of_two_special_claims_the_one_that_stays_counts() -> None:
    """And the other one does not take it along when it is gone."""
    state, pod = make_state([make_node("a")]), make_pod("p")
    mark, owner = FrozenDict({EXTENDED_RESOURCE_CLAIM: "true"}), Owner("Pod", "p", pod.uid, "v1")
    old, new = (make_resource_claim(name, annotations=mark, owner=owner) for name in ("a", "b"))
    put(state, new, replace(old, deleting=True))
    assert state.devices.special_of(pod) == new
    state.remove_object("ResourceClaim", old.key)
    assert state.devices.special_of(pod) == new
    put(state, replace(new, annotations=FrozenDict()))
    assert state.devices.special_of(pod) is None
    assert not state.devices._special


def test_names_of_special_claims() -> None:
    """They end as generated names do, differ from attempt to attempt, and fit."""
    pod = make_pod("p" * 100, requests={GPU: 1})
    special = special_claim(pod.template.asks, [GPU], lambda _: "gpu")
    assert special.claim(pod).name == SPECIAL_NAME
    names = {special.named(pod, 0, now).name for now in (1.0, 2.0)}
    assert len(names) == 2
    assert {len(name) for name in names} == {63}
