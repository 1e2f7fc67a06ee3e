"""The parts of a pod become a `PodTemplate` and the resources that its requests are computed from.

Nothing here is fast, and nothing needs to be: `templates.py` remembers the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from moorage.core.extendedclaims import container_asks
from moorage.core.images import normalized_image
from moorage.core.limits import HOST_PORTS, NODE_SELECTOR, POD_LABELS, RESOURCE_CLAIMS, Cutter
from moorage.core.pods import DEFAULT_SCHEDULER, UNRESOLVED_CLAIM, HostPort, PodTemplate, PodVolume
from moorage.core.requests import Amounts, ContainerResources, PodResources, effective_limits, effective_requests
from moorage.core.sharewriting import taken_devices, without_written
from moorage.core.values import dataclass
from moorage.wire.amounts import parse_amounts
from moorage.wire.errors import FieldError, decode_part
from moorage.wire.metadata import OwnerWire, controller_of, frozen_annotations, frozen_map
from moorage.wire.placement import parse_affinity, parse_spread, parse_tolerations
from moorage.wire.podspec import (
    AmountsWire,
    ContainerStatusWire,
    ContainerWire,
    PodClaimWire,
    PodSpecWire,
    PodStatusWire,
    PodWire,
    PortWire,
    ResourcesWire,
    RestartRuleWire,
    SchedulingGroupWire,
)
from moorage.wire.topology import ask_of

DEFAULT_NAMESPACE = "default"
DEFAULT_PREEMPTION_POLICY = "PreemptLowerPriority"
RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"

_TEXTS = msgspec.json.Decoder(dict[str, str] | None)
_OWNERS = msgspec.json.Decoder(list[OwnerWire] | None)
_RESOURCES = msgspec.json.Decoder(ResourcesWire | None)
_AMOUNTS = msgspec.json.Decoder(AmountsWire)
_PORTS = msgspec.json.Decoder(list[PortWire] | None)
_RULES = msgspec.json.Decoder(list[RestartRuleWire] | None)
_CLAIMS = msgspec.json.Decoder(list[PodClaimWire] | None)
_GROUP = msgspec.json.Decoder(SchedulingGroupWire | None)

_Read = Callable[[msgspec.Raw, str, Cutter], dict[str, int] | None]
"""Takes amounts from a `resources` part."""

_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 (compared with, never bound to)


@dataclass(frozen=True, slots=True)
class ParsedPod:
    """A template, and the resources that a bound pod's requests are computed from once its status is known."""

    template: PodTemplate
    resources: PodResources
    devices: tuple[int, ...] = ()
    """The shared devices that its annotations say it has got."""


def parse_pod(
    wire: PodWire, volumes: tuple[PodVolume, ...], volume_images: tuple[str, ...], cutter: Cutter
) -> ParsedPod:
    """Everything that the pod's metadata and spec say; raises `FieldError` where they cannot be understood."""
    metadata, spec = wire.metadata, wire.spec
    labels = frozen_map(_texts(metadata.labels, "metadata.labels", POD_LABELS, cutter))
    node_affinity, pod_affinity, pod_anti_affinity = parse_affinity(bytes(spec.affinity), cutter)
    resources = _resources(spec, _requests, cutter)
    annotations = _part(_TEXTS, metadata.annotations, "metadata.annotations") or {}
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    images = (*(normalized_image(container.image or "") for container in containers), *volume_images)
    claims = _claims(wire, cutter)
    template = PodTemplate(
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        labels=labels,
        annotations=frozen_annotations(without_written(annotations)),
        owner=controller_of(_part(_OWNERS, metadata.owner_references, "metadata.ownerReferences")),
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        priority=spec.priority or 0,
        preemption_policy=spec.preemption_policy or DEFAULT_PREEMPTION_POLICY,
        requests=effective_requests(resources),
        node_selector=frozen_map(_texts(spec.node_selector, "spec.nodeSelector", NODE_SELECTOR, cutter)),
        node_affinity=node_affinity,
        pod_affinity=pod_affinity,
        pod_anti_affinity=pod_anti_affinity,
        spread=parse_spread(bytes(spec.topology_spread_constraints), labels, cutter),
        tolerations=parse_tolerations(bytes(spec.tolerations), cutter),
        host_ports=_host_ports(spec, cutter),
        images=images,
        container_count=len(images),
        volumes=volumes,
        claims=tuple(claims),
        made_claims=tuple(name for name, made in claims.items() if made and not name.startswith(UNRESOLVED_CLAIM)),
        asks=container_asks(resources),
        group=_group(spec),
        host_network=bool(spec.host_network),
        features=_features(spec),
        topology=ask_of(annotations) if annotations else None,
        limits=_readable_limits(spec),
        excess=tuple(cutter.excess),
    )
    return ParsedPod(template, resources, taken_devices(annotations))


def _part(decoder: msgspec.json.Decoder[Any], raw: msgspec.Raw, path: str) -> Any:
    """A decoded part; None where it is absent or null."""
    data = bytes(raw)
    return decode_part(decoder, data, path) if data else None


def _texts(raw: msgspec.Raw, path: str, limit: int, cutter: Cutter) -> Mapping[str, str] | None:
    texts: dict[str, str] | None = _part(_TEXTS, raw, path)
    return cutter.cut_map(texts, limit, path)


def _requests(raw: msgspec.Raw, path: str, cutter: Cutter) -> dict[str, int] | None:
    """`requests` of a `resources` part; None where there are none."""
    wire: ResourcesWire | None = _part(_RESOURCES, raw, path)
    return None if wire is None or wire.requests is None else _parsed(wire.requests, f"{path}.requests", cutter)


def _limits(raw: msgspec.Raw, path: str, cutter: Cutter) -> dict[str, int] | None:
    """`limits` of a `resources` part; None where there are none."""
    wire: ResourcesWire | None = _part(_RESOURCES, raw, path)
    return None if wire is None or wire.limits is None else _parsed(wire.limits, f"{path}.limits", cutter)


def _amounts(raw: msgspec.Raw, path: str, cutter: Cutter) -> dict[str, int] | None:
    quantities: AmountsWire = _part(_AMOUNTS, raw, path)
    return None if quantities is None else _parsed(quantities, path, cutter)


def _parsed(quantities: AmountsWire, path: str, cutter: Cutter) -> dict[str, int]:
    return parse_amounts(cutter.resources(quantities, path), path)


def _resources(spec: PodSpecWire, read: _Read, cutter: Cutter) -> PodResources:
    """What containers and pod request; or may use at most, if that is what is read."""
    return PodResources(
        containers=_container_resources(spec.containers, "spec.containers", read, cutter),
        init_containers=_container_resources(spec.init_containers, "spec.initContainers", read, cutter),
        overhead=_amounts(spec.overhead, "spec.overhead", cutter) or {},
        pod_level=read(spec.resources, "spec.resources", cutter) or {},
    )


def _readable_limits(spec: PodSpecWire) -> tuple[tuple[str, int], ...]:
    """Nothing depends on limits: those that cannot be understood are no reason to refuse the pod."""
    try:
        return effective_limits(_resources(spec, _limits, Cutter()))
    except FieldError:
        return ()


def _container_resources(
    wires: Iterable[ContainerWire] | None, path: str, read: _Read, cutter: Cutter
) -> tuple[ContainerResources, ...]:
    return tuple(
        ContainerResources(
            wire.name,
            read(wire.resources, f"{path}[{index}].resources", cutter) or {},
            restartable=is_restartable(wire),
        )
        for index, wire in enumerate(wires or ())
    )


def is_restartable(wire: ContainerWire) -> bool:
    """Whether an init container is a sidecar."""
    return wire.restart_policy == "Always"


def with_status(resources: PodResources, status: PodStatusWire, *, resize_infeasible: bool) -> PodResources:
    """The resources together with what the kubelet reports about them."""
    reported: dict[str, tuple[Amounts | None, Amounts | None]] = {}
    cutter = Cutter()
    for container in (*resources.containers, *resources.init_containers):
        cutter.resources(container.requests, container.name)  # whatever else is reported, these count
    for wires, path in (
        (status.init_container_statuses, "status.initContainerStatuses"),
        (status.container_statuses, "status.containerStatuses"),
    ):
        for index, wire in enumerate(wires or ()):
            reported[wire.name] = _reported(wire, f"{path}[{index}]", cutter)

    def informed(container: ContainerResources) -> ContainerResources:
        allocated, actual = reported.get(container.name, (None, None))
        return replace(container, allocated=allocated, actual=actual)

    return replace(
        resources,
        containers=tuple(map(informed, resources.containers)),
        init_containers=tuple(map(informed, resources.init_containers)),
        allocated=_amounts(status.allocated_resources, "status.allocatedResources", cutter),
        actual=_requests(status.resources, "status.resources", cutter),
        resize_infeasible=resize_infeasible,
    )


def _reported(wire: ContainerStatusWire, path: str, cutter: Cutter) -> tuple[Amounts | None, Amounts | None]:
    return (
        _amounts(wire.allocated_resources, f"{path}.allocatedResources", cutter),
        _requests(wire.resources, f"{path}.resources", cutter),
    )


def _host_ports(spec: PodSpecWire, cutter: Cutter) -> tuple[HostPort, ...]:
    """Ports of the node that containers occupy as long as the pod runs."""
    ports: set[HostPort] = set()
    for wires, path in ((spec.containers, "spec.containers"), (spec.init_containers, "spec.initContainers")):
        for index, container in enumerate(wires or ()):
            if wires is spec.init_containers and not is_restartable(container):
                continue
            where = f"{path}[{index}].ports"
            decoded: list[PortWire] | None = _part(_PORTS, container.ports, where)
            used = cutter.cut([port for port in decoded or () if port.host_port], HOST_PORTS, where)
            ports.update(_host_port(port, f"{where}[{i}]") for i, port in enumerate(used))
    return tuple(cutter.cut(sorted(ports), HOST_PORTS, "ports of the containers"))


def _host_port(wire: PortWire, path: str) -> HostPort:
    port = wire.host_port or 0
    if not 0 < port < 65536:
        raise FieldError(f"{path}.hostPort", port, "is not a port", "write a number from 1 to 65535")
    address = wire.host_ip or ""
    return HostPort("" if address == _EVERY_ADDRESS else address, wire.protocol or "TCP", port)


def _claims(wire: PodWire, cutter: Cutter) -> dict[str, bool]:
    """The pod's ResourceClaims by name, and whether they are made for it; one that is not needed is left out."""
    named: list[PodClaimWire] | None = _part(_CLAIMS, wire.spec.resource_claims, "spec.resourceClaims")
    claims = cutter.cut(named, RESOURCE_CLAIMS, "spec.resourceClaims")
    made: list[PodClaimWire] = []
    if claims and wire.status is not None:
        made = _part(_CLAIMS, wire.status.resource_claim_statuses, "status.resourceClaimStatuses") or []
    names = {claim.name: claim.resource_claim_name for claim in made}
    found: dict[str, bool] = {}
    for claim in claims:
        name = claim.resource_claim_name or names.get(claim.name, UNRESOLVED_CLAIM + claim.name)
        if name:
            found[name] = not claim.resource_claim_name
    return found


def _group(spec: PodSpecWire) -> str | None:
    wire: SchedulingGroupWire | None = _part(_GROUP, spec.scheduling_group, "spec.schedulingGroup")
    return (wire.pod_group_name or None) if wire else None


def _features(spec: PodSpecWire) -> tuple[str, ...]:
    """Features that a node must declare to run the pod."""
    features = []
    for wires, path in ((spec.containers, "spec.containers"), (spec.init_containers, "spec.initContainers")):
        for index, container in enumerate(wires or ()):
            where = f"{path}[{index}].restartPolicyRules"
            rules: list[RestartRuleWire] | None = _part(_RULES, container.restart_policy_rules, where)
            if any(rule.action == "RestartAllContainers" for rule in rules or ()):
                features.append(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        features.append(USER_NAMESPACES_HOST_NETWORK)
    return tuple(sorted(set(features)))
