"""The latest happenings, newest last: a bounded list of entries with increasing numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from moorage.engine.lifecycle import Step
from moorage.views.words import POD, WORDS, Happening, step_note

KEPT = 2000


def lived(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The steps of a pod's life, oldest first."""
    return [{"t": round(at_s, 3), "what": state.value, "text": step_note(state, cause)} for at_s, state, cause in steps]


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

    def __len__(self) -> int:
        return len(self._kept)

    def precede(self, happenings: Iterable[Happening]) -> None:
        """Put what happened before the oldest entry in front of it, as far as there is room; it is counted already."""
        for each in reversed([*happenings]):
            if len(self._kept) < KEPT:
                self._kept.appendleft((self.last - len(self._kept), each))

    def since(self, number: int, most: int) -> list[dict[str, Any]]:
        """At most `most` entries after this number, newest first."""
        found: list[dict[str, Any]] = []
        for entry, each in reversed(self._kept):
            if entry <= number or len(found) >= most:
                break
            document = {"n": entry, "t": round(each.at_s, 3), "what": WORDS[each.what].chip, "subject": each.subject}
            found.append({**document, "text": each.note, "pod": each.kind == POD})
        return found

    def of_pod(self, key: str, most: int) -> list[dict[str, Any]]:
        """The latest entries about one pod, oldest first."""
        found = [each for _, each in self._kept if each.kind == POD and each.key == key][-most:]
        return [{"t": round(each.at_s, 3), "what": WORDS[each.what].chip, "text": each.note} for each in found]
