"""Durations as Go and Kubernetes write them: `15s`, `1m30s`, `1.5h`, `300ms`. The one parser of them."""

from __future__ import annotations

import re

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "\N{GREEK SMALL LETTER MU}s": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_UNITS = "|".join(sorted(_NANOSECONDS, key=len, reverse=True))
_PART = re.compile(rf"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>{_UNITS})", re.ASCII)
_LONGEST_TEXT = 64
_LARGEST_NS = 2**63 - 1


def parse_duration(text: str) -> float:
    """Seconds; `ValueError` with the remedy where the text is not a duration."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    nanoseconds = 0 if unsigned == "0" else _nanoseconds(unsigned)
    if nanoseconds is None or nanoseconds > _LARGEST_NS:
        raise ValueError("not a duration; write numbers with units from h, m, s, ms, us, ns, such as 15s or 1m30s")
    return (-nanoseconds if text.startswith("-") else nanoseconds) / 1e9


def _nanoseconds(text: str) -> int | None:
    """The sum of the parts, None where the text is not made of parts."""
    if not text or len(text) > _LONGEST_TEXT:
        return None
    total = position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or not (part["whole"] or part["fraction"]):
            return None
        unit_ns = _NANOSECONDS[part["unit"]]
        fraction = part["fraction"] or ""
        total += int(part["whole"] or "0") * unit_ns + int(fraction or "0") * unit_ns // 10 ** len(fraction)
        position = part.end()
    return total
