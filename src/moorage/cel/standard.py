"""The standard library: operators, sizes, texts, conversions and types."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from moorage.cel import times
from moorage.cel.closures import not_strictly_false
from moorage.cel.functions import Function, Library, Overload, method, overload
from moorage.cel.patterns import PatternError, matcher
from moorage.cel.values import (
    INT_MAX,
    INT_MIN,
    NO_OVERLOAD,
    NUMBERS,
    UINT_MAX,
    CelError,
    Duration,
    Map,
    MutableList,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    comparable,
    compare,
    equal,
    equals,
    shown_float,
    type_name,
)
from moorage.cel.work import spend

_OVERFLOW = CelError("integer overflow")
_UINT_OVERFLOW = CelError("unsigned integer overflow")


def signed(number: int) -> Value:
    """An int, or an error if it does not fit."""
    return number if INT_MIN <= number <= INT_MAX else _OVERFLOW


def unsigned(number: int) -> Value:
    """A uint, or an error if it does not fit."""
    return Uint(number) if 0 <= number <= UINT_MAX else _UINT_OVERFLOW


# --- arithmetic ---


def _numbers(
    whole: Callable[[int, int], Value], real: Callable[[float, float], Value] | None
) -> Callable[[Value, Value], Value]:
    """An operation on two numbers of the same type."""

    def operate(a: Value, b: Value) -> Value:
        kind = a.__class__
        if kind is not b.__class__:
            return NO_OVERLOAD
        if kind is int or kind is Uint:
            result = whole(int(a), int(b))
            if result.__class__ is CelError:
                return result
            return signed(result) if kind is int else unsigned(result)
        return real(a, b) if kind is float and real else NO_OVERLOAD

    return operate


def _divided(a: int, b: int) -> Value:
    if b == 0:
        return CelError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> Value:
    if b == 0:
        return CelError("modulus by zero")
    if a == INT_MIN and b == -1:
        return _OVERFLOW
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _divided_reals(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)


_sum = _numbers(lambda a, b: a + b, lambda a, b: a + b)
_difference = _numbers(lambda a, b: a - b, lambda a, b: a - b)
_product = _numbers(lambda a, b: a * b, lambda a, b: a * b)
_quotient = _numbers(_divided, _divided_reals)
_modulo = _numbers(_remainder, None)


def add(a: Value, b: Value) -> Value:
    """`+`."""
    kind = a.__class__
    if kind in NUMBERS:
        return _sum(a, b)
    if kind is b.__class__ and kind in (str, bytes):
        spend(len(a) + len(b))
        return a + b
    if kind is MutableList and isinstance(b, list):
        a.extend(b)
        return a
    if isinstance(a, list) and isinstance(b, list):
        spend(len(a) + len(b))
        return [*a, *b]
    return times.added(a, b)


def _subtract(a: Value, b: Value) -> Value:
    return _difference(a, b) if a.__class__ in NUMBERS else times.subtracted(a, b)


def _negate(value: Value) -> Value:
    if value.__class__ is float:
        return -value
    return signed(-value) if value.__class__ is int else times.negated(value)


def _not(value: Value) -> Value:
    return not value if value.__class__ is bool else NO_OVERLOAD


def _of(*kinds: type) -> Callable[[Value], bool]:
    return lambda value: isinstance(value, kinds)


_ADDABLE = _of(int, float, str, bytes, list, Duration, Timestamp)


def _addable(value: Value) -> bool:
    return value.__class__ is not bool and _ADDABLE(value)


def _subtractable(value: Value) -> bool:
    return value.__class__ in NUMBERS or isinstance(value, Duration | Timestamp)


def _number(value: Value) -> bool:
    return value.__class__ in NUMBERS


def _whole(value: Value) -> bool:
    return value.__class__ is int or value.__class__ is Uint


def _negatable(value: Value) -> bool:
    return value.__class__ in (bool, int, float, Duration)


_THREE = ("double", "int", "uint")
_SHORT = {"double": "double", "int": "int64", "uint": "uint64"}


def _arithmetic(word: str, kinds: tuple[str, ...], *more: Overload) -> tuple[Overload, ...]:
    return (*(overload(f"{word}_{_SHORT[kind]}", f"{kind}, {kind} -> {kind}") for kind in kinds), *more)


_ARITHMETIC = (
    Function(
        "_+_",
        (
            overload("add_bytes", "bytes, bytes -> bytes"),
            overload("add_double", "double, double -> double"),
            overload("add_duration_duration", "duration, duration -> duration"),
            overload("add_duration_timestamp", "duration, timestamp -> timestamp"),
            overload("add_timestamp_duration", "timestamp, duration -> timestamp"),
            overload("add_int64", "int, int -> int"),
            overload("add_list", "list(A), list(A) -> list(A)"),
            overload("add_string", "string, string -> string"),
            overload("add_uint64", "uint, uint -> uint"),
        ),
        add,
        _addable,
    ),
    Function(
        "_-_",
        (
            overload("subtract_double", "double, double -> double"),
            overload("subtract_duration_duration", "duration, duration -> duration"),
            overload("subtract_int64", "int, int -> int"),
            overload("subtract_timestamp_duration", "timestamp, duration -> timestamp"),
            overload("subtract_timestamp_timestamp", "timestamp, timestamp -> duration"),
            overload("subtract_uint64", "uint, uint -> uint"),
        ),
        _subtract,
        _subtractable,
    ),
    Function("_*_", _arithmetic("multiply", _THREE), _product, _number),
    Function("_/_", _arithmetic("divide", _THREE), _quotient, _number),
    Function("_%_", _arithmetic("modulo", ("int", "uint")), _modulo, _whole),
    Function(
        "-_",
        (overload("negate_double", "double -> double"), overload("negate_int64", "int -> int")),
        _negate,
        _negatable,
    ),
    Function("!_", (overload("logical_not", "bool -> bool"),), _not),
)

# --- comparison ---


def _ordered(holds: Callable[[int], bool]) -> Callable[[Value, Value], Value]:
    def check(a: Value, b: Value) -> Value:
        order = compare(a, b)
        return order if isinstance(order, CelError) else holds(order)

    return check


_ORDERED = (
    "bool, bool",
    "int, int",
    "int, double",
    "int, uint",
    "uint, uint",
    "uint, double",
    "uint, int",
    "double, double",
    "double, int",
    "double, uint",
    "string, string",
    "bytes, bytes",
    "timestamp, timestamp",
    "duration, duration",
)


def _relation(name: str, word: str, holds: Callable[[int], bool]) -> Function:
    found: list[Overload] = []
    for pair in _ORDERED:
        left, right = (_SHORT.get(each, each) for each in pair.split(", "))
        found.append(overload(f"{word}_{left}" if left == right else f"{word}_{left}_{right}", f"{pair} -> bool"))
    return Function(name, tuple(found), _ordered(holds), comparable)


def _contained(element: Value, container: Value) -> Value:
    if isinstance(container, Map):
        return element in container
    if isinstance(container, list):
        return any(equal(element, each) for each in container)
    return NO_OVERLOAD


_COMPARISON = (
    Function("_==_", (overload("equals", "A, A -> bool"),), equals),
    Function("_!=_", (overload("not_equals", "A, A -> bool"),), lambda a, b: equals(a, b) is not True),
    _relation("_<_", "less", lambda order: order < 0),
    _relation("_<=_", "less_equals", lambda order: order <= 0),
    _relation("_>_", "greater", lambda order: order > 0),
    _relation("_>=_", "greater_equals", lambda order: order >= 0),
    Function(
        "@in", (overload("in_list", "A, list(A) -> bool"), overload("in_map", "A, map(A, B) -> bool")), _contained
    ),
    Function("_&&_", (overload("logical_and", "bool, bool -> bool"),)),
    Function("_||_", (overload("logical_or", "bool, bool -> bool"),)),
    Function("_?_:_", (overload("conditional", "bool, A, A -> A"),)),
    Function("@not_strictly_false", (overload("not_strictly_false", "bool -> bool"),), not_strictly_false),
    Function(
        "_[_]",
        (
            overload("index_list", "list(A), int -> A"),
            overload("index_map", "map(A, B), A -> B"),
            overload("optional_list_index_int", "optional(list(V)), int -> optional(V)"),
            overload("optional_map_index_value", "optional(map(K, V)), K -> optional(V)"),
        ),
    ),
    Function(
        "_[?_]",
        (
            overload("list_optindex_optional_int", "list(V), int -> optional(V)"),
            overload("optional_list_optindex_optional_int", "optional(list(V)), int -> optional(V)"),
            overload("map_optindex_optional_value", "map(K, V), K -> optional(V)"),
            overload("optional_map_optindex_optional_value", "optional(map(K, V)), K -> optional(V)"),
        ),
    ),
)

# --- texts and sizes ---


def _texts(test: Callable[[str, str], Value]) -> Callable[[Value, Value], Value]:
    def check(text: Value, other: Value) -> Value:
        return test(text, other) if text.__class__ is str and other.__class__ is str else NO_OVERLOAD

    return check


def _matches(text: str, pattern: str) -> Value:
    try:
        return matcher(pattern).search(text)
    except PatternError as error:
        return CelError(f"error parsing regexp: {error}")


def _sized(value: Value) -> bool:
    return isinstance(value, str | bytes | list | Map)


_TEXTS = (
    Function(
        "size",
        tuple(
            each
            for kind, name in (("bytes", "bytes"), ("list(A)", "list"), ("map(A, B)", "map"), ("string", "string"))
            for each in (overload(f"size_{name}", f"{kind} -> int"), method(f"{name}_size", f"{kind} -> int"))
        ),
        len,
        _sized,
    ),
    Function(
        "contains",
        (method("contains_string", "string, string -> bool"),),
        _texts(lambda text, part: part in text),
    ),
    Function("startsWith", (method("starts_with_string", "string, string -> bool"),), _texts(str.startswith)),
    Function("endsWith", (method("ends_with_string", "string, string -> bool"),), _texts(str.endswith)),
    Function(
        "matches",
        (overload("matches", "string, string -> bool"), method("matches_string", "string, string -> bool")),
        _texts(_matches),
        _of(str),
    ),
)

# --- conversions ---

_INT = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_UINT = re.compile(r"[0-9]{1,40}", re.ASCII)
_REAL = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII | re.IGNORECASE
)
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
_BOOLS = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)


def _no_conversion(target: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{target}'")


def _text_to_int(text: str) -> Value:
    number = int(text) if _INT.fullmatch(text) else None
    return number if number is not None and INT_MIN <= number <= INT_MAX else _no_conversion("int")


def _text_to_uint(text: str) -> Value:
    number = int(text) if _UINT.fullmatch(text) else None
    return Uint(number) if number is not None and number <= UINT_MAX else _no_conversion("uint")


def _text_to_real(text: str) -> Value:
    number = float(text) if _REAL.fullmatch(text) and len(text) < 800 else None
    if number is None or (math.isinf(number) and "i" not in text.lower()):
        return _no_conversion("double")
    return number


def _text_to_bool(text: str) -> Value:
    return _BOOLS.get(text, _no_conversion("bool"))


def _real_to_int(number: float) -> Value:
    return int(number) if -(2.0**63) < number < 2.0**63 else _OVERFLOW


def _real_to_uint(number: float) -> Value:
    return Uint(int(number)) if -1.0 < number < 2.0**64 and number >= 0 else _UINT_OVERFLOW


def _bytes_to_text(data: bytes) -> Value:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return CelError("invalid UTF-8 in bytes, cannot convert to string")


def _same(value: Value) -> Value:
    return value


_CONVERSIONS = (
    Function(
        "bool",
        (overload("bool_to_bool", "bool -> bool", _same), overload("string_to_bool", "string -> bool", _text_to_bool)),
    ),
    Function(
        "bytes",
        (
            overload("bytes_to_bytes", "bytes -> bytes", _same),
            overload("string_to_bytes", "string -> bytes", str.encode),
        ),
    ),
    Function(
        "double",
        (
            overload("double_to_double", "double -> double", _same),
            overload("int64_to_double", "int -> double", float),
            overload("string_to_double", "string -> double", _text_to_real),
            overload("uint64_to_double", "uint -> double", float),
        ),
    ),
    Function("dyn", (overload("to_dyn", "A -> dyn", _same),)),
    Function(
        "int",
        (
            overload("int64_to_int64", "int -> int", _same),
            overload("double_to_int64", "double -> int", _real_to_int),
            overload("duration_to_int64", "duration -> int", lambda value: value.nanos),
            overload("string_to_int64", "string -> int", _text_to_int),
            overload("timestamp_to_int64", "timestamp -> int", lambda value: value.nanos // times.SECOND),
            overload("uint64_to_int64", "uint -> int", lambda value: signed(int(value))),
        ),
    ),
    Function(
        "string",
        (
            overload("string_to_string", "string -> string", _same),
            overload("bool_to_string", "bool -> string", lambda value: "true" if value else "false"),
            overload("bytes_to_string", "bytes -> string", _bytes_to_text),
            overload("double_to_string", "double -> string", shown_float),
            overload("duration_to_string", "duration -> string", times.duration_text),
            overload("int64_to_string", "int -> string", str),
            overload("timestamp_to_string", "timestamp -> string", times.timestamp_text),
            overload("uint64_to_string", "uint -> string", str),
        ),
    ),
    Function("type", (overload("type", "A -> type(A)", lambda value: TypeValue(type_name(value))),)),
    Function(
        "uint",
        (
            overload("uint64_to_uint64", "uint -> uint", _same),
            overload("double_to_uint64", "double -> uint", _real_to_uint),
            overload("int64_to_uint64", "int -> uint", unsigned),
            overload("string_to_uint64", "string -> uint", _text_to_uint),
        ),
    ),
)

LIBRARY = Library((*_ARITHMETIC, *_COMPARISON, *_TEXTS, *_CONVERSIONS, *times.FUNCTIONS))
