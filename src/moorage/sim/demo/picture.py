"""The state of a demo at one moment: plain values, to be drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moorage.adapters.memory.objects import (
    FINISHED,
    KubeObject,
    controller_of,
    metadata_of,
    status_of,
)
from moorage.core.columns import CPU_COLUMN, MEMORY_COLUMN
from moorage.core.ownercounts import owner_key
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.sim.demo.stage import DemoStage
from moorage.views.nodemap import NodeState, zone_of
from moorage.views.words import Happening, HappeningKind, main_reason


@dataclass(frozen=True, slots=True)
class NodePicture:
    """One node."""

    name: str
    zone: str
    state: NodeState
    cpu: float
    """Requested share of what is allocatable, 0 to 1."""
    memory: float
    pods: Sequence[tuple[str, int]]
    """Names of apps and their numbers of pods, sorted by name."""


@dataclass(frozen=True, slots=True)
class WaitingPods:
    """Pods of one owner that wait for the same reason."""

    pod: str
    """The first of them."""
    more: int
    """How many others there are."""
    message: str
    """That of the first; the others' may say something else about preemption."""


@dataclass(frozen=True, slots=True)
class DemoPicture:
    """Everything that a view shows."""

    elapsed_s: float
    nodes: Sequence[NodePicture]
    """By zone, then by name."""
    waiting: Sequence[WaitingPods]
    """Most important first."""
    placed: int
    waiting_pods: int
    evicted: int
    finished: int
    decisions: int
    decisions_per_s: float
    decision_ms: float
    """Wall clock time per decision; 0 where there was none, or no stopwatch."""
    recent: Sequence[Happening]
    """Oldest first."""


def take_picture(stage: DemoStage) -> DemoPicture:
    """The demo as it is now."""
    entries = list(stage.engine.queue.entries())
    counts, told = stage.counts, stage.chronicle.counts
    return DemoPicture(
        elapsed_s=stage.elapsed_s,
        nodes=sorted((_node(stage, row) for row in stage.engine.state.rows().tolist()), key=_by_zone),
        waiting=_waiting([(entry.pod, entry.message) for entry in entries]),
        placed=told[HappeningKind.PLACED],
        waiting_pods=len(entries),
        evicted=told[HappeningKind.EVICTED],
        finished=told[HappeningKind.FINISHED],
        decisions=counts.decisions,
        decisions_per_s=stage.decisions_per_s,
        decision_ms=1000 * counts.deciding_s / counts.decisions if counts.decisions else 0.0,
        recent=tuple(stage.chronicle.recent),
    )


def _by_zone(node: NodePicture) -> tuple[str, str]:
    return node.zone, node.name


def _node(stage: DemoStage, row: int) -> NodePicture:
    node = stage.engine.state.node(row)
    pods = stage.cluster.store.pods_on(node.name)
    apps = Counter(_app(pod) for pod in pods if status_of(pod).get("phase") not in FINISHED)
    return NodePicture(
        name=node.name,
        zone=zone_of(node),
        state=NodeState.of(node),
        cpu=_share(stage, row, CPU_COLUMN),
        memory=_share(stage, row, MEMORY_COLUMN),
        pods=sorted(apps.items()),
    )


def _share(stage: DemoStage, row: int, column: int) -> float:
    """Requested over allocatable, as the scheduler sees it."""
    resources = stage.engine.state.resources
    allocatable = int(resources.allocatable[column, row])
    return min(1.0, int(resources.requested[column, row]) / allocatable) if allocatable else 0.0


def _app(pod: KubeObject) -> str:
    label = (metadata_of(pod).get("labels") or {}).get("app")
    owner = controller_of(pod)
    return str(label or (owner or {}).get("name") or pod["metadata"]["name"])


def _waiting(pods: Sequence[tuple[Pod, str]]) -> list[WaitingPods]:
    """One entry per owner and reason."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for pod, message in sorted(pods, key=lambda pair: -pair[0].template.priority):
        group = groups.setdefault((owner_key(pod.template) or pod.uid, main_reason(message)), [])
        group.append((pod.name, message))
    return [WaitingPods(group[0][0], len(group) - 1, group[0][1]) for group in groups.values()]
