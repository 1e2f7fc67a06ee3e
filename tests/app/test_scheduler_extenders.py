"""The same extenders asked by kube-scheduler and by `moorage scheduler`, on the real API server.

Both get the same configuration and, one after the other, the same cluster and pods. What the extenders were asked first
about each pod, and what became of the pods, must not differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from tests.controlplane_fixtures import clear

PODS = "/api/v1/namespaces/default/pods"
SCHEDULER = "subject"
GPU = "example.com/gpu"
VOLATILE = frozenset({"uid", "UID", "PodUID", "resourceVersion", "time"})


@dataclass
class Recorder:
    """Extenders at several paths of one address; keeps every question."""

    plane: ControlPlane
    url: str = ""
    seen: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path and question."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Until then `/hanging` says nothing."""

    def answer(self, path: str, question: Any) -> Any:
        """`/whole` knows nothing, `/names` knows the nodes; labels of the pod say what they think."""
        if path.endswith("/bind"):
            return self._bind(question)
        labels = question["Pod"]["metadata"].get("labels") or {}
        if path.endswith("/preempt"):
            victims = question["NodeNameToMetaVictims"]
            return {"NodeNameToMetaVictims": {node: victims[node] for node in victims if node == labels.get("evict")}}
        names = question["NodeNames"] or [node["metadata"]["name"] for node in question["Nodes"]["items"]]
        if path.endswith("/prioritize"):
            return [{"Host": name, "Score": 10 if name == labels.get("likes") else 0} for name in names]
        refused = [name for name in sorted(names) if path.startswith(f"/{labels.get('refused-by')}/")]
        kept = [name for name in names if name not in refused]
        answer: dict[str, Any] = {"FailedNodes": dict.fromkeys(refused[:1], "not liked")}
        answer["FailedAndUnresolvableNodes"] = dict.fromkeys(refused[1:2], "not liked at all")
        if labels.get("broken-at") and path.startswith(f"/{labels['broken-at']}/"):
            answer = {"Error": "out of order"}
        if question["Nodes"] is None:
            return {**answer, "NodeNames": kept}
        return {**answer, "Nodes": {"items": [n for n in question["Nodes"]["items"] if n["metadata"]["name"] in kept]}}

    def _bind(self, question: Any) -> Any:
        metadata = {"name": question["PodName"], "uid": question["PodUID"]}
        body = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": question["Node"]}}
        status = self.plane.request("POST", f"{PODS}/{question['PodName']}/binding", body).status
        return {"Error": "" if status == 201 else f"status {status}"}


@contextmanager
def recording(plane: ControlPlane) -> Iterator[Recorder]:
    """Serve for the length of the block."""
    recorder = Recorder(plane)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            recorder.seen.append((self.command, self.path, question))
            if self.path.startswith("/hanging/"):
                recorder.ended.wait()
                return
            body = json.dumps(recorder.answer(self.path, question)).encode()
            absent_at = (question.get("Pod", {}).get("metadata", {}).get("labels") or {}).get("absent-at")
            self.send_response(404 if self.path.startswith(f"/{absent_at}/") else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        recorder.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield recorder
        finally:
            recorder.ended.set()
            server.shutdown()
            thread.join()


def config_of(*extenders: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": SCHEDULER}],
        "extenders": list(extenders),
    }


def config(url: str) -> dict[str, Any]:
    """Three extenders: one that wants whole nodes, one that knows them, one for a resource that nodes do not offer."""
    whole = {"urlPrefix": f"{url}/whole/", "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5}
    names = {**whole, "urlPrefix": f"{url}/names", "nodeCacheCapable": True, "preemptVerb": "preempt"}
    resource = {"name": GPU, "ignoredByScheduler": True}
    gpus = {"urlPrefix": f"{url}/gpus", "filterVerb": "filter", "bindVerb": "bind", "managedResources": [resource]}
    return config_of(whole, names, gpus)


def make_node(plane: ControlPlane, name: str) -> None:
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    body = {"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status}
    made = plane.request("POST", "/api/v1/nodes", body).json()
    answer = plane.request("PUT", f"/api/v1/nodes/{name}/status", {**made, "status": status})
    assert answer.status == 200, answer.content


def make_pod(plane: ControlPlane, name: str, labels: dict[str, str], node: str = "", **amounts: str) -> None:
    container = {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": amounts, "limits": amounts}}
    spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": [container], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeName"] = node
    if "evict" in labels or "vip" in labels:
        spec["priorityClassName"] = "system-cluster-critical"
    answer = plane.request("POST", PODS, {"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec})
    assert answer.status == 201, answer.content


def outcome(plane: ControlPlane, name: str) -> str:
    """The node, or why there is none; empty while that is open."""
    pod = plane.request("GET", f"{PODS}/{name}").json()
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition['reason']}: {condition['message']}"
    return str(pod["spec"].get("nodeName") or "")


def node_of(plane: ControlPlane, name: str) -> str:
    return str(plane.request("GET", f"{PODS}/{name}").json()["spec"].get("nodeName") or "")


def eventually(condition: Callable[[], Any], what: str, within_s: float = 90) -> Any:
    deadline_s = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, f"not within {within_s} s: {what}"
        time.sleep(0.02)
    return found


@contextmanager
def kube_scheduler(plane: ControlPlane, content: dict[str, Any], _: Path) -> Iterator[None]:
    child = plane.start_scheduler(config=content)
    try:
        yield
    finally:
        child.kill()


@contextmanager
def moorage_scheduler(plane: ControlPlane, content: dict[str, Any], folder: Path) -> Iterator[None]:
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "moorage", "scheduler", "--secure-port=0", "--config", str(file)]
    command += ["--kubeconfig", str(plane.scheduler_kubeconfig)]
    with (folder / "log").open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


SUBJECTS: dict[str, dict[str, Any]] = {
    "liked": {"labels": {"likes": "n2"}, "cpu": "1"},
    "gpu": {"labels": {"likes": "n1"}, "cpu": "1", GPU: "1"},
    "refused": {"labels": {"refused-by": "whole"}, "cpu": "1"},
    "refused-late": {"labels": {"refused-by": "names"}, "cpu": "1"},
    "refused-vip": {"labels": {"refused-by": "names", "vip": ""}, "cpu": "1"},
    "absent": {"labels": {"absent-at": "names"}, "cpu": "1"},
    "broken": {"labels": {"broken-at": "names"}, "cpu": "1"},
    "too-large": {"labels": {}, "cpu": "64"},
}


def run(start: Callable[..., Any], plane: ControlPlane, folder: Path) -> tuple[dict[str, str], dict[Any, Any]]:
    """What became of the subjects, and the first question of each kind about each of them."""
    clear(plane)
    for name in ("n1", "n2", "n3"):
        make_node(plane, name)
        make_pod(plane, f"filler-{name}", {}, node=name, cpu="1500m")
    folder.mkdir()
    with recording(plane) as recorder, start(plane, config(recorder.url), folder):
        outcomes = {}
        for name, subject in SUBJECTS.items():
            make_pod(plane, name, **subject)
            decided = eventually(partial(outcome, plane, name), f"{name} is decided on")
            outcomes[name] = decided.replace(recorder.url, "URL")
            if not node_of(plane, name):
                plane.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        make_pod(plane, "important", {"evict": "n3"}, cpu="3")
        outcomes["important"] = eventually(partial(node_of, plane, "important"), "the preemptor is bound")
        left = plane.request("GET", PODS).json()["items"]
        outcomes["left"] = " ".join(sorted(pod["metadata"]["name"] for pod in left))
    questions: dict[Any, Any] = {}
    for method, path, question in recorder.seen:
        pod = question.get("PodName") or question["Pod"]["metadata"]["name"]
        if pod == "important" and "Pod" in question:
            del question["Pod"][
                "status"
            ]  # what its first attempt wrote there may be seen by the second one, or not yet
        questions.setdefault((pod, path), (method, steady(question)))
    return outcomes, questions


def steady(value: Any) -> Any:
    """A question without what differs from run to run: identities, versions, times, and the order of lists."""
    if isinstance(value, dict):
        return {
            key: type(each).__name__ if key in VOLATILE or key.endswith(("Timestamp", "Time")) else steady(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return sorted((steady(each) for each in value), key=json.dumps)
    return value


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    yield empty_control_plane
    clear(empty_control_plane)


@pytest.mark.since(1, 37, "kube-scheduler's messages as they are now")
def test_extenders_cannot_tell_the_schedulers_apart(plane: ControlPlane, tmp_path: Path) -> None:
    """Equal questions in method, path and content; equal nodes, messages and victims."""
    want = run(kube_scheduler, plane, tmp_path / "kube")
    found = run(moorage_scheduler, plane, tmp_path / "moorage")
    assert found[0] == want[0]
    assert sorted(found[1]) == sorted(want[1])
    assert found[1] == want[1]


def test_one_that_hangs_and_may_be_ignored_is_soon_passed_over(plane: ControlPlane, tmp_path: Path) -> None:
    """After a few questions without an answer pods are bound without it, all that wait."""
    make_node(plane, "n1")
    pods = [f"p{number}" for number in range(20)]
    for name in pods:
        make_pod(plane, name, {}, cpu="100m")
    with recording(plane) as recorder:
        hanging = {"urlPrefix": f"{recorder.url}/hanging", "filterVerb": "filter", "ignorable": True}
        with moorage_scheduler(plane, config_of({**hanging, "httpTimeout": "500ms"}), tmp_path):
            for name in pods:
                eventually(partial(node_of, plane, name), f"{name} is bound")
        assert 0 < len(recorder.seen) < len(pods) / 2


def test_one_that_hangs_holds_up_nobody_who_waits_for_another(plane: ControlPlane, tmp_path: Path) -> None:
    """Its question stays open; pods of another extender are asked about and bound meanwhile."""
    fpga = "example.com/fpga"
    make_node(plane, "n1")
    with recording(plane) as recorder:
        extenders = [
            {
                "urlPrefix": f"{recorder.url}/{path}",
                "filterVerb": "filter",
                "httpTimeout": "300s",
                "nodeCacheCapable": True,
                "managedResources": [{"name": resource, "ignoredByScheduler": True}],
            }
            for path, resource in (("hanging", GPU), ("names", fpga))
        ]
        with moorage_scheduler(plane, config_of(*extenders), tmp_path):
            make_pod(plane, "held", {}, **{GPU: "1"})
            eventually(lambda: recorder.seen, "the question about the first pod is open")
            make_pod(plane, "other", {}, **{fpga: "1"})
            eventually(partial(node_of, plane, "other"), "the other pod is bound")
            assert not node_of(plane, "held")
