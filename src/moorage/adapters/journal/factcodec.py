"""Facts of an engine as plain values and back, led by their declared types.

Nothing in an image names a class: what a value becomes follows from where it stands. Values with an identity (entries
of the queue, pods on their way) are named by number. Every value is checked against its type before anything is made of
it, so what comes out is an engine's or `Unreadable`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from moorage.adapters.journal.records import Restorer, Scribe
from moorage.adapters.journal.shapes import check_of, hints_of
from moorage.adapters.journal.values import Unreadable, unpacked
from moorage.core.evictions import Evictions
from moorage.core.pods import Pod
from moorage.engine.bindingcycles import BindingCycle
from moorage.engine.engine import Engine
from moorage.engine.facts import ENTITIES, FACTS
from moorage.framework.classes import LatePoints
from moorage.framework.cycle import Cycle
from moorage.framework.profiles import Profile
from moorage.framework.runner import Runner

_UNIONS = (typing.Union, types.UnionType)
_ROWS: Mapping[Any, Callable[[Any], Any]] = {list: list, set: set, frozenset: frozenset, deque: deque, tuple: tuple}
_NOTHING = type(None)
_CORE = "moorage.core."


def parts_of(declared: Any) -> tuple[Any, bool]:
    """A type without its `| None`, and whether it had one."""
    if typing.get_origin(declared) in _UNIONS:
        inner = [each for each in typing.get_args(declared) if each is not _NOTHING]
        if len(inner) == 1:
            return inner[0], True
    return declared, False


def memo_types(runner: Runner) -> dict[str, Any]:
    """What the plugins of a profile keep in `cycle.memo` while a pod waits."""
    return {key: kind for each in runner.plugins.all for key, kind in each.plugin.keeps.items()}


def tidy(part: Any) -> None:
    """Tidy a part of an engine, and then those that are parts of it."""
    if hasattr(part, "tidy"):
        part.tidy()
    for name, declared in FACTS[type(part)].items():
        own = getattr(part, name)
        if own is not None and parts_of(declared)[0] in FACTS:
            tidy(own)


class FactWriter:
    """Packs facts; entities that are met are written by `entities`."""

    def __init__(self, scribe: Scribe, engine: Engine) -> None:
        self._scribe = scribe
        self._runners = {id(runner): name for name, runner in engine.all_runners.items()}
        self._numbers: dict[int, int] = {}
        self._entities: list[Any] = []

    @property
    def kinds(self) -> bytes:
        """The kinds of all entities, by number."""
        return bytes(ENTITIES.index(type(entity)) for entity in self._entities)

    def runner(self, runner: Runner) -> str:
        """The name of a runner."""
        return self._runners.get(id(runner), runner.profile.scheduler_name)

    def entities(self) -> Iterator[list[Any]]:
        """The fields of all entities, by number; also of those that are met on the way."""
        number = 0
        while number < len(self._entities):
            entity = self._entities[number]
            if isinstance(entity, BindingCycle):
                yield self._binding_cycle(entity)
            else:
                yield [self.pack(getattr(entity, name), kind) for name, kind in hints_of(type(entity)).items()]
            number += 1

    def part(self, part: Any) -> list[Any]:
        """The facts of a part of the engine, which is tidy."""
        return self.listed(part, FACTS[type(part)])

    def listed(self, part: Any, listed: Mapping[str, Any]) -> list[Any]:
        """These attributes of anything."""
        return [self.pack(getattr(part, name), kind) for name, kind in listed.items()]

    def pack(self, value: Any, declared: Any) -> Any:
        """A value of a declared type."""
        kind, optional = parts_of(declared)
        if value is None and (optional or kind is None or kind is _NOTHING):
            return None
        if kind in ENTITIES:
            return self._number(value)
        special = _PACKED.get(kind)
        if special is not None:
            return special(self, value)
        if kind in FACTS:
            return self.part(value)
        if _is_enum(kind):
            return value.value
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is tuple and inner[-1] is not ...:
            return [self.pack(each, one) for each, one in zip(value, inner, strict=True)]
        if origin in _ROWS:
            return [self.pack(each, inner[0]) for each in value]
        if origin is dict:
            return [[self.pack(key, inner[0]), self.pack(each, inner[1])] for key, each in value.items()]
        if _is_struct(kind):
            return [self.pack(getattr(value, name), each) for name, each in hints_of(kind).items()]
        return self._scribe.pack(value)

    def pod(self, pod: Pod) -> Any:
        """A pod, with what it shares by number."""
        return self._scribe.pod(pod)

    def _number(self, entity: Any) -> int:
        number = self._numbers.get(id(entity))
        if number is None:
            number = self._numbers[id(entity)] = len(self._entities)
            self._entities.append(entity)
        return number

    def _binding_cycle(self, binding: BindingCycle) -> list[Any]:
        """Plugins are named; they are those of the binding's profile."""
        late = [[plugin.name for plugin in plugins] for plugins in binding.late]
        found: list[Any] = []
        for name, kind in hints_of(BindingCycle).items():
            value = getattr(binding, name)
            if name == "late":
                found.append(late)
            elif name == "held_by":
                found.append(None if value is None else value.name)
            elif name == "cycle":
                found.append(self._cycle(value, memo_types(binding.runner)))
            else:
                found.append(self.pack(value, kind))
        return found

    def _cycle(self, cycle: Cycle, kept: Mapping[str, Any]) -> list[Any]:
        memo = [[key, self.pack(cycle.memo[key], kind)] for key, kind in kept.items() if key in cycle.memo]
        facts = {name: kind for name, kind in FACTS[Cycle].items() if name != "memo"}
        return [self.pod(cycle.pod), cycle.now, memo, self.listed(cycle, facts)]


class FactReader:
    """Restores facts into an engine that was made of the same configuration and knows the same cluster."""

    def __init__(self, engine: Engine, restorer: Restorer, kinds: bytes) -> None:
        if any(number >= len(ENTITIES) for number in kinds):
            raise Unreadable("an entry of the queue is of an unknown kind")
        self._engine = engine
        self._restorer = restorer
        self._kinds = kinds
        self._entities: dict[int, Any] = {}
        """Those that were told or named so far: more may be announced than there are."""
        self._filled = 0

    @property
    def complete(self) -> bool:
        """Whether all entities are known."""
        return self._filled == len(self._kinds)

    def entity(self, told: Any) -> None:
        """The fields of the next entity."""
        if self.complete:
            raise Unreadable("there are more entries of the queue than were announced")
        entity = self._entity(self._filled)
        self._filled += 1
        hints = hints_of(type(entity))
        fields = dict(zip(hints, told, strict=True))
        values = (
            self._binding_cycle(fields)
            if isinstance(entity, BindingCycle)
            else {name: self.unpack(fields[name], kind) for name, kind in hints.items()}
        )
        for name, value in values.items():
            setattr(entity, name, value)

    def part(self, part: Any, told: Any) -> None:
        """The facts of a part of the engine."""
        self.listed(part, FACTS[type(part)], told)
        if hasattr(part, "tidy"):
            part.tidy()

    def listed(self, part: Any, listed: Mapping[str, Any], told: Any) -> None:
        """These attributes of anything; parts stay the same objects, as others know them."""
        for (name, declared), value in zip(listed.items(), _list(told), strict=True):
            kind, _ = parts_of(declared)
            if kind in FACTS and kind is not Evictions:
                own = getattr(part, name)
                if (own is None) != (value is None):
                    raise Unreadable(f"the engine was made for another configuration: {name}")
                if own is not None:
                    self.part(own, value)
            else:
                setattr(part, name, self.unpack(value, declared))

    def unpack(self, told: Any, declared: Any) -> Any:
        """The value of a declared type."""
        kind, optional = parts_of(declared)
        if told is None and (optional or kind is None or kind is _NOTHING):
            return None
        if kind in ENTITIES:
            return self._known(told, kind)
        special = _UNPACKED.get(kind)
        if special is not None:
            return special(self, told)
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is tuple and inner[-1] is not ...:
            return tuple([self.unpack(each, one) for each, one in zip(_list(told), inner, strict=True)])
        if origin in _ROWS:
            return _ROWS[origin]([self.unpack(each, inner[0]) for each in _list(told)])
        if origin is dict:
            return {self.unpack(key, inner[0]): self.unpack(each, inner[1]) for key, each in map(_list, _list(told))}
        if _is_struct(kind):
            hints = hints_of(kind)
            return kind(*[self.unpack(each, one) for each, one in zip(_list(told), hints.values(), strict=True)])
        value = kind(told) if _is_enum(kind) else unpacked(told)
        if not check_of(kind)(value):
            raise Unreadable(f"a fact is a {type(value).__name__} where it should be {kind}")
        return value

    def pod(self, told: Any) -> Pod:
        """A pod."""
        return self._restorer.pod(told)

    def runner(self, name: Any) -> Runner:
        """The runner of a scheduler name; one that has no profile any more decides nothing, but has its name."""
        if not isinstance(name, str):
            raise Unreadable("a profile has no name")
        known = self._engine.all_runners.get(name)
        return Runner(Profile(name, {}, {}), self._engine.state) if known is None else known

    def evictions(self, told: Any) -> Evictions | None:
        """The state's own; plugins know them once they have had to do with some."""
        return self._engine.state.evictions if told else None

    def _known(self, number: Any, kind: type) -> Any:
        if not isinstance(number, int) or not 0 <= number < len(self._kinds):
            raise Unreadable("an entry of the queue is not there")
        entity = self._entity(number)
        if not isinstance(entity, kind):
            raise Unreadable(f"a {type(entity).__name__} stands for a {kind.__name__}")
        return entity

    def _entity(self, number: int) -> Any:
        entity = self._entities.get(number)
        if entity is None:
            entity = self._entities[number] = object.__new__(ENTITIES[self._kinds[number]])
        return entity

    def _binding_cycle(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        runner = self.runner(fields["runner"])
        plugins = {plugin.name: plugin for each in self._engine.all_runners.values() for plugin in each.plugins.all}
        plugins |= {plugin.name: plugin for plugin in runner.plugins.all}
        late = [[plugins[name] for name in _list(names) if name in plugins] for names in _list(fields["late"])]
        values: dict[str, Any] = {
            "runner": runner,
            "late": LatePoints(*map(tuple, late)),
            "held_by": None if fields["held_by"] is None else plugins[fields["held_by"]],
            "cycle": self._cycle(fields["cycle"], memo_types(runner)),
        }
        rest = {name: kind for name, kind in hints_of(BindingCycle).items() if name not in values}
        return values | {name: self.unpack(fields[name], kind) for name, kind in rest.items()}

    def _cycle(self, told: Any, kept: Mapping[str, Any]) -> Cycle:
        row, now, memo, facts = _list(told)
        if not check_of(float)(now):
            raise Unreadable("the time of an attempt is no number")
        cycle = Cycle(self.pod(row), self._engine.state, now)
        cycle.memo = {key: self.unpack(value, kept[key]) for key, value in map(_list, _list(memo)) if key in kept}
        self.listed(cycle, {name: kind for name, kind in FACTS[Cycle].items() if name != "memo"}, facts)
        return cycle


def _list(told: Any) -> list[Any]:
    if not isinstance(told, list):
        raise Unreadable(f"a {type(told).__name__} stands where several values should")
    return told


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _is_struct(kind: Any) -> bool:
    """Whether a type is written field by field; core values know how to write themselves, and mask what is secret."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return True
    if not dataclasses.is_dataclass(kind):
        return False
    return not (kind.__module__.startswith(_CORE) and kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


_PACKED: Mapping[Any, Callable[[FactWriter, Any], Any]] = {
    Pod: FactWriter.pod,
    Runner: FactWriter.runner,
    Evictions: lambda _, __: True,
}
_UNPACKED: Mapping[Any, Callable[[FactReader, Any], Any]] = {
    Pod: FactReader.pod,
    Runner: FactReader.runner,
    Evictions: FactReader.evictions,
}
