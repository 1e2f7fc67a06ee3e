"""ProvisioningRequests on an API server without Cluster Autoscaler: its CRD, and what is there."""

from __future__ import annotations

from typing import Any

from moorage.bench.controlplane import ControlPlane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def _fixed(schema: dict[str, Any]) -> dict[str, Any]:
    """A field that cannot be changed."""
    rule = {"rule": "self == oldSelf", "message": "Value is immutable"}
    return {**schema, "x-kubernetes-validations": [rule]}


def _spec() -> dict[str, Any]:
    text = {"type": "string", "pattern": _NAME, "maxLength": 253}
    reference = {"type": "object", "required": ["name"], "properties": {"name": text}}
    pod_set = {
        "type": "object",
        "required": ["podTemplateRef", "count"],
        "properties": {
            "podTemplateRef": reference,
            "count": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 16384},
        },
    }
    parameters = {"type": "object", "maxProperties": 100, "additionalProperties": {"type": "string", "maxLength": 255}}
    return {
        "type": "object",
        "required": ["podSets", "provisioningClassName"],
        "properties": {
            "podSets": _fixed({"type": "array", "minItems": 1, "maxItems": 32, "items": pod_set}),
            "provisioningClassName": _fixed(text),
            "parameters": _fixed(parameters),
        },
    }


def provisioning_crd() -> dict[str, Any]:
    """The CRD, with the limits that Cluster Autoscaler's has."""
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": _spec(), "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "ProvisioningRequest", "plural": "provisioningrequests", "singular": "provisioningrequest"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "provisioningrequests.autoscaling.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/autoscaler/pull/5848"},
        },
        "spec": {
            "group": "autoscaling.x-k8s.io",
            "scope": "Namespaced",
            "names": {**names, "listKind": "ProvisioningRequestList"},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


def requests_of(plane: ControlPlane) -> list[dict[str, Any]]:
    """All requests."""
    answer = plane.request("GET", REQUESTS)
    assert answer.status == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def templates_of(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """All PodTemplates, by name."""
    return {each["metadata"]["name"]: each for each in plane.request("GET", TEMPLATES).json()["items"]}
