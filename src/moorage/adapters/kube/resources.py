"""Where resources live in the API: group, version and plural name to path, and those that are named in code."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from moorage.core.values import dataclass

LEASE_GROUP = "coordination.k8s.io"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the API. The core group is the empty string."""

    group: str
    version: str
    plural: str
    namespaced: bool = True
    kind: str = ""
    older: tuple[str, ...] = ()
    """Versions that can be used where the server does not have this one, the best one first."""

    @property
    def api_version(self) -> str:
        """As objects say it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def versions(self) -> tuple[Resource, ...]:
        """The resource in each version that can be used."""
        return (self, *(replace(self, version=version) for version in self.older))

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Build the path of a collection, an object, or a subresource. No namespace means the whole cluster."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{_quoted(namespace)}" if namespace and self.namespaced else ""
        item = "" if name is None else f"/{_quoted(name)}"
        part = "" if subresource is None else f"/{subresource}"
        return f"{root}{place}/{self.plural}{item}{part}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}" if self.group else f"{self.plural}.{self.version}"


def _quoted(name: str) -> str:
    """The name as part of a path; nearly all names are made of characters that stand for themselves."""
    return name if name.isascii() and name.replace("-", "").isalnum() else quote(name, safe="")


PODS = Resource("", "v1", "pods", kind="Pod")
POD_TEMPLATES = Resource("", "v1", "podtemplates", kind="PodTemplate")
NODES = Resource("", "v1", "nodes", namespaced=False, kind="Node")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False, kind="Namespace")
SERVICES = Resource("", "v1", "services", kind="Service")
CONFIG_MAPS = Resource("", "v1", "configmaps", kind="ConfigMap")
DEPLOYMENTS = Resource("apps", "v1", "deployments", kind="Deployment")
JOBS = Resource("batch", "v1", "jobs", kind="Job")
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", kind="PodGroup")
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", namespaced=False, kind="CSIDriver")
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", kind="ResourceClaim")
LEASES = Resource(LEASE_GROUP, "v1", "leases", kind="Lease")
EVENTS = Resource("events.k8s.io", "v1", "events", kind="Event")
