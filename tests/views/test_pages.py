"""The pages as plain values: what a world says of a cluster that it was told about."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from moorage.core.capacity import Capacity
from moorage.core.events import (
    BindDone,
    BindOutcome,
    DeleteDone,
    Event,
    ExtendersAnswered,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    TrialRecalled,
)
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.objects import PlacementPolicy, Workload
from moorage.core.pods import Condition, Owner, Pod
from moorage.core.prices import PRICE_LIST, PriceList, PriceRule
from moorage.core.selectors import Selector
from moorage.core.strategy import parse_strategy, restamped
from moorage.core.topology import TOPOLOGY, Topology
from moorage.core.trials import Side, SideCounts, TrialEnd, TrialPhase, TrialRecord, TrialVerdict
from moorage.engine.lifecycle import State
from moorage.engine.units import Place
from moorage.testing.builders import make_node, make_pod
from moorage.views.nodemap import NodeState
from moorage.views.pages import node_page, search, summary
from moorage.views.placements import strategies_page
from moorage.views.podpage import pod_page
from moorage.views.previews import check_strategy, preview
from moorage.views.queues import queue_page
from moorage.views.spotpage import spot_page
from moorage.views.trialpage import trial_page
from moorage.views.world import QueueEntry, QueueTold, Settled, World
from tests.dashboard.serving import reading_of

CAPACITY = "node.kubernetes.io/capacity"
STRATEGY = "moorage.dev/schedule-strategy"
FALLBACK = "moorage.dev/fallback-from"
HALVES = f"weight=1,nodeSelector={CAPACITY}:on-demand;weight=1,nodeSelector={CAPACITY}:spot"
WEB = Owner("ReplicaSet", "web", "uid-web", "apps/v1")
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: moorage
  plugins:
    multiPoint:
      enabled: [{name: PlacementStrategy}]
"""


def make_world(events: Iterable[Event] = ()) -> World:
    world = World(reading_of(CONFIGURATION).profiles, answers_to_all=True)
    world.tell([*events, Settled()], 100.0)
    return world


def nodes() -> list[Event]:
    return [
        NodeSeen(make_node("od", cpu="4", zone="z1", labels={CAPACITY: "on-demand"})),
        NodeSeen(make_node("spot", cpu="4", zone="z1", labels={CAPACITY: "spot"})),
    ]


def workload(text: str = HALVES, replicas: int = 4) -> ObjectSeen:
    annotations = FrozenDict({STRATEGY: text})
    value = Workload("ReplicaSet", "default", "web", "uid-web", annotations=annotations, replicas=replicas)
    return ObjectSeen("ReplicaSet", "default/web", value)


def waiting(name: str, message: str = "", **fields: Any) -> Pod:
    pod = make_pod(name, cpu="1", **fields)
    condition = Condition("PodScheduled", "False", "Unschedulable", message) if message else None
    return replace(pod, scheduled_condition=condition)


def test_changes_add_up_to_everything() -> None:
    """A page that keeps rows and applies every change has what a newcomer is given, whatever happens."""
    rng = Random(7)
    world = make_world()
    kept: dict[int, list[object]] = {}
    for step in range(300):
        name = f"n{rng.randrange(12)}"
        choices: list[Event] = [
            NodeSeen(make_node(name, cpu="4", zone=f"z{rng.randrange(3)}")),
            NodeGone(name),
            PodSeen(make_pod(f"p{rng.randrange(40)}", node=name, cpu="100m")),
            PodGone(make_pod(f"p{rng.randrange(40)}").uid),
        ]
        world.tell([rng.choice(choices)], float(step))
        rows, gone = world.nodes.changes()
        for row in gone:
            del kept[row]
        kept |= {row[0]: row for row in rows}
        assert sorted(kept.values(), key=str) == sorted(world.nodes.everything(), key=str)
    check_invariants(world.state)


def test_nodes_tell_their_domain_and_the_gangs_that_they_hold() -> None:
    """Of the only topology, from the widest level down; a Topology that comes or changes is news of every node."""
    levels = ("block", "rack", "kubernetes.io/hostname")
    pod = make_pod(
        "g-0", node="a", annotations={"moorage.dev/pod-group": "g", "moorage.dev/pod-group-min-available": "1"}
    )
    labels = {"block": "b1", "rack": "r1"}
    world = make_world([NodeSeen(make_node("a", labels=labels)), NodeSeen(make_node("outside")), PodSeen(pod)])
    assert [row[-2:] for row in world.nodes.changes()[0]] == [["", ["default/g"]], ["", []]]
    for want, *events in (
        ("b1 / r1", ObjectSeen(TOPOLOGY, "t", Topology("t", levels))),
        ("b1", ObjectSeen(TOPOLOGY, "t", Topology("t", levels[:1]))),
        ("", ObjectSeen(TOPOLOGY, "u", Topology("u", levels))),
        ("b1 / r1", ObjectGone(TOPOLOGY, "t")),
    ):
        world.tell(events, 200.0)
        assert {row[1]: row[-2] for row in world.nodes.changes()[0]} == {"a": want, "outside": ""}
        assert world.nodes.changes() == ([], [])


def test_states_of_nodes() -> None:
    """Not ready before leaving before cordoned."""
    world = make_world(
        [
            NodeSeen(make_node("ready")),
            NodeSeen(replace(make_node("cordoned"), unschedulable=True)),
            NodeSeen(replace(make_node("lost"), ready=False, unschedulable=True)),
            NodeSeen(make_node("leaving", taints=["aws-node-termination-handler/spot-itn:NoSchedule"])),
        ]
    )
    states = {row[1]: NodeState(row[4]) for row in world.nodes.everything()}
    assert states == {
        "ready": NodeState.READY,
        "cordoned": NodeState.CORDONED,
        "lost": NodeState.NOT_READY,
        "leaving": NodeState.LEAVING,
    }


def test_the_queue_as_pods_say() -> None:
    """Gates, conditions, and neither; the important first; gangs with members that stand and that wait."""
    gang: dict[str, Any] = {"annotations": {"moorage.dev/pod-group": "g", "moorage.dev/pod-group-min-available": "2"}}
    world = make_world(
        [
            *nodes(),
            PodSeen(waiting("stuck", "0/2 nodes are available", priority=5)),
            PodSeen(waiting("gated", gates=["example.com/quota"])),
            PodSeen(waiting("new")),
            PodSeen(waiting("member-0", **gang)),
            PodSeen(make_pod("member-1", node="od", **gang)),
        ]
    )
    page = queue_page(world, 100)
    assert page["exact"] is False
    places = {row["pod"]: row["place"] for row in page["rows"]}
    assert places["default/stuck"] == "unschedulable"
    assert places["default/gated"] == "gated"
    assert places["default/new"] == "active"
    (found,) = page["gangs"]
    assert (found["name"], found["needs"], found["standing"], found["total"]) == ("default/g", 2, 1, 2)
    json.dumps(page)


def test_the_queue_as_the_scheduler_says() -> None:
    """What the engine itself tells counts."""
    pod = waiting("a", "old news")
    world = make_world([*nodes(), PodSeen(pod)])
    world.tell([QueueTold((QueueEntry(pod.uid, Place.BACKOFF, 3, 90.0, "no room"),))], 101.0)
    (row,) = queue_page(world, 100)["rows"]
    assert (row["place"], row["attempts"], row["message"]) == ("backoff", 3, "no room")
    assert summary(world, 101.0)["queue"]["backoff"] == 1


def test_a_pod_has_a_story() -> None:
    """The steps that its scheduler tells; where none does, what was seen of it."""
    pod = make_pod("a", cpu="64")
    world = make_world([*nodes(), PodSeen(pod)])
    world.tell([Settled(), PodSeen(waiting("a", "no room"))], 101.0)
    assert [(step["t"], step["text"]) for step in pod_page(world, pod, 102.0)["story"]] == [(101.0, "no room")]
    steps = ((100.0, State.TRYING, ""), (100.0, State.BACK, "no room"), (100.0, State.UNSCHEDULABLE, "Failure"))
    world.tell([QueueTold((QueueEntry(pod.uid, Place.UNSCHEDULABLE, 1, 90.0, "no room", steps),))], 102.0)
    story = pod_page(world, pod, 102.0)["story"]
    assert [step["text"] for step in story] == ["is tried", "comes back: no room", "waits for a change that may help"]


def test_a_pod_is_judged_without_changing_anything() -> None:
    """A bound pod as if it were pending, and the state is as before."""
    world = make_world([*nodes(), PodSeen(make_pod("a", node="od", cpu="3")), PodSeen(make_pod("big", cpu="2"))])
    before = world.state.resources.requested.copy()
    bound, pending = world.pod("default/a"), world.pod("default/big")
    assert bound is not None
    assert pending is not None
    page = pod_page(world, bound, 100.0)
    assert page["fitting"] == 2
    assert "It is on od" in page["verdict"]
    assert page["second"]
    assert pod_page(world, pending, 100.0)["chosen"] == "spot"
    huge = make_pod("huge", cpu="64")
    page = pod_page(world, huge, 100.0)
    assert page["chosen"] is None
    assert page["rejections"] == [
        {"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "count": 2, "nodes": ["od", "spot"]}
    ]
    assert (world.state.resources.requested == before).all()
    check_invariants(world.state)


def test_a_strategy_has_target_and_actual() -> None:
    """Rules with what they should have and what they have."""
    pods = [PodSeen(make_pod(f"web-{i}", node="od", cpu="100m", owner=WEB)) for i in range(3)]
    world = make_world([*nodes(), workload(), *pods, PodSeen(waiting("web-3", owner=WEB))])
    (row,) = strategies_page(world)["workloads"]
    assert [(rule["target"], rule["actual"]) for rule in row["rules"]] == [(2, 3), (2, 0)]
    assert (row["waiting"], row["off"]) == (1, True)
    assert row["location"] == {"kind": "ReplicaSet", "namespace": "default", "name": "web", "key": STRATEGY}


def test_a_strategy_that_cannot_be_read_is_told() -> None:
    """With the place and what is wrong."""
    world = make_world([*nodes(), workload("weight=x")])
    (row,) = strategies_page(world)["unreadable"]
    assert row["title"] == "ReplicaSet default/web"
    assert "column" in row["error"]


def test_a_policy_is_edited_as_rules() -> None:
    """The workload of a PlacementPolicy names it as the place to edit."""
    policy = PlacementPolicy("default", "split", selector=Selector(()), rules=parse_strategy(HALVES))
    plain = Workload("ReplicaSet", "default", "web", "uid-web", replicas=2)
    pods = [PodSeen(make_pod(f"web-{i}", node="od", cpu="100m", owner=WEB)) for i in range(2)]
    seen = [ObjectSeen("ReplicaSet", "default/web", plain), ObjectSeen("PlacementPolicy", policy.key, policy)]
    world = make_world([*nodes(), *seen, *pods])
    (row,) = strategies_page(world)["workloads"]
    assert row["policy"] == "default/split"
    assert row["location"]["kind"] == "PlacementPolicy"
    assert row["text"] == HALVES
    found = preview(world, "default", "ReplicaSet", "web", f"weight=1,nodeSelector={CAPACITY}:spot", 100.0)
    assert found["moving"] == 2
    assert world.state.object("PlacementPolicy", policy.key) is policy


@pytest.mark.parametrize(
    ("text", "moving", "after"),
    [
        pytest.param(HALVES, 1, [2, 2], id="as it is written: one is off"),
        pytest.param(f"weight=1,nodeSelector={CAPACITY}:spot", 3, [4], id="all to spot"),
        pytest.param(f"weight=1,nodeSelector={CAPACITY}:on-demand", 1, [4], id="all to on-demand"),
        pytest.param("weight=1,nodeSelector=a:b", 0, [0], id="to nodes that are not there"),
    ],
)
def test_a_preview_names_the_moves(text: str, moving: int, after: list[int]) -> None:
    """Decided by the profile itself, and undone."""
    pods = [PodSeen(make_pod(f"web-{i}", node="od" if i < 3 else "spot", cpu="100m", owner=WEB)) for i in range(4)]
    world = make_world([*nodes(), workload(), *pods])
    before = world.state.resources.requested.copy()
    found = preview(world, "default", "ReplicaSet", "web", text, 100.0)
    assert (found["moving"], [rule["after"] for rule in found["rules"]]) == (moving, after)
    assert len(found["stuck"]) == (4 if moving == 0 else 0)
    assert (world.state.resources.requested == before).all()
    assert strategies_page(world)["workloads"][0]["text"] == HALVES
    check_invariants(world.state)


def stamped(number: int, rule: int, strategy: str, node: str) -> PodSeen:
    """A pod as the webhook makes it with a rule."""
    pod = make_pod(f"web-{number}", node=node, cpu="100m", owner=WEB)
    return PodSeen(replace(pod, template=restamped(pod.template, parse_strategy(strategy), rule)))


def test_a_preview_counts_pods_as_the_keeper_does() -> None:
    """A pod counts for the rule that the webhook gave it, also on a node that belongs to another one."""
    zone = "nodeSelector=topology.kubernetes.io/zone:z1"
    text = f"weight=1,{zone};weight=1,{zone},{CAPACITY}:spot"
    world = make_world([*nodes(), workload(text), *(stamped(i, i % 2, text, "spot") for i in range(4))])
    (split,) = world.splits
    assert (split.actual, split.target) == ((2, 2), (2, 2))
    found = preview(world, "default", "ReplicaSet", "web", text, 100.0)
    assert found["moving"] == 0
    assert [rule["staying"] for rule in found["rules"]] == [2, 2]


def test_a_preview_gives_pods_of_the_webhook_other_rules() -> None:
    """Their successors are made with the rules that are due then, and so do not stay with those that they had."""
    pods = [stamped(i, i % 2, HALVES, ("od", "spot")[i % 2]) for i in range(4)]
    world = make_world([*nodes(), workload(), *pods])
    found = preview(world, "default", "ReplicaSet", "web", f"weight=1,nodeSelector={CAPACITY}:spot", 100.0)
    assert (found["moving"], found["stuck"]) == (2, [])
    assert [(rule["staying"], rule["after"]) for rule in found["rules"]] == [(2, 4)]
    check_invariants(world.state)


def test_mistakes_have_columns() -> None:
    """As the parser finds them, all at once."""
    found = check_strategy("base=x,weight=-1")
    assert found["ok"] is False
    assert all(mistake["column"] > 0 and mistake["remedy"] for mistake in found["mistakes"])


def test_spot_notices_moves_and_money() -> None:
    """Who leaves, who fell back, and the difference to on-demand prices."""
    prices = PriceList(
        "p", "USD", (PriceRule(300_000, capacity=Capacity.ON_DEMAND), PriceRule(100_000, capacity=Capacity.SPOT))
    )
    leaving = make_node("going", labels={CAPACITY: "spot"}, taints=["aws-node-termination-handler/spot-itn:NoSchedule"])
    fallen = make_pod("back", node="od", annotations={FALLBACK: "gone"})
    seen: list[Event] = [NodeSeen(leaving), PodSeen(make_pod("a", node="spot")), PodSeen(fallen)]
    world = make_world([*nodes(), *seen, ObjectSeen(PRICE_LIST, "p", prices)])
    page = spot_page(world)
    assert [notice["node"] for notice in page["notices"]] == ["going"]
    assert page["fallen"] == [{"pod": "default/back", "from": "gone", "node": "od"}]
    cost = page["cost"]
    assert (cost["total"], cost["spot"], cost["spot_on_demand"], cost["saved"]) == (400_000, 100_000, 300_000, 200_000)
    world.tell([NodeGone("going"), PodGone(fallen.uid)], 101.0)
    assert spot_page(world)["notices"] == spot_page(world)["fallen"] == []


def test_what_happened_is_found_out() -> None:
    """From pods and nodes as they change; what was there at first is no news."""
    pod = waiting("a")
    world = make_world([*nodes(), PodSeen(pod)])
    assert world.timeline.last == 0
    told = replace(pod, scheduled_condition=Condition("PodScheduled", "False", "Unschedulable", "no room"))
    bound = replace(pod, node="od")
    world.tell([PodSeen(told), PodSeen(bound), PodSeen(replace(bound, deleted_s=5.0, preempted=True))], 101.0)
    world.tell([PodGone(pod.uid), NodeSeen(replace(make_node("od"), unschedulable=True)), NodeGone("spot")], 102.0)
    found = [(entry["what"], entry["text"]) for entry in reversed(world.timeline.since(0, 100))]
    assert found == [
        ("waits", "no room"),
        ("placed", "-> od"),
        ("evicted", "from od (PreemptionByScheduler)"),
        ("node", "is cordoned"),
        ("node", "leaves the cluster"),
    ]
    assert world.timeline.since(world.timeline.last, 100) == []


def test_search_and_node() -> None:
    """Names that hold the text, and what stands on a node."""
    world = make_world([*nodes(), PodSeen(make_pod("needle", node="od", cpu="1")), PodSeen(waiting("other"))])
    found = search(world, " NEEDLE ")
    assert [row["pod"] for row in found["pods"]] == ["default/needle"]
    node = world.node("od")
    assert node is not None
    page = node_page(world, node)
    assert [row["pod"] for row in page["pods"]] == ["default/needle"]
    assert ["cpu", "1", "4", 0.25] in page["resources"]


def test_shared_devices_of_a_node() -> None:
    """What is left of each, who has it, and the sums on the map."""
    half = {"gpu-fraction": "0.5"}
    labels = {"nvidia.com/gpu.memory": "16000", "nvidia.com/gpu.product": "T4"}
    failed = {"moorage.dev/unhealthy-devices": "2"}
    gpus = make_node("gpus", resources={"nvidia.com/gpu": 3}, labels=labels, annotations=failed)
    world = make_world([*nodes(), NodeSeen(gpus), PodSeen(make_pod("a", node="gpus", annotations=half))])
    shown = {row[1]: row[-4:-2] for row in world.nodes.everything()}
    assert shown == {"od": [0, 0], "spot": [0, 0], "gpus": [500, 2000]}
    node = world.node("gpus")
    assert node is not None
    first, second, third = node_page(world, node)["shared"]
    assert first == {
        "device": 0,
        "uuid": "",
        "model": "T4",
        "state": "shared",
        "compute": {"free": 500, "total": 1000, "unit": "m"},
        "memory": {"free": 8000, "total": 16000, "unit": "Mi"},
        "pods": [{"pod": "default/a", "compute": 500, "memory": 8000}],
    }
    assert (second["state"], second["pods"], third["state"]) == ("free", [], "failed")
    world.nodes.changes()
    world.tell([PodSeen(make_pod("b", node="gpus", annotations=half))], 101.0)
    rows, _ = world.nodes.changes()
    assert [row[-4:-2] for row in rows] == [[1000, 2000]]
    assert node_page(world, node)["shared"][0]["state"] == "in use"


def test_answers_to_others_are_not_heard() -> None:
    """A journal holds what schedulers were answered; the world has asked nobody."""
    world = make_world([*nodes(), PodSeen(waiting("a"))])
    uid = world.by_key["default/a"]
    world.tell([ExtendersAnswered(uid), BindDone(uid, BindOutcome.BOUND, "od"), DeleteDone(uid, ok=True)], 101.0)
    assert list(world.waiting) == [uid]


# --- a trial ---

TRIAL = """---
apiVersion: moorage.dev/v1alpha1
kind: TrialConfiguration
name: packed
pods: {namespaces: [new], workloadPercent: 50}
duration: 1h
profiles: [{schedulerName: moorage, plugins: {multiPoint: {enabled: [{name: PlacementStrategy}]}}}]
"""


def tried_world() -> tuple[World, TrialRecord]:
    reading = reading_of(CONFIGURATION + TRIAL)
    assert reading.configuration is not None
    trial = reading.configuration.trial
    assert trial is not None
    counts = SideCounts(10, 2, 1, ((0, 9), (97, 1)), 3)
    record = TrialRecord("packed", trial.digest, ran_s=600.0, control=SideCounts(20), trial=counts)
    return World(reading.profiles, answers_to_all=True, trial=trial), record


def test_the_page_of_a_trial_shows_both_sides_and_what_is_allowed() -> None:
    """As the scheduler's record says, with the limits of the configuration if it is of the same trial."""
    world, record = tried_world()
    assert trial_page(world)["trial"] is None
    world.tell([TrialRecalled(record), Settled()], 100.0)
    page = trial_page(world)
    assert (page["trial"]["phase"], page["trial"]["ranSeconds"]) == ("Running", 600.0)
    assert page["terms"] == {"duration": 3600.0, "atEnd": "Return", "pods": "namespaces new; 50 % of the workloads"}
    found = {each["name"]: (each["trial"], each["control"], each["ratio"]) for each in page["measures"]}
    assert found["pending"] == (3, 0, 1.2)
    assert found["waitingP99"][0] == pytest.approx(103.5, rel=0.01)
    json.dumps(page)
    world.tell([TrialRecalled(replace(record, digest="other"))], 101.0)
    assert (trial_page(world)["terms"], trial_page(world)["measures"][0]["ratio"]) == (None, None)


def test_a_world_follows_the_trial_and_never_judges_it() -> None:
    """Its engine uses the profiles while the scheduler does, whatever its own clock says."""
    world, record = tried_world()
    pods = [make_pod(f"p{number}", namespace="new") for number in range(20)]
    world.tell([*map(PodSeen, pods), TrialRecalled(record), Settled()], 100.0)
    sides = {world.engine.sides.side_of(pod) for pod in pods}
    assert sides == {Side.TRIAL, Side.CONTROL}
    world.tell([TrialRecalled(replace(record, ran_s=700.0))], 1e7)
    assert world.engine.sides.on
    ended = replace(record, phase=TrialPhase.ENDED, end=TrialEnd.WORSE, verdict=TrialVerdict.WORSE, message="pending")
    before = world.versions.trial
    world.tell([TrialRecalled(ended)], 1e7 + 1)
    assert {world.engine.sides.side_of(pod) for pod in pods} == {None}
    assert world.versions.trial == before + 1
    assert trial_page(world)["trial"]["end"] == "Worse"
    world.tell([TrialRecalled(None)], 1e7 + 2)
    assert trial_page(world)["trial"] is None
