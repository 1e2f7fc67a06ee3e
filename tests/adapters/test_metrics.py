"""The scheduler's metrics: kube-scheduler's names, labels and buckets, fed by what goes in and out of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from moorage.adapters.metrics.registry import MetricsPage
from moorage.adapters.metrics.scheduler import MeasuredTurn, SchedulerMetrics
from moorage.adapters.metrics.tally import BucketTally, exponential_bounds
from moorage.core.claims import ClaimConsumer, DeviceChoice, DeviceCondition, DeviceStatus
from moorage.core.commands import Bind, Command, PatchObject, PodRef, Verb
from moorage.core.events import (
    BindDone,
    BindOutcome,
    ConfigurationChanged,
    Event,
    NodeSeen,
    ObjectSeen,
    PatchDone,
    PodGone,
    PodSeen,
)
from moorage.core.frozen import FrozenDict
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration
from moorage.framework.plugin import Plugin, Point
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.framework.status import Hold
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.fragmentation import Fragmentation
from moorage.testing import make_node, make_pod
from moorage.testing.devices import (
    DEVICE_DRIVER,
    make_allocation,
    make_device,
    make_device_class,
    make_resource_claim,
    make_slice,
)
from tests.engine.actors import Permitter
from tests.framework.readers import given

PROFILE = "moorage"
FAILURE = "ScheduleAttemptFailure"


class Bench:
    """An engine whose calls are metered. Each takes a millisecond; the engine's time is moved by hand."""

    def __init__(self, *plugins: Plugin) -> None:
        (usual,) = build_profiles(Configuration(), Registry(BUILTIN))
        by_point = {p: (*usual.at(p), *(given(each) for each in plugins if p in each.points())) for p in Point}
        self.engine = Engine([replace(usual, by_point=by_point)])
        self.metrics = SchedulerMetrics(self.engine)
        self.now_s = 1000.0
        self.page = MetricsPage(self.metrics)

    def turn(self, *events: Event, pause_s: float = 0.0) -> Sequence[Command]:
        self.now_s += pause_s
        commands, _ = self.engine.handle(events, self.now_s)
        self.metrics.observe(MeasuredTurn(events, commands, self.now_s, self.now_s, self.now_s + 0.001))
        return commands

    def bind(self, *events: Event, outcome: BindOutcome = BindOutcome.BOUND, took_s: float = 0.05) -> None:
        """Take events over, and answer the one bind that follows from them."""
        (bind,) = [command for command in self.turn(*events) if isinstance(command, Bind)]
        self.turn(BindDone(bind.pod.uid, outcome, bind.node), pause_s=took_s)

    def samples(self, name: str) -> list[Sample]:
        """All samples of the page with this name."""
        text, _ = self.page.render("")
        families = text_string_to_metric_families(text.decode())
        return [sample for family in families for sample in family.samples if sample.name == name]

    def value(self, name: str, **labels: str) -> float | None:
        """A sample of the page, None if there is none."""
        return next((sample.value for sample in self.samples(name) if sample.labels == labels), None)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def pod(name: str, cpu: str = "1", **fields: object) -> PodSeen:
    return PodSeen(make_pod(name, cpu=cpu, scheduler_name=PROFILE, **fields))  # type: ignore[arg-type]


def test_a_scheduled_pod_counts_when_it_is_bound(bench: Bench) -> None:
    """The attempt lasts from the decision to the answer of the bind."""
    commands = bench.turn(NodeSeen(make_node("n")), pod("a"))
    assert bench.value("scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) is None
    (bind,) = [command for command in commands if isinstance(command, Bind)]
    bench.turn(BindDone(bind.pod.uid, BindOutcome.BOUND, "n"), pause_s=0.05)
    labels = {"result": "scheduled", "profile": PROFILE}
    duration = "scheduler_scheduling_attempt_duration_seconds"
    assert bench.value("scheduler_schedule_attempts_total", **labels) == 1
    assert bench.value(f"{duration}_count", **labels) == 1
    assert bench.value(f"{duration}_sum", **labels) == pytest.approx(0.05)
    assert bench.value(f"{duration}_bucket", **labels, le="0.032") == 0
    assert bench.value(f"{duration}_bucket", **labels, le="0.064") == 1
    assert bench.value("scheduler_scheduling_algorithm_duration_seconds_sum") == pytest.approx(0.001)
    assert bench.value("scheduler_pod_scheduling_attempts_sum") == 1
    assert bench.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 1


def test_failed_attempts_count_by_result(bench: Bench) -> None:
    """No node is unschedulable, a refused bind is an error; what a pod went through shows once it is bound."""
    bench.turn(pod("a"))
    assert bench.value("scheduler_schedule_attempts_total", result="unschedulable", profile=PROFILE) == 1
    assert bench.value("scheduler_queue_incoming_pods_total", queue="unschedulable", event=FAILURE) == 1
    bench.bind(NodeSeen(make_node("n")), outcome=BindOutcome.FAILED)
    assert bench.value("scheduler_schedule_attempts_total", result="error", profile=PROFILE) == 1
    assert bench.value("scheduler_queue_incoming_pods_total", queue="backoff", event=FAILURE) == 1
    bench.now_s += 30
    bench.bind()
    assert bench.value("scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) == 1
    assert bench.value("scheduler_pod_scheduling_attempts_sum") == 3
    sli_s = bench.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="3")
    assert sli_s == pytest.approx(30.1), "from the moment it was first ready to be tried"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda uid: [BindDone(uid, BindOutcome.GONE)], id="gone"),
        pytest.param(lambda uid: [BindDone(uid, BindOutcome.ELSEWHERE, "m")], id="bound by somebody else"),
        pytest.param(lambda uid: [PodGone(uid), BindDone(uid, BindOutcome.BOUND, "n")], id="deleted on the way"),
    ],
)
def test_an_attempt_without_outcome_is_not_counted(bench: Bench, end: Callable[[str], list[Event]]) -> None:
    """And nothing of it is kept."""
    seen = pod("a")
    bench.turn(NodeSeen(make_node("n")), seen)
    for event in end(seen.pod.uid):
        bench.turn(event)
    assert bench.value("scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) is None
    assert not bench.metrics._bindings


def test_sizes_are_those_of_the_moment(bench: Bench) -> None:
    """Pending pods by queue, and what the cache holds."""
    bench.turn(NodeSeen(make_node("n", cpu="4")), pod("bound", node="n"), pod("held", gates=["g"]), pod("huge", "64"))
    bench.turn(pod("on-its-way"))
    want = {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1, "incomplete": 0, "pending": 0}
    assert {queue: bench.value("scheduler_pending_pods", queue=queue) for queue in want} == want
    cache = {"assumed_pods": 1, "pods": 2, "nodes": 1}
    assert {name: bench.value("scheduler_cache_size", type=name) for name in cache} == cache
    assert bench.value("moorage_overcommitted_nodes") == 0
    bench.turn(pod("foreign", "4", node="n"))
    assert bench.value("moorage_overcommitted_nodes") == 1


def test_idle_capacity_is_told_where_a_profile_knows_what_is_of_use(bench: Bench) -> None:
    """The default profile does not."""
    bench.turn(NodeSeen(make_node("n", cpu="4")))
    assert bench.value("moorage_idle_capacity", resource="cpu", profile=PROFILE) is None
    knowing = Bench(Fragmentation())
    knowing.turn(NodeSeen(make_node("n", cpu="4")), pod("bound", "3", node="n"), pod("waits", "2"))
    assert knowing.value("moorage_idle_capacity", resource="cpu", profile=PROFILE) == 1
    unusable = knowing.value("moorage_unusable_idle_capacity", resource="cpu", profile=PROFILE)
    assert unusable == 1, "neither a pod of 3 cores nor one of 2 fits"


def test_newcomers_are_counted_once(bench: Bench) -> None:
    """However often a pod is seen; gated ones count among the unschedulable, as in kube-scheduler."""
    plain, gated = pod("a"), pod("b", gates=["g"])
    bench.turn(plain, PodSeen(replace(plain.pod, generation=2)), gated)
    bench.turn(plain, gated, pause_s=1)
    assert bench.value("scheduler_queue_incoming_pods_total", queue="active", event="UnscheduledPodAdd") == 1
    assert bench.value("scheduler_queue_incoming_pods_total", queue="unschedulable", event="UnscheduledPodAdd") == 1


def test_how_long_a_pod_was_gated_is_not_held_against_the_scheduler(bench: Bench) -> None:
    """The service level counts from the moment the pod could be tried."""
    gated = pod("a", gates=["g"])
    bench.turn(NodeSeen(make_node("n")), gated)
    bench.now_s += 3600
    bench.bind(PodSeen(replace(gated.pod, gates=())))
    sli_s = bench.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="1")
    assert sli_s == pytest.approx(0.05)


def test_many_attempts_share_a_label(bench: Bench) -> None:
    """From fifteen on the label does not tell them apart."""
    bench.bind(NodeSeen(make_node("n")), pod("a"), outcome=BindOutcome.FAILED)
    for _ in range(16):
        bench.now_s += 30
        bench.bind(outcome=BindOutcome.FAILED)
    bench.now_s += 30
    bench.bind()
    assert bench.value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="15+") == 1


def test_every_way_into_a_queue_is_counted(bench: Bench) -> None:
    """By what let the pods in, in kube-scheduler's words."""
    bench.turn(NodeSeen(make_node("n", cpu="1")), pod("a", "2"), pod("b", "64"))
    bench.turn(NodeSeen(make_node("n", cpu="4")))
    bench.turn(NodeSeen(make_node("m", cpu="8")), pause_s=60)
    bench.turn(pause_s=600)
    entered = {
        (sample.labels["queue"], sample.labels["event"]): sample.value
        for sample in bench.samples("scheduler_queue_incoming_pods_total")
    }
    assert entered == {
        ("active", "UnscheduledPodAdd"): 2,
        ("unschedulable", FAILURE): 3,
        ("backoff", "NodeUpdateNodeAllocatable"): 1,
        ("active", "PopFromBackoffQ"): 1,
        ("active", "UnschedulableTimeout"): 1,
    }


def test_pods_wait_for_plugins(bench: Bench) -> None:
    """For each that rejected them, until they are tried again."""
    bench.turn(NodeSeen(make_node("n", cpu="1")), pod("a", "2"), pod("b", "2", node_selector={"a": "b"}))
    assert bench.value("scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile=PROFILE) == 1
    assert bench.value("scheduler_unschedulable_pods", plugin="NodeAffinity", profile=PROFILE) == 1
    bench.bind(NodeSeen(make_node("n", cpu="4")))
    assert bench.value("scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile=PROFILE) is None


def test_plugins_count_where_they_have_a_say(bench: Bench) -> None:
    """In every decision, whether they were asked or their answer had been kept; not where they skip the pod."""
    bench.turn(NodeSeen(make_node("n")), NodeSeen(make_node("m")), *(pod(name, "100m") for name in "abc"))
    labels = {"profile": PROFILE, "extension_point": "Filter"}
    assert bench.value("scheduler_plugin_evaluation_total", plugin="NodeResourcesFit", **labels) == 3
    assert bench.value("scheduler_plugin_evaluation_total", plugin="NodePorts", **labels) in {0, None}
    bench.turn(pod("d", "100m", ports=[80]))
    assert bench.value("scheduler_plugin_evaluation_total", plugin="NodePorts", **labels) == 1


def test_evictions_are_counted_by_preemptor(bench: Bench) -> None:
    """One that needs two victims is one attempt with two of them."""
    low = [PodSeen(make_pod(name, cpu="1", node="n")) for name in ("x", "y")]
    bench.turn(NodeSeen(make_node("n", cpu="2")), *low, pod("vip", "2", priority=10))
    assert bench.value("scheduler_preemption_attempts_total") == 1
    assert bench.value("scheduler_preemption_victims_sum") == 2
    assert bench.value("scheduler_preemption_victims_bucket", le="1.0") == 0
    assert bench.value("scheduler_preemption_victims_bucket", le="2.0") == 1
    assert bench.value("moorage_evictions_guarded_total") == 0


@pytest.mark.parametrize(
    ("end", "want"),
    [pytest.param("go", "Success", id="let through"), pytest.param("late", "Unschedulable", id="timed out")],
)
def test_waits_in_permit_are_measured(end: str, want: str) -> None:
    """Until the pod may go on, or does not."""
    bench = Bench(Permitter(lambda cycle: None if cycle.state.object("Signal", "go") else Hold(1010.0)))
    bench.turn(NodeSeen(make_node("n")), pod("a"))
    bench.turn(*([ObjectSeen("Signal", "go", "go")] if end == "go" else []), pause_s=4 if end == "go" else 11)
    waited_s = bench.value("scheduler_permit_wait_duration_seconds_sum", result=want)
    assert waited_s == pytest.approx(4 if end == "go" else 11)


def test_members_of_a_gang_that_waits_for_more_are_incomplete(bench: Bench) -> None:
    """That they are told so is no attempt."""
    gang = {"pod-group": "g", "moorage.dev/pod-group-min-available": "3"}
    bench.turn(NodeSeen(make_node("n")), pod("a", annotations=gang), pod("b", annotations=gang))
    bench.turn(pause_s=30)
    assert bench.value("scheduler_pending_pods", queue="incomplete") == 2
    assert bench.value("scheduler_pending_pods", queue="gated") == 0
    assert bench.value("moorage_gangs_waiting", queue="incomplete") == 1
    assert bench.value("scheduler_schedule_attempts_total", result="unschedulable", profile=PROFILE) is None
    bench.turn(pod("c", annotations=gang))
    assert bench.value("scheduler_pending_pods", queue="incomplete") == 0


def test_gangs_count_once_an_attempt(bench: Bench) -> None:
    """Whatever the number of members: first there is no room for both of them, then there is."""
    annotations = {"pod-group": "g", "moorage.dev/pod-group-min-available": "2"}
    small, large = NodeSeen(make_node("n", cpu="1")), NodeSeen(make_node("n", cpu="4"))
    bench.turn(small, pod("a", annotations=annotations), pod("b", annotations=annotations))
    name = "scheduler_podgroup_schedule_attempts_total"
    assert bench.value(name, result="unschedulable", profile=PROFILE) == 1.0
    bench.turn(large, pause_s=30)
    assert bench.value(name, result="scheduled", profile=PROFILE) == 1.0
    durations = "scheduler_podgroup_scheduling_attempt_duration_seconds_count"
    assert bench.value(durations, result="scheduled", profile=PROFILE) == 1.0
    assert bench.value("scheduler_podgroup_scheduling_algorithm_duration_seconds_count") == 2.0


def test_pods_under_way_are_tracked(bench: Bench) -> None:
    """From the decision to the answer of the bind."""
    (bind,) = [each for each in bench.turn(NodeSeen(make_node("n")), pod("a")) if isinstance(each, Bind)]
    assert bench.value("scheduler_inflight_events", event="PodPopped") == 1.0
    bench.turn(BindDone(bind.pod.uid, BindOutcome.BOUND, "n"))
    assert bench.value("scheduler_inflight_events", event="PodPopped") == 0.0


def test_other_profiles_are_measured_as_well(bench: Bench) -> None:
    """After a change of the configuration, without losing what was counted."""
    bench.bind(NodeSeen(make_node("n")), pod("a"))
    (usual,) = build_profiles(Configuration(), Registry(BUILTIN))
    changed = ConfigurationChanged("", [replace(usual, scheduler_name="other")], EngineSettings())
    bench.engine.handle([changed], bench.now_s, budget=0)
    bench.metrics.reequip()
    assert bench.metrics.sampling.begin(bench.now_s)
    bench.bind(PodSeen(make_pod("b", scheduler_name="other")))
    bench.metrics.sampling.end(bench.now_s)
    for profile in (PROFILE, "other"):
        assert bench.value("scheduler_schedule_attempts_total", result="scheduled", profile=profile) == 1.0
    points = bench.samples("scheduler_framework_extension_point_duration_seconds_count")
    assert {sample.labels["profile"] for sample in points if sample.labels["extension_point"] == "Filter"} == {"other"}


def test_a_sampled_turn_measures_calls_and_leaves_no_trace(bench: Bench) -> None:
    """Plugins are what they were before; another turn is not sampled until some time has passed."""
    sampling, engine = bench.metrics.sampling, bench.engine
    plugins = [plugin for runner in engine.runners.values() for plugin in runner.plugins.all]
    before = [dict(vars(plugin)) for plugin in plugins]
    assert sampling.begin(100.0)
    events: list[Event] = [NodeSeen(make_node("n", cpu="1")), pod("a"), pod("b", "64")]
    engine.handle(sampling.events(events), bench.now_s)
    sampling.end(100.001)
    assert [dict(vars(plugin)) for plugin in plugins] == before
    assert not sampling.begin(100.05)
    assert bench.value("scheduler_event_handling_duration_seconds_count", event="NodeAdd") == 1
    assert bench.value("scheduler_event_handling_duration_seconds_count", event="UnscheduledPodAdd") == 2
    point = {"extension_point": "PostFilter", "profile": PROFILE, "status": "Unschedulable"}
    assert bench.value("scheduler_framework_extension_point_duration_seconds_count", **point) == 1
    filtered = {"extension_point": "Filter", "profile": PROFILE, "status": "Success"}
    assert bench.value("scheduler_framework_extension_point_duration_seconds_count", **filtered) == 2
    call = {"plugin": "DefaultPreemption", "extension_point": "PostFilter", "status": "Unschedulable"}
    assert bench.value("scheduler_plugin_execution_duration_seconds_count", **call) == 1


def test_an_idle_turn_is_no_sample(bench: Bench) -> None:
    """The next one may be."""
    assert bench.metrics.sampling.begin(100.0)
    bench.engine.handle([], bench.now_s)
    bench.metrics.sampling.end(100.001)
    assert bench.metrics.sampling.begin(100.002)
    bench.metrics.sampling.end(100.003)


def test_the_page_has_the_process_too_and_both_formats(bench: Bench) -> None:
    """Text for everyone, OpenMetrics for those who ask for it."""
    text, content_type = bench.page.render("")
    assert content_type.startswith("text/plain")
    assert b"process_cpu_seconds_total" in text
    assert b"_created" not in text
    text, content_type = bench.page.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_a_bound_belongs_to_its_bucket() -> None:
    """As in Prometheus: less than or equal."""
    tally = BucketTally(exponential_bounds(1, 2, 3))
    for value in (0.5, 1, 1.5, 4, 5):
        tally.observe(value)
    assert tally.buckets() == [("1.0", 2), ("2.0", 3), ("4.0", 4), ("+Inf", 5)]
    assert (tally.count, tally.sum) == (5, 12)


def devices(bench: Bench) -> None:
    """A node with a GPU, its class, and a claim for one."""
    gpu = make_device("gpu-0", binding_conditions=("ready",), binding_failure_conditions=("broken",))
    part, kind = make_slice("s", node="n", devices=[gpu, "gpu-1"]), make_device_class("gpu")
    claim = make_resource_claim("c")
    objects = (("ResourceSlice", part), ("DeviceClass", kind), ("ResourceClaim", claim))
    bench.turn(NodeSeen(make_node("n")), *(ObjectSeen(kind, value.key, value) for kind, value in objects))


def test_searches_for_devices_are_counted(bench: Bench) -> None:
    """With what came of them, and how many steps they took; and the devices that there are."""
    devices(bench)
    bench.turn(pod("a", claims=("c",)))
    assert bench.value("moorage_device_searches_total", profile=PROFILE, result="found")
    assert bench.value("moorage_device_search_steps_total", profile=PROFILE)
    assert bench.value("moorage_device_allocations_total", profile=PROFILE) == 1
    assert bench.value("moorage_devices", driver=DEVICE_DRIVER) == 2
    assert bench.value("moorage_devices_in_use", driver=DEVICE_DRIVER) == 1
    bench.turn(
        ObjectSeen("ResourceClaim", "default/d", make_resource_claim("d", DeviceChoice(device_class="gpu", count=3)))
    )
    bench.turn(pod("b", claims=("d",)))
    assert bench.value("moorage_device_searches_total", profile=PROFILE, result="none")


@pytest.mark.parametrize(
    ("condition", "pause_s", "want"),
    [("ready", 3.0, "success"), ("broken", 3.0, "failure"), ("", 601.0, "timeout")],
)
def test_waits_for_drivers_are_measured(bench: Bench, condition: str, pause_s: float, want: str) -> None:
    """From PreBind until the driver is ready, has failed, or has said nothing for too long."""
    devices(bench)
    held = make_allocation("n/gpu-0", binding_conditions=("ready",), binding_failure_conditions=("broken",))
    held = replace(held, allocated_s=bench.now_s)
    claim = replace(
        make_resource_claim("c", allocation=held, protected=True),
        reserved_for=(ClaimConsumer("pods", "a", make_pod("a").uid),),
    )
    bench.turn(ObjectSeen("ResourceClaim", claim.key, claim))
    bench.turn(pod("a", claims=("c",)))
    told = DeviceStatus(DEVICE_DRIVER, "n", "gpu-0", (DeviceCondition(condition, "True"),))
    answer = [ObjectSeen("ResourceClaim", claim.key, replace(claim, devices=(told,)))] if condition else []
    bench.turn(*answer, pause_s=pause_s)
    labels = {"profile": PROFILE, "driver": DEVICE_DRIVER, "status": want}
    assert bench.value("scheduler_dra_bindingconditions_allocations_total", **labels) == 1
    assert bench.value("scheduler_dra_bindingconditions_wait_duration_seconds_sum", **labels) == pause_s


@pytest.mark.parametrize(("ok", "want"), [(True, "success"), (False, "failure")])
def test_claims_for_extended_resources_are_counted(bench: Bench, ok: bool, want: str) -> None:
    """When their creation is answered."""
    made = PatchObject(PodRef("default", "a", "u"), "ResourceClaim", "default", "x", FrozenDict(), verb=Verb.CREATE)
    bench.turn(PatchDone(made, ok))
    labels = {"status": want, "admin_access": "false"}
    assert bench.value("dynamic_resource_allocation_resourceclaim_creates_total", **labels) == 1
