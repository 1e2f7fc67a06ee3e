"""`moorage scheduler` as an operator runs it: a process of its own on the real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.app.scheduling import make_node, make_pod, pods_of, scheduler
from tests.patience import eventually

NODES = 100
PODS = 1000


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(plane.binary("kubectl")), "--kubeconfig", str(plane.admin_kubeconfig), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_thousand_pods_on_a_hundred_nodes(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """All are bound, none twice, no node beyond its allocatable, and kubectl shows the Scheduled event."""
    plane = empty_control_plane
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\nclientConnection: {qps: 5000, burst: 10000}\n"
        "profiles: [{schedulerName: moorage}]\n"
    )
    for number in range(NODES):
        make_node(plane, f"n{number}")
    with scheduler(plane, tmp_path / "log", "--config", str(config)) as process:
        for number in range(PODS):
            make_pod(plane, f"p{number}", cpu="300m")
        eventually(lambda: all(pod["spec"].get("nodeName") for pod in pods_of(plane)), 120, "all pods bound")
        per_node = Counter(pod["spec"]["nodeName"] for pod in pods_of(plane))
        assert sum(per_node.values()) == PODS
        assert max(per_node.values()) * 300 <= 4000, "no node beyond its allocatable"

        def scheduled_events() -> Counter[str]:
            events = plane.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
            return Counter(event["regarding"]["name"] for event in events if event["reason"] == "Scheduled")

        eventually(lambda: len(scheduled_events()) == PODS, 30, "a Scheduled event for each pod")
        assert set(scheduled_events().values()) == {1}, "no pod was bound twice"
        description = kubectl(plane, "describe", "pod", "p7")
        assert "Scheduled" in description
        assert "Successfully assigned default/p7 to" in description
        process.terminate()
        assert process.wait(20) == 0


def test_an_unschedulable_pod_says_why_and_is_bound_soon_after_room_appears(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """FailedScheduling in kubectl's view, the condition on the pod, and a bind within 2 s of a node becoming free."""
    plane = empty_control_plane
    make_node(plane, "small", cpu="1")
    with scheduler(plane, tmp_path / "log"):
        make_pod(plane, "first", cpu="800m")
        eventually(lambda: bool(pods_of(plane)[0]["spec"].get("nodeName")), 30, "the first pod is bound")
        make_pod(plane, "second", cpu="800m")

        def second() -> dict[str, Any]:
            found: dict[str, Any] = plane.request("GET", "/api/v1/namespaces/default/pods/second").json()
            return found

        def condition() -> dict[str, Any]:
            conditions = second().get("status", {}).get("conditions", [])
            return next((c for c in conditions if c["type"] == "PodScheduled"), {})

        eventually(lambda: condition().get("reason") == "Unschedulable", 15, "the pod is marked unschedulable")
        want_message = "0/1 nodes are available: 1 Insufficient cpu."
        assert condition()["message"].startswith(want_message)
        assert condition()["status"] == "False"
        eventually(
            lambda: "FailedScheduling" in kubectl(plane, "describe", "pod", "second"), 15, "the event is published"
        )
        assert want_message in kubectl(plane, "describe", "pod", "second")
        gone = plane.request("DELETE", "/api/v1/namespaces/default/pods/first", {"gracePeriodSeconds": 0})
        assert gone.status == 200
        eventually(lambda: second()["spec"].get("nodeName") == "small", 10, "bound after room appeared")


@pytest.mark.parametrize(
    ("kubeconfig", "want"),
    [
        pytest.param("missing", "no such file", id="missing kubeconfig"),
        pytest.param("nobody", "pods", id="no permission"),
    ],
)
def test_a_scheduler_that_cannot_start_says_why(
    control_plane: ControlPlane, tmp_path: Path, kubeconfig: str, want: str
) -> None:
    """One line on stderr, exit code 2, no traceback."""
    file = tmp_path / "kubeconfig"
    if kubeconfig != "missing":
        server = control_plane.url
        file.write_text(
            json.dumps({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
                "users": [{"name": "u", "user": {"token": "nobody-knows-this"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            })
        )  # fmt: skip
    command = [sys.executable, "-m", "moorage", "scheduler", "--kubeconfig", str(file), "--secure-port", "0"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    errors = [line for line in run.stderr.splitlines() if line.startswith("error:")]
    assert run.returncode == 2, run.stderr
    assert len(errors) == 1, run.stderr
    assert "Traceback" not in run.stderr
    assert want in errors[0] or "nauthorized" in errors[0]
