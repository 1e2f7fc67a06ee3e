"""Optional values."""

from __future__ import annotations

from moorage.cel.functions import Function, Library, method, overload
from moorage.cel.values import NO_OVERLOAD, NONE, CelError, Duration, Foreign, Optional, Timestamp, Value, shown


def _zero(value: Value) -> bool:
    if isinstance(value, Duration | Timestamp):
        return isinstance(value, Duration) and value.nanos == 0
    return not isinstance(value, Foreign | Optional) and not value


def _value(value: Value) -> Value:
    if not isinstance(value, Optional):
        return NO_OVERLOAD
    return value.value if value.present else CelError("optional.none() dereference")


def _unwrapped(values: list[Value]) -> Value:
    for each in values:
        if not isinstance(each, Optional):
            return CelError(f"value {shown(each)} is not optional")
    return [each.value for each in values if each.present]


def _has_value(value: Value) -> Value:
    return value.present if isinstance(value, Optional) else NO_OVERLOAD


def _at(values: list[Value], index: int) -> Optional:
    return Optional(True, values[index]) if values else NONE


LIBRARY = Library(
    (
        Function("optional.of", (overload("optional_of", "V -> optional(V)", lambda value: Optional(True, value)),)),
        Function("optional.none", (overload("optional_none", "-> optional(V)", lambda: NONE),)),
        Function(
            "optional.ofNonZeroValue",
            (
                overload(
                    "optional_ofNonZeroValue",
                    "V -> optional(V)",
                    lambda value: NONE if _zero(value) else Optional(True, value),
                ),
            ),
        ),
        Function("optional.unwrap", (overload("optional_unwrap", "list(optional(V)) -> list(V)", _unwrapped),)),
        Function("unwrapOpt", (method("optional_unwrapOpt", "list(optional(V)) -> list(V)", _unwrapped),)),
        Function("hasValue", (method("optional_hasValue", "optional(V) -> bool", _has_value),)),
        Function("value", (method("optional_value", "optional(V) -> V", _value),)),
        Function("or", (method("optional_or_optional", "optional(V), optional(V) -> optional(V)"),)),
        Function("orValue", (method("optional_orValue_value", "optional(V), V -> V"),)),
        Function("first", (method("list_first", "list(V) -> optional(V)", lambda values: _at(values, 0)),)),
        Function("last", (method("list_last", "list(V) -> optional(V)", lambda values: _at(values, -1)),)),
    )
)
