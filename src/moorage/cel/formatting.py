"""`format`: texts with %s, %d, %f, %e, %b, %o, %x, %X and %%."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from moorage.cel.times import duration_text, timestamp_text
from moorage.cel.types import Type
from moorage.cel.values import CelError, Duration, Map, Timestamp, TypeValue, Uint, Value, shown_float, type_name
from moorage.cel.work import spend

_DEFAULT_PRECISION = 6
_MOST_NESTED = 100
_CLAUSE = re.compile(r"%(?:\.([0-9]{1,9}))?(.?)", re.DOTALL | re.ASCII)


class _FormatError(Exception):
    """What cannot be printed."""


_ALLOWED = {
    "s": frozenset(
        {"bool", "bytes", "double", "duration", "int", "list", "map", "null", "string", "timestamp", "type", "uint"}
    ),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "o": frozenset({"int", "uint"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
}


def format_problem(text: str, types: list[Type]) -> tuple[int, str] | None:
    """What is wrong with a format and the types of its arguments: which argument, or -1, and why."""
    used = 0
    for match in _CLAUSE.finditer(text):
        if match[2] == "%" and match[1] is None:
            continue
        try:
            _known_clause(match, len(types), used)
        except _FormatError as error:
            return -1, str(error)
        given = types[used]
        if given.kind.value not in (*_ALLOWED[match[2]], "dyn"):
            word, allowed = _WORDS[match[2]]
            return used, f"error during formatting: {word} clause can only be used on {allowed}, was given {given.name}"
        used += 1
    if used < len(types):
        return -1, f"too many arguments supplied to string.format (expected {used}, got {len(types)})"
    return None


def formatted(text: str, args: list[Value]) -> Value:
    """The text with its clauses replaced."""
    pieces: list[str] = []
    at = used = 0
    try:
        for match in _CLAUSE.finditer(text):
            pieces.append(text[at : match.start()])
            at = match.end()
            if match[2] == "%" and match[1] is None:
                pieces.append("%")
                continue
            pieces.append(_clause(match, args, used))
            used += 1
            spend(len(pieces[-1]))
    except _FormatError as error:
        return CelError(str(error))
    return "".join([*pieces, text[at:]])


def _known_clause(match: re.Match[str], args: int, used: int) -> None:
    if not match[2]:
        raise _FormatError("unexpected end of string")
    if used >= args:
        raise _FormatError(f"index {used} out of range")
    if match[2] not in _WORDS:
        raise _FormatError(f'could not parse formatting clause: unrecognized formatting clause "{match[2]}"')


def _clause(match: re.Match[str], args: list[Value], used: int) -> str:
    _known_clause(match, len(args), used)
    precision = _DEFAULT_PRECISION if match[1] is None else int(match[1])
    spend(precision)
    try:
        return _CLAUSES[match[2]](args[used], precision)
    except _FormatError as error:
        raise _FormatError(f"error during formatting: {error}") from None


_HEX = ("hex", "integers, byte buffers, and strings")
_WORDS = {
    "s": ("string", "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"),
    "d": ("decimal", "integers"),
    "f": ("fixed-point", "doubles"),
    "e": ("scientific", "doubles"),
    "b": ("binary", "integers and bools"),
    "o": ("octal", "integers"),
    "x": _HEX,
    "X": _HEX,
}


def _refuse(clause: str, value: Value) -> _FormatError:
    word, allowed = _WORDS[clause]
    return _FormatError(f"{word} clause can only be used on {allowed}, was given {type_name(value)}")


def _string(value: Value, _: int = 0, depth: int = 0) -> str:
    if isinstance(value, list | Map):
        return _container(value, depth)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    kind = value.__class__
    printed = _STRINGS.get(kind)
    if printed is None:
        raise _refuse("s", value)
    return printed(value)


_STRINGS: dict[type, Callable[[Value], str]] = {
    str: str,
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: str,
    float: shown_float,
    type(None): lambda _: "null",
    Duration: duration_text,
    Timestamp: timestamp_text,
    TypeValue: lambda value: str(value.name),
}


def _container(value: Value, depth: int) -> str:
    if depth > _MOST_NESTED:
        raise _FormatError("value is nested too deeply")
    spend(len(value))
    if isinstance(value, list):
        return f"[{', '.join(_inside(each, depth) for each in value)}]"
    for key in value:
        if key.__class__ not in (str, bool, int, Uint):
            raise _FormatError(f"no formatting function for map key of type {type_name(key)}")
    pairs = sorted((_inside(key, depth), _inside(each, depth)) for key, each in value.items())
    return "{" + ", ".join(f"{key}:{each}" for key, each in pairs) + "}"


def _inside(value: Value, depth: int) -> str:
    """A value in a list or map, as one would write it in an expression."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bytes):
        return f"b{_quoted(value.decode(errors='replace'))}"
    if isinstance(value, Duration):
        return f'duration("{duration_text(value)}")'
    if isinstance(value, Timestamp):
        return f'timestamp("{timestamp_text(value)}")'
    if value.__class__ is float:
        return f"{value:.6f}" if math.isfinite(value) else f'"{shown_float(value)}"'
    if value.__class__ not in _STRINGS and not isinstance(value, list | Map):
        raise _FormatError(f"no formatting function for {type_name(value)}")
    return _string(value, 0, depth + 1)


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def _quoted(text: str) -> str:
    """As Go's %q prints it."""
    pieces: list[str] = []
    for char in text:
        if char in '"\\':
            pieces.append("\\" + char)
        elif char in _ESCAPES:
            pieces.append(_ESCAPES[char])
        elif char.isprintable():
            pieces.append(char)
        else:
            code = ord(char)
            pieces.append(f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return f'"{"".join(pieces)}"'


def _decimal(value: Value, _: int) -> str:
    if value.__class__ in (int, Uint):
        return str(int(value))
    raise _refuse("d", value)


def _real(code: str) -> Callable[[Value, int], str]:
    def print_it(value: Value, precision: int) -> str:
        number = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value) if _text(value) else value
        if number.__class__ is not float:
            raise _refuse(code, value)
        if not math.isfinite(number):
            return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
        return f"{number:.{precision}{code}}"

    return print_it


def _text(value: Value) -> bool:
    return value.__class__ is str


def _based(code: str) -> Callable[[Value, int], str]:
    def print_it(value: Value, _: int) -> str:
        if value.__class__ in (int, Uint):
            return f"{int(value):{code}}"
        if code == "b" and value.__class__ is bool:
            return "1" if value else "0"
        if code in "xX" and isinstance(value, str | bytes):
            data = value.encode() if isinstance(value, str) else value
            return data.hex() if code == "x" else data.hex().upper()
        raise _refuse(code, value)

    return print_it


_CLAUSES: dict[str, Callable[[Value, int], str]] = {
    "s": _string,
    "d": _decimal,
    "f": _real("f"),
    "e": _real("e"),
    "b": _based("b"),
    "o": _based("o"),
    "x": _based("x"),
    "X": _based("X"),
}
