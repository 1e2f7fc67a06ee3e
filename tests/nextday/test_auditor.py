"""The auditor can fail: for each kind of breach an end that has it, beside one that has not."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from tests.nextday.auditor import KINDS, Expected, Seen, Wanted, is_answered, is_over, judge, matched, rollout_ends
from tests.nextday.rules import (
    CAPACITY,
    Eviction,
    HostsAtLeast,
    NoRule,
    OnePerNode,
    Rule,
    Split,
    SpotFirst,
    parsed,
    shares,
)
from tests.nextday.scene import Scene, amount, fits

SCHEDULER = "custom-scheduler"
NUMBERS = itertools.count(1)
Object = dict[str, Any]


def node(name: str, cpu: int = 4, *, ready: bool = True, labels: Object | None = None, **spec: Any) -> Object:
    status = {
        "allocatable": {"cpu": str(cpu), "memory": f"{cpu}Gi"},
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}


def pod(app: str, place: str = "", *, annotations: Object | None = None, why: str = "no node", **spec: Any) -> Object:
    number = next(NUMBERS)
    metadata = {"name": f"{app}-{number}", "uid": str(number), "labels": {"app": app}, "annotations": annotations}
    requests = {"cpu": "1", "memory": "16Mi"}
    spec = {"schedulerName": SCHEDULER, "containers": [{"name": "c", "resources": {"requests": requests}}], **spec}
    if place:
        conditions = [{"type": "Ready", "status": "True"}]
        return {
            "metadata": metadata,
            "spec": {**spec, "nodeName": place},
            "status": {"phase": "Running", "conditions": conditions},
        }
    conditions = [{"type": "PodScheduled", "status": "False", "message": why}] if why else []
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": conditions}}


def deployment(app: str, replicas: int, *, ready: int | None = None) -> Object:
    there = replicas if ready is None else ready
    status = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": there}
    return {
        "metadata": {"name": app, "generation": 1, "annotations": {}},
        "spec": {"replicas": replicas},
        "status": status,
    }


def kinds(scene: Scene, rule: Rule, expected: Expected | None = None, **seen: Any) -> set[str]:
    expected = expected or Expected(wanted=tuple(Wanted(app=one["metadata"]["name"]) for one in scene.deployments))
    return {breach.kind for breach in judge(Seen(scene=scene, **seen), expected, rule)}


def gang(*places: str, priority: str = "50") -> list[Object]:
    return [pod("gang", place, annotations={"pod-group": "a", "priority": priority}) for place in places]


THREE = [node(name) for name in ("n1", "n2", "n3")]
PLAN = OnePerNode(SCHEDULER)
WHOLE = Scene(THREE, [deployment("gang", 3)], gang("n1", "n2", "n3"))
BLOCKED = Expected(wanted=(Wanted(app="gang", ends=False, running=3),), rule_stops=frozenset({"gang"}))


def blocked(why: str) -> Scene:
    surge = pod("gang", why=why, annotations={"pod-group": "a", "priority": "50"})
    halfway = deployment("gang", 3)
    halfway["status"] |= {"replicas": 4, "updatedReplicas": 1}
    return Scene(THREE, [halfway], [*gang("n1", "n2", "n3"), surge])


def test_a_good_end_has_no_breach() -> None:
    assert kinds(WHOLE, PLAN) == set()


def test_a_rollout_that_stands_still() -> None:
    """One pod of three is not available, and nobody waits."""
    scene = Scene(THREE, [deployment("gang", 3, ready=2)], gang("n1", "n2"))
    assert kinds(scene, PLAN) == {"ends"}
    assert not is_over(scene, Expected(wanted=(Wanted(app="gang"),)))
    assert is_over(scene, Expected(wanted=(Wanted(app="gang", ends=False, running=2),)))


def test_too_few_run() -> None:
    """A rollout may be stopped, but what ran goes on."""
    scene = Scene([node("n1")], [deployment("gang", 3, ready=1)], gang("n1"))
    assert kinds(scene, PLAN, Expected(wanted=(Wanted(app="gang", ends=False, running=2),))) == {"ends"}


def test_a_rollout_that_ends_though_it_should_stand_still() -> None:
    """So that what is believed of stock kube-scheduler is tried."""
    stands = Expected(wanted=(Wanted(app="gang", ends=False, stands=True),))
    assert kinds(WHOLE, PLAN, stands) == {"ends"}
    assert kinds(blocked("why"), PLAN, stands) == set()


def test_an_old_generation_is_not_whole() -> None:
    scene = Scene(THREE, [{**deployment("gang", 3), "metadata": {"name": "gang", "generation": 2}}], gang(*"abc"))
    assert kinds(scene, PLAN) == {"ends"}


def test_a_pod_waits_beside_a_node() -> None:
    scene = Scene(THREE, [deployment("one", 1)], [pod("one")])
    assert kinds(scene, PLAN, Expected(wanted=())) == {"idle"}


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
        {
            "status": {
                "allocatable": {"cpu": "500m", "memory": "1Gi"},
                "conditions": [{"type": "Ready", "status": "True"}],
            }
        },
        {
            "status": {
                "allocatable": {"cpu": "4", "memory": "1Gi"},
                "conditions": [{"type": "Ready", "status": "False"}],
            }
        },
    ],
    ids=["cordoned", "tainted", "small", "not ready"],
)
def test_a_node_that_cannot_take_it_is_no_node(change: Object) -> None:
    scene = Scene([{**node("n1"), **change}], [], [pod("one")])
    assert kinds(scene, NoRule(), Expected(wanted=())) == set()


def test_a_tolerated_taint_is_no_obstacle() -> None:
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    tolerant = pod("one", tolerations=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    assert kinds(Scene([node("n1", taints=taints)], [], [tolerant]), PLAN, Expected(wanted=())) == {"idle"}


def test_a_gang_waits_only_as_long_as_it_does_not_fit_whole() -> None:
    assert kinds(Scene(THREE[:2], [], gang("", "", "")), PLAN, Expected(wanted=())) == set()
    assert kinds(Scene(THREE, [], gang("", "", "")), PLAN, Expected(wanted=())) == {"idle"}
    assert kinds(Scene(THREE, [], gang("n1", "n2", "")), PLAN, Expected(wanted=())) == {"idle"}


def test_a_less_important_pod_is_in_nobodys_way() -> None:
    low = pod("low", "n1", annotations={"priority": "1"})
    high, same = (pod("other", annotations={"priority": value}) for value in ("2", "1"))
    assert kinds(Scene(THREE[:1], [], [low, high]), PLAN, Expected(wanted=())) == {"idle"}
    assert kinds(Scene(THREE[:1], [], [low, same]), PLAN, Expected(wanted=())) == set()


def test_somebody_was_evicted() -> None:
    gone = [Eviction("gang-0", "gang", "n1")]
    assert kinds(WHOLE, PLAN, evicted=gone) == {"evicted"}
    assert kinds(WHOLE, PLAN, Expected(wanted=(), may_go=frozenset({"gang"})), evicted=gone) == set()


def test_the_keeper_moves_whom_the_rule_names() -> None:
    scene = Scene(POOLS, [deployment("web", 2)], [pod("web", "spot1"), pod("web", "spot1")])
    moved, wrong = (Eviction("web-0", "web", place, by_keeper=True) for place in ("od1", "spot1"))
    assert kinds(scene, SpotFirst(), evicted=[moved]) == set()
    assert kinds(scene, SpotFirst(), evicted=[wrong]) == {"evicted"}
    assert kinds(scene, SpotFirst(), evicted=[Eviction("web-0", "web", "od1")]) == {"evicted"}, "not by the keeper"
    assert kinds(scene, SpotFirst(), evicted=[moved] * 3) == {"evicted"}, "again and again"


def test_two_pods_on_one_node() -> None:
    scene = Scene(THREE, [deployment("gang", 3)], gang("n1", "n1", "n2"))
    assert kinds(scene, PLAN) == {"rule"}


def test_more_run_than_may() -> None:
    for most, want in ((3, set()), (2, {"rule"})):
        assert kinds(WHOLE, PLAN, Expected(wanted=(Wanted(app="gang", most=most),))) == want


def test_the_way_out_is_named() -> None:
    good, bad = "no free node; or use maxSurge: 0", "no free node"
    assert kinds(blocked(bad), PLAN, BLOCKED) == {"words"}
    assert kinds(blocked(good), PLAN, BLOCKED) == set()
    scene = blocked(good)
    name = scene.waiting()[0]["metadata"]["name"]
    assert kinds(scene, PLAN, BLOCKED, explained={name: bad}) == {"words"}
    assert kinds(scene, PLAN, BLOCKED, explained={name: good}) == set()


def test_what_is_wrong_is_said() -> None:
    expected = Expected(wanted=(Wanted(app="gang"),), says="whole number")
    said = [{"note": "write a whole number", "regarding": {"name": "gang"}}]
    assert kinds(WHOLE, PLAN, expected) == {"words"}
    assert kinds(Scene(WHOLE.nodes, WHOLE.deployments, WHOLE.pods, said), PLAN, expected) == set()


def test_two_answers() -> None:
    scene = blocked("maxSurge 0")
    name = scene.waiting()[0]["metadata"]["name"]
    assert kinds(scene, PLAN, BLOCKED, fits={name: True}) == {"answers"}
    assert kinds(scene, PLAN, BLOCKED, fits={name: False}) == set()
    assert kinds(WHOLE, PLAN, simulated={"gang": [2, 1]}) == {"answers"}
    assert kinds(WHOLE, PLAN, simulated={"gang": [1, 1, 1]}) == set()


def test_every_kind_is_tried_here() -> None:
    """The tests above name each kind of breach."""
    assert set(KINDS) == {"ends", "idle", "evicted", "rule", "words", "answers"}


def test_who_has_not_been_answered_is_waited_for() -> None:
    assert is_answered(blocked("why"))
    assert not is_answered(Scene(THREE, [], [pod("one", why="")]))


# --- the rules ---


def spread(*places: str, nodes: list[Object] = THREE) -> set[str]:
    return kinds(Scene(nodes, [deployment("shop", 3)], [pod("shop", place) for place in places]), HostsAtLeast())


def test_too_few_hosts_where_there_could_be_more() -> None:
    assert spread("n1", "n1", "n1") == {"rule"}
    assert spread("n1", "n1", "n2") == set()
    assert spread("n1", "n1", "n1", nodes=THREE[:1]) == set(), "there is only one host"


def test_the_annotation_counts() -> None:
    marked = deployment("shop", 3)
    marked["metadata"]["annotations"] = {"controller-spread-scheduler/min-hosts": "3"}
    pods = [pod("shop", place) for place in ("n1", "n1", "n2")]
    assert kinds(Scene(THREE, [marked], pods), HostsAtLeast()) == {"rule"}


def test_a_pod_may_wait_for_a_host_that_is_missing() -> None:
    """The last pod of two must not join the first one; the second of three may."""
    expected = Expected(wanted=())
    pair = Scene(THREE[:1], [deployment("shop", 2)], [pod("shop", "n1"), pod("shop")])
    assert kinds(pair, HostsAtLeast(), expected) == set()
    three = Scene(THREE[:1], [deployment("shop", 3)], [pod("shop", "n1"), pod("shop")])
    assert kinds(three, HostsAtLeast(), expected) == {"idle"}


POOLS = [node("spot1", 2, labels={CAPACITY: "spot"}), node("od1", 4, labels={CAPACITY: "on-demand"})]


def spot(*places: str, base: str = "0") -> set[str]:
    marked = deployment("web", len(places))
    marked["metadata"]["annotations"] = {"moorage.dev/on-demand-base": base}
    return kinds(Scene(POOLS, [marked], [pod("web", place) for place in places]), SpotFirst())


def test_the_wrong_capacity_where_the_right_one_has_room() -> None:
    assert spot("spot1", "od1") == {"rule"}
    assert spot("spot1", "spot1", "od1") == set(), "spot is full"
    assert spot("spot1") == {"rule"}, "a single one"
    assert spot("od1") == set()
    assert spot("spot1", "od1", base="1") == set()
    assert spot("spot1", "spot1", base="1") == {"rule"}
    assert spot("spot1", "spot1", base="one") == set(), "what cannot be read asks for nothing"


TEXT = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"
TYPES = [node("s", 4, labels={"node-type": "spot"}), node("o", 4, labels={"node-type": "ondemand"})]


def split(*places: str, nodes: list[Object] = TYPES) -> set[str]:
    marked = deployment("web", len(places))
    marked["metadata"]["annotations"] = {"smart-scheduler.io/schedule-strategy": TEXT}
    return kinds(Scene(nodes, [marked], [pod("web", place) for place in places]), Split())


def test_another_split_than_that_of_the_strategy() -> None:
    assert split("s", "s", "s", "o", "o", "o") == set()
    assert split("s", "s", "s", "s", "o", "o") == {"rule"}
    assert split("o", "o", nodes=TYPES[1:]) == set(), "there is nowhere else"


@pytest.mark.parametrize(
    ("pods", "want"), [(0, [0, 0]), (1, [1, 0]), (2, [1, 1]), (4, [2, 2]), (6, [3, 3]), (7, [3, 4])]
)
def test_shares_are_counted_as_the_document_says(pods: int, want: list[int]) -> None:
    """1 base + 2 on-demand + 3 spot of six."""
    rules = parsed(TEXT)
    assert rules is not None
    assert shares(rules, pods) == want


def test_what_cannot_be_read_is_no_strategy() -> None:
    assert parsed("base=one,weight=1") is None
    assert parsed("weight=1,nodeSelector=a:b,c:d") is not None


# --- the model of a rollout ---


@pytest.mark.parametrize(
    ("slots", "surge", "unavailable", "recreate", "want"),
    [
        (4, 1, 0, False, True),
        (3, 1, 0, False, False),
        (3, 0, 1, False, True),
        (3, 3, 0, False, False),
        (4, 3, 0, False, True),
        (3, 1, 1, False, True),
        (3, 0, 0, True, True),
        (2, 0, 1, False, False),
        (2, 0, 0, True, False),
    ],
)
def test_where_a_rollout_ends(slots: int, surge: int, unavailable: int, recreate: bool, want: bool) -> None:
    assert rollout_ends(3, slots, surge=surge, unavailable=unavailable, recreate=recreate) is want


def test_matching_moves_those_who_can_go_elsewhere() -> None:
    assert matched({"a": ["1", "2"], "b": ["1"]}) == 2
    assert matched({"a": ["1"], "b": ["1"]}) == 1


def test_quantities() -> None:
    assert [amount(text) for text in ("1", "500m", "16Mi", "2Gi")] == [1.0, 0.5, 16 * 2**20, 2 * 2**30]


def test_a_pod_that_is_leaving_still_takes_room() -> None:
    leaving = copy.deepcopy(pod("old", "n1"))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    small = node("n1", 1)
    assert not fits(pod("new"), small, Scene([small], [], [leaving]))
