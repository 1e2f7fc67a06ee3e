"""`moorage devices` and `kubectl moorage devices`: who has which device, of files and of a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.cli import kubectl
from moorage.cli.main import run
from tests.devicecluster import EXAMPLE, NEEDS_DEVICES, create, devices_on

HEADINGS = ["NODE", "DRIVER", "POOL", "DEVICE", "STATE", "CLAIMS", "PODS", "TAINTS", "DETAILS"]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["devices", *arguments]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(capsys, *arguments, "-o", "json"))
    return found


def names(found: dict[str, Any]) -> list[str]:
    return [device["device"] for device in found["devices"]]


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each device, then counters of pools, then how many there are of which state."""
    lines = printed(capsys, "-f", str(EXAMPLE)).splitlines()
    assert lines[0].split() == HEADINGS
    rows = {" ".join(line.split()[:4]): " ".join(line.split()[4:]) for line in lines[1:8]}
    attributes = "memory=80Gi, driverVersion=12.4.0, model=a100"
    tainted = f"free - - gpu.example.com/ecc-errors:NoSchedule {attributes}"
    assert rows["n1 gpu.example.com n1 gpu-0"] == f"in use default/training default/trainer - {attributes}"
    assert rows["n1 gpu.example.com n1 gpu-2"] == tainted
    assert rows["n2 gpu.example.com n2 gpu-0"] == "blocked - - - memory=80Gi, gpu-0/memory=80Gi, model=a100"
    card = rows["(all) net.example.com network card-0"]
    assert card == "shared default/training default/trainer - bandwidth=4G of 10G"
    assert lines[10].split() == ["gpu.example.com", "n2", "gpu-0/memory", "40Gi", "80Gi", "-"]
    assert lines[-1] == "7 devices, 3 free, 1 shared, 2 in use, 1 blocked"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--node", "n1"], ["gpu-0", "gpu-1", "gpu-2", "card-0"], id="node"),
        pytest.param(["--driver", "net.example.com"], ["card-0"], id="driver"),
        pytest.param(["--free"], ["gpu-1", "gpu-2", "gpu-0-half-1", "card-0"], id="free"),
        pytest.param(["--node", "n2", "--free", "--driver", "gpu.example.com"], ["gpu-0-half-1"], id="all of them"),
    ],
)
def test_filters(capsys: pytest.CaptureFixture[str], arguments: list[str], want: list[str]) -> None:
    """By node, by driver, and what another claim could get."""
    found = listed(capsys, "-f", str(EXAMPLE), *arguments)
    assert names(found) == want
    assert sum(found["summary"].values()) == len(want)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--node", "n3"], "no node n3; known: n1 and n2", id="node"),
        pytest.param(["--driver", "gpu.example.con"], "did you mean gpu.example.com", id="driver"),
        pytest.param(["--kubeconfig", "x"], "exclude each other", id="two sources"),
    ],
)
def test_what_there_is_not(capsys: pytest.CaptureFixture[str], arguments: list[str], want: str) -> None:
    """One line that says what might have been meant."""
    assert run(["devices", "-f", str(EXAMPLE), *arguments]) == 2
    said = capsys.readouterr()
    assert want in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)


def test_files_without_devices_and_files_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nothing is said of nothing; what is wrong is named with its place."""
    file = tmp_path / "a.yaml"
    file.write_text("{apiVersion: v1, kind: Node, metadata: {name: n1}}")
    assert printed(capsys, "-f", str(file)) == "0 devices\n"
    spec = "{driver: d, pool: {name: p}, devices: [{name: x, capacity: {memory: {value: much}}}]}"
    file.write_text(f"{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: s}}, spec: {spec}}}")
    assert run(["devices", "-f", str(file)]) == 2
    assert "ResourceSlice s: spec.devices[0].capacity.memory.value" in capsys.readouterr().err


def test_names_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Drivers write what they like."""
    device = {"name": "a\x1b[31m", "attributes": {f"k{number}": {"bool": True} for number in range(6)}}
    spec = {"driver": "d", "allNodes": True, "pool": {"name": "p", "resourceSliceCount": 1}, "devices": [device]}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    file = tmp_path / "a.json"
    file.write_text(json.dumps(body))
    (_, row, *_) = printed(capsys, "-f", str(file)).splitlines()
    assert "a?[31m" in row
    assert row.endswith("k0=true, k1=true, k2=true, k3=true, 2 more")


@NEEDS_DEVICES
def test_a_live_cluster_says_what_its_objects_say(
    empty_control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same as the file; a rule that taints a device and a slice that is gone show at once."""
    plane, live = empty_control_plane, ["--kubeconfig", str(empty_control_plane.admin_kubeconfig)]
    assert listed(capsys, *live)["devices"] == []
    with devices_on(plane) as paths:
        assert printed(capsys, *live) == printed(capsys, "-f", str(EXAMPLE))
        rule: dict[str, object] = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "cards"},
            "spec": {"deviceSelector": {"driver": "net.example.com"}, "taint": {"key": "slow", "effect": "NoExecute"}},
        }
        paths.append(create(plane, rule))
        plane.request("DELETE", "/apis/resource.k8s.io/v1/resourceslices/n1-gpus")
        assert kubectl.run(["devices", "--node", "n1", "-o", "json", *live]) == 0
        found = json.loads(capsys.readouterr().out)["devices"]
    told = {device["device"]: (device["state"], device["problem"], device["taints"]) for device in found}
    assert told == {
        "gpu-0": ("missing", "no driver offers it any more", []),
        "card-0": ("shared", None, ["slow:NoExecute"]),
    }
    assert found[0]["claims"][0]["pods"] == ["default/trainer"]
