"""Claims: which devices are taken, and whether those that a pod wants are free on a node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.crossings.audit.scene import (
    NOTHING,
    Object,
    Scene,
    is_over,
    namespace_of,
    offered,
    requests,
    spec,
    status,
    uid_of,
)
from tests.crossings.audit.whatif import WhatIf

CLAIM = "ResourceClaim"
_MODEL = re.compile(r'\.model == "(\w+)"')
_DRIVER = re.compile(r'device\.driver == "([\w.]+)"')


class Device(NamedTuple):
    """One device."""

    driver: str
    pool: str
    name: str
    model: str = ""

    @property
    def id(self) -> tuple[str, str, str]:
        """What claims know it by."""
        return self.driver, self.pool, self.name


class Want(NamedTuple):
    """So many devices of a class."""

    class_name: str
    number: int


def devices_on(scene: Scene, node: str) -> list[Device]:
    """What the slices of a node offer."""
    found = []
    for each in scene.of("ResourceSlice").values():
        about = spec(each)
        if about.get("nodeName") != node:
            continue
        for device in about.get("devices") or ():
            model = ((device.get("attributes") or {}).get("model") or {}).get("string") or ""
            found.append(Device(about["driver"], about["pool"]["name"], device["name"], model))
    return found


def is_of(scene: Scene, device: Device, class_name: str) -> bool:
    """Whether the class selects the device; of expressions only those of our worlds are known."""
    found = scene.of("DeviceClass").get(("", class_name))
    if found is None:
        return False
    for selector in spec(found).get("selectors") or ():
        text = selector["cel"]["expression"]
        driver, model = _DRIVER.search(text), _MODEL.search(text)
        if (driver and driver[1] != device.driver) or (model and model[1] != device.model):
            return False
    return True


def results(claim: Object) -> list[tuple[str, str, str]]:
    """The devices that a claim has."""
    allocated = (status(claim).get("allocation") or NOTHING).get("devices") or NOTHING
    return [(each["driver"], each["pool"], each["device"]) for each in allocated.get("results") or ()]


def wants_of(claim_spec: Object) -> list[Want]:
    """What a claim asks for."""
    asked = (claim_spec.get("devices") or NOTHING).get("requests") or ()
    exact = [each.get("exactly") or NOTHING for each in asked]
    return [Want(each["deviceClassName"], int(each.get("count") or 1)) for each in exact if each]


def claim_names(pod: Object) -> Iterator[tuple[str, str]]:
    """(claim, template) of every entry of the pod; the claim is empty while it has not been made."""
    made = {
        each["name"]: each.get("resourceClaimName") or "" for each in status(pod).get("resourceClaimStatuses") or ()
    }
    for entry in spec(pod).get("resourceClaims") or ():
        named = entry.get("resourceClaimName") or ""
        yield named or made.get(entry["name"], ""), entry.get("resourceClaimTemplateName") or ""


def extended_class(scene: Scene, resource: str) -> str:
    """The class that stands for an extended resource."""
    for (_, name), each in scene.of("DeviceClass").items():
        if spec(each).get("extendedResourceName") == resource:
            return name
    return ""


def special_claim(scene: Scene, pod: Object) -> Object | None:
    """The claim that the scheduler made for extended resources of the pod."""
    name = (status(pod).get("extendedResourceClaimStatus") or NOTHING).get("resourceClaimName")
    return scene.of(CLAIM).get((namespace_of(pod), name)) if name else None


def users(scene: Scene, claim: Object) -> list[str]:
    """The pods that the claim is reserved for, by uid, as far as they are there and have not ended."""
    reserved = [str(each.get("uid")) for each in status(claim).get("reservedFor") or ()]
    return [uid for uid in reserved if uid in scene.pods and not is_over(scene.pods[uid])]


def taken(view: WhatIf) -> set[tuple[str, str, str]]:
    """Devices in use; a claim whose pods are all gone gives its own back."""
    found: set[tuple[str, str, str]] = set()
    for claim in view.scene.of(CLAIM).values():
        using = users(view.scene, claim)
        if results(claim) and not (using and view.gone.issuperset(using)):
            found.update(results(claim))
    return found


def devices_fit(view: WhatIf, pod: Object, node: str) -> str:
    """Why the claims of a pod cannot be met on a node; empty if they can."""
    missing: list[Want] = []
    for problem, wants in _asked(view, pod, node):
        if problem:
            return problem
        missing += wants
    if not missing:
        return ""
    free = _free(view, node)
    return "" if _take(view.scene, free, missing) is not None else "devices"


def _asked(view: WhatIf, pod: Object, node: str) -> Iterator[tuple[str, list[Want]]]:
    """For every claim of the pod what is in the way, or what it still wants on this node."""
    scene, namespace = view.scene, namespace_of(pod)
    for name, template in claim_names(pod):
        claim = scene.of(CLAIM).get((namespace, name)) if name else None
        if claim is not None and results(claim):
            here = {device.id for device in devices_on(scene, node)}
            using = [uid for uid in users(scene, claim) if uid not in view.gone and uid != uid_of(pod)]
            if here.issuperset(results(claim)):
                continue
            stays = using or not view.frees_idle
            yield ("a claim that is allocated elsewhere" if stays else "", wants_of(spec(claim)))
        elif claim is not None:
            shared = _placed_with(view, namespace, name)
            if shared:
                yield ("a claim that others get elsewhere" if node not in shared else "", [])
            else:
                yield "", wants_of(spec(claim))
        else:
            found = scene.of("ResourceClaimTemplate").get((namespace, template))
            yield ("", wants_of(spec(found)["spec"])) if found else ("no claim yet", [])
    for resource, amount in requests(pod).items():
        class_name = extended_class(scene, resource)
        node_has = offered(scene.nodes[node]).get(resource, 0)
        if class_name and not node_has:
            yield "", [Want(class_name, amount // 1000)]


def _placed_with(view: WhatIf, namespace: str, name: str) -> set[str]:
    """Nodes of pods of the plan that use the same claim."""
    return {
        where
        for pod, where in view.placed
        if namespace_of(pod) == namespace and any(each == name for each, _ in claim_names(pod))
    }


def _free(view: WhatIf, node: str) -> list[Device]:
    """Devices of a node that nobody has, and no pod of the plan takes; the less sought after first."""
    used = taken(view)
    free = sorted(
        (each for each in devices_on(view.scene, node) if each.id not in used),
        key=lambda device: (device.model == "large", device.name),
    )
    seen: set[str] = set()
    for pod, where in view.placed:
        if where != node:
            continue
        scene, wants = view.scene, []
        for name, template in claim_names(pod):
            claim = scene.of(CLAIM).get((namespace_of(pod), name)) if name else None
            if claim is not None and (results(claim) or name in seen):
                continue
            seen.add(name)
            source = claim or scene.of("ResourceClaimTemplate").get((namespace_of(pod), template))
            asked = spec(source or NOTHING)
            wants += wants_of(asked.get("spec") or asked)
        wants += [
            Want(extended_class(scene, resource), amount // 1000)
            for resource, amount in requests(pod).items()
            if extended_class(scene, resource) and special_claim(scene, pod) is None
        ]
        free = _take(scene, free, wants) or []
    return free


def _take(scene: Scene, free: list[Device], wants: list[Want]) -> list[Device] | None:
    """What is left when the wants are met, the narrow classes first; None if they cannot be."""
    left = list(free)
    for want in sorted(wants, key=lambda each: sum(is_of(scene, device, each.class_name) for device in free)):
        fitting = [device for device in left if is_of(scene, device, want.class_name)]
        if len(fitting) < want.number:
            return None
        for device in fitting[: want.number]:
            left.remove(device)
    return left
