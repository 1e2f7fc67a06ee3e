"""Workloads become `GangOwner` by the rows of a table: one reader for all kinds, those of a configuration included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import msgspec

from moorage.core.frozen import FrozenDict
from moorage.core.gangowners import GANG_ANNOTATION, NONE_LATER, GangOwner
from moorage.core.topologyasks import SubGroup
from moorage.wire.errors import REFUSALS, FieldError, explain
from moorage.wire.fieldpaths import FLAG, LIST, NODE, NUMBER, TEXT, TEXTS, PathEntry, Paths
from moorage.wire.metadata import MetadataWire, controller_of, epoch_s
from moorage.wire.topology import ask_of
from moorage.wire.workloadrows import CountedPods, WorkloadRow

DEFAULT_NAMESPACE = "default"
_MOST = 1_000_000_000
_DIGITS = 9
_KEPT = 1024
"""Factors are those of the table and of configurations; more than these are split again."""


class _Role(NamedTuple):
    """Pods of one role."""

    name: str
    pods: int
    least: int | None
    after: bool
    """Whether they are made only when others run."""


@cache
def _compiled(row: WorkloadRow) -> tuple[Paths, msgspec.json.Decoder[Any]]:
    """Made when the first object is read: most clusters have few of the kinds."""
    paths = Paths(row.kind, _leaves(row))
    return paths, msgspec.json.Decoder(paths.struct)


def read_owner(row: WorkloadRow, data: bytes) -> GangOwner:
    """The owner that this JSON of the row's kind describes; raises `WireError`."""
    paths, decoder = _compiled(row)
    try:
        return _read(row, paths, decoder.decode(data))
    except (*REFUSALS, FieldError) as error:
        raise explain(row.kind, data, error) from None


def _leaves(row: WorkloadRow) -> dict[str, Any]:
    """The paths that a row names, and their types."""
    found: dict[str, Any] = {}
    for members in row.members:
        found[members.at] = NODE
        counted = [path for factor in (*members.count, *row.led_count) for path in _alternatives(factor)]
        for path in (*counted, *filter(None, (members.least,))):
            found[f"{members.at}.{path}"] = NUMBER
        for path, leaf in ((members.name, TEXT), (members.off, FLAG), (members.after, LIST)):
            if path:
                found[f"{members.at}.{path}"] = leaf
        if members.annotations:
            found[f"{members.at}.{members.annotations}"] = TEXTS
    found |= dict.fromkeys((*row.minimum, *row.done), NUMBER)
    found |= dict.fromkeys(row.each_if, TEXT)
    found |= {path: TEXT for path, _ in row.later_if.values()}
    found |= {path: TEXT for path in row.led_if if not path.startswith("@")}
    return found


@lru_cache(_KEPT)
def _alternatives(factor: str) -> tuple[str, ...]:
    return tuple(factor.replace("&", "|").split("|"))


def _read(row: WorkloadRow, paths: Paths, wire: Any) -> GangOwner:
    metadata: MetadataWire = wire.metadata
    annotations = metadata.annotations or {}
    least, led = 0, False
    subgroups: tuple[SubGroup, ...] = ()
    later = NONE_LATER
    if _is_gang(row, annotations):
        led = _is_led(row, paths, wire, annotations)
        each = any(paths.one(wire, path) == value for path, value in row.each_if.items())
        roles = list(_roles(row, paths, wire, led))
        later = _later(roles, each)
        least = _least(row, paths, wire, annotations, [role for role in roles if role.name not in later])
        subgroups = _subgroups(row, roles)
    leader = row.leader if led else None
    return GangOwner(
        kind=row.id,
        namespace=metadata.namespace or DEFAULT_NAMESPACE,
        name=metadata.name,
        uid=metadata.uid or "",
        owner=controller_of(metadata.owner_references),
        least=max(least - 1, 1) if leader else max(least, 1 if later else 0),
        subgroups=subgroups,
        role_label=row.role_label,
        rank_labels=row.rank_labels,
        later=later,
        split_label=row.split_label,
        leader=leader,
        topology=ask_of(annotations) if annotations else None,
        done=min(sum([entry.value for path in row.done for entry in paths.all(wire, path)]), _MOST),
        created_s=epoch_s(metadata.creation_timestamp) or 0.0,
    )


def _later(roles: list[_Role], each: bool) -> FrozenDict[str, int]:
    """The roles that are gangs of their own; `each`: all of them are."""
    found = {role.name: role.pods for role in roles if role.pods and (role.after or each)}
    return FrozenDict(found) if found else NONE_LATER


def _is_gang(row: WorkloadRow, annotations: Mapping[str, str]) -> bool:
    said = annotations.get(GANG_ANNOTATION)
    return said == "true" if row.only_asked else said != "false"


def _is_led(row: WorkloadRow, paths: Paths, wire: Any, annotations: Mapping[str, str]) -> bool:
    """Whether the leaders get their nodes first."""
    for path, value in row.led_if.items():
        if not path.startswith("@"):
            if paths.one(wire, path) == value:
                return True
        elif _has(annotations, path[1:], row.led_unless):
            return True
    return False


def _has(annotations: Mapping[str, str], key: str, unless: str) -> bool:
    return key in annotations and (not unless or unless not in annotations)


def _roles(row: WorkloadRow, paths: Paths, wire: Any, led: bool) -> Iterator[_Role]:
    for members in row.members:
        for entry in paths.all(wire, members.at):
            if members.off and paths.one(entry.value, members.off):
                continue
            name = _role_name(paths, members, entry)
            count = members.count
            if row.led_count and (led or _entry_is_led(row, paths, members, entry)):
                count = row.led_count
            number = 0 if _is_later(row, paths, wire, name) else _product(paths, entry, count)
            least = paths.one(entry.value, members.least) if members.least else None
            yield _Role(name, number, least, bool(members.after and paths.one(entry.value, members.after)))


def _role_name(paths: Paths, members: CountedPods, entry: PathEntry) -> str:
    named = paths.one(entry.value, members.name) if members.name else None
    return named or members.role or entry.key.lower()


def _entry_is_led(row: WorkloadRow, paths: Paths, members: CountedPods, entry: PathEntry) -> bool:
    annotations: Mapping[str, str] = (members.annotations and paths.one(entry.value, members.annotations)) or {}
    if not annotations:
        return False
    return any(_has(annotations, path[1:], row.led_unless) for path in row.led_if if path.startswith("@"))


def _is_later(row: WorkloadRow, paths: Paths, wire: Any, name: str) -> bool:
    path, value = row.later_if.get(name, ("", ""))
    return bool(path) and paths.one(wire, path) == value


def _product(paths: Paths, entry: PathEntry, factors: tuple[str, ...]) -> int:
    product = 1
    for factor in factors:
        numbers = [paths.one(entry.value, path) for path in _alternatives(factor)]
        if len(numbers) > 1:
            numbers = [max(number, 0) for number in numbers if number is not None]
            numbers = [min(numbers) if "&" in factor else next(filter(None, numbers), 0)] if numbers else [None]
        if numbers[0] is not None:
            product *= max(numbers[0], 0)
    return min(product, _MOST)


def _least(row: WorkloadRow, paths: Paths, wire: Any, annotations: Mapping[str, str], roles: list[_Role]) -> int:
    """How many pods must be placed together: what the object says, but no more than it makes."""
    total = min(sum(role.pods for role in roles), _MOST)
    text = annotations.get(row.minimum_annotation, "") if row.minimum_annotation else ""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    for path in row.minimum:
        given = paths.one(wire, path)
        if given is not None and given > 0:
            return min(given, total) if row.members else int(given)
    return total


def _subgroups(row: WorkloadRow, roles: list[_Role]) -> tuple[SubGroup, ...]:
    """How many of each role at least, where not all pods are needed."""
    if row.elastic:
        return tuple([SubGroup(role.name, least=role.pods) for role in roles if role.pods and len(roles) > 1])
    return tuple([SubGroup(role.name, least=role.least) for role in roles if role.least])
