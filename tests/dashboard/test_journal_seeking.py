"""Any moment of a journal is shown from the nearest image, exactly as if it were read from its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moorage.adapters.dashboard.backend import SeriesRequest
from moorage.adapters.journal import reader as reader_module
from moorage.adapters.journal.frames import Segment, segments
from moorage.adapters.journal.timeline import scenes
from moorage.app import dashboard_journal
from moorage.app.dashboard_journal import JournalShow
from moorage.core.echo import Echo
from moorage.core.events import Event, NodeGone, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import Workload
from moorage.core.pods import Condition, Owner, Pod
from moorage.testing.builders import make_node, make_pod
from moorage.views.chartpage import MOST_POINTS
from moorage.views.pages import node_page, summary
from moorage.views.placements import strategies_page
from moorage.views.queues import queue_page
from moorage.views.spotpage import spot_page
from moorage.views.world import World
from tests.adapters.journal.recording import REGISTRY, RecordedEngine
from tests.dashboard.serving import reading_of

T = 1_790_000_000.0
CAPACITY = "node.kubernetes.io/capacity"
STRATEGY = FrozenDict({"moorage.dev/schedule-strategy": f"weight=1,nodeSelector={CAPACITY}:spot"})
OWNER = Owner("ReplicaSet", "web", "uid-web", "apps/v1")


class Chapter:
    """A scheduler in a cluster that changes, with a journal; another process takes over now and then."""

    def __init__(self, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = T
        self.times_s: list[float] = []
        self._folder = folder
        self._rng = Random(seed)
        self._number = 0
        self._nodes = {f"n{number}": self._node(number) for number in range(5)}
        self._pods: dict[str, Pod] = {}
        workload = Workload("ReplicaSet", "default", "web", "uid-web", annotations=STRATEGY, replicas=3)
        self._objects = [ObjectSeen("ReplicaSet", "default/web", workload)]
        self._answers: list[Event] = []
        monkeypatch.setattr("moorage.adapters.clock.now_s", lambda: self.now_s)
        self._engine = self._started()

    def _node(self, number: int) -> Any:
        kind = "spot" if number % 2 else "on-demand"
        return make_node(f"n{number}", cpu="4", memory="8Gi", zone=f"z{number % 2}", labels={CAPACITY: kind})

    def _started(self) -> RecordedEngine:
        engine = RecordedEngine(self._folder)
        self._echo = Echo()
        self._echo.pods |= self._pods
        listed: list[Event] = [*map(NodeSeen, self._nodes.values()), *self._objects, *map(PodSeen, self._pods.values())]
        self._answers = self._turn(engine, listed)
        return engine

    def _turn(self, engine: RecordedEngine, events: list[Event]) -> list[Event]:
        commands, _ = engine.handle(events, self.now_s)
        self.times_s.append(self.now_s)
        return self._echo.events(commands)

    def live(self, turns: int, *, segment: float, end: float) -> None:
        """Go on for so many turns; `segment` and `end` are how often a segment and a process end."""
        for _ in range(turns):
            self.now_s += self._rng.expovariate(1.0)
            self._answers = self._turn(self._engine, [*self._answered(), *self._changes()])
            if self._rng.random() < segment:
                self._engine.journal._next_segment(self.now_s)
            if self._rng.random() < end:
                self._engine.journal.close()
                self.now_s += 30.0
                self._engine = self._started()

    def close(self) -> None:
        self._engine.journal.close()

    def _answered(self) -> Iterator[Event]:
        """Answers to commands, some of them a turn later."""
        answers, self._answers = self._answers, []
        for event in answers:
            if isinstance(event, PodSeen) and event.pod.uid in self._pods:
                self._pods[event.pod.uid] = event.pod
            if isinstance(event, PodGone):
                self._pods.pop(event.uid, None)
            yield event

    def _changes(self) -> Iterator[Event]:
        draw = self._rng.random()
        if draw < 0.6:
            yield self._arrival()
        elif draw < 0.75 and self._pods:
            uid = self._rng.choice(list(self._pods))
            del self._pods[uid]
            self._echo.pods.pop(uid, None)
            yield PodGone(uid)
        elif draw < 0.85:
            name = self._rng.choice(list(self._nodes))
            node = replace(self._nodes[name], unschedulable=not self._nodes[name].unschedulable)
            self._nodes[name] = node
            yield NodeSeen(node)
        elif draw < 0.9 and len(self._nodes) > 3:
            name = self._rng.choice(list(self._nodes))
            del self._nodes[name]
            yield NodeGone(name)
        else:
            yield from self._others()

    def _arrival(self) -> Event:
        self._number += 1
        pod = make_pod(
            f"p{self._number}",
            cpu=self._rng.choice(("500m", "2", "16")),
            memory="1Gi",
            owner=OWNER if self._number % 3 else None,
            created_s=self.now_s,
            scheduler_name=self._rng.choice(("default-scheduler", "default-scheduler", "another")),
            priority=self._rng.choice((0, 0, 10)),
            gates=("later",) if self._number % 11 == 0 else (),
        )
        self._pods[pod.uid] = self._echo.pods[pod.uid] = pod
        return PodSeen(pod)

    def _others(self) -> Iterator[Event]:
        """What another scheduler does with its pods."""
        for pod in list(self._pods.values()):
            if pod.template.scheduler_name == "another" and pod.node is None:
                condition = Condition(
                    "PodScheduled", "False", "Unschedulable", "0/5 nodes are available: 5 Too many pods."
                )
                found = replace(pod, scheduled_condition=condition)
                if self._rng.random() < 0.5:
                    found = replace(pod, node=self._rng.choice(list(self._nodes)), phase="Running")
                self._pods[pod.uid] = self._echo.pods[pod.uid] = found
                yield PodSeen(found)
                return


def picture(world: World) -> dict[str, Any]:
    """Everything that pages show; without what only says that something changed, and numbers of rows."""
    pages: dict[str, Any] = {
        "nodes": sorted(row[1:] for row in world.nodes.everything()),
        "pages": [node_page(world, node) for _, node in sorted(world._known.items())],
        "queue": queue_page(world, 10_000),
        "strategies": strategies_page(world),
        "spot": spot_page(world),
        "summary": summary(world, 0.0),
        "timeline": world.timeline.since(0, 10_000),
    }
    pods = sorted(world.pods.values(), key=lambda pod: pod.uid)
    pages["pods"] = [{each.name: getattr(pod, each.name) for each in fields(Pod)} for pod in pods]
    for page in pages.values():
        if isinstance(page, dict):
            page.pop("version", None)
            page.pop("versions", None)
    return pages


def from_the_beginning(folder: Path, until_s: float) -> World:
    """A world that was told the whole journal until then."""

    def fresh() -> World:
        return World(reading_of().profiles, answers_to_all=True, derives=False)

    world = fresh()
    for scene in scenes(folder, REGISTRY):
        if scene.time_s > until_s:
            break
        if scene.anew:
            timeline = world.timeline
            world = fresh()
            world.timeline = timeline
        world.tell([*scene.events, *scene.happened], scene.time_s)
    return world


@pytest.mark.parametrize("seed", range(4))
def test_every_moment_is_shown_as_it_was(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of other schedulers, binds under way, cordons, lost nodes, restarts: whatever the segment begins with."""
    chapter = Chapter(tmp_path, seed, monkeypatch)
    chapter.live(120, segment=0.12, end=0.02)
    chapter.close()
    show = JournalShow(tmp_path, reading_of().profiles, REGISTRY)
    assert len(show._starts) > 5
    assert any(start.unbound for start in show._starts), "no segment began while a pod waited"
    for until_s in [*Random(seed).sample(chapter.times_s, 6), show.span[1], show._starts[3].time_s]:
        assert picture(show.at(until_s)) == picture(from_the_beginning(tmp_path, until_s)), until_s - T


def test_seeking_reads_from_the_nearest_image_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the segments before, only those are read again that the timeline takes, and none after."""
    chapter = Chapter(tmp_path, 3, monkeypatch)
    monkeypatch.setattr(dashboard_journal, "KEPT", 5)
    for _ in range(6):
        chapter.live(30, segment=0.0, end=0.0)
        chapter._engine.journal._next_segment(chapter.now_s)
    chapter.close()
    show = JournalShow(tmp_path, reading_of().profiles, REGISTRY)
    opened: list[Path] = []

    class Watched(Segment):
        def __init__(self, path: Path) -> None:
            opened.append(path)
            super().__init__(path)

    monkeypatch.setattr(reader_module, "Segment", Watched)
    place = 4
    show.at(show._starts[place].time_s + 5.0)
    assert set(opened) <= set(segments(tmp_path)[place - 1 : place + 1])
    assert segments(tmp_path)[place] in opened


def test_the_index_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many segments, few keep their pods; every moment is still shown, from an earlier image."""
    chapter = Chapter(tmp_path, 1, monkeypatch)
    monkeypatch.setattr(dashboard_journal, "MOST_UNBOUND", 4)
    chapter.live(90, segment=0.3, end=0.0)
    chapter.close()
    show = JournalShow(tmp_path, reading_of().profiles, REGISTRY)
    assert len(show._starts) > 15
    assert 1 <= sum(start.unbound is not None for start in show._starts) <= 4
    for until_s in chapter.times_s[-30::9]:
        assert picture(show.at(until_s)) == picture(from_the_beginning(tmp_path, until_s))


def test_charts_of_a_whole_journal_and_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part is shown in finer steps, with the values of the whole; between two processes nothing is known."""
    monkeypatch.setattr(dashboard_journal, "_WHOLE", (1.0, 16))
    chapter = Chapter(tmp_path, 2, monkeypatch)
    chapter.live(60, segment=0.1, end=0.0)
    between_s = chapter.now_s
    chapter.live(1, segment=0.0, end=1.0)
    chapter.live(60, segment=0.1, end=0.0)
    chapter.close()
    show = JournalShow(tmp_path, reading_of().profiles, REGISTRY)
    whole = show.charts(SeriesRequest(0.0, 1e11, 10))
    assert whole["step"] >= 8.0
    assert whole["span"] == [*show.span]
    part = show.charts(SeriesRequest(between_s + 40.0, between_s + 70.0, 400))
    assert part["step"] == 1.0
    assert part["span"] == whole["span"]
    countless, most = (
        show.charts(SeriesRequest(between_s + 40.0, between_s + 70.0, points)) for points in (10**18, MOST_POINTS)
    )
    assert countless == most
    world = from_the_beginning(tmp_path, between_s + 70.0)
    cpu = next(each for each in part["resources"] if each["name"] == "cpu")
    assert cpu["allocated"][-1] == summary(world, 0.0)["cpu"][0]
    assert sum(each["values"][-1] or 0 for each in part["waiting"]) == len(world.waiting)
    gap = show.charts(SeriesRequest(between_s - 20.0, between_s + 50.0, 400))
    assert None in gap["nodes"]
    assert gap["nodes"][0] is not None
    binds = sum((rate or 0.0) * gap["step"] / 60 for rate in whole["binds"])
    assert binds > 0
