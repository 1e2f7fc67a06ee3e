"""Times in texts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from moorage.core.times import time_s


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
