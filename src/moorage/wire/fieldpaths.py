"""Paths into objects, compiled to narrow structs: only what a path names is decoded, and of the declared type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from moorage.core.limits import WORKLOAD_ROLES
from moorage.framework.workloadkinds import is_path
from moorage.wire.errors import FieldError
from moorage.wire.metadata import Int32Wire, MetadataWire
from moorage.wire.whole import whole

NUMBER: Any = Int32Wire | None
TEXT: Any = str | None
FLAG: Any = bool | None
LIST: Any = list[msgspec.Raw] | None
TEXTS: Any = dict[str, str] | None
NODE: Any = None
"""Of a path that only leads on, or whose being there is all that matters."""

_LIST, _MAP = "[]", "*"
_KEPT = 1024
"""Paths are those of the table and of configurations; more than these are split again."""


class PathEntry(NamedTuple):
    """A part of an object that a path leads to."""

    value: Any
    key: str
    """In the innermost map on the way; empty if there is none."""


@lru_cache(_KEPT)
def steps_of(path: str) -> tuple[str, ...]:
    """The steps of a path; `FieldError` if it is none."""
    if not is_path(path):
        remedy = "join the names of fields by dots, with [] after a list and * for the keys of a map"
        raise FieldError("", path, "is no path", remedy)
    steps: list[str] = []
    for part in path.split("."):
        name = part.rstrip("[]")
        steps += [name, *([_LIST] * ((len(part) - len(name)) // 2))]
    return tuple(steps)


class Paths:
    """The paths that are read of one kind, each with its type."""

    def __init__(self, kind: str, leaves: Mapping[str, Any]) -> None:
        tree: dict[str, Any] = {}
        for path, leaf in leaves.items():
            at = tree
            for step in steps_of(path):
                at = at.setdefault(step, {})
            if leaf is not NODE:
                at[""] = leaf
        fields = {name: _type_of(branch, kind) for name, branch in tree.items()}
        self.struct = _struct(kind, {"metadata": MetadataWire, **fields}, required="metadata")

    @staticmethod
    def one(root: Any, path: str) -> Any:
        """What stands at a path without lists and maps; None if nothing does."""
        at = root
        for name in _names(path):
            if at is None:
                return None
            at = getattr(at, name, None)
        return at

    @staticmethod
    def all(root: Any, path: str) -> list[PathEntry]:
        """Everything that stands where a path leads to."""
        plain, *steps = _stages(path)
        at = Paths.one(root, plain) if plain else root
        if at is None:
            return []
        entries = [PathEntry(at, "")]
        for step in steps:
            entries = [found for entry in entries for found in _below(entry, step, path)]
            whole(entries, WORKLOAD_ROLES, path)
        return entries


def _below(entry: PathEntry, step: str, path: str) -> Iterable[PathEntry]:
    """What is not there is left out."""
    value, key = entry
    if step == _LIST:
        whole(value, WORKLOAD_ROLES, path)
        return [PathEntry(each, key) for each in value if each is not None]
    if step == _MAP:
        whole(value, WORKLOAD_ROLES, path)
        return [PathEntry(each, name) for name, each in sorted(value.items()) if each is not None]
    found = Paths.one(value, step)
    return () if found is None else (PathEntry(found, key),)


@lru_cache(_KEPT)
def _stages(path: str) -> tuple[str, ...]:
    """A path to its first list or map, which may be empty; then lists, maps and paths in turn."""
    stages = [""]
    for step in steps_of(path):
        if step in (_LIST, _MAP):
            stages.append(step)
        elif stages[-1] in ("", _LIST, _MAP):
            stages += [step] if stages[-1] else ()
            stages[-1] = step
        else:
            stages[-1] += f".{step}"
    return tuple(stages)


@lru_cache(_KEPT)
def _names(path: str) -> tuple[str, ...]:
    """The attributes of a path without lists and maps."""
    return tuple(map(_name, path.split(".")))


@lru_cache(_KEPT)
def _name(step: str) -> str:
    """A field's name as an attribute."""
    return "f_" + step.replace("-", "_")


def _type_of(branch: dict[str, Any], kind: str) -> Any:
    if "" in branch:
        return branch[""]
    if _LIST in branch:
        return list[_type_of(branch[_LIST], kind)] | None  # type: ignore[misc]
    if _MAP in branch:
        return dict[str, _type_of(branch[_MAP], kind)] | None  # type: ignore[misc]
    return _struct(kind, {name: _type_of(below, kind) for name, below in branch.items()}) | None


def _struct(kind: str, fields: Mapping[str, Any], required: str = "") -> Any:
    rename = {(name if name == required else _name(name)): name for name in fields}
    declared: list[Any] = [
        (name, kinds) if name == required else (_name(name), kinds, None) for name, kinds in fields.items()
    ]
    return msgspec.defstruct(f"{kind}Wire", declared, rename=rename, gc=False)
