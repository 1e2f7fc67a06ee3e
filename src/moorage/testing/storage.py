"""Claims, volumes and other storage objects in a line each, for tests; `put` adds them to a state.

put(state, make_claim("data", size="5Gi", storage_class="fast"), make_volume("v1", size="10Gi", on="zone In a"))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.core.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from moorage.core.devices import DeviceTaintRule, ResourceSlice
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Owner, PodVolume
from moorage.core.quantity import whole
from moorage.core.selectors import Selector
from moorage.core.state import ClusterState
from moorage.core.volumes import (
    BOUND,
    ClaimRef,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeSource,
)
from moorage.testing.builders import make_node_term, parse_requirement

DRIVER = "csi.example.com"
_KINDS: dict[type, str] = {
    PersistentVolumeClaim: "PersistentVolumeClaim",
    PersistentVolume: "PersistentVolume",
    StorageClass: "StorageClass",
    CSINode: "CSINode",
    CSIDriver: "CSIDriver",
    CSIStorageCapacity: "CSIStorageCapacity",
    VolumeAttachment: "VolumeAttachment",
    ResourceClaim: "ResourceClaim",
    ResourceClaimTemplate: "ResourceClaimTemplate",
    DeviceClass: "DeviceClass",
    ResourceSlice: "ResourceSlice",
    DeviceTaintRule: "DeviceTaintRule",
}


def put(state: ClusterState, *objects: Any) -> ClusterState:
    """Add objects, as their watch would; returns the state itself."""
    for value in objects:
        state.put_object(_KINDS[type(value)], value.key, value)
    return state


def make_claim(
    name: str,
    *,
    namespace: str = "default",
    size: str = "1Gi",
    volume: str | None = None,
    storage_class: str | None = "wait",
    modes: Iterable[str] = ("ReadWriteOnce",),
    owner_uid: str | None = None,
    **fields: Any,
) -> PersistentVolumeClaim:
    """A claim, completely bound if `volume` is given."""
    return PersistentVolumeClaim(
        namespace=namespace,
        name=name,
        uid=fields.pop("uid", f"claim/{namespace}/{name}"),
        volume=volume,
        bind_completed=fields.pop("bind_completed", volume is not None),
        storage_class=storage_class,
        access_modes=tuple(modes),
        request_bytes=whole(size),
        owner=Owner("Pod", "", owner_uid, "v1") if owner_uid else None,
        phase=fields.pop("phase", BOUND if volume else "Pending"),
        **fields,
    )


def make_volume(
    name: str,
    *,
    size: str = "1Gi",
    storage_class: str = "wait",
    modes: Iterable[str] = ("ReadWriteOnce",),
    on: str | Iterable[str] | None = None,
    claim: str | None = None,
    claim_uid: str = "",
    labels: Mapping[str, str] | None = None,
    driver: str | None = DRIVER,
    **fields: Any,
) -> PersistentVolume:
    """An available CSI volume; `on` is a condition on nodes or several that must all hold, `claim` namespace/name."""
    namespace, _, claim_name = (claim or "").partition("/")
    conditions = [on] if isinstance(on, str) else list(on or ())
    return PersistentVolume(
        name=name,
        uid=fields.pop("uid", f"volume/{name}"),
        labels=FrozenDict(labels or {}),
        capacity_bytes=whole(size),
        access_modes=tuple(modes),
        storage_class=storage_class,
        claim=ClaimRef(namespace, claim_name, claim_uid) if claim else None,
        node_terms=fields.pop("node_terms", (make_node_term(*conditions),) if conditions else None),
        source=fields.pop("source", VolumeSource("csi", driver, name) if driver else VolumeSource("local", "", "/d")),
        phase=fields.pop("phase", "Available"),
        **fields,
    )


def make_class(
    name: str = "wait", *, provisioner: str = DRIVER, wait: bool = True, topologies: Iterable[str] = ()
) -> StorageClass:
    """A class that waits for the first consumer; `topologies` are alternative conditions."""
    return StorageClass(name, provisioner, wait, tuple(make_node_term(each) for each in topologies))


def make_csi_node(name: str, *migrated: str, **limits: int | None) -> CSINode:
    """A CSINode; `limits` maps drivers, written with _ for . and -, to their limits (None: no limit)."""
    drivers = limits or {DRIVER: None}
    known = {driver.replace(".", "_").replace("-", "_"): driver for driver in (DRIVER, "ebs.csi.aws.com")}
    return CSINode(
        name, tuple(NodeDriver(known.get(each, each), name, (), count) for each, count in drivers.items()), migrated
    )


def make_capacity(name: str, *, size: str, on: str, storage_class: str = "wait", most: str | None = None) -> Any:
    """A published capacity for the nodes that satisfy the condition `on`."""
    return CSIStorageCapacity(
        "default",
        name,
        storage_class,
        Selector((parse_requirement(on),)),
        whole(size),
        None if most is None else whole(most),
    )


def claims(*names: str) -> tuple[PodVolume, ...]:
    """Volumes of a pod for these claims."""
    return tuple(PodVolume(claim=name) for name in names)
