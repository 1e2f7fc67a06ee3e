"""The demo: what its scenarios promise comes true, at whatever pace it is played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from moorage.adapters.memory.objects import is_live, is_ready, status_of
from moorage.app.plugins import find_plugins
from moorage.core.invariants import check_invariants
from moorage.sim.demo.loop import LONGEST_STEP_S, TICK_S, DemoClock, play
from moorage.sim.demo.picture import DemoPicture, take_picture
from moorage.sim.demo.scenario import NAMESPACE
from moorage.sim.demo.scenarios import SCENARIOS
from moorage.sim.demo.stage import DemoStage
from moorage.sim.rules import rules_of
from moorage.views.nodemap import NodeState
from moorage.views.words import Happening, HappeningKind
from moorage.wire.configuration import default_reading, read_configuration

ALL = sorted(SCENARIOS)


def make_stage(name: str = "default") -> DemoStage:
    rules = rules_of(default_reading(find_plugins().registry), seed=0, answers_to_all=True)
    return DemoStage(SCENARIOS[name], rules, stopwatch_s=lambda: 0.0)


@pytest.fixture
def stage() -> Iterator[DemoStage]:
    """The default scenario at its start."""
    made = make_stage()
    yield made
    check_invariants(made.engine.state)


def cycle_start(name: str, number: int) -> float:
    """When a cycle begins, in seconds since the start."""
    scenario = SCENARIOS[name]
    return scenario.opening_s + (number - 1) * scenario.cycle_s


def of(happenings: Sequence[Happening], what: HappeningKind, subject: str = "") -> list[Happening]:
    return [each for each in happenings if each.what is what and each.name.startswith(subject)]


def node_of(happening: Happening) -> str:
    return str(happening.facts["node"])


class Clock:
    """A wall clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.pauses: dict[int, float] = {}
        """Number of the sleep -> how much longer than asked for it takes."""
        self._sleeps = 0

    def sleep(self, duration_s: float) -> None:
        self._sleeps += 1
        self.now_s += duration_s + self.pauses.get(self._sleeps, 0.0)

    def pace(self) -> DemoClock:
        return DemoClock(lambda: self.now_s, self.sleep)


class Spectator:
    """A view that remembers."""

    def __init__(self) -> None:
        self.seen: list[Happening] = []
        self.times_s: list[float] = []

    def show(self, stage: DemoStage, happenings: Sequence[Happening]) -> None:
        self.seen += happenings
        self.times_s.append(stage.elapsed_s)


@pytest.mark.parametrize("name", ALL)
def test_a_cycle_leaves_the_cluster_as_it_found_it(name: str) -> None:
    """The demo never ends, so nothing may pile up: pods, nodes and waiting pods are the same after every cycle."""
    stage = make_stage(name)
    pictures: list[tuple[object, ...]] = []
    for number in (2, 3, 4):
        stage.advance(cycle_start(name, number) - 0.1)
        live = sum(1 for pod in stage.cluster.store.list("Pod") if is_live(pod))
        every = len(stage.cluster.store.list("Pod"))
        nodes = tuple((node.name, node.state) for node in take_picture(stage).nodes)
        pictures.append((live, every, nodes, take_picture(stage).waiting_pods))
    assert pictures[0] == pictures[1] == pictures[2]
    assert pictures[0][0] == pictures[0][1]
    assert pictures[0][3] == 0
    check_invariants(stage.engine.state)


@pytest.mark.parametrize("name", ALL)
def test_every_story_is_told(name: str) -> None:
    """Each act of the scenario shows up, in order, and something is placed within the first second."""
    stage = make_stage(name)
    seen = stage.advance(cycle_start(name, 2) - 0.1)
    scenario = SCENARIOS[name]
    acts = [*sorted(scenario.opening, key=lambda a: a.at_s), *sorted(scenario.cycle, key=lambda a: a.at_s)]
    assert [each.note for each in of(seen, HappeningKind.STORY)] == [act.story for act in acts if act.story]
    assert of(seen, HappeningKind.PLACED)[0].at_s < 1.0


@pytest.mark.parametrize("name", ALL)
def test_no_node_is_ever_overcommitted(name: str) -> None:
    """Whatever happens, the requests on a node stay within what it has."""
    stage = make_stage(name)
    for second in range(int(cycle_start(name, 2))):
        stage.advance(float(second))
        resources, rows = stage.engine.state.resources, stage.engine.state.rows()
        assert (resources.requested[:, rows] <= resources.allocatable[:, rows]).all()


@pytest.mark.parametrize("step_s", [0.1, 7.0], ids=["small steps", "large steps"])
def test_the_pace_does_not_matter(stage: DemoStage, step_s: float) -> None:
    """The same things happen at the same times, however often somebody looks."""
    end_s = 70.0
    wanted = list(make_stage().advance(end_s))
    seen: list[Happening] = []
    for number in range(1, round(end_s / step_s) + 1):
        seen += stage.advance(min(end_s, number * step_s))
    seen += stage.advance(end_s)
    assert [(round(h.at_s, 3), h.text) for h in seen] == [(round(h.at_s, 3), h.text) for h in wanted]


def test_a_pod_that_fits_nowhere_explains_itself_and_is_placed_when_a_node_joins(stage: DemoStage) -> None:
    """The training pod says that there is no GPU, and goes to the node that brings one."""
    seen = stage.advance(cycle_start("default", 2))
    messages = [each.note for each in of(seen, HappeningKind.WAITS, "train-1")]
    wanted = "0/8 nodes are available: 1 node(s) had untolerated taint(s), 7 Insufficient nvidia.com/gpu."
    assert messages[0].startswith(wanted)
    (placed,) = of(seen, HappeningKind.PLACED, "train-1")
    assert node_of(placed) == "gpu-1"
    assert placed.facts["feasible"] == 1
    assert "waited" in placed.note


@pytest.mark.parametrize(
    ("node", "begins", "ends"),
    [
        pytest.param("node-b2", "node-b2 stops answering", "node-b2 answers again", id="lost"),
        pytest.param("node-c1", "node-c1 is cordoned", "node-c1 is back", id="cordoned"),
    ],
)
def test_a_node_out_of_service_takes_nothing(stage: DemoStage, node: str, begins: str, ends: str) -> None:
    """Between the two stories nothing is placed there; before and after there is."""
    seen = stage.advance(cycle_start("default", 2) + 10)
    first, last = (
        next(h.at_s for h in of(seen, HappeningKind.STORY) if h.note.startswith(text)) for text in (begins, ends)
    )
    times = [each.at_s for each in of(seen, HappeningKind.PLACED) if node_of(each) == node]
    assert not [at_s for at_s in times if first <= at_s < last]
    assert min(times) < first
    assert max(times) >= last


def test_pods_of_a_lost_node_are_replaced_elsewhere(stage: DemoStage) -> None:
    """As many pods are placed anew as were evicted, at the same moment, and the counts say so."""
    seen = stage.advance(20.0)
    evicted = of(seen, HappeningKind.EVICTED)
    assert evicted
    assert {node_of(each) for each in evicted} == {"node-b2"}
    replaced = [each for each in of(seen, HappeningKind.PLACED) if each.at_s == evicted[0].at_s]
    assert len(replaced) == len(evicted)
    assert take_picture(stage).evicted == len(evicted)


def test_jobs_run_to_their_end(stage: DemoStage) -> None:
    """All three Jobs are complete within a cycle."""
    seen = stage.advance(cycle_start("default", 2))
    assert {each.name for each in of(seen, HappeningKind.COMPLETE)} == {"Job report-1", "Job train-1", "Job batch-1"}
    assert len(of(seen, HappeningKind.FINISHED, "batch-1")) == 24


def test_the_important_go_first(stage: DemoStage) -> None:
    """Waiting pods of high priority are placed before those of low priority that have waited longer."""
    seen = stage.advance(cycle_start("default", 2))
    arrived_s = next(each.at_s for each in of(seen, HappeningKind.STORY) if "checkout arrives" in each.note)
    placed = [each for each in of(seen, HappeningKind.PLACED) if each.at_s >= arrived_s]
    high = [each for each in placed if each.name.startswith("checkout")]
    low = [each for each in placed if each.name.startswith("batch")]
    assert len(high) == 5
    assert placed.index(low[-1]) > placed.index(high[-1])
    for earlier in low:
        rivals = [each for each in high if each.at_s == earlier.at_s]
        assert all(placed.index(each) < placed.index(earlier) for each in rivals)


def test_preemption_is_told(stage: DemoStage) -> None:
    """A pod that has to make room is named, and is evicted for that reason."""
    seen = stage.advance(cycle_start("default", 2))
    preemptions = of(seen, HappeningKind.PREEMPTS, "checkout")
    victims = {each.facts["victim"] for each in preemptions}
    assert victims
    assert victims == {e.name for e in of(seen, HappeningKind.EVICTED) if e.facts["reason"] == "PreemptionByScheduler"}
    places = {node_of(each) for each in of(seen, HappeningKind.PLACED, "checkout")}
    assert {node_of(each) for each in preemptions} <= places


def test_a_rollout_keeps_enough_pods_running() -> None:
    """Neither the good version nor the one that fits nowhere takes more pods away than the strategy allows."""
    stage = make_stage("rollout")
    for tenth in range(30, int(10 * cycle_start("rollout", 2))):
        stage.advance(tenth / 10)
        pods = stage.cluster.store.list("Pod", NAMESPACE)
        web = [pod for pod in pods if pod["metadata"]["labels"]["app"] == "web" and is_live(pod)]
        assert sum(1 for pod in web if status_of(pod).get("phase") == "Running") >= 9


# The picture


def test_the_picture_shows_states_loads_and_apps(stage: DemoStage) -> None:
    """Nodes by zone with what stands on them; lost and cordoned ones are marked."""
    stage.advance(33.5)
    nodes = {node.name: node for node in take_picture(stage).nodes}
    assert list(nodes) == [
        *("node-a1", "node-a2", "node-a3", "node-b1", "node-b2", "node-b3", "gpu-1", "node-c1", "node-c2"),
    ]
    assert nodes["node-c1"].state is NodeState.CORDONED
    assert dict(nodes["gpu-1"].pods) == {"train": 1}
    assert nodes["gpu-1"].cpu == 0.25
    stage.advance(cycle_start("default", 2) + 10)
    states = {node.name: node.state for node in take_picture(stage).nodes}
    assert states["node-b2"] is NodeState.NOT_READY
    assert states["node-c1"] is NodeState.READY


def test_waiting_pods_of_one_owner_share_an_entry(stage: DemoStage) -> None:
    """One entry with the reason and the number of pods, however many there are."""
    stage.advance(36.0)
    picture: DemoPicture = take_picture(stage)
    (group,) = picture.waiting
    assert group.pod.startswith("batch-1-")
    assert group.more + 1 == picture.waiting_pods > 1
    assert group.message.startswith("0/9 nodes are available: ")


def test_the_rate_is_that_of_the_last_seconds(stage: DemoStage) -> None:
    """A burst shows at once and is forgotten a few seconds later."""
    stage.advance(1.0)
    assert take_picture(stage).decisions_per_s == pytest.approx(6 / 5)
    stage.advance(9.0)
    assert take_picture(stage).decisions == 16
    assert take_picture(stage).decisions_per_s < 2.0


# The loop


def test_play_ends_with_its_duration(stage: DemoStage) -> None:
    """The demo has come exactly as far as it was given time for."""
    clock, view = Clock(), Spectator()
    play(stage, view, clock.pace(), duration_s=5.0)
    assert view.times_s[-1] == pytest.approx(5.0)
    assert clock.now_s == pytest.approx(1005.0)
    assert len(of(view.seen, HappeningKind.PLACED)) == 13


def test_play_ends_when_it_is_stopped(stage: DemoStage) -> None:
    """A stop is noticed after the current step."""
    clock, view = Clock(), Spectator()
    play(stage, view, clock.pace(), stopped=lambda: len(view.times_s) >= 4)
    assert view.times_s == pytest.approx([0.0, TICK_S, 2 * TICK_S, 3 * TICK_S])


def test_a_long_pause_is_not_made_up_for(stage: DemoStage) -> None:
    """A process that slept for an hour goes on where it was."""
    clock, view = Clock(), Spectator()
    clock.pauses[3] = 3600.0
    play(stage, view, clock.pace(), stopped=lambda: len(view.times_s) >= 5)
    assert view.times_s[3] == pytest.approx(2 * TICK_S + LONGEST_STEP_S)


# spot


def test_spot_moves_everybody_in_time_and_brings_them_back() -> None:
    """Ten notices at once: no Deployment ever lacks more than one pod, nobody is left, each moves once and returns."""
    scenario = SCENARIOS["spot"]
    reading = read_configuration(scenario.configuration.encode(), "spot", find_plugins().registry)
    stage = DemoStage(scenario, rules_of(reading, seed=0, answers_to_all=True), stopwatch_s=lambda: 0.0)
    keeper = stage.keeper
    assert keeper is not None
    stage.advance(scenario.opening_s)
    assert ready_pods(stage) == {"spot": 100}
    begin_s = cycle_start("spot", 1)
    for tenth in range(int(10 * scenario.cycle_s) - 10):
        stage.advance(begin_s + tenth / 10)
        missing = {app: 5 - number for app, number in ready_per_app(stage).items()}
        assert max(missing.values()) <= 1
        if tenth == 150:
            assert ready_pods(stage) == {"od": 100}, "long before the two minutes are over"
            assert len(keeper.departures) == 10
        elif tenth == 170:
            assert len(keeper.departures) == 8, "two notices were withdrawn"
            assert {node.name for node in take_picture(stage).nodes if node.state is NodeState.READY} >= {"spot-09"}
    assert ready_pods(stage) == {"spot": 100}
    assert keeper.evictions == {("fallback", "evicted"): 100, ("return", "evicted"): 100}


def ready_pods(stage: DemoStage) -> dict[str, int]:
    """Kind of node -> ready pods there."""
    names = (str(pod["spec"]["nodeName"]) for pod in stage.cluster.store.list("Pod") if is_live(pod) and is_ready(pod))
    return dict(Counter(name.partition("-")[0] for name in names))


def ready_per_app(stage: DemoStage) -> dict[str, int]:
    """App -> ready pods."""
    pods = (pod for pod in stage.cluster.store.list("Pod") if is_live(pod) and is_ready(pod))
    return dict(Counter(str(pod["metadata"]["labels"]["app"]) for pod in pods))


# devices


def results(stage: DemoStage) -> list[tuple[str, str, str]]:
    """Claim, pool and device of all that is held for one claim alone."""
    claims = ((each["metadata"]["name"], status_of(each)) for each in stage.cluster.store.list("ResourceClaim"))
    return [
        (name, result["pool"], result["device"])
        for name, status in claims
        for result in ((status.get("allocation") or {}).get("devices") or {}).get("results", ())
        if "shareID" not in result
    ]


def test_no_device_has_two_claims() -> None:
    """At no moment of the scenario."""
    stage = make_stage("devices")
    most = 0
    for second in range(int(cycle_start("devices", 2))):
        stage.advance(float(second))
        held = [(pool, device) for _, pool, device in results(stage)]
        assert len(held) == len(set(held))
        most = max(most, len(held))
    assert most == 8, "at some time all are in use"
    check_invariants(stage.engine.state)


def test_claims_of_every_sort_get_devices() -> None:
    """Of templates, shared by two pods, and for extended resources."""
    stage = make_stage("devices")
    stage.advance(cycle_start("devices", 1) - 0.1)
    assert sorted(claim.rsplit("-", 4)[0] for claim, _, _ in results(stage)) == ["inference"] * 3
    uplink = status_of(stage.cluster.store.get("ResourceClaim", NAMESPACE, "uplink"))
    assert len(uplink["reservedFor"]) == 2
    seen = stage.advance(cycle_start("devices", 1) + 13)
    legacy = of(seen, HappeningKind.PLACED, "legacy")
    assert len(legacy) == 2
    assert all("gpu-" in str(each.facts["devices"]) for each in legacy)
    assert any("extended-resources" in claim for claim, _, _ in results(stage))


def test_a_device_that_fails_loses_its_pod_and_gets_another_when_it_works_again() -> None:
    """Its pod is replaced by one that waits for a device of this size, and gets the repaired one."""
    stage = make_stage("devices")
    begin_s = cycle_start("devices", 1)
    stage.advance(begin_s + 13)
    before = {device for _, pool, device in results(stage) if pool == "gpu-a"}
    stage.advance(begin_s + 15)
    assert before - {device for _, pool, device in results(stage) if pool == "gpu-a"} == {"gpu-0"}
    waiting = [entry.pod.name for entry in stage.engine.queue.entries()]
    assert [name.partition("-")[0] for name in waiting] == ["inference"]
    placed = of(stage.advance(begin_s + 34), HappeningKind.PLACED, "inference")
    assert [(node_of(each), each.facts["devices"]) for each in placed] == [("gpu-a", "gpu-0")]
