"""Pods, and pod templates of controllers, with something changed: plain objects in, changed plain objects out.

Everything works on an object with `metadata` and `spec`, which a pod and a pod template both are, and changes it in
place; callers hand over copies. `RewriteError` is raised where the object does not hold what is to be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from moorage.core.edits import (
    DropAnnotations,
    DropDevices,
    DropHostPort,
    DropLabel,
    DropNodeRules,
    DropPodRule,
    DropSelector,
    DropVolume,
    LowerRequest,
    OpenGates,
    PodEdit,
    RelaxSpread,
    Tolerate,
    UseScheduler,
)
from moorage.core.limits import Cutter
from moorage.core.quantity import amount, format_amount, quantity_text
from moorage.core.requests import is_pod_level_resource
from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from moorage.core.taints import Taint
from moorage.wire.podspec import VolumeWire
from moorage.wire.volumes import parse_volumes

Plain = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_OVERCOMMITTED = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
"""Resources whose limits may exceed the requests."""


class RewriteError(ValueError):
    """The object does not hold what is to be changed."""


RequestPlan = list[tuple[str, int, str]]
"""List of containers (empty: the pod itself), position in it, quantity."""


def rewrite_pod(body: Plain, name: str, edits: Iterable[PodEdit], plans: dict[LowerRequest, RequestPlan]) -> None:
    """Change a pod, or the template of pods; `name` is the pod's, `plans` say how requests are to be lowered."""
    for edit in edits:
        if isinstance(edit, LowerRequest):
            _apply_plan(body, edit.resource, plans[edit])
        elif isinstance(edit, DropVolume):
            _drop_volume(body, name, edit)
        else:
            _REWRITES[type(edit)](body, edit)


def request_plan(body: Plain, edit: LowerRequest) -> RequestPlan:
    """Which requests of a pod, as the API server keeps it, to lower so that the whole takes no more than this."""
    spec, resource = body.get("spec") or {}, edit.resource
    left = edit.amount - _amount(spec.get("overhead"), resource)
    if left < 0:
        raise RewriteError(f"the overhead alone takes more {resource}")
    mains, inits = spec.get("containers") or [], spec.get("initContainers") or []
    asked = {("containers", i): _requested(each, resource) for i, each in enumerate(mains)}
    sidecars = {
        ("initContainers", i): _requested(each, resource)
        for i, each in enumerate(inits)
        if each.get("restartPolicy") == "Always"
    }
    lowered = _lowered({**asked, **sidecars}, left)
    before = 0
    for i, each in enumerate(inits):
        place = ("initContainers", i)
        if place in sidecars:
            before += lowered.get(place, sidecars[place])
        elif before + _requested(each, resource) > left:
            lowered[place] = max(0, left - before)
    plan = [(group, i, format_amount(resource, value)) for (group, i), value in lowered.items()]
    own = (spec.get("resources") or {}).get("requests") or {}
    if is_pod_level_resource(resource) and _amount(own, resource) > left:
        plan.append(("", 0, format_amount(resource, left)))
    return plan


def _lowered(asked: dict[tuple[str, int], int], left: int) -> dict[tuple[str, int], int]:
    """The largest are lowered first, until the sum is small enough."""
    surplus = sum(asked.values()) - left
    found: dict[tuple[str, int], int] = {}
    for place, value in sorted(asked.items(), key=lambda item: -item[1]):
        if surplus <= 0:
            break
        found[place] = value - min(surplus, value)
        surplus -= value - found[place]
    return found


def _requested(container: Plain, resource: str) -> int:
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    return _amount(requests if resource in requests else limits, resource)


def _amount(amounts: Any, resource: str) -> int:
    return amount(resource, quantity_text((amounts or {}).get(resource)))


def _apply_plan(body: Plain, resource: str, plan: RequestPlan) -> None:
    spec = _spec(body)
    for group, index, text in plan:
        holder = spec if not group else _nth(spec.get(group), index)
        resources = holder["resources"] = dict(holder.get("resources") or {})
        resources["requests"] = {**(resources.get("requests") or {}), resource: text}
        limits = resources.get("limits")
        if limits and resource in limits and resource not in _OVERCOMMITTED:
            resources["limits"] = {**limits, resource: text}


def tolerate(body: Plain, taint: Taint) -> None:
    """Add a toleration to the spec of a pod, or to a request for devices."""
    toleration = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
    if not taint.value:
        toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    body["tolerations"] = [*(body.get("tolerations") or ()), toleration]


def _drop_selector(body: Plain, edit: DropSelector) -> None:
    _remove(_spec(body), "nodeSelector", edit.key)


def _drop_node_rules(body: Plain, edit: DropNodeRules) -> None:
    affinity = (_spec(body).get("affinity") or {}).get("nodeAffinity") or {}
    if _REQUIRED not in affinity:
        raise RewriteError("the pod has no required node affinity")
    if edit.term is None:
        del affinity[_REQUIRED]
        return
    term = _nth(affinity[_REQUIRED].get("nodeSelectorTerms"), edit.term)
    for part in ("matchExpressions", "matchFields"):
        if term.get(part):
            term[part] = [each for each in term[part] if each.get("key") not in edit.keys]
            if not term[part]:
                del term[part]


def _drop_pod_rule(body: Plain, edit: DropPodRule) -> None:
    affinity = (_spec(body).get("affinity") or {}).get("podAntiAffinity" if edit.anti else "podAffinity") or {}
    terms: list[Plain] = affinity.get(_REQUIRED) or []
    _nth(terms, edit.index)
    affinity[_REQUIRED] = [term for index, term in enumerate(terms) if index != edit.index]
    if not affinity[_REQUIRED]:
        del affinity[_REQUIRED]


def _relax_spread(body: Plain, edit: RelaxSpread) -> None:
    constraint = _nth(_spec(body).get("topologySpreadConstraints"), edit.index)
    if edit.max_skew is not None:
        constraint["maxSkew"] = edit.max_skew
    if edit.min_domains is not None:
        constraint["minDomains"] = edit.min_domains
    if edit.max_skew is None and edit.min_domains is None:
        constraint["whenUnsatisfiable"] = "ScheduleAnyway"
        constraint.pop("minDomains", None)


def _drop_host_port(body: Plain, edit: DropHostPort) -> None:
    spec, wanted, found = _spec(body), edit.port, False
    hosted = bool(spec.get("hostNetwork"))
    for container in _containers(spec):
        kept: list[Plain] = []
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if hosted else None)
            same = number == wanted.port and (port.get("protocol") or "TCP") == wanted.protocol
            if not same:
                kept.append(port)
                continue
            found = True
            if not hosted:
                kept.append({key: value for key, value in port.items() if key not in ("hostPort", "hostIP")})
        if container.get("ports"):
            container["ports"] = kept
    if not found:
        raise RewriteError(f"no container has the host port {wanted.port}")


def _drop_label(body: Plain, edit: DropLabel) -> None:
    _remove(_metadata(body), "labels", edit.key)


def _drop_annotations(body: Plain, edit: DropAnnotations) -> None:
    for key in edit.keys:
        _remove(_metadata(body), "annotations", key)


def _drop_volume(body: Plain, pod_name: str, edit: DropVolume) -> None:
    spec = _spec(body)
    volumes = spec.get("volumes") or []
    wires = [(each, msgspec.convert(each, VolumeWire)) for each in volumes]
    gone = [each for each, wire in wires if edit.volume in parse_volumes(pod_name, [wire], Cutter())[0]]
    if not gone:
        raise RewriteError("the volume is not in the pod's own list")
    names = {each.get("name") for each in gone}
    spec["volumes"] = [each for each in volumes if each.get("name") not in names]
    for container in _containers(spec):
        for part in ("volumeMounts", "volumeDevices"):
            if container.get(part):
                container[part] = [each for each in container[part] if each.get("name") not in names]


def _drop_devices(body: Plain, _: DropDevices) -> None:
    spec = _spec(body)
    if not spec.pop("resourceClaims", None):
        raise RewriteError("the pod has no claims of devices")
    for container in _containers(spec):
        (container.get("resources") or {}).pop("claims", None)
    (body.get("status") or {}).pop("resourceClaimStatuses", None)


def _open_gates(body: Plain, _: OpenGates) -> None:
    _spec(body).pop("schedulingGates", None)


def _use_scheduler(body: Plain, edit: UseScheduler) -> None:
    _spec(body)["schedulerName"] = edit.name


_REWRITES: dict[type, Callable[[Plain, Any], None]] = {
    Tolerate: lambda body, edit: tolerate(_spec(body), edit.taint),
    DropSelector: _drop_selector,
    DropNodeRules: _drop_node_rules,
    DropPodRule: _drop_pod_rule,
    RelaxSpread: _relax_spread,
    DropHostPort: _drop_host_port,
    DropLabel: _drop_label,
    DropAnnotations: _drop_annotations,
    DropDevices: _drop_devices,
    OpenGates: _open_gates,
    UseScheduler: _use_scheduler,
}


def _spec(body: Plain) -> Plain:
    spec: Plain = body.setdefault("spec", {})
    return spec


def _metadata(body: Plain) -> Plain:
    metadata: Plain = body.setdefault("metadata", {})
    return metadata


def _containers(spec: Plain) -> Iterator[Plain]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _nth(items: Any, index: int) -> Plain:
    if not isinstance(items, list) or index >= len(items):
        raise RewriteError(f"there is no entry {index}")
    found: Plain = items[index]
    return found


def _remove(holder: Plain, field: str, key: str) -> None:
    values = holder.get(field) or {}
    if key not in values:
        raise RewriteError(f"{field} does not have {key}")
    holder[field] = {name: value for name, value in values.items() if name != key}
    if not holder[field]:
        del holder[field]
