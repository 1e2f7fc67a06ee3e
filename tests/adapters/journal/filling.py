"""Journals with something in them, for tests."""

from __future__ import annotations

from pathlib import Path
from random import Random

from moorage.core.events import BindDone, BindOutcome, NodeSeen, PodGone, PodSeen
from moorage.testing.builders import make_node, make_pod
from tests.adapters.journal.recording import RecordedEngine


def fill(engine: RecordedEngine, turns: int, first: int = 0) -> None:
    """Pods come, are bound, and go."""
    for turn in range(first, first + turns):
        now = 10.0 + turn
        pod = make_pod(f"pod-{turn}", cpu="100m", uid=f"uid-{Random(turn).random()}")
        commands, _ = engine.handle([PodSeen(pod)], now, 32)
        answers = [BindDone(command.pod.uid, BindOutcome.BOUND) for command in commands[:1]]
        engine.handle([*answers, PodGone(pod.uid)], now + 0.5, 32)


def recorded(folder: Path, turns: int = 20, size_bytes: int = 1 << 30) -> RecordedEngine:
    engine = RecordedEngine(folder, size_bytes=size_bytes)
    engine.handle([NodeSeen(make_node(f"n{number}", cpu="4")) for number in range(3)], 1.0, 0)
    fill(engine, turns)
    return engine
