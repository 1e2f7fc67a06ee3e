"""A disagreement made small: objects and fields are taken away for as long as it persists."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

from tests.parity.questions import Object

Persists = Callable[[list[Object]], bool]
"""Whether the two sides still disagree on these objects, of which the pod is the last."""
Path = tuple[str | int, ...]
_KEPT = frozenset({"apiVersion", "kind", "metadata", "name", "namespace", "nodeName", "schedulerName", "topologyKey"})
"""Fields without which an object is not one, or would mean something else altogether."""


class Shrinker:
    """Shrinks one disagreement, with so many questions at most."""

    def __init__(self, persists: Persists, budget: int) -> None:
        self._persists = persists
        self._budget = budget

    def shrink(self, objects: Sequence[Object]) -> list[Object]:
        """The smallest set of objects that was found."""
        found = self._fewer_objects([*objects])
        return self._fewer_fields(found)

    def _still(self, objects: list[Object]) -> bool:
        if self._budget <= 0:
            return False
        self._budget -= 1
        return self._persists(objects)

    def _fewer_objects(self, objects: list[Object]) -> list[Object]:
        """Take away halves, then quarters, and so on down to single objects."""
        size = max(1, (len(objects) - 1) // 2)
        while True:
            start = 0
            while start < len(objects) - 1:
                fewer = [*objects[:start], *objects[min(start + size, len(objects) - 1) :]]
                if self._still(fewer):
                    objects = fewer
                else:
                    start += size
            if size == 1:
                return objects
            size //= 2

    def _fewer_fields(self, objects: list[Object]) -> list[Object]:
        """Take away fields of every object, the pod's first, the large ones before what is inside them."""
        for index in reversed(range(len(objects))):
            tried: set[Path] = set()
            while (path := next((p for p in _paths(objects[index]) if p not in tried), None)) is not None:
                tried.add(path)
                fewer = [*objects]
                fewer[index] = _without(objects[index], path)
                if self._still(fewer):
                    objects = fewer
                    tried = {each for each in tried if each[: len(path) - 1] != path[:-1]}
        return objects


def _paths(obj: Object) -> Iterator[Path]:
    """Every field that may be left out, outer ones first."""
    level: list[tuple[Path, object]] = [((), obj)]
    while level:
        deeper: list[tuple[Path, object]] = []
        for path, value in level:
            items: list[tuple[str | int, object]] = []
            if isinstance(value, dict):
                items = [(key, each) for key, each in value.items() if key not in _KEPT or isinstance(each, dict)]
            elif isinstance(value, list):
                items = [*enumerate(value)]
            for key, each in items:
                if key not in _KEPT:
                    yield (*path, key)
                deeper.append(((*path, key), each))
        level = deeper


def _without(obj: Object, path: Path) -> Object:
    made = copy.deepcopy(obj)
    inside: object = made
    for step in path[:-1]:
        inside = inside[step]  # type: ignore[index]
    del inside[path[-1]]  # type: ignore[attr-defined]
    return made
