"""Workloads on the real API server: a kind that only the configuration describes is placed as a gang."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane
from tests.app.scheduling import make_node, pods_of, scheduler
from tests.controlplane_fixtures import PlaneFactory
from tests.patience import eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RUNS = "/apis/example.com/v1/namespaces/default/trainingruns"
PODS = "/api/v1/namespaces/default/pods"
EXAMPLE = Path(__file__).parents[2] / "examples" / "workloads" / "own-config.yaml"
"""The configuration of docs/workloads.md."""
PATIENCE_S = 90


def crd() -> dict[str, Any]:
    """A CRD without a schema to speak of."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "trainingruns.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "TrainingRun", "plural": "trainingruns", "singular": "trainingrun"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def grant(plane: ControlPlane) -> None:
    """What the chart grants: to read the kind."""
    rules = [{"apiGroups": ["example.com"], "resources": ["trainingruns"], "verbs": ["list", "watch"]}]
    rbac, metadata = "/apis/rbac.authorization.k8s.io/v1", {"name": "training-runs"}
    create(plane, f"{rbac}/clusterroles", {"metadata": metadata, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "training-runs"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    create(plane, f"{rbac}/clusterrolebindings", {"metadata": metadata, "roleRef": role, "subjects": [user]})


def create(plane: ControlPlane, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = plane.request("POST", path, body)
    assert answer.status == 201, answer.content
    made: dict[str, Any] = answer.json()
    return made


def make_member(plane: ControlPlane, run: dict[str, Any], role: str, number: int) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "TrainingRun", "controller": True}
    owner |= {key: run["metadata"][key] for key in ("name", "uid")}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    labels = {"example.com/run": run["metadata"]["name"], "example.com/role": role, "example.com/index": str(number)}
    metadata = {"name": f"run-{role}-{number}", "labels": labels, "ownerReferences": [owner]}
    create(plane, PODS, {"metadata": metadata, "spec": {"schedulerName": "moorage", "containers": [container]}})


def test_a_kind_of_ones_own_is_a_gang(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """Its CRD is installed while the scheduler runs. With room for three of four pods none is bound, then all are."""
    plane = fresh_control_plane()
    file = tmp_path / "config.yaml"
    configuration = yaml.safe_load(EXAMPLE.read_text()) | {"leaderElection": {"leaderElect": False}}
    file.write_text(json.dumps(configuration))
    grant(plane)
    for number in range(3):
        make_node(plane, f"n{number}", cpu="1")
    roles = [{"name": "driver", "replicas": 1}, {"name": "worker", "replicas": 3}]
    with scheduler(plane, tmp_path / "log", "--config", str(file), "--log-format=text"):
        eventually(lambda: "nodes=3" in (tmp_path / "log").read_text(), PATIENCE_S, "it schedules")
        create(plane, CRDS, crd())
        eventually(lambda: plane.request("GET", RUNS).status == 200, PATIENCE_S, "the kind is served")
        body = {"apiVersion": "example.com/v1", "kind": "TrainingRun", "metadata": {"name": "run"}}
        run = create(plane, RUNS, body | {"spec": {"roles": roles}})
        for role, count in (("driver", 1), ("worker", 3)):
            for number in range(count):
                make_member(plane, run, role, number)
        eventually(lambda: all(map(said, pods_of(plane))), PATIENCE_S, "all are told why they wait")
        assert not any(pod["spec"].get("nodeName") for pod in pods_of(plane))
        assert all("TrainingRun.example.com/run: 3 of 4 members fit" in said(pod) for pod in pods_of(plane))
        make_node(plane, "n3", cpu="1")
        eventually(lambda: all(pod["spec"].get("nodeName") for pod in pods_of(plane)), PATIENCE_S, "all are bound")


def said(pod: dict[str, Any]) -> str:
    """Why a pod was not placed."""
    conditions = pod.get("status", {}).get("conditions", ())
    found = [each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"]
    message = str(found[0].get("message", "")) if found else ""
    return message if "members fit" in message else ""
