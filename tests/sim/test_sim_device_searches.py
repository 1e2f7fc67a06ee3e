"""Long searches for devices, and claims that many pods share, from a file to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.cli.main import run
from moorage.core.allocating import Search

Plain = dict[str, Any]


def thing(kind: str, name: str, **fields: Any) -> Plain:
    api = "v1" if kind in ("Pod", "Node") else "resource.k8s.io/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **fields}


def cluster(*devices: Plain) -> list[Plain]:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": list(devices)}
    return [
        thing("Node", "n1", status={"allocatable": {"pods": "500"}}),
        thing("DeviceClass", "gpu", spec={}),
        thing("ResourceSlice", "s", spec=spec),
    ]


def claim(count: int, **devices: Any) -> Plain:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    return thing("ResourceClaim", "c", spec={"devices": {"requests": [request], **devices}})


def pod(name: str) -> Plain:
    spec = {"containers": [{"name": "main", "image": "x"}]}
    return thing("Pod", name, spec=spec | {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})


def simulated(objects: list[Plain], folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    file = folder / "f.json"
    file.write_text("\n".join(map(json.dumps, objects)))
    assert run(["simulate", "-f", str(file), "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_search_that_is_interrupted_is_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five devices of different models, of which there are four: nothing is found, and the pod is told."""
    devices = [{"name": f"g{number:02}", "attributes": {"model": {"string": str(number % 4)}}} for number in range(48)]
    wanted = claim(5, constraints=[{"distinctAttribute": "gpu.example.com/model"}])
    (found,) = simulated([*cluster(*devices), wanted, pod("p")], tmp_path, capsys)["pods"]
    assert found["message"].startswith("0/1 nodes are available: 1 cannot allocate all claims.")


def test_a_claim_has_as_many_consumers_as_the_api_server_allows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others wait, and are told why."""
    pods = [pod(f"p{number}") for number in range(260)]
    found = simulated([*cluster({"name": "g"}), claim(1), *pods], tmp_path, capsys)
    assert found["summary"] == {"scheduled": 256, "pending": 4, "evicted": 0}
    assert len(found["claims"]["default/c"]["reservedFor"]) == 256
    assert all(each["node"] or each["message"] for each in found["pods"])


def test_suggestions_are_not_sought_forever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What-ifs whose searches take long are given up; the others are tried."""
    looked = 0
    run_search = Search.run

    def counted(self: Search, work: int) -> bool | None:
        nonlocal looked
        before = self.looks
        try:
            return run_search(self, work)
        finally:
            looked += self.looks - before

    monkeypatch.setattr(Search, "run", counted)
    half = {"deviceClassName": "gpu", "count": 14}
    requests = [{"name": "r", "exactly": half}, {"name": "s", "exactly": {"deviceClassName": "none", "count": 2}}]
    nothing = thing("DeviceClass", "none", spec={"selectors": [{"cel": {"expression": "false"}}]})
    objects = [*cluster(*({"name": f"g{number}"} for number in range(28))), nothing, pod("p")]
    objects.insert(0, thing("ResourceClaim", "c", spec={"devices": {"requests": requests}}))
    file, config = tmp_path / "f.json", tmp_path / "c.yaml"
    file.write_text("\n".join(map(json.dumps, objects)))
    arguments = [{"name": "DynamicResources", "args": {"filterTimeout": "1s"}}]
    version = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(json.dumps({**version, "profiles": [{"pluginConfig": arguments}]}))
    assert run(["explain", "p", "-f", str(file), "--config", str(config), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "timed out trying to allocate devices" in found["message"]
    (detail,) = found["explain"]["n1"]["details"]
    assert detail["refused"] == [{"by": "class none, selector #0", "count": 28}]
    assert [each["text"] for each in found["suggestions"]] == ["Drop the pod's resource claims; it then fits on n1."]
    assert looked < 350_000
