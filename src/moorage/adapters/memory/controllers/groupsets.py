"""JobSet and LeaderWorkerSet: the pods that their controllers would make next, with the labels that they give them.

Pods that are made only when others run are wanted only then: the roles of a JobSet that starts in order or names what
it depends on, and the workers of a LeaderWorkerSet with the policy LeaderReady.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from moorage.adapters.memory.controllers.demand import COMPLETION_INDEX
from moorage.adapters.memory.objects import NOTHING, KubeObject, is_live, is_ready, metadata_of, spec_of, status_of

MOST_PODS = 100_000
"""Of one object; more are not made."""
_JOBSET, _LWS = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/"
_OVER = frozenset({"Completed", "Failed"})


class WantedPod(NamedTuple):
    """A pod that should exist."""

    name: str
    template: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def jobset_pods(jobset: KubeObject, pods: Sequence[KubeObject]) -> Iterator[WantedPod]:
    """Those that a JobSet lacks now."""
    if spec_of(jobset).get("suspend") or _is_over(jobset):
        return
    live = [pod for pod in pods if is_live(pod)]
    there = {_place(pod) for pod in live}
    in_order = (spec_of(jobset).get("startupPolicy") or NOTHING).get("startupPolicyOrder") == "InOrder"
    done: dict[str, bool] = {}
    first = 0
    for role in spec_of(jobset).get("replicatedJobs") or ():
        name, replicas, each = _size(role)
        ready = sum(1 for pod in live if _labels(pod).get(f"{_JOBSET}replicatedjob-name") == name and is_ready(pod))
        done[name] = ready >= replicas * each
        if all(_is_met(other, done) for other in role.get("dependsOn") or ()):
            yield from _role_pods(jobset, role, first, there)
        first += replicas
        if in_order and not done[name]:
            return


def _is_met(dependency: Mapping[str, Any], done: Mapping[str, bool]) -> bool:
    """Whether the others are ready; that they are complete never holds, as pods of a simulation do not end."""
    return dependency.get("status") == "Ready" and done.get(str(dependency.get("name")), False)


def _role_pods(
    jobset: KubeObject, role: Mapping[str, Any], first: int, there: set[tuple[str, str, str]]
) -> Iterator[WantedPod]:
    name, replicas, each = _size(role)
    job = spec_of(role.get("template") or NOTHING)
    namespace, own = metadata_of(jobset).get("namespace"), metadata_of(jobset)["name"]
    indexed = job.get("completionMode") != "NonIndexed"
    for number in range(min(replicas, MOST_PODS)):
        job_name = f"{own}-{name}-{number}"
        marks = {
            f"{_JOBSET}jobset-name": own,
            f"{_JOBSET}jobset-uid": metadata_of(jobset)["uid"],
            f"{_JOBSET}replicatedjob-name": name,
            f"{_JOBSET}replicatedjob-replicas": str(replicas),
            f"{_JOBSET}job-index": str(number),
            f"{_JOBSET}job-global-index": str(first + number),
            f"{_JOBSET}job-key": hashlib.sha1(f"{namespace}/{job_name}".encode(), usedforsecurity=False).hexdigest(),
            f"{_JOBSET}restart-attempt": str(status_of(jobset).get("restarts") or 0),
        }
        for index in range(min(each, MOST_PODS)):
            if (name, str(number), str(index)) in there:
                continue
            index_mark = {COMPLETION_INDEX: str(index)} if indexed else {}
            labels = {**marks, **index_mark, "batch.kubernetes.io/job-name": job_name, "job-name": job_name}
            yield WantedPod(f"{job_name}-{index}", job.get("template") or NOTHING, labels, {**marks, **index_mark})


def _size(role: Mapping[str, Any]) -> tuple[str, int, int]:
    """The name of a role, how many Jobs it has, and how many pods each."""
    job = spec_of(role.get("template") or NOTHING)
    numbers = [int(job[key]) for key in ("parallelism", "completions") if job.get(key) is not None]
    replicas = 1 if role.get("replicas") is None else int(role["replicas"])
    return str(role.get("name")), max(replicas, 0), max(min(numbers, default=1), 0)


def _place(pod: KubeObject) -> tuple[str, str, str]:
    """Role, Job and index of a pod; one without an index is known by the end of its name."""
    labels = _labels(pod)
    index = labels.get(COMPLETION_INDEX) or str(metadata_of(pod)["name"]).rpartition("-")[2]
    return labels.get(f"{_JOBSET}replicatedjob-name", ""), labels.get(f"{_JOBSET}job-index", ""), index


def _is_over(owner: KubeObject) -> bool:
    conditions: Iterable[Mapping[str, Any]] = status_of(owner).get("conditions") or ()
    return any(each.get("type") in _OVER and each.get("status") == "True" for each in conditions)


def _labels(pod: KubeObject) -> Mapping[str, str]:
    labels: Mapping[str, str] = metadata_of(pod).get("labels") or NOTHING
    return labels


def group_pods(owner: KubeObject, pods: Sequence[KubeObject]) -> Iterator[WantedPod]:
    """Those that a LeaderWorkerSet lacks now; a pod that is ending keeps its name."""
    spec = spec_of(owner)
    replicas = 1 if spec.get("replicas") is None else int(spec["replicas"])
    template: Mapping[str, Any] = spec.get("leaderWorkerTemplate") or NOTHING
    size = 1 if template.get("size") is None else int(template["size"])
    worker = template.get("workerTemplate") or NOTHING
    names = {metadata_of(pod)["name"]: pod for pod in pods}
    own = metadata_of(owner)["name"]
    for group in range(min(replicas, MOST_PODS)):
        leader = f"{own}-{group}"
        marks = {
            f"{_LWS}name": own,
            f"{_LWS}group-index": str(group),
            f"{_LWS}group-key": hashlib.sha1(leader.encode(), usedforsecurity=False).hexdigest(),
        }
        size_mark = {f"{_LWS}size": str(size)}
        if leader not in names:
            labels = {**marks, f"{_LWS}worker-index": "0"}
            yield WantedPod(leader, template.get("leaderTemplate") or worker, labels, size_mark)
        if spec.get("startupPolicy") == "LeaderReady" and not (leader in names and is_ready(names[leader])):
            continue
        for index in range(1, min(size, MOST_PODS)):
            if f"{leader}-{index}" not in names:
                labels = {**marks, f"{_LWS}worker-index": str(index)}
                yield WantedPod(f"{leader}-{index}", worker, labels, {**size_mark, f"{_LWS}leader-name": leader})
