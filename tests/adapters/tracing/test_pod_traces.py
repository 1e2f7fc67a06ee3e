"""The spans of pods: what an engine's turns amount to."""

from __future__ import annotations

import itertools
from collections import Counter

from moorage.adapters.metrics.sampling import Sampling
from moorage.adapters.tracing.attempts import MOST_CALLS
from moorage.adapters.tracing.pods import PodTraces
from moorage.adapters.tracing.spans import Sampler, Span, ids_of
from moorage.core.commands import Bind, Command, RecordEvent
from moorage.core.echo import answer_to
from moorage.core.events import (
    BindDone,
    BindOutcome,
    Event,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodSeen,
    TrialRecalled,
)
from moorage.core.pods import on_node
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.status import Hold
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from moorage.testing.builders import make_node, make_pod
from tests.engine.actors import Permitter
from tests.engine.play import small_profile
from tests.engine.trialplays import Only, trial

START_S = 1000
CREATED_S = START_S - 2
S = 1_000_000_000
GANG = {"pod-group": "g", "moorage.dev/pod-group-min-available": "2"}


class World:
    """An engine whose turns are traced; each look at the clock takes a microsecond."""

    def __init__(
        self,
        *plugins: Plugin,
        ratio: float = 1.0,
        most_pods: int = 100,
        settings: EngineSettings | None = None,
    ) -> None:
        self.spans: list[Span] = []
        self.now_s = float(START_S)
        ticks, numbers = itertools.count(1), itertools.count(1)
        self.traces = PodTraces(
            self.spans.append,
            Sampler(ratio),
            now_ns=lambda: int(self.now_s * S) + 1000 * next(ticks),
            new_id=lambda: next(numbers),
            most_pods=most_pods,
        )
        self.engine = Engine([small_profile(*plugins)], settings, observer=self.traces.attempt)
        self.traces.equip(self.engine)

    def turn(self, *events: Event, at_s: float | None = None) -> list[Command]:
        """One call of the engine, observed as the loop does it."""
        self.now_s = self.now_s if at_s is None else at_s
        commands, _ = self.engine.handle(events, self.now_s)
        self.traces.observe(events, commands, self.now_s)
        return commands

    def bound(self, *commands: Command, at_s: float) -> list[Command]:
        """All binds among the commands were answered."""
        return self.turn(*(answer_to(each) for each in commands if isinstance(each, Bind)), at_s=at_s)

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Span:
        (span,) = self.named(name)
        return span

    def parent(self, span: Span) -> str:
        return next((each.name for each in self.spans if each.span_id == span.parent_id), "")


def test_a_pods_way_is_one_trace_from_its_creation_to_the_bind() -> None:
    """Every span has the pod's trace; the root begins with the pod and ends with the answer to its bind."""
    world = World()
    pod = make_pod("web", cpu="1", created_s=CREATED_S)
    commands = world.turn(NodeSeen(make_node("n1")), PodSeen(pod))
    (told,) = (each for each in world.bound(*commands, at_s=START_S + 3) if isinstance(each, RecordEvent))
    world.now_s = START_S + 4
    world.traces.published(told)
    assert {span.trace_id for span in world.spans} == {ids_of(pod.uid).trace}
    root = world.one("schedule")
    assert (root.span_id, root.parent_id) == (ids_of(pod.uid).root, 0)
    assert (root.start_ns, root.end_ns) == (CREATED_S * S, (START_S + 3) * S)
    assert root.attributes == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "web",
        "k8s.pod.uid": pod.uid,
        "k8s.node.name": "n1",
        "moorage.profile": pod.template.scheduler_name,
        "moorage.attempts": 1,
        "moorage.priority": 0,
        "moorage.result": "scheduled",
    }
    assert {
        span.name: world.parent(span) for span in world.spans if "moorage.extension_point" not in span.attributes
    } == {
        "schedule": "",
        "watch": "schedule",
        "queue": "schedule",
        "attempt": "schedule",
        "decide": "attempt",
        "bind": "attempt",
        "event": "schedule",
    }
    watch, bind, event = world.one("watch"), world.one("bind"), world.one("event")
    assert (watch.start_ns, watch.end_ns) == (CREATED_S * S, START_S * S)
    assert (bind.start_ns // S, bind.end_ns) == (START_S, (START_S + 3) * S)
    assert (event.attributes["moorage.event.reason"], event.end_ns // S) == ("Scheduled", START_S + 4)
    assert world.one("decide").attributes["moorage.feasible_nodes"] == 1
    assert not any(span.failure for span in world.spans)


def test_plugins_are_spans_below_their_extension_points() -> None:
    """A point lasts from its first call to its last, within the decision; answers have kube-scheduler's names."""
    world = World(NodeResourcesBalancedAllocation())
    pod = make_pod("web", cpu="1", node_selector={"disk": "ssd"})
    commands = world.turn(NodeSeen(make_node("n1")), NodeSeen(make_node("n2")), PodSeen(pod))
    world.bound(*commands, at_s=START_S + 1)
    calls = [span for span in world.spans if "moorage.plugin" in span.attributes]
    assert ("Filter", "NodeResourcesFit") in {(world.parent(span), span.name) for span in calls}
    decide = world.one("decide")
    points = [span for span in world.spans if world.parent(span) == "decide"]
    for point in points:
        below = [span for span in calls if span.parent_id == point.span_id]
        assert below
        assert (point.start_ns, point.end_ns) == (below[0].start_ns, below[-1].end_ns)
        assert decide.start_ns < point.start_ns < point.end_ns < decide.end_ns
        assert {span.attributes["moorage.code"] for span in below} <= {"Success", "Skip"}


def test_a_failed_attempt_is_a_span_with_the_reason() -> None:
    """Two attempts, one trace; the way through the queue between them has its causes."""
    world = World()
    pod = make_pod("big", cpu="8", created_s=CREATED_S)
    world.turn(NodeSeen(make_node("n1", cpu="4")), PodSeen(pod))
    failed = world.one("attempt")
    assert failed.failure.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert failed.attributes["moorage.reason"] == failed.failure
    assert failed.attributes["moorage.result"] == "unschedulable"
    assert not world.named("schedule")
    commands = world.turn(NodeSeen(make_node("n1", cpu="16")), at_s=START_S + 30)
    world.bound(*commands, at_s=START_S + 31)
    first, second = world.named("attempt")
    assert (first.attributes["moorage.attempt"], second.attributes["moorage.attempt"]) == (1, 2)
    assert (second.failure, second.attributes["k8s.node.name"]) == ("", "n1")
    _, queue = world.named("queue")
    assert (queue.start_ns, queue.end_ns) == (START_S * S, second.start_ns)
    assert [(mark.name, mark.attributes["moorage.cause"]) for mark in queue.marks] == [
        ("unschedulable", "ScheduleAttemptFailure"),
        ("active", "NodeUpdateNodeAllocatable"),
    ]
    assert world.one("schedule").attributes["moorage.attempts"] == 2
    assert len(world.named("watch")) == 1


def test_a_bind_that_fails_ends_the_attempt() -> None:
    """The bind has the reason, too; the pod's way goes on."""
    world = World()
    world.turn(NodeSeen(make_node("n1")), PodSeen(make_pod("web")))
    world.turn(BindDone("default/web", BindOutcome.FAILED, "n1", "no such thing"), at_s=START_S + 1)
    assert world.one("bind").failure == world.one("attempt").failure == "binding rejected: no such thing"
    assert world.one("bind").end_ns == (START_S + 1) * S
    assert not world.named("schedule")


def test_a_pod_that_is_held_waits_in_its_attempt() -> None:
    """Permit's wait is a span, and the attempt lasts until the bind is answered."""

    def say(_: Cycle) -> Hold | None:
        return Hold(START_S + 60) if world.now_s < START_S + 5 else None

    world = World(Permitter(say))
    world.turn(NodeSeen(make_node("n1")), PodSeen(make_pod("web")))
    assert not world.spans
    commands = world.turn(ObjectSeen("Signal", "go", None), at_s=START_S + 5)
    world.bound(*commands, at_s=START_S + 6)
    wait = world.one("wait")
    assert (wait.start_ns, wait.end_ns, wait.attributes) == (
        START_S * S,
        (START_S + 5) * S,
        {"moorage.state": "permit"},
    )
    codes = [span.attributes["moorage.code"] for span in world.named("Permitter")]
    assert (codes[0], codes[-1]) == ("Wait", "Success")
    assert world.one("attempt").end_ns == (START_S + 6) * S


def test_members_of_a_gang_have_traces_of_their_own() -> None:
    """Each says which gang it belongs to."""
    world = World(GangScheduling())
    pods = [make_pod(f"g-{number}", cpu="1", annotations=GANG) for number in range(2)]
    commands = world.turn(NodeSeen(make_node("n1")), *(PodSeen(pod) for pod in pods))
    commands = world.turn(*(answer for each in commands if (answer := answer_to(each)) is not None))
    world.bound(*commands, at_s=START_S + 1)
    roots = world.named("schedule")
    assert {root.trace_id for root in roots} == {ids_of(pod.uid).trace for pod in pods}
    assert {root.attributes["moorage.gang"] for root in roots} == {"default/g"}


def test_a_pod_that_goes_away_ends_its_trace() -> None:
    """Deleted while it waits, deleted in its binding cycle, or bound by another process."""
    world = World()
    node, big = make_node("n1", cpu="4"), make_pod("big", cpu="8")
    world.turn(NodeSeen(node), PodSeen(big), PodSeen(make_pod("other", cpu="9")), PodSeen(make_pod("small", cpu="1")))
    world.turn(PodGone(big.uid), PodGone("default/small"), at_s=START_S + 1)
    world.turn(PodSeen(on_node(make_pod("other", cpu="9"), "n1")), at_s=START_S + 2)
    results = {
        str(root.attributes["k8s.pod.name"]): root.attributes["moorage.result"] for root in world.named("schedule")
    }
    assert results == {"big": "gone", "small": "gone", "other": "elsewhere"}


def test_the_watch_may_be_faster_than_the_answer_to_the_bind() -> None:
    """A pod that is seen on its node first was bound by this process all the same."""
    world = World()
    pod = make_pod("web")
    commands = world.turn(NodeSeen(make_node("n1")), PodSeen(pod))
    world.turn(PodSeen(on_node(pod, "n1")), at_s=START_S + 1)
    assert not world.named("schedule")
    world.bound(*commands, at_s=START_S + 2)
    assert world.one("schedule").attributes["moorage.result"] == "scheduled"


def test_pods_are_sampled_by_their_uid() -> None:
    """A tenth of many pods, always the same ones; nothing is kept or emitted of the others."""
    pods = [make_pod(f"p{number}", uid=f"uid-{number}") for number in range(500)]
    worlds = [World(ratio=0.1), World(ratio=0.1)]
    for world in worlds:
        commands = world.turn(NodeSeen(make_node("n1", cpu="1000", pods=1000)), *(PodSeen(pod) for pod in pods))
        world.bound(*commands, at_s=START_S + 1)
    first, second = ({span.attributes["k8s.pod.uid"] for span in world.named("schedule")} for world in worlds)
    assert first == second
    assert 25 <= len(first) <= 75
    assert not World(ratio=0.0).spans


def test_what_is_remembered_has_a_limit() -> None:
    """Pods that wait for ever, and events that nobody publishes."""
    world = World(most_pods=10)
    world.turn(NodeSeen(make_node("n1", cpu="4")))
    for number in range(50):
        world.turn(PodSeen(make_pod(f"p{number}", cpu="9")))
    assert len(world.named("attempt")) == 50
    assert {len(world.traces._waiting), len(world.traces._telling)} == {10}
    assert not world.traces._attempts


def test_an_attempt_has_a_limited_number_of_calls() -> None:
    """The others are counted."""
    world = World(Permitter(lambda cycle: Hold(cycle.now + 600)))
    world.turn(NodeSeen(make_node("n1")), PodSeen(make_pod("web")))
    for number in range(2 * MOST_CALLS):
        world.turn(ObjectSeen("Signal", f"s{number}", None))
    world.turn(PodGone("default/web"))
    assert len(world.named("Permitter")) <= MOST_CALLS
    assert int(world.one("decide").attributes["moorage.calls_omitted"]) >= MOST_CALLS


def test_clocks_of_the_metrics_go_around_those_of_traces() -> None:
    """Both see the same calls, and what is on stays on when the other ends."""
    world = World()
    sampling = Sampling(world.engine, iter(range(10_000)).__next__)
    assert sampling.begin(0.0)
    commands = world.turn(NodeSeen(make_node("n1")), PodSeen(make_pod("a")))
    sampling.end(0.0)
    world.bound(*commands, at_s=START_S + 1)
    seen = Counter(span.name for span in world.spans if "moorage.plugin" in span.attributes)
    measured = next(iter(family for family in sampling.families() if "plugin_execution" in family.name))
    counts = {
        (sample.labels["plugin"], sample.labels["extension_point"]): sample.value
        for sample in measured.samples
        if sample.name.endswith("_count")
    }
    assert counts[("NodeResourcesFit", "Filter")] >= 1
    assert seen["NodeResourcesFit"] >= 1
    world.bound(*world.turn(PodSeen(make_pod("b", cpu="2"))), at_s=START_S + 2)
    assert sum("moorage.plugin" in span.attributes for span in world.spans) > sum(seen.values())


def test_an_engine_without_traces_calls_plugins_themselves() -> None:
    """Off, there is nothing between the engine and its plugins."""
    engine = Engine([small_profile()])
    for runner in engine.runners.values():
        for instance in runner.plugins.all:
            for method in ("filter", "score", "permit"):
                assert getattr(instance, method, None) == getattr(instance.plugin, method, None)
    replaced = Engine([small_profile()])
    PodTraces(lambda _: None, Sampler(1.0)).equip(replaced)
    (runner,) = replaced.runners.values()
    fit = runner.plugins.get("NodeResourcesFit")
    assert fit is not None
    assert fit.filter != fit.plugin.filter  # type: ignore[attr-defined] # which it has


def test_calls_of_a_trials_plugins_have_spans() -> None:
    """Those of the profile that decides on the pod, and only those."""
    world = World(settings=EngineSettings(trial=trial(Only("n2"))))
    world.turn(TrialRecalled(None), NodeSeen(make_node("n1")), NodeSeen(make_node("n2")))
    for namespace, filters in (("new", ["Only"]), ("default", [])):
        commands = world.turn(PodSeen(make_pod("web", namespace=namespace, cpu="1", created_s=CREATED_S)))
        world.bound(*commands, at_s=world.now_s + 1)
        assert [span.name for span in world.named("Only")] == filters
        assert {world.parent(span) for span in world.named("Only")} <= {"Filter"}
        world.spans.clear()
