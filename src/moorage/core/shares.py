"""A number of places, shared fairly by namespaces.

A namespace may take another place while it has fewer than are left: one that is alone gets half of them, two get a
third each, and usually one is left for the next.
"""

from __future__ import annotations


class Shares:
    """A number of places, and how many of them each namespace has."""

    def __init__(self, places: int) -> None:
        self._left = places
        self._taken_by: dict[str, int] = {}

    def has_room(self, namespace: str) -> bool:
        """Whether a namespace may take another place."""
        return self._taken_by.get(namespace, 0) < self._left

    def take(self, namespace: str) -> None:
        """Take a place."""
        self._left -= 1
        self._taken_by[namespace] = self._taken_by.get(namespace, 0) + 1

    def take_if_any(self, namespace: str) -> None:
        """Take a place if there is room; what has none takes nothing from others."""
        if self.has_room(namespace):
            self.take(namespace)

    def leave(self, namespace: str) -> None:
        """Give a place back."""
        self._left += 1
        number = self._taken_by[namespace] - 1
        if number:
            self._taken_by[namespace] = number
        else:
            del self._taken_by[namespace]
