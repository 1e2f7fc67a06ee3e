"""A journal as a story: which pods were placed, evicted, nominated or left pending; leaders and configurations.

`events` yields what the engine was told, from which the state of the cluster at some time follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from moorage.adapters.journal.reader import JournalReader
from moorage.adapters.journal.records import End, Image, Record, RecordedTurn, Start, commands_of
from moorage.adapters.journal.replaying import engine_of
from moorage.core.commands import RecordEvent
from moorage.core.events import ConfigurationChanged, Event, NodeSeen, ObjectSeen, PodSeen, TermBegan
from moorage.engine.engine import Engine
from moorage.framework.registry import Registry
from moorage.views.story import decided
from moorage.views.words import WORDS, Happening, HappeningKind


def entries(folder: Path, *, since_s: float = -math.inf, until_s: float = math.inf) -> Iterator[Happening]:
    """What happened in a span of time, in order; `ReadError` where the journal cannot be read."""
    run = ""
    for record in JournalReader(folder).records():
        if isinstance(record, Start):
            found = [] if record.run == run and not record.gap else [_started(record, follows=record.run == run)]
            run = record.run
        else:
            found = list(_told(record))
        yield from (each for each in found if since_s <= each.at_s <= until_s)


def span(folder: Path) -> tuple[float, float]:
    """The first and the last time in a journal."""
    times = [time_s for record in JournalReader(folder).records() if (time_s := _time_of(record)) is not None]
    return (times[0], times[-1]) if times else (0.0, 0.0)


def events(folder: Path, registry: Registry, until_s: float = math.inf) -> Iterator[tuple[float, list[Event]]]:
    """What the engine was told, turn by turn. A journal whose beginning was dropped begins with all that was known.

    The same is told again where something is missing and where another process took over; objects that went away
    meanwhile are not told of, so a reader that keeps a state begins anew where a run began or has a gap.
    """
    start: Start | None = None
    known = False
    for record in JournalReader(folder).records():
        if isinstance(record, Start):
            known = start is not None and record.run == start.run and not record.gap
            start = record
        elif isinstance(record, Image) and start is not None and not known:
            yield start.time_s, known_to(engine_of(record, start, registry))
        elif isinstance(record, RecordedTurn):
            if record.now_s > until_s:
                return
            if record.events:
                yield record.now_s, record.events


def known_to(engine: Engine) -> list[Event]:
    """Everything that an engine knows, as events: nodes, other objects, pods on nodes, and pods that wait."""
    state = engine.state
    found: list[Event] = [NodeSeen(state.node(int(row))) for row in state.rows()]
    found += (ObjectSeen(kind, key, value) for kind, each in state.objects.items() for key, value in each.items())
    found += (PodSeen(replace(record.pod, node=record.node)) for record in state.records())
    found += (PodSeen(entry.pod) for entry in engine.queue.entries() if state.record(entry.pod.uid) is None)
    return found


def _time_of(record: Record) -> float | None:
    if isinstance(record, Start):
        return record.time_s
    return None if isinstance(record, Image) else record.now_s


def _started(start: Start, *, follows: bool) -> Happening:
    if follows:
        return Happening(start.time_s, HappeningKind.GAP)
    return Happening(start.time_s, HappeningKind.STARTED, facts={"version": start.version})


def _told(record: Record) -> Iterator[Happening]:
    if isinstance(record, RecordedTurn):
        for event in record.events:
            if isinstance(event, TermBegan):
                yield Happening(record.now_s, HappeningKind.LEADS, facts={"term": event.term})
            elif isinstance(event, ConfigurationChanged):
                yield Happening(record.now_s, HappeningKind.RECONFIGURED)
        for command in commands_of(record.commands):
            # Events only announce what other commands do.
            if not isinstance(command, RecordEvent):
                yield from (each for each in decided(command, record.now_s) if WORDS[each.what].chip)
    elif isinstance(record, End):
        yield Happening(record.now_s, HappeningKind.ENDED, facts={"reason": record.reason or "the scheduler stopped"})
