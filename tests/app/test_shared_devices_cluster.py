"""SharedDevices on the real API server: what is written with a bind, and what a new scheduler makes of it."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import SCHEDULER, ControlPlane
from tests.app.scheduling import pods_of
from tests.controlplane_fixtures import clear
from tests.devicecluster import NEEDS_DEVICES, create
from tests.docs.fences import ROOT
from tests.faults.proxy import Proxy
from tests.faults.rules import BIND, Rule, Stop
from tests.patience import eventually

# A process that is killed leaves connections behind, which the proxy drops with its loop.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

EXAMPLE = ROOT / "examples" / "gpu-sharing.yaml"
NAME = "shares"
REGISTERED = ":".join(f"GPU-{number},10,16000,100,NVIDIA-T4,0,true" for number in range(5)) + ":"
RESOURCES, DRIVER, CLASS = "resource.k8s.io/v1", "gpu.example.com", "shared-gpu"
CLAIMS = f"/apis/{RESOURCES}/namespaces/default/resourceclaims"
SHARES, DEVICES = 20, 5
"""Halves on two nodes of five devices: they fill all of them."""


def gpu_node(plane: ControlPlane, name: str) -> None:
    amounts = {
        "cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(10 * DEVICES),
        "koordinator.sh/gpu-core": str(100 * DEVICES), "koordinator.sh/gpu-memory-ratio": str(100 * DEVICES),
    }  # fmt: skip
    labels = {"nvidia.com/gpu.count": str(DEVICES), "nvidia.com/gpu.memory": "16000", "nvidia.com/gpu.product": "T4"}
    metadata = {"name": name, "labels": labels, "annotations": {"hami.io/node-nvidia-register": REGISTERED}}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    answer = plane.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    assert answer.status == 201, answer.content
    answer = plane.request("PUT", f"/api/v1/nodes/{name}/status", {**answer.json(), "status": status})
    assert answer.status == 200, answer.content


def pod(
    plane: ControlPlane, name: str, annotations: Mapping[str, str], limits: Mapping[str, str], **more: object
) -> None:
    resources = {"requests": {"cpu": "100m"}, "limits": dict(limits)}
    spec = {"schedulerName": NAME, "containers": [{"name": "c", "image": "app", "resources": resources}], **more}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations)},
        "spec": spec,
    }
    answer = plane.request("POST", "/api/v1/namespaces/default/pods", body)
    assert answer.status == 201, answer.content


def claiming(plane: ControlPlane, name: str, milli: int, scheduler: str = NAME) -> None:
    """A pod whose claim asks for a share of a published device."""
    share = {"deviceClassName": CLASS, "capacity": {"requests": {"milli": str(milli)}}}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": share}]}}
    claim = {"apiVersion": RESOURCES, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"}}
    create(plane, {**claim, "spec": spec})
    pod(plane, name, {}, {}, schedulerName=scheduler, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])


@contextmanager
def published(plane: ControlPlane, nodes: Sequence[str], devices: int) -> Iterator[None]:
    """Devices of 1000 milli each that claims may share, on nodes that are there; with all claims gone in the end."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    head = {"apiVersion": RESOURCES, "kind": "DeviceClass", "metadata": {"name": CLASS}}
    paths = [create(plane, {**head, "spec": {"selectors": selectors}})]
    listed = [
        {"name": f"gpu-{number}", "allowMultipleAllocations": True, "capacity": {"milli": {"value": "1000"}}}
        for number in range(devices)
    ]
    for node in nodes:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
        head = {"apiVersion": RESOURCES, "kind": "ResourceSlice", "metadata": {"name": f"{node}-gpus"}}
        paths.append(create(plane, {**head, "spec": spec}))
    try:
        yield
    finally:
        clear(plane)
        paths += [f"{CLAIMS}/{claim['metadata']['name']}" for claim in plane.request("GET", CLAIMS).json()["items"]]
        for path in paths:
            plane.request("PATCH", path, {"metadata": {"finalizers": None}})
            plane.request("DELETE", path)


def allocated(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """Claim -> the one device that it got, as its status has it."""
    found = {}
    for claim in plane.request("GET", CLAIMS).json()["items"]:
        allocation = claim.get("status", {}).get("allocation")
        if allocation is not None:
            (found[claim["metadata"]["name"]],) = allocation["devices"]["results"]
    return found


@contextmanager
def scheduler(kubeconfig: Path, folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """The shipped example as a process; killed without warning at the end of the block."""
    config = folder / f"{name}.yaml"
    config.write_text(EXAMPLE.read_text().replace("schedulerName: default-scheduler", f"schedulerName: {NAME}"))
    command = [sys.executable, "-m", "moorage", "scheduler", "--config", str(config), "--secure-port=0"]
    command += ["--kubeconfig", str(kubeconfig)]
    with (folder / f"{name}.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


def bound(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in pods_of(plane) if each["spec"].get("nodeName")}


def recorded_devices(body: dict[str, Any]) -> list[str]:
    """The devices of a pod as its status has them."""
    [record] = [each for each in body["status"]["conditions"] if each["type"] == "moorage.dev/Devices"]
    return list(map(str, json.loads(record["message"])["devices"]))


def test_devices_are_written_in_the_words_of_each_convention(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = empty_control_plane
    gpu_node(plane, "gpus")
    pod(plane, "kai", {"gpu-fraction": "0.5"}, {})
    pod(plane, "alibaba", {"alibabacloud.com/gpu-milli": "1000", "alibabacloud.com/gpu-count": "2"}, {})
    pod(plane, "hami", {}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "25"})
    pod(plane, "koordinator", {}, {"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory-ratio": "30"})
    with scheduler(plane.scheduler_kubeconfig, tmp_path, "only"):
        eventually(lambda: len(bound(plane)) == 4, 240, "all pods are bound")
    said = {name: each["metadata"].get("annotations") or {} for name, each in bound(plane).items()}
    devices = {name: texts["moorage.dev/devices"].split(",") for name, texts in said.items()}
    assert {name: len(numbers) for name, numbers in devices.items()} == {
        "kai": 1, "alibaba": 2, "hami": 1, "koordinator": 1,
    }  # fmt: skip
    assert {name: recorded_devices(each) for name, each in bound(plane).items()} == devices
    assert said["kai"]["gpu-fraction"] == "0.5"
    assert said["alibaba"]["alibabacloud.com/gpu-index"] == "-".join(devices["alibaba"])
    number = devices["hami"][0]
    assert said["hami"]["hami.io/vgpu-devices-to-allocate"] == f"GPU-{number},NVIDIA,4000,25:;"
    allocated = json.loads(said["koordinator"]["scheduling.koordinator.sh/device-allocated"])
    assert allocated["gpu"][0]["minor"] == int(devices["koordinator"][0])
    assert not set(devices["alibaba"]) & {devices[name][0] for name in ("kai", "hami", "koordinator")}


@NEEDS_DEVICES
def test_claims_for_shares_are_bound_with_the_share_that_they_got(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The fifth convention: the claim says what its pod has; three shares of 400 milli need a second device."""
    plane = empty_control_plane
    gpu_node(plane, "gpus")
    with published(plane, ["gpus"], devices=2):
        for number in range(3):
            claiming(plane, f"dra-{number}", 400)
        with scheduler(plane.scheduler_kubeconfig, tmp_path, "only"):
            eventually(lambda: len(bound(plane)) == 3, 240, "all pods are bound")
        got = allocated(plane)
        assert {result["consumedCapacity"]["milli"] for result in got.values()} == {"400"}
        assert sorted(Counter(result["device"] for result in got.values()).values()) == [1, 2]
        assert len({result["shareID"] for result in got.values()}) == 3


@NEEDS_DEVICES
def test_stock_allocations_and_ours_on_the_same_slices(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """In turns: each reads what the other has written, devices become full and never more, and both write alike."""
    plane = empty_control_plane
    for name in ("one", "two"):
        gpu_node(plane, name)
    waves = [(wave, who) for wave, who in enumerate(("default-scheduler", NAME) * 2)]
    with published(plane, ["one", "two"], devices=2):
        stock = plane.start_scheduler()
        try:
            with scheduler(plane.scheduler_kubeconfig, tmp_path, "ours"):
                for wave, who in waves:
                    for number in range(2):
                        claiming(plane, f"wave-{wave}-{number}", 500, who)
                    eventually(lambda: len(bound(plane)) == 2 * wave + 2, 240, f"{who} binds")  # noqa: B023 - at once
                for who in ("default-scheduler", NAME):
                    claiming(plane, f"late-{who}", 1, who)
                eventually(lambda: refused(plane) == {"late-default-scheduler", f"late-{NAME}"}, 240, "no room is left")
        finally:
            stock.kill()
        got = allocated(plane)
        taken: Counter[tuple[str, str]] = Counter()
        for result in got.values():
            taken[result["pool"], result["device"]] += int(result["consumedCapacity"]["milli"])
        assert taken == {(node, f"gpu-{number}"): 1000 for node in ("one", "two") for number in range(2)}
        fields: dict[str, set[frozenset[str]]] = {who: set() for _, who in waves}
        for wave, who in waves:
            fields[who] |= {frozenset(got[f"wave-{wave}-{number}"]) for number in range(2)}
        assert fields[NAME] == fields["default-scheduler"]


def refused(plane: ControlPlane) -> set[str]:
    """Pods of which their scheduler says that they fit nowhere."""
    return {
        each["metadata"]["name"]
        for each in pods_of(plane)
        for condition in each.get("status", {}).get("conditions", ())
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
    }


HALVES: tuple[tuple[Mapping[str, str], Mapping[str, str]], ...] = (
    ({"gpu-fraction": "0.5"}, {}),
    ({"alibabacloud.com/gpu-milli": "500"}, {}),
    ({}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "50"}),
    ({}, {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}),
)
"""Half a device in the words of each convention."""


def drilled(plane: ControlPlane, folder: Path, k: int, *, before: bool) -> None:
    """The scheduler is killed at bind k; the next one has to fill all devices, and none beyond its capacity."""
    for name in ("one", "two"):
        gpu_node(plane, name)
    for number in range(SHARES):
        pod(plane, f"share-{number}", *HALVES[number % len(HALVES)])
    killed(plane, folder, k, before=before)
    with scheduler(plane.scheduler_kubeconfig, folder, "second"):
        eventually(lambda: len(bound(plane)) == SHARES, 240, "all pods are bound: no device is held by nobody")
    taken = Counter(
        (each["spec"]["nodeName"], each["metadata"]["annotations"]["moorage.dev/devices"])
        for each in bound(plane).values()
    )
    assert set(taken.values()) == {2}, taken
    assert len(taken) == 2 * DEVICES


def killed(plane: ControlPlane, folder: Path, k: int, *, before: bool) -> None:
    """A scheduler begins, and is killed at its k-th bind, before the API server gets it or after."""

    async def crash() -> None:
        async with Proxy(plane, [Rule(verb=BIND, nth=k, act=Stop(before=before))]) as proxy:
            kubeconfig = proxy.kubeconfig(SCHEDULER.name, folder / "first.kubeconfig")
            with scheduler(kubeconfig, folder, "first"):
                await asyncio.wait_for(proxy.reached.wait(), 240)

    asyncio.run(crash())
    gc.collect()  # what was left open is told of here, not in the middle of another test
    want = k - before
    eventually(lambda: len(bound(plane)) == want, 60, f"{want} pods are bound at the crash")


def drilled_with_claims(plane: ControlPlane, folder: Path, k: int, *, before: bool) -> None:
    """The same with claims: one that was written for a pod that is not bound yet is the pod's, and no other's."""
    nodes = ("one", "two")
    for name in nodes:
        gpu_node(plane, name)
    with published(plane, nodes, DEVICES):
        for number in range(SHARES):
            claiming(plane, f"share-{number}", 500)
        killed(plane, folder, k, before=before)
        with scheduler(plane.scheduler_kubeconfig, folder, "second"):
            eventually(lambda: len(bound(plane)) == SHARES, 240, "all pods are bound: no device is held by nobody")
        taken = Counter((result["pool"], result["device"]) for result in allocated(plane).values())
        assert set(taken.values()) == {2}, taken
        assert len(taken) == 2 * DEVICES


@pytest.mark.parametrize(("k", "before"), [(1, True), (7, False), (20, True)])
def test_a_new_scheduler_learns_which_devices_are_taken(
    empty_control_plane: ControlPlane, tmp_path: Path, k: int, before: bool
) -> None:
    drilled(empty_control_plane, tmp_path, k, before=before)


@NEEDS_DEVICES
def test_a_new_scheduler_learns_which_shares_claims_have(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    drilled_with_claims(empty_control_plane, tmp_path, 11, before=True)


@pytest.mark.long
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("k", range(1, SHARES + 1))
def test_the_scheduler_may_be_killed_at_any_bind(
    empty_control_plane: ControlPlane, tmp_path: Path, k: int, before: bool
) -> None:
    drilled(empty_control_plane, tmp_path, k, before=before)


@NEEDS_DEVICES
@pytest.mark.long
@pytest.mark.parametrize("k", range(1, SHARES + 1))
def test_the_scheduler_may_be_killed_at_any_bind_of_a_claim(
    empty_control_plane: ControlPlane, tmp_path: Path, k: int
) -> None:
    drilled_with_claims(empty_control_plane, tmp_path, k, before=True)
