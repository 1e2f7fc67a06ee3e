"""Times as Kubernetes writes them, RFC 3339, and times that may never come."""

from __future__ import annotations

from datetime import UTC, datetime

_LAST_S = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Times after this one cannot be written."""


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
    """The time as Kubernetes writes it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def deadline_s(start_s: float | None, seconds: int | None) -> float | None:
    """When something that started then has to have ended; None if it has not started, or never has to."""
    if start_s is None or seconds is None or seconds > _LAST_S - start_s:
        return None
    return start_s + max(seconds, 0)


def earlier(one_s: float | None, other_s: float | None) -> float | None:
    """The earlier of two times; None never comes."""
    if one_s is None or other_s is None:
        return other_s if one_s is None else one_s
    return min(one_s, other_s)
