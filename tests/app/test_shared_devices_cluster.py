"""SharedDevices on the real API server: what is written with a bind, and what a new scheduler makes of it."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import SCHEDULER, ControlPlane
from tests.app.scheduling import pods_of
from tests.docs.fences import ROOT
from tests.faults.proxy import Proxy
from tests.faults.rules import BIND, Rule, Stop
from tests.patience import eventually

# A process that is killed leaves connections behind, which the proxy drops with its loop.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

EXAMPLE = ROOT / "examples" / "gpu-sharing.yaml"
NAME = "shares"
REGISTERED = ":".join(f"GPU-{number},10,16000,100,NVIDIA-T4,0,true" for number in range(5)) + ":"
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


def pod(plane: ControlPlane, name: str, annotations: Mapping[str, str], limits: Mapping[str, str]) -> None:
    resources = {"requests": {"cpu": "100m"}, "limits": dict(limits)}
    spec = {"schedulerName": NAME, "containers": [{"name": "c", "image": "app", "resources": resources}]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations)},
        "spec": spec,
    }
    answer = plane.request("POST", "/api/v1/namespaces/default/pods", body)
    assert answer.status == 201, answer.content


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


def test_devices_are_written_in_the_words_of_each_convention(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = empty_control_plane
    gpu_node(plane, "gpus")
    pod(plane, "kai", {"gpu-fraction": "0.5"}, {})
    pod(plane, "alibaba", {"alibabacloud.com/gpu-milli": "1000", "alibabacloud.com/gpu-count": "2"}, {})
    pod(plane, "hami", {}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "25"})
    pod(plane, "koordinator", {}, {"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory-ratio": "30"})
    with scheduler(plane.scheduler_kubeconfig, tmp_path, "only"):
        eventually(lambda: len(bound(plane)) == 4, 120, "all pods are bound")
    said = {name: each["metadata"].get("annotations") or {} for name, each in bound(plane).items()}
    devices = {name: texts["moorage.dev/devices"].split(",") for name, texts in said.items()}
    assert {name: len(numbers) for name, numbers in devices.items()} == {
        "kai": 1, "alibaba": 2, "hami": 1, "koordinator": 1,
    }  # fmt: skip
    assert said["kai"]["gpu-fraction"] == "0.5"
    assert said["alibaba"]["alibabacloud.com/gpu-index"] == "-".join(devices["alibaba"])
    number = devices["hami"][0]
    assert said["hami"]["hami.io/vgpu-devices-to-allocate"] == f"GPU-{number},NVIDIA,4000,25:;"
    allocated = json.loads(said["koordinator"]["scheduling.koordinator.sh/device-allocated"])
    assert allocated["gpu"][0]["minor"] == int(devices["koordinator"][0])
    assert not set(devices["alibaba"]) & {devices[name][0] for name in ("kai", "hami", "koordinator")}


def drilled(plane: ControlPlane, folder: Path, k: int, *, before: bool) -> None:
    """The scheduler is killed at bind k; the next one has to fill all devices, and none beyond its capacity."""
    for name in ("one", "two"):
        gpu_node(plane, name)
    for number in range(SHARES):
        pod(plane, f"share-{number}", {"gpu-fraction": "0.5"}, {})

    async def crash() -> None:
        async with Proxy(plane, [Rule(verb=BIND, nth=k, act=Stop(before=before))]) as proxy:
            kubeconfig = proxy.kubeconfig(SCHEDULER.name, folder / "first.kubeconfig")
            with scheduler(kubeconfig, folder, "first"):
                await asyncio.wait_for(proxy.reached.wait(), 120)

    asyncio.run(crash())
    gc.collect()  # what was left open is told of here, not in the middle of another test
    want = k - before
    eventually(lambda: len(bound(plane)) == want, 30, f"{want} pods are bound at the crash")
    with scheduler(plane.scheduler_kubeconfig, folder, "second"):
        eventually(lambda: len(bound(plane)) == SHARES, 120, "all pods are bound: no device is held by nobody")
    taken = Counter(
        (each["spec"]["nodeName"], each["metadata"]["annotations"]["moorage.dev/devices"])
        for each in bound(plane).values()
    )
    assert set(taken.values()) == {2}, taken
    assert len(taken) == 2 * DEVICES


@pytest.mark.parametrize(("k", "before"), [(1, True), (7, False), (20, True)])
def test_a_new_scheduler_learns_which_devices_are_taken(
    empty_control_plane: ControlPlane, tmp_path: Path, k: int, before: bool
) -> None:
    drilled(empty_control_plane, tmp_path, k, before=before)


@pytest.mark.long
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("k", range(1, SHARES + 1))
def test_the_scheduler_may_be_killed_at_any_bind(
    empty_control_plane: ControlPlane, tmp_path: Path, k: int, before: bool
) -> None:
    drilled(empty_control_plane, tmp_path, k, before=before)
