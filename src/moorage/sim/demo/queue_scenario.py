"""Scenario queues: three teams share eight GPUs. One borrows what is idle, and gives it back when others ask for it."""

from __future__ import annotations

from typing import Any

from moorage.adapters.memory.kubelet import RUN_SECONDS
from moorage.adapters.memory.manifests import manifest, node_manifest, workload_manifest
from moorage.core.gangs import COSCHEDULING_KIND
from moorage.core.membership import GROUP_LABEL
from moorage.core.queues import PREEMPTIBLE_LABEL, QUEUE, QUEUE_LABEL
from moorage.sim.demo.scenario import NAMESPACE, Act, Scenario, create, delete
from moorage.wire.kinds import BY_ID

GPU = "nvidia.com/gpu"


def _node(name: str) -> dict[str, Any]:
    made = node_manifest(name, zone="gpus", cpu="32", memory="128Gi")
    made["status"]["capacity"][GPU] = "4"
    return made


def _queue(name: str, parent: str = "", **terms: Any) -> dict[str, Any]:
    spec = {**({"parent": parent} if parent else {}), "resources": {GPU: terms}}
    return {**manifest(QUEUE, name, spec=spec), "apiVersion": BY_ID[QUEUE].api_versions[0]}


def _group(name: str, members: int) -> dict[str, Any]:
    kind = BY_ID[COSCHEDULING_KIND]
    made = manifest(kind.name, name, NAMESPACE, spec={"minMember": members})
    return {**made, "apiVersion": kind.api_versions[0]}


def _workload(kind: str, name: str, queue: str, run_s: float = 0.0, **own: Any) -> dict[str, Any]:
    """A workload of a queue; each pod has a GPU, and runs for a while or until it is deleted."""
    labels = {"app": name.removesuffix("-{cycle}"), QUEUE_LABEL: queue}
    made = workload_manifest(kind, name, labels=labels, own=own, cpu="2", memory="8Gi")
    template = made["spec"]["template"]
    resources = template["spec"]["containers"][0]["resources"]
    resources["requests"][GPU] = resources.setdefault("limits", {})[GPU] = "1"
    if run_s:
        template["metadata"]["annotations"] = {RUN_SECONDS: f"{run_s:g}"}
    return made


def _labelled(workload: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = workload["spec"]["template"]["metadata"]
    metadata["labels"] = {**metadata["labels"], **labels}
    return workload


def queues() -> Scenario:
    """The scenario."""
    made = (
        _queue("research", quota="6"),
        _queue("vision", "research", quota="2", weight=1),
        _queue("language", "research", quota="2", weight=3),
        _queue("serving", quota="2"),
    )
    serving = _labelled(_workload("Deployment", "serving", "serving", replicas=2), **{PREEMPTIBLE_LABEL: "false"})
    opening = (
        Act(
            0.0,
            "queues: research has 6 GPUs, 2 each for vision and language by quota; serving 2",
            (create(*made),),
        ),
        Act(0.6, "Deployment serving arrives: 2 replicas that may not be evicted", (create(serving),)),
    )
    about = "three teams, eight GPUs: a burst, a reclaim, and a gang that comes late"
    return Scenario(about, [_node("gpu-1"), _node("gpu-2")], opening, 6.0, _cycle(), 54.0)


def _cycle() -> tuple[Act, ...]:
    burst = _workload("Job", "burst-{cycle}", "language", run_s=14, completions=8, parallelism=8)
    vision = _workload("Deployment", "vision", "vision", replicas=2)
    gang = _workload("Job", "late-{cycle}", "vision", run_s=8, completions=2, parallelism=2)
    late = _labelled(gang, **{GROUP_LABEL: "late"})
    return (
        Act(1.0, "language bursts: 8 pods of a GPU each; it borrows the 4 that vision does not use", (create(burst),)),
        Act(8.0, "Deployment vision arrives: 2 replicas, its quota; language gives 2 GPUs back", (create(vision),)),
        Act(
            14.0,
            "a gang of 2 comes late to vision: it would be beyond the share, so it waits for the burst to end",
            (create(_group("late", 2), late),),
        ),
        Act(
            46.0,
            "vision, the gang and what is left of the burst are taken down",
            (
                delete("Deployment", "vision"),
                delete("PodGroup", "late"),
                *(delete("Job", f"{name}-{{cycle}}") for name in ("burst", "late")),
            ),
        ),
    )
