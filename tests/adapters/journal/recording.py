"""Engines that are written down: what a scheduler does with its journal, for histories that tests play."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

from moorage.adapters.journal.writer import Journal
from moorage.app.journal import document_of
from moorage.core.commands import Command
from moorage.core.events import ConfigurationChanged, Event
from moorage.engine.context import Stop
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import read_configuration

REGISTRY = Registry(BUILTIN)
SEED = 5
_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SPREADING = _HEAD + "profiles: [{schedulerName: default-scheduler}]\n"
PACKING = _HEAD + (
    "profiles:\n- schedulerName: default-scheduler\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n"
    "      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}\n"
    "  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}\n"
)


def configuration_of(text: str) -> Configuration:
    reading = read_configuration(text.encode(), "test", REGISTRY)
    assert reading.configuration is not None, reading.problems
    return reading.configuration


def recorded_text(text: str) -> str:
    configuration = configuration_of(text)
    return document_of(configuration, build_profiles(configuration, REGISTRY))


class Asked:
    """Remembers at which question the engine was first told to stop, as the scheduler does."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._count = 0
        self.stopped_at = 0

    def __call__(self) -> bool:
        self._count += 1
        stops = self._stop()
        self.stopped_at = self.stopped_at or (self._count if stops else 0)
        return stops


class RecordedEngine:
    """An engine whose calls are written down; everything else of it is the engine's own."""

    def __init__(self, folder: Path, text: str = SPREADING, size_bytes: int = 1 << 30) -> None:
        configuration = configuration_of(text)
        profiles = build_profiles(configuration, REGISTRY)
        self.engine = Engine(profiles, EngineSettings.of(configuration, SEED))
        self.journal = Journal(folder, self.engine, recorded_text(text), seed=SEED, version="1", size_bytes=size_bytes)
        self.after_turn: Callable[[float], None] = lambda _: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def handle(
        self, events: Iterable[Event], now: float, budget: int = 1 << 62, stop: Stop | None = None
    ) -> tuple[list[Command], float | None]:
        told, asked = list(events), None if stop is None else Asked(stop)
        commands, next_s = self.engine.handle(told, now, budget, asked)
        self.journal.turn(told, now, budget, commands, 0 if asked is None else asked.stopped_at)
        self.after_turn(now)
        return commands, next_s

    def reconfigure(self, text: str, now: float) -> list[Command]:
        configuration = configuration_of(text)
        profiles = build_profiles(configuration, REGISTRY)
        changed = ConfigurationChanged(recorded_text(text), profiles, EngineSettings.of(configuration, SEED))
        return self.handle([changed], now, budget=0)[0]


class Recorder:
    """Makes recorded engines, one at a time, as a scheduler that is started again and again in one folder."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self._folder = folder
        self._rng = rng
        self.current: RecordedEngine | None = None

    def make(self) -> Any:
        self.close()
        self.current = engine = RecordedEngine(self._folder)
        engine.after_turn = self._perhaps_a_new_segment
        return engine

    def _perhaps_a_new_segment(self, now: float) -> None:
        if self.current is not None and self._rng.random() < 0.05:
            self.current.journal._next_segment(now)

    def close(self) -> None:
        if self.current is not None:
            self.current.journal.close()
