"""The difference between two simulations of one cluster: pods that move, wait or are evicted, utilisation, cost.

A pod of the one is the pod of the same name of the other. What is left over then is matched by workload: a pod that a
controller made in place of an evicted one has another name, but users regard it as the same pod. Both simulations are
looked at in their end state, so whatever happens in both of them is no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum

from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.objects import KubeObject, controller_of
from moorage.core.objects import DAEMON_SET, STATEFUL_SET, object_key
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.sim.outcome import FinalCluster, SimulationOutcome
from moorage.sim.utilisation import Usage
from moorage.sim.whatif_applied import Applied

_UNEQUAL = (DAEMON_SET, STATEFUL_SET)
"""Kinds whose pods are not interchangeable."""


class Why(StrEnum):
    """What makes a pod leave the place that it has without the changes."""

    DRAIN = "drain"
    PREEMPTION = "preemption"
    SCALE = "scale"
    PLACEMENT = "placement"
    """It was not evicted; with the changes it is placed elsewhere."""


@dataclass(frozen=True, slots=True)
class FinalPod:
    """One pod at the end of a simulation."""

    namespace: str
    name: str
    node: str | None
    workload: tuple[str, str, str] | None = None
    """Kind, namespace and name of the topmost controller."""
    message: str | None = None
    """Why it has no node."""
    pod: Pod | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return object_key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class MovedPod:
    """A pod that stands on another node."""

    namespace: str
    name: str
    source: str
    target: str
    why: Why
    becomes: str | None = None
    """Its new name, None if it keeps its name."""


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that has no node with the changes, though it has one without them or was not there at all."""

    namespace: str
    name: str
    source: str | None
    message: str
    becomes: str | None = None
    """The name of the pod that waits in its place, None if it keeps its name."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that is taken off its node."""

    namespace: str
    name: str
    node: str | None
    why: Why
    by: str | None = None
    """`namespace/name` of the pod that it makes room for."""
    returns: str | None = None
    """`namespace/name` of the pod that replaces it, None if there is none."""


@dataclass(frozen=True, slots=True)
class PodAt:
    """A pod and its node, if it has one."""

    namespace: str
    name: str
    node: str | None


@dataclass(frozen=True, slots=True)
class BudgetNote:
    """A disruption budget that the drained nodes' pods would break if all of them left at once."""

    namespace: str
    name: str
    allowed: int
    evicted: int
    message: str


@dataclass(frozen=True, slots=True)
class Money:
    """Millionths of the currency an hour."""

    in_use_micros: int
    """Of the nodes in use."""
    all_micros: int
    """Of all nodes, those that are drained excepted."""
    nodes_in_use: int


@dataclass(frozen=True, slots=True)
class CostChange:
    """What nodes cost before and after, as far as they have a price."""

    currency: str
    before: Money
    after: Money
    without_price: Sequence[str] = ()
    """Nodes that have no price and count nothing, sorted."""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """Everything that differs; `before` is the unchanged cluster, at the end of its own simulation."""

    changes: Sequence[str] = ()
    moves: Sequence[MovedPod] = ()
    waits: Sequence[PendingPod] = ()
    starts: Sequence[PodAt] = ()
    """Pods that wait without the changes and have a node with them."""
    evicted: Sequence[Eviction] = ()
    added: Sequence[PodAt] = ()
    """Pods that are only there with the changes, and have a node."""
    removed: Sequence[PodAt] = ()
    """Pods that are only there without the changes, with the node that they have there."""
    budgets: Sequence[BudgetNote] = ()
    notes: Sequence[str] = ()
    utilisation: Mapping[str, tuple[Usage, Usage]] = field(default_factory=dict)
    """Capacity type, and `all` -> before and after."""
    cost: CostChange | None = None


def standings(outcome: SimulationOutcome) -> dict[str, FinalPod]:
    """Every pod that is there at the end, by `namespace/name`: those on nodes, then those that wait."""
    world = outcome.world
    if world is None:
        raise ValueError("the outcome has no world to look at")
    lineage = Lineage(world.cluster.store)
    found: dict[str, FinalPod] = {}
    for pod in pods_on_nodes(world):
        found[pod.key] = FinalPod(
            pod.namespace, pod.name, pod.node, _workload(world.cluster.store.find_uid(pod.uid), lineage), None, pod
        )
    for story in outcome.pods:
        body = world.cluster.store.find_uid(story.uid)
        if story.node is None and body is not None:
            workload = _workload(body, lineage)
            found[story.key] = FinalPod(story.namespace, story.name, None, workload, story.message or "")
    return found


def pods_on_nodes(world: FinalCluster) -> Iterator[Pod]:
    """The pods that hold something on a node."""
    state = world.state
    for row in state.rows().tolist():
        for record in state.records_on(row):
            if not record.pod.finished and record.pod.node is not None:
                yield record.pod


def _workload(body: KubeObject | None, lineage: Lineage) -> tuple[str, str, str] | None:
    """The topmost owner of a pod; the controller itself if no other owner is known."""
    if body is None:
        return None
    namespace = str(body["metadata"].get("namespace") or "")
    known = lineage.workload(body)
    if known is not None:
        return (str(known["kind"]), namespace, str(known["metadata"]["name"]))
    owner = controller_of(body)
    return None if owner is None else (str(owner.get("kind")), namespace, str(owner.get("name")))


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pods without the changes and the pods with them that they are, or that stand in for them."""

    both: Sequence[tuple[FinalPod, FinalPod]]
    gone: Sequence[FinalPod]
    new: Sequence[FinalPod]


def matched(before: Mapping[str, FinalPod], after: Mapping[str, FinalPod]) -> Pairs:
    """Match by name, then by workload; of a workload those that have a node come first on both sides."""
    both = [(pod, after[key]) for key, pod in before.items() if key in after]
    fresh: dict[tuple[str, str, str], list[FinalPod]] = {}
    new: list[FinalPod] = []
    for pod in _in_order(pod for key, pod in after.items() if key not in before):
        (new if pod.workload is None else fresh.setdefault(pod.workload, [])).append(pod)
    gone: list[FinalPod] = []
    for pod in _in_order(pod for key, pod in before.items() if key not in after):
        heir = _heir(pod, fresh.get(pod.workload, [])) if pod.workload is not None else None
        if heir is not None:
            both.append((pod, heir))
        else:
            gone.append(pod)
    return Pairs(_untangled(both), gone, [*new, *(pod for pods in fresh.values() for pod in pods)])


def _heir(pod: FinalPod, candidates: list[FinalPod]) -> FinalPod | None:
    """Take the first one that can stand in for the pod out of the list; a daemon is made for its own node only."""
    for index, candidate in enumerate(candidates):
        of_its_node = candidate.node is None or candidate.node == pod.node
        if of_its_node or (pod.workload is not None and pod.workload[0] != DAEMON_SET):
            return candidates.pop(index)
    return None


def _in_order(pods: Iterable[FinalPod]) -> list[FinalPod]:
    """Those with a node first, then by name, numbers by their size."""
    return sorted(pods, key=lambda pod: (pod.node is None, pod.namespace, len(pod.name), pod.name))


def _untangled(pairs: list[tuple[FinalPod, FinalPod]]) -> list[tuple[FinalPod, FinalPod]]:
    """Where one pod of a workload waits so that an equal one starts, nothing but a move has happened: say so.

    Pods of a StatefulSet are not equal, nor are those of a DaemonSet.
    """
    starting: dict[tuple[str, str, str], list[int]] = {}
    for index, (old, new) in enumerate(pairs):
        if old.workload is not None and old.node is None and new.node is not None:
            starting.setdefault(old.workload, []).append(index)
    for index, (old, new) in enumerate(pairs):
        if old.workload is None or old.workload[0] in _UNEQUAL or old.node is None or new.node is not None:
            continue
        if starting.get(old.workload):
            other = starting[old.workload].pop(0)
            waited, started = pairs[other]
            pairs[index], pairs[other] = (old, started), (waited, new)
    return pairs


@dataclass(slots=True)
class Causes:
    """Why pods left, by `namespace/name`."""

    drained: Mapping[str, str]
    """-> the node."""
    scaled_away: frozenset[str]
    preempted: Mapping[str, str]
    """-> the preemptor, empty where there is none."""

    def of(self, key: str) -> Why:
        """The cause for one pod."""
        if key in self.drained:
            return Why.DRAIN
        if key in self.scaled_away:
            return Why.SCALE
        return Why.PREEMPTION if key in self.preempted else Why.PLACEMENT


def causes_of(applied: Applied, after: SimulationOutcome) -> Causes:
    """Collect the evicted pods and what evicted them."""
    preempted = dict.fromkeys(after.evictions, "")
    preempted |= {victim: story.key for story in after.pods for victim in story.victims}
    return Causes(applied.drained, frozenset(applied.scaled_away), preempted)


def pod_differences(pairs: Pairs, causes: Causes, evicted_before: Iterable[str]) -> Difference:
    """The part of the difference that is about pods, in the order of their names."""
    moves, waits, starts = [], [], []
    for old, new in sorted(pairs.both, key=lambda pair: (pair[0].namespace, pair[0].name)):
        becomes = None if old.key == new.key else new.name
        if old.node is not None and new.node is None:
            waits.append(PendingPod(old.namespace, old.name, old.node, new.message or "", becomes))
        elif old.node is None and new.node is not None:
            starts.append(PodAt(new.namespace, new.name, new.node))
        elif old.node is not None and new.node is not None and old.node != new.node:
            moves.append(MovedPod(old.namespace, old.name, old.node, new.node, causes.of(old.key), becomes))
    fresh = sorted(pairs.new, key=lambda pod: (pod.namespace, pod.name))
    waits += [PendingPod(pod.namespace, pod.name, None, pod.message or "") for pod in fresh if pod.node is None]
    heirs = {old.key: new.key for old, new in pairs.both}
    gone = sorted(pairs.gone, key=lambda pod: (pod.namespace, pod.name))
    evictions = [*_evictions(pairs, causes, heirs, frozenset(evicted_before))]
    taken = {f"{each.namespace}/{each.name}" for each in evictions}
    return Difference(
        moves=moves,
        waits=waits,
        starts=starts,
        evicted=evictions,
        added=[PodAt(pod.namespace, pod.name, pod.node) for pod in fresh if pod.node is not None],
        removed=[PodAt(pod.namespace, pod.name, pod.node) for pod in gone if pod.key not in taken],
    )


def _evictions(
    pairs: Pairs, causes: Causes, heirs: Mapping[str, str], evicted_before: frozenset[str]
) -> Iterator[Eviction]:
    # A pod that was created after the changes and preempted again had no node before.
    nodes = {pod.key: pod.node for pod in (*(old for old, _ in pairs.both), *pairs.gone) if pod.node is not None}
    for key, node in sorted(causes.drained.items()):
        namespace, _, name = key.partition("/")
        yield Eviction(namespace, name, node, Why.DRAIN, None, heirs.get(key))
    for key, preemptor in sorted(causes.preempted.items()):
        if key in nodes and key not in evicted_before and key not in causes.drained:
            namespace, _, name = key.partition("/")
            yield Eviction(namespace, name, nodes[key], Why.PREEMPTION, preemptor or None, heirs.get(key))
