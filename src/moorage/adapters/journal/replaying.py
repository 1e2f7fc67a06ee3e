"""Decides everything in a journal again, with the same engine, and compares.

A segment that follows the one before without a gap is gone on with, tidied where the recorded engine was for its image;
after a gap, or where older segments were dropped, the replay begins with the image at the beginning of the segment.
Every call must give the very bytes of the record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from pathlib import Path

from moorage.adapters.journal import image
from moorage.adapters.journal.reader import JournalReader, ReadError
from moorage.adapters.journal.records import (
    EMPTY,
    RAISED,
    Image,
    Record,
    RecordedTurn,
    Start,
    commands_bytes,
    commands_of,
)
from moorage.adapters.journal.values import Unreadable
from moorage.core.commands import Bind, Command, DeletePod
from moorage.core.events import ConfigurationChanged, Event, PodSeen
from moorage.core.values import dataclass
from moorage.engine.context import Stop
from moorage.engine.engine import Engine
from moorage.engine.lifecycle import GONE, Step
from moorage.engine.settings import EngineSettings
from moorage.engine.units import QueuedPod
from moorage.framework.configuration import Configuration
from moorage.framework.registry import Registry
from moorage.views.words import EVICTED
from moorage.wire.configuration import Reading, read_configuration

MOST_DIFFERENCES = 1000
"""So many are kept; all are counted."""


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """A pod for which a turn gave other commands than recorded."""

    time_s: float
    pod: str
    """`namespace/name`."""
    recorded: tuple[str, ...]
    replayed: tuple[str, ...]


@dataclass(slots=True)
class Replayed:
    """What came of a replay."""

    segments: int = 0
    runs: int = 0
    turns: int = 0
    events: int = 0
    binds: int = 0
    evictions: int = 0
    began_s: float | None = None
    ended_s: float | None = None
    differing: int = 0
    """Turns whose commands were not the recorded ones."""
    differences: list[ReplayDifference] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    """Of Moorage that wrote the journal, each once."""
    story: list[Step] = field(default_factory=list)
    """What happened to the pod that was asked about."""
    warnings: list[str] = field(default_factory=list)

    def saw(self, now_s: float) -> None:
        """Something was recorded at this time."""
        self.began_s = now_s if self.began_s is None else self.began_s
        self.ended_s = now_s


def replay(folder: Path, registry: Registry, pod: str = "") -> Replayed:
    """Replay a journal with what it was recorded with, and tell the life of a pod (`namespace/name`) if one is named.

    `ReadError` where the journal cannot be read.
    """
    reader = JournalReader(folder)
    player = Player(registry, pod)
    for record in reader.records():
        player.play(record)
    player.result.warnings += reader.warnings
    player.result.story = player.biographer.steps
    return player.result


class Biographer:
    """Writes down every step of one pod, of which the engine itself keeps only the latest."""

    def __init__(self, pod: str) -> None:
        self.steps: list[Step] = []
        self._pod = pod
        self._entry: QueuedPod | None = None
        self._latest: list[Step] = []
        """The latest step in the queue."""

    def find(self, engine: Engine, events: Iterable[Event] | None = None) -> None:
        """Look for the pod, among all that are queued or only those that something was told of."""
        if not self._pod:
            return
        if events is None:
            uids = [entry.pod.uid for entry in engine.queue.entries() if entry.pod.key == self._pod]
        else:
            uids = [event.pod.uid for event in events if isinstance(event, PodSeen) and event.pod.key == self._pod]
        found = engine.queue.get(uids[-1]) if uids else None
        self._entry = found or self._entry
        story = () if self._entry is None else self._entry.story
        new = next((at for at in range(len(story), 0, -1) if [story[at - 1]] == self._latest), 0)
        self.steps += story[new:]
        self._latest = list(story[-1:]) or self._latest

    def note(self, commands: Iterable[Command], now_s: float) -> None:
        """The pod may be evicted: for whom, and why."""
        for command in commands:
            if self._pod and isinstance(command, DeletePod) and command.pod.key == self._pod:
                taker = "" if command.preemptor is None else f" for {command.preemptor.key}"
                self.steps.append((now_s, GONE, f"{EVICTED}{taker}, {command.reason}: {command.message}"))


class Player:
    """Plays records, one after the other."""

    def __init__(self, registry: Registry, pod: str = "") -> None:
        self.result = Replayed()
        self.biographer = Biographer(pod)
        self.engine: Engine | None = None
        """As it was in the recorded process after the last record; None where that is not known."""
        self._registry = registry
        self._run = ""
        self._turns = 0
        self._start: Start | None = None

    def play(self, record: Record) -> None:
        """Do what was done."""
        if isinstance(record, RecordedTurn):
            self._turn(record)
        elif isinstance(record, Start):
            self._begin(record)
        elif isinstance(record, Image):
            self._load(record)

    def _begin(self, start: Start) -> None:
        result = self.result
        result.segments += 1
        if start.version not in result.versions:
            result.versions.append(start.version)
        if start.run == self._run and start.turns == self._turns and not start.gap and self.engine is not None:
            return
        if start.run == self._run:
            result.warnings.append(f"at {start.time_s:.3f} something is missing; the replay begins anew there")
        else:
            result.runs += 1
        self._run, self._turns, self._start = start.run, start.turns, start
        self.engine = fresh_engine(start, self._registry) if start.begins == EMPTY else None

    def _load(self, record: Image) -> None:
        if self.engine is None:
            self.engine = engine_of(record, self._start, self._registry)
            self.biographer.find(self.engine)
        else:
            image.pass_by(self.engine)

    def _turn(self, turn: RecordedTurn) -> None:
        self.result.saw(turn.now_s)
        self.result.turns += 1
        self.result.events += len(turn.events)
        self._turns += 1
        if self.engine is None:
            raise ReadError("a segment neither begins with an empty engine nor with an image; it cannot be replayed")
        events = list(self._equipped(turn.events))
        try:
            stop = stop_at(turn.stopped_at)
            commands: list[Command] | None = self.engine.handle(events, turn.now_s, turn.budget, stop)[0]
        except Exception:  # noqa: BLE001 - the recorded call may have raised too
            commands = None
        self.engine.faults.take()
        self.biographer.find(self.engine, events)
        self.biographer.note(commands or (), turn.now_s)
        self._compare(turn.now_s, turn.commands, commands)

    def _equipped(self, events: Iterable[Event]) -> Iterator[Event]:
        """Events as the engine was told them: a configuration with what it means."""
        for event in events:
            if isinstance(event, ConfigurationChanged) and self._start is not None:
                reading = read_recorded(event.document, self._registry)
                settings = EngineSettings.of(configuration_of(reading), self._start.seed)
                yield replace(event, profiles=reading.profiles, settings=settings)
            else:
                yield event

    def _compare(self, now_s: float, recorded: bytes, commands: list[Command] | None) -> None:
        for command in commands or ():
            self.result.binds += type(command) is Bind
            self.result.evictions += type(command) is DeletePod
        replayed = RAISED if commands is None else commands_bytes(commands)
        if replayed == recorded:
            return
        self.result.differing += 1
        if len(self.result.differences) < MOST_DIFFERENCES:
            self.result.differences += _differences(now_s, commands_of(recorded), commands or [])


def stop_at(number: int) -> Stop | None:
    """Ends a call where the recorded one was ended."""
    asked = itertools.count(1)
    return (lambda: next(asked) >= number) if number else None


def _differences(now_s: float, recorded: list[Command], replayed: list[Command]) -> Iterator[ReplayDifference]:
    pods = dict.fromkeys(command.pod for command in (*recorded, *replayed))
    for pod in pods:
        before = tuple(told(command) for command in recorded if command.pod == pod)
        after = tuple(told(command) for command in replayed if command.pod == pod)
        if before != after:
            yield ReplayDifference(now_s, pod.key, before, after)


def told(command: Command) -> str:
    """A command in a few words."""
    if isinstance(command, Bind):
        return f"bind to {command.node}"
    if isinstance(command, DeletePod):
        return f"evict ({command.reason})"
    return f"{type(command).__name__} {' '.join(str(part) for part in _details(command))}".strip()


def _details(command: Command) -> tuple[object, ...]:
    for name in ("note", "nominated_node", "name"):
        found = getattr(command, name, None)
        if found:
            return (found,)
    condition = getattr(command, "condition", None)
    return () if condition is None else (condition.type, condition.status, condition.reason)


# --- from what was recorded to an engine ---


def fresh_engine(start: Start, registry: Registry) -> Engine:
    """The engine that a run began with."""
    reading = read_recorded(start.configuration, registry)
    return Engine(reading.profiles, EngineSettings.of(configuration_of(reading), start.seed))


def engine_of(record: Image, start: Start | None, registry: Registry) -> Engine:
    """The engine of an image; `ReadError` where it is of another version."""
    if start is None:
        raise ReadError("an image stands before the beginning of its segment; it cannot be replayed")
    engine = fresh_engine(start, registry)
    try:
        image.load(record, engine)
    except Unreadable as error:
        raise ReadError(f"{error}; replay this journal with Moorage {start.version}") from None
    return engine


def read_recorded(text: str, registry: Registry) -> Reading:
    """The configuration of a journal; `ReadError` where it means nothing here."""
    reading = read_configuration(text.encode(), "the journal's configuration", registry)
    problems = (*reading.problems, *reading.trial_problems)
    if problems:
        raise ReadError(str(problems[0]))
    return reading


def configuration_of(reading: Reading) -> Configuration:
    """The configuration of a reading without problems."""
    if reading.configuration is None:
        raise ReadError("the journal's configuration is empty")
    return reading.configuration
