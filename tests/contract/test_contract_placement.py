"""Where pods go, and what they are told when they go nowhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.contract.cluster import Cluster, Manifest
from tests.contract.manifests import (
    a_node,
    a_pod,
    a_priority_class,
    events_of,
    eventually_on,
    eventually_refused,
    node_in,
    node_of,
    placements,
    scheduled_condition,
    taint,
)
from tests.controlplane_fixtures import serves

TOLERATES_DB = [{"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}]


def test_pods_are_bound_to_nodes_that_have_room(cluster: Cluster) -> None:
    """Each pod goes to the only node that is large enough for it."""
    cluster.create(a_node("small", cpu="2"))
    cluster.create(a_node("large", cpu="8"))
    cluster.create(a_pod("heavy", cpu="7"))
    eventually_on(cluster, "heavy", "large")
    cluster.create(a_pod("light", cpu="1500m"))
    eventually_on(cluster, "light", "small")
    assert scheduled_condition(cluster, "light")["status"] == "True"


def test_nothing_is_placed_beyond_what_nodes_offer(cluster: Cluster) -> None:
    """Of twenty pods of one core twelve fit on three nodes of four, and the others say what they lack."""
    for number in range(3):
        cluster.create(a_node(f"n{number}", cpu="4"))
    for number in range(20):
        cluster.create(a_pod(f"p{number}"))
    cluster.eventually(lambda: len(placements(cluster)) == 12, "the nodes are full")
    cluster.hold(lambda: len(placements(cluster)) == 12, "no pod is bound to a full node")
    assert Counter(placements(cluster).values()) == {"n0": 4, "n1": 4, "n2": 4}


def test_a_node_takes_only_as_many_pods_as_it_says(cluster: Cluster) -> None:
    """The number of pods is a resource like any other."""
    cluster.create(a_node("n", pods="2"))
    for name in ("a", "b"):
        cluster.create(a_pod(name, cpu="100m"))
        eventually_on(cluster, name, "n")
    cluster.create(a_pod("c", cpu="100m"))
    eventually_refused(cluster, "c", "0/1 nodes are available: 1 Too many pods.")


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, "ssd", id="node selector"),
        pytest.param({"affinity": node_in({"disk": ["ssd", "nvme"]})}, "ssd", id="node affinity"),
        pytest.param({"affinity": node_in({"zone": ["z1"], "disk": ["hdd"]})}, "hdd", id="two expressions"),
        pytest.param({"tolerations": TOLERATES_DB, "nodeSelector": {"disk": "tape"}}, "tainted", id="toleration"),
    ],
)
def test_pods_go_where_their_rules_allow(cluster: Cluster, spec: dict[str, Any], want: str) -> None:
    """Selectors, affinity and tolerations single out one node of three."""
    cluster.create(a_node("ssd", labels={"disk": "ssd", "zone": "z2"}))
    cluster.create(a_node("hdd", labels={"disk": "hdd", "zone": "z1"}))
    cluster.create(a_node("tainted", labels={"disk": "tape"}, taints=[taint("dedicated", "db")]))
    cluster.create(a_pod("p", **spec))
    eventually_on(cluster, "p", want)


def test_a_host_port_is_given_once_per_node(cluster: Cluster) -> None:
    """The second pod goes to the other node, the third nowhere, a pod with another port anywhere."""
    cluster.create(a_node("n1"))
    cluster.create(a_node("n2"))
    for name in ("first", "second"):
        cluster.create(a_pod(name, port=8080))
    cluster.eventually(lambda: len(placements(cluster)) == 2, "both pods are bound")
    assert set(placements(cluster).values()) == {"n1", "n2"}
    cluster.create(a_pod("third", port=8080))
    want = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
    eventually_refused(cluster, "third", want)
    cluster.create(a_pod("other", port=8081))
    cluster.eventually(lambda: node_of(cluster, "other"), "the pod with another port is bound")


def test_the_most_important_pod_is_placed_first(cluster: Cluster) -> None:
    """Of three pods that wait for one place the one of the highest priority gets it, though it came last."""
    for name, value in (("low", 1), ("middle", 10), ("high", 100)):
        cluster.create(a_priority_class(name, value))
    with cluster.scheduler_away():
        cluster.create(a_node("n", cpu="1"))
        for name in ("low", "middle", "high"):
            cluster.create(a_pod(name, priorityClassName=name))
    eventually_on(cluster, "high", "n")
    eventually_refused(cluster, "middle", "0/1 nodes are available: 1 Insufficient cpu.")
    cluster.hold(lambda: placements(cluster) == {"high": "n"}, "the others wait")


def test_each_profile_places_by_its_own_rules(cluster: Cluster) -> None:
    """With one node half full, `moorage` takes the empty one and `packer` fills the other up."""
    cluster.create(a_node("empty", cpu="8"))
    cluster.create(a_node("half", cpu="8"))
    cluster.create(a_pod("load", cpu="4", scheduler="somebody-else", nodeName="half"))
    cluster.settle()
    cluster.create(a_pod("packed", cpu="1", scheduler="packer"))
    eventually_on(cluster, "packed", "half")
    cluster.create(a_pod("spread", cpu="1", scheduler="moorage"))
    eventually_on(cluster, "spread", "empty")
    cluster.eventually(lambda: events_of(cluster, "packed", "Scheduled"), "the event is there")
    assert events_of(cluster, "packed", "Scheduled")[0]["reportingController"] == "packer"


def test_pods_of_other_schedulers_are_left_alone(cluster: Cluster) -> None:
    """They are not bound, and nothing is said about them."""
    cluster.create(a_node("n"))
    cluster.create(a_pod("foreign", scheduler="somebody-else"))
    cluster.create(a_pod("ours"))
    eventually_on(cluster, "ours", "n")
    cluster.hold(lambda: placements(cluster) == {"ours": "n"}, "the other scheduler's pod waits")
    assert scheduled_condition(cluster, "foreign") == {}
    assert events_of(cluster, "foreign", "FailedScheduling") == []


REFUSALS = [
    pytest.param([], {}, "no nodes available to schedule pods", id="no nodes"),
    pytest.param([a_node("n")], {"cpu": "5"}, "0/1 nodes are available: 1 Insufficient cpu.", id="too large"),
    pytest.param(
        [a_node("a", unschedulable=True), a_node("b", cpu="500m")],
        {},
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.",
        id="cordoned",
    ),
    pytest.param(
        [a_node("a", taints=[taint("dedicated", "db")]), a_node("b")],
        {"nodeSelector": {"disk": "ssd"}, "tolerations": []},
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s).",
        id="taint and selector",
    ),
    pytest.param(
        [a_node(f"n{number}", cpu="500m") for number in range(10)] + [a_node("x", taints=[taint("broken")])],
        {},
        "0/11 nodes are available: 1 node(s) had untolerated taint(s), 10 Insufficient cpu.",
        id="order of reasons",
    ),
]


@pytest.mark.parametrize(("nodes", "pod", "want"), REFUSALS)
def test_an_unschedulable_pod_says_why(cluster: Cluster, nodes: list[Manifest], pod: dict[str, Any], want: str) -> None:
    """Condition and event carry the same text, in kube-scheduler's words and order."""
    for node in nodes:
        cluster.create(node)
    stored = cluster.create(a_pod("p", **pod))
    eventually_refused(cluster, "p", want)
    condition = scheduled_condition(cluster, "p")
    assert condition["status"] == "False"
    observed = condition.get("observedGeneration") == stored["metadata"].get("generation")
    assert observed or not serves(1, 34), "older servers may drop it"
    cluster.eventually(lambda: events_of(cluster, "p", "FailedScheduling"), "the event is there")
    notes = {event["note"] for event in events_of(cluster, "p", "FailedScheduling")}
    assert condition["message"] in notes


def test_events_tell_what_was_decided(cluster: Cluster) -> None:
    """FailedScheduling while it waits, Scheduled once it is bound, with the reporter and the action of a scheduler."""
    cluster.create(a_pod("p"))
    cluster.eventually(lambda: events_of(cluster, "p", "FailedScheduling"), "the failure is told")
    failed = events_of(cluster, "p", "FailedScheduling")[0]
    assert (failed["type"], failed["action"], failed["reportingController"]) == ("Warning", "Scheduling", "moorage")
    cluster.create(a_node("n"))
    cluster.eventually(lambda: events_of(cluster, "p", "Scheduled"), "the placement is told")
    (scheduled,) = events_of(cluster, "p", "Scheduled")
    assert (scheduled["type"], scheduled["action"], scheduled["reportingController"]) == (
        "Normal",
        "Binding",
        "moorage",
    )
    assert scheduled["note"] == "Successfully assigned default/p to n"
    pod = cluster.find("Pod", "p")
    assert pod is not None
    assert scheduled["regarding"]["uid"] == pod["metadata"]["uid"]
