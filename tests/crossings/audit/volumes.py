"""Volumes: which a pod has or could get on a node."""

from __future__ import annotations

from collections.abc import Iterator

from tests.crossings.audit.scene import NOTHING, Object, Scene, metadata, namespace_of, spec, status
from tests.crossings.audit.selectors import node_terms_match
from tests.crossings.audit.whatif import WhatIf

PVC, PV = "PersistentVolumeClaim", "PersistentVolume"


def claim_names(pod: Object) -> Iterator[str]:
    """The volume claims of a pod."""
    for volume in spec(pod).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]
        elif volume.get("ephemeral"):
            yield f"{metadata(pod)['name']}-{volume['name']}"


def reaches(volume: Object, node: Object) -> bool:
    """Whether the node can use the volume."""
    required = (spec(volume).get("nodeAffinity") or NOTHING).get("required")
    return not required or node_terms_match(required.get("nodeSelectorTerms") or (), node)


def volumes_fit(view: WhatIf, pod: Object, node: str) -> str:
    """Why a node cannot have the volumes of a pod; empty if it can."""
    scene, wanted = view.scene, 0
    for name in claim_names(pod):
        claim = scene.of(PVC).get((namespace_of(pod), name))
        if claim is None:
            return "no volume claim"
        volume = scene.of(PV).get(("", spec(claim).get("volumeName") or ""))
        if volume is not None:
            if not reaches(volume, scene.nodes[node]):
                return "a volume of another node"
        elif _local(scene, claim):
            wanted += 1
    free = _free(scene, node) - sum(
        _local(scene, scene.of(PVC).get((namespace_of(other), each)))
        for other, where in view.placed
        if where == node
        for each in claim_names(other)
    )
    return "volumes" if wanted > free else ""


def _local(scene: Scene, claim: Object | None) -> bool:
    """Whether the claim waits for a volume that is there already."""
    if claim is None or spec(claim).get("volumeName"):
        return False
    found = scene.of("StorageClass").get(("", spec(claim).get("storageClassName") or ""))
    return found is None or found.get("provisioner") == "kubernetes.io/no-provisioner"


def _free(scene: Scene, node: str) -> int:
    return sum(
        not spec(each).get("claimRef") and status(each).get("phase") == "Available" and reaches(each, scene.nodes[node])
        for each in scene.of(PV).values()
    )
