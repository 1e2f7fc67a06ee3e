"""Times in texts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from moorage.core.times import coming_s, deadline_s, minute_text, time_s, time_text


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose zone is not UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-9")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("1970-01-02T00:00:00Z", 86400.0, id="UTC"),
        pytest.param("1970-01-02T01:00:00+01:00", 86400.0, id="offset"),
        pytest.param("1970-01-02T00:00:00", 86400.0, id="no offset"),
        pytest.param("1970-01-02T00:00:00.500000Z", 86400.5, id="micro time"),
        pytest.param("soon", None, id="no time"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="none"),
    ],
)
@pytest.mark.usefixtures("far_away")
def test_a_time_is_the_same_wherever_it_is_read(text: str | None, want: float | None) -> None:
    """The machine's zone does not matter."""
    assert time_s(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2026-01-01T14:05:00.9Z", "2026-01-01T14:05:00Z", id="whole-seconds"),
        pytest.param("0001-01-01T00:00:05Z", "0001-01-01T00:00:05Z", id="four-digits"),
        pytest.param("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", id="before-the-first-year"),
        pytest.param("9999-12-31T23:00:00-14:00", "9999-12-31T00:00:00Z", id="after-the-last-year"),
    ],
)
def test_a_time_that_can_be_read_can_be_written(text: str, want: str) -> None:
    """Four digits for any year; of what has no year in UTC the nearest."""
    at_s = time_s(text)
    assert at_s is not None
    assert time_text(at_s) == want


@pytest.mark.parametrize(
    ("start", "seconds", "want"),
    [
        pytest.param("2026-01-01T14:00:00Z", 300, "2026-01-01T14:05:00Z", id="known"),
        pytest.param("2026-01-01T14:00:00Z", -1, "2026-01-01T14:00:00Z", id="negative"),
        pytest.param("2026-01-01T14:00:00Z", None, None, id="no-deadline"),
        pytest.param(None, 300, None, id="not-started"),
        pytest.param("2026-01-01T14:00:00Z", 2**63 - 1, None, id="after-the-last-year"),
        pytest.param("0001-01-01T00:00:00+14:00", 0, None, id="before-the-first-year"),
    ],
)
def test_a_deadline_is_a_time_that_can_be_written(start: str | None, seconds: int | None, want: str | None) -> None:
    """Else there is none."""
    found = deadline_s(time_s(start), seconds)
    assert (None if found is None else time_text(found)) == want


def test_a_time_that_has_passed_does_not_come() -> None:
    """Nor one that is not known."""
    assert [coming_s(at_s, 5.0) for at_s in (None, 4.0, 5.0, 6.0)] == [None, None, 5.0, 6.0]


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(86400.0, "00:00", id="midnight"),
        pytest.param(51000.0, "14:10", id="a full minute"),
        pytest.param(50940.5, "14:10", id="within a minute"),
        pytest.param(86399.0, "00:00", id="the last minute of a day"),
        pytest.param(float("inf"), "00:00", id="never"),
    ],
)
@pytest.mark.usefixtures("far_away")
def test_the_time_of_day_is_not_too_early(seconds: float, want: str) -> None:
    assert minute_text(seconds) == want
