"""How many pods an owner wants: the rules that all controllers, and the simulator's expansion, share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.adapters.memory.objects import NOTHING, KubeObject, spec_of, status_of

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
DEFAULT_BACKOFF_LIMIT = 6
_JOB_OVER = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


def replicas_wanted(owner: KubeObject) -> int:
    """`spec.replicas`, 1 where it is not given."""
    replicas = spec_of(owner).get("replicas")
    return 1 if replicas is None else max(0, int(replicas))


def job_is_over(job: KubeObject) -> bool:
    """Whether a condition says that the Job has ended or is about to."""
    conditions = status_of(job).get("conditions") or ()
    return any(c.get("type") in _JOB_OVER and c.get("status") == "True" for c in conditions)


def job_pods_wanted(spec: Mapping[str, Any], *, succeeded: int, failed: int) -> int:
    """Pods that should be active at once: min(parallelism, completions left), none when suspended or given up.

    Without `completions` the pods work off a queue of their own, and the first success ends the making of new ones.
    """
    if spec.get("suspend"):
        return 0
    limit = spec.get("backoffLimit")
    if failed > (DEFAULT_BACKOFF_LIMIT if limit is None else int(limit)):
        return 0
    parallelism = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
    if spec.get("completions") is None:
        return 0 if succeeded else max(0, parallelism)
    return max(0, min(parallelism, int(spec["completions"]) - succeeded))


def finished_count(status: Mapping[str, Any], pods: Iterable[KubeObject], *, phase: str) -> int:
    """Pods that ended in this phase: what the status has on record, or what can be seen if that is more."""
    seen = sum(1 for pod in pods if status_of(pod).get("phase") == phase)
    return max(int(status.get(phase.lower()) or 0), seen)


def free_indexes(pods: Iterable[KubeObject], count: int) -> list[int]:
    """The lowest completion indexes that no live or succeeded pod has."""
    taken = set()
    for pod in pods:
        if status_of(pod).get("phase") != "Failed":
            annotations = (pod.get("metadata") or NOTHING).get("annotations") or NOTHING
            taken.add(annotations.get(COMPLETION_INDEX))
    free: list[int] = []
    index = 0
    while len(free) < count:
        if str(index) not in taken:
            free.append(index)
        index += 1
    return free


def is_indexed(spec: Mapping[str, Any]) -> bool:
    """Whether each pod of the Job has an index of its own."""
    return spec.get("completionMode") == "Indexed"
