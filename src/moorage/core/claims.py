"""Dynamic resources as placement sees them: claims that are allocated or not, and device classes."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.core.affinity import NodeTerm
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.objects import ClusterWide, Namespaced
from moorage.core.pods import Owner

IMPLICIT_EXTENDED_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""A pod may ask for the devices of any class by this prefix and the name of the class."""


@dataclass(frozen=True, slots=True)
class ClaimConsumer:
    """A consumer for which a claim is reserved, normally a pod (`resource` is `pods`, `api_group` empty)."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


@dataclass(frozen=True, slots=True)
class ResourceClaim(Namespaced):
    """A claim for devices."""

    namespace: str
    name: str
    uid: str = ""
    annotations: FrozenDict[str, str] = EMPTY
    owner: Owner | None = None
    """A claim made from a template belongs to its pod."""
    device_classes: tuple[str, ...] = ()
    """Classes that its requests name, in order, alternatives included."""
    allocated: bool = False
    node_terms: tuple[NodeTerm, ...] | None = None
    """The nodes where the allocated devices can be used; alternatives. None: all nodes."""
    reserved_for: tuple[ClaimConsumer, ...] = ()
    deleting: bool = False
    resource_version: str = ""

    def reserved_for_uid(self, uid: str) -> bool:
        """Whether the pod of this uid already has its reservation."""
        return any(consumer.uid == uid for consumer in self.reserved_for)


@dataclass(frozen=True, slots=True)
class DeviceClass(ClusterWide):
    """A class of devices; some can be asked for like an extended resource."""

    name: str
    extended_resource: str | None = None
    created_s: float = 0.0

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The names under which containers can request devices of this class."""
        implicit = IMPLICIT_EXTENDED_RESOURCE + self.name
        return (implicit,) if self.extended_resource is None else (self.extended_resource, implicit)
