"""`make soak`: half an hour of churn on a real control plane, after which everything is deleted and memory is back.

Scheduler, keeper, webhook and extender run as processes. Waves (`waves.py`) of nodes, taints, labels, selectors,
claims, gangs and strategies come and go; some are alive at any time. After a warm-up everything is deleted, and the
resident memory of each process then is its plateau. At the end everything is deleted once more, and no process may
hold more than the plateau and a few percent. Every wave's pods must have got their nodes.

    python -m tests.soak.run [--minutes 30] [--warm-up 4] [-o table|json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import KubeletThread, kubelet_thread
from moorage.bench.processcost import memory_bytes
from moorage.bench.processes import free_ports
from tests.app.spot_drill import eventually, running
from tests.app.webhook_process import webhook
from tests.soak.waves import NAMESPACE, STORAGE_CLASS, Wave

ALLOWED_GROWTH = 0.05
ALIVE = 3
BEATS = 3
BOUND_PER_WAVE = 22
_SETTLE_S = 90.0
"""Longer than processes take to give memory back."""
_DONE_S = 120.0
_MIB = 1 << 20
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 500, burst: 1000}
profiles:
- schedulerName: moorage
  plugins: {multiPoint: {enabled: [{name: PlacementStrategy}, {name: ControllerSpread}, {name: SpotPlacement}]}}
"""


@dataclass(slots=True)
class Report:
    """What came of a soak; sizes in MiB by process."""

    minutes: float
    waves: int = 0
    pods_bound: int = 0
    plateau_mib: dict[str, float] = field(default_factory=dict)
    end_mib: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Find what grew."""
        for name, plateau in self.plateau_mib.items():
            end = self.end_mib.get(name, 0.0)
            if not end:
                self.problems.append(f"{name} ended by itself")
            elif end > plateau * (1 + ALLOWED_GROWTH):
                self.problems.append(f"{name} holds {end:.1f} MiB, {plateau:.1f} MiB at the plateau")


class Soak:
    """One soak on its way."""

    def __init__(self, plane: ControlPlane, kubelet: KubeletThread, pids: Mapping[str, int], report: Report) -> None:
        self._plane = plane
        self._kubelet = kubelet
        self._pids = pids
        self._report = report
        self._alive: deque[Wave] = deque()

    def churn(self, minutes: float) -> None:
        """Let waves come and go, then let the last ones go, too."""
        until_s = time.monotonic() + 60 * minutes
        told_s = time.monotonic()
        while time.monotonic() < until_s:
            self._come()
            if len(self._alive) > ALIVE:
                self._go(self._alive.popleft())
            if time.monotonic() - told_s >= 60:
                told_s = time.monotonic()
                sizes = ", ".join(f"{name} {size:.0f} MiB" for name, size in self.sizes().items())
                print(f"  {self._report.waves} waves: {sizes}", file=sys.stderr, flush=True)  # noqa: T201
        while self._alive:
            self._go(self._alive.popleft())
        eventually(self._is_empty, _DONE_S, lambda: "everything is deleted")

    def settled(self) -> dict[str, float]:
        """The least memory of each process within a while after everything is gone, in MiB."""
        least = self.sizes()
        until_s = time.monotonic() + _SETTLE_S
        while time.monotonic() < until_s:
            time.sleep(1)
            least = {name: min(size, least[name]) for name, size in self.sizes().items()}
        return least

    def sizes(self) -> dict[str, float]:
        """Resident memory by process, in MiB."""
        return {name: round(memory_bytes(pid) / _MIB, 1) for name, pid in self._pids.items()}

    def _come(self) -> None:
        wave = Wave(self._report.waves)
        self._report.waves += 1
        self._alive.append(wave)
        self._kubelet.add_nodes(wave.nodes)
        for collection, body in wave.objects:
            answer = self._plane.request("POST", collection, body)
            if answer.status != 201:
                self._report.problems.append(f"{collection}: {answer.status} {answer.content[:200]!r}")
        eventually(
            lambda: self._bound(wave) >= BOUND_PER_WAVE,
            _DONE_S,
            lambda: f"wave {wave.number}: {self._bound(wave)} bound",
        )
        self._report.pods_bound += BOUND_PER_WAVE
        for beat in range(1, BEATS + 1):
            for index, node in enumerate(wave.nodes):
                self._plane.request("PATCH", f"/api/v1/nodes/{node.name}", wave.node_patch(index, beat))
            for pod in self._pods(wave)[::4]:
                path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
                self._plane.request("PATCH", path, wave.pod_patch(beat))

    def _go(self, wave: Wave) -> None:
        for group in (
            f"apis/apps/v1/namespaces/{NAMESPACE}/deployments",
            f"apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
        ):
            self._plane.request("DELETE", f"/{group}?labelSelector={wave.selector}")
        for group in ("pods", "persistentvolumeclaims"):
            self._plane.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/{group}?labelSelector={wave.selector}")
        self._plane.request("DELETE", f"/api/v1/persistentvolumes?labelSelector={wave.selector}")
        eventually(lambda: not self._pods(wave), _DONE_S, lambda: f"the pods of wave {wave.number} are gone")
        self._kubelet.remove_nodes(node.name for node in wave.nodes)

    def _pods(self, wave: Wave) -> list[dict[str, dict[str, str]]]:
        found: list[dict[str, dict[str, str]]] = self._plane.request(
            "GET", f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={wave.selector}"
        ).json()["items"]
        return found

    def _bound(self, wave: Wave) -> int:
        return sum(bool(pod["spec"].get("nodeName")) for pod in self._pods(wave))

    def _is_empty(self) -> bool:
        paths = (f"/api/v1/namespaces/{NAMESPACE}/pods", "/api/v1/nodes", "/api/v1/persistentvolumes")
        return not any(self._plane.request("GET", path).json()["items"] for path in paths)


def soak(minutes: float, warm_up: float) -> Report:
    """Play it all."""
    report = Report(minutes)
    with ControlPlane.start() as plane, _players(plane) as (kubelet, pids):
        course = Soak(plane, kubelet, pids, report)
        course.churn(warm_up)
        report.plateau_mib = course.settled()
        print(f"plateau: {report.plateau_mib}", file=sys.stderr, flush=True)  # noqa: T201
        course.churn(minutes)
        report.end_mib = course.settled()
    report.judge()
    return report


@contextmanager
def _players(plane: ControlPlane) -> Iterator[tuple[KubeletThread, dict[str, int]]]:
    """Controllers, kubelets and the processes of Moorage, by name."""
    plane.start_controller_manager("--concurrent-gc-syncs=4")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = folder / "config.yaml"
        config.write_text(CONFIG)
        _prepare(plane)
        given = ("--config", str(config))
        ports = free_ports(5)
        served = [f"127.0.0.1:{port}" for port in ports]
        pids = {
            "scheduler": stack.enter_context(
                running(plane, folder, "scheduler", *given, f"--secure-port={ports[0]}")
            ).pid,
            "keeper": stack.enter_context(
                running(
                    plane,
                    folder,
                    "keeper",
                    *given,
                    "--leader-elect=false",
                    "--metrics-listen",
                    served[1],
                    "--health-listen",
                    served[2],
                )
            ).pid,
            "extender": stack.enter_context(running(plane, folder, "extender", *given, "--listen", served[3])).pid,
            "webhook": stack.enter_context(webhook(plane, folder / "webhook")).process.pid,
        }
        yield stack.enter_context(kubelet_thread(plane.admin_kubeconfig)), pids


def _prepare(plane: ControlPlane) -> None:
    mode = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    for path, body in (
        ("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {"kind": "StorageClass", "metadata": {"name": STORAGE_CLASS}, **mode},
        ),
    ):
        answer = plane.request("POST", path, body)
        assert answer.status == 201, answer.content


def _table(report: Report) -> str:
    lines = [f"{report.minutes:g} minutes, {report.waves} waves, {report.pods_bound} pods bound"]
    lines.append(f"{'process':<12}{'plateau':>12}{'end':>12}{'growth':>10}")
    for name, plateau in report.plateau_mib.items():
        end = report.end_mib.get(name, 0.0)
        lines.append(f"{name:<12}{plateau:>8.1f} MiB{end:>8.1f} MiB{100 * (end / plateau - 1):>9.1f}%")
    return "\n".join([*lines, *(f"breach: {problem}" for problem in report.problems)])


def main() -> int:
    """Run from the command line; 1 if something grew."""
    parser = argparse.ArgumentParser(
        prog="make soak", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--warm-up", type=float, default=4.0)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args()
    report = soak(given.minutes, given.warm_up)
    print(json.dumps(asdict(report)) if given.output == "json" else _table(report))  # noqa: T201
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
