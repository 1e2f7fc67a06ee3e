"""How long the extender takes for a question about many nodes, whole or by name, over HTTP and without a cluster.

    python -m moorage.bench.extender [NODES]

The extender runs in a process of its own, as it does in a cluster; what it costs is what its `/metrics` says of its
CPU. The profile runs ControllerSpread and SpotPlacement, and half of the nodes are spot.
"""

from __future__ import annotations

import asyncio
import io
import multiprocessing
import re
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import aiohttp
import msgspec

from moorage.adapters.extender.handler import ExtenderHandler
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.adapters.extender.server import ExtenderSources, application, bounds_of
from moorage.adapters.listening import listening
from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.process import tune_process
from moorage.core.commands import Bind
from moorage.core.echo import answer_to
from moorage.core.events import BindDone, NodeSeen, ObjectSeen, PodSeen
from moorage.core.objects import Workload
from moorage.engine.extending import Extending
from moorage.framework.configuration import EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.profiles import build_profile
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.kinds import NODE
from moorage.wire.pod import decode_pod

NODES = 5000
ROUNDS = {"names": 200, "whole nodes": 20}
_DIFFERENT = 4
"""Pods of so many controllers are asked about in turn."""


def node(number: int) -> dict[str, Any]:
    """A node as kube-scheduler sends it."""
    capacity = "spot" if number % 2 else "on-demand"
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "node.kubernetes.io/capacity": capacity}
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    images = [{"names": [f"registry.example/team/app-{i}@sha256:{'0' * 64}"], "sizeBytes": i << 20} for i in range(42)]
    status = {"allocatable": amounts, "capacity": amounts, "images": images}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def pod(number: int) -> dict[str, Any]:
    """A pod of a ReplicaSet of its own."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{number}", "uid": f"rs-{number}"}
    metadata = {"name": f"web-{number}-0", "namespace": "default", "uid": f"pod-{number}"}
    spec = {"containers": [{"name": "c", "image": "registry.example/web:v1"}]}
    return {"metadata": {**metadata, "ownerReferences": [{**owner, "controller": True}]}, "spec": spec}


def serve(count: int, answer: Connection) -> None:
    """The extender's process: never ends by itself."""
    asyncio.run(_serve(count, answer))


async def _serve(count: int, answer: Connection) -> None:
    plugins = PluginSet((EnabledPlugin("ControllerSpread"), EnabledPlugin("SpotPlacement")))
    extending = Extending(build_profile(ProfileConfiguration(multi_point=plugins), Registry(BUILTIN)))
    for number in range(count):
        extending.handle(NodeSeen(NODE.from_builtin(node(number))))
    for number in range(_DIFFERENT):
        workload = Workload("ReplicaSet", "default", f"web-{number}", f"rs-{number}", replicas=3)
        extending.handle(ObjectSeen("ReplicaSet", workload.key, workload))
        extending.handle(PodSeen(decode_pod(msgspec.json.encode(pod(number)))))
    tune_process()

    async def bind(command: Bind) -> BindDone:
        return answer_to(command)

    metrics = ExtenderMetrics(extending, lambda: True)
    handler = ExtenderHandler(extending, bind, metrics)
    app = application(handler, ExtenderSources(lambda: "", MetricsPage(metrics).render), metrics)
    async with listening(app, "127.0.0.1", 0, bounds=bounds_of(128 << 20, 5.0)) as url:
        answer.send(url)
        await asyncio.Event().wait()


async def measure(url: str, count: int) -> None:
    """Ask, and print what it took."""
    names = [f"node-{number}" for number in range(count)]
    whole = b",".join(msgspec.json.encode(node(number)) for number in range(count))
    async with aiohttp.ClientSession() as session:
        for verb in ("filter", "prioritize"):
            for form in ("names", "whole nodes"):
                bodies = [_names(n, names) if form == "names" else _whole(n, whole) for n in range(_DIFFERENT)]
                wall_ms: list[float] = []
                rounds = ROUNDS[form]
                before_s = await _cpu_s(session, url)
                for number in range(rounds):
                    began_s = time.perf_counter()
                    async with session.post(f"{url}/{verb}", data=io.BytesIO(bodies[number % _DIFFERENT])) as response:
                        size = len(await response.read())
                    wall_ms.append(1000 * (time.perf_counter() - began_s))
                cpu_ms = 1000 * (await _cpu_s(session, url) - before_s) / rounds
                row = (f"{verb}, {form}", len(bodies[0]) / 1e6, size / 1e6, median(wall_ms), cpu_ms)
                _print("{:<24}{:>8.1f} MB in{:>8.1f} MB out{:>10.1f} ms{:>10.1f} ms CPU".format(*row))


def _names(number: int, names: list[str]) -> bytes:
    return msgspec.json.encode({"Pod": pod(number), "Nodes": None, "NodeNames": names})


def _whole(number: int, nodes: bytes) -> bytes:
    listed: Mapping[str, Any] = {"metadata": {}, "items": msgspec.Raw(b"[%b]" % nodes)}
    return msgspec.json.encode({"Pod": pod(number), "Nodes": listed, "NodeNames": None})


async def _cpu_s(session: aiohttp.ClientSession, url: str) -> float:
    async with session.get(f"{url}/metrics") as response:
        found = re.search(r"^process_cpu_seconds_total (\S+)$", await response.text(), re.MULTILINE)
    return 0.0 if found is None else float(found[1])


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure with as many nodes as the command line says."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(count, theirs), daemon=True)
    server.start()
    try:
        asyncio.run(measure(ours.recv(), count))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
