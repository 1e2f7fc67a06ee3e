"""How much memory custom-k8s-scheduler needs: `python -m tests.deploy.custom_k8s_memory [NODES PODS]`.

On a real API server with so many nodes and pods on them (1,000 and 10,000), a leader and a standby run on the example's
configuration with the rights of its account while a tenth as many pods more are created and bound. Printed is the most
that each process ever had in memory, which is what a limit counts.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.resources import NODES, PODS
from moorage.bench.controlplane import ControlPlane
from tests.contract.manifests import a_node, a_pod
from tests.deploy.chart import kubectl, token_kubeconfig
from tests.patience import eventually

FOLDER = Path(__file__).parents[2] / "deploy/examples/custom-k8s-scheduler"
NAME = "custom-k8s-scheduler"
LIMIT_MIB = 512
AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Footprint:
    """What came of a run."""

    leader_mib: float
    standby_mib: float
    bound: int


async def _create_all(plane: ControlPlane, nodes: int, pods: Iterable[dict[str, Any]]) -> None:
    """Make nodes, if any, then pods, many at once."""
    room = asyncio.Semaphore(AT_ONCE)
    async with KubeClient(load_credentials(str(plane.admin_kubeconfig), None), qps=100_000, burst=100_000) as client:

        async def create(resource: Any, body: dict[str, Any], namespace: str | None) -> None:
            async with room:
                await client.create(resource, body, namespace)

        for resource, bodies, namespace in (
            (NODES, [a_node(f"node-{number:05}", cpu="32") for number in range(nodes)], None),
            (PODS, list(pods), "default"),
        ):
            await asyncio.gather(*(create(resource, body, namespace) for body in bodies))


def _pods(prefix: str, number: int, nodes: int = 0) -> list[dict[str, Any]]:
    """Pods as workloads make them, with labels; on nodes if there are any."""
    made = []
    for index in range(number):
        body = a_pod(f"{prefix}-{index:06}", cpu="100m", scheduler=NAME)
        body["metadata"]["labels"] = {"app": f"app-{index % 200}", "pod-template-hash": f"{index % 200:010}"}
        if nodes:
            body["spec"]["nodeName"] = f"node-{index % nodes:05}"
        made.append(body)
    return made


def account_kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    """How the scheduler's pod would reach the API server."""
    return token_kubeconfig(plane, folder, "kube-system", NAME)


def _most_mib(process: subprocess.Popen[bytes]) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kib) / 1024


def _bound(plane: ControlPlane, prefix: str) -> int:
    listed = kubectl(plane, "get", "pods", "-o", "json", "-l", "fresh=yes")
    return sum("nodeName" in item["spec"] for item in json.loads(listed)["items"] if prefix in item["metadata"]["name"])


def measure(plane: ControlPlane, folder: Path, nodes: int, pods: int) -> Footprint:
    """Fill the cluster, run two schedulers, give them work, and look."""
    kubectl(plane, "apply", "-f", FOLDER / "manifests.yaml")
    asyncio.run(_create_all(plane, nodes, _pods("present", pods, nodes)))
    credentials = account_kubeconfig(plane, folder)
    command = [sys.executable, "-m", "moorage", "scheduler", "--secure-port=0", "--v=5"]
    command += [f"--kubeconfig={credentials}", f"--config={FOLDER / 'config.yaml'}"]
    with ExitStack() as stack:
        started = []
        for role, says in (("leader", "scheduling"), ("standby", "lock is held by")):
            log = folder / f"{role}.log"
            output = stack.enter_context(log.open("wb"))
            process = stack.enter_context(subprocess.Popen(command, stdout=output, stderr=output))
            stack.callback(process.terminate)
            eventually(lambda log=log, says=says: says in log.read_text(), 120, log.read_text)  # type: ignore[misc]
            started.append(process)
        fresh = _pods("fresh", pods // 10)
        for body in fresh:
            body["metadata"]["labels"]["fresh"] = "yes"
        asyncio.run(_create_all(plane, 0, fresh))
        eventually(lambda: _bound(plane, "fresh") == len(fresh), 240, lambda: _bound(plane, "fresh"))
        leader_mib, standby_mib = map(_most_mib, started)
        text = (folder / "leader.log").read_text() + (folder / "standby.log").read_text()
        assert "orbidden" not in text
    return Footprint(leader_mib, standby_mib, len(fresh))


def main() -> None:
    """Print the figures; the exit code says whether they are within the limit."""
    nodes, pods = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (1000, 10_000)
    with ControlPlane.start() as plane, tempfile.TemporaryDirectory() as folder:
        found = measure(plane, Path(folder), nodes, pods)
    sys.stdout.write(
        f"{nodes} nodes, {pods} pods present, {found.bound} bound: leader {found.leader_mib:.0f} MiB, "
        f"standby {found.standby_mib:.0f} MiB, limit {LIMIT_MIB} MiB\n"
    )
    sys.exit(max(found.leader_mib, found.standby_mib) > LIMIT_MIB)


if __name__ == "__main__":
    main()
