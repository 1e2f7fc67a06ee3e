"""Room is made in rounds: a pod that has a node after the first must not lose it in a later one."""

from __future__ import annotations

from typing import Any

from tests.engine.test_counterfactual import World
from tests.suggestions.puzzles import Plain, pod, thing
from tests.suggestions.verdicts import applied, node_of, rules

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int, cores: int) -> Plain:
    amounts = {"cpu": str(cores), "memory": "64Gi", "pods": "110", GPU: str(gpus)}
    labels = {"kubernetes.io/hostname": name}
    return thing("Node", name, cluster_wide=True, labels=labels, status={"allocatable": amounts})


def queue(name: str, second: int, **spec: Any) -> Plain:
    return aged(thing("Queue", name, "moorage.dev/v1alpha1", cluster_wide=True, spec=spec), second)


def aged(body: Plain, second: int) -> Plain:
    body["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return body


def group(name: str, least: int, second: int) -> Plain:
    return aged(thing("PodGroup", name, "scheduling.x-k8s.io/v1alpha1", spec={"minMember": least}), second)


def job(name: str, of: str, second: int, gpus: int, cpu: str = "", gang: str = "", **spec: Any) -> Plain:
    """A pod of a queue and of a gang, where these are named."""
    labels = {"moorage.dev/queue": of, "scheduling.x-k8s.io/pod-group": gang, "moorage.dev/preemptible": "true"}
    made = aged(pod(name, labels={key: value for key, value in labels.items() if value}, **spec), second)
    requests = {GPU: str(gpus), **({"cpu": cpu} if cpu else {})}
    made["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": {GPU: str(gpus)}}
    made["status"] = {"startTime": "2026-01-01T14:00:00Z"}
    return made


WORLD = [
    node("n0", 2, 8),
    node("n1", 4, 2),
    queue("b", 1, priority=200, resources={GPU: {"quota": "0", "weight": 2}}),
    queue("a", 2),
    group("g", 2, 3),
    group("done", 3, 4),
    group("late", 1, 9),
    group("out", 2, 8),
    job("moved", "b", 2, 1, nodeName="n1", priority=120),
    *(
        job(f"done-{number}", "a", 4, 1, "2", "done", nodeName=name, priority=99, activeDeadlineSeconds=600)
        for number, name in enumerate(("n0", "n0", "n1"))
    ),
    *(job(f"g-{number}", "a", 3, 2, "500m", "g", priority=50) for number in range(3)),
    job("young", "a", 10, 2, nodeName="n1"),
    job("late-0", "a", 9, 2, "2", "late"),
    *(job(f"out-{number}", "", 8, 2, gang="out") for number in range(2)),
    job("stuck", "a", 0, 1, "1"),
]
"""Once the gang `done` has ended, two members of `g` start, for which `moved` goes elsewhere. Should it not be back by
then, the third member takes the place of `stuck`.
"""


def test_a_pod_does_not_rely_on_pods_that_have_to_come_back() -> None:
    """What is moved for others may not be back, as the place that it leaves may be taken again in the next round."""
    found = World(WORLD).suggestions()
    assert found
    assert [each.text for each in found if "has ended" in each.text] == []
    assert [each.text for each in found if not node_of(applied(WORLD, each.objects), rules(), "stuck")] == []
