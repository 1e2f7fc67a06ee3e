"""Plugins that take long: turns end early, signs of life go on, others' pods come first, and replays stop there too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from structlog.testing import capture_logs

from moorage.adapters.journal.replaying import replay
from moorage.adapters.journal.writer import Journal
from moorage.adapters.metrics.scheduler import SchedulerMetrics
from moorage.app.journal import document_of
from moorage.app.loop import DecisionLoop
from moorage.bench.controlplane import ControlPlane
from moorage.core.arrays import Rows
from moorage.core.commands import Bind, Command
from moorage.core.echo import answer_to
from moorage.core.events import NodeSeen, PodSeen
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.framework.status import Rejections
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing import make_node, make_pod
from moorage.wire.configuration import read_configuration
from tests.app.sites import QUICK, Site, error_lines, eventually
from tests.contract.manifests import a_node, a_pod
from tests.engine.play import small_profile

DOZE_S = 5.0
RENEW_DEADLINE_S = 10.0
GANG = {"pod-group": "g", "moorage.dev/pod-group-min-available": "6"}


class Timer:
    """A clock that only plugins move."""

    now_s: ClassVar[float] = 1000.0

    @classmethod
    def read(cls) -> float:
        return cls.now_s


class Dozer(Plugin):
    """Takes long for pods of the namespace `slow`, where the label `at` says; notes who was decided on."""

    name: ClassVar[str] = "Dozer"
    loop: ClassVar[DecisionLoop | None] = None
    silences_s: ClassVar[list[float]] = []
    """How old the loop's sign of life was at the end of each doze."""

    def _doze(self, pod: Pod, at: str) -> None:
        if pod.namespace == "slow" and pod.template.labels.get("at", "filter") == at:
            Timer.now_s += DOZE_S
            if self.loop is not None:
                self.silences_s.append(Timer.now_s - self.loop.ticked_s)

    def pre_enqueue(self, pod: Pod) -> None:
        self._doze(pod, "pre_enqueue")

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - part of the interface
        self._doze(cycle.pod, "filter")
        return None


class Watched:
    """A loop in virtual time, turned by hand; binds succeed at once."""

    def __init__(
        self, profiles: Sequence[Profile], journal: Journal | None = None, engine: Engine | None = None
    ) -> None:
        self.engine = engine or Engine(profiles)
        self.bound: list[str] = []
        self.loop = Dozer.loop = DecisionLoop(
            self.engine,
            self._carry_out,
            metrics=SchedulerMetrics(self.engine, Timer.read),
            now_s=Timer.read,
            timer_s=Timer.read,
            tick_s=RENEW_DEADLINE_S / 2,
            journal=journal,
        )
        Dozer.silences_s.clear()
        self.loop.deciding = True
        self.turns: list[list[str]] = []

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, Bind):
            self.turns[-1].append(command.pod.name)
            self.loop.put(answer_to(command))

    def see(self, *pods: Pod) -> None:
        self.loop.put_all([NodeSeen(make_node("n1", cpu="100", pods=1000)), *map(PodSeen, pods)])

    def run(self) -> list[list[str]]:
        """Turn until nothing is left to do; whose binds were ordered in each turn."""
        for _ in range(200):
            self.turns.append([])
            next_s = self.loop._turn()
            if not self.loop._inbox and (next_s is None or next_s > Timer.now_s):
                break
        return [turn for turn in self.turns if turn]


def slow(name: str, **fields: object) -> Pod:
    return make_pod(name, namespace="slow", cpu="1", **fields)  # type: ignore[arg-type]


def test_binds_under_way_get_their_time_between_slow_decisions() -> None:
    """Requests and decisions share a thread: the API server answers `quick` before the loop goes on with slow pods."""
    decided: list[str] = []
    answered_after: list[int] = []

    async def story() -> None:
        loop: DecisionLoop

        async def answer(bind: Bind) -> None:
            for _ in range(20):  # a request takes several steps of the event loop, each of which may come after a turn
                await asyncio.sleep(0.001)
            if bind.pod.name == "quick":
                answered_after.append(len(decided))
            loop.put(answer_to(bind))

        def carry_out(command: Command) -> None:
            if isinstance(command, Bind):
                decided.append(command.pod.name)
                answers.append(asyncio.ensure_future(answer(command)))

        answers: list[asyncio.Future[None]] = []
        engine = Engine([small_profile(Dozer())])
        metrics = SchedulerMetrics(engine, Timer.read)
        Dozer.loop = None
        loop = DecisionLoop(engine, carry_out, metrics=metrics, now_s=Timer.read, timer_s=Timer.read)
        node = make_node("n1", cpu="100", pods=1000)
        loop.put_all([NodeSeen(node), PodSeen(make_pod("quick")), *(PodSeen(slow(f"s{n}")) for n in range(3))])
        loop.start_deciding()
        running = asyncio.ensure_future(loop.run())
        async with asyncio.timeout(60):
            while len(decided) < 4 or not answered_after:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, *answers, return_exceptions=True)

    asyncio.run(story())
    assert answered_after[0] <= 2


def test_what_came_during_a_slow_decision_is_heard_before_the_next() -> None:
    """From the socket to the loop it takes some steps; a pod that has arrived waits for one slow decision, not two."""
    decided: list[str] = []

    async def story() -> None:
        async def arrive() -> None:
            for _ in range(5):
                await asyncio.sleep(0)
            loop.put(PodSeen(make_pod("quick")))

        def carry_out(command: Command) -> None:
            if isinstance(command, Bind):
                if not decided:
                    arrivals.append(asyncio.ensure_future(arrive()))
                decided.append(command.pod.name)
                loop.put(answer_to(command))

        arrivals: list[asyncio.Future[None]] = []
        engine = Engine([small_profile(Dozer())])
        Dozer.loop = None
        loop = DecisionLoop(engine, carry_out, now_s=Timer.read, timer_s=Timer.read)
        loop.put_all([NodeSeen(make_node("n1", cpu="100")), *(PodSeen(slow(f"s{n}")) for n in range(3))])
        loop.start_deciding()
        running = asyncio.ensure_future(loop.run())
        async with asyncio.timeout(60):
            while len(decided) < 4:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, *arrivals, return_exceptions=True)

    asyncio.run(story())
    assert decided == ["s0", "quick", "s1", "s2"]


@pytest.mark.parametrize("at", ["filter", "pre_enqueue"])
def test_a_turn_ends_early_and_carries_out_what_it_has_decided(at: str) -> None:
    """One slow step a turn: no bind waits for more than two, and nobody takes the loop for dead."""
    watched = Watched([small_profile(Dozer())])
    watched.see(*(slow(f"s{number}", labels={"at": at}) for number in range(6)))
    turns = watched.run()
    assert sorted(name for turn in turns for name in turn) == [f"s{number}" for number in range(6)]
    assert max(map(len, turns)) == 1
    assert Dozer.silences_s == [DOZE_S] * 6


def test_the_members_of_a_gang_are_steps() -> None:
    """They are decided on in one turn, as they must, but with a sign of life after each."""
    watched = Watched([small_profile(Dozer(), GangScheduling())])
    watched.see(*(slow(f"s{number}", annotations=GANG) for number in range(6)))
    watched.run()
    assert len(watched.engine.bindings) == 6
    assert max(Dozer.silences_s) == DOZE_S


def test_pods_of_others_go_first() -> None:
    """However many slow ones are in front of them; and when nobody else waits, the slow ones go on."""
    watched = Watched([small_profile(Dozer())])
    watched.see(*(slow(f"s{number}") for number in range(6)), *(make_pod(f"o{number}", cpu="1") for number in range(6)))
    turns = watched.run()
    assert turns[0] == ["s0"]
    assert turns[1] == [f"o{number}" for number in range(6)]
    assert turns[2:] == [[f"s{number}"] for number in range(1, 6)]


def test_the_first_slow_pod_is_enough_also_in_a_turn_that_nobody_measured() -> None:
    """Only some turns are sampled; others go first all the same, and the plugin is found out in the turns after it."""
    watched = Watched([small_profile(Dozer())])
    watched.see(make_pod("quick"))
    watched.run()
    watched.see(*(slow(f"s{number}") for number in range(6)), *(make_pod(f"o{number}", cpu="1") for number in range(3)))
    with capture_logs() as lines:
        turns = watched.run()
    assert turns[1:3] == [["s0"], ["o0", "o1", "o2"]]
    assert [line["plugin"] for line in lines if "slow" in line["event"]] == ["Dozer"]


def test_slow_pods_get_a_share_of_the_time_while_others_keep_coming() -> None:
    """Others go first, not for ever."""
    watched = Watched([small_profile(Dozer())])
    watched.see(*(slow(f"s{number}") for number in range(3)))
    for number in range(400):
        watched.loop.put(PodSeen(make_pod(f"o{number}", cpu="10m")))
        watched.turns.append([])
        watched.loop._turn()
        Timer.now_s += 0.1
    bound = [name for turn in watched.turns for name in turn]
    assert {"s0", "s1", "s2"} <= set(bound)
    assert len(bound) > 400


def test_a_plugin_that_is_slow_again_and_again_is_named() -> None:
    """Once a minute, with a metric that counts every time."""
    watched = Watched([small_profile(Dozer())])
    watched.see(*(slow(f"s{number}") for number in range(6)))
    with capture_logs() as lines:
        watched.run()
    named = [line for line in lines if "slow" in line["event"]]
    assert [(line["plugin"], line["pods"], line["longest_s"]) for line in named] == [("Dozer", 3, DOZE_S)]
    assert watched.loop._metrics is not None
    families = {family.name: family for family in watched.loop._metrics.collect()}
    (sample,) = families["moorage_plugin_slow"].samples
    assert (sample.name, sample.labels, sample.value) == ("moorage_plugin_slow_total", {"plugin": "Dozer"}, 6.0)


def test_a_replay_stops_where_the_turn_stopped(tmp_path: Path) -> None:
    """The journal says at which step; the same binds come out of each turn although no time passes in a replay."""
    registry = Registry((*BUILTIN, Dozer))
    reading = read_configuration(
        b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        b"profiles: [{schedulerName: default-scheduler, plugins: {multiPoint: {enabled: [{name: Dozer}]}}}]\n",
        "test",
        registry,
    )
    assert reading.configuration is not None
    profiles = build_profiles(reading.configuration, registry)
    engine = Engine(profiles, EngineSettings(seed=5))
    journal = Journal(tmp_path, engine, document_of(reading.configuration, profiles), seed=5, version="1")
    watched = Watched(profiles, journal, engine)
    watched.see(*(slow(f"s{number}") for number in range(4)), *(make_pod(f"o{number}", cpu="1") for number in range(4)))
    turns = watched.run()
    journal.close()
    assert len(turns) == 5
    result = replay(tmp_path, registry)
    assert (result.binds, result.differing) == (8, 0)


# --- on the real API server ---

MODULE = """
import time
from moorage.framework.plugin import Plugin

class Dozer(Plugin):
    name = "Dozer"

    def filter(self, cycle, rows):
        if cycle.pod.namespace == "slow":
            time.sleep(1.2)
"""


def test_a_slow_plugin_costs_no_lease(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six pods for which a plugin takes 7 s together, with a renew deadline of 2 s: the leader stays, and binds all."""
    package = site.folder / "package"
    info = package / "dozer-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "dozer.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dozer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[moorage.plugins]\nDozer = dozer:Dozer\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
    config = site.config(QUICK)
    profile = "profiles: [{schedulerName: moorage, plugins: {multiPoint: {enabled: [{name: Dozer}]}}}]"
    config.write_text(config.read_text().replace("profiles: [{schedulerName: moorage}]", profile))
    slow_pods = "/api/v1/namespaces/slow/pods"
    assert site.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": "slow"}}).status in {201, 409}
    for number in range(6):
        pod = a_pod(f"s{number}", cpu="100m")
        pod["metadata"]["namespace"] = "slow"
        assert site.plane.request("POST", slow_pods, pod).status == 201
    site.add_pods(*(f"o{number}" for number in range(6)))

    def bound(path: str) -> int:
        return sum("nodeName" in pod["spec"] for pod in site.plane.request("GET", path).json()["items"])

    with site.replica("a", "--config", str(config), "--v=3") as a:  # from 4 on, filters are asked again for the log
        eventually(lambda: bound("/api/v1/namespaces/default/pods") == 6, "the others are bound", a)
        assert bound(slow_pods) < 6
        eventually(lambda: bound(slow_pods) == 6, "all are bound", a)
        assert a.process.poll() is None
        assert site.lease()["leaseTransitions"] == 0
        assert "a plugin is repeatedly slow" in a.log
    assert not error_lines(a.log)


@pytest.fixture
def site(empty_control_plane: ControlPlane, tmp_path: Path) -> Site:
    """Give a site with one large node."""
    assert empty_control_plane.request("POST", "/api/v1/nodes", a_node("n", cpu="64", pods="500")).status == 201
    return Site(empty_control_plane, tmp_path)
