"""What a scheduler needs by the size of the cluster: `python -m tests.app.sizing [NODES:PODS ...]`.

For each size a real API server gets so many nodes and pods on them: 50 pods a workload, one workload in ten spread over
zones, one in twenty kept apart by anti-affinity. A leader and a standby run with the default profile and the rights of
kube-scheduler while a tenth as many pods more are created and bound. Printed are rows of the table in docs/operate.md:
the most that each process ever had in memory (which is what a limit counts), and CPU seconds of the leader.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.resources import NODES, PODS, Resource
from moorage.bench.controlplane import ControlPlane
from tests.contract.manifests import a_node, a_pod

SIZES = ("100:1000", "1000:10000", "5000:50000")
AT_ONCE = 64
REPLICAS = 50
"""Pods of one workload."""
START_S, BIND_S = 600.0, 1800.0
# The lease lives long: roles must not change when the machine that also runs the API server is busy with other things.
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 1000, burst: 2000}
leaderElection: {leaderElect: true, resourceName: sizing, leaseDuration: 300s, renewDeadline: 240s, retryPeriod: 2s}
profiles: [{schedulerName: moorage}]
"""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Needs:
    """What came of one size."""

    nodes: int
    pods: int
    leader_mib: float
    standby_mib: float
    start_s: float
    """From the start of the process to its first decision."""
    bind_s: float
    """For the tenth as many pods that came on top."""
    cpu_s: float
    """Of the leader, for all of it."""

    def row(self) -> str:
        """As a line of the table."""
        return (
            f"| {self.nodes:,} | {self.pods:,} | {self.leader_mib:.0f} MiB | {self.standby_mib:.0f} MiB "
            f"| {self.start_s:.1f} s | {self.pods // 10:,} in {self.bind_s:.1f} s | {self.cpu_s:.0f} s |"
        )


def node(number: int) -> Document:
    """With the labels that nodes of a cloud have."""
    labels = {
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "node.kubernetes.io/instance-type": f"type-{number % 5}",
        "kubernetes.io/arch": "amd64",
    }
    return a_node(f"node-{number:05}", cpu="32", labels=labels)


def pod(prefix: str, number: int, nodes: int = 0) -> Document:
    """One of a workload; on a node if there are any."""
    workload = number // REPLICAS
    labels = {"app": f"{prefix}-{workload}", "pod-template-hash": f"{workload:010}"}
    selector = {"matchLabels": {"app": labels["app"]}}
    spec: Document = {}
    if workload % 10 == 0:
        rule = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": selector}]
    if workload % 20 == 1:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        spec["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
            }
        }
    if nodes:
        spec["nodeName"] = f"node-{number % nodes:05}"
    made = a_pod(f"{prefix}-{number:06}", cpu="100m", **spec)
    made["metadata"]["labels"] = labels
    return made


async def create(plane: ControlPlane, resource: Resource, bodies: Sequence[Document], namespace: str | None) -> None:
    """Make all of them, many at once."""
    room = asyncio.Semaphore(AT_ONCE)
    async with KubeClient(load_credentials(str(plane.admin_kubeconfig), None), qps=100_000, burst=100_000) as client:

        async def one(body: Document) -> None:
            async with room:
                await client.create(resource, body, namespace)

        await asyncio.gather(*(one(body) for body in bodies))


def said(log: Path, words: str) -> bool:
    """Whether these are in the log."""
    return words in log.read_text()


def until(condition: Callable[[], bool], within_s: float, log: Path) -> float:
    """Wait until it holds; how long that took."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < within_s, log.read_text()[-3000:]
        time.sleep(0.1)
    return time.monotonic() - began_s


def most_mib(process: subprocess.Popen[bytes]) -> float:
    """The most that it ever had in memory."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kib) / 1024


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """What it has used so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(plane: ControlPlane, folder: Path, nodes: int, pods: int) -> Needs:
    """Fill the cluster, run two schedulers, give them work, and look."""
    asyncio.run(create(plane, NODES, [node(number) for number in range(nodes)], None))
    asyncio.run(create(plane, PODS, [pod("present", number, nodes) for number in range(pods)], "default"))
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "moorage", "scheduler", "--secure-port=0", "--v=5", f"--config={config}"]
    command += [f"--kubeconfig={plane.scheduler_kubeconfig}"]
    with ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []
        starts_s: list[float] = []
        for role, says in (("leader", "scheduling  "), ("standby", "lock is held by")):
            log = folder / f"{role}.log"
            output = stack.enter_context(log.open("wb"))
            process = stack.enter_context(subprocess.Popen(command, stdout=output, stderr=output))
            stack.callback(process.terminate)
            started.append(process)
            starts_s.append(until(partial(said, log, says), START_S, log))
        leader = folder / "leader.log"
        fresh = [pod("fresh", number) for number in range(pods // 10)]
        began_s = time.monotonic()
        asyncio.run(create(plane, PODS, fresh, "default"))
        until(lambda: leader.read_text().count("Successfully bound pod to node") >= len(fresh), BIND_S, leader)
        took_s = time.monotonic() - began_s
        leader_mib, standby_mib = map(most_mib, started)
        return Needs(nodes, pods, leader_mib, standby_mib, starts_s[0], took_s, cpu_s(started[0]))


def main() -> None:
    """Print the table."""
    head = ("nodes", "pods", "memory of the leader", "of the standby", "start", "bound on top", "CPU of the leader")
    sys.stdout.write(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for size in sys.argv[1:] or SIZES:
        nodes, _, pods = size.partition(":")
        with ControlPlane.start() as plane, tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(measure(plane, Path(folder), int(nodes), int(pods)).row() + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
