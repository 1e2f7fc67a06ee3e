"""Objects around pods and nodes are read whole or not at all: half a selector would select something else.

One that is beyond a limit (see `core.limits`) is left out like any other that cannot be read: a log line names object,
field and limit, and `moorage_objects_skipped_total` counts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from moorage.core.limits import Cutter
from moorage.wire.errors import MISSING, FieldError

T = TypeVar("T")
Entries = TypeVar("Entries", bound="Sequence[object] | Mapping[str, object] | None")


def whole(entries: Entries, limit: int, path: str) -> Entries:
    """The very entries; `FieldError` if there are more than that."""
    if entries is not None and len(entries) > limit:
        raise _refused(path, len(entries), limit)
    return entries


class Whole(Cutter):
    """Refuses the object where others cut it: if its selector, or node terms, have more parts than `most`."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def cut(self, entries: Sequence[T] | None, limit: int, field: str) -> Sequence[T]:
        """All entries of a list; of null none."""
        return whole(entries, limit, field) or ()

    def part(self, size: int, field: str) -> bool:
        """True: a part of a selector with so many values counts."""
        self._parts += 1 + size
        if self._parts > self._most:
            raise _refused(f"{field} with what is before it", self._parts, self._most)
        return True


def _refused(path: str, found: int, limit: int) -> FieldError:
    return FieldError(
        path, MISSING, f"has {found} entries", f"an object with more than {limit} is not read; write fewer"
    )
