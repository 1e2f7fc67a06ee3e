"""What a tenant can write, and what that gains: labels, priorities, splits, and queues that cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from moorage.core.events import ObjectSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import NAMESPACE, Namespace
from moorage.core.queues import KAI_QUEUE, QUEUE, QUEUE_LABEL, QUEUE_LABELS, VOLCANO_QUEUE
from moorage.core.selectors import selector_from_labels
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID
from tests.queues.teams import Teams, make_queue, team_pod
from tests.queues.test_reclaiming_gangs import gang
from tests.queues.worlds import World, make_job


def two_teams() -> Teams:
    """Queues `a` and `b` share four devices; each is for the namespace of its team."""
    queues = [make_queue(name, 2, namespaces=selector_from_labels({"team": name})) for name in "ab"]
    teams = Teams(*queues)
    namespaces = [Namespace(name, labels=FrozenDict({"team": name})) for name in "ab"]
    teams.play([ObjectSeen(NAMESPACE, each.name, each) for each in namespaces])
    return teams


@pytest.mark.parametrize(
    ("where", "key"), [*(("labels", label) for label in QUEUE_LABELS), ("annotations", QUEUE_LABELS[-1])]
)
def test_nobody_enters_the_queue_of_another_team(where: str, key: str) -> None:
    """By whichever label or annotation: the pod waits and says so, and nothing of it counts for the other team."""
    teams = two_teams()
    said: dict[str, Any] = {"labels": {}, where: {key: "a"}}
    teams.see(team_pod("intruder", "", namespace="b", **said))
    assert teams.running() == []
    (entry,) = teams.engine.queue.entries()
    assert entry.message == "namespace b may not use queue a"
    tree = teams.engine.state.queues.settle(teams.engine.state)
    assert not any(tree.nodes["a"].requested)
    teams.see(*(team_pod(f"a{n}", "a", namespace="a") for n in range(4)))
    assert len(teams.running("a")) == 4


def test_a_pod_that_runs_cannot_be_moved_into_the_queue_of_another_team() -> None:
    """With another label it counts for nobody; the other team still gets its quota."""
    teams = two_teams()
    teams.see(team_pod("b0", "b", namespace="b"))
    (record,) = teams.engine.state.records()
    teams.see(replace(record.pod, template=team_pod("b0", "a", namespace="b").template))
    tree = teams.engine.state.queues.settle(teams.engine.state)
    assert not any(tree.nodes["a"].allocated)
    teams.see(*(team_pod(f"a{n}", "a", namespace="a", created_s=9.0) for n in range(2)))
    assert teams.running("a") == ["a0", "a1", "b0"]


@pytest.mark.parametrize("priority", [0, 90, 2_000_000_000])
def test_priorities_are_not_compared_across_queues(priority: int) -> None:
    """However important a team calls its pods, the other one gets its share, and gets it back."""
    teams = two_teams()
    teams.see(
        *(team_pod(f"b{n}", "b", namespace="b", priority=priority, created_s=float(n)) for n in range(4)),
    )
    assert len(teams.running("b")) == 4
    teams.see(*(team_pod(f"a{n}", "a", namespace="a", created_s=9.0 + n) for n in range(4)))
    teams.rest()
    assert (len(teams.running("a")), len(teams.running("b"))) == (2, 2)


@pytest.mark.parametrize("says", ["label", "priority"])
def test_who_may_not_be_evicted_stays_within_the_quota(says: str) -> None:
    """Pods that call themselves so, by a label or by their priority, get what is guaranteed and nothing beside it."""
    teams = two_teams()
    labels = {"moorage.dev/queue": "b"} | ({"moorage.dev/preemptible": "false"} if says == "label" else {})
    priority = 2_000_000_000 if says == "priority" else 0
    teams.see(*(team_pod(f"b{n}", "b", namespace="b", labels=labels, priority=priority) for n in range(4)))
    assert len(teams.running("b")) == 2


@pytest.mark.parametrize("size", [1, 2, 4])
def test_many_jobs_or_few_get_the_same(size: int) -> None:
    """A team that splits its work has as many devices as one that does not."""
    teams = two_teams()
    teams.see(*(team_pod(f"a{n}", "a", namespace="a", created_s=float(n)) for n in range(4)))
    teams.see(*(team_pod(f"b{n}", "b", size, namespace="b", created_s=9.0 + n) for n in range(8 // size)))
    teams.rest()
    assert len(teams.running("b")) * size == (2 if size <= 2 else 0)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (QUEUE, {"resources": {"nvidia.com/gpu": {"quota": "many"}}}),
        (QUEUE, {"priority": "high"}),
        (KAI_QUEUE, {"resources": {"gpu": {"quota": "many"}}}),
        (VOLCANO_QUEUE, {"capability": {"cpu": "many"}}),
    ],
)
def test_a_queue_that_cannot_be_read_concerns_itself_alone(kind: str, spec: dict[str, object]) -> None:
    """It is refused as a whole, by name; its pods wait for a queue that does not exist, others run."""
    raw = {"metadata": {"name": "broken", "uid": "u"}, "spec": spec}
    with pytest.raises(WireError):
        BY_ID[kind].decode(json.dumps(raw).encode())
    teams = two_teams()
    teams.see(team_pod("lost", "broken", namespace="b"), team_pod("b0", "b", namespace="b"))
    assert teams.running() == ["b0"]
    assert [entry.message for entry in teams.engine.queue.entries()] == ["queue broken does not exist"]


def test_a_pod_that_fits_nowhere_holds_up_nobody_in_its_queue() -> None:
    """The first pod of a queue wants more than there is: those behind it still get their share back."""
    teams = two_teams()
    teams.see(*(team_pod(f"b{n}", "b", namespace="b", created_s=float(n)) for n in range(4)))
    teams.see(team_pod("huge", "a", 100, namespace="a", priority=90), team_pod("a0", "a", namespace="a", created_s=9.0))
    assert teams.running("a") == ["a0"]
    assert teams.rest() <= 1
    assert teams.running("a") == ["a0"]


def test_a_pod_that_fits_nowhere_keeps_nothing_for_its_queue() -> None:
    """A small pod that no node suits waits before all others of a queue. What others of it have beyond their share is
    taken back all the same.
    """
    teams = Teams(make_queue("a", 4), make_queue("b", 4), nodes=(8,))
    teams.see(*(team_pod(f"b{n}", "b", created_s=float(n)) for n in range(3)))
    teams.see(*gang("lent", "b", 5))
    assert len(teams.running("b")) == 8
    teams.see(team_pod("tiny", "b", 0, requests={}, node_selector={"no": "node"}, created_s=-1.0))
    teams.see(team_pod("a0", "a", 4, created_s=2000.0))
    assert teams.running("a") == ["a0"]
    teams.rest()
    assert teams.running("a") == ["a0"]


@pytest.mark.parametrize("elsewhere", ["", "c"], ids=["no queue", "another queue"])
def test_a_running_pod_that_leaves_the_queue_of_its_gang_is_not_part_of_it_there(elsewhere: str) -> None:
    """Shares are still taken back, from what is left of the gang in its queue; nothing ends, and evictions do."""
    world = World([make_queue("a"), make_queue("b", 2), make_queue("c")], [(4, 20)])
    job = make_job("gang", "a", 4, 1)
    world.submit(job)
    first = next(pod for pod in world.standing() if pod.name == "gang-0")
    labels = {key: value for key, value in first.template.labels.items() if key != QUEUE_LABEL}
    labels |= {QUEUE_LABEL: elsewhere} if elsewhere else {}
    world.see(replace(first, template=replace(first.template, labels=FrozenDict(labels))))
    world.submit(make_job("b", "b", created_s=9.0))
    assert [pod.name for pod in world.evicted] == ["gang-3"]
    world.settle()
    assert {"gang-0", "b-0"} <= world.placed().keys()
