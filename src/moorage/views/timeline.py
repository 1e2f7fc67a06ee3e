"""The latest happenings, newest last: a bounded list of entries with increasing numbers."""

from __future__ import annotations

from collections import deque
from typing import Any

from moorage.views.words import POD, WORDS, Happening

KEPT = 2000


class Timeline:
    """The latest happenings that a dashboard shows."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Happening]] = deque(maxlen=KEPT)
        self.last = 0
        """The number of the newest entry."""

    def add(self, *happenings: Happening) -> None:
        """Add what happened, if it has a chip."""
        for happening in happenings:
            if WORDS[happening.what].chip:
                self.last += 1
                self._kept.append((self.last, happening))

    def since(self, number: int, most: int) -> list[dict[str, Any]]:
        """At most `most` entries after this number, newest first."""
        found: list[dict[str, Any]] = []
        for entry, each in reversed(self._kept):
            if entry <= number or len(found) >= most:
                break
            document = {"n": entry, "t": round(each.at_s, 3), "what": WORDS[each.what].chip, "subject": each.subject}
            found.append({**document, "text": each.note, "pod": each.kind == POD})
        return found
