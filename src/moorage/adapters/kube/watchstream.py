"""The bytes of lists and watches: lines of any length, envelopes, and the few fields that following a resource needs.

Objects themselves stay raw JSON here; what they mean is for whoever receives them.
"""

from __future__ import annotations

import msgspec

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
    namespace: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class ObjectView(msgspec.Struct, gc=False):
    """What following a resource reads of an object."""

    metadata: ObjectMeta


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_token: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """One page of a list."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


decode_event = msgspec.json.Decoder(WatchEvent).decode
decode_object = msgspec.json.Decoder(ObjectView).decode
decode_page = msgspec.json.Decoder(ListPage).decode


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
