"""ControllerSpread: on how many nodes the pods of a controller stand, who counts, and what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.adapters.memory.manifests import node_manifest, pod_manifest, workload_manifest
from moorage.core.events import NodeSeen, ObjectSeen, PodSeen
from moorage.core.invariants import check_invariants
from moorage.core.nodes import Node
from moorage.core.objects import CRON_JOB, DEPLOYMENT, JOB, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET
from moorage.core.pods import Owner, Pod
from moorage.core.state import ClusterState
from moorage.engine.extending import Extending
from moorage.framework.changes import Change, What
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.controller_spread import ControllerSpread
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from tests.engine.play import Play, small_profile
from tests.plugins.controlled import (
    NOW_S,
    make_workload,
    nodes_of,
    owner_of,
    packing_rules,
    pod_of,
    reasons_for,
    simulated,
    state_with,
)
from tests.plugins.preempting import Outcome, preempt_on

MIN_HOSTS = "moorage.dev/min-hosts"
OLD_MIN_HOSTS = "controller-spread-scheduler/min-hosts"
THREE_NODES = [make_node("n1"), make_node("n2"), make_node("n3")]
SIX_NODES = [node_manifest(f"n{number}") for number in range(6)]


def too_few(title: str, has: int = 1, wants: int = 2) -> list[str]:
    few = f"node(s) would leave controller {title} on too few hosts ({has} of {wants})"
    return [f"{few}: until another node takes the pod, or min-hosts is {has}"]


# --- the table ---


@pytest.mark.parametrize("annotation", [1, 2, 3, 4, 5, None], ids=lambda value: f"annotation {value}")
@pytest.mark.parametrize("desired", [1, 2, 3, 4, 5], ids=lambda value: f"desired {value}")
@pytest.mark.parametrize("kind", [DEPLOYMENT, REPLICA_SET, STATEFUL_SET, JOB, CRON_JOB])
def test_pods_stand_on_the_required_number_of_nodes(kind: str, desired: int, annotation: int | None) -> None:
    """A profile that piles everything up puts min(desired, annotation or 2) nodes under a controller, and no more."""
    notes = None if annotation is None else {MIN_HOSTS: str(annotation)}
    own = {"parallelism": desired, "completions": desired} if kind in (JOB, CRON_JOB) else {"replicas": desired}
    workload = workload_manifest(kind, "web", annotations=notes, own=own)
    placed = nodes_of(simulated([*SIX_NODES, workload], packing_rules(ControllerSpread)), "web")
    assert placed.total() == desired
    assert None not in placed
    assert len(placed) == min(desired, annotation or 2)


def test_without_the_plugin_they_pile_up() -> None:
    """The table above means something: the profile alone uses one node."""
    workload = workload_manifest("Deployment", "web", own={"replicas": 5})
    placed = nodes_of(simulated([*SIX_NODES, workload], packing_rules(BUILTIN[0])), "web")
    assert len(placed) == 1


def test_many_controllers_at_once_all_stand_on_enough_nodes() -> None:
    """Fifty Deployments of 2 to 5 replicas come together: none is below its number, and no pod is left over."""
    wanted = {f"web{number}": (2 + number % 4, number % 6) for number in range(50)}
    workloads = [
        workload_manifest(
            "Deployment", name, own={"replicas": replicas}, annotations={MIN_HOSTS: str(hosts)} if hosts else None
        )
        for name, (replicas, hosts) in wanted.items()
    ]
    nodes = [node_manifest(f"n{number}", cpu="20", pods="200") for number in range(6)]
    outcome = simulated([*nodes, *workloads], packing_rules(ControllerSpread))
    for name, (replicas, hosts) in wanted.items():
        placed = nodes_of(outcome, name)
        assert None not in placed
        assert placed.total() == replicas
        assert len(placed) >= min(replicas, hosts or 2), name


def test_pods_wait_where_there_are_too_few_nodes() -> None:
    """Three run, since the last one could still reach the third node; it waits and says why, with its controller."""
    workload = workload_manifest("Deployment", "web", annotations={OLD_MIN_HOSTS: "3"}, own={"replicas": 4})
    outcome = simulated([*SIX_NODES[:2], workload], packing_rules(ControllerSpread))
    placed = nodes_of(outcome, "web")
    assert {*placed} == {"n0", "n1", None}
    assert placed[None] == 1
    waiting = next(story for story in outcome.pods if story.node is None)
    assert waiting.message is not None
    assert waiting.message.startswith(f"0/2 nodes are available: 2 {too_few('Deployment/web', 2, 3)[0]}.")


def test_pods_of_a_replica_set_in_the_input_count_for_its_deployment() -> None:
    """The simulator's pods name the Deployment, those of a cluster its ReplicaSet: both are pods of the same one."""
    deployment = workload_manifest("Deployment", "web", own={"replicas": 2})
    deployment["metadata"]["uid"] = "d"
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "r", "controller": True}
    old = pod_manifest("web-5d8f-x", labels={"app": "web", "pod-template-hash": "5d8f"}, cpu="2")
    old["metadata"]["ownerReferences"] = [reference]
    old["spec"]["nodeName"] = "n0"
    placed = nodes_of(simulated([*SIX_NODES[:2], old, deployment], packing_rules(ControllerSpread)), "web")
    assert placed == {"n1": 1}


# --- who counts ---

DEPLOYED = owner_of(DEPLOYMENT, "web")
CRON = owner_of(CRON_JOB, "web")

CONTROLLERS: dict[str, tuple[str, list[Any], str | None]] = {
    "a ReplicaSet": (REPLICA_SET, [make_workload(REPLICA_SET, "web", 2)], "ReplicaSet/web"),
    "a StatefulSet": (STATEFUL_SET, [make_workload(STATEFUL_SET, "web", 2)], "StatefulSet/web"),
    "a Job": (JOB, [make_workload(JOB, "web", 2)], "Job/web"),
    "a Job with one completion left": (
        JOB,
        [make_workload(JOB, "web", 2, completions=5, succeeded=4)],
        "Job/web",  # a second pod proves that the number is an old one
    ),
    "a Deployment's ReplicaSet": (
        REPLICA_SET,
        [make_workload(REPLICA_SET, "web", 2, owner=DEPLOYED), make_workload(DEPLOYMENT, "web", 2)],
        "Deployment/web",
    ),
    "a CronJob's Job": (
        JOB,
        [make_workload(JOB, "web", 2, owner=CRON), make_workload(CRON_JOB, "web", 2)],
        "CronJob/web",
    ),
    "a copied annotation counts for nothing": (
        REPLICA_SET,
        [
            make_workload(REPLICA_SET, "web", 2, owner=DEPLOYED, annotations={MIN_HOSTS: "1"}),
            make_workload(DEPLOYMENT, "web", 2),
        ],
        "Deployment/web",
    ),
    "the Deployment's own annotation counts": (
        REPLICA_SET,
        [
            make_workload(REPLICA_SET, "web", 2, owner=DEPLOYED, annotations={MIN_HOSTS: "2"}),
            make_workload(DEPLOYMENT, "web", 2, annotations={MIN_HOSTS: "1"}),
        ],
        None,
    ),
    "the annotation of a ReplicaSet of somebody else counts": (
        REPLICA_SET,
        [make_workload(REPLICA_SET, "web", 2, owner=Owner("Rollout", "web", "r"), annotations={MIN_HOSTS: "1"})],
        None,
    ),
    "both keys": (
        REPLICA_SET,
        [make_workload(REPLICA_SET, "web", 2, annotations={OLD_MIN_HOSTS: "1", MIN_HOSTS: "2"})],
        "ReplicaSet/web",
    ),
    "the older key": (REPLICA_SET, [make_workload(REPLICA_SET, "web", 2, annotations={OLD_MIN_HOSTS: "1"})], None),
    "one replica, an old number": (REPLICA_SET, [make_workload(REPLICA_SET, "web", 1)], "ReplicaSet/web"),
    "a controller that was not seen yet": (REPLICA_SET, [], "ReplicaSet/web"),
    "another one of the same name": (
        STATEFUL_SET,
        [replace(make_workload(STATEFUL_SET, "web", 1), uid="other")],
        "StatefulSet/web",
    ),
    "a ReplicationController": (REPLICATION_CONTROLLER, [make_workload(REPLICATION_CONTROLLER, "web", 2)], None),
    "a DaemonSet": ("DaemonSet", [], None),
}


@pytest.mark.parametrize(("kind", "workloads", "title"), CONTROLLERS.values(), ids=CONTROLLERS.keys())
def test_the_controller_is_found_through_owner_references(kind: str, workloads: list[Any], title: str | None) -> None:
    """The rule is that of the owner; name and annotation are those of the Deployment or CronJob above it."""
    state = state_with(THREE_NODES, [pod_of(kind, "web", 1, node="n1")], workloads)
    want = {} if title is None else {"n1": too_few(title)}
    assert reasons_for(ControllerSpread(), state, pod_of(kind, "web")) == want
    assert ControllerSpread().concerns(pod_of(kind, "web").template, state) is (title is not None)


def test_kinds_of_other_groups_are_left_alone() -> None:
    """Others have Jobs too, and nothing is known about theirs."""
    owner = Owner("Job", "web", "j", "batch.volcano.sh/v1alpha1")
    standing, pod = (make_pod(name, owner=owner, node=node) for name, node in (("a", "n1"), ("b", None)))
    state = state_with(THREE_NODES, [standing], [make_workload(JOB, "web", 3)])
    assert reasons_for(ControllerSpread(), state, pod) == {}


def test_a_bare_pod_costs_nothing() -> None:
    """Not concerned, and nothing is counted until somebody is."""
    state = make_state(THREE_NODES, [make_pod("a", node="n1")])
    assert not ControllerSpread().concerns(make_pod("b").template, state)
    assert not state.owners.followed


def test_each_replica_set_of_a_rollout_spreads_for_itself() -> None:
    """The old one's pods are about to go, so they help nobody to stand on two nodes."""
    sets = [make_workload(REPLICA_SET, name, 2, owner=DEPLOYED) for name in ("web-old", "web-new")]
    pods = [pod_of(REPLICA_SET, "web-old", n, node=f"n{n}") for n in (1, 2)]
    state = state_with(THREE_NODES, [*pods, pod_of(REPLICA_SET, "web-new", 1, node="n3")], [
        *sets, make_workload(DEPLOYMENT, "web", 2)])  # fmt: skip
    new = pod_of(REPLICA_SET, "web-new")
    assert reasons_for(ControllerSpread(), state, new) == {"n3": too_few("Deployment/web")}


def test_terminating_and_finished_pods_do_not_count_and_assumed_ones_do() -> None:
    """What is about to go holds no place; what is on its way does."""
    state = state_with(THREE_NODES, [], [make_workload(REPLICA_SET, "web", 2)])
    plugin, pod = ControllerSpread(), pod_of(REPLICA_SET, "web")
    first, second = pod_of(REPLICA_SET, "web", 1, node="n1"), pod_of(REPLICA_SET, "web", 2)
    state.observe_pod(first)
    assert list(reasons_for(plugin, state, pod)) == ["n1"]
    state.observe_pod(replace(first, deleted_s=5.0))
    assert reasons_for(plugin, state, pod) == {}
    row = state.row_of("n2")
    assert row is not None
    state.assume(second, row)
    assert list(reasons_for(plugin, state, pod)) == ["n2"]
    state.observe_pod(replace(second, node="n2", phase="Succeeded"))
    assert reasons_for(plugin, state, pod) == {}
    check_invariants(state)


def test_after_the_required_hosts_every_node_is_allowed() -> None:
    """Two nodes are enough, also those two."""
    pods = [pod_of(REPLICA_SET, "web", n, node=f"n{n}") for n in (1, 2)]
    state = state_with(THREE_NODES, pods, [make_workload(REPLICA_SET, "web", 5)])
    assert reasons_for(ControllerSpread(), state, pod_of(REPLICA_SET, "web")) == {}
    assert ControllerSpread().awaits(pod_of(REPLICA_SET, "web").template, state) is None


def test_the_extender_waits_while_hosts_are_missing() -> None:
    """Pods of one controller have to be placed one after the other until the rule is met."""
    state = state_with(THREE_NODES, [], [make_workload(REPLICA_SET, "web", 2)])
    template = pod_of(REPLICA_SET, "web").template
    assert ControllerSpread().awaits(template, state) == "default/ReplicaSet/web"
    assert ControllerSpread().awaits(make_pod("bare").template, state) is None


# --- malformed annotations ---


@pytest.mark.parametrize("text", ["three", "-1", "0", "２", "", "1.5", "2 ", "+2", "99999999999"])
def test_a_malformed_annotation_falls_back_to_the_default_with_one_warning(text: str) -> None:
    """Two hosts are used, and one event says so, however many pods there are."""
    workload = make_workload(REPLICA_SET, "web", 4, annotations={MIN_HOSTS: text, OLD_MIN_HOSTS: "4"})
    play = Play(ControllerSpread())
    play.see(*THREE_NODES)
    play.object_seen(REPLICA_SET, "default/web", workload)
    play.see(*(pod_of(REPLICA_SET, "web", number) for number in range(4)))
    assert len(set(play.binds.values())) >= 2
    warnings = [(reason, pod) for pod, reason in play.reasons if reason != "Scheduled"]
    assert warnings == [("MalformedAnnotation", "web-0")]
    assert play.note("web-0") == (
        f'ReplicaSet default/web: annotation moorage.dev/min-hosts is "{text}"; '
        "write a whole number from 1 on. 2 is used instead"
    )
    play.see(pod_of(REPLICA_SET, "web", 9))
    assert play.reasons == []


def test_the_simulator_reports_the_warning() -> None:
    """A simulation has no events; what they would say is among its warnings, once."""
    workload = workload_manifest("Deployment", "web", annotations={OLD_MIN_HOSTS: "some"}, own={"replicas": 3})
    outcome = simulated([*SIX_NODES, workload], packing_rules(ControllerSpread))
    (warning,) = outcome.warnings
    assert warning.startswith('Deployment default/web: annotation controller-spread-scheduler/min-hosts is "some"')


# --- preemption ---


def test_preemption_can_free_a_node_of_the_controllers_own_pods() -> None:
    """Where the only other node is full of less important pods, those go; the controller's own node stays rejected."""
    nodes = [make_node("n1", cpu="4"), make_node("n2", cpu="1")]
    standing = [pod_of(REPLICA_SET, "web", 1, cpu="1", node="n1", priority=5), make_pod("low", cpu="1", node="n2")]
    preemptor = pod_of(REPLICA_SET, "web", 2, cpu="1", priority=5)
    state = state_with(nodes, standing, [make_workload(REPLICA_SET, "web", 2)])
    outcome = preempt_with(state, preemptor)
    assert (outcome.node, outcome.victims) == ("n2", ("low",))


@pytest.mark.parametrize("cpu", ["4", "1"], ids=["room for both", "full"])
def test_a_pod_does_not_evict_its_own_sibling(cpu: str) -> None:
    """Not where there is room, nor where there is none: the node would still be the only one."""
    standing = [pod_of(STATEFUL_SET, "db", 0, cpu="1", node="n1")]
    state = state_with([make_node("n1", cpu=cpu)], standing, [make_workload(STATEFUL_SET, "db", 2)])
    outcome = preempt_with(state, pod_of(STATEFUL_SET, "db", 1, cpu="1", priority=5))
    assert (outcome.node, outcome.victims) == (None, ())
    check_invariants(state)


def test_it_evicts_others_beside_its_sibling_where_that_is_no_host_more_than_needed() -> None:
    """Four of five may share the only node; the fifth waits."""
    sibling = pod_of(REPLICA_SET, "web", 1, cpu="1", node="n1", priority=5)
    standing = [sibling, make_pod("low", cpu="3", node="n1")]
    state = state_with([make_node("n1", cpu="4")], standing, [make_workload(REPLICA_SET, "web", 5)])
    outcome = preempt_with(state, pod_of(REPLICA_SET, "web", 2, cpu="1", priority=5))
    assert (outcome.node, outcome.victims) == ("n1", ("low",))


def test_the_extender_keeps_siblings_too() -> None:
    """kube-scheduler proposes a sibling as the victim; the node does not pass without it."""
    extending = Extending(small_profile(ControllerSpread()), certified=True)
    db, owner = pod_of(STATEFUL_SET, "db", 0, node="n1"), make_workload(STATEFUL_SET, "db", 2)
    pending = pod_of(STATEFUL_SET, "db", 1, priority=5)
    for event in (NodeSeen(make_node("n1")), PodSeen(db), PodSeen(pending), ObjectSeen(STATEFUL_SET, owner.key, owner)):
        extending.handle(event)
    assert extending.preempt(pending, {"n1": [db.uid]}, NOW_S) == []


def preempt_with(state: ClusterState, preemptor: Pod) -> Outcome:
    return preempt_on(state, preemptor, DefaultPreemption(), ControllerSpread())


# --- waking up ---

WAITING = pod_of(REPLICA_SET, "web").template

CHANGES: dict[str, tuple[Change, bool]] = {
    "a pod of the controller came": (Change(What.POD_ADDED, pod=pod_of(REPLICA_SET, "web", 1)), True),
    "a pod of the controller left": (Change(What.POD_REMOVED, pod=pod_of(REPLICA_SET, "web", 1)), True),
    "a pod of another one left": (Change(What.POD_REMOVED, pod=pod_of(REPLICA_SET, "db", 1)), False),
    "a bare pod left": (Change(What.POD_REMOVED, pod=make_pod("a")), False),
    "the controller changed": (Change(What.OBJECT, kind=REPLICA_SET, key="default/web"), True),
    "another ReplicaSet changed": (Change(What.OBJECT, kind=REPLICA_SET, key="default/db"), False),
    "a Deployment changed": (Change(What.OBJECT, kind=DEPLOYMENT, key="default/web"), True),
    "a Deployment elsewhere changed": (Change(What.OBJECT, kind=DEPLOYMENT, key="far/web"), False),
    "a node came": (Change(What.NODE_ADDED, node=make_node("n")), True),
}


@pytest.mark.parametrize(("change", "want"), CHANGES.values(), ids=CHANGES.keys())
def test_what_helps(change: Change, want: bool) -> None:
    """Only what can change the count, the rule or the nodes."""
    assert ControllerSpread().helps(WAITING, change) is want


def test_a_waiting_pod_goes_on_when_the_annotation_is_relaxed() -> None:
    """The rule is read anew at every attempt."""
    play = Play(ControllerSpread())
    play.see(make_node("n1"))
    play.object_seen(REPLICA_SET, "default/web", make_workload(REPLICA_SET, "web", 2))
    play.see(pod_of(REPLICA_SET, "web", 1), pod_of(REPLICA_SET, "web", 2))
    assert list(play.binds) == ["web-1"]
    relaxed = make_workload(REPLICA_SET, "web", 2, annotations={MIN_HOSTS: "1"})
    play.object_seen(REPLICA_SET, "default/web", relaxed)
    play.wait(2.0)
    assert play.node_of("web-2") == "n1"


# --- counters against a recount ---

NAMES = st.sampled_from(["n1", "n2", "n3"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["see", "delete", "finish", "gone", "node gone", "node", "assume", "forget", "what if"]),
        st.integers(0, 7),
        NAMES,
        st.sampled_from([(REPLICA_SET, "web-1"), (REPLICA_SET, "web-2"), (DEPLOYMENT, "web"), (JOB, "web-1")]),
    ),
    max_size=30,
)


@given(steps=STEPS, ask_at=st.integers(0, 30))
def test_counts_equal_a_recount(steps: list[tuple[str, int, str, tuple[str, str]]], ask_at: int) -> None:
    """Whatever happens to pods and nodes, inside statements too: counts by owner are those of a recount."""
    state = make_state(THREE_NODES)
    for number, (what, index, node, (kind, name)) in enumerate(steps):
        if number == ask_at:
            state.owner_rows(pod_of(REPLICA_SET, "web-1").template)
        happen(state, what, make_pod(
            f"p{index}", owner=owner_of(kind, name), labels={"pod-template-hash": name[-1]}), node)  # fmt: skip
        check_invariants(state)
    for owner in ((REPLICA_SET, "web-1"), (JOB, "web-1"), (DEPLOYMENT, "web")):
        assert counted(state, *owner) == recounted(state, *owner)


def happen(state: ClusterState, what: str, pod: Pod, node: str) -> None:
    """One thing that can happen."""
    row = state.row_of(node)
    known = state.record(pod.uid)
    if what == "see" and (known is None or known.assumed):
        state.observe_pod(replace(pod, node=node))
    elif what in ("delete", "finish") and known is not None:
        fields: dict[str, Any] = {"deleted_s": 1.0} if what == "delete" else {"phase": "Failed"}
        state.observe_pod(replace(known.pod, node=known.node, **fields))
    elif what == "gone":
        state.remove_pod(pod.uid)
    elif what == "node gone":
        state.remove_node(node)
    elif what == "node":
        state.upsert_node(make_node(node))
    elif what == "assume" and row is not None and known is None:
        state.assume(pod, row)
    elif what == "forget":
        state.forget(pod.uid)
    elif what == "what if":
        with state.statement():
            for each in ("see", "delete", "assume"):
                happen(state, each, pod, node)
            state.remove_pod(pod.uid)


def counted(state: ClusterState, kind: str, name: str) -> dict[int, int]:
    rows, counts = state.owner_rows(pod_of(kind, name).template).above_zero()
    return dict(zip(rows.tolist(), counts.tolist(), strict=True))


def recounted(state: ClusterState, kind: str, name: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for record in state.records():
        owner = record.pod.template.owner
        assert owner is not None
        kin = kind == DEPLOYMENT and owner.kind == REPLICA_SET
        if record.row >= 0 and record.pod.deleted_s is None and (kin or (owner.kind, owner.name) == (kind, name)):
            found[record.row] = found.get(record.row, 0) + 1
    return found


# --- conformance ---


def reference(pod: Pod, node: Node, pods: list[Pod], cluster: GeneratedCluster) -> list[str]:
    owner = pod.template.owner
    if owner is None:
        return []
    hosts = {each.node for each in cluster.pods if each.template.owner == owner}
    if len(hosts) != 1 or not any(each.template.owner == owner for each in pods):
        return []
    assert node.name in hosts
    return too_few(f"ReplicaSet/{owner.name}")


def test_conformance() -> None:
    """The promises of every plugin hold, and generated clusters, whose controllers nobody knows, agree."""
    check_plugin(ControllerSpread, seeds=range(20), reference_filter=reference)
