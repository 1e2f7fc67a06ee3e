"""What-ifs: changes that are taken back, newest first, unless they are to stay.

Everything that a what-if may touch notes its undo here: pods, nodes, other objects and amounts (`core.state`),
nominations (`core.nominations`), and everything that plugins reserve for a pod in a what-if.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

Step = Callable[[], object]


class Undo:
    """How to take back what changed in the innermost open statement."""

    __slots__ = ("steps", "undoing")

    def __init__(self) -> None:
        self.steps: list[Step] | None = None
        """Oldest first; None without an open statement, and while one is taken back."""
        self.undoing = False
        """Whether one is being taken back."""

    @property
    def truth(self) -> bool:
        """Whether what changes now changes in truth."""
        return self.steps is None and not self.undoing

    def note(self, step: Step) -> None:
        """Something changed that this step takes back; without an open statement it stays as it is."""
        if self.steps is not None:
            self.steps.append(step)


class Statement:
    """Changes that are undone at the end of the `with` block unless `commit` was called. Statements nest."""

    __slots__ = ("_open", "_outer", "_steps", "_undo")

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self._outer = undo.steps
        self._steps: list[Step] = []
        self._open = False

    def __enter__(self) -> Self:
        self._undo.steps = self._steps
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._open:
            self.rollback()

    def commit(self) -> None:
        """Keep the changes; inside an outer statement they become part of it."""
        self._open = False
        self._undo.steps = self._outer
        if self._outer is not None:
            self._outer.extend(self._steps)

    def rollback(self) -> None:
        """Undo the changes, newest first."""
        self._open = False
        self._undo.steps, self._undo.undoing = None, True
        for step in reversed(self._steps):
            step()
        self._undo.steps, self._undo.undoing = self._outer, False
