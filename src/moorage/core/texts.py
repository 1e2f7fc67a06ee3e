"""What was made of texts that tenants write, kept by bytes: many small texts, or a few large ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Readings(Generic[K, V]):
    """Remembers answers of `read`, a pure function; what has not been asked for the longest is forgotten first."""

    def __init__(self, read: Callable[[K], V], cost: Callable[[K, V], int], most_bytes: int) -> None:
        self._read = read
        self._cost = cost
        self._most_bytes = most_bytes
        self._known: dict[K, tuple[V, int]] = {}
        self.kept_bytes = 0
        """What is kept, by the word of `cost`; never more than allowed."""

    def __call__(self, text: K) -> V:
        """What `read` says of it."""
        found = self._known.pop(text, None)
        if found is None:
            value = self._read(text)
            found = value, self._cost(text, value)
            if found[1] > self._most_bytes:
                return value
            self.kept_bytes += found[1]
        self._known[text] = found
        while self.kept_bytes > self._most_bytes:
            oldest = next(iter(self._known))
            self.kept_bytes -= self._known.pop(oldest)[1]
        return found[0]
