"""Claims, volumes, capacities and attachments as rules look them up, and what pods on their way have reserved.

Kept up to date by every change of such an object, so that no rule scans all volumes. `claim` and `volume` show objects
as they will be once the reservations are written; what the API server said last is in the state's objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from moorage.core.values import dataclass
from moorage.core.volumes import (
    ClaimRef,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
CSI_NODE, CSI_DRIVER, CAPACITY = "CSINode", "CSIDriver", "CSIStorageCapacity"
ATTACHMENT = "VolumeAttachment"
VOLUME_KINDS = frozenset({CLAIM, VOLUME, CLASS, CSI_NODE, CSI_DRIVER, CAPACITY, ATTACHMENT})

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a pod on its way to a node takes: static volumes for claims, and claims to provision for that node."""

    node: str
    bindings: tuple[tuple[str, PersistentVolumeClaim], ...] = ()
    """(volume, claim) pairs."""
    provisions: tuple[PersistentVolumeClaim, ...] = ()


class VolumeIndex:
    """Finds storage objects by what refers to them."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        """`objects` is the state's table of objects, kind -> key -> value."""
        self._objects = objects
        self._by_class: dict[str, dict[str, PersistentVolume]] = {}
        self._capacities: dict[str, dict[str, CSIStorageCapacity]] = {}
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}
        self._reservations: dict[str, Reservation] = {}
        self._claimed: dict[str, dict[str, ClaimRef]] = {}
        """Volume -> uid of a pod -> the claim that it reserved the volume for."""
        self._selected: dict[str, dict[str, str]] = {}
        """Key of a claim -> uid of a pod -> the node that it reserved the claim for."""

    # --- objects ---

    def note(self, kind: str, before: Any, after: Any) -> None:
        """An object was added (`before` None), changed or removed (`after` None)."""
        if kind == VOLUME:
            _move(self._by_class, "storage_class", before, after)
        elif kind == CAPACITY:
            _move(self._capacities, "storage_class", before, after)
        elif kind == ATTACHMENT:
            _move(self._attachments, "node", before, after)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """The claim with the node that was reserved for it."""
        claim: PersistentVolumeClaim | None = self.raw_claim(key)
        selected = self._selected.get(key)
        if claim is None or not selected or claim.selected_node is not None:
            return claim
        return replace(claim, selected_node=next(iter(selected.values())))

    def volume(self, name: str) -> PersistentVolume | None:
        """The volume with the claim that it was reserved for."""
        found = self.raw_volume(name)
        return None if found is None else self._as_reserved(found)

    def raw_claim(self, key: str) -> PersistentVolumeClaim | None:
        """The claim as the API server has it."""
        return self._objects.get(CLAIM, {}).get(key)

    def raw_volume(self, name: str) -> PersistentVolume | None:
        """The volume as the API server has it."""
        return self._objects.get(VOLUME, {}).get(name)

    def volumes_of_class(self, name: str) -> list[PersistentVolume]:
        """All volumes of a class, smallest first, then by name; reservations count."""
        found = self._by_class.get(name, {}).values()
        return sorted(map(self._as_reserved, found), key=lambda volume: (volume.capacity_bytes, volume.name))

    def storage_class(self, name: str) -> StorageClass | None:
        """A storage class."""
        return self._objects.get(CLASS, {}).get(name)

    def csi_node(self, name: str) -> CSINode | None:
        """The CSI drivers of a node."""
        return self._objects.get(CSI_NODE, {}).get(name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        """A CSI driver."""
        return self._objects.get(CSI_DRIVER, {}).get(name)

    def migrated_nodes(self, plugin: str) -> Iterable[str]:
        """Names of nodes on which a CSI driver does the work of this in-tree plugin."""
        nodes = self._objects.get(CSI_NODE, {}).values()
        return (node.name for node in nodes if plugin in node.migrated_plugins)

    def capacities_of_class(self, name: str) -> list[CSIStorageCapacity]:
        """All capacities that drivers published for a class, by key."""
        found = self._capacities.get(name, {})
        return [found[key] for key in sorted(found)]

    def attachments_on(self, node: str) -> Iterable[VolumeAttachment]:
        """All attachments to a node."""
        return self._attachments.get(node, {}).values()

    def _as_reserved(self, volume: PersistentVolume) -> PersistentVolume:
        claimed = self._claimed.get(volume.name)
        return replace(volume, claim=next(iter(claimed.values()))) if claimed else volume

    # --- reservations ---

    def reserve(self, uid: str, reservation: Reservation) -> None:
        """A pod takes volumes and claims; in place of what it had."""
        self.release(uid)
        self._reservations[uid] = reservation
        for name, claim in reservation.bindings:
            self._claimed.setdefault(name, {})[uid] = ClaimRef(claim.namespace, claim.name, claim.uid)
        for claim in reservation.provisions:
            self._selected.setdefault(claim.key, {})[uid] = reservation.node

    def reservation(self, uid: str) -> Reservation | None:
        """What a pod has taken."""
        return self._reservations.get(uid)

    def writes_volume(self, uid: str, name: str) -> bool:
        """Whether this pod is the one, of all that reserved the volume, that points it at their claim."""
        return next(iter(self._claimed.get(name, ())), None) == uid

    def writes_claim(self, uid: str, key: str) -> bool:
        """Whether this pod is the one, of all that reserved the claim, that writes their node to it."""
        return next(iter(self._selected.get(key, ())), None) == uid

    def release(self, uid: str) -> None:
        """A pod needs its reservation no more: it is bound, or will not be."""
        reservation = self._reservations.pop(uid, None)
        if reservation is None:
            return
        for name, _ in reservation.bindings:
            _forget(self._claimed, name, uid)
        for claim in reservation.provisions:
            _forget(self._selected, claim.key, uid)


def _move(index: dict[str, dict[str, Any]], group: str, before: Any, after: Any) -> None:
    if before is not None:
        _forget(index, getattr(before, group), before.key)
    if after is not None:
        index.setdefault(getattr(after, group), {})[after.key] = after


def _forget(index: dict[str, dict[str, Value]], group: str, key: str) -> None:
    members = index.get(group)
    if members is not None:
        members.pop(key, None)
        if not members:
            del index[group]
