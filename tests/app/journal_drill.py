"""Journals of real runs, decided again: `python -m tests.app.journal_drill` plays it in full and prints the figures.

`eventful(plane, folder, pods)`: two schedulers, each with a journal, one of them standing by. Single pods, spread pods,
gangs, pods that evict others and pods that fit nowhere at first arrive; the configuration is changed on the way, and
the leader is killed with binds under way. Replaying both journals must give every decision again.

`counterfactual(plane, folder, pods)`: waiting pods are placed by one profile. What `moorage replay --config` says about
another profile must be what a scheduler with that profile decides about the same pods.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.bench.clustercreation import create_all
from moorage.bench.controlplane import ControlPlane
from tests.app.spot_drill import eventually

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
WITHIN_S = 900.0
GANG = 5
_PAUSE_S = 0.3
_HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 10000}
leaderElection: {leaderElect: %s, leaseDuration: 15s, renewDeadline: 12s, retryPeriod: 1s}
podMaxBackoffSeconds: 2
profiles:
- schedulerName: moorage
"""
SPREADING = ""
PACKING = """
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""
Manifest = dict[str, Any]


def config_text(profile: str, *, elects: bool = False) -> str:
    return _HEAD % ("true" if elects else "false") + profile


# --- what there is ---


def node(name: str, pool: str, cpu: str = "16") -> Manifest:
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "pool": pool, "topology.kubernetes.io/zone": f"z{len(name) % 3}"}
    conditions = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions},
    }


def pod(name: str, cpu: str, pool: str = "large", **fields: Any) -> Manifest:
    metadata = {"name": name, "labels": {"app": name.partition("-")[0]}, "annotations": fields.pop("annotations", {})}
    container = {"name": "c", "image": "registry.example/app:v1", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "schedulerName": "moorage",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"pool": pool},
        "containers": [container | {"env": [{"name": "PASSWORD", "value": "hunter2"}]}],
        **fields,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def spread_pod(name: str) -> Manifest:
    rule = {
        "maxSkew": 5,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": name.partition("-")[0]}},
    }
    return pod(name, "100m", topologySpreadConstraints=[rule])


def gang_members(number: int) -> Iterator[Manifest]:
    annotations = {"moorage.dev/pod-group": f"gang-{number}", "moorage.dev/pod-group-min-available": str(GANG)}
    for member in range(GANG):
        yield pod(f"gang-{number}-{member}", "250m", annotations=annotations)


def single(number: int) -> Manifest:
    return spread_pod(f"spread-{number}") if number % 3 == 0 else pod(f"single-{number}", f"{100 + number % 8 * 50}m")


# --- doing things ---


def client_of(plane: ControlPlane) -> KubeClient:
    return KubeClient(load_credentials(str(plane.admin_kubeconfig), None), qps=10_000, burst=20_000)


def create(plane: ControlPlane, items: Iterable[tuple[str, Manifest]]) -> None:
    async def run() -> None:
        async with client_of(plane) as client:
            await create_all(client, items, lambda: None)

    asyncio.run(run())


def delete_pods(plane: ControlPlane, names: Iterable[str]) -> None:
    left = iter(names)

    async def work(client: KubeClient) -> None:
        for name in left:
            await client.request("DELETE", f"{PODS}/{name.removeprefix('default/')}")

    async def run() -> None:
        async with client_of(plane) as client, asyncio.TaskGroup() as tasks:
            for _ in range(48):
                tasks.create_task(work(client))

    asyncio.run(run())


def create_pods(plane: ControlPlane, pods: Iterable[Manifest]) -> None:
    create(plane, ((PODS, each) for each in pods))


def pods_of(plane: ControlPlane, query: str = "") -> Iterator[Manifest]:
    """All pods, page by page; a server that is busy is asked again."""
    more = ""
    while True:
        try:
            page = plane.request("GET", f"{PODS}?limit=500{query}{more}").json()
        except TimeoutError:
            continue
        yield from page["items"]
        token = page["metadata"].get("continue")
        if not token:
            return
        more = f"&continue={token}"


def waiting(plane: ControlPlane) -> set[str]:
    """Names of the pods that have no node."""
    return {item["metadata"]["name"] for item in pods_of(plane, "&fieldSelector=spec.nodeName%3D")}


def bound(plane: ControlPlane) -> dict[str, str]:
    """`namespace/name` -> node."""
    return {f"default/{item['metadata']['name']}": item["spec"].get("nodeName", "") for item in pods_of(plane)}


def finish_evicted(plane: ControlPlane) -> None:
    """What kubelets do: a request that died with the leader may leave a pod marked and not deleted."""
    for item in pods_of(plane, "&labelSelector=app%3Dfiller"):
        if item["metadata"].get("deletionTimestamp"):
            plane.request("DELETE", f"{PODS}/{item['metadata']['name']}?gracePeriodSeconds=0")


def all_placed_but(plane: ControlPlane, prefix: str) -> None:
    def left() -> set[str]:
        time.sleep(_PAUSE_S)  # lists of thousands of pods are not for free
        finish_evicted(plane)
        return {name for name in waiting(plane) if not (prefix and name.startswith(prefix))}

    eventually(lambda: not left(), WITHIN_S, lambda: f"every pod has a node; {sorted(left())[:5]} have none")


@contextmanager
def scheduler(
    plane: ControlPlane, folder: Path, name: str, config: Path, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler of its own, with a journal in `folder/name`; the log says `scheduling` once it decides."""
    command = [sys.executable, "-m", "moorage", "scheduler", "--kubeconfig", str(plane.admin_kubeconfig)]
    command += ["--secure-port=0", "--config", str(config), "--journal", str(folder / name), *arguments]
    with (folder / f"{name}.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as child:
        try:
            yield child
        finally:
            child.terminate()
            child.wait(60)


def says(folder: Path, name: str, text: str) -> None:
    log = folder / f"{name}.log"
    eventually(lambda: text in log.read_text(), 90, lambda: f"{name} says {text!r}: {log.read_text()[-2000:]}")


def replay(folder: Path, *arguments: str, good: tuple[int, ...] = (0,)) -> Manifest:
    """`moorage replay` in a process of its own."""
    command = [sys.executable, "-m", "moorage", "replay", str(folder), "-o", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in good, f"{done.returncode}: {done.stderr} {done.stdout[:3000]}"
    document: Manifest = json.loads(done.stdout)
    return document


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


# --- the two acts ---


def eventful(plane: ControlPlane, folder: Path, pods: int) -> Manifest:
    """Play the first act; returns the figures of both replays."""
    config = folder / "config.yaml"
    config.write_text(config_text(SPREADING, elects=True))
    for name, value in (("low", -10), ("high", 1000)):
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        plane.request("POST", CLASSES, priority | {"metadata": {"name": name}})
    share = max(pods // 20, GANG)
    create(plane, ((NODES, node(f"large-{number}", "large")) for number in range(max(pods // 25, 4))))
    create(plane, ((NODES, node(f"small-{number}", "small", "1")) for number in range(share)))
    fillers = [pod(f"filler-{number}", "900m", "small", priorityClassName="low") for number in range(share)]
    late = [pod(f"late-{number}", "100m", "late") for number in range(share)]
    gangs = [member for number in range(share * 4 // GANG) for member in gang_members(number)]
    urgent = [pod(f"urgent-{number}", "500m", "small", priorityClassName="high") for number in range(share)]
    singles = [single(number) for number in range(pods - 3 * share - len(gangs))]
    half = len(singles) // 2
    with ExitStack() as stack:
        leader = stack.enter_context(scheduler(plane, folder, "first", config))
        says(folder, "first", "scheduling")
        stack.enter_context(scheduler(plane, folder, "second", config))
        says(folder, "second", "new leader elected")
        create_pods(plane, [*fillers, *late, *gangs[: len(gangs) // GANG // 2 * GANG], *singles[:half]])
        all_placed_but(plane, "late")
        config.write_text(config_text(PACKING, elects=True))
        says(folder, "first", "configuration applied")
        says(folder, "second", "configuration applied")
        create_pods(plane, [*urgent[::2], *gangs[len(gangs) // GANG // 2 * GANG :], *singles[half : half + half // 2]])
        leader.send_signal(signal.SIGKILL)  # what it did last may not be in its journal
        create_pods(plane, [*urgent[1::2], *singles[half + half // 2 :]])
        create(plane, ((NODES, node(f"late-{number}", "late")) for number in range(max(share // 100, 1))))
        all_placed_but(plane, "")
    figures = {name: replay(folder / name) for name in ("first", "second")}
    for name, figure in figures.items():
        assert figure["differing"] == 0, f"{name}: {figure['differences'][:5]}"
        assert not secrets_in(folder / name)
        figure["bytes"] = size_of(folder / name)
    return figures


def secrets_in(folder: Path) -> bool:
    """Whether what only the pods' containers should know can be read in a journal."""
    from moorage.adapters.journal.frames import Segment, segments  # noqa: PLC0415

    return any(b"hunter2" in piece.data for path in segments(folder) for piece in Segment(path).pieces())


def counterfactual(plane: ControlPlane, folder: Path, pods: int) -> Manifest:
    """Play the second act; returns how many pods differ."""
    create(plane, ((NODES, node(f"node-{number}", "large")) for number in range(max(pods // 30, 4))))
    everyone = [single(number) for number in range(pods)]
    found: dict[str, dict[str, str]] = {}
    for name, profile in (("spreading", SPREADING), ("packing", PACKING)):
        create_pods(plane, everyone)
        config = folder / f"{name}.yaml"
        config.write_text(config_text(profile))
        with scheduler(plane, folder, name, config):
            all_placed_but(plane, "")
        found[name] = bound(plane)
        delete_pods(plane, found[name])
        eventually(lambda: not bound(plane), WITHIN_S, lambda: "the pods are gone")
    assert replay(folder / "spreading")["differing"] == 0
    figure = replay(folder / "spreading", "--config", str(folder / "packing.yaml"))
    before, after = found["spreading"], found["packing"]
    want = {(name, before[name], after[name]) for name in before if before[name] != after[name]}
    said = {(each["pod"], each["recorded"], each["decided"]) for each in figure["differences"]}
    assert said == want, f"{len(said ^ want)} of {len(want)} differ: {sorted(said ^ want)[:5]}"
    assert figure["pods"] == pods
    return {"pods": pods, "differing": len(want), "other than a fresh run": len(said ^ want)}


def main() -> None:
    """Play both acts and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000, help="pods of each act")
    parser.add_argument("--act", choices=("eventful", "counterfactual"), action="append", help="only this one")
    arguments = parser.parse_args()
    for act in (eventful, counterfactual):
        if arguments.act and act.__name__ not in arguments.act:
            continue
        with tempfile.TemporaryDirectory() as folder, ControlPlane.start() as plane:
            figures = act(plane, Path(folder), arguments.pods)
            sys.stdout.write(json.dumps({act.__name__: figures}, indent=2) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
