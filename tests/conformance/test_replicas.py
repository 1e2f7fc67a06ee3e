"""The conformance case SRV-04, which the shared runner has no step for: a second replica stands by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.serving import OPEN, ask, eventually, running
from tests.contract.manifests import a_node, a_pod

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/srv-04"
POD = "/api/v1/namespaces/default/pods/p"


def test_srv_04_a_standby_is_ready_leads_not_and_binds_nothing(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Both replicas are ready, one leads, and every bind is the leader's."""
    plane = empty_control_plane
    config = tmp_path / "config.yaml"
    document: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "moorage.yaml").read_text())
    document["leaderElection"] = {"leaderElect": True, "resourceName": "srv-04"}
    config.write_text(yaml.safe_dump(document))
    assert plane.request("POST", "/api/v1/nodes", a_node("n1")).status == 201
    ports = free_ports(2)
    logs = [tmp_path / "leader.log", tmp_path / "standby.log"]
    arguments = ["--config", str(config), "--bind-address", "127.0.0.1", OPEN]

    def says(port: int, line: str) -> bool:
        return line in ask(port, "/metrics")[1].splitlines()

    status = 'leader_election_master_status{name="srv-04"}'
    with running(plane, logs[0], *arguments, f"--secure-port={ports[0]}") as leader:
        eventually(lambda: says(ports[0], f"{status} 1.0"), leader, logs[0], "the first replica leads")
        with running(plane, logs[1], *arguments, f"--secure-port={ports[1]}") as standby:
            eventually(lambda: ask(ports[1], "/readyz") == (200, "ok"), standby, logs[1], "the second one is ready")
            assert plane.request("POST", "/api/v1/namespaces/default/pods", a_pod("p")).status == 201
            eventually(lambda: bool(plane.request("GET", POD).json()["spec"].get("nodeName")), leader, logs[0], "bound")
            pod, lease = plane.request("GET", POD).json(), plane.request("GET", LEASE).json()["spec"]
            assert pod["spec"]["nodeName"] == "n1"
            want_term = f"{lease['leaseTransitions']}/{lease['holderIdentity']}"
            assert pod["metadata"]["annotations"]["moorage.dev/term"] == want_term
            assert says(ports[1], f"{status} 0.0")
            assert "scheduler_schedule_attempts_total{" not in ask(ports[1], "/metrics")[1]
            elected = json.loads(ask(ports[1], "/configz")[1])["componentconfig"]["leaderElection"]
            assert elected["leaderElect"] is True
