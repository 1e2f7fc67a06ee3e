from __future__ import annotations

import pytest

from moorage.core.durations import parse_duration

DURATIONS = {
    "15s": 15,
    "1m30s": 90,
    "1.5h": 5400,
    "300ms": 0.3,
    "-2s": -2,
    "+2s": 2,
    "0": 0,
    ".5s": 0.5,
    "1.s": 1,
    "1h0.25m": 3615,
    "7\N{MICRO SIGN}s": 7e-6,
}


@pytest.mark.parametrize(("text", "want_s"), DURATIONS.items(), ids=DURATIONS.keys())
def test_durations(text: str, want_s: float) -> None:
    """Go's grammar of durations, in seconds."""
    assert parse_duration(text) == pytest.approx(want_s)


@pytest.mark.parametrize(
    "text", ["", "s", "15", ".s", "1 s", "1S", "1d", "１s", "1s ", "--1s", "1e3s", "9999999h", "1" * 99 + "s"]
)
def test_texts_that_are_no_durations(text: str) -> None:
    """Anything else is refused, full-width digits and overflow included."""
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)
