"""Rules of the API server for claims, classes and slices of devices, which reading alone does not notice.

For `moorage validate`. Selectors are compiled as an allocator compiles them. Unknown fields are reported only if
they look like one that is known: servers may know more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from moorage.core.claims import ALL, CLAIM_DEVICES, EXACT_COUNT
from moorage.core.devicecel import CompileError, compile_selector
from moorage.core.deviceindex import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE, TAINT_RULE
from moorage.sim.inputs import POD, TEMPLATE_PATHS
from moorage.sim.specs import inside, one_of, sequence
from moorage.wire.claims import DeviceClassWire, ResourceClaimTemplateWire, ResourceClaimWire
from moorage.wire.devices import DeviceTaintRuleWire, ResourceSliceWire
from moorage.wire.manifests import Manifest
from moorage.wire.problems import ABSENT, Problem

CLAIM_TEMPLATE = "ResourceClaimTemplate"
_WIRES: Mapping[str, type] = {
    RESOURCE_CLAIM: ResourceClaimWire,
    CLAIM_TEMPLATE: ResourceClaimTemplateWire,
    DEVICE_CLASS: DeviceClassWire,
    RESOURCE_SLICE: ResourceSliceWire,
    TAINT_RULE: DeviceTaintRuleWire,
}
_MODES = (EXACT_COUNT, ALL)
_REACHES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_MOST_ALTERNATIVES, _MOST_DEVICES = 8, 128
_ALIKE = 0.75


def device_problems(manifest: Manifest) -> Iterator[Problem]:
    """What is wrong with an object about devices; nothing for others."""
    if manifest.kind == POD or manifest.kind in TEMPLATE_PATHS:
        path = TEMPLATE_PATHS.get(manifest.kind, "")
        yield from _pod_problems(manifest, f"{path}.spec" if path else "spec")
    wire = _WIRES.get(manifest.kind)
    if wire is None:
        return
    yield from _misspelt(manifest, manifest.body, msgspec.inspect.type_info(wire), "")
    if manifest.kind in (RESOURCE_CLAIM, CLAIM_TEMPLATE):
        path = "spec" if manifest.kind == RESOURCE_CLAIM else "spec.spec"
        yield from _claim_problems(manifest, inside(manifest.body, f"{path}.devices"), f"{path}.devices")
    elif manifest.kind == DEVICE_CLASS:
        yield from _selector_problems(manifest, inside(manifest.body, "spec"), "spec")
    elif manifest.kind == RESOURCE_SLICE:
        yield from _slice_problems(manifest, inside(manifest.body, "spec"))


def device_notices(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Classes that claims name and that are not in the file: perhaps misspelt, if there are others of such names."""
    objects = [*manifests]
    classes = {each.name for each in objects if each.kind == DEVICE_CLASS}
    whole = any(each.kind == RESOURCE_SLICE for each in objects)
    for manifest in objects:
        if manifest.kind in (RESOURCE_CLAIM, CLAIM_TEMPLATE) and classes:
            path = "spec" if manifest.kind == RESOURCE_CLAIM else "spec.spec"
            for choice, where in _choices(inside(manifest.body, f"{path}.devices"), f"{path}.devices"):
                name = _name(choice, "deviceClassName")
                meant = _meant(name, classes)
                if name and name not in classes and (meant or whole):
                    message = f"no DeviceClass of this name is in the file{meant}"
                    yield manifest.problem(f"{where}.deviceClassName", name, message)


# --- fields ---


def _misspelt(manifest: Manifest, value: Any, info: msgspec.inspect.Type, path: str) -> Iterator[Problem]:
    """Fields that look like known ones."""
    for kind in info.types if isinstance(info, msgspec.inspect.UnionType) else (info,):
        if isinstance(kind, msgspec.inspect.StructType) and isinstance(value, Mapping):
            known = {field.encode_name: field.type for field in kind.fields}
            for name, inner in value.items():
                where = f"{path}.{name}" if path else str(name)
                if name in known:
                    yield from _misspelt(manifest, inner, known[name], where)
                elif meant := get_close_matches(str(name), known, n=1, cutoff=_ALIKE):
                    yield manifest.problem(where, ABSENT, f"is not a field; did you mean {meant[0]}?")
        elif isinstance(kind, msgspec.inspect.ListType):
            for index, inner in enumerate(sequence(value)):
                yield from _misspelt(manifest, inner, kind.item_type, f"{path}[{index}]")
        elif isinstance(kind, msgspec.inspect.DictType) and isinstance(value, Mapping):
            for name, inner in value.items():
                yield from _misspelt(manifest, inner, kind.value_type, f"{path}.{name}")


# --- pods ---


def _pod_problems(manifest: Manifest, path: str) -> Iterator[Problem]:
    spec, names = inside(manifest.body, path), set[str]()
    for index, each in enumerate(sequence(spec.get("resourceClaims"))):
        if isinstance(each, Mapping):
            names.add(str(each.get("name")))
            if bool(each.get("resourceClaimName")) == bool(each.get("resourceClaimTemplateName")):
                message = "must have either resourceClaimName or resourceClaimTemplateName"
                yield manifest.problem(f"{path}.resourceClaims[{index}]", ABSENT, message)
    for group in ("initContainers", "containers"):
        for index, container in enumerate(sequence(spec.get(group))):
            resources = inside(container, "resources") if isinstance(container, Mapping) else {}
            for number, each in enumerate(sequence(resources.get("claims"))):
                name = str(each.get("name")) if isinstance(each, Mapping) else ""
                if name not in names:
                    where = f"{path}.{group}[{index}].resources.claims[{number}]"
                    yield manifest.problem(where, name, f"is not in resourceClaims of the pod{_meant(name, names)}")


# --- claims ---


def _claim_problems(manifest: Manifest, devices: Mapping[str, Any], path: str) -> Iterator[Problem]:
    names = [_name(each) for each in sequence(devices.get("requests")) if isinstance(each, Mapping)]
    for name, number in Counter(names).items():
        if not name:
            yield manifest.problem(f"{path}.requests", ABSENT, "a request has no name; give it one")
        elif number > 1:
            yield manifest.problem(f"{path}.requests", name, "is the name of several requests; names must differ")
    least = 0
    for index, request in enumerate(sequence(devices.get("requests"))):
        if isinstance(request, Mapping):
            yield from _request_problems(manifest, request, f"{path}.requests[{index}]")
            least += min((_count(choice) for choice, _ in _choices({"requests": [request]}, "")), default=0)
    if least > CLAIM_DEVICES:
        yield manifest.problem(path, ABSENT, f"asks for {least} devices; a claim can hold {CLAIM_DEVICES}")
    for index, constraint in enumerate(sequence(devices.get("constraints"))):
        if isinstance(constraint, Mapping):
            yield from _constraint_problems(manifest, constraint, {*names}, f"{path}.constraints[{index}]")


def _request_problems(manifest: Manifest, request: Mapping[str, Any], path: str) -> Iterator[Problem]:
    choices = [*_choices({"requests": [request]}, "")]
    if not choices:
        yield manifest.problem(path, ABSENT, "asks for nothing; write exactly or firstAvailable")
    if len(sequence(request.get("firstAvailable"))) > _MOST_ALTERNATIVES:
        message = f"has too many alternatives; there can be {_MOST_ALTERNATIVES}"
        yield manifest.problem(f"{path}.firstAvailable", ABSENT, message)
    for choice, where in choices:
        at = path + where.removeprefix(".requests[0]")
        yield from _choice_problems(manifest, choice, at)


def _choice_problems(manifest: Manifest, choice: Mapping[str, Any], path: str) -> Iterator[Problem]:
    mode, count = choice.get("allocationMode") or EXACT_COUNT, choice.get("count")
    if not choice.get("deviceClassName"):
        yield manifest.problem(f"{path}.deviceClassName", ABSENT, "is missing; name a DeviceClass")
    if mode not in _MODES:
        yield manifest.problem(f"{path}.allocationMode", mode, f"is unknown; {one_of(_MODES)}")
    elif mode == ALL and count:
        yield manifest.problem(f"{path}.count", count, "must be left out with allocationMode All")
    yield from _selector_problems(manifest, choice, path)


def _constraint_problems(
    manifest: Manifest, constraint: Mapping[str, Any], names: set[str], path: str
) -> Iterator[Problem]:
    said = [key for key in ("matchAttribute", "distinctAttribute") if constraint.get(key)]
    if len(said) != 1:
        yield manifest.problem(path, ABSENT, "must have either matchAttribute or distinctAttribute")
    for key in said:
        if "/" not in str(constraint[key]):
            message = "has no domain; write the full name, such as gpu.example.com/model"
            yield manifest.problem(f"{path}.{key}", constraint[key], message)
    for name in sequence(constraint.get("requests")):
        if str(name).partition("/")[0] not in names:
            message = f"is not a request of this claim{_meant(str(name), names)}"
            yield manifest.problem(f"{path}.requests", name, message)


def _selector_problems(manifest: Manifest, holder: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for index, selector in enumerate(sequence(holder.get("selectors"))):
        expression = inside(selector, "cel").get("expression") if isinstance(selector, Mapping) else None
        where = f"{path}.selectors[{index}].cel.expression"
        if not isinstance(expression, str) or not expression:
            yield manifest.problem(where, ABSENT, "is missing; write a CEL expression")
            continue
        compiled = compile_selector(expression)
        if isinstance(compiled, CompileError):
            yield manifest.problem(where, ABSENT, " ".join(compiled.message.split()))


def _choices(devices: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """What requests ask for, with its place; in v1beta1 that is in the request itself."""
    for index, request in enumerate(sequence(devices.get("requests"))):
        if not isinstance(request, Mapping):
            continue
        where = f"{path}.requests[{index}]"
        if isinstance(request.get("exactly"), Mapping):
            yield request["exactly"], f"{where}.exactly"
        elif "deviceClassName" in request:
            yield request, where
        for number, each in enumerate(sequence(request.get("firstAvailable"))):
            if isinstance(each, Mapping):
                yield each, f"{where}.firstAvailable[{number}]"


def _count(choice: Mapping[str, Any]) -> int:
    count = choice.get("count")
    return count if isinstance(count, int) else 1


# --- slices ---


def _slice_problems(manifest: Manifest, spec: Mapping[str, Any]) -> Iterator[Problem]:
    reaches = [key for key in _REACHES if spec.get(key)]
    if len(reaches) != 1:
        message = f"must say once which nodes can use its devices; {one_of(_REACHES)}"
        yield manifest.problem("spec", ", ".join(reaches) or ABSENT, message)
    devices = [each for each in sequence(spec.get("devices")) if isinstance(each, Mapping)]
    if devices and spec.get("sharedCounters"):
        yield manifest.problem("spec", ABSENT, "has devices and sharedCounters; write two slices of one pool")
    if len(devices) > _MOST_DEVICES:
        yield manifest.problem("spec.devices", ABSENT, f"has {len(devices)} devices; a slice can have {_MOST_DEVICES}")
    for name, number in Counter(map(_name, devices)).items():
        if name and number > 1:
            yield manifest.problem("spec.devices", name, "is the name of several devices; names must differ")
    for index, device in enumerate(devices):
        basic = device.get("basic")
        for name, value in inside(basic if isinstance(basic, Mapping) else device, "attributes").items():
            if not isinstance(value, Mapping) or len(value) != 1:
                message = "must have one value; write string, int, bool or version"
                yield manifest.problem(f"spec.devices[{index}].attributes.{name}", value, message)


def _name(holder: Mapping[str, Any], key: str = "name") -> str:
    """A name; empty if it is missing or no text, which reading notices."""
    name = holder.get(key)
    return name if isinstance(name, str) else ""


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, [*known], n=1)
    return f"; did you mean {near[0]}?" if near else ""
