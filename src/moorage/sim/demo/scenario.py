"""A scenario: the nodes at the start, and acts at given times.

The opening is played once, then the cycle again and again, so that the demo never ends by itself. A cycle leaves the
cluster as it found it, apart from what the scheduler decided; acts therefore may not depend on placements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.objects import FINISHED, owner_references, status_of
from moorage.core.prices import PriceList
from moorage.core.taints import UNSCHEDULABLE_TAINT_KEY
from moorage.core.values import dataclass
from moorage.framework.keeping import KeeperConfiguration

NAMESPACE = "default"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_DAEMON = "DaemonSet"
SPOT_NOTICE = "aws-node-termination-handler/spot-itn"
"""Taint of a node whose spot machine is about to be taken back."""

Manifest: TypeAlias = Mapping[str, Any]
Deed: TypeAlias = Callable[[EmbeddedCluster, int], None]
"""Changes the cluster; the number is that of the cycle, from 1 on, for names that must be new each time."""


@dataclass(frozen=True, slots=True)
class Act:
    """A change to the cluster, by a user or from outside."""

    at_s: float
    """Since the beginning of the opening or of the cycle."""
    story: str
    """What a bystander would say; empty for what needs no words."""
    deeds: tuple[Deed, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A play for one cluster."""

    about: str
    nodes: Sequence[Manifest]
    opening: Sequence[Act]
    opening_s: float
    """How long the opening takes; then the first cycle begins."""
    cycle: Sequence[Act]
    cycle_s: float
    configuration: str = ""
    """The configuration file if none is given; empty: the default profile."""
    keeper: KeeperConfiguration | None = None
    """How the keeper looks after the pods; None: there is none."""
    keeper_needs: str = ""
    """A plugin without which the keeper would undo what the scheduler does, and so stays away; empty: none."""
    prices: PriceList | None = None
    """What the nodes cost, for figures only."""

    def acts(self) -> Iterator[tuple[float, int, Act]]:
        """Everything that will happen, for ever: seconds since the start, number of the cycle, act."""
        for act in sorted(self.opening, key=lambda act: act.at_s):
            yield act.at_s, 0, act
        cycle = sorted(self.cycle, key=lambda act: act.at_s)
        number = 1
        while cycle:
            began_s = self.opening_s + (number - 1) * self.cycle_s
            for act in cycle:
                yield began_s + act.at_s, number, act
            number += 1


# Deeds


def create(*objects: Manifest) -> Deed:
    """Create objects; `{cycle}` in a name becomes the number of the cycle."""

    def do(cluster: EmbeddedCluster, cycle: int) -> None:
        for obj in objects:
            metadata = obj["metadata"]
            name = metadata["name"].replace("{cycle}", str(cycle))
            cluster.create({**obj, "metadata": {**metadata, "name": name}})

    return do


def delete(kind: str, name: str) -> Deed:
    """Delete an object and, with the next step, what it owns."""
    namespace = "" if kind in ("Node", "PriorityClass") else NAMESPACE

    def do(cluster: EmbeddedCluster, cycle: int) -> None:
        cluster.delete(kind, namespace, name.replace("{cycle}", str(cycle)))

    return do


def scale(name: str, replicas: int, kind: str = "Deployment") -> Deed:
    """Set the number of replicas."""
    return lambda cluster, _: _discard(cluster.scale(kind, NAMESPACE, name, replicas))


def change(kind: str, name: str, patch: Mapping[str, Any]) -> Deed:
    """Merge a patch into an object of the demo's namespace."""
    return lambda cluster, _: _discard(cluster.patch(kind, NAMESPACE, name, patch))


def lose(node: str) -> Deed:
    """The node stops answering: the node controller marks it so, and nothing new may go there."""

    def do(cluster: EmbeddedCluster, _: int) -> None:
        _set_ready(cluster, node, "Unknown", "NodeStatusUnknown")
        taints = [{"key": _UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
        cluster.patch("Node", "", node, {"spec": {"taints": taints}})

    return do


def evict_all(node: str) -> Deed:
    """The pods of a lost node are given up, those of DaemonSets excepted; their owners make new ones."""

    def do(cluster: EmbeddedCluster, _: int) -> None:
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
        for pod in cluster.store.pods_on(node):
            metadata = pod["metadata"]
            stays = any(owner["kind"] == _DAEMON for owner in owner_references(pod))
            if stays or status_of(pod).get("phase") in FINISHED:
                continue
            cluster.store.set_condition("Pod", metadata["namespace"], metadata["name"], condition)
            cluster.delete("Pod", metadata["namespace"], metadata["name"], grace_s=0)

    return do


def recover(node: str) -> Deed:
    """The node answers again."""

    def do(cluster: EmbeddedCluster, _: int) -> None:
        _set_ready(cluster, node, "True", "KubeletReady")
        cluster.patch("Node", "", node, {"spec": {"taints": None}})

    return do


def cordon(node: str) -> Deed:
    """What `kubectl cordon` does, and the taint that the node controller adds."""
    spec = {"unschedulable": True, "taints": [{"key": UNSCHEDULABLE_TAINT_KEY, "effect": "NoSchedule"}]}
    return lambda cluster, _: _discard(cluster.patch("Node", "", node, {"spec": spec}))


def uncordon(node: str) -> Deed:
    """What `kubectl uncordon` does."""
    return lambda cluster, _: _discard(
        cluster.patch("Node", "", node, {"spec": {"unschedulable": None, "taints": None}})
    )


def give_notice(*nodes: str) -> Deed:
    """The cloud wants the machines back in two minutes; what AWS's node termination handler does then."""

    def do(cluster: EmbeddedCluster, _: int) -> None:
        for node in nodes:
            cluster.patch("Node", "", node, {"spec": {"taints": [{"key": SPOT_NOTICE, "effect": "NoSchedule"}]}})

    return do


def repeat_notice(*nodes: str) -> Deed:
    """The same notice in another form; no pod may be moved twice for it."""
    condition = {"type": "PreemptScheduled", "status": "True", "reason": "PreemptScheduled"}

    def do(cluster: EmbeddedCluster, _: int) -> None:
        for node in nodes:
            cluster.store.set_condition("Node", "", node, condition)

    return do


def withdraw_notice(*nodes: str) -> Deed:
    """The machines stay after all."""
    condition = {"type": "PreemptScheduled", "status": "False", "reason": "NoEvent"}

    def do(cluster: EmbeddedCluster, _: int) -> None:
        for node in nodes:
            cluster.patch("Node", "", node, {"spec": {"taints": None}})
            cluster.store.set_condition("Node", "", node, condition)

    return do


def _set_ready(cluster: EmbeddedCluster, node: str, status: str, reason: str) -> None:
    cluster.store.set_condition("Node", "", node, {"type": "Ready", "status": status, "reason": reason})


def _discard(_: object) -> None:
    """A deed answers nothing."""
