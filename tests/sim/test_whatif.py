"""What changes to a cluster come to: who moves, who waits, who goes, how full it is and what it costs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest

from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest, workload_manifest
from moorage.plugins.cost_aware import CostAware
from moorage.sim.difference import Difference, Why
from moorage.sim.difference_report import difference_document, write_difference
from moorage.sim.simulation import SimulationRules, simulate
from moorage.sim.whatif import WhatIf, cluster_input, readable, what_if
from moorage.sim.whatif_changes import AddNodes, Afresh, Change, ChangeError, Drain, Scale, parse_scale
from moorage.wire.manifests import manifests_of
from tests.plugins.controlled import packing_rules
from tests.sim.whatif_rules import default_rules

Object = dict[str, Any]
SPOT = {"node.kubernetes.io/capacity": "spot"}
STEADY = {"node.kubernetes.io/capacity": "on-demand"}


def owned(pod: Object, kind: str, name: str) -> Object:
    """The pod with a controller."""
    api = "v1" if kind in ("Node", "ReplicationController") else "apps/v1"
    reference = {"apiVersion": api, "kind": kind, "name": name, "uid": f"of-{name}", "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}}


def replica(name: str, node: str, owner: str = "web", **fields: Any) -> Object:
    """A pod of a ReplicaSet that runs on a node."""
    return owned(pod_manifest(name, labels={"app": owner}, nodeName=node, **fields), "ReplicaSet", owner)


def replica_set(name: str = "web", replicas: int = 2, **fields: Any) -> Object:
    return workload_manifest("ReplicaSet", name, own={"replicas": replicas}, **fields)


def asked(
    objects: list[Object],
    *changes: Change,
    rules: SimulationRules | None = None,
    base_rules: SimulationRules | None = None,
) -> WhatIf:
    given = cluster_input(objects, "test")
    assert given.problems == []
    return what_if(given, changes, rules or default_rules(), base_rules=base_rules)


def difference(objects: list[Object], *changes: Change, rules: SimulationRules | None = None) -> Difference:
    return asked(objects, *changes, rules=rules).difference


def moves(found: Difference) -> list[tuple[str, str, str]]:
    return [(move.name, move.source, move.target) for move in found.moves]


def names(pods: Any) -> list[str]:
    return [pod.name for pod in pods]


TWO_NODES = [node_manifest("n1"), node_manifest("n2")]


def test_no_change_no_difference() -> None:
    """What both ends have in common is no difference, also where pods are placed on the way."""
    objects = [*TWO_NODES, replica_set(replicas=3), replica("web-a", "n1"), pod_manifest("huge", cpu="64")]
    found = asked(objects)
    document = difference_document(found.difference)
    assert {part: document[part] for part in document["summary"]} == {part: [] for part in document["summary"]}
    assert found.before.nodes == found.after.nodes
    assert [(story.name, story.node) for story in found.after.pods] == [
        (story.name, story.node) for story in simulate(cluster_input(objects, "test"), default_rules()).pods
    ]


def test_drained_pods_come_back_elsewhere_under_another_name() -> None:
    """The controllers make them again; each is a move from the old node to the new one."""
    found = difference([*TWO_NODES, replica_set(), replica("web-a", "n1"), replica("web-b", "n2")], Drain("n1"))
    (move,) = found.moves
    assert (move.name, move.source, move.target, move.becomes, move.why) == ("web-a", "n1", "n2", "web-0", Why.DRAIN)
    (eviction,) = found.evicted
    assert (eviction.name, eviction.node, eviction.returns) == ("web-a", "n1", "default/web-0")
    assert found.removed == []
    assert found.added == []


def test_drained_pods_of_a_deployment_whose_replica_sets_are_not_in_the_input() -> None:
    """The name of the ReplicaSet tells the Deployment."""
    pod = replica("web-77-a", "n1", "web-77")
    pod["metadata"]["labels"]["pod-template-hash"] = "77"
    found = difference([*TWO_NODES, workload_manifest("Deployment", "web", own={"replicas": 1}), pod], Drain("n1"))
    assert moves(found) == [("web-77-a", "n1", "n2")]


def test_stateful_pods_keep_their_names() -> None:
    """A StatefulSet's pod is the same one wherever it stands."""
    pod = owned(pod_manifest("db-0", labels={"app": "db"}, nodeName="n1"), "StatefulSet", "db")
    found = difference([*TWO_NODES, workload_manifest("StatefulSet", "db", own={"replicas": 1}), pod], Drain("n1"))
    assert [(move.name, move.becomes, move.target) for move in found.moves] == [("db-0", None, "n2")]
    assert names(found.evicted) == ["db-0"]


def test_what_fits_nowhere_else_waits_and_says_why() -> None:
    """The message is that of the scheduler."""
    objects = [
        node_manifest("n1", cpu="4"),
        node_manifest("n2", cpu="1"),
        replica_set(replicas=1, cpu="3"),
        replica("web-a", "n1", cpu="3"),
    ]
    (wait,) = difference(objects, Drain("n1")).waits
    assert (wait.name, wait.source, wait.becomes) == ("web-a", "n1", "web-0")
    assert wait.message.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.")


def test_daemons_and_static_pods_stay() -> None:
    """As with `kubectl drain --ignore-daemonsets`."""
    static = pod_manifest("static", nodeName="n1", annotations={"kubernetes.io/config.mirror": "x"})
    daemons = [owned(pod_manifest(f"agent-{node}", nodeName=node), "DaemonSet", "agent") for node in ("n1", "n2")]
    found = asked([*TWO_NODES, workload_manifest("DaemonSet", "agent"), static, *daemons], Drain("n1"))
    assert found.difference.evicted == []
    assert found.difference.removed == []
    assert found.after.nodes["n1"].pods == 2


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(
            pod_manifest("bare", nodeName="n1"),
            "drain n1: default/bare has no controller, so that it is gone for good; kubectl drain wants --force",
            id="bare",
        ),
        pytest.param(
            replica("lost", "n1", "elsewhere"),
            "drain n1: default/lost is not made again, as its ReplicaSet elsewhere is not known here",
            id="controller-unknown",
        ),
    ],
)
def test_what_nobody_makes_again_is_said(pod: Object, want: str) -> None:
    """It is evicted, comes back as nobody, and there is a note."""
    found = difference([*TWO_NODES, pod], Drain("n1"))
    assert found.notes == [want]
    assert [each.returns for each in found.evicted] == [None]
    assert found.moves == []
    assert found.removed == []


def test_lost_scratch_space_is_said() -> None:
    """Such pods are refused by kubectl drain unless it is told otherwise."""
    pod = replica("web-a", "n1", volumes=[{"name": "tmp", "emptyDir": {}}])
    found = difference([*TWO_NODES, replica_set(replicas=1), pod], Drain("n1"))
    assert found.notes == ["drain n1: 1 pod loses its emptyDir volumes; kubectl drain wants --delete-emptydir-data"]


def test_finished_and_ending_pods_are_no_evictions() -> None:
    """They go anyway."""
    done = {**pod_manifest("done", nodeName="n1"), "status": {"phase": "Succeeded"}}
    ending = pod_manifest("ending", nodeName="n1")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = difference([*TWO_NODES, done, ending], Drain("n1"))
    assert (found.evicted, found.notes) == ([], [])


def test_pods_held_by_finalizers_are_drained_too() -> None:
    """Pods of Jobs carry one that the Job's controller takes off."""
    pod = replica("web-a", "n1")
    pod["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    assert moves(difference([*TWO_NODES, replica_set(replicas=1), pod], Drain("n1"))) == [("web-a", "n1", "n2")]


def test_a_drain_may_push_others_out() -> None:
    """Evictions by preemption name whom they make room for."""
    important = {**manifest("PriorityClass", "important"), "value": 1000}
    objects = [
        node_manifest("n1", cpu="4"),
        node_manifest("n2", cpu="4"),
        important,
        replica_set(replicas=1, cpu="3", priorityClassName="important"),
        replica("web-a", "n1", cpu="3", priorityClassName="important"),
        pod_manifest("small", cpu="2", nodeName="n2"),
    ]
    found = difference(objects, Drain("n1"))
    evicted = {each.name: (each.why, each.node, each.by, each.returns) for each in found.evicted}
    assert evicted == {
        "web-a": (Why.DRAIN, "n1", None, "default/web-0"),
        "small": (Why.PREEMPTION, "n2", "default/web-0", None),
    }
    assert moves(found) == [("web-a", "n1", "n2")]


def budget(status: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    parts: dict[str, Any] = {"spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    if status is not None:
        parts["status"] = status
    return manifest("PodDisruptionBudget", "web", "default", **parts)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(budget({"disruptionsAllowed": 2}, minAvailable=1), None, id="all-allowed"),
        pytest.param(
            budget({"disruptionsAllowed": 0}, minAvailable=3), (0, 2, "kubectl drain would wait"), id="none-allowed"
        ),
        pytest.param(budget({"disruptionsAllowed": 1}, minAvailable=2), (1, 2, "1 at a time"), id="one-at-a-time"),
        pytest.param(budget(None, minAvailable=2), (1, 2, "1 at a time"), id="computed-from-a-number"),
        pytest.param(budget(None, maxUnavailable="100%"), None, id="computed-from-a-percentage"),
    ],
)
def test_budgets_that_a_drain_would_break(given: Object, want: tuple[int, int, str] | None) -> None:
    """What they allow is taken from their status, or computed where nobody has done so."""
    pods = [replica("web-a", "n1"), replica("web-b", "n1"), replica("web-c", "n2")]
    for pod in pods:
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    notes = difference([*TWO_NODES, replica_set(replicas=3), *pods, given], Drain("n1")).budgets
    if want is None:
        assert notes == []
        return
    (note,) = notes
    assert (note.name, note.allowed, note.evicted) == ("web", *want[:2])
    assert want[2] in note.message


def test_pods_of_two_budgets_cannot_be_evicted() -> None:
    """The API server refuses that, so it is said."""
    second = budget(None, maxUnavailable=1)
    second["metadata"]["name"] = "web-too"
    objects = [*TWO_NODES, replica_set(replicas=1), replica("web-a", "n1"), budget(None, maxUnavailable=1), second]
    assert difference(objects, Drain("n1")).notes == [
        "drain n1: default/web-a has more than one budget (web and web-too), so that the API server refuses to evict it"
    ]


def test_more_replicas() -> None:
    """Those that find a node are added, the others wait."""
    found = difference(
        [node_manifest("n1", cpu="2"), replica_set(replicas=1, cpu="1")], Scale("ReplicaSet", "default", "web", 3)
    )
    assert [(pod.name, pod.node) for pod in found.added] == [("web-1", "n1")]
    assert [(wait.name, wait.source, wait.becomes) for wait in found.waits] == [("web-2", None, None)]


def test_fewer_replicas_let_others_in() -> None:
    """Who waited starts where room was made."""
    objects = [
        node_manifest("n1", cpu="2"),
        replica_set(replicas=2, cpu="1"),
        replica("web-a", "n1", cpu="1"),
        replica("web-b", "n1", cpu="1"),
        pod_manifest("patient", cpu="1"),
    ]
    objects[3]["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    found = difference(objects, parse_scale("rs/web=1"))
    assert [(pod.name, pod.node) for pod in found.removed] == [("web-b", "n1")]
    assert [(pod.name, pod.node) for pod in found.starts] == [("patient", "n1")]


def test_a_deployment_shrinks_by_its_former_replica_sets_first() -> None:
    """And the newest ReplicaSet gets what the others leave."""
    deployment = workload_manifest("Deployment", "web", own={"replicas": 2})
    sets, pods = [], []
    for revision in (1, 2):
        each = replica_set(f"web-{revision}", 1)
        each["metadata"]["labels"] = {"pod-template-hash": str(revision)}
        each["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": str(revision)}
        sets.append(owned(each, "Deployment", "web"))
        pod = replica(f"web-{revision}-a", "n1", f"web-{revision}")
        pod["metadata"]["labels"]["pod-template-hash"] = str(revision)
        pods.append(pod)
    found = difference([*TWO_NODES, deployment, *sets, *pods], parse_scale("deploy/web=1"))
    assert names(found.removed) == ["web-1-a"]


def test_a_stateful_set_shrinks_from_its_end() -> None:
    """By ordinal, not by name."""
    stateful = workload_manifest("StatefulSet", "db", own={"replicas": 11})
    found = difference([*TWO_NODES, stateful], Scale("StatefulSet", "default", "db", 9))
    assert names(found.removed) == ["db-10", "db-9"]


def test_new_nodes_take_those_who_wait() -> None:
    """They are like the model, and as new: not cordoned, without what its moment put on it."""
    model = node_manifest(
        "n1",
        cpu="2",
        labels={"pool": "blue"},
        taints=[
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "team", "value": "blue", "effect": "NoSchedule"},
        ],
    )
    model["spec"]["unschedulable"] = True
    tolerations = [{"key": "team", "operator": "Exists"}]
    objects = [
        model,
        replica_set(replicas=3, cpu="1", tolerations=tolerations, nodeSelector={"pool": "blue"}),
        workload_manifest("DaemonSet", "agent", tolerations=tolerations, cpu="100m"),
    ]
    found = asked(objects, AddNodes(2, "n1"))
    assert sorted(str(pod.node) for pod in found.difference.starts) == ["n1-new-1", "n1-new-2"]
    assert sorted(str(pod.node) for pod in found.difference.added) == ["n1-new-1", "n1-new-2"]
    assert found.difference.utilisation["all"][1].nodes == 3
    world = found.after.world
    assert world is not None
    node = world.cluster.store.get("Node", "", "n1-new-1")
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1-new-1"
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["team"]


def test_everything_afresh_under_another_configuration() -> None:
    """Where a profile that packs would have put the pods that stand apart now; names stay."""
    pods = [replica("web-a", "n1"), replica("web-b", "n2"), pod_manifest("bare", nodeName="n2")]
    found = asked([*TWO_NODES, replica_set(), *pods], Afresh(), rules=packing_rules(CostAware, {"prices": PRICES}))
    assert len({load.pods for load in found.after.nodes.values()}) == 2
    assert sorted(load.pods for load in found.after.nodes.values()) == [0, 3]
    assert all(move.becomes is None and move.why is Why.PLACEMENT for move in found.difference.moves)
    assert found.difference.moves
    assert (found.difference.evicted, found.difference.added, found.difference.removed) == ([], [], [])


PRICES = [
    {"capacityType": "spot", "pricePerHour": "0.1"},
    {"capacityType": "on-demand", "pricePerHour": "0.5"},
]


def test_another_configuration_for_those_who_wait() -> None:
    """`base_rules` decide for the unchanged cluster."""
    objects = [*TWO_NODES, pod_manifest("old", nodeName="n1", cpu="1"), pod_manifest("new", cpu="1")]
    rules = packing_rules(CostAware, {"prices": PRICES})
    found = asked(objects, rules=rules, base_rules=default_rules()).difference
    assert moves(found) == [("new", "n2", "n1")]
    assert found.changes == ["another configuration"]
    assert [*asked(objects, rules=rules).difference.moves] == []


def test_utilisation_and_cost() -> None:
    """By capacity type and in all; drained nodes do not count any more, neither as capacity nor as cost."""
    objects = [
        node_manifest("n1", cpu="4", memory="8Gi", labels=STEADY),
        node_manifest("n2", cpu="2", memory="8Gi", labels=SPOT),
        node_manifest("n3", cpu="2", memory="8Gi"),
        {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "PriceList",
            "metadata": {"name": "cloud"},
            "currency": "EUR",
            "prices": PRICES,
        },
        replica_set(replicas=1, cpu="1", memory="2Gi", nodeSelector=SPOT),
        replica("web-a", "n1", cpu="1", memory="2Gi"),
    ]
    document = difference_document(difference(objects, Drain("n1")))
    assert document["utilisation"]["all"]["before"] == {
        "nodes": 3,
        "pods": 1,
        "cpu": {"requested": "1", "allocatable": "8", "percent": 12.5},
        "memory": {"requested": "2Gi", "allocatable": "24Gi", "percent": 8.3},
    }
    assert document["utilisation"]["all"]["after"]["cpu"] == {"requested": "1", "allocatable": "4", "percent": 25.0}
    assert document["utilisation"]["on-demand"]["after"]["nodes"] == 0
    assert document["utilisation"]["spot"]["after"]["cpu"]["percent"] == 50.0
    assert document["cost"] == {
        "currency": "EUR",
        "before": {"inUse": "0.5000", "all": "0.6000", "nodesInUse": 1},
        "after": {"inUse": "0.1000", "all": "0.1000", "nodesInUse": 1},
        "withoutPrice": ["n3"],
        "stale": False,
    }


def test_a_pod_that_waits_so_that_its_equal_starts_has_moved() -> None:
    """Names of equal pods do not matter to those who run them."""
    objects = [
        node_manifest("n1", cpu="1"),
        node_manifest("n2", cpu="1"),
        replica_set(replicas=3, cpu="1"),
        replica("web-a", "n1", cpu="1"),
        pod_manifest("other", cpu="1", nodeName="n2"),
    ]
    found = difference([*objects, replica_set("more", 1, cpu="1")], Drain("n1"), AddNodes(1, "n2"))
    assert (moves(found), found.starts) == ([("web-a", "n1", "n2-new-1")], [])


def test_the_end_is_that_of_a_cluster_that_was_changed_by_hand() -> None:
    """A drain of settled pods is the simulation of files in which they are gone and the node is cordoned."""
    pods = [replica(f"web-{letter}", node) for letter, node in zip("abcdef", ["n1", "n2"] * 3, strict=True)]
    rest = [replica_set(replicas=6), node_manifest("n2"), node_manifest("n3", cpu="8")]
    found = asked([node_manifest("n1"), *rest, *pods], Drain("n1"))
    cordoned = node_manifest("n1", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])
    cordoned["spec"]["unschedulable"] = True
    by_hand = cluster_input([cordoned, *rest, *(pod for pod in pods if pod["spec"]["nodeName"] != "n1")], "test")
    want = simulate(by_hand, default_rules())
    assert found.after.nodes == want.nodes
    assert [(story.name, story.node) for story in found.after.pods] == [(s.name, s.node) for s in want.pods]


def test_what_cannot_be_read_of_a_live_cluster_is_left_out() -> None:
    """With a line; the others stay."""
    odd = manifest("PodDisruptionBudget", "odd", "default", spec={"selector": {"matchLabels": 7}})
    found, lines = readable(manifests_of([*TWO_NODES, odd], "https://server"))
    assert [each.name for each in found.objects] == ["n1", "n2"]
    (line,) = lines
    assert line.startswith("left out, it cannot be read: https://server: PodDisruptionBudget default/odd")


def random_cluster(chance: random.Random) -> list[Object]:
    """Some nodes, workloads of several kinds with some of their pods in place, and pods of nobody."""
    nodes = [f"n{number}" for number in range(chance.randint(2, 6))]
    objects = [node_manifest(name, cpu=str(chance.randint(1, 4))) for name in nodes]
    objects.append({**manifest("PriorityClass", "important"), "value": 1000})
    for number in range(chance.randint(1, 4)):
        kind, name = chance.choice(["ReplicaSet", "StatefulSet"]), f"w{number}"
        spec: dict[str, Any] = {"cpu": chance.choice(["200m", "700m", "1500m"])}
        if chance.random() < 0.3:
            spec["priorityClassName"] = "important"
        replicas = chance.randint(0, 6)
        objects.append(workload_manifest(kind, name, own={"replicas": replicas}, **spec))
        for ordinal in chance.sample(range(replicas), chance.randint(0, replicas)):
            pod = pod_manifest(f"{name}-{ordinal}", labels={"app": name}, nodeName=chance.choice(nodes), **spec)
            objects.append(owned(pod, kind, name))
    objects.append(workload_manifest("DaemonSet", "agent", cpu="10m"))
    objects += [
        pod_manifest(f"bare-{i}", nodeName=chance.choice(nodes), cpu="100m") for i in range(chance.randint(0, 3))
    ]
    return objects


def random_change(chance: random.Random, objects: list[Object]) -> Change:
    node = chance.choice([each["metadata"]["name"] for each in objects if each["kind"] == "Node"])
    workload = chance.choice([each for each in objects if each["kind"] in ("ReplicaSet", "StatefulSet")])
    scale = Scale(workload["kind"], "default", workload["metadata"]["name"], chance.randint(0, 8))
    choices: list[Change] = [Drain(node), Drain(node), scale, AddNodes(chance.randint(1, 2), node), Afresh()]
    return chance.choice(choices)


@pytest.mark.parametrize("seed", range(25))
def test_the_books_balance(seed: int) -> None:
    """Whatever the changes: every pod has one fate, and the numbers of before, the fates and after fit together."""
    chance = random.Random(seed)
    objects = random_cluster(chance)
    changes = [random_change(chance, objects) for _ in range(chance.randint(1, 3))]
    found = asked(objects, *changes)
    told, before = found.difference, found.difference.utilisation["all"][0].pods
    fates = [(each.namespace, each.name) for part in (told.moves, told.waits, told.starts) for each in part]
    assert len(fates) == len(set(fates))
    lost = sum(wait.source is not None for wait in told.waits)
    gone = {each.name for each in told.removed if each.node} | {each.name for each in told.evicted if not each.returns}
    drained = {change.node for change in changes if isinstance(change, Drain)}
    after = sum(load.pods for load in found.after.nodes.values())
    assert after == before - lost - len(gone) + len(told.starts) + len(told.added)
    assert all(load.pods <= 1 for name, load in found.after.nodes.items() if name in drained)
    assert not {move.target for move in told.moves} & drained


def test_twice_the_same() -> None:
    """Same cluster, same changes: same difference, also with rules that were used before."""
    objects = [*TWO_NODES, node_manifest("n3"), replica_set(replicas=9), *(replica(f"w{i}", "n1") for i in range(5))]
    rules = default_rules()
    first, second = (difference(objects, Drain("n1"), rules=rules) for _ in range(2))
    assert difference_document(first) == difference_document(second)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param([Drain("n9")], "drain n9: there is no node 'n9'; name one of n1, n2", id="node"),
        pytest.param([AddNodes(1, "n1-x")], "there is no node 'n1-x'; did you mean n1?", id="like"),
        pytest.param(
            [AddNodes(10**9, "n1")], "1000000000 is not a number of nodes; write 1 to 100000", id="many-nodes"
        ),
        pytest.param(
            [Scale("Deployment", "default", "web", -1)], "-1 is not a number of replicas", id="fewer-than-none"
        ),
        pytest.param(
            [Scale("Deployment", "default", "wep", 1)], "no Deployment default/wep; did you mean web?", id="workload"
        ),
        pytest.param(
            [Scale("Deployment", "other", "web", 1)], "did you mean default/Deployment/web?", id="other-namespace"
        ),
        pytest.param(
            [Scale("ReplicaSet", "default", "web-1", 1)],
            "it belongs to Deployment/web, which would undo it; scale Deployment/web",
            id="owned",
        ),
    ],
)
def test_changes_to_what_is_not_there(changes: list[Change], want: str) -> None:
    """One line for each, with what may have been meant."""
    owned_set = owned(replica_set("web-1", 1), "Deployment", "web")
    objects = [*TWO_NODES, workload_manifest("Deployment", "web", own={"replicas": 1}), owned_set]
    with pytest.raises(ChangeError) as caught:
        asked(objects, *changes)
    (problem,) = caught.value.problems
    assert want in problem


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Deployment/web=5", Scale("Deployment", "here", "web", 5)),
        ("deploy/web=0", Scale("Deployment", "here", "web", 0)),
        ("there/sts/db=3", Scale("StatefulSet", "there", "db", 3)),
        ("replicasets.apps/x=1", Scale("ReplicaSet", "here", "x", 1)),
        ("rc/x=1", Scale("ReplicationController", "here", "x", 1)),
        ("web=5", "write KIND/NAME=N"),
        ("Deployment/web", "write KIND/NAME=N"),
        ("Deployment//web=1", "write KIND/NAME=N"),
        ("a/b/c/d=1", "write KIND/NAME=N"),
        ("=1", "write KIND/NAME=N"),
        ("DaemonSet/web=5", "'DaemonSet' has no number of replicas"),
        ("Deployment/web=-1", "'-1' is not a number of replicas"),
        ("Deployment/web=\N{FULLWIDTH DIGIT FIVE}", "is not a number of replicas"),
        ("Deployment/web=99999999999", "is not a number of replicas"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_texts_of_scales(text: str, want: Scale | str) -> None:
    """Kinds may be named as for kubectl; whatever is not understood is one line with the remedy."""
    if isinstance(want, Scale):
        assert parse_scale(text, "here") == want
        return
    with pytest.raises(ChangeError) as caught:
        parse_scale(text, "here")
    assert want in caught.value.problems[0]


def test_the_table_says_each_thing_once() -> None:
    """Drained pods that move are rows of MOVES; who is gone for good is a row of EVICTED."""
    objects = [*TWO_NODES, replica_set(replicas=1), replica("web-a", "n1"), pod_manifest("bare", nodeName="n1")]
    out = StringIO()
    write_difference(difference(objects, Drain("n1")), out)
    assert out.getvalue().splitlines() == [
        "MOVES          FROM  TO  AS     WHY",
        "default/web-a  n1    n2  web-0  drain",
        "",
        "EVICTED       FROM  WHY    COMES BACK AS",
        "default/bare  n1    drain  -",
        "",
        "CAPACITY  NODES   PODS    CPU   MEMORY",
        "all       2 -> 1  2 -> 1  2.5%  0.8%",
        "unknown   2 -> 1  2 -> 1  2.5%  0.8%",
        "",
        "drain n1: default/bare has no controller, so that it is gone for good; kubectl drain wants --force",
        "1 moved, 0 waiting, 0 started, 2 evicted, 0 added, 0 removed",
    ]


def test_new_nodes_have_devices_of_their_own() -> None:
    """A copy of a node with a GPU has one, too, in a pool of its own: the pod that waits for one gets it."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    gpus = {"driver": "gpu", "nodeName": "n1", "pool": pool, "devices": [{"name": "gpu-0"}]}
    wanted = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    objects = [
        *TWO_NODES,
        manifest("DeviceClass", "gpu", spec={}),
        manifest("ResourceSlice", "n1-gpus", spec=gpus),
        manifest("ResourceClaimTemplate", "one", "default", spec=wanted),
        pod_manifest("first", resourceClaims=claims),
        pod_manifest("second", resourceClaims=claims),
    ]
    alone = simulate(cluster_input(objects, "test"), default_rules())
    assert [(story.name, story.node) for story in alone.pods] == [("first", "n1"), ("second", None)]
    found = asked(objects, AddNodes(1, "n1"))
    assert [(story.name, story.node) for story in found.after.pods] == [("first", "n1"), ("second", "n1-new-1")]
