"""Clusters that queues share, drawn at random, at rest: what could be placed stands, and one of the pods that wait is
asked about. `shared_puzzle(seed)` is the same for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

from moorage.core.quantity import format_amount
from moorage.core.queues import QUEUE_LABEL, Queue
from moorage.core.times import time_text
from moorage.sim.simulation import SimulationRules, simulate
from moorage.wire.queues import queue_spec
from tests.queues.worlds import Job, random_job, random_queues
from tests.suggestions.puzzles import Plain, Puzzle, thing
from tests.suggestions.verdicts import given, rules

GPU = "nvidia.com/gpu"
START_S = 1_767_225_600
_MOST_RESTS = 8


def shared_puzzle(seed: int) -> Puzzle | None:
    """The cluster of a seed with the pod that is asked about; None if it does not come to rest, or nothing waits."""
    draw = Random(seed)
    queues, leaves = random_queues(draw)
    objects = [
        _node(f"n{number}", draw.choice([0, 2, 4, 4]), draw.choice([2, 4, 8])) for number in range(draw.randint(1, 3))
    ]
    objects += map(_queue, queues)
    for number in range(draw.randint(4, 14)):
        objects += _job(random_job(draw, f"j{number}", leaves, float(number)))
    rested = at_rest(objects, rules())
    if rested is None:
        return None
    stuck = waiting(rested)
    return Puzzle("shares", rested, draw.choice(stuck)) if stuck else None


def shared_puzzles(first: int, count: int) -> Iterator[Puzzle]:
    """So many of them."""
    seed = first
    while count:
        found = shared_puzzle(seed)
        if found is not None:
            yield found
            count -= 1
        seed += 1


def at_rest(objects: list[Plain], using: SimulationRules) -> list[Plain] | None:
    """The objects once pods were placed, evicted and came back; None if that goes on."""
    for _ in range(_MOST_RESTS):
        stories = simulate(given(objects), using).pods
        evicted = {victim for story in stories for victim in story.victims}
        nodes = {story.key: story.node for story in stories if story.node is not None} | dict.fromkeys(evicted)
        if not nodes:
            return objects
        objects = [_placed(each, nodes) if each["kind"] == "Pod" else each for each in objects]
    return None


def _placed(body: Plain, nodes: Mapping[str, str | None]) -> Plain:
    key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
    if key not in nodes:
        return body
    spec = {name: value for name, value in body["spec"].items() if name != "nodeName"}
    return {**body, "spec": spec if nodes[key] is None else {**spec, "nodeName": nodes[key]}}


def waiting(objects: Iterable[Plain]) -> list[str]:
    """The pods of queues that wait."""
    pods = (each for each in objects if each["kind"] == "Pod" and "nodeName" not in each["spec"])
    return [each["metadata"]["name"] for each in pods if QUEUE_LABEL in each["metadata"]["labels"]]


def _node(name: str, gpus: int, cores: int) -> Plain:
    amounts = {"cpu": str(cores), "memory": "64Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    return thing(
        "Node", name, cluster_wide=True, labels={"kubernetes.io/hostname": name}, status={"allocatable": amounts}
    )


def _queue(value: Queue) -> Plain:
    made = thing("Queue", value.name, "moorage.dev/v1alpha1", cluster_wide=True, spec=queue_spec(value))
    made["metadata"]["creationTimestamp"] = time_text(START_S + value.created_s)
    return made


def _job(job: Job) -> Iterator[Plain]:
    created = time_text(START_S + job.pods[0].created_s)
    if job.group is not None:
        group = thing("PodGroup", job.name, "scheduling.x-k8s.io/v1alpha1", spec={"minMember": job.least})
        group["metadata"]["creationTimestamp"] = created
        yield group
    for pod in job.pods:
        requests = {name: format_amount(name, amount) for name, amount in pod.template.requests.amounts}
        limits = {name: amount for name, amount in requests.items() if name == GPU}
        container = {"name": "main", "image": "pause", "resources": {"requests": requests, "limits": limits}}
        spec: dict[str, Any] = {"priority": pod.template.priority, "containers": [container]}
        made = thing("Pod", pod.name, labels=dict(pod.template.labels), spec=spec)
        made["metadata"]["creationTimestamp"] = created
        yield made
