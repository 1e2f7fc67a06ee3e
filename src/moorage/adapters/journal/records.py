"""What a journal says, record by record, as bytes and back.

Pods are most of what happens, so they are rows of plain values; what they share (templates, amounts) is written once in
a segment and named by number, so that a replay sees the very sharing that the engine saw. All other events are rare,
and are written as values (see `values`). Commands are written as they are, with a number for their type; replays are
compared with those bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from moorage.adapters.journal.frames import Piece, record
from moorage.adapters.journal.values import Packer, Unreadable, decode, loads, made, reading, unpacked
from moorage.core.assignments import Assignment
from moorage.core.commands import (
    AskExtenders,
    AskPreemption,
    Bind,
    Command,
    DeletePod,
    PatchObject,
    PatchPodStatus,
    RecordEvent,
    ReleaseCapacity,
    RequestCapacity,
)
from moorage.core.events import BindDone, BindOutcome, DeleteDone, Event, ObjectSeen, PodSeen, StatusDone
from moorage.core.gangrecords import GangRecord
from moorage.core.pods import Condition, Pod, PodTemplate
from moorage.core.resources import Requests
from moorage.core.values import dataclass
from moorage.wire.kinds import BY_ID

START, SHARED, FACTS, IMAGE, EVENTS, TURN, END = range(1, 8)
"""Kinds of records. Facts are parts of the image that follows them, as events are of the turn."""
MOST_SHARED = 200_000
"""Values that one segment may share; a writer begins another one long before."""
_CHUNK = 256
"""Events in one record, so that no record grows with the cluster."""
_LONGEST_S = 1e11
"""Times are seconds since 1970; later ones cannot be genuine."""
EMPTY, FROM_IMAGE = "empty", "image"

COMMANDS: tuple[type[Any], ...] = (
    Bind, RecordEvent, PatchPodStatus, DeletePod, PatchObject, AskExtenders, AskPreemption,
    RequestCapacity, ReleaseCapacity,
)  # fmt: skip
"""Types of commands by their number."""
_NUMBERS = {kind: number for number, kind in enumerate(COMMANDS)}
_FLAT_FIELDS = (("uid", "outcome", "node", "message"), ("uid", "ok", "message", "token"), ("uid", "ok", "message"))
_FLAT: tuple[tuple[type[Any], Callable[[Any], tuple[Any, ...]]], ...] = tuple(
    (kind, attrgetter(*names)) for kind, names in zip((BindDone, StatusDone, DeleteDone), _FLAT_FIELDS, strict=True)
)
"""Frequent events of plain values, by their number, and how to get those."""
_FLAT_NUMBERS: dict[type[Any], int] = {kind: number for number, (kind, _) in enumerate(_FLAT)}
_encode = msgspec.msgpack.Encoder().encode


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The first record of a segment."""

    version: str
    """Of Moorage."""
    run: str
    """Names the process that wrote it."""
    turns: int
    """Turns of this run in earlier segments."""
    time_s: float
    seed: int
    configuration: str
    """The effective configuration, without secrets, as a document that `--config` takes."""
    begins: str
    """`empty` with an engine that knows nothing, `image` with one that follows as an image."""
    gap: bool = False
    """Whether something before this was not written."""


@dataclass(frozen=True, slots=True)
class Image:
    """An engine as it was at that moment; `image.load` makes one of it."""

    facts: Sequence[bytes]
    restorer: Restorer
    """Knows what they share."""


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One call of `Engine.handle`."""

    now_s: float
    budget: int
    events: list[Event]
    commands: bytes
    """As `commands_bytes` writes them; those of a call that raised are `RAISED`."""
    stopped_at: int = 0
    """Which question whether to stop was answered by yes; 0: none."""


@dataclass(frozen=True, slots=True)
class End:
    """The process stopped in good order, or says why not."""

    now_s: float
    reason: str


Record: TypeAlias = Start | Image | RecordedTurn | End
RAISED = _encode(None)


def commands_bytes(commands: Iterable[Command]) -> bytes:
    """Commands as a journal holds them; equal commands give equal bytes."""
    return _encode(_told(list(commands)))


def _told(commands: Sequence[Command]) -> tuple[bytes, Sequence[Command]]:
    """The numbers of their types, and the commands; in calls that C code makes, as there are many."""
    return bytes(map(_NUMBERS.__getitem__, map(type, commands))), commands


def commands_of(data: bytes) -> list[Command]:
    """The commands that `commands_bytes` wrote; `Unreadable` for other bytes."""

    def read() -> list[Command]:
        numbers, told = decode(data) or (b"", [])
        return [_command(number, content) for number, content in zip(numbers, told, strict=True)]

    return reading(read)


def _command(number: int, content: Any) -> Command:
    if number >= len(COMMANDS):
        raise Unreadable(f"a command has the unknown type {number}; read the journal with the version that wrote it")
    return msgspec.convert(content, COMMANDS[number], dec_hook=_frozen)  # type: ignore[no-any-return]


def _frozen(_: type[Any], content: Any) -> Any:
    """A field of a type that msgspec does not know: patches and annotations are frozen dictionaries."""
    return unpacked(content)


class Scribe:
    """Makes records; one for all segments of a process, and one table of what is shared for each segment."""

    def __init__(self) -> None:
        self._packer = Packer()
        self._numbers: dict[int, int] = {}
        self._shared: list[PodTemplate | Requests] = []
        self._new = bytearray()
        self.shared_bytes = 0
        """What the values that the segment shares take in it."""

    @property
    def shared_count(self) -> int:
        """How many values the segment shares; they are kept alive so long."""
        return len(self._shared)

    def start(self, start: Start) -> bytes:
        """The first record of a segment: from here on nothing is known to the reader."""
        self._numbers, self._shared, self._new, self.shared_bytes = {}, [], bytearray(), 0
        return record(START, _encode(start))

    def turn(
        self,
        events: Sequence[Event],
        now_s: float,
        budget: int,
        commands: Sequence[Command] | None,
        stopped_at: int = 0,
    ) -> bytes:
        """The record of a turn, after those of values that are new in it; no commands mean that it raised."""
        rows = [self.pod(event.pod) if type(event) is PodSeen else self._row(event) for event in events]
        told = None if commands is None else _told(commands)
        before = [self.news()]
        while len(rows) > _CHUNK:
            before.append(record(EVENTS, _encode(rows[:_CHUNK])))
            del rows[:_CHUNK]
        stop = (stopped_at,) if stopped_at else ()
        return b"".join(before) + record(TURN, _encode((now_s, budget, rows, told, *stop)))

    def image(self, facts: Iterable[Any]) -> bytes:
        """The records of an image, after those of values that it names by number; facts are packed already."""
        records = [record(FACTS, _encode(each)) for each in facts]
        return self.news() + b"".join(records) + record(IMAGE, b"")

    @staticmethod
    def end(now_s: float, reason: str) -> bytes:
        """The last record of a process."""
        return record(END, _encode((now_s, reason)))

    def number(self, value: PodTemplate | Requests) -> int:
        """The number of a shared value."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._shared)
            self._shared.append(value)  # alive as long as its id stands for it
            data = record(SHARED, self._packer.dumps(value))
            self._new += data
            self.shared_bytes += len(data)
        return number

    def pack(self, value: object) -> Any:
        """Any core value, as something that can be encoded."""
        return self._packer.pack(value)

    def news(self) -> bytes:
        """Records of the shared values that the reader does not know yet."""
        if not self._new:
            return b""
        new, self._new = self._new, bytearray()
        return bytes(new)

    def _row(self, event: Event) -> Any:
        number = _FLAT_NUMBERS.get(type(event))
        return self._packer.pack(event) if number is None else (number, *_FLAT[number][1](event))

    def pod(self, pod: Pod) -> tuple[Any, ...]:
        """A pod as a row."""
        template = pod.template
        number = self._numbers.get(id(template))
        if number is None:
            number = self.number(template)
        row = (
            pod.uid, pod.name, number, pod.node, pod.phase, pod.created_s, pod.generation, pod.resource_version,
            pod.ready, pod.started_s, pod.scheduled_s, pod.scheduled_condition,
        )  # fmt: skip
        if (
            pod.requests is template.requests
            and pod.nominated_node is None
            and pod.deleted_s is None
            and not pod.gates
            and not pod.preempted
            and pod.gang_record is None
            and not pod.devices
            and pod.ends_s is None
            and pod.assigned is None
        ):
            return row
        requests = None if pod.requests is template.requests else self.number(pod.requests)
        more = (requests, pod.nominated_node, pod.deleted_s, pod.gates, pod.preempted, pod.gang_record, pod.devices)
        return (*row, *more, pod.ends_s, pod.assigned)


class _PodRow(msgspec.Struct, array_like=True):
    """A pod as `Scribe.pod` writes it; templates and amounts by number."""

    uid: str
    name: str
    template: int
    node: str | None
    phase: str
    created_s: float
    generation: int
    resource_version: str
    ready: bool
    started_s: float | None
    scheduled_s: float | None
    scheduled_condition: Condition | None
    requests: int | None = None
    nominated_node: str | None = None
    deleted_s: float | None = None
    gates: tuple[str, ...] = ()
    preempted: bool = False
    gang_record: GangRecord | None = None
    devices: tuple[int, ...] = ()
    ends_s: float | None = None
    assigned: Assignment | None = None


class _Turn(msgspec.Struct, array_like=True):
    now_s: float
    budget: int
    events: list[Any]
    commands: msgspec.Raw
    stopped_at: int = 0


class _Told(msgspec.Struct, array_like=True):
    now_s: float
    text: str


_turn = msgspec.msgpack.Decoder(_Turn).decode
_text = msgspec.msgpack.Decoder(_Told).decode
_start = msgspec.msgpack.Decoder(Start).decode
_rows = msgspec.msgpack.Decoder(list[Any]).decode


def _end(data: bytes) -> End:
    told = _text(data)
    return End(_checked_time(told.now_s), told.text)


class Restorer:
    """Makes of pieces what was recorded; one for each segment.

    What the segment before shared (`known`) is the same object here: engines tell templates apart by identity, and one
    that is gone on with would take pods that are alike for different ones.
    """

    def __init__(self, known: Iterable[PodTemplate | Requests] = ()) -> None:
        self._shared: list[PodTemplate | Requests] = []
        self._known: dict[PodTemplate | Requests, deque[PodTemplate | Requests]] = {}
        """What the segment before shared and this one does not yet: usually one of each value."""
        for value in known:
            self._known.setdefault(value, deque()).append(value)
        self._facts: list[bytes] = []
        self._events: list[Event] = []

    @property
    def all_shared(self) -> Sequence[PodTemplate | Requests]:
        """What the segment has shared so far."""
        return self._shared

    def restore(self, piece: Piece) -> Record | None:
        """The record of a piece; None if it is only used by later ones. `Unreadable` if it cannot be decoded."""
        return reading(lambda: self._restore(piece))

    def _restore(self, piece: Piece) -> Record | None:
        if piece.kind == TURN:
            return self._turn(piece.data)
        if piece.kind == EVENTS:
            self._events += map(self._event, _rows(piece.data))
            return None
        if piece.kind == SHARED:
            self._share(piece.data)
            return None
        if piece.kind == FACTS:
            self._facts.append(piece.data)
            return None
        if piece.kind == IMAGE:
            facts, self._facts = self._facts, []
            return Image(facts, self)
        if piece.kind == START:
            start = _start(piece.data)
            _checked_time(start.time_s)
            return start
        if piece.kind == END:
            return _end(piece.data)
        raise Unreadable(f"a record has the unknown kind {piece.kind}; read the journal with a newer version")

    def _turn(self, data: bytes) -> RecordedTurn:
        turn = _turn(data)
        events, self._events = self._events, []
        events += map(self._event, turn.events)
        return RecordedTurn(_checked_time(turn.now_s), turn.budget, events, bytes(turn.commands), turn.stopped_at)

    def _share(self, data: bytes) -> None:
        value = loads(data)
        if not isinstance(value, PodTemplate | Requests) or len(self._shared) >= MOST_SHARED:
            raise Unreadable(f"a segment shares a {type(value).__name__}, or more than {MOST_SHARED} values")
        known = self._known.get(value)
        self._shared.append(known.popleft() if known else value)

    def _event(self, row: Any) -> Event:
        event: Event
        if not isinstance(row, list):
            event = unpacked(row)
            if not isinstance(event, Event) or isinstance(event, PodSeen):
                raise Unreadable(f"a {type(event).__name__} is told as an event")
            if isinstance(event, ObjectSeen):
                checked_object(event.kind, event.value)
            return event
        if row and isinstance(row[0], str):
            return PodSeen(self.pod(row))
        number, *told = row
        kind = _FLAT[number][0]
        if kind is BindDone:
            told[1] = BindOutcome(told[1])
        event = made(kind, dict(zip(_FLAT_FIELDS[number], told, strict=True)))
        return event

    def shared(self, number: int) -> PodTemplate | Requests:
        """A shared value."""
        if not 0 <= number < len(self._shared):
            raise Unreadable(f"a shared value has the unknown number {number}")
        return self._shared[number]

    def pod(self, row: Any) -> Pod:
        """The pod of a row."""
        told = msgspec.convert(row, _PodRow)
        template = self.shared(told.template)
        requests = None if told.requests is None else self.shared(told.requests)
        if not isinstance(template, PodTemplate) or isinstance(requests, PodTemplate):
            raise Unreadable("a pod has amounts for a template, or a template for amounts")
        return Pod(
            uid=told.uid,
            name=told.name,
            template=template,
            node=told.node,
            nominated_node=told.nominated_node,
            phase=told.phase,
            gates=told.gates,
            requests=template.requests if requests is None else requests,
            created_s=told.created_s,
            started_s=told.started_s,
            deleted_s=told.deleted_s,
            scheduled_condition=told.scheduled_condition,
            generation=told.generation,
            resource_version=told.resource_version,
            preempted=told.preempted,
            scheduled_s=told.scheduled_s,
            gang_record=told.gang_record,
            ready=told.ready,
            devices=told.devices,
            ends_s=told.ends_s,
            assigned=told.assigned,
        )


def checked_object(kind: str, value: Any) -> None:
    """Raise unless a value is what the kind is read as."""
    known = BY_ID.get(kind)
    if known is None or not isinstance(value, known.value):
        raise Unreadable(f"an object of kind {kind!r:.80} is told as a {type(value).__name__}")


def _checked_time(time_s: float) -> float:
    if not -_LONGEST_S < time_s < _LONGEST_S:
        raise Unreadable(f"the time {time_s} is out of range")
    return time_s
