"""Changes carried out on an embedded cluster that is at rest; what comes of them is seen when it goes on.

Whatever the order in which they are given: new nodes come first, then workloads get their numbers, then nodes are
drained, and last of all pods are placed afresh. Pods that a drain takes away are made again by the controllers that
the simulation plays. What a drain leaves alone is what `kubectl drain --ignore-daemonsets` leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.controllers.intermediates import current_set
from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.controllers.templates import TEMPLATE_HASH
from moorage.adapters.memory.objects import (
    NOTHING,
    KubeObject,
    controller_of,
    is_live,
    is_terminating,
    metadata_of,
    node_of,
    spec_of,
    status_of,
)
from moorage.adapters.memory.store import Store
from moorage.core.deviceindex import RESOURCE_SLICE
from moorage.core.disruption.ledger import MIRROR
from moorage.core.taints import UNSCHEDULABLE_TAINT_KEY
from moorage.core.values import dataclass
from moorage.sim.whatif_changes import AddNodes, Afresh, Change, ChangeError, Drain, Scale, SetQueue
from moorage.sim.whatif_queues import set_queue
from moorage.sim.whatif_removal import by_falling_ordinal, newest_sign_s, removal_order
from moorage.wire.newnodes import node_like, slice_like

UNSCHEDULABLE_TAINT = {"key": UNSCHEDULABLE_TAINT_KEY, "effect": "NoSchedule"}
_NODE_STATUS = ("capacity", "allocatable", "nodeInfo", "features", "declaredFeatures", "runtimeHandlers")
_OF_KIND = {AddNodes: 0, SetQueue: 1, Scale: 2, Drain: 3, Afresh: 4}


@dataclass(slots=True)
class Applied:
    """What the changes did before the simulation went on."""

    drained: dict[str, str] = field(default_factory=dict)
    """Each evicted pod, as `namespace/name` -> the node it was evicted from."""
    scaled_away: set[str] = field(default_factory=set)
    """The pods that went because their workload got smaller, as `namespace/name`."""
    drained_nodes: set[str] = field(default_factory=set)
    new_nodes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def apply_changes(changes: Sequence[Change], cluster: EmbeddedCluster) -> Applied:
    """Carry all changes out; ChangeError if one of them makes no sense. What they name must be there."""
    work = _Work(cluster)
    problems: list[str] = []
    for change in sorted(changes, key=lambda each: _OF_KIND[type(each)]):
        try:
            work.do(change)
        except ChangeError as error:
            problems += error.problems
    if problems:
        raise ChangeError(problems)
    return work.applied


class _Work:
    """The changes under way."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._store: Store = cluster.store
        self._lineage = Lineage(self._store)
        watch = self._store.watch(("Pod",), replay=True)
        for change in watch.pull():
            self._lineage.note(change)
        watch.close()
        self.applied = Applied()

    def do(self, change: Change) -> None:
        match change:
            case AddNodes():
                self._add_nodes(change)
            case SetQueue():
                set_queue(change, self._store)
            case Scale():
                self._scale(change)
            case Drain():
                self._drain(change)
            case Afresh():
                self._place_afresh()

    # --- new nodes ---

    def _add_nodes(self, change: AddNodes) -> None:
        model = self._store.get("Node", "", change.like)
        csi_model = self._store.find("CSINode", "", change.like)
        slices = [each for each in self._store.list(RESOURCE_SLICE) if spec_of(each).get("nodeName") == change.like]
        for name in self._new_names(change):
            self._cluster.admission.load(_new_node(model, name))
            self.applied.new_nodes.append(name)
            if csi_model is not None:
                self._store.load({**csi_model, "metadata": {"name": name}})
            for part in slices:
                self._store.load(slice_like(part, name))

    def _new_names(self, change: AddNodes) -> Iterator[str]:
        number, made = 0, 0
        while made < change.number:
            number += 1
            name = f"{change.like}-new-{number}"
            if self._store.find("Node", "", name) is None:
                made += 1
                yield name

    # --- other numbers of replicas ---

    def _scale(self, change: Scale) -> None:
        owner = self._store.get(change.kind, change.namespace, change.name)
        above = self._lineage.workload(owner)
        if above is not None:
            better = f"{above['kind']}/{above['metadata']['name']}"
            raise ChangeError([f"{change}: it belongs to {better}, which would undo it; scale {better}"])
        live = [pod for pod in self._lineage.pods_of(owner) if is_live(pod)]
        self._cluster.scale(change.kind, change.namespace, change.name, change.replicas)
        newest = self._scale_replica_sets(owner, change.replicas) if change.kind == "Deployment" else None
        surplus = max(0, len(live) - change.replicas)
        if change.kind == "StatefulSet":
            going = by_falling_ordinal(live)
        else:
            now_s = newest_sign_s([*self._store.list("Node"), *live], self._cluster.now_s)
            going = removal_order(live, now_s, is_former=lambda pod: _is_former(pod, newest))
        for pod in going[:surplus]:
            self.applied.scaled_away.add(_name(pod))
            self._remove(pod)

    def _scale_replica_sets(self, owner: KubeObject, replicas: int) -> str | None:
        """Give the newest ReplicaSet what the others leave of the number; its template hash, None without any."""
        sets = self._store.children(owner, kind="ReplicaSet")
        newest = current_set(sets)
        if newest is None:
            return None
        others = sum(int(spec_of(each).get("replicas") or 0) for each in sets if each is not newest)
        metadata = newest["metadata"]
        patch = {"spec": {"replicas": max(0, replicas - others)}}
        self._store.patch("ReplicaSet", metadata["namespace"], metadata["name"], patch)
        return str((metadata.get("labels") or NOTHING).get(TEMPLATE_HASH) or "") or None

    # --- nodes that go ---

    def _drain(self, change: Drain) -> None:
        node = self._store.get("Node", "", change.node)
        if change.node in self.applied.drained_nodes:
            return
        self.applied.drained_nodes.add(change.node)
        taints = [
            taint for taint in spec_of(node).get("taints") or () if taint.get("key") != UNSCHEDULABLE_TAINT["key"]
        ]
        patch = {"spec": {"unschedulable": True, "taints": [*taints, UNSCHEDULABLE_TAINT]}}
        self._store.patch("Node", "", change.node, patch)
        scratch = 0
        for pod in self._store.pods_on(change.node):
            if stays_with_its_node(pod) or is_terminating(pod):
                continue
            if is_live(pod):
                self.applied.drained[_name(pod)] = change.node
                self._note_orphan(pod, change.node)
                scratch += any("emptyDir" in volume for volume in spec_of(pod).get("volumes") or ())
            self._remove(pod)
        if scratch:
            pods = "1 pod loses its emptyDir volumes" if scratch == 1 else f"{scratch} pods lose their emptyDir volumes"
            self.applied.notes.append(f"{change}: {pods}; kubectl drain wants --delete-emptydir-data")

    def _note_orphan(self, pod: KubeObject, node: str) -> None:
        """Say so if the pod is not recreated."""
        owner, name = controller_of(pod), _name(pod)
        if owner is None:
            said = f"{name} has no controller, so that it is gone for good; kubectl drain wants --force"
        elif self._lineage.workload(pod) is None:
            said = f"{name} is not made again, as its {owner.get('kind')} {owner.get('name')} is not known here"
        else:
            return
        self.applied.notes.append(f"drain {node}: {said}")

    # --- everything anew ---

    def _place_afresh(self) -> None:
        standing = [pod for pod in self._store.list("Pod") if node_of(pod) and is_live(pod)]
        for pod in standing:
            if not stays_with_its_node(pod):
                self._remove(pod)
                spec = {name: value for name, value in spec_of(pod).items() if name != "nodeName"}
                # To the scheduler it is another pod: no pod ever loses the node that it has.
                metadata = {
                    name: value for name, value in metadata_of(pod).items() if name not in ("finalizers", "uid")
                }
                self._store.load({**pod, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def _remove(self, pod: KubeObject) -> None:
        """Remove the pod at once, without finalizers."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if metadata_of(pod).get("finalizers"):
            self._store.patch("Pod", namespace, name, {"metadata": {"finalizers": None}})
        self._store.delete("Pod", namespace, name, grace_s=0)


def stays_with_its_node(pod: KubeObject) -> bool:
    """Whether the pod belongs to its node: one of a DaemonSet, or a static one."""
    owner = controller_of(pod)
    if owner is not None and owner.get("kind") in ("DaemonSet", "Node"):
        return True
    return MIRROR in (metadata_of(pod).get("annotations") or NOTHING)


def _name(pod: KubeObject) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _new_node(model: KubeObject, name: str) -> dict[str, Any]:
    """A node of the same make that has just come up: schedulable, ready, and without a past."""
    node = node_like(model, name, _NODE_STATUS)
    if status_of(model).get("conditions"):
        node["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return node


def _is_former(pod: KubeObject, newest: str | None) -> bool:
    """Whether the pod is of another template than the newest ReplicaSet's."""
    mine = (metadata_of(pod).get("labels") or NOTHING).get(TEMPLATE_HASH)
    return newest is not None and mine is not None and mine != newest
