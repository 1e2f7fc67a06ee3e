"""`moorage keeper` and PlacementPolicies on the real API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.engine.keeping.deletion_costs import COST
from tests.app.keepers import get, keeper
from tests.app.scheduling import make_node
from tests.controlplane_fixtures import PlaneFactory
from tests.patience import eventually

CRD = Path(__file__).parents[2] / "deploy" / "crds" / "placementpolicies.yaml"
POLICIES = "/apis/moorage.dev/v1alpha1/namespaces/default/placementpolicies"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
RULES = [
    {"base": 1, "weight": 1, "nodeSelector": {"kind": "od"}},
    {"weight": 2, "nodeSelector": {"kind": "spot"}},
]


def _create(plane: ControlPlane, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = plane.request("POST", path, body)
    assert answer.status == 201, answer.content
    made: dict[str, Any] = answer.json()
    return made


@pytest.fixture
def plane(fresh_control_plane: PlaneFactory) -> ControlPlane:
    """A policy, and a ReplicaSet of three whose pods stand 2 to 1, as it wants."""
    plane = fresh_control_plane()
    crd = yaml.safe_load(CRD.read_text())
    _create(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    eventually(lambda: plane.request("GET", POLICIES).status == 200, 30, "policies are served")
    spec = {"selector": {"matchLabels": {"app": "web"}}, "rules": RULES}
    policy = {"apiVersion": "moorage.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "web"}}
    _create(plane, POLICIES, {**policy, "spec": spec})
    make_node(plane, "od-0", kind="od")
    make_node(plane, "spot-0", kind="spot")
    template: dict[str, Any] = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    owned = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    made = _create(
        plane, SETS, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": owned}
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    owner["uid"] = made["metadata"]["uid"]
    for name, node in (("a", "od-0"), ("b", "od-0"), ("c", "spot-0")):
        metadata = {"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        _create(plane, PODS, {**pod, "spec": {**template["spec"], "nodeName": node}})
    return plane


def test_status_and_costs_are_written_once(plane: ControlPlane, tmp_path: Path) -> None:
    """Target and actual on the policy, a cost on each pod; then nothing, until something changes."""

    def status() -> dict[str, Any]:
        found: dict[str, Any] = plane.request("GET", f"{POLICIES}/web").json().get("status", {})
        return found

    def costs() -> list[str | None]:
        items = plane.request("GET", PODS).json()["items"]
        return [pod["metadata"].get("annotations", {}).get(COST) for pod in items]

    with keeper(plane, tmp_path / "log") as metrics_url:
        eventually(lambda: status().get("actual") == "2/1", 30, "the status is written")
        assert (status()["target"], status()["workloads"], status()["message"]) == ("2/1", 1, "")
        assert status()["rules"][1] == {"nodeSelector": "kind:spot", "target": 1, "actual": 1}
        eventually(lambda: None not in costs(), 30, "every pod has a cost")
        first, second, third = costs()
        assert int(first or 0) > int(third or 0) > int(second or 0), "od stays longest, then spot, then the second od"
        assert plane.request("PATCH", f"{SETS}/web", {"spec": {"replicas": 6}}).status == 200
        eventually(lambda: status()["target"] == "3/3", 30, "the target follows")
        text = get(metrics_url)[1]
        assert "moorage_keeper_deletion_costs_written_total 3.0" in text
        assert "moorage_keeper_workloads_out_of_order 1.0" in text
    log = (tmp_path / "log").read_text()
    assert log.count("write the status of PlacementPolicy default/web") == 2, log
