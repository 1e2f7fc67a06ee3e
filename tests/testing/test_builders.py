"""Builders read what manifests and kubectl write."""

from __future__ import annotations

import pytest

from moorage.core.invariants import check_invariants
from moorage.core.pods import RUNNING, HostPort
from moorage.core.taints import Taint, Toleration
from moorage.testing import generate_cluster, make_node, make_node_affinity, make_pod, make_state
from moorage.testing.builders import parse_port, parse_requirement, parse_taint, parse_toleration
from moorage.testing.fingerprint import fingerprint


def test_a_pod_has_amounts_and_what_scores_assume() -> None:
    """Milli of cpu, bytes of memory; a container without a request gets the score's default."""
    pod = make_pod("a", cpu="500m", requests={"example.com/gpu": 2})
    assert dict(pod.requests.amounts) == {"cpu": 500, "example.com/gpu": 2}
    assert (pod.requests.score_cpu_milli, pod.requests.score_memory_bytes) == (500, 200 * 1024 * 1024)
    assert pod.template.requests == pod.requests


def test_containers_add_up() -> None:
    """Each container gets its own default."""
    pod = make_pod("a", containers=[{"cpu": "1"}, {"memory": "1Gi"}])
    assert (pod.requests.score_cpu_milli, pod.template.container_count) == (1100, 2)
    with pytest.raises(ValueError, match="either"):
        make_pod("a", cpu=1, containers=[{}])


def test_a_pod_on_a_node_runs() -> None:
    """Identity, phase and further fields of the template."""
    pod = make_pod("a", namespace="x", node="n", priority=7, owner="web", labels={"app": "web"})
    assert (pod.uid, pod.key, pod.phase, pod.node) == ("x/a", "x/a", RUNNING, "n")
    assert pod.template.priority == 7
    assert pod.template.owner is not None
    assert (pod.template.owner.kind, pod.template.owner.name) == ("ReplicaSet", "web")


def test_a_node_has_the_usual_labels_and_resources() -> None:
    """Hostname and zone labels, allocatable amounts, normalised image names."""
    node = make_node("n1", cpu="4", memory="16Gi", zone="z1", labels={"a": "b"}, images={"app": "10Mi"}, ready=False)
    assert node.labels == {"kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "z1", "a": "b"}
    assert (node.allocatable["cpu"], node.allocatable["memory"], node.allocatable["pods"]) == (4000, 16 << 30, 110)
    assert [image.names for image in node.images] == [("app:latest",)]
    assert not node.ready


def test_a_state_holds_nodes_and_standing_pods() -> None:
    """Pods without a node wait and are not counted."""
    state = make_state([make_node("n")], [make_pod("a", cpu="1", node="n"), make_pod("b")])
    assert (state.node_count, state.pod_count) == (1, 1)
    check_invariants(state)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("k=v:NoExecute", Taint("k", "v", "NoExecute"), id="all parts"),
        pytest.param("k:PreferNoSchedule", Taint("k", "", "PreferNoSchedule"), id="no value"),
    ],
)
def test_taints(text: str, want: Taint) -> None:
    """As `kubectl taint` writes them."""
    assert parse_taint(text) == parse_taint(want) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("k=v:NoExecute", Toleration("k", "Equal", "v", "NoExecute"), id="equal"),
        pytest.param("k", Toleration("k", "Exists"), id="exists"),
        pytest.param("*:NoSchedule", Toleration("", "Exists", "", "NoSchedule"), id="every key"),
    ],
)
def test_tolerations(text: str, want: Toleration) -> None:
    """A value means Equal, none means Exists."""
    assert parse_toleration(text) == parse_toleration(want) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(80, HostPort("", "TCP", 80), id="number"),
        pytest.param("53/UDP", HostPort("", "UDP", 53), id="protocol"),
        pytest.param("10.0.0.1:80", HostPort("10.0.0.1", "TCP", 80), id="address"),
        pytest.param("0.0.0.0:80/SCTP", HostPort("", "SCTP", 80), id="all addresses"),
    ],
)
def test_ports(text: int | str, want: HostPort) -> None:
    """The unspecified address is the empty one."""
    assert parse_port(text) == parse_port(want) == want


def test_affinity_terms() -> None:
    """Conditions on metadata.name are field conditions, the rest label conditions."""
    affinity = make_node_affinity(required=[["disk In a,b", "metadata.name In n1"]], preferred=[(5, ["gpu Exists"])])
    assert affinity.required is not None
    assert affinity.required[0].expressions == (parse_requirement("disk In a,b"),)
    assert affinity.required[0].expressions[0].values == ("a", "b")
    assert affinity.required[0].fields == (parse_requirement("metadata.name In n1"),)
    assert affinity.preferred[0].weight == 5


def test_generated_clusters_depend_on_the_seed_alone() -> None:
    """The same seed gives the same cluster, another one another; the state that comes of it is sound."""
    first, again, other = (generate_cluster(seed).state() for seed in (1, 1, 2))
    assert fingerprint(first) == fingerprint(again)
    assert fingerprint(first) != fingerprint(other)
    for seed in range(20):
        check_invariants(generate_cluster(seed).state())
