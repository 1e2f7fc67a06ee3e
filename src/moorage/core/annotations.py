"""Reading the annotations that rules look at: which of several keys counts, and numbers in a strict grammar."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MIN_HOSTS = ("moorage.dev/min-hosts", "controller-spread-scheduler/min-hosts")
"""On a controller: on how many nodes its pods must stand. The first key that is there counts."""
DEFAULT_HOSTS = 2
"""On how many without it."""
ON_DEMAND_BASE = ("moorage.dev/on-demand-base",)
"""On a controller: how many of its pods stay on on-demand nodes."""
SPOT = "moorage.dev/spot"
"""On a pod, as annotation or label: `never` keeps it off spot nodes."""
TERM_ANNOTATION = "moorage.dev/term"
"""On every pod that an elected leader of Moorage's has bound: the Binding has it, and the API server copies it."""

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


def hosts_wanted(annotations: Mapping[str, str], desired: int | None) -> tuple[int, Count | None]:
    """On how many nodes the pods of a controller with these annotations must stand, and what they say about it.

    `desired` is how many pods it wants, None while that is not known.
    """
    said = annotated_count(annotations, MIN_HOSTS, 1)
    hosts = DEFAULT_HOSTS if said is None or said.value is None else said.value
    return hosts if desired is None else min(hosts, desired), said
