"""Controllers that make pods: JSON becomes `Workload`. Missing numbers get the defaults of the API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from moorage.core.gangowners import GANG_ANNOTATION
from moorage.core.limits import OBJECT_SELECTOR_PARTS
from moorage.core.objects import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Workload,
)
from moorage.core.selectors import Selector, selector_from_labels
from moorage.core.times import deadline_s, time_s
from moorage.wire.errors import FieldError
from moorage.wire.metadata import (
    Int32Wire,
    Int64Wire,
    MetadataWire,
    controller_of,
    epoch_s,
    frozen_annotations,
    frozen_map,
)
from moorage.wire.selectors import LabelSelectorWire, label_selector
from moorage.wire.topology import ask_of
from moorage.wire.whole import whole

DEFAULT_NAMESPACE = "default"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
_DIGITS = 9
_DEFAULT_PERCENT = 25
"""Of surge and gap in a rollout."""


class TemplateWire(msgspec.Struct, gc=False):
    """A pod template, as far as the controller's own value needs it."""

    metadata: MetadataWire | None = None


class RollingUpdateWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.strategy.rollingUpdate of a Deployment: numbers, or percentages as text."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class StrategyWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.strategy of a Deployment."""

    type: str | None = None
    rolling_update: RollingUpdateWire | None = None


class ScaledSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a Deployment, ReplicaSet, StatefulSet or DaemonSet (which has no replicas)."""

    replicas: Int32Wire | None = None
    selector: LabelSelectorWire | None = None
    template: TemplateWire | None = None
    pod_management_policy: str | None = None
    paused: bool | None = None
    strategy: StrategyWire | None = None


class ScaledWire(msgspec.Struct, gc=False):
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""

    metadata: MetadataWire
    spec: ScaledSpecWire | None = None


class ReplicationControllerSpecWire(msgspec.Struct, gc=False):
    """The spec of a ReplicationController, whose selector is a plain map."""

    replicas: Int32Wire | None = None
    selector: dict[str, str] | None = None
    template: TemplateWire | None = None


class ReplicationControllerWire(msgspec.Struct, gc=False):
    """A ReplicationController."""

    metadata: MetadataWire
    spec: ReplicationControllerSpecWire | None = None


class GangPolicyWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.scheduling.schedulingPolicy.gang of a Job."""

    min_count: Int32Wire | None = None


class JobPolicyWire(msgspec.Struct, gc=False):
    """spec.scheduling.schedulingPolicy of a Job."""

    gang: GangPolicyWire | None = None


class JobSchedulingWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.scheduling of a Job."""

    scheduling_policy: JobPolicyWire | None = None


class JobSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a Job."""

    scheduling: JobSchedulingWire | None = None
    parallelism: Int32Wire | None = None
    completions: Int32Wire | None = None
    suspend: bool | None = None
    active_deadline_seconds: Int64Wire | None = None
    selector: LabelSelectorWire | None = None
    template: TemplateWire | None = None


class JobConditionWire(msgspec.Struct, gc=False):
    """A condition of any status."""

    type: str = ""
    status: str = ""


class JobStatusWire(msgspec.Struct, gc=False, rename="camel"):
    """The status of a Job."""

    succeeded: Int32Wire | None = None
    start_time: str | None = None
    conditions: list[JobConditionWire] | None = None


class JobWire(msgspec.Struct, gc=False):
    """A Job."""

    metadata: MetadataWire
    spec: JobSpecWire | None = None
    status: JobStatusWire | None = None


class JobTemplateWire(msgspec.Struct, gc=False):
    """The Job that a CronJob makes."""

    spec: JobSpecWire | None = None


class CronJobSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a CronJob."""

    suspend: bool | None = None
    job_template: JobTemplateWire | None = None


class CronJobWire(msgspec.Struct, gc=False):
    """A CronJob."""

    metadata: MetadataWire
    spec: CronJobSpecWire | None = None


def deployment(wire: ScaledWire) -> Workload:
    """The core value of a Deployment."""
    spec = wire.spec or ScaledSpecWire()
    found = _scaled(DEPLOYMENT, wire)
    return replace(found, paused=bool(spec.paused), max_unavailable=_max_unavailable(spec.strategy, found.replicas))


def _max_unavailable(strategy: StrategyWire | None, replicas: int) -> int:
    """As the Deployment controller counts: rounded down, and 1 where neither a surge nor a gap would be allowed."""
    strategy = strategy or StrategyWire()
    if strategy.type == "Recreate":
        return replicas
    rolling = strategy.rolling_update or RollingUpdateWire()
    gap = _share(rolling.max_unavailable, replicas)
    return gap if gap or _share(rolling.max_surge, 100 * replicas) else 1


def _share(value: int | str | None, whole: int) -> int:
    """A number, or a percentage of `whole` rounded down; a quarter if it is left out or unreadable."""
    if isinstance(value, int):
        return max(value, 0)
    digits = (value or "").removesuffix("%")
    percent = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS else _DEFAULT_PERCENT
    return percent * whole // 100


def replica_set(wire: ScaledWire) -> Workload:
    """The core value of a ReplicaSet."""
    return _scaled(REPLICA_SET, wire)


def stateful_set(wire: ScaledWire) -> Workload:
    """The core value of a StatefulSet."""
    return _scaled(STATEFUL_SET, wire)


def daemon_set(wire: ScaledWire) -> Workload:
    """The core value of a DaemonSet."""
    return _scaled(DAEMON_SET, wire)


def replication_controller(wire: ReplicationControllerWire) -> Workload:
    """The core value of a ReplicationController; without a selector it selects the labels of its template."""
    spec = wire.spec or ReplicationControllerSpecWire()
    labels = spec.selector or _template_metadata(spec.template).labels
    whole(labels, OBJECT_SELECTOR_PARTS // 2, "spec.selector")
    return _workload(
        REPLICATION_CONTROLLER,
        wire.metadata,
        spec.template,
        selector=selector_from_labels(labels) if labels else None,
        replicas=_count(spec.replicas, 1, "spec.replicas"),
    )


def job(wire: JobWire) -> Workload:
    """The core value of a Job."""
    spec, status = wire.spec or JobSpecWire(), wire.status or JobStatusWire()
    return _workload(
        JOB,
        wire.metadata,
        spec.template,
        selector=_selector(spec.selector),
        suspended=bool(spec.suspend),
        gang_least=_gang_least(wire),
        succeeded=status.succeeded or 0,
        ends_s=deadline_s(time_s(status.start_time), spec.active_deadline_seconds),
        finished=any(c.type in ("Complete", "Failed") and c.status == "True" for c in status.conditions or ()),
        **_job_numbers(spec, "spec"),
    )


def _gang_least(wire: JobWire) -> int | None:
    """How many pods a Job wants placed together, by its spec or by Kueue's annotation; None if it does not say."""
    spec = wire.spec or JobSpecWire()
    policy = spec.scheduling and spec.scheduling.scheduling_policy
    if policy and policy.gang:
        return max(_job_pods(spec) if policy.gang.min_count is None else policy.gang.min_count, 1)
    annotations = wire.metadata.annotations or {}
    text = annotations.get(MIN_PARALLELISM, "") if annotations.get(GANG_ANNOTATION) == "true" else ""
    return int(text) or None if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def _job_pods(spec: JobSpecWire) -> int:
    """How many pods a Job has at once."""
    numbers = _job_numbers(spec, "spec").values()
    return min(int(number) for number in numbers if number is not None)


def cron_job(wire: CronJobWire) -> Workload:
    """The core value of a CronJob, with the numbers of the Job that it makes."""
    spec = wire.spec or CronJobSpecWire()
    job_spec = (spec.job_template or JobTemplateWire()).spec or JobSpecWire()
    return _workload(
        CRON_JOB,
        wire.metadata,
        job_spec.template,
        suspended=bool(spec.suspend) or bool(job_spec.suspend),
        **_job_numbers(job_spec, "spec.jobTemplate.spec"),
    )


def _scaled(kind: str, wire: ScaledWire) -> Workload:
    spec = wire.spec or ScaledSpecWire()
    return _workload(
        kind,
        wire.metadata,
        spec.template,
        selector=_selector(spec.selector),
        replicas=0 if kind == DAEMON_SET else _count(spec.replicas, 1, "spec.replicas"),
        one_by_one=kind == STATEFUL_SET and spec.pod_management_policy != "Parallel",
    )


def _job_numbers(spec: JobSpecWire, path: str) -> dict[str, Any]:
    """One pod unless told; a Job with parallelism alone is a work queue, which ends with its first success."""
    completions = 1 if spec.completions is None and spec.parallelism is None else spec.completions
    return {
        "replicas": _count(spec.parallelism, 1, f"{path}.parallelism"),
        "completions": None if completions is None else _count(completions, 1, f"{path}.completions"),
    }


def _count(value: int | None, default: int, path: str) -> int:
    if value is None:
        return default
    if value < 0:
        raise FieldError(path, value, "is negative", "write 0 or more")
    return value


def _selector(wire: LabelSelectorWire | None) -> Selector | None:
    return None if wire is None else label_selector(wire, "spec.selector")


def _template_metadata(template: TemplateWire | None) -> MetadataWire:
    return (template and template.metadata) or MetadataWire()


def _workload(kind: str, metadata: MetadataWire, template: TemplateWire | None, **fields: Any) -> Workload:
    made = _template_metadata(template)
    return Workload(
        kind=kind,
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid or "",
        labels=frozen_map(metadata.labels),
        annotations=frozen_annotations(metadata.annotations),
        owner=controller_of(metadata.owner_references),
        template_labels=frozen_map(made.labels),
        template_annotations=frozen_annotations(made.annotations),
        deleting=metadata.deletion_timestamp is not None,
        created_s=epoch_s(metadata.creation_timestamp) or 0.0,
        topology=ask_of(metadata.annotations) if metadata.annotations else None,
        **fields,
    )
