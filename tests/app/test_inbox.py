"""The inbox of a shadow: what waits is bounded, nothing is lost, and what is not compared is said."""

from __future__ import annotations

from structlog.testing import capture_logs

from moorage.app.inbox import Inbox


def test_the_oldest_are_taken_uncompared_where_too_many_wait() -> None:
    """All are taken in the order of their arrival; a warning is logged once until the inbox is empty again."""
    taken: list[tuple[int, bool]] = []
    inbox: Inbox[int] = Inbox(lambda item, _, compares: taken.append((item, compares)), most=3)
    with capture_logs() as lines:
        for item in range(5):
            inbox.put(item)
            assert len(inbox) <= 3
        assert taken == [(0, False), (1, False)]
        while inbox:
            inbox.take()
        assert taken[2:] == [(2, True), (3, True), (4, True)]
        for item in range(5, 9):
            inbox.put(item)
    assert taken[5:] == [(5, False)]
    assert [line["log_level"] for line in lines] == ["warning", "warning"]


def test_what_is_left_at_the_end_may_be_taken_uncompared() -> None:
    """So that it is counted rather than forgotten."""
    taken: list[tuple[str, bool]] = []
    inbox: Inbox[str] = Inbox(lambda item, _, compares: taken.append((item, compares)))
    inbox.put("a")
    inbox.put("b")
    inbox.take()
    inbox.take(compares=False)
    assert taken == [("a", True), ("b", False)]
