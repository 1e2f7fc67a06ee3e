"""Reading the annotations that rules look at: which of several keys counts, and numbers in a strict grammar."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MIN_HOSTS = ("moorage.dev/min-hosts", "controller-spread-scheduler/min-hosts")
"""On a controller: on how many nodes its pods must stand. The first key that is there counts."""
ON_DEMAND_BASE = ("moorage.dev/on-demand-base",)
"""On a controller: how many of its pods stay on on-demand nodes."""
SPOT = "moorage.dev/spot"
"""On a pod, as annotation or label: `never` keeps it off spot nodes."""

_DIGITS = re.compile(r"[0-9]{1,10}", re.ASCII)
_LARGEST = 2**31 - 1
_SHOWN_CHARACTERS = 60


class Count(NamedTuple):
    """A number that an annotation gives."""

    key: str
    text: str
    """What it says, for people: cut where it is long."""
    value: int | None
    """None where the text is no number, or one that is out of bounds."""


def parse_count(text: str, least: int) -> int | None:
    """A whole number from `least` to 2147483647 in ASCII digits; None for anything else."""
    number = int(text) if _DIGITS.fullmatch(text) else -1
    return number if least <= number <= _LARGEST else None


def annotated_count(annotations: Mapping[str, str], keys: Sequence[str], least: int) -> Count | None:
    """What the first of these keys that is there says, None if none is; numbers from `least` to 2147483647."""
    for key in keys:
        text = annotations.get(key)
        if text is not None:
            shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
            return Count(key, shown, parse_count(text, least))
    return None
