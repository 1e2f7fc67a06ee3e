"""Pods that wait, and what ends their wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.cluster import Cluster
from tests.contract.manifests import (
    a_node,
    a_pod,
    events_of,
    eventually_on,
    eventually_refused,
    node_of,
    placements,
    scheduled_condition,
    taint,
)

GATE = [{"name": "example.com/quota"}]


def test_a_gate_holds_a_pod_until_it_is_removed(cluster: Cluster) -> None:
    """A gated pod is not even tried; without its gates it is placed at once."""
    cluster.create(a_node("n"))
    cluster.create(a_pod("p", schedulingGates=GATE))
    cluster.hold(lambda: node_of(cluster, "p") is None, "the gate holds")
    assert scheduled_condition(cluster, "p")["reason"] == "SchedulingGated"
    assert events_of(cluster, "p", "FailedScheduling") == []
    cluster.patch("Pod", "p", {"spec": {"schedulingGates": None}})
    eventually_on(cluster, "p", "n")


NO_ROOM = "1 Insufficient cpu"
RELIEFS: list[Any] = [
    pytest.param({}, {}, NO_ROOM, lambda c: c.delete("Pod", "tenant"), id="a pod is deleted"),
    pytest.param(
        {}, {}, NO_ROOM, lambda c: c.patch("Pod", "tenant", {"status": {"phase": "Succeeded"}}), id="a pod is finished"
    ),
    pytest.param(
        {}, {}, NO_ROOM, lambda c: c.patch("Node", "n", {"status": {"allocatable": {"cpu": "9"}}}), id="a node grows"
    ),
    pytest.param(
        {},
        {"nodeSelector": {"disk": "ssd"}, "cpu": "1"},
        "1 node(s) didn't match Pod's node affinity/selector",
        lambda c: c.patch("Node", "n", {"metadata": {"labels": {"disk": "ssd"}}}),
        id="a label appears",
    ),
    pytest.param(
        {"unschedulable": True},
        {"cpu": "1"},
        "1 node(s) were unschedulable",
        lambda c: c.patch("Node", "n", {"spec": {"unschedulable": None}}),
        id="a node is uncordoned",
    ),
    pytest.param(
        {"taints": [taint("maintenance")]},
        {"cpu": "1"},
        "1 node(s) had untolerated taint(s)",
        lambda c: c.patch("Node", "n", {"spec": {"taints": None}}),
        id="a taint is removed",
    ),
]


@pytest.mark.parametrize(("node", "pod", "reason", "relief"), RELIEFS)
def test_a_waiting_pod_is_placed_when(
    cluster: Cluster, node: dict[str, Any], pod: dict[str, Any], reason: str, relief: Callable[[Cluster], None]
) -> None:
    """One pod holds half of the only node; the other cannot be placed until something changes."""
    cluster.create(a_node("n", cpu="4", **node))
    cluster.create(a_pod("tenant", cpu="2", scheduler="somebody-else", nodeName="n"))
    cluster.create(a_pod("p", **{"cpu": "3", **pod}))
    eventually_refused(cluster, "p", f"0/1 nodes are available: {reason}.")
    relief(cluster)
    eventually_on(cluster, "p", "n")


def test_a_waiting_pod_is_placed_on_a_new_node(cluster: Cluster) -> None:
    """A node that is too small changes the message, one that is large enough ends the wait."""
    cluster.create(a_pod("p", cpu="2"))
    eventually_refused(cluster, "p", "no nodes available to schedule pods")
    cluster.create(a_node("small", cpu="1"))
    eventually_refused(cluster, "p", "0/1 nodes are available: 1 Insufficient cpu.")
    cluster.create(a_node("large", cpu="8"))
    eventually_on(cluster, "p", "large")


def test_a_pod_that_is_deleted_while_it_waits_is_forgotten(cluster: Cluster) -> None:
    """Its place goes to others, and another pod of its name is another pod."""
    cluster.create(a_node("n", cpu="2"))
    cluster.create(a_pod("p", cpu="3"))
    eventually_refused(cluster, "p", "0/1 nodes are available: 1 Insufficient cpu.")
    cluster.delete("Pod", "p")
    cluster.create(a_pod("p", cpu="1"))
    eventually_on(cluster, "p", "n")
    cluster.create(a_pod("q", cpu="1"))
    eventually_on(cluster, "q", "n")
    cluster.hold(lambda: placements(cluster) == {"p": "n", "q": "n"}, "both stay")


def test_nothing_is_placed_on_a_node_that_is_gone(cluster: Cluster) -> None:
    """After its deletion a node is not counted in messages; a node of the same name starts empty."""
    cluster.create(a_node("n", cpu="2"))
    cluster.create(a_pod("old", cpu="2"))
    eventually_on(cluster, "old", "n")
    cluster.delete("Node", "n")
    cluster.settle()
    cluster.create(a_pod("p", cpu="2"))
    eventually_refused(cluster, "p", "no nodes available to schedule pods")
    if cluster.find("Pod", "old") is not None:
        cluster.delete("Pod", "old")
    cluster.create(a_node("n", cpu="2"))
    eventually_on(cluster, "p", "n")


def test_a_nomination_is_honoured(cluster: Cluster) -> None:
    """status.nominatedNodeName, whichever component wrote it, is taken although another node would score higher."""
    cluster.create(a_node("better", cpu="8"))
    cluster.create(a_node("nominated", cpu="8"))
    cluster.create(a_pod("load", cpu="5", scheduler="somebody-else", nodeName="nominated"))
    cluster.settle()
    cluster.create(a_pod("plain", cpu="1"))
    eventually_on(cluster, "plain", "better")
    cluster.create(a_pod("p", cpu="1", schedulingGates=GATE))
    cluster.patch("Pod", "p", {"status": {"nominatedNodeName": "nominated"}})
    cluster.patch("Pod", "p", {"spec": {"schedulingGates": None}})
    eventually_on(cluster, "p", "nominated")


def test_a_nomination_that_cannot_be_honoured_is_no_obstacle(cluster: Cluster) -> None:
    """A nominated node that is full is passed over."""
    cluster.create(a_node("free"))
    cluster.create(a_node("nominated", cpu="500m"))
    cluster.create(a_pod("p", cpu="1", schedulingGates=GATE))
    cluster.patch("Pod", "p", {"status": {"nominatedNodeName": "nominated"}})
    cluster.patch("Pod", "p", {"spec": {"schedulingGates": None}})
    eventually_on(cluster, "p", "free")
