"""`kubectl moorage`: the plugin, run by the real kubectl on a real control plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.adapters.memory.manifests import pod_manifest, workload_manifest
from moorage.app.waiting import WaitingList, fill
from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import kubelet_thread
from moorage.bench.virtualnodes import VirtualNode
from moorage.cli.kubectl import PLUGIN_COMMANDS, run
from moorage.cli.kubectl_queue import age_text, document, write_table
from moorage.core.objects import PodGroup
from moorage.core.pods import Condition
from moorage.engine.units import Place
from moorage.testing import make_pod
from moorage.wire.eventviews import EventView
from tests.controlplane_fixtures import PlaneFactory
from tests.docs.fences import ROOT

WAIT_S = 90.0
COST = "controller.kubernetes.io/pod-deletion-cost"


class Kubectl:
    """The real kubectl with the plugin on its PATH."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        script = folder / "kubectl-moorage"
        script.write_text(f"#!{sys.executable}\nfrom moorage.cli.kubectl import main\nmain()\n")
        script.chmod(0o755)
        self.kubeconfig = str(plane.admin_kubeconfig)
        self._program = plane.binary("kubectl")
        self._environ = {
            **os.environ,
            "KUBECONFIG": self.kubeconfig,
            "PATH": f"{folder}:{os.environ['PATH']}",
        }

    def __call__(self, *arguments: str, code: int = 0, given: object = None) -> str:
        """Run a command line; stdout, or stderr if it is to end badly."""
        text = None if given is None else json.dumps(given)
        ended = subprocess.run(
            [self._program, *arguments], env=self._environ, input=text, capture_output=True, text=True, check=False
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stderr if code else ended.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def pods(self) -> dict[str, str]:
        """Running pods of the Deployment -> their nodes."""
        items = self.json("get", "pods", "-l", "app=web")["items"]
        return {
            item["metadata"]["name"]: item["spec"]["nodeName"]
            for item in items
            if item["status"].get("phase") == "Running" and "deletionTimestamp" not in item["metadata"]
        }


def wait_until(met: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not met():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        time.sleep(0.1)


@pytest.fixture
def kubectl(fresh_control_plane: PlaneFactory, tmp_path: Path) -> Iterator[Kubectl]:
    """A cluster of three nodes on which a Deployment of six runs, each pod with a deletion cost of its own."""
    plane = fresh_control_plane()
    plane.start_controller_manager("--controllers=deployment-controller,replicaset-controller,disruption-controller")
    plane.start_scheduler()
    kubectl = Kubectl(plane, tmp_path)
    with kubelet_thread(plane.admin_kubeconfig) as kubelet:
        kubelet.add_nodes([VirtualNode(name=f"n{number}") for number in (1, 2, 3)])
        web = workload_manifest("Deployment", "web", own={"replicas": 6}, terminationGracePeriodSeconds=1)
        kubectl("create", "-f", "-", given=web)
        wait_until(lambda: len(kubectl.pods()) == 6, "six pods run")
        for number, pod in enumerate(sorted(kubectl.pods())):
            patch = {"metadata": {"annotations": {COST: str(number * 5 % 6)}}}
            answer = plane.request("PATCH", f"/api/v1/namespaces/default/pods/{pod}", patch)
            assert answer.status == 200, answer.content
        yield kubectl


def answered(kubectl: Kubectl, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What the plugin prints, without the detour through kubectl; stderr if it is to end badly."""
    assert run([*arguments, "--kubeconfig", kubectl.kubeconfig]) == code
    said = capsys.readouterr()
    return said.err if code else said.out


def test_predictions_come_true(kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    """The pods that go when the Deployment shrinks, and when a node is drained, are those that what-if has named."""
    predicted = kubectl.json("moorage", "what-if", "--scale", "deploy/web=4")["difference"]
    assert len(predicted["removed"]) == 2
    kubectl("scale", "deployment/web", "--replicas=4")
    wait_until(lambda: len(kubectl.pods()) == 4, "four pods are left")
    before = kubectl.pods()
    assert not {pod["name"] for pod in predicted["removed"]} & set(before)
    node = next(iter(before.values()))
    predicted = json.loads(answered(kubectl, capsys, "what-if", "--drain", node, "-o", "json"))["difference"]
    evicted = {pod["name"] for pod in predicted["evicted"]}
    assert evicted == {name for name, where in before.items() if where == node}
    assert predicted["summary"]["moves"] == len(evicted)
    kubectl("drain", node, "--ignore-daemonsets", "--timeout=60s")
    wait_until(lambda: len(kubectl.pods()) == 4, "four pods run again")
    after = kubectl.pods()
    assert set(before) - set(after) == evicted
    assert node not in after.values()
    kubectl("uncordon", node)
    _waiting_pods_are_told(kubectl, capsys)


def _waiting_pods_are_told(kubectl: Kubectl, capsys: pytest.CaptureFixture[str]) -> None:
    """On the same cluster, as starting one costs most: queue, explain and the plugin's bad ends."""
    gated = pod_manifest("gated", schedulingGates=[{"name": "example.com/wait"}])
    crew = {"moorage.dev/pod-group": "crew", "moorage.dev/pod-group-min-available": "3"}
    member = pod_manifest("member", annotations=crew, schedulerName="nobody")
    free = pod_manifest("free", schedulingGates=[{"name": "example.com/wait"}], schedulerName="nobody")
    items = [pod_manifest("huge", cpu="900"), gated, member, free]
    kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": items})
    kubectl("patch", "pod", "free", "-p", '{"spec": {"schedulingGates": []}}', "--type=merge")

    def queue() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(answered(kubectl, capsys, "queue", "-o", "json"))
        return found

    wait_until(lambda: any(pod["attempts"] for pod in queue()["pods"]), "kube-scheduler has tried the pod")
    found = queue()
    pods = {pod["name"]: pod for pod in found["pods"]}
    assert set(pods) == {"huge", "gated", "member", "free"}
    assert pods["huge"]["queue"] == "unschedulable"
    assert pods["huge"]["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert (pods["gated"]["queue"], pods["gated"]["gates"]) == ("gated", ["example.com/wait"])
    assert pods["free"]["queue"] == "active", "its gates are gone, though the condition says SchedulingGated still"
    assert (pods["member"]["queue"], pods["member"]["schedulerName"]) == ("active", "nobody")
    assert found["gangs"] == [{"namespace": "default", "name": "crew", "minAvailable": 3, "waiting": 1, "standing": 0}]
    table = kubectl("moorage", "queue").splitlines()
    assert table[0].split() == ["NAMESPACE", "POD", "SCHEDULER", "QUEUE", "AGE", "PRIORITY", "GANG", "REASON"]
    assert "0/3 nodes are available" in kubectl("moorage", "explain", "huge")
    empty = answered(kubectl, capsys, "queue", "-n", "kube-system")
    assert empty == "0 active, 0 backoff, 0 unschedulable, 0 gated\n"
    assert "did you mean" in answered(kubectl, capsys, "explain", "hug", code=2)
    assert "there is no node 'n9'" in answered(kubectl, capsys, "what-if", "--drain", "n9", code=2)
    assert "0 moved" in answered(kubectl, capsys, "what-if").splitlines()[-1]


def test_the_package_brings_the_plugin() -> None:
    """Under the name that kubectl looks for."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-moorage"] == "moorage.cli.kubectl:main"


def test_help_and_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command is listed, in kubectl's words; others are one line."""
    assert run(["--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Usage: kubectl moorage ")
    assert all(name in said for name in PLUGIN_COMMANDS)
    for name in PLUGIN_COMMANDS:
        assert run([name, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"Usage: kubectl moorage {name} ")
    assert run(["place"]) == 2
    assert capsys.readouterr().err == "error: No such command 'place'; see kubectl moorage --help\n"
    assert run(["queue", "-n", "a", "-A"]) == 2
    assert "exclude each other" in capsys.readouterr().err


NOW_S = 1_000_000.0
UNSCHEDULABLE = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
ERROR = Condition("PodScheduled", "False", "SchedulerError", "no answer")
GATES_GONE = Condition("PodScheduled", "False", "SchedulingGated", "Scheduling is blocked")
NOT_TRIED = "not tried yet by default-scheduler"


def event(age_s: float, count: int) -> EventView:
    """A FailedScheduling event of the pod `p`, last seen some time ago."""
    last = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW_S - age_s))
    body = {"regarding": {"uid": "p"}, "note": "said", "series": {"count": count, "lastObservedTime": last}}
    return msgspec.convert(body, EventView)


@pytest.mark.parametrize(
    ("fields", "events", "place", "message"),
    [
        pytest.param({}, [], Place.ACTIVE, NOT_TRIED, id="new"),
        pytest.param({"gates": ("a", "b")}, [], Place.GATED, "waits for the gates a, b", id="gated"),
        pytest.param(
            {"scheduled_condition": UNSCHEDULABLE}, [], Place.UNSCHEDULABLE, "0/1 nodes are available", id="condition"
        ),
        pytest.param(
            {"scheduled_condition": UNSCHEDULABLE},
            [event(3, 4)],
            Place.UNSCHEDULABLE,
            "0/1 nodes are available",
            id="a-moment-ago",
        ),
        pytest.param({"scheduled_condition": GATES_GONE}, [], Place.ACTIVE, NOT_TRIED, id="gates-gone"),
        pytest.param({"scheduled_condition": ERROR}, [event(3, 4)], Place.BACKOFF, "no answer", id="backs-off"),
        pytest.param(
            {"scheduled_condition": ERROR}, [event(3, 1), event(60, 9)], Place.ACTIVE, "no answer", id="backoff-is-over"
        ),
        pytest.param({}, [event(300, 2)], Place.UNSCHEDULABLE, "said", id="event-only"),
        pytest.param(
            {"nominated_node": "n1", "scheduled_condition": UNSCHEDULABLE},
            [],
            Place.UNSCHEDULABLE,
            "waits for room on n1; 0/1 nodes are available",
            id="nominated",
        ),
    ],
)
def test_where_a_pod_is_in_the_queue(
    fields: dict[str, Any], events: list[EventView], place: Place, message: str
) -> None:
    """As far as gates, conditions, nominations and the newest event tell."""
    found = WaitingList("server")
    fill(found, [replace(make_pod("p"), uid="p", **fields)], [], events, NOW_S)
    (pod,) = found.pods
    assert (pod.place, pod.message) == (place, message)
    assert document(found)["summary"][place.value] == 1


def test_the_order_of_the_queue() -> None:
    """Higher priority first, then the older one; pods on nodes, finished ones and those that go do not wait."""
    pods = [
        make_pod("young", created_s=NOW_S - 5),
        make_pod("old", created_s=NOW_S - 50),
        make_pod("urgent", created_s=NOW_S, priority=9),
        make_pod("placed", node="n1"),
        replace(make_pod("done"), phase="Succeeded"),
        replace(make_pod("going"), deleted_s=NOW_S),
        make_pod("elsewhere", namespace="other"),
    ]
    found = WaitingList("server")
    fill(found, pods, [], [], NOW_S, "default")
    assert [(pod.name, pod.age_s) for pod in found.pods] == [("urgent", 0.0), ("old", 50.0), ("young", 5.0)]


def test_gangs_need_what_the_scheduler_says() -> None:
    """Of several sizes the largest, or the PodGroup's; a gang of which nobody waits is not listed."""
    key, size = "moorage.dev/pod-group", "moorage.dev/pod-group-min-available"
    of_group = {"scheduling.x-k8s.io/pod-group": "g"}
    pods = [
        make_pod("a0", annotations={key: "a", size: "2"}),
        make_pod("a1", annotations={key: "a", size: "3"}, node="n1"),
        make_pod("b0", annotations={key: "b", size: "1"}, node="n1"),
        make_pod("g0", labels=of_group),
        replace(make_pod("g1", labels=of_group, node="n1"), deleted_s=NOW_S),
        make_pod("h0", labels={"scheduling.x-k8s.io/pod-group": "h"}),
    ]
    found = WaitingList("server")
    fill(found, pods, [PodGroup("default", "g", api_group="scheduling.x-k8s.io", min_count=5)], [], NOW_S)
    told = {gang.name: (gang.min_available, gang.waiting, gang.standing) for gang in found.gangs}
    assert told == {"a": (3, 1, 1), "g": (5, 1, 0), "h": (None, 1, 0)}


def test_messages_do_not_command_the_terminal() -> None:
    """Anyone may write a condition."""
    condition = replace(UNSCHEDULABLE, message="a\nb \x1b[31mred")
    found, out = WaitingList("server"), StringIO()
    fill(found, [replace(make_pod("p"), scheduled_condition=condition)], [], [], NOW_S)
    write_table(found, out)
    assert out.getvalue().splitlines()[1].endswith("a b ?[31mred")


@pytest.mark.parametrize(
    ("age_s", "want"),
    [(0.4, "0s"), (59, "59s"), (61, "1m1s"), (120, "2m"), (3600 * 25, "1d1h"), (86_400 * 3 + 59, "3d")],
)
def test_ages(age_s: float, want: str) -> None:
    """The two largest units."""
    assert age_text(age_s) == want
