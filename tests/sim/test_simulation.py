"""What becomes of the pods of an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest, workload_manifest
from moorage.core.state import PodRecord
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Hold, Nomination
from moorage.sim.outcome import PodStory, SimulationOutcome
from moorage.sim.simulation import SimulationError, simulate
from tests.sim.simulating import given, places, rules, run

ONE_CORE = node_manifest("n1", cpu="1")


def story(outcome: SimulationOutcome, name: str) -> PodStory:
    """The one pod of this name."""
    (found,) = [one for one in outcome.pods if one.name == name]
    return found


def priority_class(name: str, value: int) -> dict[str, Any]:
    return manifest("PriorityClass", name, value=value)


def on(node: str, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, bound to a node."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


class Pushy(Plugin):
    """Evicts every less important pod of the first node by name."""

    name: ClassVar[str] = "Pushy"

    def post_filter(self, cycle: Cycle, runner: Runner, judgement: Judgement) -> Nomination | None:  # noqa: ARG002
        name = min(cycle.state.node_names())
        row = cycle.state.row_of(name)
        records: list[PodRecord] = cycle.state.records_on(row) if row is not None else []
        victims = [r.pod.uid for r in records if r.pod.template.priority < cycle.template.priority]
        return Nomination(name, tuple(victims), "preemption: made room") if victims else None


class Patient(Plugin):
    """Lets nobody pass before a minute of virtual time is over, and nobody with the label `never` at all."""

    name: ClassVar[str] = "Patient"

    def pre_filter(self, cycle: Cycle) -> None:
        cycle.memo.setdefault(self.name, cycle.now)

    def permit(self, cycle: Cycle, row: int) -> Hold | None:  # noqa: ARG002
        since = cycle.memo[self.name]
        if "never" in cycle.template.labels:
            return Hold(since + 1e9)
        return None if cycle.now >= since + 60 else Hold(since + 61)


def test_bound_pods_count_but_are_not_reported() -> None:
    """A pod with a node takes its room there, and is no news."""
    outcome = run([ONE_CORE, on("n1", pod_manifest("old", cpu="700m")), pod_manifest("new", cpu="500m")])
    assert places(outcome) == {"default/new": None}
    assert outcome.nodes["n1"].pods == 1
    assert outcome.nodes["n1"].requested == {"cpu": "700m", "memory": "128Mi"}
    assert story(outcome, "new").message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_requested_is_canonical() -> None:
    """Quantities are printed as Kubernetes prints them, extended resources by name."""
    node = node_manifest("n1")
    node["status"]["capacity"]["example.com/gpu"] = "4"
    pod = pod_manifest("p", cpu="1.5", memory="1024Mi")
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = 2
    outcome = run([node, node_manifest("n2", cpu="1"), pod])
    assert outcome.nodes["n1"].requested == {"cpu": "1500m", "memory": "1Gi", "example.com/gpu": "2"}
    assert outcome.nodes["n2"].requested == {"cpu": "0", "memory": "0"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"priority": 5}, {"priority": 9}, id="priority"),
        pytest.param(
            {"created": "2026-03-02T00:00:00Z"}, {"created": "2026-03-01T00:00:00Z"}, id="age of equal priority"
        ),
        pytest.param({}, {"created": "2026-07-01T00:00:00Z"}, id="with a time before without one"),
        pytest.param(
            {"created": "2026-03-01T00:00:00Z", "priority": 1},
            {"created": "2026-03-02T00:00:00Z", "priority": 2},
            id="priority before age",
        ),
    ],
)
def test_who_comes_first(first: dict[str, Any], second: dict[str, Any]) -> None:
    """With room for one, the pod that stands second in the input gets it by priority, then by age."""

    def pod(name: str, how: dict[str, Any]) -> dict[str, Any]:
        made = pod_manifest(name, cpu="1", priority=how.get("priority", 0))
        if "created" in how:
            made["metadata"]["creationTimestamp"] = how["created"]
        return made

    outcome = run([ONE_CORE, pod("a", first), pod("b", second)])
    assert places(outcome) == {"default/a": None, "default/b": "n1"}


def test_equals_come_in_input_order() -> None:
    """Without priority and time the place in the input decides, and the report keeps that order."""
    outcome = run([pod_manifest(name, cpu="600m") for name in "zay"] + [ONE_CORE])
    assert list(places(outcome).items()) == [("default/z", "n1"), ("default/a", None), ("default/y", None)]


def test_priority_of_a_class() -> None:
    """A pod's class gives it its priority, wherever in the input the class stands."""
    high = pod_manifest("high", cpu="1", priorityClassName="gold")
    outcome = run([ONE_CORE, pod_manifest("low", cpu="1"), high, priority_class("gold", 100)])
    assert places(outcome) == {"default/low": None, "default/high": "n1"}


def test_controllers_are_expanded_in_place() -> None:
    """Owners make their pods where they stand in the input; only what is lacking is made."""
    web = workload_manifest("Deployment", "web", own={"replicas": 2})
    outcome = run([ONE_CORE, web, pod_manifest("p"), workload_manifest("Job", "once")])
    assert list(places(outcome)) == ["default/web-0", "default/web-1", "default/p", "default/once-0"]


def test_daemons_of_shuffled_nodes() -> None:
    """A daemon's pod has the same name on the same node, whatever the order of the nodes."""
    nodes = [node_manifest(name) for name in ("n2", "n3", "n1")]
    outcome = run([*nodes, workload_manifest("DaemonSet", "agent")])
    assert places(outcome) == {"default/agent-0": "n1", "default/agent-1": "n2", "default/agent-2": "n3"}


def test_scheduler_names_without_profile() -> None:
    """With given profiles a pod of a stranger's scheduler stays pending and says so."""
    mine, strange = pod_manifest("mine", schedulerName="a"), pod_manifest("strange", schedulerName="c")
    outcome = run([ONE_CORE, mine, strange], rules(names=("a", "b"), answers_to_all=False))
    assert places(outcome) == {"default/mine": "n1", "default/strange": None}
    assert story(outcome, "strange").message == "no profile has the scheduler name c; there are: a, b"


def test_default_profile_answers_to_all() -> None:
    """With no configuration every pod is scheduled, whatever its schedulerName."""
    outcome = run([ONE_CORE, pod_manifest("p", schedulerName="anyone")])
    assert (story(outcome, "p").node, story(outcome, "p").scheduler_name) == ("n1", "anyone")


def test_gated_pods_say_what_they_wait_for() -> None:
    """A gated pod is never attempted; its message names the gates."""
    outcome = run([ONE_CORE, pod_manifest("p", schedulingGates=[{"name": "example.com/quota"}])], explain=True)
    assert story(outcome, "p").message == "waiting for scheduling gates: [example.com/quota]"
    assert outcome.explanations is not None
    assert outcome.explanations.of(story(outcome, "p").uid) == {}


def test_no_nodes() -> None:
    """A cluster without nodes is a legal input."""
    assert story(run([pod_manifest("p")]), "p").message == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="being deleted"),
        pytest.param({"status": {"phase": "Succeeded"}}, id="finished"),
    ],
)
def test_pods_that_do_not_wait(extra: dict[str, Any]) -> None:
    """Pods without a node that will never need one are not reported."""
    pod = pod_manifest("p")
    merged = {**pod, **extra, "metadata": {**pod["metadata"], **extra.get("metadata", {})}}
    assert run([ONE_CORE, merged]).pods == []


def test_explanation_is_of_the_deciding_attempt() -> None:
    """Each pod is explained with the cluster as it was when the pod's turn came, pending ones with their last turn."""
    outcome = run([ONE_CORE, *(pod_manifest(name, cpu="400m") for name in "abc")], explain=True)
    assert outcome.explanations is not None
    found = [outcome.explanations.of(one.uid)["n1"] for one in outcome.pods]
    assert [node.get("scores", {}).get("NodeResourcesFit") for node in found] == [79, 59, None]
    assert found[2] == {"rejected": {"NodeResourcesFit": ["Insufficient cpu"]}}
    assert found[0]["total"] == sum(found[0]["scores"].values())


def test_preemptor_ends_up_bound() -> None:
    """The victim vanishes, its preemptor takes the room; node and victims stay in the report."""
    bound = on("n1", pod_manifest("old", cpu="1"))
    outcome = run([ONE_CORE, bound, pod_manifest("vip", cpu="1", priority=7)], rules(Pushy))
    vip = story(outcome, "vip")
    assert (vip.node, vip.nominated_node, vip.victims, vip.message) == ("n1", "n1", ["default/old"], None)
    assert outcome.evictions == ["default/old"]
    assert places(outcome) == {"default/vip": "n1"}


def test_evicted_pods_of_owners_come_back() -> None:
    """The owner of a victim makes another one under the next free name, which then waits."""
    web = workload_manifest("ReplicaSet", "web", own={"replicas": 1}, cpu="1")
    web["metadata"]["uid"] = "web-uid"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}
    bound = on("n1", pod_manifest("web-0", cpu="1"))
    bound["metadata"]["ownerReferences"] = [owner]
    outcome = run([ONE_CORE, web, bound, pod_manifest("vip", cpu="1", priority=7)], rules(Pushy))
    assert outcome.evictions == ["default/web-0"]
    assert places(outcome) == {"default/web-1": None, "default/vip": "n1"}


def test_time_runs_until_a_pod_finishes() -> None:
    """Virtual time goes on to the moment at which a running pod ends and makes room."""
    batch = on("n1", pod_manifest("batch", cpu="1", annotations={"moorage.dev/run-seconds": "1800"}))
    assert places(run([ONE_CORE, batch, pod_manifest("p", cpu="1")])) == {"default/p": "n1"}


def test_time_runs_one_hour_at_most() -> None:
    """What would happen later than that does not happen."""
    batch = on("n1", pod_manifest("batch", cpu="1", annotations={"moorage.dev/run-seconds": "3700"}))
    assert places(run([ONE_CORE, batch, pod_manifest("p", cpu="1")])) == {"default/p": None}


def test_pods_that_are_held() -> None:
    """A pod that waits in Permit is bound when its time has come; one that still waits in the end says for whom."""
    held = pod_manifest("held", labels={"never": "true"})
    outcome = run([ONE_CORE, pod_manifest("later"), held], rules(Patient))
    assert places(outcome) == {"default/later": "n1", "default/held": None}
    assert story(outcome, "held").message == "Patient holds the pod on its way to node n1"


def test_what_admission_makes_of_an_object_is_traced_back() -> None:
    """What cannot be read only after defaulting is reported with the place of the object in the file."""
    runtime = manifest("RuntimeClass", "slow", handler="x", overhead={"podFixed": {"cpu": "12qi"}})
    cluster = given([ONE_CORE, pod_manifest("p", runtimeClassName="slow"), runtime])
    with pytest.raises(SimulationError) as caught:
        simulate(cluster, rules())
    (line,) = map(str, caught.value.problems)
    assert line.startswith("cluster.json")
    assert "12qi" in line


NODES = st.lists(
    st.builds(
        lambda cpu, zone, taint: {"cpu": cpu, "zone": zone, "taint": taint},
        st.sampled_from(["1", "2", "3500m"]),
        st.sampled_from(["a", "b"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
PODS = st.lists(
    st.builds(
        lambda cpu, priority, bound: {"cpu": cpu, "priority": priority, "bound": bound},
        st.sampled_from(["100m", "500m", "900m"]),
        st.integers(0, 2),
        st.integers(-6, 7),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@drawn(NODES, PODS, st.randoms(use_true_random=False), st.integers(0, 3))
def test_order_of_nodes_does_not_matter(
    shapes: list[dict[str, Any]], asked: list[dict[str, Any]], shuffler: Any, seed: int
) -> None:
    """The same cluster with its nodes and bound pods written in another order gives the same plan, explained alike."""
    taint: list[Mapping[str, str]] = [{"key": "k", "value": "", "effect": "PreferNoSchedule"}]
    nodes = [
        node_manifest(f"n{i}", cpu=shape["cpu"], zone=shape["zone"], taints=taint if shape["taint"] else None)
        for i, shape in enumerate(shapes)
    ]
    made = [pod_manifest(f"p{i}", cpu=pod["cpu"], priority=pod["priority"]) for i, pod in enumerate(asked)]
    homes = {f"p{i}": pod["bound"] for i, pod in enumerate(asked) if 0 <= pod["bound"] < len(nodes)}
    bound = [on(f"n{homes[p['metadata']['name']]}", p) for p in made if p["metadata"]["name"] in homes]
    waiting = [p for p in made if p["metadata"]["name"] not in homes]
    using = [rules(seed=seed) for _ in range(2)]
    first = run([*nodes, *bound, *waiting], using[0], explain=True)
    fixed = [*nodes, *bound]
    shuffler.shuffle(fixed)
    second = run([*fixed[: len(fixed) // 2], *waiting, *fixed[len(fixed) // 2 :]], using[1], explain=True)
    assert places(first) == places(second)
    assert first.nodes == second.nodes
    assert first.explanations is not None
    assert second.explanations is not None
    for mine, other in zip(first.pods, second.pods, strict=True):
        assert first.explanations.of(mine.uid) == second.explanations.of(other.uid)


def test_seed_decides_between_equals() -> None:
    """The same seed gives the same plan; over many seeds equal nodes are all used."""
    cluster = [*(node_manifest(f"n{i}") for i in range(3)), pod_manifest("p")]
    plans = [places(run(cluster, rules(seed=seed)))["default/p"] for seed in range(40)]
    again = [places(run(cluster, rules(seed=seed)))["default/p"] for seed in range(40)]
    assert plans == again
    assert set(plans) == {"n0", "n1", "n2"}


def test_pods_of_another_namespace_are_nobodys_replicas() -> None:
    """A controller makes all its pods, however many elsewhere name it as their owner."""
    web = workload_manifest("ReplicaSet", "web", own={"replicas": 2})
    web["metadata"]["uid"] = "web-uid"
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}
    forged = [pod_manifest(f"h{n}", "hostile") for n in range(2)]
    for pod in forged:
        pod["metadata"]["ownerReferences"] = [reference]
    outcome = run([node_manifest("n1", cpu="8"), web, *forged])
    assert set(places(outcome)) >= {"default/web-0", "default/web-1"}
