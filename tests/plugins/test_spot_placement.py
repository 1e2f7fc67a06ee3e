"""SpotPlacement: who prefers spot, who prefers or demands on-demand, and how many of a controller stay there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from moorage.adapters.memory.manifests import node_manifest, pod_manifest, workload_manifest
from moorage.core.arrays import Ints, Rows
from moorage.core.events import NodeSeen, ObjectSeen, PodSeen
from moorage.core.nodes import Node
from moorage.core.objects import DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET
from moorage.core.pods import Owner, Pod
from moorage.engine.extending import Extending, Filtered
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import SKIP
from moorage.plugins.spot_placement import SpotPlacement, SpotPlacementArgs
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod
from moorage.testing.answers import soft_reasons
from tests.engine.play import Play, small_profile
from tests.plugins.controlled import (
    make_workload,
    nodes_of,
    owner_of,
    packing_rules,
    pod_of,
    reasons_for,
    scores_for,
    simulated,
    state_with,
)
from tests.sim.simulating import rules

CAPACITY = "node.kubernetes.io/capacity"
BASE = "moorage.dev/on-demand-base"
SPOT, ON_DEMAND, UNKNOWN = (
    make_node("spot", labels={CAPACITY: "spot"}),
    make_node("on-demand", labels={CAPACITY: "on-demand"}),
    make_node("unknown"),
)
NODES = [SPOT, ON_DEMAND, UNKNOWN]
TO_SPOT = {"spot": 100, "unknown": 50, "on-demand": 0}
TO_ON_DEMAND = {"spot": 0, "unknown": 50, "on-demand": 100}
NOT_ON_DEMAND = ["node(s) were not on-demand, which pods without replicas need"]


class Adores(Plugin):
    """Wants pods on nodes of one kind, with a weight that no other score can match."""

    name = "Adores"
    reads = Reads.NODE

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Ten thousand points in all."""
        found = [100 * (cycle.state.node(int(row)).labels[CAPACITY] == self._kind) for row in rows]
        return np.array(found, dtype=np.int64)


def plugin(**args: Any) -> SpotPlacement:
    return SpotPlacement(SpotPlacementArgs.model_validate(args))


# --- preferences ---

DEPLOYED = owner_of(DEPLOYMENT, "web")

PREFERENCES: dict[str, tuple[Pod, list[Any], dict[str, int]]] = {
    "bare": (make_pod("a"), [], TO_ON_DEMAND),
    "one replica": (pod_of(REPLICA_SET, "web"), [make_workload(REPLICA_SET, "web", 1)], TO_ON_DEMAND),
    "two replicas": (pod_of(REPLICA_SET, "web"), [make_workload(REPLICA_SET, "web", 2)], TO_SPOT),
    "a StatefulSet": (pod_of(STATEFUL_SET, "db"), [make_workload(STATEFUL_SET, "db", 3)], TO_SPOT),
    "the first pod of a rollout": (
        pod_of(REPLICA_SET, "web"),
        [make_workload(REPLICA_SET, "web", 1, owner=DEPLOYED), make_workload(DEPLOYMENT, "web", 4)],
        TO_SPOT,
    ),
    "a Job in parallel": (pod_of(JOB, "sum"), [make_workload(JOB, "sum", 4, completions=9, succeeded=8)], TO_SPOT),
    "a Job one by one": (pod_of(JOB, "sum"), [make_workload(JOB, "sum", 1, completions=9)], TO_ON_DEMAND),
    "opted out by annotation": (
        pod_of(REPLICA_SET, "web", annotations={"moorage.dev/spot": "never"}),
        [make_workload(REPLICA_SET, "web", 2)],
        TO_ON_DEMAND,
    ),
    "opted out by label": (
        pod_of(REPLICA_SET, "web", labels={"moorage.dev/spot": "never"}),
        [make_workload(REPLICA_SET, "web", 2)],
        TO_ON_DEMAND,
    ),
    "an owner that nobody knows": (
        make_pod("a", owner=Owner("Workflow", "w", "u", "argoproj.io/v1")),
        [],
        TO_ON_DEMAND,
    ),
    "labelled multiple": (make_pod("a", labels={"class": "multiple"}), [], TO_SPOT),
    "labelled single": (
        pod_of(REPLICA_SET, "web", labels={"class": "single"}),
        [make_workload(REPLICA_SET, "web", 2)],
        TO_ON_DEMAND,
    ),
    "labelled otherwise": (
        pod_of(REPLICA_SET, "web", labels={"class": "many"}),
        [make_workload(REPLICA_SET, "web", 2)],
        TO_SPOT,
    ),
}


@pytest.mark.parametrize(("pod", "workloads", "want"), PREFERENCES.values(), ids=PREFERENCES.keys())
def test_preference_is_a_score(pod: Pod, workloads: list[Any], want: dict[str, int]) -> None:
    """What is wanted scores 100, the other 0, what nobody knows 50; nothing is rejected."""
    state = state_with(NODES, [], workloads)
    subject = plugin(replicaClassLabel="class")
    assert scores_for(subject, state, pod) == want
    assert reasons_for(subject, state, pod) == {}


@pytest.mark.parametrize(("pod", "workloads", "want"), PREFERENCES.values(), ids=PREFERENCES.keys())
def test_the_others_are_taken_only_if_none_of_the_preferred_fits(
    pod: Pod, workloads: list[Any], want: dict[str, int]
) -> None:
    """Softly, on either side; nodes of unknown capacity are second best."""
    state = state_with(NODES, [], workloads)
    found = soft_reasons(plugin(replicaClassLabel="class"), Cycle(pod, state, 0.0), state.rows())
    kind = "spot" if want == TO_SPOT else "on-demand"
    text = f"node(s) were not {kind}, which the pod prefers"
    assert found == {name: ((text, False),) if score < 100 else () for name, score in want.items()}


def crowded(kind: str, adored: str) -> Counter[str | None]:
    """Six pods beside a plugin that gives 100 times 100 points to nodes of the other kind."""
    profile = small_profile(plugin(), Adores(adored))
    play = Play(profiles=[replace(profile, weights={**profile.weights, "Adores": 100})])
    kinds = ("spot", "on-demand") * 2
    play.see(*(make_node(f"{each}-{n}", cpu="2", labels={CAPACITY: each}) for n, each in enumerate(kinds)))
    play.object_seen(REPLICA_SET, "default/web", make_workload(REPLICA_SET, "web", 6 if kind == "spot" else 1))
    play.see(*(pod_of(REPLICA_SET, "web", number, cpu="1") for number in range(6)))
    return Counter(node.rpartition("-")[0] for node in play.binds.values())


@pytest.mark.parametrize(("kind", "other"), [("spot", "on-demand"), ("on-demand", "spot")])
def test_no_score_outweighs_the_rule(kind: str, other: str) -> None:
    """As long as there is room; then the others are taken, and nobody waits."""
    assert crowded(kind, other) == {kind: 4, other: 2}


def test_the_extender_keeps_what_the_pod_prefers() -> None:
    """Of the nodes that were sent: kube-scheduler cannot choose another one for the sake of spread."""
    extending = Extending(small_profile(plugin()), certified=True)
    pod = pod_of(REPLICA_SET, "web")
    for node in NODES:
        extending.handle(NodeSeen(node))
    extending.handle(ObjectSeen(REPLICA_SET, "default/web", make_workload(REPLICA_SET, "web", 2)))
    extending.handle(PodSeen(pod))
    want = dict.fromkeys(("on-demand", "unknown"), "node(s) were not spot, which the pod prefers")
    assert extending.filter(pod, ["on-demand", "spot", "unknown"], 0.0) == Filtered((1,), {}, want)
    assert extending.filter(pod, ["on-demand", "unknown"], 0.0) == Filtered((0, 1))


@pytest.mark.parametrize(("pod", "workloads", "want"), PREFERENCES.values(), ids=PREFERENCES.keys())
def test_who_prefers_on_demand_can_be_made_to_demand_it(pod: Pod, workloads: list[Any], want: dict[str, int]) -> None:
    """`singleReplica: Require` turns the preference into a filter, beyond preemption; the others stay free."""
    state = state_with(NODES, [], workloads)
    rejected = dict.fromkeys(("spot", "unknown"), NOT_ON_DEMAND) if want == TO_ON_DEMAND else {}
    assert reasons_for(plugin(replicaClassLabel="class", singleReplica="Require"), state, pod) == rejected


def test_daemon_pods_are_left_alone() -> None:
    """They belong to their node, whatever it is."""
    pod, state = pod_of(DAEMON_SET, "logs"), state_with(NODES)
    subject = plugin(singleReplica="Require")
    assert not subject.concerns(pod.template, state)
    assert subject.pre_filter(Cycle(pod, state, 0.0)) is SKIP
    assert subject.pre_score(Cycle(pod, state, 0.0), state.rows()) is SKIP


def test_labels_can_be_added_and_unlabelled_nodes_counted_as_on_demand() -> None:
    """For clusters with labels of their own, and for clouds that label spot nodes only."""
    nodes = [make_node("a", labels={"pool": "Cheap"}), make_node("b")]
    subject = plugin(
        capacityLabels=[{"key": "pool", "spot": ["cheap"]}], unlabelled="OnDemand", singleReplica="Require"
    )
    assert reasons_for(subject, state_with(nodes), make_pod("p")) == {"a": NOT_ON_DEMAND}


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"singleReplica": "Always"}, id="an unknown word"),
        pytest.param({"keepOnDemand": -1}, id="a negative number"),
        pytest.param({"replicaClassLabel": "not a key"}, id="no label key"),
        pytest.param({"capacityLabels": [{"key": ""}]}, id="an empty label key"),
        pytest.param({"keepOnDemnd": 1}, id="a misspelt field"),
    ],
)
def test_bad_arguments_are_refused(args: dict[str, Any]) -> None:
    """A slip in a configuration is never taken for something else."""
    with pytest.raises(ValidationError):
        SpotPlacementArgs.model_validate(args)


# --- keeping some on on-demand ---


def web(replicas: int, **annotations: str) -> Any:
    return make_workload(REPLICA_SET, "web", replicas, annotations={BASE: annotations["base"]} if annotations else {})


def standing(**numbers: int) -> list[Pod]:
    """So many pods of the controller on the nodes of these names."""
    nodes = [node.replace("_", "-") for node, number in numbers.items() for _ in range(number)]
    return [pod_of(REPLICA_SET, "web", number + 1, node=node) for number, node in enumerate(nodes)]


KEPT: dict[str, tuple[int, int, list[Pod], dict[str, int], bool]] = {
    "the first goes to on-demand": (3, 1, [], TO_ON_DEMAND, False),
    "then to spot": (3, 1, standing(on_demand=1), TO_SPOT, False),
    "unknown is not on-demand": (3, 1, standing(unknown=1), TO_ON_DEMAND, False),
    "spot while on-demand may still come": (3, 1, standing(spot=1), TO_ON_DEMAND, False),
    "the last must not be on spot too": (3, 1, standing(spot=2), TO_ON_DEMAND, True),
    "unless one is elsewhere": (4, 1, standing(spot=2, on_demand=1), TO_SPOT, False),
    "two are kept": (3, 2, standing(spot=1, on_demand=1), TO_ON_DEMAND, True),
    "more than there are": (2, 5, standing(on_demand=1), TO_ON_DEMAND, True),
    "none are kept": (2, 0, standing(spot=1), TO_SPOT, False),
}


@pytest.mark.parametrize(("replicas", "keep", "pods", "want", "closed"), KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("by", ["argument", "annotation"])
def test_some_stay_on_on_demand(
    by: str, replicas: int, keep: int, pods: list[Pod], want: dict[str, int], closed: bool
) -> None:
    """On-demand is preferred until `keep` pods stand there; spot is closed to what would be too many there."""
    subject = plugin(keepOnDemand=keep) if by == "argument" else plugin(keepOnDemand=9)
    workload = web(replicas) if by == "argument" else web(replicas, base=str(keep))
    state, pod = state_with(NODES, pods, [workload]), pod_of(REPLICA_SET, "web")
    assert scores_for(subject, state, pod) == want
    text = f"node(s) were spot, and controller ReplicaSet/web keeps {min(keep, replicas)} pod(s) on on-demand"
    assert reasons_for(subject, state, pod) == ({"spot": [text]} if closed else {})


def test_terminating_pods_do_not_count() -> None:
    """A pod that leaves its on-demand node must be replaced there."""
    pods = [replace(pod, deleted_s=1.0) for pod in standing(on_demand=1)]
    state = state_with(NODES, pods, [web(2)])
    assert scores_for(plugin(keepOnDemand=1), state, pod_of(REPLICA_SET, "web")) == TO_ON_DEMAND


def revision(number: int, name: str, node: str | None = None, **fields: Any) -> Pod:
    """A pod of a ReplicaSet of the Deployment `web`."""
    return pod_of(REPLICA_SET, f"web-{name}", number, node=node, labels={"pod-template-hash": name}, **fields)


def revisions(**replicas: int) -> list[Any]:
    """The Deployment, made for as many as the last of these ReplicaSets."""
    sets = [make_workload(REPLICA_SET, f"web-{name}", number, owner=DEPLOYED) for name, number in replicas.items()]
    return [make_workload(DEPLOYMENT, "web", [*replicas.values()][-1]), *sets]


OLD = [revision(0, "old", "on-demand"), revision(1, "old", "spot"), revision(2, "old", "spot")]
ROLLED: dict[str, tuple[int, int, list[Pod], bool]] = {
    "the old revision holds the base": (3, 1, [*OLD, revision(0, "new", "spot"), revision(1, "new", "spot")], False),
    "from the first pod on": (1, 1, OLD, False),
    "in part": (3, 2, [*OLD, revision(0, "new", "spot")], False),
    "in part, and too few can come": (3, 2, [*OLD, revision(0, "new", "spot"), revision(1, "new", "spot")], True),
    "a pod that leaves holds nothing": (
        3, 1, [replace(OLD[0], deleted_s=1.0), revision(0, "new", "spot"), revision(1, "new", "spot")], True,
    ),
    "a pod of another workload holds nothing": (
        3, 1, [pod_of(REPLICA_SET, "db", node="on-demand"), *(revision(n, "new", "spot") for n in (0, 1))], True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("desired", "keep", "pods", "closed"), ROLLED.values(), ids=ROLLED.keys())
def test_the_base_may_be_held_by_the_old_revision(desired: int, keep: int, pods: list[Pod], closed: bool) -> None:
    """Until its pods go: the new revision does not wait for places that nobody gives up."""
    state, pod = state_with(NODES, pods, revisions(old=3, new=desired)), revision(9, "new")
    found = reasons_for(plugin(keepOnDemand=keep), state, pod)
    text = f"node(s) were spot, and controller Deployment/web keeps {keep} pod(s) on on-demand"
    assert found == ({"spot": [text]} if closed else {})


def test_a_rollout_with_a_base_and_no_spare_on_demand_room_ends() -> None:
    """The only on-demand place is held by the old revision; a pod of the new one has it once that is gone."""
    play = Play(plugin(keepOnDemand=1))
    play.see(*(make_node(kind, cpu=cpu, labels={CAPACITY: kind}) for kind, cpu in (("spot", "9"), ("on-demand", "1"))))
    for workload in revisions(old=3, new=1):
        play.object_seen(workload.kind, workload.key, workload)
    play.see(*(revision(number, "old", node, cpu="1") for number, node in enumerate(("on-demand", "spot", "spot"))))
    play.see(revision(0, "new", cpu="1"))
    assert play.binds == {"web-new-0": "spot"}


def test_a_base_above_the_size_of_the_workload_is_its_size() -> None:
    """An autoscaler went below it: a rollout would wait for on-demand pods that nobody makes."""
    subject = plugin(keepOnDemand=3)
    pods = [revision(0, "old", "on-demand"), revision(1, "old", "on-demand")]
    state, pod = state_with(NODES, pods, revisions(old=2, new=2)), revision(9, "new")
    assert reasons_for(subject, state, pod) == {}
    aim = subject.capacity_aim(pod.template, state)
    assert aim is not None
    assert aim.on_demand == 2


def test_the_extender_waits_where_some_are_kept() -> None:
    """Otherwise pods of one controller may be placed at once."""
    state, template = state_with(NODES, [], [web(3)]), pod_of(REPLICA_SET, "web").template
    assert plugin().awaits(template, state) is None
    assert plugin(keepOnDemand=1).awaits(template, state) == "default/ReplicaSet/web"


def cluster(spot: int, on_demand: int) -> list[dict[str, Any]]:
    kinds = {"spot": spot, "on-demand": on_demand}
    return [
        node_manifest(f"{kind}-{number}", cpu="2", labels={CAPACITY: kind})
        for kind, count in kinds.items()
        for number in range(count)
    ]


def kinds_of(placed: Counter[str | None]) -> dict[str, int]:
    """How many pods are on which kind of node; `wait` for those that have none."""
    found: Counter[str] = Counter()
    for node, number in placed.items():
        found["wait" if node is None else node.rpartition("-")[0]] += number
    return dict(found)


SIMULATED: dict[str, tuple[list[Any], dict[str, Any], int, dict[str, int]]] = {
    "one replica": (cluster(2, 2), {}, 1, {"on-demand": 1}),
    "several replicas": (cluster(2, 2), {}, 4, {"spot": 4}),
    "one kept": (cluster(2, 2), {"keepOnDemand": 1}, 4, {"on-demand": 1, "spot": 3}),
    "no on-demand for the one that is kept": (cluster(4, 0), {"keepOnDemand": 1}, 4, {"spot": 3, "wait": 1}),
    "no on-demand, and none is kept": (cluster(4, 0), {}, 4, {"spot": 4}),
    "no on-demand for one that prefers it": (cluster(2, 0), {}, 1, {"spot": 1}),
    "no on-demand for one that demands it": (cluster(2, 0), {"singleReplica": "Require"}, 1, {"wait": 1}),
    "no room on spot": (cluster(1, 2), {}, 6, {"spot": 4, "on-demand": 2}),
}


@pytest.mark.parametrize(("nodes", "args", "replicas", "want"), SIMULATED.values(), ids=SIMULATED.keys())
def test_deployments_are_placed_by_the_policy(
    nodes: list[Any], args: dict[str, Any], replicas: int, want: dict[str, int]
) -> None:
    """Through the whole engine, beside a profile that packs."""
    workload = workload_manifest("Deployment", "web", own={"replicas": replicas}, cpu="500m")
    placed = nodes_of(simulated([*nodes, workload], packing_rules(SpotPlacement, args, weight=10)), "web")
    assert kinds_of(placed) == want


@pytest.mark.parametrize("replicas", [12, 24])
def test_no_replica_is_on_on_demand_while_spot_has_room(replicas: int) -> None:
    """With the default set, which balances nodes, and with the constraint that live pods of a Deployment are given."""
    nodes = [
        node_manifest(f"{kind}-{number}", cpu="8", labels={CAPACITY: kind})
        for kind, count in (("spot", 2), ("on-demand", 2))
        for number in range(count)
    ]
    spread = {
        "maxSkew": 3,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    own = {"replicas": replicas}
    asked: dict[str, Any] = {"cpu": "500m", "memory": "1Gi", "topologySpreadConstraints": [spread]}
    workload = workload_manifest("Deployment", "web", own=own, **asked)
    placed = kinds_of(nodes_of(simulated([*nodes, workload], rules(SpotPlacement)), "web"))
    assert placed == {"spot": replicas}


def test_bare_pods_prefer_on_demand() -> None:
    """Nobody makes another one if they are lost."""
    outcome = simulated([*cluster(2, 1), pod_manifest("lonely-0")], packing_rules(SpotPlacement, weight=10))
    assert nodes_of(outcome, "lonely") == {"on-demand-0": 1}


def test_a_malformed_annotation_falls_back_to_the_argument_with_one_warning() -> None:
    """One event says so, however many pods there are."""
    play = Play(plugin(keepOnDemand=1))
    play.see(*NODES)
    play.object_seen(REPLICA_SET, "default/web", web(3, base="some"))
    play.see(*(pod_of(REPLICA_SET, "web", number) for number in range(3)))
    assert "on-demand" in play.binds.values()
    assert play.reasons == [("web-0", "MalformedAnnotation")]
    assert play.note("web-0") == (
        'ReplicaSet default/web: annotation moorage.dev/on-demand-base is "some"; '
        "write a whole number from 0 on. 1 is used instead"
    )


# --- waking up ---

CHANGES: dict[str, tuple[Change, bool]] = {
    "an on-demand node came": (Change(What.NODE_ADDED, node=ON_DEMAND), True),
    "an unknown node came": (Change(What.NODE_ADDED, node=UNKNOWN), True),
    "a spot node came": (Change(What.NODE_ADDED, node=SPOT), False),
    "a node became on-demand": (Change(What.NODE_LABELS, node=ON_DEMAND), True),
    "a pod of the controller left": (Change(What.POD_REMOVED, pod=pod_of(REPLICA_SET, "web", 1)), True),
    "a pod of another one left": (Change(What.POD_REMOVED, pod=pod_of(REPLICA_SET, "db", 1)), False),
    "a pod of the controller came": (Change(What.POD_ADDED, pod=pod_of(REPLICA_SET, "web", 1)), True),
    "the controller changed": (Change(What.OBJECT, kind=REPLICA_SET, key="default/web"), True),
    "another one changed": (Change(What.OBJECT, kind=REPLICA_SET, key="default/db"), False),
}


@pytest.mark.parametrize(("change", "want"), CHANGES.values(), ids=CHANGES.keys())
def test_what_helps(change: Change, want: bool) -> None:
    """Only what can change the capacity, the count or the rule."""
    assert plugin().helps(pod_of(REPLICA_SET, "web").template, change) is want


# --- conformance ---


def reference_filter(_pod: Pod, node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
    return [] if node.labels.get("disk") == "ssd" else NOT_ON_DEMAND


def reference_score(_pod: Pod, node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> int:
    return {"ssd": 100, "hdd": 0}.get(node.labels.get("disk", ""), 50)


def test_conformance() -> None:
    """The promises of every plugin hold; generated clusters, whose controllers nobody knows, agree with the reference.

    The label `disk` tells the capacity there: ssd is on-demand, hdd is spot.
    """
    labels = [{"key": "disk", "spot": ["hdd"], "onDemand": ["ssd"]}]
    args = {"singleReplica": "Require", "capacityLabels": labels}
    check_plugin(
        SpotPlacement, args, seeds=range(20), reference_filter=reference_filter, reference_score=reference_score
    )
