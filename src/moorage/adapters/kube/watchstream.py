"""The bytes of lists and watches: lines of any length, envelopes, and the few fields that following a resource needs.

Objects themselves stay raw JSON here; the receiver decodes them. JSON that is nested too deeply to be decoded is read
all the same, without what lies deeper than `JSON_DEPTH`. `Garbage` is what no API server sends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from moorage.adapters.kube.errors import ServerError, StatusView, error_from_status
from moorage.core.limits import JSON_DEPTH
from moorage.core.objects import object_key
from moorage.wire.errors import REFUSALS
from moorage.wire.nesting import flattened

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
ERROR = "ERROR"


class WatchEvent(msgspec.Struct, gc=False):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class ObjectMeta(msgspec.Struct, gc=False):
    """What following a resource reads of the metadata."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str = msgspec.field(default="", name="resourceVersion")

    @property
    def key(self) -> str:
        """`namespace/name`, or the name where there is no namespace."""
        return object_key(self.namespace or "", self.name)


class _ObjectView(msgspec.Struct, gc=False):
    metadata: ObjectMeta


class _BookmarkMeta(msgspec.Struct, gc=False):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class _BookmarkView(msgspec.Struct, gc=False):
    metadata: _BookmarkMeta


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """One page of a list."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class Garbage(ServerError):  # noqa: N818 - named after the condition, as its kin are
    """Something that is no list, no event or no object at all; nothing can be said about what it was meant to be."""


_event = msgspec.json.Decoder(WatchEvent).decode
_object = msgspec.json.Decoder(_ObjectView).decode
_bookmark = msgspec.json.Decoder(_BookmarkView).decode
_page = msgspec.json.Decoder(ListPage).decode
_status = msgspec.json.Decoder(StatusView).decode

T = TypeVar("T")


def decode_event(line: bytes) -> WatchEvent:
    """One line of a watch; an ERROR event becomes the exception that it describes."""
    try:
        event = _event(line)  # the hot path: one call
    except REFUSALS:
        event = _decoded(_event, line, "the watch holds a line that is not an event")
    if event.type != ERROR:
        return event
    view = _decoded(_status, event.object, "the watch holds an error that is none")
    raise error_from_status(view, view.code or 500)


def decode_page(body: bytes) -> ListPage:
    """One page of a list."""
    return _decoded(_page, body, "the list is not what was asked for")


def metadata_of(raw: msgspec.Raw) -> ObjectMeta:
    """The metadata of an object of a list or watch; nothing else of it is looked at."""
    return _decoded(_object, raw, "that is not an object").metadata


def initial_events_end(raw: msgspec.Raw) -> str | None:
    """Of a bookmark: the version of the streaming list that it completes; None if it completes none."""
    meta = _decoded(_bookmark, raw, "the watch holds a bookmark that is none").metadata
    return meta.resource_version if (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true" else None


def _decoded(decode: Callable[[bytes | msgspec.Raw], T], data: bytes | msgspec.Raw, complaint: str) -> T:
    try:
        try:
            return decode(data)
        except RecursionError:
            return decode(flattened(bytes(data), JSON_DEPTH))
    except REFUSALS as failure:
        raise Garbage(f"{complaint}: {failure}") from failure


class LineSplitter:
    """Cuts a stream into lines, however it is cut into pieces. A line may be many megabytes long.

    What follows the last line break is kept for the next piece, in parts, so that a long line costs linear time.
    """

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """Take the next piece; give the lines that it completes, without their line breaks."""
        if b"\n" not in piece:
            self._parts.append(piece)
            return []
        lines = piece.split(b"\n")
        if self._parts:
            lines[0] = b"".join([*self._parts, lines[0]])
        rest = lines.pop()
        self._parts = [rest] if rest else []
        return lines
