"""ProvisioningRequests, which ask Cluster Autoscaler for nodes: JSON becomes a value, and commands become JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.core.commands import CapacitySet, PodRef, RequestCapacity
from moorage.core.provisioning import COUNTS, FOR_GANG, ProvisioningRequest, gang_of, gang_text
from moorage.wire.metadata import MetadataWire

DEFAULT_NAMESPACE = "default"
MANAGED_BY = "app.kubernetes.io/managed-by"
_NOT_FOR_TEMPLATES = ("nodeName", "schedulingGates", "schedulingGroup", "ephemeralContainers")
"""What a pod may have and the pods that an autoscaler imagines must not."""


class RequestConditionWire(msgspec.Struct, gc=False, rename="camel"):
    """A condition."""

    type: str = ""
    status: str = ""
    message: str | None = None
    last_transition_time: str | None = None


class RequestSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a ProvisioningRequest."""

    provisioning_class_name: str = ""


class RequestStatusWire(msgspec.Struct, gc=False):
    """The status of a ProvisioningRequest."""

    conditions: list[RequestConditionWire] | None = None


class ProvisioningRequestWire(msgspec.Struct, gc=False):
    """A ProvisioningRequest."""

    metadata: MetadataWire
    spec: RequestSpecWire | None = None
    status: RequestStatusWire | None = None


def provisioning_request(wire: ProvisioningRequestWire) -> ProvisioningRequest:
    """The value of a ProvisioningRequest."""
    metadata, notes = wire.metadata, wire.metadata.annotations or {}
    namespace = metadata.namespace or DEFAULT_NAMESPACE
    said = (wire.status or RequestStatusWire()).conditions or []
    latest = max(said, key=lambda each: each.last_transition_time or "", default=RequestConditionWire())
    return ProvisioningRequest(
        namespace=namespace,
        name=metadata.name,
        uid=metadata.uid or "",
        class_name=(wire.spec or RequestSpecWire()).provisioning_class_name,
        gang=gang_of(namespace, metadata.name, notes.get(FOR_GANG, "")),
        counts=notes.get(COUNTS, ""),
        owner=next((owner.uid for owner in metadata.owner_references or () if owner.kind == "Pod"), ""),
        conditions=tuple(each.type for each in said if each.status == "True"),
        message=latest.message or "",
    )


def template_name(request: str, index: int) -> str:
    """The name of the PodTemplate of a request's pod set."""
    return f"{request}-{index}"


def request_body(command: RequestCapacity) -> dict[str, Any]:
    """The ProvisioningRequest that a command asks for."""
    notes = {FOR_GANG: gang_text(command.gang), COUNTS: ",".join(str(each.count) for each in command.sets)}
    sets = [
        {"podTemplateRef": {"name": template_name(command.name, index)}, "count": each.count}
        for index, each in enumerate(command.sets)
    ]
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": _metadata(command.name, command.pod, notes),
        "spec": {"provisioningClassName": command.class_name, "podSets": sets},
    }


def template_body(command: RequestCapacity, index: int, pod: Mapping[str, Any]) -> dict[str, Any]:
    """The PodTemplate of one of its pod sets, made from a pod as the API server has it."""
    spec = {key: value for key, value in pod["spec"].items() if key not in _NOT_FOR_TEMPLATES}
    _require(spec, command.sets[index])
    labels = pod["metadata"].get("labels") or {}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _metadata(template_name(command.name, index), command.pod),
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }


def _metadata(name: str, owner: PodRef, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """With the first member as owner: should nobody be left to delete it, it goes when that pod goes."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid}
    metadata: dict[str, Any] = {"name": name, "namespace": owner.namespace, "ownerReferences": [reference]}
    metadata["labels"] = {MANAGED_BY: "moorage"}
    return metadata if not annotations else metadata | {"annotations": dict(annotations)}


def _require(spec: dict[str, Any], wanted: CapacitySet) -> None:
    """Add what nodes must have beside what the pod's own affinity says: to every alternative, as they are ORed."""
    if not wanted.node_labels:
        return
    extra = [{"key": key, "operator": "In", "values": list(values)} for key, values in wanted.node_labels]
    affinity = dict(spec.get("affinity") or {})
    of_nodes = dict(affinity.get("nodeAffinity") or {})
    required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *extra]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    of_nodes["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    spec["affinity"] = affinity | {"nodeAffinity": of_nodes}
