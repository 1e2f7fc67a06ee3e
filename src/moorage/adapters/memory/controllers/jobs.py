"""Job and CronJob: pods that end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moorage.adapters.memory.controllers.demand import (
    finished_count,
    free_indexes,
    is_indexed,
    job_is_over,
    job_pods_wanted,
)
from moorage.adapters.memory.controllers.intermediates import job_for
from moorage.adapters.memory.controllers.reconciler import Reconciler
from moorage.adapters.memory.controllers.replicasets import deletion_order, random_name
from moorage.adapters.memory.controllers.templates import index_marks, job_labels, pod_from, template_of
from moorage.adapters.memory.objects import (
    NOTHING,
    KubeObject,
    is_live,
    spec_of,
    status_of,
    timestamp,
    with_condition,
)


class Jobs(Reconciler):
    """The Job controller: keeps up to `parallelism` pods active until `completions` have succeeded."""

    def reconcile(self, job: KubeObject) -> None:
        """Make the missing pods, delete the surplus, write the counts and the end."""
        if job_is_over(job):
            return
        pods = self._store.children(job, kind="Pod")
        live = [pod for pod in pods if is_live(pod)]
        succeeded = finished_count(status_of(job), pods, phase="Succeeded")
        failed = finished_count(status_of(job), pods, phase="Failed")
        wanted = job_pods_wanted(spec_of(job), succeeded=succeeded, failed=failed)
        if spec_of(job).get("completions") is None and succeeded:
            wanted = len(live)
        self._make(job, pods, wanted - len(live))
        for pod in deletion_order(live, self._store)[: max(0, len(live) - wanted)]:
            self._store.delete("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
        self._write_status(job, succeeded, failed)

    def _make(self, job: KubeObject, pods: Sequence[KubeObject], count: int) -> None:
        indexes = free_indexes(pods, count) if is_indexed(spec_of(job)) else [None] * max(0, count)
        for index in indexes:
            marks = NOTHING if index is None else index_marks(index)
            labels = {**job_labels(job), **marks}
            name = random_name(self._store, job)
            self._admission.create(pod_from(job, name, template_of(job), labels=labels, annotations=marks))

    def _write_status(self, job: KubeObject, succeeded: int, failed: int) -> None:
        active = sum(1 for pod in self._store.children(job, kind="Pod") if is_live(pod))
        now_s = self._store.clock.now_s
        status: dict[str, Any] = {**status_of(job), "active": active, "succeeded": succeeded, "failed": failed}
        completions, limit = spec_of(job).get("completions"), spec_of(job).get("backoffLimit")
        done = not active and succeeded if completions is None else succeeded >= int(completions)
        if done:
            status = with_condition(status, {"type": "Complete", "status": "True"}, now_s)
        elif failed > (6 if limit is None else int(limit)):
            reason = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
            status = with_condition(status, reason, now_s)
        self._store.put_status(job, status)


class CronJobs(Reconciler):
    """The CronJob controller, without a calendar: one Job, at once."""

    def reconcile(self, cron: KubeObject) -> None:
        """Make the Job unless there has been one or the CronJob is suspended."""
        if spec_of(cron).get("suspend") or self._store.children(cron):
            return
        name = f"{cron['metadata']['name']}-{int(self._store.clock.now_s) // 60}"
        self._admission.load(job_for(cron, name, self._store.new_uid(), timestamp(self._store.clock.now_s)))
