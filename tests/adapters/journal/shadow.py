"""Engines with a shadow: another one, made of an image of the first, that must decide the same from then on."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from moorage.adapters.journal import image
from moorage.adapters.journal.frames import Frames, Segment, path_of
from moorage.adapters.journal.records import Image, Restorer, Scribe, Start, commands_bytes
from moorage.adapters.journal.replaying import stop_at
from moorage.core.commands import Command
from moorage.core.events import ConfigurationChanged, Event
from moorage.core.invariants import check_invariants
from moorage.engine.context import Stop
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import Profile
from tests.adapters.journal.recording import Asked

_START = Start(version="1", run="r", turns=0, time_s=0.0, seed=0, configuration="", begins="image")


class Passage:
    """Records as they come back from a segment on disk, with what they share."""

    def __init__(self, folder: Path, before: Restorer | None = None) -> None:
        self.scribe = Scribe()
        self.restorer = Restorer(() if before is None else before.all_shared)
        self._path = path_of(folder, 1)

    def through(self, data: bytes) -> Any:
        """The last record of these bytes."""
        with self._path.open("wb") as file:
            frames = Frames(file)
            for frame in frames.frames(data):
                frames.write(frame)
        return [self.restorer.restore(piece) for piece in Segment(self._path).pieces()][-1]


class ShadowedEngine:
    """Everything that it is told its shadow is told too; every now and then that is made anew.

    The first shadow stays beside it: replays that come to another image go on with the engine that they have.
    """

    folder: Path
    rng: Random
    share = 0.5
    made = 0
    """Shadows so far."""

    def __init__(self, profiles: Sequence[Profile], settings: EngineSettings | None = None, **others: Any) -> None:
        self._given = (copy.deepcopy(profiles), settings, others)
        self.engine = Engine(profiles, settings, **others)
        self.shadow: Engine | None = None
        self.first: Engine | None = None
        self._passage = Passage(self.folder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def handle(
        self, events: Iterable[Event], now: float, budget: int = 1 << 62, stop: Stop | None = None
    ) -> tuple[list[Command], float | None]:
        told = list(events)
        for event in told:
            if isinstance(event, ConfigurationChanged):
                self._given = (copy.deepcopy(event.profiles), event.settings, self._given[2])
        asked = None if stop is None else Asked(stop)
        commands, next_s = self.engine.handle(told, now, budget, asked)
        stopped_at = 0 if asked is None else asked.stopped_at
        if self.shadow is not None:
            turn = self._passage.through(self._passage.scribe.turn(told, now, budget, commands, stopped_at))
            for which, shadow in ("latest", self.shadow), ("first", self.first):
                if shadow is None:
                    continue
                equipped = map(self._equipped, turn.events)
                again, again_s = shadow.handle(equipped, turn.now_s, turn.budget, stop_at(turn.stopped_at))
                assert commands_bytes(again) == commands_bytes(commands), (which, again, commands)
                assert again_s == next_s, (which, again_s, next_s)
        if self.rng.random() < self.share:
            self.first = self.first or self.shadow
            self.shadow = self._image()
            if self.first is not None:
                image.pass_by(self.first)
        return commands, next_s

    def _equipped(self, event: Event) -> Event:
        """What came back from disk, with plugins of its own where the configuration changed."""
        if not isinstance(event, ConfigurationChanged):
            return event
        return replace(event, profiles=copy.deepcopy(self._given[0]), settings=self._given[1])

    def _image(self) -> Engine:
        profiles, settings, others = self._given
        found = Engine(copy.deepcopy(profiles), settings, **others)
        passage = self._passage = Passage(self.folder, self._passage.restorer)
        start = passage.scribe.start(_START)
        record = passage.through(start + image.dump(self.engine, passage.scribe))
        assert isinstance(record, Image)
        image.load(record, found)
        check_invariants(found.state)
        type(self).made += 1
        return found
