"""Other schedulers in the same cluster, and the scheduler's own predecessors."""

from __future__ import annotations

from tests.contract.cluster import Cluster
from tests.contract.manifests import (
    a_node,
    a_pod,
    events_of,
    eventually_on,
    eventually_refused,
    node_of,
    placements,
)


def test_pods_that_somebody_else_binds_are_accounted_for(cluster: Cluster) -> None:
    """What another scheduler puts on a node is taken, also when it turns up while we schedule."""
    cluster.create(a_node("n", cpu="4"))
    cluster.create(a_pod("theirs", cpu="2", scheduler="somebody-else"))
    cluster.bind("theirs", "n")
    cluster.hold(lambda: node_of(cluster, "theirs") == "n", "it stays there")
    cluster.create(a_pod("large", cpu="3"))
    eventually_refused(cluster, "large", "0/1 nodes are available: 1 Insufficient cpu.")
    cluster.create(a_pod("small", cpu="2"))
    eventually_on(cluster, "small", "n")


def test_a_pod_on_an_unknown_node_counts_when_the_node_appears(cluster: Cluster) -> None:
    """A pod may be seen before its node is."""
    cluster.create(a_pod("early", cpu="3", scheduler="somebody-else", nodeName="n"))
    cluster.create(a_node("n", cpu="4"))
    cluster.create(a_pod("p", cpu="2"))
    eventually_refused(cluster, "p", "0/1 nodes are available: 1 Insufficient cpu.")


def test_another_scheduler_that_binds_first_wins(cluster: Cluster) -> None:
    """The pod stays where the other one put it and counts there; the place that we had chosen is free again."""
    cluster.create(a_node("ours", cpu="2", labels={"disk": "ssd"}))
    cluster.create(a_node("theirs", cpu="2"))
    cluster.before_bind("p", lambda: cluster.bind("p", "theirs"))
    cluster.create(a_pod("p", cpu="2", nodeSelector={"disk": "ssd"}))
    eventually_on(cluster, "p", "theirs")
    cluster.create(a_pod("heir", cpu="2", nodeSelector={"disk": "ssd"}))
    eventually_on(cluster, "heir", "ours")
    cluster.create(a_pod("late", cpu="1"))
    eventually_refused(cluster, "late", "0/2 nodes are available: 2 Insufficient cpu.")
    assert events_of(cluster, "p", "Scheduled") == []


def test_another_scheduler_that_binds_to_the_same_node_is_no_conflict(cluster: Cluster) -> None:
    """The pod is where it was meant to be; nothing is tried again."""
    cluster.create(a_node("n", cpu="2"))
    cluster.before_bind("p", lambda: cluster.bind("p", "n"))
    cluster.create(a_pod("p", cpu="1"))
    eventually_on(cluster, "p", "n")
    cluster.eventually(lambda: events_of(cluster, "p", "Scheduled"), "the placement is told")
    cluster.create(a_pod("q", cpu="1"))
    eventually_on(cluster, "q", "n")
    assert events_of(cluster, "p", "FailedScheduling") == []


def test_a_pod_that_is_deleted_while_it_is_bound_leaves_its_place(cluster: Cluster) -> None:
    """The bind finds no pod; the next one gets the node."""
    cluster.create(a_node("n", cpu="2"))
    cluster.before_bind("p", lambda: cluster.delete("Pod", "p"))
    cluster.create(a_pod("p", cpu="2"))
    cluster.eventually(lambda: cluster.find("Pod", "p") is None, "the pod is gone")
    cluster.create(a_pod("heir", cpu="2"))
    eventually_on(cluster, "heir", "n")


def test_a_new_pod_of_the_same_name_is_not_bound_in_its_place(cluster: Cluster) -> None:
    """A bind means one pod, not a name: the successor is decided on by itself."""
    cluster.create(a_node("n", cpu="4", labels={"disk": "ssd"}))
    cluster.create(a_node("other", cpu="4"))

    def replace() -> None:
        cluster.delete("Pod", "p")
        cluster.create(a_pod("p", nodeSelector={"kubernetes.io/hostname": "other"}))

    cluster.before_bind("p", replace)
    cluster.create(a_pod("p", nodeSelector={"disk": "ssd"}))
    cluster.eventually(lambda: node_of(cluster, "p"), "the successor is bound")
    assert node_of(cluster, "p") == "other"


def test_a_restarted_scheduler_finds_everything_as_it_was(cluster: Cluster) -> None:
    """Bound pods count, waiting ones are tried, what happened meanwhile is known."""
    cluster.create(a_node("n", cpu="4"))
    cluster.create(a_pod("before", cpu="2"))
    eventually_on(cluster, "before", "n")
    with cluster.scheduler_away():
        cluster.create(a_pod("meanwhile", cpu="1"))
        cluster.create(a_pod("large", cpu="3"))
        cluster.create(a_pod("theirs", cpu="1", scheduler="somebody-else", nodeName="n"))
    eventually_on(cluster, "meanwhile", "n")
    eventually_refused(cluster, "large", "0/1 nodes are available: 1 Insufficient cpu.")
    cluster.hold(lambda: set(placements(cluster)) == {"before", "meanwhile", "theirs"}, "the node is full")
