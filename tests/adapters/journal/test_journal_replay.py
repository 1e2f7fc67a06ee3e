"""Replays of recorded histories: every decision again, from wherever the journal begins."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from moorage.adapters.journal.frames import segments
from moorage.adapters.journal.replaying import replay
from moorage.adapters.metrics.scheduler import SchedulerMetrics
from moorage.core.events import BindDone, BindOutcome, Event, NodeSeen, PodSeen, TermBegan
from moorage.testing.builders import make_node, make_pod
from tests.adapters.journal.recording import PACKING, REGISTRY, RecordedEngine, Recorder
from tests.engine import gang_histories

HISTORIES = int(os.environ.get("MOORAGE_JOURNAL_HISTORIES", "6"))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_random_histories_with_gangs_evictions_failures_and_crashes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing differs, neither from the beginning nor from any later segment on, whatever was dropped before it."""
    recorder = Recorder(tmp_path, Random(seed))
    monkeypatch.setattr(gang_histories, "make_engine", recorder.make)
    gang_histories.History(seed).tell()
    recorder.close()
    whole = replay(tmp_path, REGISTRY)
    assert (whole.differing, whole.differences, whole.warnings) == (0, [], [])
    assert whole.turns > 0
    for path in segments(tmp_path)[:-1]:
        path.unlink()
        rest = replay(tmp_path, REGISTRY)
        assert (rest.differing, rest.differences, rest.warnings) == (0, [], []), f"without {path.name}"


def test_another_configuration_and_a_term_on_the_way(tmp_path: Path) -> None:
    """Events like any other: they are told again at their time."""
    engine = RecordedEngine(tmp_path)
    engine.handle([NodeSeen(make_node(f"n{number}", cpu="8")) for number in range(4)], 1.0, 0)
    engine.handle([TermBegan("3/me")], 1.5, 0)
    pods = [make_pod(f"p{number}", cpu="1", uid=f"u{number}") for number in range(12)]
    engine.handle([PodSeen(pod) for pod in pods[:6]], 2.0, 4)
    engine.handle([], 2.1, 32)
    engine.reconfigure(PACKING, 3.0)
    engine.handle([PodSeen(pod) for pod in pods], 3.1, 32)
    engine.handle([BindDone("u0", BindOutcome.FAILED, message="no")], 4.0, 32)
    engine.handle([], 9.0, 32)
    engine.journal.close()
    result = replay(tmp_path, REGISTRY)
    assert (result.differing, result.warnings) == (0, [])
    assert result.binds == 13, "one of twelve was tried twice"


def test_a_decision_that_differs_is_found(tmp_path: Path) -> None:
    """A journal whose decisions another engine made does not pass."""
    engine = RecordedEngine(tmp_path)
    engine.handle([NodeSeen(make_node("n1", cpu="8")), NodeSeen(make_node("n2", cpu="4"))], 1.0, 0)
    commands, _ = engine.engine.handle([PodSeen(make_pod("a", cpu="1"))], 2.0)
    forged = [command._replace(node="n2" if command.node == "n1" else "n1") for command in commands[:1]]  # type: ignore[union-attr, call-arg]
    engine.journal.turn([PodSeen(make_pod("a", cpu="1"))], 2.0, 32, [*forged, *commands[1:]])
    engine.journal.close()
    result = replay(tmp_path, REGISTRY)
    assert result.differing == 1
    (difference,) = result.differences
    assert difference.pod == "default/a"
    assert difference.recorded != difference.replayed


def test_an_image_of_an_engine_that_is_being_measured(tmp_path: Path) -> None:
    """Clocks that metrics put in front of plugins are gone again when the image is made."""
    engine = RecordedEngine(tmp_path)
    metrics = SchedulerMetrics(engine.engine)
    for turn in range(3):
        now = 1.0 + turn
        assert metrics.sampling.begin(now)
        events: list[Event] = [NodeSeen(make_node(f"n{turn}", cpu="8")), PodSeen(make_pod(f"p{turn}", cpu="1"))]
        commands, _ = engine.engine.handle(events, now, 32)
        metrics.sampling.end(now + 0.1)
        engine.journal.turn(events, now, 32, commands)
    engine.journal._next_segment(4.0)
    engine.handle([PodSeen(make_pod("last", cpu="1"))], 5.0, 32)
    engine.journal.close()
    assert engine.journal.failures == 0
    segments(tmp_path)[0].unlink()
    result = replay(tmp_path, REGISTRY)
    assert (result.binds, result.differing) == (1, 0)
