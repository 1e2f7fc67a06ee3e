"""Durations and timestamps, in nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from moorage.cel.functions import Function, method, overload
from moorage.cel.values import INT_MAX, INT_MIN, NO_OVERLOAD, CelError, Duration, Timestamp, Value

SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = -62_135_596_800 * SECOND, 253_402_300_799 * SECOND + SECOND - 1
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_ZONE = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{2})", re.ASCII)


def _duration(nanos: int) -> Value:
    return Duration(nanos) if INT_MIN <= nanos <= INT_MAX else CelError("integer overflow")


def _timestamp(nanos: int) -> Value:
    return Timestamp(nanos) if _EARLIEST <= nanos <= _LATEST else CelError("timestamp overflow")


def added(a: Value, b: Value) -> Value:
    """`+` of times."""
    if isinstance(a, Duration) and isinstance(b, Duration):
        return _duration(a.nanos + b.nanos)
    if isinstance(a, Duration | Timestamp) and isinstance(b, Duration | Timestamp) and a.__class__ is not b.__class__:
        return _timestamp(a.nanos + b.nanos)
    return NO_OVERLOAD


def subtracted(a: Value, b: Value) -> Value:
    """`-` of times."""
    if a.__class__ is b.__class__ and isinstance(a, Duration | Timestamp):
        return _duration(a.nanos - b.nanos)
    if isinstance(a, Timestamp) and isinstance(b, Duration):
        return _timestamp(a.nanos - b.nanos)
    return NO_OVERLOAD


def negated(value: Value) -> Value:
    """`-` of a duration."""
    return _duration(-value.nanos) if isinstance(value, Duration) else NO_OVERLOAD


def parse_duration(text: str) -> Duration | None:
    """A duration as Go writes it (`1h30m`); None if it is none."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    if not rest or len(rest) > 200:
        return None
    nanos, at = 0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            return None
        unit, fraction = _UNITS[part[3]], part[2] or ""
        nanos += int(part[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        at = part.end()
    return Duration(sign * nanos) if INT_MIN <= sign * nanos <= INT_MAX else None


def parse_timestamp(text: str) -> Timestamp | None:
    """A timestamp of RFC 3339; None if it is none."""
    match = _TIME.fullmatch(text)
    if match is None or len(text) > 100:
        return None
    try:
        moment = datetime(*(int(each) for each in match.groups()[:6]), tzinfo=UTC)  # type: ignore[misc, arg-type]
    except ValueError:
        return None
    shift = _shift(match[8]) if match[8] != "Z" else 0
    if shift is None:
        return None
    fraction = int((match[7] or "0")[:9].ljust(9, "0"))
    nanos = (moment - _EPOCH) // timedelta(seconds=1) * SECOND + fraction - shift * SECOND
    return Timestamp(nanos) if _EARLIEST <= nanos <= _LATEST else None


def _shift(zone: str) -> int | None:
    """The seconds of an offset such as +02:00."""
    match = _ZONE.fullmatch(zone)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59:
        return None
    seconds = int(match[2]) * 3600 + int(match[3]) * 60
    return -seconds if match[1] == "-" else seconds


def duration_text(value: Duration) -> str:
    """In seconds."""
    whole, rest = divmod(abs(value.nanos), SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if value.nanos < 0 else ''}{whole}{fraction}s"


def timestamp_text(value: Timestamp) -> str:
    """As RFC 3339 writes it, UTC."""
    moment, rest = _calendar(value)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def _calendar(value: Timestamp) -> tuple[datetime, int]:
    seconds, rest = divmod(value.nanos, SECOND)
    return _EPOCH + timedelta(seconds=seconds), rest


def _converted(parse: Callable[[str], Value | None], name: str) -> Callable[[str], Value]:
    def convert(text: str) -> Value:
        found = parse(text)
        return CelError(f"type conversion error from 'string' to '{name}'") if found is None else found

    return convert


def _in_zone(read: Callable[[datetime, int], int]) -> Callable[..., Value]:
    """A part of a timestamp, UTC or in a zone."""

    def part(value: Timestamp, zone: str = "UTC") -> Value:
        shift = 0 if zone in ("", "UTC", "Etc/UTC", "GMT") else _shift(zone)
        if shift is None:
            return CelError(f"unknown time zone {zone}")
        shifted = Timestamp(value.nanos + shift * SECOND)
        if not _EARLIEST <= shifted.nanos <= _LATEST:
            return CelError("timestamp overflow")
        return read(*_calendar(shifted))

    return part


_PARTS: dict[str, tuple[str, Callable[[datetime, int], int]]] = {
    "getFullYear": ("year", lambda moment, _: moment.year),
    "getMonth": ("month", lambda moment, _: moment.month - 1),
    "getDayOfYear": ("day_of_year", lambda moment, _: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": ("day_of_month", lambda moment, _: moment.day - 1),
    "getDate": ("day_of_month_1_based", lambda moment, _: moment.day),
    "getDayOfWeek": ("day_of_week", lambda moment, _: moment.isoweekday() % 7),
    "getHours": ("hours", lambda moment, _: moment.hour),
    "getMinutes": ("minutes", lambda moment, _: moment.minute),
    "getSeconds": ("seconds", lambda moment, _: moment.second),
    "getMilliseconds": ("milliseconds", lambda _, rest: rest // 10**6),
}
_SPANS = {"getHours": 3600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND, "getMilliseconds": 10**6}


def _span(unit: int) -> Callable[[Duration], int]:
    return lambda value: abs(value.nanos) // unit * (-1 if value.nanos < 0 else 1)


def _accessor(name: str) -> Function:
    word, read = _PARTS[name]
    zone = f"timestamp_to_{word}_tz" if name == "getSeconds" else f"timestamp_to_{word}_with_tz"
    found = [
        method(f"timestamp_to_{word}", "timestamp -> int", _in_zone(read)),
        method(zone, "timestamp, string -> int", _in_zone(read)),
    ]
    if name in _SPANS:
        found.append(method(f"duration_to_{word}", "duration -> int", _span(_SPANS[name])))
    return Function(name, tuple(found))


FUNCTIONS = (
    *(_accessor(name) for name in _PARTS),
    Function(
        "duration",
        (
            overload("duration_to_duration", "duration -> duration", lambda value: value),
            overload(
                "string_to_duration",
                "string -> duration",
                _converted(parse_duration, "google.protobuf.Duration"),
            ),
        ),
    ),
    Function(
        "timestamp",
        (
            overload("timestamp_to_timestamp", "timestamp -> timestamp", lambda value: value),
            overload("int64_to_timestamp", "int -> timestamp", lambda value: _timestamp(value * SECOND)),
            overload(
                "string_to_timestamp",
                "string -> timestamp",
                _converted(parse_timestamp, "google.protobuf.Timestamp"),
            ),
        ),
    ),
)
