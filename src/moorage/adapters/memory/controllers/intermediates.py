"""What stands between a workload and its pods: the ReplicaSet of a Deployment, the Job of a CronJob.

The lifelike controllers and the simulator's expansion make them here, with the labels and selectors that the real
controllers and the API server give them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.adapters.memory.controllers.templates import TEMPLATE_HASH, job_labels, template_of
from moorage.adapters.memory.objects import (
    NOTHING,
    KubeObject,
    is_terminating,
    metadata_of,
    reference_to,
    spec_of,
)
from moorage.core.controllers import REVISION, revision_number

_SCHEDULED_FOR = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration", REVISION})
"""Annotations of a Deployment that its ReplicaSets do not get."""


def replica_set_for(deployment: KubeObject, name: str, digest: str, *, revision: int, replicas: int) -> dict[str, Any]:
    """The ReplicaSet of a Deployment's template; `digest` is the hash that its pods carry."""
    spec, template = spec_of(deployment), template_of(deployment)
    labels = {**(metadata_of(template).get("labels") or NOTHING), TEMPLATE_HASH: digest}
    selector = spec.get("selector") or NOTHING
    match_labels = {**(selector.get("matchLabels") or NOTHING), TEMPLATE_HASH: digest}
    said = metadata_of(deployment).get("annotations") or NOTHING
    copied = {key: value for key, value in said.items() if key not in _NOT_COPIED}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": deployment["metadata"]["namespace"],
        "labels": labels,
        "annotations": {**copied, REVISION: str(revision)},
        "ownerReferences": [reference_to(deployment)],
    }
    body = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": match_labels},
        "template": {**template, "metadata": {**metadata_of(template), "labels": labels}},
    }
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": body}


def job_for(cron: KubeObject, name: str, uid: str, now: str) -> dict[str, Any]:
    """The Job of a CronJob as the API server stores it: it finds its pods by its uid."""
    template = spec_of(cron).get("jobTemplate") or NOTHING
    given, spec = metadata_of(template), spec_of(template)
    metadata: dict[str, Any] = {
        **given,
        "name": name,
        "namespace": cron["metadata"]["namespace"],
        "uid": uid,
        "annotations": {**(given.get("annotations") or NOTHING), _SCHEDULED_FOR: now},
        "ownerReferences": [reference_to(cron)],
    }
    pods: Mapping[str, Any] = spec.get("template") or NOTHING
    labels = {**(metadata_of(pods).get("labels") or NOTHING), **job_labels({"metadata": metadata})}
    metadata["labels"] = given.get("labels") or labels
    body = {
        **spec,
        "selector": spec.get("selector") or {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "template": {**pods, "metadata": {**metadata_of(pods), "labels": labels}},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def current_set(sets: Iterable[KubeObject]) -> KubeObject | None:
    """Of a Deployment's ReplicaSets the one of the newest rollout, None without any."""
    here = [each for each in sets if not is_terminating(each)]
    return max(here, key=lambda each: (_revision(each), _created(each)), default=None)


def _revision(replica_set: KubeObject) -> int:
    """The number of the rollout that a ReplicaSet was made for; the newest has the highest."""
    text = str((metadata_of(replica_set).get("annotations") or NOTHING).get(REVISION, ""))
    return revision_number(text) or 0


def _created(obj: KubeObject) -> str:
    return str(metadata_of(obj).get("creationTimestamp") or "")
