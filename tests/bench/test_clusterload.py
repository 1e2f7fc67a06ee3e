"""The workloads of `moorage bench cluster`: what they ask for, and that nobody asks for too much."""

from __future__ import annotations

import json

import pytest

from moorage.bench import clusterload
from moorage.bench.clusterload import LOADS
from moorage.bench.clusterrun import BURST, STEADY, Sizes, percentile, pods_of, steady_of, units_of
from moorage.bench.contenders import Contender


@pytest.mark.parametrize("name", LOADS)
def test_pods_of_the_two_groups_never_share_a_name_or_look_at_each_other(name: str) -> None:
    """Every workload makes as many pods as asked; names are unique, and rules speak of the pod's own group."""
    burst, steady = list(LOADS[name].pods(BURST, 45)), list(LOADS[name].pods(STEADY, 45))
    assert len({pod["metadata"]["name"] for pod in [*burst, *steady]}) == 90
    rules = [{key: value for key, value in pod["spec"].items() if key != "containers"} for pod in burst]
    assert STEADY not in json.dumps(rules)


def test_the_four_workloads_of_the_claim_are_the_default() -> None:
    """Others are measured when they are asked for."""
    assert [name for name, load in LOADS.items() if load.by_default] == ["basic", "spread", "anti-affinity", "affinity"]


def test_mixed_pods_have_twenty_templates() -> None:
    """Twenty that differ in their requests or rules, in turn."""
    specs = [json.dumps([pod["metadata"]["labels"], pod["spec"]]) for pod in clusterload.mixed_pods("m", 60)]
    assert len(set(specs)) == 20
    assert specs[:20] == specs[20:40]


def test_groups_hold_all_members() -> None:
    """Each group is as large as the number of pods that name it."""
    sizes = {
        body["metadata"]["name"]: body["spec"]["schedulingPolicy"]["gang"]["minCount"]
        for _, body in clusterload.pod_groups("g", 25)
    }
    members = [pod["spec"]["schedulingGroup"]["podGroupName"] for pod in clusterload.gang_members("g", 25)]
    assert sizes == {name: members.count(name) for name in members} == {"g-0": 10, "g-1": 10, "g-2": 5}


@pytest.mark.parametrize(
    ("name", "nodes", "pods", "want"),
    [
        pytest.param("basic", 10, 50, 50, id="as many as asked"),
        pytest.param("basic", 1, 500, 100, id="as many as a node can hold"),
        pytest.param("anti-affinity", 10, 50, 10, id="one a host"),
        pytest.param("preemption", 10, 50, 20, id="two in the place of one each"),
        pytest.param("devices", 10, 50, 20, id="half of the devices, so that as many can arrive later"),
    ],
)
def test_there_is_room_for_every_pod(name: str, nodes: int, pods: int, want: int) -> None:
    """A workload never asks for more than fits."""
    sizes = Sizes(nodes, pods, steady_pods=15)
    assert pods_of(LOADS[name], sizes) == want
    assert steady_of(LOADS[name], sizes) == min(15, want)


def test_progress_counts_everything_that_is_created_and_bound() -> None:
    """Namespace, nodes, pods that are there, pods that wait, their binds, and the arrivals of schedulers."""
    sizes = Sizes(3, 5, pods_present=2, steady_pods=4)
    assert units_of(LOADS["basic"], sizes, Contender.MOORAGE) == 1 + 3 + 2 + 5 + 5 + 4
    assert units_of(LOADS["basic"], sizes, Contender.LIMIT) == 1 + 3 + 2 + 5 + 5


@pytest.mark.parametrize(
    ("count", "share", "want"),
    [(100, 0.50, 50.0), (100, 0.99, 99.0), (1000, 0.99, 990.0), (3, 0.99, 3.0), (1, 0.5, 1.0)],
)
def test_percentiles_are_values_that_were_seen(count: int, share: float, want: float) -> None:
    """The smallest value that this share does not exceed."""
    assert percentile([float(value) for value in range(1, count + 1)], share) == want


def test_pods_with_devices_name_claims_that_are_made_for_them() -> None:
    """And every node has its slice."""
    claims = {body["metadata"]["name"] for _, body in clusterload.claims_of_pods("d", 5)}
    named = {pod["spec"]["resourceClaims"][0]["resourceClaimName"] for pod in clusterload.device_pods("d", 5)}
    assert claims == named
    load = LOADS["devices"]
    assert load.equipment is not None
    assert [path.rpartition("/")[2] for path, _ in load.equipment(2)] == ["deviceclasses", *["resourceslices"] * 2]
