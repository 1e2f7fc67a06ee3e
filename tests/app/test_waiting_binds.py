"""Binds that wait, on the real API server: for those of another namespace, or while their node changes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from moorage.bench.controlplane import SCHEDULER, ControlPlane
from tests.contract.manifests import a_node, a_pod
from tests.faults.proxy import Proxy
from tests.faults.rules import BIND, FOREVER, Hold, Rule

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 5000}
profiles: [{schedulerName: moorage}]
"""


@asynccontextmanager
async def scheduling(plane: ControlPlane, folder: Path, *rules: Rule) -> AsyncIterator[Proxy]:
    """A scheduler behind a proxy."""
    (folder / "config.yaml").write_text(CONFIG)
    async with Proxy(plane, rules) as proxy:
        kubeconfig = proxy.kubeconfig(SCHEDULER.name, folder / "kubeconfig")
        command = [sys.executable, "-m", "moorage", "scheduler", "--secure-port=0"]
        command += ["--kubeconfig", str(kubeconfig), "--config", str(folder / "config.yaml")]
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=subprocess.STDOUT)
            try:
                yield proxy
            finally:
                process.kill()
                await process.wait()


async def eventually(condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - the API server is asked
            await asyncio.sleep(0.05)
    assert condition(), what


def add_pods(plane: ControlPlane, namespace: str, *names: str) -> None:
    assert plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}).status in {201, 409}
    for name in names:
        pod = a_pod(name, cpu="1m")
        pod["metadata"]["namespace"] = namespace
        assert plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod).status == 201


def nodes_of(plane: ControlPlane, namespace: str) -> Counter[str]:
    """How many pods of a namespace stand where; those that wait, nowhere."""
    pods = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods").json()["items"]
    return Counter(pod["spec"].get("nodeName", "") for pod in pods)


def test_a_namespace_whose_binds_hang_stops_no_other(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """More of its pods than there are places, in front of the others' pods, and not one of its binds is answered."""
    plane = empty_control_plane
    plane.request("POST", "/api/v1/nodes", a_node("n1", cpu="64", pods="1000"))
    add_pods(plane, "hanging", *(f"p{number}" for number in range(300)))

    async def story() -> None:
        hold = Rule(verb=BIND, path="/namespaces/hanging/", times=FOREVER, act=Hold())
        async with scheduling(plane, tmp_path, hold) as proxy:
            await proxy.held.wait()
            add_pods(plane, "other", *(f"p{number}" for number in range(20)))
            await eventually(lambda: nodes_of(plane, "other") == {"n1": 20}, "the others are bound", within_s=20.0)
            assert nodes_of(plane, "hanging") == {"": 300}
            proxy.release()
            await eventually(lambda: nodes_of(plane, "hanging") == {"n1": 300}, "all are bound")

    asyncio.run(story())


def test_a_bind_that_waits_is_not_posted_to_a_node_that_was_cordoned(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Those that were sent before are the API server's; those that still wait go to another node."""
    plane = empty_control_plane
    plane.request("POST", "/api/v1/nodes", a_node("n1", cpu="64", pods="1000"))
    add_pods(plane, "waiting", *(f"p{number}" for number in range(150)))

    async def story() -> None:
        hold = Rule(verb=BIND, path="/namespaces/waiting/", times=FOREVER, act=Hold())
        async with scheduling(plane, tmp_path, hold) as proxy:
            await proxy.held.wait()
            plane.request("POST", "/api/v1/nodes", a_node("n2", cpu="64", pods="1000"))
            node = plane.request("GET", "/api/v1/nodes/n1").json()
            node["spec"]["unschedulable"] = True
            assert plane.request("PUT", "/api/v1/nodes/n1", node).status == 200
            # The pod on n2 only shows that the scheduler has seen it.
            add_pods(plane, "seen", "p")
            await eventually(lambda: nodes_of(plane, "seen") == {"n2": 1}, "the scheduler knows", within_s=20.0)
            proxy.release()
            await eventually(lambda: not nodes_of(plane, "waiting")[""], "all are bound")
            found = nodes_of(plane, "waiting")
            assert found["n1"] <= 64
            assert found["n1"] + found["n2"] == 150

    asyncio.run(story())
