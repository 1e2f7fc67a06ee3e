"""A journal as a story: which pods were placed, evicted, nominated or left pending; leaders and configurations.

A `Narrator` makes scenes of records: what the engine was told, from which the state of the cluster follows, and what
happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from moorage.adapters.journal.reader import JournalReader
from moorage.adapters.journal.records import End, Image, Record, RecordedTurn, Start, commands_of
from moorage.adapters.journal.replaying import engine_of
from moorage.core.commands import RecordEvent
from moorage.core.events import ConfigurationChanged, Event, NodeSeen, ObjectSeen, PodSeen, TermBegan
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.framework.registry import Registry
from moorage.views.story import decided
from moorage.views.words import WORDS, Happening, HappeningKind


class JournalScene(NamedTuple):
    """What a record tells."""

    time_s: float
    events: Sequence[Event] = ()
    happened: Sequence[Happening] = ()
    anew: bool = False
    """Nothing that was told before is known to hold: another process begins, or something is missing before this."""


class Narrator:
    """Makes scenes of the records of a journal, one after the other.

    What an image knows is told where nothing else is known: at the beginning of a journal whose oldest part was
    dropped, after a gap, and where a reader begins in the middle. Such a reader says which pods had no node then
    (`unbound`): an engine does not know the pods of other schedulers that wait.
    """

    def __init__(self, registry: Registry, unbound: Sequence[Pod] | None = None) -> None:
        self._registry = registry
        self._unbound = unbound
        self._start: Start | None = None
        self._turns = 0
        """Turns of this run so far."""
        self._known = False
        """Whether the next image has nothing new."""

    def scene(self, record: Record) -> JournalScene | None:
        """What a record tells; None if it tells nothing. `ReadError` where it cannot be understood."""
        if isinstance(record, RecordedTurn):
            self._turns += 1
            return JournalScene(record.now_s, record.events, [*_told(record)])
        if isinstance(record, Start):
            return self._begin(record)
        if isinstance(record, End):
            return JournalScene(record.now_s, happened=[_ended(record)])
        return self._load(record)

    def _begin(self, start: Start) -> JournalScene:
        before, self._start = self._start, start
        follows = before is not None and before.run == start.run
        self._known = follows and not start.gap and start.turns == self._turns
        self._turns = start.turns
        resumed = before is None and self._unbound is not None
        happened = [] if self._known or resumed else [_started(start, follows=follows)]
        return JournalScene(start.time_s, happened=happened, anew=not self._known)

    def _load(self, image: Image) -> JournalScene | None:
        if self._known or self._start is None:
            return None
        self._known = True
        engine = engine_of(image, self._start, self._registry)
        unbound, self._unbound = self._unbound, None
        return JournalScene(self._start.time_s, _seen_by(engine, _unbound(engine) if unbound is None else unbound))


def scenes(folder: Path, registry: Registry) -> Iterator[JournalScene]:
    """A whole journal; `ReadError` where it cannot be read."""
    narrator = Narrator(registry)
    for record in JournalReader(folder).records():
        scene = narrator.scene(record)
        if scene is not None:
            yield scene


def known_to(engine: Engine) -> list[Event]:
    """Everything that an engine knows, as events: nodes, other objects, pods on nodes, and pods that wait."""
    state = engine.state
    placed = (PodSeen(replace(record.pod, node=record.node)) for record in state.records())
    waiting = (PodSeen(entry.pod) for entry in engine.queue.entries() if state.record(entry.pod.uid) is None)
    return [*_cluster_of(engine), *placed, *waiting]


def _cluster_of(engine: Engine) -> Iterator[Event]:
    state = engine.state
    yield from (NodeSeen(state.node(int(row))) for row in state.rows())
    for kind, each in state.objects.items():
        yield from (ObjectSeen(kind, key, value) for key, value in each.items())


def _seen_by(engine: Engine, unbound: Sequence[Pod]) -> list[Event]:
    """What a watch would show: a pod is on a node once its bind is confirmed."""
    placed = (record for record in engine.state.records() if not record.assumed)
    pods = [PodSeen(replace(record.pod, node=record.node)) for record in placed]
    return [*_cluster_of(engine), *pods, *map(PodSeen, unbound)]


def _unbound(engine: Engine) -> list[Pod]:
    """Pods without a node, as far as an engine knows of them."""
    assumed = {record.pod.uid: record.pod for record in engine.state.records() if record.assumed}
    waiting = {
        entry.pod.uid: entry.pod for entry in engine.queue.entries() if engine.state.record(entry.pod.uid) is None
    }
    return [*assumed.values(), *waiting.values()]


def _started(start: Start, *, follows: bool) -> Happening:
    if follows:
        return Happening(start.time_s, HappeningKind.GAP)
    return Happening(start.time_s, HappeningKind.STARTED, facts={"version": start.version})


def _ended(end: End) -> Happening:
    return Happening(end.now_s, HappeningKind.ENDED, facts={"reason": end.reason or "the scheduler stopped"})


def _told(turn: RecordedTurn) -> Iterator[Happening]:
    for event in turn.events:
        if isinstance(event, TermBegan):
            yield Happening(turn.now_s, HappeningKind.LEADS, facts={"term": event.term})
        elif isinstance(event, ConfigurationChanged):
            yield Happening(turn.now_s, HappeningKind.RECONFIGURED)
    for command in commands_of(turn.commands):
        # Events only announce what other commands do.
        if not isinstance(command, RecordEvent):
            yield from (each for each in decided(command, turn.now_s) if WORDS[each.what].chip)
