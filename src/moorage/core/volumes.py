"""Storage as placement sees it: claims, volumes, classes, and what the drivers of each node can hold."""

from __future__ import annotations

from moorage.core.affinity import NodeTerm
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.objects import ClusterWide, Namespaced
from moorage.core.pods import Owner
from moorage.core.selectors import Selector
from moorage.core.values import dataclass

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
FILESYSTEM = "Filesystem"
BOUND = "Bound"
LOST = "Lost"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim(Namespaced):
    """A claim for storage."""

    namespace: str
    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    owner: Owner | None = None
    """A claim of a generic ephemeral volume belongs to its pod."""
    volume: str | None = None
    """Name of the PersistentVolume that it is, or will be, bound to."""
    bind_completed: bool = False
    storage_class: str | None = None
    """None: the default class; empty: only volumes without class."""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    request_bytes: int = 0
    selector: Selector | None = None
    """Restricts static volumes by label; None is no restriction."""
    attributes_class: str | None = None
    phase: str = "Pending"
    selected_node: str | None = None
    """The node for which a volume is being provisioned."""
    deleting: bool = False
    resource_version: str = ""

    @property
    def bound(self) -> bool:
        """Whether the binding to `volume` is complete."""
        return self.volume is not None and self.bind_completed


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """The claim that a volume is bound to or reserved for; an empty uid means that the user reserved it by name."""

    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class VolumeSource:
    """What a volume is made of: `kind` is the field of the spec that holds it (`csi`, `awsElasticBlockStore`, ...)."""

    kind: str
    driver: str = ""
    """The CSI driver; empty for other kinds."""
    handle: str = ""
    """What identifies the volume to its driver."""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class PersistentVolume(ClusterWide):
    """A piece of storage."""

    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    storage_class: str = ""
    attributes_class: str | None = None
    claim: ClaimRef | None = None
    node_terms: tuple[NodeTerm, ...] | None = None
    """The nodes that can reach it; alternatives. None: all nodes."""
    source: VolumeSource | None = None
    phase: str = "Pending"
    deleting: bool = False
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class StorageClass(ClusterWide):
    """How claims of this class get their volumes."""

    name: str
    provisioner: str = ""
    wait_for_consumer: bool = False
    """True for WaitForFirstConsumer, False for Immediate."""
    allowed_topologies: tuple[NodeTerm, ...] = ()
    """Where volumes can be provisioned; alternatives. Empty: everywhere."""
    default: bool = False
    created_s: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeDriver:
    """A CSI driver on one node."""

    name: str
    node_id: str = ""
    topology_keys: tuple[str, ...] = ()
    volume_limit: int | None = None
    """How many volumes of this driver the node can hold; None: no limit."""


@dataclass(frozen=True, slots=True)
class CSINode(ClusterWide):
    """The CSI drivers of one node, of the same name."""

    name: str
    drivers: tuple[NodeDriver, ...] = ()
    migrated_plugins: tuple[str, ...] = ()
    """In-tree volume plugins whose volumes a CSI driver handles on this node; sorted."""

    def driver(self, name: str) -> NodeDriver | None:
        """The driver of this name, if it is installed on the node."""
        return next((driver for driver in self.drivers if driver.name == name), None)


@dataclass(frozen=True, slots=True)
class CSIDriver(ClusterWide):
    """What a CSI driver is like in the whole cluster."""

    name: str
    storage_capacity: bool = False
    """Whether it publishes CSIStorageCapacity objects that placement has to look at."""
    attach_required: bool = True
    prevent_scheduling_if_missing: bool = False


@dataclass(frozen=True, slots=True)
class CSIStorageCapacity(Namespaced):
    """How much can be provisioned for a class in a part of the cluster."""

    namespace: str
    name: str
    storage_class: str = ""
    node_topology: Selector | None = None
    """The nodes that it is about; None: none of them."""
    capacity_bytes: int | None = None
    maximum_volume_bytes: int | None = None

    @property
    def largest_volume_bytes(self) -> int | None:
        """What one volume can have at most: the maximum size where the driver tells it, else the capacity."""
        return self.capacity_bytes if self.maximum_volume_bytes is None else self.maximum_volume_bytes


@dataclass(frozen=True, slots=True)
class VolumeAttachment(ClusterWide):
    """A volume that is, or is being, attached to a node."""

    name: str
    driver: str = ""
    node: str = ""
    volume: str | None = None
    """Name of the PersistentVolume; None for an inline volume."""
    inline: VolumeSource | None = None
    attached: bool = False
    deleting: bool = False
