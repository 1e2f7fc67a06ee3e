"""Evictions and writes on nodes, on the real API server: every command is answered, and nobody waits for a budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.disruptions import Disruptions
from moorage.bench.controlplane import ControlPlane
from moorage.core.commands import EvictPod, PatchNode, PodRef
from moorage.core.events import EvictDone, EvictOutcome, NodePatched
from moorage.core.frozen import FrozenDict

POD = "/api/v1/namespaces/default/pods"
BUDGET = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> ControlPlane:
    """A node with a running pod."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert empty_control_plane.request("POST", "/api/v1/nodes", node).status == 201
    container = {"name": "c", "image": "registry.example/app:v1"}
    spec = {"nodeName": "n1", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web"}}, "spec": spec}
    assert empty_control_plane.request("POST", POD, pod).status == 201
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert empty_control_plane.request("PATCH", f"{POD}/p/status", {"status": ready}).status == 200
    return empty_control_plane


def carried_out(plane: ControlPlane, command: EvictPod | PatchNode) -> EvictDone | NodePatched:
    """The answer to a command, as the workers give it."""

    async def run() -> EvictDone | NodePatched:
        answers: asyncio.Queue[EvictDone | NodePatched] = asyncio.Queue()
        async with KubeClient(load_credentials(str(plane.admin_kubeconfig))) as client:
            disruptions = Disruptions(client, answers.put_nowait)
            task = asyncio.create_task(disruptions.run())
            disruptions.submit(command)
            # A server that asks to come back in 10 s must not keep the answer from us for so long.
            answer = await asyncio.wait_for(answers.get(), 8)
            assert await disruptions.drained(1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return answer

    return asyncio.run(run())


def uid_of(plane: ControlPlane, path: str) -> str:
    found: dict[str, Any] = plane.request("GET", path).json()
    return str(found["metadata"]["uid"])


def eviction(plane: ControlPlane, *, name: str = "p", uid: str | None = None) -> EvictPod:
    return EvictPod(PodRef("default", name, uid or uid_of(plane, f"{POD}/p")), "n1", "fallback")


def outcome(plane: ControlPlane, command: EvictPod) -> EvictOutcome:
    answer = carried_out(plane, command)
    assert isinstance(answer, EvictDone)
    return answer.outcome


def test_an_eviction_marks_the_pod_and_deletes_it(plane: ControlPlane) -> None:
    """What the server does, not we."""
    assert outcome(plane, eviction(plane)) is EvictOutcome.EVICTED
    pod = plane.request("GET", f"{POD}/p").json()
    assert "deletionTimestamp" in pod["metadata"]
    reasons = [each["reason"] for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert reasons == ["EvictionByEvictionAPI"]


def test_a_budget_refuses(plane: ControlPlane) -> None:
    """Also one whose controller has not said anything yet, where the server would like us to wait."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    assert plane.request("POST", BUDGET, budget).status == 201
    assert outcome(plane, eviction(plane)) is EvictOutcome.REFUSED
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    done = plane.request("PATCH", f"{BUDGET}/b/status", {"status": {**status, "observedGeneration": 1}})
    assert done.status == 200, done.content
    assert outcome(plane, eviction(plane)) is EvictOutcome.REFUSED
    assert "deletionTimestamp" not in plane.request("GET", f"{POD}/p").json()["metadata"]


@pytest.mark.parametrize(("name", "uid"), [("nobody", "u"), ("p", "another")], ids=["no such pod", "another pod"])
def test_who_is_gone_is_gone(plane: ControlPlane, name: str, uid: str) -> None:
    """A pod of the same name is somebody else."""
    assert outcome(plane, eviction(plane, name=name, uid=uid)) is EvictOutcome.GONE
    assert plane.request("GET", f"{POD}/p").status == 200


def test_a_node_is_cordoned_and_freed_again(plane: ControlPlane) -> None:
    """Marks come and go with it; another node of the same name is left alone."""
    uid = uid_of(plane, "/api/v1/nodes/n1")
    mark: FrozenDict[str, str | None] = FrozenDict({"moorage.dev/x": "y"})
    cordon = PatchNode("n1", uid, True, mark)
    assert carried_out(plane, cordon) == NodePatched(cordon, ok=True)
    node = plane.request("GET", "/api/v1/nodes/n1").json()
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["annotations"]["moorage.dev/x"] == "y"
    opening = PatchNode("n1", uid, False, FrozenDict({"moorage.dev/x": None}))
    assert carried_out(plane, opening) == NodePatched(opening, ok=True)
    node = plane.request("GET", "/api/v1/nodes/n1").json()
    assert "unschedulable" not in node["spec"]
    assert "moorage.dev/x" not in node["metadata"].get("annotations", {})
    answer = carried_out(plane, PatchNode("n1", "another", True, mark))
    assert isinstance(answer, NodePatched)
    assert not answer.ok
    nowhere = PatchNode("nowhere", "u", True, mark)
    assert carried_out(plane, nowhere) == NodePatched(nowhere, ok=True)
