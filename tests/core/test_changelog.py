"""Readers that keep a position learn every row that changed since, or that they are too late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core import changelog
from moorage.core.changelog import ChangeLog


@given(first=st.lists(st.integers(0, 9)), later=st.lists(st.integers(0, 9)))
def test_since_returns_what_was_noted_later(first: list[int], later: list[int]) -> None:
    """Oldest first, repeats included."""
    log = ChangeLog[int]()
    for row in first:
        log.append(row)
    position = log.position
    for row in later:
        log.append(row)
    assert log.since(position) == later
    assert log.since(0) == first + later
    assert log.since(log.position) == []


def test_a_reader_that_never_looked_is_told_so() -> None:
    """Position -1 stands for never."""
    assert ChangeLog().since(-1) is None


def test_old_entries_are_trimmed_and_late_readers_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log stays bounded; who comes too late reads everything anew, who does not misses nothing."""
    monkeypatch.setattr(changelog, "_KEEP", 8)
    log = ChangeLog[int]()
    positions = []
    for row in range(1000):
        positions.append(log.position)
        log.append(row)
        assert len(log._rows) <= 16
        recent = positions[-8:]
        assert log.since(recent[0]) == list(range(recent[0], row + 1))
    assert log.position == 1000
    assert log.since(0) is None
    assert log.since(positions[-1]) == [999]
