"""In-tree volumes that a CSI driver handles today: which driver, under which name, reachable from where.

Kubernetes counts such volumes as the driver's. Where a node says that it has migrated the plugin, the zone in a
volume's node affinity is looked for under the driver's own label.
"""

from __future__ import annotations

import re
from dataclasses import replace

from moorage.core.affinity import NodeTerm
from moorage.core.labelnames import BETA_REGION, BETA_ZONE, REGION, ZONE
from moorage.core.selectors import Operator, Requirement
from moorage.core.values import dataclass
from moorage.core.volumes import PersistentVolume

ZONE_SEPARATOR = "__"
_AWS_URL = re.compile(r"aws://[^/]*/+(vol-[^/]*)/*\Z")


@dataclass(frozen=True, slots=True)
class Migration:
    """One in-tree plugin and the driver that took over."""

    plugin: str
    driver: str
    kind: str
    """The field of a volume's spec."""
    topology_key: str | None = None
    """The driver's label for zones; None where the affinity of volumes stays as it is."""
    counted: bool = True
    """Whether kube-scheduler takes the migration for granted and counts the volumes."""


MIGRATIONS = (
    Migration("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "awsElasticBlockStore", "topology.ebs.csi.aws.com/zone"),
    Migration("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "gcePersistentDisk", "topology.gke.io/zone"),
    Migration("kubernetes.io/cinder", "cinder.csi.openstack.org", "cinder", "topology.cinder.csi.openstack.org/zone"),
    Migration("kubernetes.io/azure-disk", "disk.csi.azure.com", "azureDisk"),
    Migration("kubernetes.io/portworx-volume", "pxd.portworx.com", "portworxVolume"),
    Migration("kubernetes.io/azure-file", "file.csi.azure.com", "azureFile", counted=False),
    Migration("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "vsphereVolume", counted=False),
)
BY_KIND = {migration.kind: migration for migration in MIGRATIONS}
BY_PLUGIN = {migration.plugin: migration for migration in MIGRATIONS}


def disk_handle(kind: str, identity: str) -> str:
    """What the driver calls a disk that a pod names itself; empty if the name makes no sense."""
    if kind == "gcePersistentDisk":
        return _gce_handle("", identity)
    if kind == "awsElasticBlockStore" and identity.startswith("aws://"):
        found = _AWS_URL.match(identity)
        return found[1] if found else ""
    return identity


def volume_handle(volume: PersistentVolume) -> str:
    """What the driver calls an in-tree PersistentVolume."""
    if volume.source is None:
        return ""
    if volume.source.kind == "gcePersistentDisk":
        zones = volume.labels.get(BETA_ZONE) or volume.labels.get(ZONE) or ""
        return _gce_handle(zones, volume.source.handle)
    return disk_handle(volume.source.kind, volume.source.handle)


def _gce_handle(zones: str, disk: str) -> str:
    """The same disk gives the same text; a regional disk is known by all of its zones."""
    return f"zones/{zones or 'UNSPECIFIED'}/disks/{disk}"


def migrated_terms(volume: PersistentVolume, topology_key: str) -> tuple[NodeTerm, ...] | None:
    """The node affinity of the volume in the words of the CSI driver."""
    beta = _uses_beta_labels(volume)
    zone_key = BETA_ZONE if beta else ZONE
    terms = volume.node_terms
    keys = {expression.key for term in terms or () for expression in term.expressions if expression.values}
    renamed = {zone_key: topology_key, **({BETA_REGION: REGION} if beta else {})}
    if terms is not None:
        terms = tuple(_renamed(term, renamed) for term in terms)
    zones = tuple(sorted({zone.strip() for zone in volume.labels.get(zone_key, "").split(ZONE_SEPARATOR)} - {""}))
    if zone_key not in keys and zones:
        zone = Requirement(topology_key, Operator.IN, zones)
        terms = tuple(replace(term, expressions=(*term.expressions, zone)) for term in terms or (NodeTerm(),))
    return terms


def _renamed(term: NodeTerm, names: dict[str, str]) -> NodeTerm:
    return replace(term, expressions=tuple(replace(e, key=names.get(e.key, e.key)) for e in term.expressions))


def _uses_beta_labels(volume: PersistentVolume) -> bool:
    keys = {expression.key for term in volume.node_terms or () for expression in term.expressions}
    for known in (keys, volume.labels.keys()):
        if ZONE in known or BETA_ZONE in known:
            return ZONE not in known
    return False
