"""How long it takes to say why a pod waits and what would help, on a cluster that a process follows already.

    python -m moorage.bench.explain [NODES [PODS]]

Counted is what `moorage explain` and the dashboard compute: every node judged, changes looked for, tried and proven,
whole objects made. Listing and decoding the cluster is told apart.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from moorage.adapters.process import tune_process
from moorage.core.events import Event, NodeSeen, PodSeen
from moorage.core.labelnames import HOSTNAME, ZONE
from moorage.engine.counterfactual import suggest
from moorage.engine.engine import Engine
from moorage.engine.explain import explain
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.kinds import NODE, pod_kind
from moorage.wire.rewriting import Rewriter
from moorage.wire.templates import TemplateTable

NODES, PODS = 5000, 50_000
_NOW_S = 1e9
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_APPS = 100
_SIZES = (700, 750, 800, 780)
Plain = dict[str, Any]


def node(number: int) -> Plain:
    """One of several kinds: in three zones, a tenth with taints, a few cordoned."""
    name = f"node-{number}"
    spec: Plain = {"unschedulable": True} if number % 50 == 1 else {}
    if number % 10 == 0:
        spec = {"taints": [{"key": "team", "value": f"t{number % 7}", "effect": "NoSchedule"}]}
    labels = {HOSTNAME: name, ZONE: f"zone-{number % 3}", "disk": "ssd" if number % 2 else "hdd"}
    status = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": status}  # fmt: skip


def pod(name: str, app: str, cpu_milli: int, **spec: Any) -> Plain:
    """A pod with one container."""
    requests = {"cpu": f"{cpu_milli}m", "memory": "2Gi"}
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def stuck_pods() -> Iterator[Plain]:
    """Pods that fit nowhere, each for another reason."""
    selector = {"matchLabels": {"app": "app-1"}}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 4}
    apart = [{"topologyKey": ZONE, "labelSelector": selector}]
    near = [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "nobody"}}}]
    yield pod("too large", "new", 1500)
    yield pod("larger than any node", "new", 64_000)
    yield pod("selector", "new", 100, nodeSelector={"disk": "nvme"})
    yield pod("spread", "app-1", 100, topologySpreadConstraints=[{**spread, "labelSelector": selector}])
    yield pod("anti-affinity", "app-1", 100, affinity={"podAntiAffinity": {_REQUIRED: apart}})
    yield pod("affinity", "new", 100, affinity={"podAffinity": {_REQUIRED: near}})
    yield pod("selector and size", "new", 3000, nodeSelector={"disk": "nvme"})
    yield pod("important and large", "new", 7000, nodeSelector={"disk": "nvme"}, priority=1000)
    yield pod("gated", "new", 100, schedulingGates=[{"name": "example.com/wait"}])


def main() -> None:
    """Measure with as many nodes and pods as the command line says."""
    sizes = [int(text) for text in sys.argv[1:]]
    nodes = sizes[0] if sizes else NODES
    pods = sizes[1] if len(sizes) > 1 else PODS
    tune_process()
    known, events = _cluster(nodes, pods)
    profiles = build_profiles(Configuration(), Registry(BUILTIN))
    engine = Engine(profiles, answers_to_all=True)
    start_s = time.process_time()
    engine.handle(events, _NOW_S, budget=0)
    _print(f"{nodes} nodes and {pods} pods taken over in {time.process_time() - start_s:.2f} s of CPU")
    _print(f"{'why it waits':<24}{'suggestions':>12}{'CPU ms':>10}{'clock ms':>10}")
    for body in stuck_pods():
        _measure(engine, known, body)


def _cluster(nodes: int, pods: int) -> tuple[dict[tuple[str, str, str], Plain], list[Event]]:
    known: dict[tuple[str, str, str], Plain] = {}
    events: list[Event] = []
    kind = pod_kind(TemplateTable())
    for number in range(nodes):
        body = node(number)
        known["Node", "", body["metadata"]["name"]] = body
        events.append(NodeSeen(NODE.from_builtin(body)))
    for number in range(pods):
        size = _SIZES[number % len(_SIZES)]
        body = pod(f"pod-{number}", f"app-{number % _APPS}", size, nodeName=f"node-{number % nodes}")
        known["Pod", "default", body["metadata"]["name"]] = body
        events.append(PodSeen(kind.from_builtin(body)))
    return known, events


def _measure(engine: Engine, known: dict[tuple[str, str, str], Plain], body: Plain) -> None:
    name = body["metadata"]["name"]
    known["Pod", "default", name] = body
    waiting = pod_kind(TemplateTable()).from_builtin(body)
    runner = engine.runner_of(waiting)
    if runner is None:
        return
    cpu_s, clock_s = time.process_time(), time.perf_counter()
    explain(runner, engine.state, waiting, _NOW_S)
    found = suggest(engine, waiting, _NOW_S, Rewriter(lambda *identity: known.get(identity)))
    cpu_ms, clock_ms = (time.process_time() - cpu_s) * 1000, (time.perf_counter() - clock_s) * 1000
    _print(f"{name:<24}{len(found):>12}{cpu_ms:>10.0f}{clock_ms:>10.0f}")


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
