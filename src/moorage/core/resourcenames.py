"""What kind of resource a name stands for; filters and scores treat the kinds differently.

Names without a slash and names below `kubernetes.io/` are Kubernetes' own. Everything else is *extended*: a device or
whatever else a cluster's owners count. *Scalar* ones are counted in pieces beside cpu, memory and ephemeral storage.
"""

from __future__ import annotations

from functools import lru_cache

from moorage.core.labelnames import is_qualified_name

IMPLICIT_EXTENDED_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""A pod may ask for the devices of any class by this prefix and the name of the class."""
_NATIVE = "kubernetes.io/"
_QUOTA_PREFIX = "requests."
_HUGE_PAGES = "hugepages-"
_ATTACHABLE_VOLUMES = "attachable-volumes-"
_KEPT = 512
"""Clusters have tens of names; where tenants invent more, an answer is cheap."""


@lru_cache(_KEPT)
def is_extended_resource(name: str) -> bool:
    """Whether the resource is one that Kubernetes itself knows nothing about, e.g. `example.com/gpu`."""
    if "/" not in name or _NATIVE in name or name.startswith(_QUOTA_PREFIX):
        return False
    return is_qualified_name(_QUOTA_PREFIX + name)


@lru_cache(_KEPT)
def may_be_devices(name: str) -> bool:
    """Whether a class of devices may back the resource, by its extended resource name or by its own."""
    return name.startswith(IMPLICIT_EXTENDED_RESOURCE) or is_extended_resource(name)


@lru_cache(_KEPT)
def is_scalar_resource(name: str) -> bool:
    """Whether the scheduler counts the resource in pieces; other names (`pods`, `storage`) are no node resources."""
    return is_extended_resource(name) or _NATIVE in name or name.startswith((_HUGE_PAGES, _ATTACHABLE_VOLUMES))
