"""Carrying a volume reservation out: what has to be written, and whether the controllers have done the rest.

The scheduler only points: a static volume at its claim, a claim at the node to provision for. The volume controllers
see that and complete the binding.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from moorage.core.commands import PatchObject, PodRef
from moorage.core.frozen import FrozenDict
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.core.volumeindex import CLAIM, VOLUME, Reservation
from moorage.core.volumematching import reaches, refers_to
from moorage.core.volumes import PersistentVolume, PersistentVolumeClaim

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class BindingFailed(Exception):  # noqa: N818 - what happened, as the message goes on to say
    """The volumes cannot be bound for this node any more; the text says why."""


@dataclass(slots=True)
class Progress:
    """One pod's volumes on their way; `written` are the objects that were seen with what was written to them."""

    pod: PodRef
    reservation: Reservation
    deadline_s: float
    commands: dict[str, PatchObject] = field(default_factory=dict)
    """By object. A command stays as it was created: it is for one version of the object."""
    written: set[str] = field(default_factory=set)


def writes(state: ClusterState, progress: Progress) -> tuple[PatchObject, ...]:
    """What has to be written: nothing for objects that say it already, or that another pod writes to for its sake."""
    commands, pod, reservation = progress.commands, progress.pod, progress.reservation
    for name, claim in reservation.bindings:
        volume, where = state.volumes.raw_volume(name), f"{VOLUME}/{name}"
        if volume is None or where in commands or _points_at(volume, claim):
            continue
        if state.volumes.writes_volume(pod.uid, name):
            commands[where] = _reserve_volume(pod, volume, claim)
    for claim in reservation.provisions:
        raw, where = state.volumes.raw_claim(claim.key), f"{CLAIM}/{claim.key}"
        if raw is None or where in commands or raw.selected_node == reservation.node:
            continue
        if state.volumes.writes_claim(pod.uid, claim.key):
            commands[where] = _select_node(pod, raw, reservation.node)
    return tuple(commands.values())


def awaited(state: ClusterState, reservation: Reservation) -> tuple[tuple[str, str], ...]:
    """Kinds and keys of the objects that tell whether all volumes are bound."""
    claims = [*(claim for _, claim in reservation.bindings), *reservation.provisions]
    current = (state.volumes.raw_claim(claim.key) for claim in claims)
    volumes = [*(name for name, _ in reservation.bindings), *(claim.volume for claim in current if claim is not None)]
    return (*((CLAIM, claim.key) for claim in claims), *((VOLUME, name) for name in volumes if name is not None))


def complete(state: ClusterState, progress: Progress) -> bool:
    """Whether all volumes are bound; `BindingFailed` if they cannot be any more."""
    done = True
    for name, claim in progress.reservation.bindings:
        done &= _binding_complete(state, progress, name, claim)
    for claim in progress.reservation.provisions:
        done &= _provision_complete(state, progress, claim)
    return done


def _binding_complete(state: ClusterState, progress: Progress, name: str, claim: PersistentVolumeClaim) -> bool:
    volume = state.volumes.raw_volume(name)
    if volume is None:
        raise BindingFailed(f'failed to check binding: persistentvolume "{name}" not found')
    current = state.volumes.raw_claim(claim.key)
    if current is None:
        raise BindingFailed(f'failed to check binding: persistentvolumeclaim "{claim.name}" not found')
    if _points_at(volume, claim):
        progress.written.add(f"{VOLUME}/{name}")
    elif f"{VOLUME}/{name}" in progress.written:
        raise BindingFailed(f'ClaimRef got reset for pv "{name}"')
    else:
        return False
    _check_reach(state, volume, progress.reservation.node)
    return current.bound


def _provision_complete(state: ClusterState, progress: Progress, claim: PersistentVolumeClaim) -> bool:
    current = state.volumes.raw_claim(claim.key)
    node = progress.reservation.node
    if current is None:
        raise BindingFailed(f'failed to check provisioning pvc: persistentvolumeclaim "{claim.name}" not found')
    if current.selected_node == node:
        progress.written.add(f"{CLAIM}/{claim.key}")
    elif f"{CLAIM}/{claim.key}" in progress.written:
        raise BindingFailed(f'provisioning failed for PVC "{claim.name}"')
    else:
        return False
    if current.volume is not None:
        volume = state.volumes.raw_volume(current.volume)
        if volume is None:
            return False
        _check_reach(state, volume, node)
    return current.bound


def _check_reach(state: ClusterState, volume: PersistentVolume, node: str) -> None:
    row = state.row_of(node)
    if row is None:
        raise BindingFailed(f'failed to get node "{node}": node "{node}" not found')
    if not reaches(state, volume, np.array([row], dtype=np.intp))[0]:
        raise BindingFailed(
            f'pv "{volume.name}" node affinity doesn\'t match node "{node}": no matching NodeSelectorTerms'
        )


def _points_at(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return refers_to(volume, claim) and volume.claim is not None and volume.claim.uid == claim.uid


def _reserve_volume(pod: PodRef, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PatchObject:
    reference = {"apiVersion": "v1", "kind": CLAIM, "namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
    if claim.resource_version:
        reference["resourceVersion"] = claim.resource_version
    patch: dict[str, object] = {"spec": FrozenDict({"claimRef": FrozenDict(reference)})}
    if not refers_to(volume, claim) and BOUND_BY_CONTROLLER not in volume.annotations:
        patch["metadata"] = FrozenDict({"annotations": FrozenDict({BOUND_BY_CONTROLLER: "yes"})})
    return PatchObject(pod, VOLUME, "", volume.name, FrozenDict(patch), volume.uid, volume.resource_version)


def _select_node(pod: PodRef, claim: PersistentVolumeClaim, node: str) -> PatchObject:
    annotations = FrozenDict({"annotations": FrozenDict({SELECTED_NODE: node})})
    patch = FrozenDict({"metadata": annotations})
    return PatchObject(pod, CLAIM, claim.namespace, claim.name, patch, claim.uid, claim.resource_version)
