"""Room goes to whom it was made for, whoever else looks for some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.events import ObjectSeen
from moorage.core.pods import Pod
from moorage.core.queues import QUEUE_LABEL
from moorage.core.topology import TOPOLOGY, Topology
from moorage.core.topologyasks import TopologyAsk
from tests.queues.teams import GPU, Teams, make_queue, team_pod
from tests.queues.test_reclaiming_gangs import gang

HOST = "kubernetes.io/hostname"
NO_QUEUE = ""


def unit(kind: str, queue: str, gpus: int, **fields: Any) -> list[Pod]:
    """Pods that ask for so many GPUs together: one, or a gang of two that may have to stay on one node."""
    if kind == "pod":
        return [team_pod("pod", queue, gpus, **fields)]
    ask = TopologyAsk(required=HOST) if kind == "gang with a level" else None
    pods = gang("gang", queue, 2, gpus=gpus // 2, **fields)
    return [replace(pod, template=replace(pod.template, topology=ask)) for pod in pods]


def named(prefix: str, pods: list[Pod]) -> list[Pod]:
    """The same under other names, so that two units do not meet as one."""
    renamed = [replace(pod, uid=f"{prefix}/{pod.uid}", name=f"{prefix}-{pod.name}") for pod in pods]
    return [replace(pod, template=replace(pod.template, namespace=prefix)) for pod in renamed]


KINDS = ["pod", "gang", "gang with a level"]
QUEUES = [("", "a"), ("a", ""), ("a", "b"), ("a", "a"), ("", "")]
"""That of who is promised a node, and of who looks for one."""


@pytest.mark.parametrize("seeking", KINDS)
@pytest.mark.parametrize("promised", KINDS)
@pytest.mark.parametrize("queues", QUEUES, ids=lambda pair: "-".join(name or "none" for name in pair))
def test_free_room_beside_what_is_leaving_stays_with_whom_the_node_was_promised(
    queues: tuple[str, str], promised: str, seeking: str
) -> None:
    """Half of a node is free, and half is about to be, for a unit that needs all of it. Another one, of a higher
    priority where that does not let it evict the first, would fit into the half that is free.
    """
    theirs, mine = queues
    teams = Teams(make_queue("a", 8), make_queue("b", 8), nodes=(4,))
    teams.play([ObjectSeen(TOPOLOGY, "t", Topology("t", (HOST,)))])
    leaving = replace(team_pod("leaving", NO_QUEUE, 2, node="n0", priority=-10), deleted_s=0.0, preempted=True)
    first = [replace(pod, nominated_node="n0") for pod in named("first", unit(promised, theirs, 4, priority=0))]
    second = named("second", unit(seeking, mine, 2, priority=100 if mine not in ("", theirs) else 0))
    teams.see(leaving, *first)
    teams.see(*second)
    assert teams.running() == ["leaving"]
    teams.end(leaving)
    assert teams.running() == sorted(pod.name for pod in first)


@pytest.mark.parametrize("order", [1, -1])
def test_room_for_a_pod_without_a_queue_is_not_given_to_a_queue(order: int) -> None:
    """It has preempted a pod of one queue, and a more important pod of another one, beyond its quota, waits, too."""
    teams = Teams(make_queue("a", 4), make_queue("b", 0), nodes=(2,))
    teams.see(team_pod("a0", "a", node="n0", priority=-10), team_pod("b0", "b", node="n0", priority=10))
    waiting = [team_pod("free", NO_QUEUE, created_s=60.0), team_pod("b1", "b", priority=10, created_s=30.0)]
    teams.see(*waiting[::order])
    assert teams.running() == ["b0", "free"]
    assert [pod.name for pod in teams.evicted] == ["a0"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [(6,), (3, 3), (2, 2, 2)], ids=lambda nodes: "+".join(map(str, nodes)))
def test_preemption_inside_a_queue_at_its_quota_costs_it_nothing(nodes: tuple[int, ...], kind: str) -> None:
    """Two queues have half of the cluster each, and are within their quotas; more important pods of the one replace
    others of it. Pods of the other one come first as soon as those are gone, and get none of that room.
    """
    teams = Teams(make_queue("a", 6, priority=150), make_queue("b", 4), nodes=nodes)
    teams.play([ObjectSeen(TOPOLOGY, "t", Topology("t", (HOST,)))])
    teams.see(*(team_pod(f"a{n}", "a") for n in range(3)), *(team_pod(f"b{n}", "b", priority=-10) for n in range(3)))
    urgent = [*unit(kind, "b", 2, priority=50), team_pod("single", "b", priority=50)]
    teams.see(*urgent, *(team_pod(f"a{n}", "a") for n in range(3, 6)))
    assert teams.rest() <= 2
    assert teams.running("a") == ["a0", "a1", "a2"]
    assert used(teams, "b") == 3


def test_room_that_is_left_over_goes_to_whom_it_is_due() -> None:
    """What a more important pod of a queue does not need of what another one leaves is nobody's any more."""
    teams = Teams(make_queue("a", 1), make_queue("b", 2), nodes=(2,))
    teams.see(team_pod("large", "b", 2, priority=-10))
    teams.see(team_pod("urgent", "b", priority=50), team_pod("beside", "a"))
    assert teams.running() == ["beside", "urgent"]


def used(teams: Teams, queue: str) -> int:
    """How many GPUs the pods of a queue have."""
    pods = [record.pod for record in teams.engine.state.records()]
    return sum(pod.requests.get(GPU) for pod in pods if pod.template.labels.get(QUEUE_LABEL) == queue)


@pytest.mark.parametrize(
    ("nodes", "need"),
    [
        pytest.param(((2,), (2,)), 4, id="two half-full nodes"),
        pytest.param(((2,), (2,), (2, 2)), 4, id="beside a full one"),
        pytest.param(((1,), (2,), (1, 1)), 4, id="one of three, to one other"),
        pytest.param(((3,), (1, 3), (1, 1)), 3, id="two pods to two others"),
        pytest.param(((1, 3), (2, 1, 1), (3,), (3,)), 2, id="small pods, as the large one has no other place"),
    ],
)
def test_a_pod_starts_if_moves_make_room_for_it(nodes: tuple[tuple[int, ...], ...], need: int) -> None:
    """Nodes have four GPUs each, and what is older goes where most is free, as long as the new pod is not there."""
    teams = Teams(make_queue("a", 16), nodes=(4,) * len(nodes))
    for row, sizes in enumerate(nodes):
        for number, size in enumerate(sizes):
            fields: dict[str, Any] = {
                "cpu": str(12 * size),
                "node": f"n{row}",
                "owner": f"set{row}{number}",
                "created_s": float(number),
            }
            teams.see(team_pod(f"p{row}{number}", "a", size, **fields))
    before = teams.running()
    teams.see(team_pod("new", "a", need, cpu=str(12 * need), created_s=60.0))
    assert "new" in teams.running()
    assert teams.rest() == 1
    assert len(teams.running()) == len(before) + 1
