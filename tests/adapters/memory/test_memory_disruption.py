"""Disruption budgets of the embedded cluster: the numbers of their status, and what an eviction may do."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.adapters.memory.cluster import Behaviour, EmbeddedCluster
from moorage.adapters.memory.disruption import evict
from moorage.adapters.memory.errors import ApiError, Conflict, TooManyRequests
from moorage.adapters.memory.manifests import manifest, node_manifest, workload_manifest
from moorage.adapters.memory.objects import KubeObject, condition_of, is_live, is_ready, node_of, status_of

SELECTOR = {"matchLabels": {"app": "web"}}


def make_cluster(replicas: int, **budget: Any) -> EmbeddedCluster:
    """A node, a Deployment whose pods all run, and a budget for them."""
    cluster = EmbeddedCluster(Behaviour(lifelike=True, budgets=True))
    cluster.create(node_manifest("n1"))
    cluster.create(workload_manifest("Deployment", "web", own={"replicas": replicas}))
    cluster.create(manifest("PodDisruptionBudget", "web", "default", spec={"selector": SELECTOR, **budget}))
    settle(cluster)
    return cluster


def settle(cluster: EmbeddedCluster) -> None:
    """Bind the pods that wait, until none does."""
    cluster.step()
    while waiting := cluster.pending_pods():
        for pod in waiting:
            cluster.store.bind("default", pod["metadata"]["name"], pod["metadata"]["uid"], "n1")
        cluster.step()


def status(cluster: EmbeddedCluster) -> dict[str, Any]:
    return dict(status_of(cluster.store.get("PodDisruptionBudget", "default", "web")))


def some_pod(cluster: EmbeddedCluster) -> KubeObject:
    return next(pod for pod in cluster.store.list("Pod") if node_of(pod) and is_live(pod))


def evict_one(cluster: EmbeddedCluster) -> None:
    pod = some_pod(cluster)
    evict(cluster.store, "default", pod["metadata"]["name"], pod["metadata"]["uid"])


@pytest.mark.parametrize(
    ("replicas", "budget", "want"),
    [
        pytest.param(5, {"maxUnavailable": 1}, (5, 4, 1), id="one may be missing"),
        pytest.param(5, {"maxUnavailable": "30%"}, (5, 3, 2), id="a share is rounded up"),
        pytest.param(5, {"minAvailable": 3}, (5, 3, 2), id="so many must be there"),
        pytest.param(5, {"minAvailable": "50%"}, (5, 3, 2), id="so much must be there"),
        pytest.param(3, {"maxUnavailable": 0}, (3, 3, 0), id="nobody may go"),
        pytest.param(2, {"minAvailable": 4}, (2, 4, 0), id="more wanted than there are"),
    ],
)
def test_the_status_says_how_many_may_go(replicas: int, budget: dict[str, Any], want: tuple[int, int, int]) -> None:
    """Expected and desired pods, and the difference, with every pod healthy."""
    found = status(make_cluster(replicas, **budget))
    assert (found["expectedPods"], found["desiredHealthy"], found["disruptionsAllowed"]) == want
    assert found["currentHealthy"] == replicas


def test_an_eviction_takes_from_the_allowance_until_the_successor_is_ready() -> None:
    """The second one is refused, at once and after everybody reacted; then it is allowed again."""
    cluster = make_cluster(3, maxUnavailable=1)
    evict_one(cluster)
    with pytest.raises(TooManyRequests, match="disruption budget"):
        evict_one(cluster)
    cluster.step()
    assert status(cluster)["disruptionsAllowed"] == 0
    with pytest.raises(TooManyRequests):
        evict_one(cluster)
    settle(cluster)
    assert status(cluster)["disruptionsAllowed"] == 1
    assert status(cluster)["disruptedPods"] == {}


def test_who_is_not_ready_uses_nothing_up() -> None:
    """As long as enough others are; a pod that is ready still waits for the budget."""
    cluster = make_cluster(3, maxUnavailable=1)
    broken = some_pod(cluster)["metadata"]
    unready = {"type": "Ready", "status": "False"}
    cluster.store.set_condition("Pod", "default", broken["name"], unready, uid=broken["uid"])
    cluster.step()
    assert status(cluster)["disruptionsAllowed"] == 0
    sound = next(pod["metadata"] for pod in cluster.store.list("Pod") if is_ready(pod))
    with pytest.raises(TooManyRequests):
        evict(cluster.store, "default", sound["name"], sound["uid"])
    evict(cluster.store, "default", broken["name"], broken["uid"])
    assert not status(cluster)["disruptedPods"]


def test_an_evicted_pod_says_why_it_goes() -> None:
    """With the condition that the API server writes."""
    cluster = make_cluster(1, maxUnavailable=1)
    watch = cluster.watch(("Pod",), replay=False)
    evict_one(cluster)
    last = watch.pull()[-1].object
    assert condition_of(last, "DisruptionTarget")["reason"] == "EvictionByEvictionAPI"


def test_two_budgets_for_one_pod_are_an_error() -> None:
    """As in Kubernetes, which does not support it."""
    cluster = make_cluster(3, maxUnavailable=1)
    cluster.create(manifest("PodDisruptionBudget", "too", "default", spec={"selector": SELECTOR, "maxUnavailable": 1}))
    cluster.step()
    with pytest.raises(ApiError, match="more than one"):
        evict_one(cluster)


def test_another_pod_of_the_same_name_is_not_evicted() -> None:
    """The uid is a precondition."""
    cluster = make_cluster(1, maxUnavailable=1)
    with pytest.raises(Conflict, match="UID"):
        evict(cluster.store, "default", some_pod(cluster)["metadata"]["name"], "other")
