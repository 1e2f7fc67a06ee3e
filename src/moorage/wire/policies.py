"""Services, budgets, namespaces, classes of pods and placement policies: JSON becomes the values of `core.objects`."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.core.limits import NODE_SELECTOR, OBJECT_SELECTOR_PARTS, RESOURCE_NAMES, TOLERATIONS
from moorage.core.objects import (
    NAMESPACE_NAME_LABEL,
    Namespace,
    PlacementPolicy,
    PodDisruptionBudget,
    PriorityClass,
    RuntimeClass,
    Service,
)
from moorage.core.taints import Toleration
from moorage.wire.errors import FieldError
from moorage.wire.metadata import Int32Wire, MetadataWire, frozen_annotations, frozen_map
from moorage.wire.podspec import TolerationWire
from moorage.wire.policy_rules import read_rules
from moorage.wire.quantities import QuantityWire, frozen_amounts
from moorage.wire.selectors import LabelSelectorWire, label_selector
from moorage.wire.whole import whole

DEFAULT_NAMESPACE = "default"
_ALWAYS_ALLOW = "AlwaysAllow"
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


class ServiceSpecWire(msgspec.Struct, gc=False):
    """The spec of a Service."""

    selector: dict[str, str] | None = None


class ServiceWire(msgspec.Struct, gc=False):
    """A Service."""

    metadata: MetadataWire
    spec: ServiceSpecWire | None = None


class NamespaceWire(msgspec.Struct, gc=False):
    """A Namespace."""

    metadata: MetadataWire


class BudgetSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a PodDisruptionBudget."""

    selector: LabelSelectorWire | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """The status of a PodDisruptionBudget."""

    disruptions_allowed: Int32Wire | None = None
    disrupted_pods: dict[str, Any] | None = None
    current_healthy: Int32Wire | None = None
    desired_healthy: Int32Wire | None = None


class BudgetWire(msgspec.Struct, gc=False):
    """A PodDisruptionBudget."""

    metadata: MetadataWire
    spec: BudgetSpecWire | None = None
    status: BudgetStatusWire | None = None


class PriorityClassWire(msgspec.Struct, gc=False, rename="camel"):
    """A PriorityClass, which has no spec."""

    metadata: MetadataWire
    value: Int32Wire | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class OverheadWire(msgspec.Struct, gc=False, rename="camel"):
    """What a runtime itself needs for each pod."""

    pod_fixed: dict[str, QuantityWire] | None = None


class RuntimeSchedulingWire(msgspec.Struct, gc=False, rename="camel"):
    """Where a runtime is available."""

    node_selector: dict[str, str] | None = None
    tolerations: list[TolerationWire] | None = None


class RuntimeClassWire(msgspec.Struct, gc=False):
    """A RuntimeClass, which has no spec."""

    metadata: MetadataWire
    overhead: OverheadWire | None = None
    scheduling: RuntimeSchedulingWire | None = None


class PlacementPolicySpecWire(msgspec.Struct, gc=False):
    """The spec of a PlacementPolicy; what the rules may say is for the strategy's parser to judge."""

    selector: LabelSelectorWire | None = None
    rules: list[Any] | None = None


class PlacementPolicyWire(msgspec.Struct, gc=False):
    """A PlacementPolicy."""

    metadata: MetadataWire
    spec: PlacementPolicySpecWire | None = None


def service(wire: ServiceWire) -> Service:
    """The core value of a Service."""
    metadata, spec = wire.metadata, wire.spec or ServiceSpecWire()
    return Service(
        metadata.namespace or DEFAULT_NAMESPACE,
        metadata.name,
        frozen_map(whole(spec.selector, OBJECT_SELECTOR_PARTS // 2, "spec.selector")),
    )


def namespace(wire: NamespaceWire) -> Namespace:
    """The core value of a Namespace, with the label of its name that the API server adds."""
    metadata = wire.metadata
    labels = {**(metadata.labels or {}), NAMESPACE_NAME_LABEL: metadata.name}
    return Namespace(metadata.name, frozen_map(labels), frozen_annotations(metadata.annotations))


def pod_disruption_budget(wire: BudgetWire) -> PodDisruptionBudget:
    """The core value of a PodDisruptionBudget."""
    metadata, spec = wire.metadata, wire.spec or BudgetSpecWire()
    status = wire.status or BudgetStatusWire()
    always = spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW
    kept = (status.current_healthy or 0) >= (status.desired_healthy or 0) > 0
    return PodDisruptionBudget(
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        selector=label_selector(spec.selector, "spec.selector"),
        disruptions_allowed=status.disruptions_allowed or 0,
        disrupted_pods=tuple(sorted(status.disrupted_pods or ())),
        min_available=spec.min_available,
        max_unavailable=spec.max_unavailable,
        observed=status.disruptions_allowed is not None,
        spares_unready=always or kept,
    )


def priority_class(wire: PriorityClassWire) -> PriorityClass:
    """The core value of a PriorityClass."""
    policy = wire.preemption_policy or _PREEMPTION_POLICIES[0]
    if policy not in _PREEMPTION_POLICIES:
        raise FieldError("preemptionPolicy", policy, "is unknown", f"write one of {', '.join(_PREEMPTION_POLICIES)}")
    return PriorityClass(wire.metadata.name, wire.value or 0, bool(wire.global_default), policy)


def runtime_class(wire: RuntimeClassWire) -> RuntimeClass:
    """The core value of a RuntimeClass."""
    overhead, scheduling = wire.overhead or OverheadWire(), wire.scheduling or RuntimeSchedulingWire()
    return RuntimeClass(
        name=wire.metadata.name,
        overhead=frozen_amounts(whole(overhead.pod_fixed, RESOURCE_NAMES, "overhead.podFixed"), "overhead.podFixed"),
        node_selector=frozen_map(whole(scheduling.node_selector, NODE_SELECTOR, "scheduling.nodeSelector")),
        tolerations=tuple(
            Toleration(each.key or "", each.operator or "Equal", each.value or "", each.effect or "")
            for each in whole(scheduling.tolerations, TOLERATIONS, "scheduling.tolerations") or ()
        ),
    )


def placement_policy(wire: PlacementPolicyWire) -> PlacementPolicy:
    """The core value of a PlacementPolicy."""
    metadata, spec = wire.metadata, wire.spec or PlacementPolicySpecWire()
    return PlacementPolicy(
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid or "",
        selector=label_selector(spec.selector, "spec.selector"),
        rules=read_rules(spec.rules or ()),
        generation=metadata.generation or 0,
        resource_version=metadata.resource_version or "",
    )
