"""Extended resources that classes of devices back: the special claim that a pod gets for them.

Which class backs a resource is in `DeviceIndex.class_of`. Per node, what a device plugin offers is left to it; the rest
is asked for in one claim per pod, with a request for each container and resource. Init containers that end before the
others start reuse the devices of long-lived containers that come after them; only what they need beside those is asked
for, once, for the one that needs most.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from moorage.core.claims import DeviceChoice, DeviceRequest, ResourceClaim
from moorage.core.commands import PatchObject, Verb, ref_of
from moorage.core.deviceindex import EXTENDED_RESOURCE_CLAIM, RESOURCE_CLAIM
from moorage.core.frozen import FrozenDict
from moorage.core.hashing import name_suffix
from moorage.core.pods import ContainerAsk, Owner, Pod
from moorage.core.requests import PodResources
from moorage.core.resourcenames import may_be_devices
from moorage.core.values import dataclass

SPECIAL_NAME = "<extended-resources>"
"""Stands for the name of a special claim that is not made yet."""
_LONGEST_BASE = 58


@dataclass(frozen=True, slots=True)
class RequestMapping:
    """Which request of the special claim has devices for a resource of a container."""

    container: str
    resource: str
    request: str


@dataclass(frozen=True, slots=True)
class SpecialClaim:
    """What a pod asks for in its special claim on some node."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[RequestMapping, ...]
    name: str = SPECIAL_NAME

    def claim(self, pod: Pod) -> ResourceClaim:
        """The claim as the search for devices sees it."""
        return ResourceClaim(
            pod.namespace,
            self.name,
            f"{pod.uid}/{SPECIAL_NAME}",
            annotations=FrozenDict({EXTENDED_RESOURCE_CLAIM: "true"}),
            owner=Owner("Pod", pod.name, pod.uid, "v1"),
            requests=self.requests,
        )

    def named(self, pod: Pod, seed: int, now: float) -> SpecialClaim:
        """The same with the name under which it is made."""
        base = f"{pod.name}-extended-resources-"[:_LONGEST_BASE]
        return replace(self, name=base + name_suffix(seed, f"{pod.uid}/{now}"))


def container_asks(resources: PodResources) -> tuple[ContainerAsk, ...]:
    """What containers request of extended resources; empty if they request none."""
    containers = (*resources.init_containers, *resources.containers)
    if not any(may_be_devices(name) for container in containers for name in container.requests):
        return ()
    return tuple(
        ContainerAsk(
            index,
            container.name,
            brief=index < len(resources.init_containers) and not container.restartable,
            requests=tuple(
                (name, place, container.requests[name])
                for place, name in enumerate(sorted(container.requests))
                if may_be_devices(name)
            ),
            init=index < len(resources.init_containers),
        )
        for index, container in enumerate(containers)
    )


def special_claim(
    asks: Sequence[ContainerAsk], resources: Collection[str], class_of: Callable[[str], str | None]
) -> SpecialClaim:
    """What containers ask for of these resources."""
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        device_class = class_of(resource)
        if device_class is not None:
            asked, told = _of_resource(asks, resource, device_class)
            requests += asked
            mappings += told
    return SpecialClaim(tuple(sorted(requests, key=lambda each: each.name)), tuple(mappings))


def _of_resource(
    asks: Sequence[ContainerAsk], resource: str, device_class: str
) -> tuple[list[DeviceRequest], list[RequestMapping]]:
    lasting = [(ask, _request(ask, resource, device_class, 0)) for ask in asks if not ask.brief]
    mappings = [RequestMapping(ask.name, resource, made.name) for ask, made in lasting if made is not None]
    largest: DeviceRequest | None = None
    brief: list[tuple[ContainerAsk, list[str], DeviceRequest | None]] = []
    for ask in (each for each in asks if each.brief):
        wanted = ask.amount(resource)
        reused, total = [], 0
        for other, made in lasting:
            if other.index >= ask.index and made is not None and total < wanted:
                reused.append(made.name)
                total += _count(made)
        made = _request(ask, resource, device_class, total) if wanted > total else None
        if made is not None and (largest is None or _count(made) > _count(largest)):
            largest = made
        if wanted:
            brief.append((ask, reused, made))
    for ask, reused, made in brief:
        names = [*reused, *([largest.name] if made is not None and largest is not None else [])]
        mappings += [RequestMapping(ask.name, resource, name) for name in names]
    return [*([largest] if largest is not None else []), *(made for _, made in lasting if made is not None)], mappings


def _request(ask: ContainerAsk, resource: str, device_class: str, less: int) -> DeviceRequest | None:
    amount = ask.amount(resource)
    if not amount:
        return None
    name = f"container-{ask.index}-request-{ask.place(resource)}"
    return DeviceRequest(name, DeviceChoice(device_class=device_class, count=amount - less))


def _count(request: DeviceRequest) -> int:
    return 0 if request.exactly is None else request.exactly.count


# --- what is written ---


def make(pod: Pod, special: SpecialClaim) -> PatchObject:
    """Make the special claim of a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    metadata = {
        "generateName": f"{pod.name}-extended-resources-",
        "annotations": FrozenDict({EXTENDED_RESOURCE_CLAIM: "true"}),
        "ownerReferences": (FrozenDict(owner),),
    }
    requests = tuple(map(_request_body, special.requests))
    body = {"metadata": FrozenDict(metadata), "spec": FrozenDict({"devices": FrozenDict({"requests": requests})})}
    return PatchObject(ref_of(pod), RESOURCE_CLAIM, pod.namespace, special.name, FrozenDict(body), verb=Verb.CREATE)


def tell(pod: Pod, special: SpecialClaim) -> PatchObject:
    """Write to the pod's status which request serves which container."""
    mappings = tuple(
        FrozenDict({"containerName": each.container, "resourceName": each.resource, "requestName": each.request})
        for each in special.mappings
    )
    told = FrozenDict({"requestMappings": mappings, "resourceClaimName": special.name})
    patch = FrozenDict({"status": FrozenDict({"extendedResourceClaimStatus": told})})
    return PatchObject(ref_of(pod), "Pod", pod.namespace, pod.name, patch, pod.uid, subresource="status")


def remove(pod: Pod, claim: ResourceClaim) -> PatchObject:
    """Delete the special claim of an earlier attempt."""
    nothing: FrozenDict[str, Any] = FrozenDict()
    return PatchObject(ref_of(pod), RESOURCE_CLAIM, claim.namespace, claim.name, nothing, claim.uid, verb=Verb.DELETE)


def _request_body(request: DeviceRequest) -> FrozenDict[str, Any]:
    choice = request.exactly or DeviceChoice()
    exactly = {"deviceClassName": choice.device_class, "allocationMode": choice.mode, "count": choice.count}
    return FrozenDict({"name": request.name, "exactly": FrozenDict(exactly)})
