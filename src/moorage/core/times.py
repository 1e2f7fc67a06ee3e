"""Times as Kubernetes writes them, RFC 3339, and times that may never come."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil

_FIRST_S = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST_S = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Times before the first and after the last cannot be written. Some can be read: those with an offset from UTC."""


def time_s(text: str | None) -> float | None:
    """Seconds since 1970; None for what is no time. One without an offset is UTC, wherever it is read."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def time_text(seconds: float) -> str:
    """The time as Kubernetes writes it, in UTC; of one that cannot be written the nearest that can be."""
    time = datetime.fromtimestamp(min(max(seconds, _FIRST_S), _LAST_S), UTC)
    return time.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def minute_text(seconds: float) -> str:
    """The time of day in UTC, "14:10"; within a minute, its end."""
    minutes = ceil(min(max(seconds, _FIRST_S), _LAST_S) / 60)
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def deadline_s(start_s: float | None, seconds: int | None) -> float | None:
    """When something that started then has to have ended; None if it has not started, or at no time that there is."""
    if start_s is None or seconds is None or start_s < _FIRST_S or seconds > _LAST_S - start_s:
        return None
    return start_s + max(seconds, 0)


def coming_s(at_s: float | None, now_s: float) -> float | None:
    """A time that has not passed yet; None for one that has."""
    return None if at_s is None or at_s < now_s else at_s


def earlier(one_s: float | None, other_s: float | None) -> float | None:
    """The earlier of two times; None never comes."""
    if one_s is None or other_s is None:
        return other_s if one_s is None else one_s
    return min(one_s, other_s)
