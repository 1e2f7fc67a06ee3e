"""What is kept of a trial, as the text of an annotation of the scheduler's Lease.

Whoever may write the Lease can write one, so its text is bounded before it is parsed, and it says nothing unless it has
our form.
"""

from __future__ import annotations

import math

import msgspec

from moorage.core.trials import (
    MOST_CLASSES,
    MOST_MESSAGE,
    MOST_NAME,
    SideCounts,
    TrialEnd,
    TrialPhase,
    TrialRecord,
    TrialVerdict,
)
from moorage.wire.errors import REFUSALS

TRIAL_ANNOTATION = "moorage.dev/trial"
MOST_CHARS = 16_384
"""Twice as long as the longest that we write."""
_MOST_DIGEST = 36
"""As long as a UUID is."""
_LARGEST = 1 << 53


class _Side(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    placed: int = 0
    pending: int = 0
    evictions: int = 0
    failed_binds: int = 0
    waits: tuple[tuple[int, int], ...] = ()


class _Record(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    digest: str
    phase: TrialPhase
    ran_seconds: float = 0.0
    end: TrialEnd | None = None
    verdict: TrialVerdict = TrialVerdict.UNKNOWN
    message: str = ""
    control: _Side = _Side()
    trial: _Side = _Side()
    began_seconds: float = 0.0


_decode = msgspec.json.Decoder(_Record).decode


def trial_text(record: TrialRecord) -> str:
    """The annotation's text."""
    control, trial = (
        _Side(each.placed, each.pending, each.evictions, each.failed_binds, each.waits)
        for each in (record.control, record.trial)
    )
    wire = _Record(
        record.name,
        record.digest,
        record.phase,
        round(record.ran_s, 3),
        record.end,
        record.verdict,
        record.message[:MOST_MESSAGE],
        control,
        trial,
        round(record.began_s, 3),
    )
    return msgspec.json.encode(wire).decode()


def trial_record(text: str) -> TrialRecord | None:
    """What such a text says; None if we cannot have written it."""
    if len(text) > MOST_CHARS:
        return None
    try:
        said = _decode(text)
    except (*REFUSALS, ValueError):
        return None
    if len(said.name) > MOST_NAME or len(said.digest) > _MOST_DIGEST:
        return None
    sides = (said.control, said.trial)
    times = (said.ran_seconds, said.began_seconds)
    if not all(map(math.isfinite, times)) or not all(map(_is_genuine, sides)):
        return None
    control, trial = (
        SideCounts(each.placed, each.evictions, each.failed_binds, each.waits, each.pending) for each in sides
    )
    return TrialRecord(
        said.name,
        said.digest,
        said.phase,
        max(said.ran_seconds, 0.0),
        said.end,
        said.verdict,
        said.message[:MOST_MESSAGE],
        control,
        trial,
        said.began_seconds,
    )


def _is_genuine(side: _Side) -> bool:
    numbers = (side.placed, side.pending, side.evictions, side.failed_binds, *(number for _, number in side.waits))
    classes = [place for place, _ in side.waits]
    known = all(0 <= place <= MOST_CLASSES for place in classes) and len(set(classes)) == len(classes)
    return known and all(0 <= number < _LARGEST for number in numbers)
