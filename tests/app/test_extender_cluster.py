"""The extender beside a real kube-scheduler, kube-controller-manager and API server.

MOORAGE_EXTENDER_DEPLOYMENTS sets how many Deployments are created at once; 50 is the size of the promise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from tests.app.extender_process import (
    DEPLOYMENT_PATH,
    eventually,
    extender,
    extender_config,
    kube_scheduler_config,
    make_deployment,
    make_node,
    mutual_tls,
    placements,
    status_of,
)
from tests.controlplane_fixtures import clear

DEPLOYMENTS = int(os.environ.get("MOORAGE_EXTENDER_DEPLOYMENTS", "8"))
NODES = 6
EXAMPLE = Path(__file__).parents[2] / "deploy/examples/spot-extender"
CAPACITY = "node.kubernetes.io/capacity"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.fixture
def plane(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Deployments become pods here, and what a test leaves is removed."""
    plane = empty_control_plane
    manager = plane.start_controller_manager(
        "--controllers=deployment,replicaset,garbagecollector", "--kube-api-qps=1000", "--kube-api-burst=1000"
    )
    try:
        yield plane
        for item in plane.request("GET", DEPLOYMENT_PATH).json()["items"]:
            plane.request("DELETE", f"{DEPLOYMENT_PATH}/{item['metadata']['name']}")
        eventually(lambda: not placements(plane), "the pods are gone", within_s=60)
    finally:
        manager.kill()
        plane.request("DELETE", f"{LEASES}/spot-scheduler-extender")
        clear(plane)


def placed(plane: ControlPlane, wanted: dict[str, int], within_s: float) -> dict[str, list[str]]:
    """The nodes of each app, once every pod has one."""

    def all_placed() -> dict[str, list[str]] | None:
        found = placements(plane)
        done = all(len(found.get(name, ())) == count and all(found[name]) for name, count in wanted.items())
        return found if done else None

    found: dict[str, list[str]] = eventually(all_placed, "every pod has a node", within_s)
    return found


@pytest.mark.parametrize("by_name", [False, True], ids=["whole nodes", "names"])
def test_controllers_spread_through_a_stock_scheduler(plane: ControlPlane, tmp_path: Path, by_name: bool) -> None:
    """A scheduler that piles pods up leaves no controller below its required hosts, and no pod stuck.

    Without the extender it is ignored, and the same scheduler puts all on one node.
    """
    for number in range(NODES):
        make_node(plane, f"n{number}")
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    wanted = {f"web-{number}": 2 + number % 4 for number in range(DEPLOYMENTS)}
    hosts = {name: 2 + number % 2 for number, name in enumerate(wanted)}
    scheduler = plane.start_scheduler(config=kube_scheduler_config(url, nodeCacheCapable=by_name))
    try:
        with extender(plane, tmp_path, extender_config("ControllerSpread"), port):
            eventually(lambda: status_of(f"{url}/readyz") == 200, "the extender is ready", within_s=30)
            for name, replicas in wanted.items():
                note = {"moorage.dev/min-hosts": "3"} if hosts[name] == 3 else {}
                make_deployment(plane, name, replicas, **note)
            found = placed(plane, wanted, within_s=120)
            few = {name: nodes for name, nodes in found.items() if len(set(nodes)) < min(wanted[name], hosts[name])}
            assert not few
        # Large enough for each to raise the score of its node: kube-scheduler's scores are whole percents.
        make_deployment(plane, "alone", 4, cpu="8")
        assert len(set(placed(plane, {"alone": 4}, within_s=60)["alone"])) == 1
    finally:
        scheduler.kill()


def test_a_stock_scheduler_with_a_client_certificate(plane: ControlPlane, tmp_path: Path) -> None:
    """The variant with mutual TLS: kube-scheduler shows its certificate, is heard, and lets the extender bind."""
    for number in range(2):
        make_node(plane, f"spot-{number}", **{CAPACITY: "spot"})
        make_node(plane, f"steady-{number}", **{CAPACITY: "on-demand"})
    port = free_ports(1)[0]
    url = f"https://127.0.0.1:{port}"
    tls = mutual_tls(tmp_path)
    config = yaml.safe_load((EXAMPLE / "kube-scheduler-config-mutual-tls.yaml").read_text())
    asked = config["extenders"][0]
    files = {field: str(tmp_path / Path(file).name) for field, file in asked["tlsConfig"].items()}
    config["extenders"] = [{**asked, "urlPrefix": url, "tlsConfig": files, "bindVerb": "bind", "ignorable": False}]
    config["clientConnection"]["kubeconfig"] = str(plane.scheduler_kubeconfig)
    config["leaderElection"] = {"leaderElect": False}
    scheduler = plane.start_scheduler(config=config)
    kind = "kind: ExtenderConfiguration\n"
    own = (EXAMPLE / "config.yaml").read_text().replace(kind, f"{kind}binds: true\n")
    try:
        with extender(plane, tmp_path, own, port, *tls.flags()):
            eventually(lambda: status_of(f"{url}/readyz", tls.trust) == 200, "the extender is ready", within_s=60)
            make_deployment(plane, "several", 3)
            make_deployment(plane, "single", 1)
            found = placed(plane, {"several": 3, "single": 1}, within_s=60)
    finally:
        scheduler.kill()
    assert {name: {node.rpartition("-")[0] for node in nodes} for name, nodes in found.items()} == {
        "several": {"spot"},
        "single": {"steady"},
    }


def test_the_spot_example_with_a_stock_scheduler(plane: ControlPlane, tmp_path: Path) -> None:
    """Single replicas on on-demand nodes, others on spot, a base where one is asked for; killed, it is ignored."""
    for number in range(3):
        make_node(plane, f"spot-{number}", **{CAPACITY: "spot"})
        make_node(plane, f"steady-{number}", **{CAPACITY: "on-demand"})
    port = free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    config = yaml.safe_load((EXAMPLE / "kube-scheduler-config.yaml").read_text())
    config["extenders"][0]["urlPrefix"] = url
    config["clientConnection"]["kubeconfig"] = str(plane.scheduler_kubeconfig)
    config["leaderElection"] = {"leaderElect": False}
    wanted = {f"single-{number}": 1 for number in range(4)} | {f"several-{number}": 2 + number for number in range(4)}
    scheduler = plane.start_scheduler(config=config)
    try:
        with extender(plane, tmp_path, (EXAMPLE / "config.yaml").read_text(), port) as process:
            eventually(lambda: status_of(f"{url}/readyz") == 200, "the extender is ready", within_s=60)
            for name, replicas in wanted.items():
                make_deployment(plane, name, replicas)
            make_deployment(plane, "base", 3, **{"moorage.dev/on-demand-base": "1"})
            found = placed(plane, wanted | {"base": 3}, within_s=60)
            process.kill()
            process.wait()
            make_deployment(plane, "late", 3)
            placed(plane, {"late": 3}, within_s=60)
    finally:
        scheduler.kill()
    pools = {name: [node.rpartition("-")[0] for node in sorted(nodes)] for name, nodes in found.items()}
    want = {name: ["steady"] if count == 1 else ["spot"] * count for name, count in wanted.items()}
    assert pools == want | {"base": ["spot", "spot", "steady"]}
