"""Selectors of devices: CEL expressions as DeviceClasses and requests of claims have them.

`compile_selector` gives a `DeviceSelector` once per expression; its `answer` is asked about a `SelectableDevice`, made
once per device. Names, messages and costs are those of k8s.io/dynamic-resource-allocation.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import TypeAlias

from moorage.cel import types as ty
from moorage.cel.environment import MOST_COST, Environment, Evaluating, Evaluation, Expression
from moorage.cel.errors import ExpressionError
from moorage.cel.values import MISSING, CelError, DefaultMap, Foreign, Map, Optional, Value, type_name
from moorage.core import celformats, celquantity, celsemver
from moorage.core.celquantity import quantity_value
from moorage.core.celsemver import SemverError, parse_semver
from moorage.core.devices import Device, DeviceCapacity, Version
from moorage.core.values import dataclass

_DEVICE = ty.struct("kubernetes.DRADevice")
_ENVIRONMENT = Environment(
    variables={"device": _DEVICE},
    fields={
        _DEVICE.name: {
            "driver": ty.STRING,
            "allowMultipleAllocations": ty.BOOL,
            "attributes": ty.map_of(ty.STRING, ty.map_of(ty.STRING, ty.DYN)),
            "capacity": ty.map_of(ty.STRING, ty.map_of(ty.STRING, celquantity.CelQuantity.type)),
        }
    },
    libraries=(celquantity.LIBRARY, celsemver.LIBRARY, celformats.LIBRARY),
)
_NO_DOMAIN = Map({})
_LONGEST_MESSAGE = 20_000
"""Every mistake is printed with its line; an expression that is one line of mistakes would fill megabytes."""
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional"
    " fields"
)


@dataclass(frozen=True, slots=True)
class CompileError:
    """An expression that is no selector; the message has every mistake with its place."""

    message: str


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """A selector cannot say whether a device matches; the message is cel-go's."""

    message: str
    cost: int = 0
    effort: int = field(default=0, compare=False)
    """As of an `Evaluation`."""


class SelectableDevice:
    """A device as selectors see it: made once, asked about often.

    Attributes are texts, ints, bools, versions, or lists of one of them; capacities are the texts of quantities. A name
    without a domain belongs to the driver. What cannot be read makes every selector fail, as in Kubernetes.
    """

    __slots__ = ("error", "variables")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, object],
        capacity: Mapping[str, str],
        allow_multiple_allocations: bool = False,
    ) -> None:
        self.error = ""
        device = {
            "driver": driver,
            "allowMultipleAllocations": allow_multiple_allocations,
            "attributes": self._by_domain(driver, attributes, capacities=False),
            "capacity": self._by_domain(driver, capacity, capacities=True),
        }
        self.variables: dict[str, Value] = {"device": Map(device)}

    def _by_domain(self, driver: str, named: Mapping[str, object], capacities: bool) -> DefaultMap:
        found: dict[str, Map] = {}
        for name, given in named.items():
            domain, slash, bare = name.partition("/")
            if not slash:
                domain, bare = driver, name
            value = quantity_value(str(given)) if capacities else _attribute(given)
            if isinstance(value, CelError):
                self.error = self.error or f"attribute {name}: {value.message}"
            found.setdefault(domain, Map({})).entries[bare] = value
        return DefaultMap(found, _NO_DOMAIN)


def _attribute(given: object) -> Value:
    if isinstance(given, str | int):
        return given
    if isinstance(given, Version):
        return _version(given.text)
    if not isinstance(given, list | tuple):
        return CelError("unsupported attribute value")
    values = [_attribute(each) for each in given]
    return next((each for each in values if isinstance(each, CelError)), values)


@lru_cache(maxsize=4096)
def _version(text: str) -> Value:
    try:
        return parse_semver(text)
    except SemverError as error:
        return CelError(f"parse semantic version: {error}")


@dataclass(frozen=True, slots=True)
class SelectorAnswer:
    """Whether a device matches, and what it cost to find out."""

    matches: bool
    cost: int
    effort: int = field(default=0, compare=False)
    """As of an `Evaluation`."""


_ATTRIBUTES, _CAPACITY = "attributes", "capacity"
_NAMED = 3
"""Paths to single attributes and capacities have a kind, a domain and a name, and may go on inside the value."""
_Name: TypeAlias = tuple[str, str, str, str]
"""Kind, domain, name, and the name with its domain."""


@dataclass(frozen=True, slots=True)
class ReadValues:
    """The single attributes and capacities that one selector reads, or several, and what was said of their values."""

    names: tuple[_Name, ...]
    answers: dict[Hashable, bool] = field(default_factory=dict, compare=False)
    """Whether all of the selectors hold, by `key`; kept by callers."""

    def key(self, driver: str, device: Device) -> Hashable | None:
        """What is read of a device without errors: equal keys, equal answers. None: selectors have to be asked."""
        found: list[object] = [driver, device.shared]
        for kind, domain, name, full in self.names:
            given: Mapping[str, object] = device.attributes if kind == _ATTRIBUTES else device.capacity
            value = given.get(full, MISSING)
            if domain == driver and name in given:
                if value is not MISSING:
                    return None
                value = given[name]
            found += (value.__class__, value.value if isinstance(value, DeviceCapacity) else value)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """A compiled selector."""

    text: str
    _expression: Expression
    reading: ReadValues | None = None
    """None if it reads more of a device than single attributes and capacities."""

    def answer(self, device: SelectableDevice, limit: int = MOST_COST) -> SelectorAnswer | EvaluationError:
        """Whether it selects the device, and what that cost."""
        asking, found = self.begin(device, limit), None
        while found is None:
            found = asking.go_on(sys.maxsize)
        return found

    def begin(self, device: SelectableDevice, limit: int = MOST_COST) -> AskedDevice:
        """Begin to ask about a device, piece by piece."""
        return AskedDevice(self._expression.begin(device.variables, limit), device.error)


@dataclass(slots=True, eq=False)
class AskedDevice:
    """A selector that is being asked about a device."""

    _evaluating: Evaluating
    _error: str

    @property
    def effort(self) -> int:
        """What it has taken so far, as of an `Evaluation`."""
        return self._evaluating.effort

    def go_on(self, effort: int) -> SelectorAnswer | EvaluationError | None:
        """Ask for about so long; None if that is not enough."""
        if self._error:
            return EvaluationError(self._error)
        outcome = self._evaluating.go_on(effort)
        return None if outcome is None else _answer(outcome)


def _answer(outcome: Evaluation) -> SelectorAnswer | EvaluationError:
    value = outcome.value
    if isinstance(value, CelError):
        return EvaluationError(value.message, outcome.cost, outcome.effort)
    name = type_name(value)
    while isinstance(value, Optional) and value.present:
        value = value.value
    if not isinstance(value, bool):
        text = f"CEL result of type {name} could not be converted to bool: {_no_bool(value)}"
        return EvaluationError(text, outcome.cost, outcome.effort)
    return SelectorAnswer(value, outcome.cost, outcome.effort)


_NO_BOOL = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
}


def _no_bool(value: Value) -> str:
    """Why a value is no bool, in the words of its type."""
    if isinstance(value, Optional):
        return "optional.none() dereference"
    name = value.go_name if isinstance(value, Foreign) else type_name(value)
    return _NO_BOOL.get(name) or f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"


@lru_cache(maxsize=512)
def compile_selector(expression: str) -> DeviceSelector | CompileError:
    """The selector that an expression is; kept, so that it is compiled once."""
    try:
        compiled = _ENVIRONMENT.compile(expression)
    except ExpressionError as error:
        return CompileError(str(error)[:_LONGEST_MESSAGE])
    if compiled.type not in (ty.BOOL, ty.DYN):
        return CompileError(f"must evaluate to bool or the unknown type, not {compiled.type}")
    names = _names(compiled)
    return DeviceSelector(expression, compiled, None if names is None else ReadValues(names))


def _names(expression: Expression) -> tuple[_Name, ...] | None:
    paths = [path for path in expression.reads["device"] if not path or path[0] in (_ATTRIBUTES, _CAPACITY)]
    if any(len(path) < _NAMED for path in paths):
        return None
    named = {path[:_NAMED] for path in paths}
    return tuple((kind, domain, name, f"{domain}/{name}") for kind, domain, name in sorted(named))


_ALWAYS_READABLE = frozenset({str, int, bool})


def is_readable(device: Device) -> bool:
    """Whether selectors can be asked about a device; otherwise all of them fail."""
    for value in device.attributes.values():
        if value.__class__ not in _ALWAYS_READABLE and isinstance(_attribute(value), CelError):
            return False
    for each in device.capacity.values():  # noqa: SIM110 - a generator takes longer than all of this
        if isinstance(quantity_value(each.value), CelError):
            return False
    return True


def hinted(message: str) -> str:
    """The message of an evaluation as kube-scheduler prints it: with a hint where a key is missing."""
    return message + _HINT if "no such key:" in message else message
