"""The volumes of a pod that placement depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from moorage.core.images import normalized_image
from moorage.core.limits import VOLUMES, Cutter
from moorage.core.pods import PodVolume
from moorage.wire.podspec import VolumeWire

_DEFAULT_POOL = "rbd"


def parse_volumes(
    pod_name: str, wires: Sequence[VolumeWire], cutter: Cutter
) -> tuple[tuple[PodVolume, ...], tuple[str, ...]]:
    """Claims, disks and inline CSI volumes; and the normalised names of images that are mounted as volumes."""
    volumes: list[PodVolume] = []
    images: list[str] = []
    for wire in cutter.cut(wires, VOLUMES, "spec.volumes"):
        if wire.persistent_volume_claim:
            volumes.append(PodVolume(claim=wire.persistent_volume_claim.claim_name))
        elif wire.ephemeral:
            volumes.append(PodVolume(claim=f"{pod_name}-{wire.name}", ephemeral=True))
        elif wire.csi:
            volumes.append(PodVolume(csi_driver=wire.csi.driver))
        elif wire.image:
            images.append(normalized_image(wire.image.reference or ""))
        else:
            volumes += islice(_disks(wire), VOLUMES + 1)
    return tuple(cutter.cut(volumes, VOLUMES, "disks of spec.volumes")), tuple(images)


def _disks(wire: VolumeWire) -> Iterator[PodVolume]:
    """In-tree disks, such that two conflict if plugin and identity are equal and not both are read only.

    An EBS disk conflicts in any case, so it never counts as read only. An RBD image is the same one if any monitor is
    shared, so it counts once for each monitor.
    """
    if (gce := wire.gce_persistent_disk) is not None:
        yield PodVolume(disk=("gcePersistentDisk", gce.pd_name, bool(gce.read_only)))
    if (aws := wire.aws_elastic_block_store) is not None:
        yield PodVolume(disk=("awsElasticBlockStore", aws.volume_id, False))
    if (iscsi := wire.iscsi) is not None:
        yield PodVolume(disk=("iscsi", iscsi.iqn, bool(iscsi.read_only)))
    if (rbd := wire.rbd) is not None:
        for monitor in sorted(set(rbd.monitors or ())):
            identity = f"{monitor}/{rbd.pool or _DEFAULT_POOL}/{rbd.image}"
            yield PodVolume(disk=("rbd", identity, bool(rbd.read_only)))
    yield from _attached_disks(wire)


def _attached_disks(wire: VolumeWire) -> Iterator[PodVolume]:
    """In-tree disks that only count: a CSI driver attaches them today."""
    if (azure := wire.azure_disk) is not None:
        yield PodVolume(disk=("azureDisk", azure.disk_uri, False))
    if (cinder := wire.cinder) is not None:
        yield PodVolume(disk=("cinder", cinder.volume_id, False))
    if (portworx := wire.portworx_volume) is not None:
        yield PodVolume(disk=("portworxVolume", portworx.volume_id, False))
