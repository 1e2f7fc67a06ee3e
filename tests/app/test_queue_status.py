"""Queues on the real API server: the leader writes their status, and `kubectl moorage queues` says the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.app.queuestatus import write_queue_statuses
from moorage.bench.controlplane import ControlPlane
from moorage.cli.kubectl import run
from moorage.core.events import ObjectSeen
from moorage.core.queues import QUEUE, Queue
from moorage.engine.engine import Engine
from tests.app.scheduling import make_node, scheduler
from tests.controlplane_fixtures import PlaneFactory
from tests.patience import eventually
from tests.sim.whatif_rules import default_rules

CRD = Path(__file__).parents[2] / "deploy" / "crds" / "queues.yaml"
QUEUES = "/apis/moorage.dev/v1alpha1/queues"
PATIENCE_S = 60


def _create(plane: ControlPlane, path: str, body: dict[str, Any]) -> None:
    answer = plane.request("POST", path, body)
    assert answer.status == 201, answer.content


def _queue(plane: ControlPlane, name: str, **spec: Any) -> None:
    made = {"apiVersion": "moorage.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    _create(plane, QUEUES, made)


def _pod(plane: ControlPlane, name: str, queue: str, cpu: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "labels": {"moorage.dev/queue": queue}}
    spec = {"schedulerName": "moorage", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    _create(plane, "/api/v1/namespaces/default/pods", pod)


@pytest.fixture
def plane(fresh_control_plane: PlaneFactory) -> ControlPlane:
    """A node of four cores; two queues, one of which names a parent that does not exist."""
    plane = fresh_control_plane()
    crd = yaml.safe_load(CRD.read_text())
    _create(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    eventually(lambda: plane.request("GET", QUEUES).status == 200, 30, "queues are served")
    make_node(plane, "n1")
    _queue(plane, "team", resources={"cpu": {"quota": "1", "limit": "2"}})
    _queue(plane, "lost", parent="nowhere")
    return plane


def test_the_status_of_queues(plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a queue has, may have and waits for; a limit holds, and says so on the pod."""

    def status(name: str) -> dict[str, Any]:
        found: dict[str, Any] = plane.request("GET", f"{QUEUES}/{name}").json().get("status", {})
        return found

    _pod(plane, "first", "team", "1500m")
    with scheduler(plane, tmp_path / "log", "--kubeconfig", str(plane.admin_kubeconfig)):
        eventually(lambda: status("team").get("allocated", {}).get("cpu") == "1500m", PATIENCE_S, "it is counted")
        _pod(plane, "second", "team", "1")
        eventually(lambda: status("team").get("waiting", {}).get("cpu") == "1", PATIENCE_S, "it waits")
    team = status("team")
    assert team["fairShare"]["cpu"] == "2"
    assert team["observedGeneration"] == 1
    assert [(each["type"], each["status"]) for each in team["conditions"]] == [("Ready", "True")]
    since = team["conditions"][0]["lastTransitionTime"]
    with scheduler(plane, tmp_path / "log2", "--kubeconfig", str(plane.admin_kubeconfig)):
        _pod(plane, "third", "team", "2")
        eventually(lambda: status("team").get("waiting", {}).get("cpu") == "3", PATIENCE_S, "it waits, too")
    assert status("team")["conditions"][0]["lastTransitionTime"] == since
    team = status("team")
    (ready,) = status("lost")["conditions"]
    assert (ready["status"], ready["message"]) == (
        "False",
        "queue lost names the parent nowhere, which does not exist",
    )
    second = plane.request("GET", "/api/v1/namespaces/default/pods/second").json()
    assert "queue team has 1500m of its limit of 2 cpu" in json.dumps(second["status"]["conditions"])
    assert run(["queues", "--kubeconfig", str(plane.admin_kubeconfig), "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["queues"]
    assert {key: shown["team"][key] for key in ("allocated", "fairShare", "waiting")} == {
        key: team[key] for key in ("allocated", "fairShare", "waiting")
    }
    assert shown["lost"]["problem"] == ready["message"]
    assert run(["queues", "--kubeconfig", str(plane.admin_kubeconfig)]) == 0
    assert "team" in capsys.readouterr().out


def test_only_the_leader_writes(plane: ControlPlane) -> None:
    """Leadership that ends between two writes ends them, and nothing is written while another process leads."""
    engine = Engine(default_rules().profiles, answers_to_all=True)
    found = plane.request("GET", QUEUES).json()["items"]
    queues = {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}
    engine.handle([ObjectSeen(QUEUE, name, Queue(name, uid)) for name, uid in queues.items()], 0.0, budget=0)
    acting = iter([False, False, True, True, False, False])

    async def write() -> None:
        async with KubeClient(load_credentials(str(plane.admin_kubeconfig), None)) as client:
            await write_queue_statuses(engine, client, lambda: next(acting), lambda _: asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="StopIteration"):  # what was asked often enough
        asyncio.run(write())
    written = [name for name in queues if plane.request("GET", f"{QUEUES}/{name}").json().get("status")]
    assert written == ["lost"]
