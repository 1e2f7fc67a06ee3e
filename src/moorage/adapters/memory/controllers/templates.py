"""Pods out of pod templates, with the marks that the controllers of each kind put on theirs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from moorage.adapters.memory.controllers.demand import COMPLETION_INDEX
from moorage.adapters.memory.objects import NOTHING, KubeObject, metadata_of, reference_to, spec_of
from moorage.adapters.memory.store import SUFFIX_ALPHABET

TEMPLATE_HASH = "pod-template-hash"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_DAEMON_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{condition}", "operator": "Exists", "effect": effect}
    for condition, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_NETWORK_TOLERATION = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}


def pod_from(
    owner: KubeObject,
    name: str,
    template: Mapping[str, Any],
    *,
    labels: Mapping[str, str] = NOTHING,
    annotations: Mapping[str, str] = NOTHING,
    spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod of this owner: the template's metadata and spec, labels and annotations on top, `spec` in its place."""
    given = metadata_of(template)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": metadata_of(owner).get("namespace"),
        "labels": {**(given.get("labels") or NOTHING), **labels},
        "ownerReferences": [reference_to(owner)],
    }
    merged = {**(given.get("annotations") or NOTHING), **annotations}
    if merged:
        metadata["annotations"] = merged
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec or spec_of(template)}


def template_of(owner: KubeObject) -> Mapping[str, Any]:
    """The pod template of an owner of any kind."""
    spec = spec_of(owner)
    if owner.get("kind") == "CronJob":
        spec = spec_of(spec.get("jobTemplate") or NOTHING)
    template: Mapping[str, Any] = spec.get("template") or NOTHING
    return template


def template_hash(template: Mapping[str, Any]) -> str:
    """A short name for the content of a template; equal templates have equal hashes."""
    number = zlib.crc32(json.dumps(template, sort_keys=True, default=str).encode())
    letters = ""
    while number:
        number, digit = divmod(number, len(SUFFIX_ALPHABET))
        letters += SUFFIX_ALPHABET[digit]
    return letters or SUFFIX_ALPHABET[0]


def job_labels(job: KubeObject) -> dict[str, str]:
    """The labels by which a Job finds its pods."""
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def index_marks(index: int) -> dict[str, str]:
    """The label, and the annotation, of a pod with a completion index."""
    return {COMPLETION_INDEX: str(index)}


def stateful_labels(pod_name: str, ordinal: int) -> dict[str, str]:
    """The labels of a StatefulSet's pod."""
    return {"apps.kubernetes.io/pod-index": str(ordinal), "statefulset.kubernetes.io/pod-name": pod_name}


def stateful_spec(owner: KubeObject, pod_name: str) -> Mapping[str, Any]:
    """The template's spec with the volumes of the claim templates."""
    spec = spec_of(template_of(owner))
    claims = spec_of(owner).get("volumeClaimTemplates") or ()
    if not claims:
        return spec
    names = [metadata_of(claim).get("name") for claim in claims]
    others = [volume for volume in spec.get("volumes") or () if volume.get("name") not in names]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod_name}"}} for name in names]
    return {**spec, "volumes": others + made}


def daemon_spec(template: Mapping[str, Any], node: str) -> dict[str, Any]:
    """The template's spec, pinned to one node by name and tolerating what daemons tolerate."""
    spec = dict(spec_of(template))
    spec["tolerations"] = daemon_tolerations(spec)
    affinity = dict(spec.get("affinity") or NOTHING)
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity["nodeAffinity"] = {
        **(affinity.get("nodeAffinity") or NOTHING),
        _REQUIRED: {"nodeSelectorTerms": [by_name]},
    }
    spec["affinity"] = affinity
    return spec


def daemon_tolerations(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tolerations of a daemon's spec and the standard ones."""
    given = list(spec.get("tolerations") or ())
    standard = [*_DAEMON_TOLERATIONS, _NETWORK_TOLERATION] if spec.get("hostNetwork") else [*_DAEMON_TOLERATIONS]
    return given + [toleration for toleration in standard if toleration not in given]


def daemon_target(pod: KubeObject) -> str:
    """The node that a daemon's pod is on or meant for, empty when it does not say."""
    spec = spec_of(pod)
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or NOTHING).get("nodeAffinity") or NOTHING
    for term in (affinity.get(_REQUIRED) or NOTHING).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""
