"""Times as Kubernetes writes them, RFC 3339."""

from __future__ import annotations

from datetime import UTC, datetime


def time_s(text: str | None) -> float | None:
    """Seconds since 1970; None for what is no time. One without an offset is UTC, wherever it is read."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
