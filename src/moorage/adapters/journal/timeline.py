"""A journal as a story: who was placed, evicted, promised a node or left waiting, who led, with which configuration.

Plain values, for people and pages to look at. `events` gives what the engine was told, for whoever wants the state of
the cluster at some time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from moorage.adapters.journal.reader import JournalReader
from moorage.adapters.journal.records import End, Image, Reconfigured, Record, Start, Term, Turn, commands_of
from moorage.adapters.journal.replaying import engine_of
from moorage.core.commands import Bind, Command, DeletePod, PatchPodStatus
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.engine.engine import Engine
from moorage.framework.registry import Registry

BIND, EVICT, NOMINATE, UNSCHEDULABLE = "bind", "evict", "nominate", "unschedulable"
LEADER, CONFIGURATION, START, GAP, END = "leader", "configuration", "start", "gap", "end"


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened."""

    time_s: float
    kind: str
    """One of `bind`, `evict`, `nominate`, `unschedulable`, `leader`, `configuration`, `start`, `gap`, `end`."""
    pod: str = ""
    """`namespace/name`; empty where no pod is meant."""
    node: str = ""
    text: str = ""
    uid: str = ""
    """Of the pod."""


def entries(folder: Path, *, since_s: float = -math.inf, until_s: float = math.inf) -> Iterator[Entry]:
    """What happened in a span of time, in order; `ReadError` where the journal cannot be read."""
    run = ""
    for record in JournalReader(folder).records():
        if isinstance(record, Start):
            found = [] if record.run == run and not record.gap else [_started(record, follows=record.run == run)]
            run = record.run
        else:
            found = list(_told(record))
        yield from (entry for entry in found if since_s <= entry.time_s <= until_s)


def span(folder: Path) -> tuple[float, float]:
    """The first and the last time in a journal."""
    times = [time_s for record in JournalReader(folder).records() if (time_s := _time_of(record)) is not None]
    return (times[0], times[-1]) if times else (0.0, 0.0)


def events(folder: Path, registry: Registry, until_s: float = math.inf) -> Iterator[tuple[float, list[Event]]]:
    """What the engine was told, turn by turn. A journal whose beginning was dropped begins with all that was known.

    The same is told again where something is missing and where another process took over; objects that went away
    meanwhile are not told of, so whoever keeps a state begins anew at an entry `start` or `gap`.
    """
    start: Start | None = None
    known = False
    for record in JournalReader(folder).records():
        if isinstance(record, Start):
            known = start is not None and record.run == start.run and not record.gap
            start = record
        elif isinstance(record, Image) and start is not None and not known:
            yield start.time_s, known_to(engine_of(record, start, registry))
        elif isinstance(record, Turn):
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


def _started(start: Start, *, follows: bool) -> Entry:
    if follows:
        return Entry(start.time_s, GAP, text="something before this was not written")
    return Entry(start.time_s, START, text=f"Moorage {start.version} started")


def _told(record: Record) -> Iterator[Entry]:
    if isinstance(record, Turn):
        for command in commands_of(record.commands):
            yield from _decided(record.now_s, command)
    elif isinstance(record, Term):
        yield Entry(record.now_s, LEADER, text=f"this scheduler leads, term {record.term}")
    elif isinstance(record, Reconfigured):
        yield Entry(record.now_s, CONFIGURATION, text="another configuration was put in force")
    elif isinstance(record, End):
        yield Entry(record.now_s, END, text=record.reason or "the scheduler stopped")


def _decided(now_s: float, command: Command) -> Iterator[Entry]:
    pod, uid = f"{command.pod.namespace}/{command.pod.name}", command.pod.uid
    if isinstance(command, Bind):
        yield Entry(now_s, BIND, pod, command.node, f"{command.feasible} of {command.evaluated} nodes fitted", uid)
    elif isinstance(command, DeletePod):
        preemptor = command.preemptor
        text = command.message if preemptor is None else f"for {preemptor.namespace}/{preemptor.name}"
        yield Entry(now_s, EVICT, pod, text=text, uid=uid)
    elif isinstance(command, PatchPodStatus):
        if command.nominated_node:
            yield Entry(now_s, NOMINATE, pod, command.nominated_node, uid=uid)
        condition = command.condition
        if condition is not None and condition.type == "PodScheduled" and condition.status == "False":
            yield Entry(now_s, UNSCHEDULABLE, pod, text=condition.message, uid=uid)
