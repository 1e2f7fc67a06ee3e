"""Controllers and their pods, as states and as whole simulations under a profile that piles pods up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from moorage.core.frozen import FrozenDict
from moorage.core.objects import Workload
from moorage.core.pods import Owner, Pod
from moorage.core.state import ClusterState
from moorage.engine.settings import EngineSettings
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.inputs import read_cluster
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.simulation import SimulationRules, simulate
from moorage.testing import make_pod, make_state
from moorage.wire.configuration import read_configuration
from moorage.wire.manifests import parse_manifests

NOW_S = 1_000.0
API_VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1", "ReplicationController": "v1"}


def make_workload(
    kind: str,
    name: str,
    replicas: int,
    *,
    annotations: Mapping[str, str] | None = None,
    owner: Owner | None = None,
    **fields: Any,
) -> Workload:
    """A controller whose uid is its kind and name."""
    notes = FrozenDict(annotations or {})
    return Workload(
        kind, "default", name, f"{kind}/{name}", annotations=notes, owner=owner, replicas=replicas, **fields
    )


def owner_of(kind: str, name: str) -> Owner:
    """The reference to such a controller."""
    return Owner(kind, name, f"{kind}/{name}", API_VERSIONS.get(kind, "apps/v1"))


def pod_of(kind: str, name: str, number: int = 0, **fields: Any) -> Pod:
    """A pod of such a controller."""
    return make_pod(f"{name}-{number}", owner=owner_of(kind, name), **fields)


def state_with(nodes: Iterable[Any], pods: Iterable[Pod] = (), workloads: Iterable[Workload] = ()) -> ClusterState:
    """A state that knows these controllers."""
    state = make_state(nodes, pods)
    for workload in workloads:
        state.put_object(workload.kind, workload.key, workload)
    return state


def reasons_for(plugin: Any, state: ClusterState, pod: Pod) -> dict[str, list[str]]:
    """Node -> reasons against it, of the nodes that the plugin rejects."""
    cycle, rows = Cycle(pod, state, NOW_S), state.rows()
    if plugin.pre_filter(cycle) is not None:
        return {}
    found = plugin.filter(cycle, rows)
    if found is None:
        return {}
    texts = {
        state.node(int(row)).name: [reason.text for bit, reason in enumerate(found.reasons) if bits >> bit & 1]
        for row, bits in zip(rows, found.bits.tolist(), strict=True)
    }
    return {node: reasons for node, reasons in texts.items() if reasons}


def scores_for(plugin: Any, state: ClusterState, pod: Pod) -> dict[str, int]:
    """Node -> score."""
    rows = state.rows()
    scores = plugin.score(Cycle(pod, state, NOW_S), rows).tolist()
    return {state.node(int(row)).name: score for row, score in zip(rows, scores, strict=True)}


def packing_rules(plugin: type[Plugin], args: Mapping[str, Any] | None = None, *, weight: int = 1) -> SimulationRules:
    """A profile that fills one node after the other, with the plugin under test beside it."""
    scored = [{"name": "NodeResourcesFit", "weight": 1}]
    if hasattr(plugin, "score"):
        scored.append({"name": plugin.name, "weight": weight})
    packing = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {"enabled": [{"name": plugin.name}]},
            "score": {"disabled": [{"name": "*"}], "enabled": scored},
        },
        "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": packing}},
            *([{"name": plugin.name, "args": args}] if args else []),
        ],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    registry = Registry(BUILTIN)
    reading = read_configuration(msgspec.json.encode(document), "config.yaml", registry)
    assert reading.configuration is not None, reading.problems
    return SimulationRules(build_profiles(reading.configuration, registry), EngineSettings())


def simulated(objects: Sequence[Mapping[str, Any]], rules: SimulationRules) -> SimulationOutcome:
    """Simulate these objects."""
    body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return simulate(read_cluster(parse_manifests("cluster.json", msgspec.json.encode(body))), rules)


def nodes_of(outcome: SimulationOutcome, owner: str) -> Counter[str | None]:
    """Node -> number of the owner's pods that were placed there; None for those that wait."""
    return Counter(story.node for story in outcome.pods if story.name.rpartition("-")[0] == owner)
