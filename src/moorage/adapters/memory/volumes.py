"""The volume controllers: claims are bound, or provisioned for, as soon as they may be.

- A generic ephemeral volume of a pod gets its claim, owned by the pod.
- A claim that names a volume, or that a volume names, is bound to it.
- A claim of a class that waits for its first consumer waits until the scheduler has written the chosen node to it;
  others are served at once: by the smallest volume that fits, else by a new one if the class has a provisioner.
Nothing here can fail or take time; a claim that nothing fits stays pending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from moorage.adapters.memory.objects import NOTHING, KubeObject, key_of, metadata_of, reference_to, spec_of, status_of
from moorage.adapters.memory.store import Store
from moorage.core.quantity import QuantityError, quantity_text, whole
from moorage.core.volumebinding import SELECTED_NODE
from moorage.core.volumes import NO_PROVISIONER
from moorage.wire.errors import FieldError
from moorage.wire.selectors import LabelSelectorWire, NodeSelectorWire, label_selector, node_terms
from moorage.wire.storage import BIND_COMPLETED

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_KINDS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "Pod")


class VolumeControllers:
    """Binder, provisioner and ephemeral volume controller of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watch = store.watch(_KINDS, replay=True)

    def step(self) -> None:
        """Serve the claims, if anything that matters to them has changed."""
        changes = self._watch.pull()
        for change in changes:
            if change.kind == "Pod" and change.old is None:
                self._make_ephemeral_claims(change.object)
        if any(change.kind != "Pod" for change in changes):
            self._release_new_volumes()
            reserved = self._reserved_volumes()
            for claim in self._store.list("PersistentVolumeClaim"):
                if status_of(claim).get("phase") != "Bound":
                    self._serve(claim, reserved)

    def _make_ephemeral_claims(self, pod: KubeObject) -> None:
        for volume in spec_of(pod).get("volumes") or ():
            template = (volume.get("ephemeral") or NOTHING).get("volumeClaimTemplate")
            namespace, name = pod["metadata"]["namespace"], f"{pod['metadata']['name']}-{volume.get('name')}"
            if not template or self._store.find("PersistentVolumeClaim", namespace, name) is not None:
                continue
            metadata = {**metadata_of(template), "name": name, "namespace": namespace}
            metadata["ownerReferences"] = [reference_to(pod)]
            self._store.create(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": metadata,
                    "spec": spec_of(template),
                    "status": {"phase": "Pending"},
                }
            )

    def _release_new_volumes(self) -> None:
        """New volumes without a claim become Available; before that they cannot be used."""
        for volume in self._store.list("PersistentVolume"):
            if status_of(volume).get("phase") in (None, "Pending") and not spec_of(volume).get("claimRef"):
                self._store.patch_status("PersistentVolume", "", volume["metadata"]["name"], {"phase": "Available"})

    def _reserved_volumes(self) -> dict[tuple[str, str], KubeObject]:
        """Volumes that name a claim, by the claim's namespace and name."""
        volumes = [v for v in self._store.list("PersistentVolume") if spec_of(v).get("claimRef")]
        return {(v["spec"]["claimRef"].get("namespace"), v["spec"]["claimRef"].get("name")): v for v in volumes}

    def _serve(self, claim: KubeObject, reserved: Mapping[tuple[str, str], KubeObject]) -> None:
        volume = self._reserved_volume(claim, reserved)
        if volume is not None:
            self._bind(claim, volume)
            return
        if spec_of(claim).get("volumeName"):
            return
        storage_class = self._class_of(claim)
        node_name = (metadata_of(claim).get("annotations") or NOTHING).get(SELECTED_NODE)
        if (storage_class or NOTHING).get("volumeBindingMode") == "WaitForFirstConsumer" and not node_name:
            return
        node = self._store.find("Node", "", node_name) if node_name else None
        volume = self._fitting_volume(claim, storage_class, node) or self._provision(claim, storage_class, node)
        if volume is not None:
            self._bind(claim, volume)

    def _reserved_volume(self, claim: KubeObject, reserved: Mapping[tuple[str, str], KubeObject]) -> KubeObject | None:
        """The volume that the claim names, or that names the claim."""
        named = spec_of(claim).get("volumeName")
        if named:
            volume = self._store.find("PersistentVolume", "", named)
            free = volume is not None and (not spec_of(volume).get("claimRef") or _refers_to(volume, claim))
            return volume if free else None
        volume = reserved.get((claim["metadata"]["namespace"], claim["metadata"]["name"]))
        return volume if volume is not None and _refers_to(volume, claim) else None

    def _class_of(self, claim: KubeObject) -> KubeObject | None:
        name = spec_of(claim).get("storageClassName")
        if name is not None:
            return self._store.find("StorageClass", "", name) if name else None
        classes = self._store.list("StorageClass")
        return next((c for c in classes if _annotation(c, DEFAULT_CLASS) == "true"), None)

    def _fitting_volume(
        self, claim: KubeObject, storage_class: KubeObject | None, node: KubeObject | None
    ) -> KubeObject | None:
        """The smallest free volume of the class that the claim can use and the node can reach."""
        given = spec_of(claim).get("storageClassName")
        class_name = given or (storage_class["metadata"]["name"] if storage_class is not None else "")
        candidates = [
            volume
            for volume in self._store.list("PersistentVolume")
            if (spec_of(volume).get("storageClassName") or "") == class_name
            and not spec_of(volume).get("claimRef")
            and _satisfies(volume, claim)
            and (node is None or _reachable(volume, node))
        ]
        return min(candidates, key=_capacity_bytes, default=None)

    def _provision(
        self, claim: KubeObject, storage_class: KubeObject | None, node: KubeObject | None
    ) -> KubeObject | None:
        provisioner = (storage_class or NOTHING).get("provisioner")
        if storage_class is None or not provisioner or provisioner == NO_PROVISIONER:
            return None
        wanted = spec_of(claim)
        spec: dict[str, Any] = {
            "accessModes": wanted.get("accessModes") or ["ReadWriteOnce"],
            "capacity": (wanted.get("resources") or NOTHING).get("requests") or {},
            "claimRef": _claim_reference(claim),
            "csi": {"driver": provisioner, "volumeHandle": claim["metadata"]["uid"]},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": wanted.get("volumeMode") or "Filesystem",
        }
        topology = self._topology(provisioner, node)
        if topology:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": topology}]}}
        metadata = {"name": f"pvc-{claim['metadata']['uid']}"}
        return self._store.create(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {}}
        )

    def _topology(self, driver: str, node: KubeObject | None) -> list[dict[str, Any]]:
        """Where the driver can reach a volume made for this node, by the topology keys of its CSINode."""
        if node is None:
            return []
        csi_node = self._store.find("CSINode", "", node["metadata"]["name"])
        drivers: Sequence[Mapping[str, Any]] = spec_of(csi_node or NOTHING).get("drivers") or ()
        keys = next((d.get("topologyKeys") or () for d in drivers if d.get("name") == driver), ())
        labels = metadata_of(node).get("labels") or NOTHING
        return [{"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels]

    def _bind(self, claim: KubeObject, volume: KubeObject) -> None:
        name = volume["metadata"]["name"]
        self._store.patch("PersistentVolume", "", name, {"spec": {"claimRef": _claim_reference(claim)}})
        self._store.patch_status("PersistentVolume", "", name, {"phase": "Bound"})
        kind, namespace, claim_name = key_of(claim)
        completed = {"annotations": {BIND_COMPLETED: "yes"}}
        self._store.patch(kind, namespace, claim_name, {"metadata": completed, "spec": {"volumeName": name}})
        status = {
            "phase": "Bound",
            "accessModes": spec_of(volume).get("accessModes") or [],
            "capacity": spec_of(volume).get("capacity") or {},
        }
        self._store.patch_status(kind, namespace, claim_name, status)


def _annotation(obj: KubeObject, name: str) -> str:
    return str((metadata_of(obj).get("annotations") or NOTHING).get(name) or "")


def _claim_reference(claim: KubeObject) -> dict[str, str]:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _refers_to(volume: KubeObject, claim: KubeObject) -> bool:
    reference, metadata = spec_of(volume).get("claimRef") or NOTHING, claim["metadata"]
    return (
        reference.get("namespace") == metadata["namespace"]
        and reference.get("name") == metadata["name"]
        and reference.get("uid") in (None, "", metadata["uid"])
    )


def _satisfies(volume: KubeObject, claim: KubeObject) -> bool:
    """Whether size, access modes, volume mode and selector of the claim allow the volume."""
    wanted, offered = spec_of(claim), spec_of(volume)
    if not set(wanted.get("accessModes") or ()) <= set(offered.get("accessModes") or ()):
        return False
    if (wanted.get("volumeMode") or "Filesystem") != (offered.get("volumeMode") or "Filesystem"):
        return False
    if wanted.get("selector") is not None:
        try:
            selector = label_selector(msgspec.convert(wanted["selector"], LabelSelectorWire))
        except (FieldError, msgspec.ValidationError):
            return False
        if not selector.matches(metadata_of(volume).get("labels") or {}):
            return False
    requested = ((wanted.get("resources") or NOTHING).get("requests") or NOTHING).get("storage")
    return _capacity_bytes(volume) >= _bytes(requested)


def _capacity_bytes(volume: KubeObject) -> int:
    return _bytes((spec_of(volume).get("capacity") or NOTHING).get("storage"))


def _bytes(value: object) -> int:
    if value is None:
        return 0
    try:
        return whole(quantity_text(value))
    except QuantityError:
        return 0


def _reachable(volume: KubeObject, node: KubeObject) -> bool:
    required = (spec_of(volume).get("nodeAffinity") or NOTHING).get("required")
    if not required:
        return True
    try:
        terms = node_terms(msgspec.convert(required, NodeSelectorWire), "spec.nodeAffinity.required")
    except (FieldError, msgspec.ValidationError):
        return False
    labels = metadata_of(node).get("labels") or {}
    return any(term.matches(node["metadata"]["name"], labels) for term in terms)
