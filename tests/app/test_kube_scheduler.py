"""`moorage kube-scheduler` in the place of kube-scheduler, on the real API server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from moorage.bench.controlplane import ControlPlane
from tests.app.scheduling import make_node
from tests.contract.manifests import a_pod
from tests.controlplane_fixtures import PlaneFactory
from tests.patience import eventually

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
QUICK = (
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
)


@contextmanager
def running(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


def moorage(*flags: str) -> tuple[str, ...]:
    return sys.executable, "-m", "moorage", "kube-scheduler", *flags


def make_pod(plane: ControlPlane, name: str) -> None:
    answer = plane.request("POST", "/api/v1/namespaces/default/pods", a_pod(name, scheduler="default-scheduler"))
    assert answer.status == 201, answer.content


def node_of(plane: ControlPlane, name: str) -> str:
    return str(plane.request("GET", f"/api/v1/namespaces/default/pods/{name}").json()["spec"].get("nodeName", ""))


def holder(plane: ControlPlane) -> str:
    answer = plane.request("GET", LEASE)
    return str(answer.json()["spec"].get("holderIdentity") or "") if answer.status == 200 else ""


def test_it_takes_over_from_kube_scheduler(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """A stock scheduler holds the lease and places pods; when it ends, Moorage holds the same lease and places them.

    Moorage gets the address of the server by --master: the kubeconfig names one where nothing answers.
    """
    plane = fresh_control_plane()
    make_node(plane, "n1")
    elsewhere = tmp_path / "kubeconfig"
    document = yaml.safe_load(plane.scheduler_kubeconfig.read_text())
    master = document["clusters"][0]["cluster"]["server"]
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    elsewhere.write_text(yaml.safe_dump(document))
    stock = (
        str(plane.binary("kube-scheduler")),
        f"--kubeconfig={plane.scheduler_kubeconfig}",
        "--secure-port=0",
        *QUICK,
    )
    ours = moorage(f"--kubeconfig={elsewhere}", f"--master={master}", "--secure-port=0", "--v=4", *QUICK)
    log = tmp_path / "ours.log"
    with running(tmp_path / "stock.log", *stock) as other:
        eventually(lambda: holder(plane) != "", 60, (tmp_path / "stock.log").read_text())
        before = holder(plane)
        with running(log, *ours):
            eventually(lambda: "lock is held by" in log.read_text(), 60, "Moorage stands by")
            make_pod(plane, "first")
            eventually(lambda: node_of(plane, "first") == "n1", 60, "the stock scheduler places the first pod")
            assert "Attempting" not in log.read_text(), "a standby sees pods and tries none"
            other.terminate()
            other.wait(30)  # until then it may place pods
            make_pod(plane, "second")
            eventually(lambda: node_of(plane, "second") == "n1", 60, "Moorage places the second pod")
            assert holder(plane) not in {"", before}
    text = log.read_text()
    assert "warning: the lease kube-system/kube-scheduler is that of a stock kube-scheduler" in text
    assert "Successfully bound pod to node" in text
