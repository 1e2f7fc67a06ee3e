"""What a journal says, record by record, as bytes and back.

Pods are most of what happens, so they are rows of plain values; what they share (templates, amounts) is written once in
a segment and named by number, so that a replay sees the very sharing that the engine saw. All other events are rare,
and are written as values (see `values`). Commands are written as they are, with a number for their type; replays are
compared with those bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from moorage.adapters.journal.frames import Piece, record
from moorage.adapters.journal.values import Packer, Unreadable, decode, loads, unpacked
from moorage.core.commands import (
    AskExtenders,
    AskPreemption,
    Bind,
    Command,
    DeletePod,
    PatchObject,
    PatchPodStatus,
    PodRef,
    RecordEvent,
)
from moorage.core.events import BindDone, BindOutcome, DeleteDone, Event, PodSeen, StatusDone
from moorage.core.pods import Condition, Pod, PodTemplate
from moorage.core.resources import Requests

FORMAT = 1
START, SHARED, IMAGE, TURN, TERM, RECONFIGURED, END = range(1, 8)
"""Kinds of records."""
EMPTY, FROM_IMAGE = "empty", "image"

COMMANDS: tuple[type[Any], ...] = (
    Bind, RecordEvent, PatchPodStatus, DeletePod, PatchObject, AskExtenders, AskPreemption,
)  # fmt: skip
"""Types of commands by their number."""
_NUMBERS = {kind: number for number, kind in enumerate(COMMANDS)}
_FLAT: tuple[tuple[type[Any], Callable[[Any], tuple[Any, ...]]], ...] = (
    (BindDone, attrgetter("uid", "outcome", "node", "message")),
    (StatusDone, attrgetter("uid", "ok", "message", "token")),
    (DeleteDone, attrgetter("uid", "ok", "message")),
)
"""Frequent events of plain values, by their number, and how to get those."""
_FLAT_NUMBERS: dict[type[Any], int] = {kind: number for number, (kind, _) in enumerate(_FLAT)}
_ROW = 12
"""Values of a pod of which nothing unusual is to be said."""
_encode = msgspec.msgpack.Encoder().encode


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The first record of a segment."""

    format: int = FORMAT
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

    data: bytes
    shared: Sequence[PodTemplate | Requests]


@dataclass(frozen=True, slots=True)
class Turn:
    """One call of `Engine.handle`."""

    now_s: float
    budget: int
    events: list[Event]
    commands: bytes
    """As `commands_bytes` writes them; those of a call that raised are `RAISED`."""
    stopped_at: int = 0
    """Which question whether to stop was answered by yes; 0: none."""


@dataclass(frozen=True, slots=True)
class Term:
    """This process leads from now on."""

    now_s: float
    term: str


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """One call of `Engine.reconfigure`."""

    now_s: float
    configuration: str
    commands: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The process stopped in good order, or says why not."""

    now_s: float
    reason: str


Record: TypeAlias = Start | Image | Turn | Term | Reconfigured | End
RAISED = _encode(None)


def commands_bytes(commands: Iterable[Command]) -> bytes:
    """Commands as a journal holds them; equal commands give equal bytes."""
    return _encode(_told(list(commands)))


def _told(commands: Sequence[Command]) -> tuple[bytes, Sequence[Command]]:
    """The numbers of their types, and the commands; in calls that C code makes, as there are many."""
    return bytes(map(_NUMBERS.__getitem__, map(type, commands))), commands


def commands_of(data: bytes) -> list[Command]:
    """The commands that `commands_bytes` wrote."""
    numbers, told = decode(data) or (b"", [])
    return [_command(number, content) for number, content in zip(numbers, told, strict=True)]


def _command(number: int, content: Any) -> Command:
    if number >= len(COMMANDS):
        raise Unreadable(f"a command has the unknown type {number}; read the journal with the version that wrote it")
    if COMMANDS[number] is PatchObject:
        content["patch"], patch = {}, content["patch"]
        command: PatchObject = msgspec.convert(content, _PlainPatch).restored(unpacked(patch))
        return command
    return msgspec.convert(content, COMMANDS[number])  # type: ignore[no-any-return]


class _PlainPatch(msgspec.Struct):
    """A PatchObject, whose patch is of a type that msgspec does not know."""

    pod: Any
    kind: str
    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    subresource: str = ""

    def restored(self, patch: Any) -> PatchObject:
        """The command."""
        ref, precondition = PodRef(*self.pod), (self.uid, self.resource_version)
        return PatchObject(ref, self.kind, self.namespace, self.name, patch, *precondition, self.subresource)


class Scribe:
    """Makes records; one for all segments of a process, and one table of what is shared for each segment."""

    def __init__(self) -> None:
        self._packer = Packer()
        self._numbers: dict[int, int] = {}
        self._shared: list[PodTemplate | Requests] = []
        self._new = bytearray()

    @property
    def shared_count(self) -> int:
        """How many values the segment shares; they are kept alive so long."""
        return len(self._shared)

    def start(self, start: Start) -> bytes:
        """The first record of a segment: from here on nothing is known to the reader."""
        self._numbers, self._shared, self._new = {}, [], bytearray()
        return record(START, _encode(start))

    def turn(
        self,
        events: Iterable[Event],
        now_s: float,
        budget: int,
        commands: Sequence[Command] | None,
        stopped_at: int = 0,
    ) -> bytes:
        """The record of a turn, after those of values that are new in it; no commands mean that it raised."""
        rows = [self._pod(event.pod) if type(event) is PodSeen else self._row(event) for event in events]
        told = None if commands is None else _told(commands)
        stop = (stopped_at,) if stopped_at else ()
        return self.news() + record(TURN, _encode((now_s, budget, rows, told, *stop)))

    def image(self, data: bytes) -> bytes:
        """The record of an image, after those of values that it names by number."""
        return self.news() + record(IMAGE, data)

    @staticmethod
    def term(now_s: float, term: str) -> bytes:
        """The record of a term."""
        return record(TERM, _encode((now_s, term)))

    @staticmethod
    def reconfigured(now_s: float, configuration: str, commands: Sequence[Command]) -> bytes:
        """The record of another configuration."""
        return record(RECONFIGURED, _encode((now_s, configuration, _told(commands))))

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
            self._new += record(SHARED, self._packer.dumps(value))
        return number

    def dumps(self, value: object) -> bytes:
        """Any core value."""
        return self._packer.dumps(value)

    def news(self) -> bytes:
        """Records of the shared values that the reader does not know yet."""
        if not self._new:
            return b""
        new, self._new = self._new, bytearray()
        return bytes(new)

    def _row(self, event: Event) -> Any:
        number = _FLAT_NUMBERS.get(type(event))
        return self._packer.pack(event) if number is None else (number, *_FLAT[number][1](event))

    def _pod(self, pod: Pod) -> tuple[Any, ...]:
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
        ):
            return row
        requests = None if pod.requests is template.requests else self.number(pod.requests)
        return (*row, requests, pod.nominated_node, pod.deleted_s, pod.gates, pod.preempted, pod.gang_record)


class _Turn(msgspec.Struct, array_like=True):
    now_s: float
    budget: int
    events: list[msgspec.Raw]
    commands: msgspec.Raw
    stopped_at: int = 0


class _Change(msgspec.Struct, array_like=True):
    now_s: float
    configuration: str
    commands: msgspec.Raw


_turn = msgspec.msgpack.Decoder(_Turn).decode
_change = msgspec.msgpack.Decoder(_Change).decode
_decode_start = msgspec.msgpack.Decoder(Start).decode
_NOTHING_UNUSUAL = (None, None, None, (), False, None)


def _start(data: bytes) -> Start:
    start = _decode_start(data)
    if start.format != FORMAT:
        raise Unreadable(f"the format {start.format} is not known; use Moorage {start.version}")
    return start


def _reconfigured(data: bytes) -> Reconfigured:
    change = _change(data)
    return Reconfigured(change.now_s, change.configuration, bytes(change.commands))


_RARE: dict[int, Callable[[bytes], Record]] = {
    START: _start,
    TERM: lambda data: Term(*decode(data)),
    RECONFIGURED: _reconfigured,
    END: lambda data: End(*decode(data)),
}


class Restorer:
    """Makes of pieces what was recorded; one for each segment."""

    def __init__(self) -> None:
        self._shared: list[Any] = []

    def restore(self, piece: Piece) -> Record | None:
        """What a piece says; None where it is only for later ones. `Unreadable` where nobody can tell."""
        try:
            return self._restore(piece)
        except Unreadable:
            raise
        except (msgspec.MsgspecError, TypeError, ValueError, KeyError, IndexError) as error:
            raise Unreadable(f"a record cannot be read: {error}") from None

    def _restore(self, piece: Piece) -> Record | None:
        if piece.kind == SHARED:
            self._shared.append(loads(piece.data))
            return None
        if piece.kind == IMAGE:
            return Image(piece.data, self._shared)
        if piece.kind == TURN:
            turn = _turn(piece.data)
            events = [self._event(bytes(row)) for row in turn.events]
            return Turn(turn.now_s, turn.budget, events, bytes(turn.commands), turn.stopped_at)
        make = _RARE.get(piece.kind)
        if make is None:
            raise Unreadable(f"a record has the unknown kind {piece.kind}; read the journal with a newer version")
        return make(piece.data)

    def _event(self, data: bytes) -> Event:
        row = decode(data)
        event: Event
        if not isinstance(row, list):
            event = row
            return event
        if isinstance(row[0], str):
            return PodSeen(self._pod(row))
        number, *told = row
        if number == 0:
            told[1] = BindOutcome(told[1])
        event = _FLAT[number][0](*told)
        return event

    def _pod(self, row: list[Any]) -> Pod:
        (uid, name, number, node, phase, created_s, generation, version, ready, started_s, scheduled_s, scheduled) = (
            row[:_ROW]
        )
        requests, nominated, deleted_s, gates, preempted, gang_record = row[_ROW:] or (
            None,
            None,
            None,
            (),
            False,
            None,
        )
        template: PodTemplate = self._shared[number]
        return Pod(
            uid=uid,
            name=name,
            template=template,
            node=node,
            nominated_node=nominated,
            phase=phase,
            gates=tuple(gates),
            requests=template.requests if requests is None else self._shared[requests],
            created_s=created_s,
            started_s=started_s,
            deleted_s=deleted_s,
            scheduled_condition=_condition(scheduled),
            generation=generation,
            resource_version=version,
            preempted=preempted,
            scheduled_s=scheduled_s,
            gang_record=_condition(gang_record),
            ready=ready,
        )


def _condition(told: dict[str, str] | None) -> Condition | None:
    return None if told is None else Condition(**told)
