"""`format`: texts with %s, %d, %f, %e, %b, %o, %x, %X and %%."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from moorage.cel.times import duration_text, timestamp_text
from moorage.cel.values import CelError, Duration, Map, Timestamp, TypeValue, Uint, Value, shown_float, type_name
from moorage.cel.work import spend

MOST_PRECISION = 1000
_DEFAULT_PRECISION = 6
_MOST_NESTED = 100
_CLAUSE = re.compile(r"%(?:\.([0-9]{1,9}))?(.?)", re.DOTALL | re.ASCII)


class _FormatError(Exception):
    """What cannot be printed."""


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


def _clause(match: re.Match[str], args: list[Value], used: int) -> str:
    precision = _DEFAULT_PRECISION if match[1] is None else int(match[1])
    if precision > MOST_PRECISION:
        raise _FormatError(f"precision {precision} exceeds maximum allowed ({MOST_PRECISION})")
    if not match[2]:
        raise _FormatError("unexpected end of string")
    if used >= len(args):
        raise _FormatError(f"index {used} out of range")
    print_it = _CLAUSES.get(match[2])
    if print_it is None:
        raise _FormatError(f'could not parse formatting clause: unrecognized formatting clause "{match[2]}"')
    try:
        return print_it(args[used], precision)
    except _FormatError as error:
        raise _FormatError(f"error during formatting: {error}") from None


def _refuse(word: str, allowed: str, value: Value) -> _FormatError:
    return _FormatError(f"{word} clause can only be used on {allowed}, was given {type_name(value)}")


def _string(value: Value, _: int = 0, depth: int = 0) -> str:
    if isinstance(value, list | Map):
        return _container(value, depth)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    kind = value.__class__
    printed = _STRINGS.get(kind)
    if printed is None:
        allowed = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        raise _refuse("string", allowed, value)
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
    raise _refuse("decimal", "integers", value)


def _real(word: str, code: str) -> Callable[[Value, int], str]:
    def print_it(value: Value, precision: int) -> str:
        number = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value) if _text(value) else value
        if number.__class__ is not float:
            raise _refuse(word, "doubles", value)
        if not math.isfinite(number):
            return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
        return f"{number:.{precision}{code}}"

    return print_it


def _text(value: Value) -> bool:
    return value.__class__ is str


def _based(word: str, allowed: str, code: str) -> Callable[[Value, int], str]:
    def print_it(value: Value, _: int) -> str:
        if value.__class__ in (int, Uint):
            return f"{int(value):{code}}"
        if code == "b" and value.__class__ is bool:
            return "1" if value else "0"
        if code in "xX" and isinstance(value, str | bytes):
            data = value.encode() if isinstance(value, str) else value
            return data.hex() if code == "x" else data.hex().upper()
        raise _refuse(word, allowed, value)

    return print_it


_CLAUSES: dict[str, Callable[[Value, int], str]] = {
    "s": _string,
    "d": _decimal,
    "f": _real("fixed-point", "f"),
    "e": _real("scientific", "e"),
    "b": _based("binary", "integers and bools", "b"),
    "o": _based("octal", "integers", "o"),
    "x": _based("hex", "integers, byte buffers, and strings", "x"),
    "X": _based("hex", "integers, byte buffers, and strings", "X"),
}
