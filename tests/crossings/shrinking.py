"""Makes a world smaller while it still breaches the same rule: fewer deeds, objects, pods and words in each.

Every step leaves something out and plays the world again; what is still a breach is kept. Worlds are plain values, so
nothing has to be known about what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.crossings.stage import Stage
from tests.crossings.world import World

MOST_PLAYS = 600
RAISED = "raised"
"""The word for an exception, whatever it is."""


def breached(world: World) -> set[str]:
    """The rules that a world breaches."""
    try:
        return {each.rule for each in Stage(world).play().breaches}
    except Exception as error:  # noqa: BLE001 - whatever the program raises is found
        return {f"{RAISED} {type(error).__name__}"}


class Shrinker:
    """Shrinks one world for one rule."""

    def __init__(self, rule: str, judge: Callable[[World], set[str]] = breached, most: int = MOST_PLAYS) -> None:
        self._rule, self._judge, self._left = rule, judge, most

    def shrink(self, world: World) -> World:
        """The smallest world that was found."""
        before = None
        while before != world and self._left > 0:
            before = world
            world = self._fewer(world, "crashes")
            world = self._fewer(world, "script")
            world = self._fewer(world, "objects")
            world = self._plainer(world)
        return replace(world, capabilities=[], met=[])

    def _still(self, world: World) -> bool:
        self._left -= 1
        return self._left >= 0 and self._rule in self._judge(world)

    def _fewer(self, world: World, name: str) -> World:
        """Without parts of a list: large ones first, then each."""
        size = max(len(getattr(world, name)) // 2, 1)
        while size:
            at = 0
            while at < len(getattr(world, name)):
                kept = getattr(world, name)
                smaller = _with(world, name, [*kept[:at], *kept[at + size :]])
                if self._still(smaller):
                    world = smaller
                else:
                    at += size
            size //= 2
        return world

    def _plainer(self, world: World) -> World:
        """Without words in its objects, and with smaller numbers of pods."""
        for name in ("script", "objects", "configuration", "terms"):
            for path in list(_paths(getattr(world, name))):
                for change in (_without, _smaller):
                    changed = change(getattr(world, name), path)
                    if changed is None:
                        continue
                    plainer = _with(world, name, changed)
                    if self._still(plainer):
                        world = plainer
                        break
        return world


def _with(world: World, name: str, value: Any) -> World:
    changed: dict[str, Any] = {name: value}
    return replace(world, **changed)


_KEPT = {
    *(
        "at",
        "do",
        "kind",
        "apiVersion",
        "name",
        "object",
        "metadata",
        "spec",
        "template",
        "containers",
        "status",
        "uid",
    ),
    *("allocatable", "profiles", "plugins", "schedulerName"),
}
"""Words without which a world means nothing."""
_WHOLE = {"ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "StorageClass", "PersistentVolume"}
"""Kinds that are left as they are, or left out."""


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value, the outer ones first."""
    if isinstance(value, dict) and value.get("kind") in _WHOLE:
        return
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(places):
        if key not in _KEPT and not (isinstance(key, int) and path[-1:] in ((), ("profiles",), ("containers",))):
            yield (*path, key)
        yield from _paths(each, (*path, key))


def _parent(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    there = isinstance(value, dict) and path[-1] in value
    return value if there or (isinstance(value, list) and path[-1] < len(value)) else None


def _without(value: Any, path: tuple[Any, ...]) -> Any:
    changed = deepcopy(value)
    parent = _parent(changed, path)
    if parent is None:
        return None
    del parent[path[-1]]
    return changed


def _smaller(value: Any, path: tuple[Any, ...]) -> Any:
    """A number of pods or cores by one less."""
    changed = deepcopy(value)
    parent = _parent(changed, path)
    if parent is None or not isinstance(parent[path[-1]], int) or parent[path[-1]] < 2:
        return None
    parent[path[-1]] -= 1
    return changed
