"""The inbox of a shadow: what waits is bounded, and nothing is lost."""

from __future__ import annotations

from moorage.app.inbox import Inbox


def test_the_oldest_are_taken_uncompared_where_too_many_wait() -> None:
    """All are taken, in the order of their arrival."""
    taken: list[tuple[int, bool]] = []
    inbox: Inbox[int] = Inbox(lambda item, _, compares: taken.append((item, compares)), lambda _: 1, most=3)
    for item in range(5):
        inbox.put(item)
        assert len(inbox) <= 3
    assert taken == [(0, False), (1, False)]
    while inbox:
        inbox.take()
    assert taken[2:] == [(2, True), (3, True), (4, True)]


def test_what_is_left_at_the_end_may_be_taken_uncompared() -> None:
    """So that it is counted rather than forgotten."""
    taken: list[tuple[str, bool]] = []
    inbox: Inbox[str] = Inbox(lambda item, _, compares: taken.append((item, compares)), len)
    inbox.put("a")
    inbox.put("b")
    inbox.take()
    inbox.take(compares=False)
    assert taken == [("a", True), ("b", False)]


def test_large_items_are_bounded_by_their_bytes() -> None:
    """One may always wait, however large it is."""
    taken: list[tuple[str, bool]] = []
    inbox: Inbox[str] = Inbox(lambda item, _, compares: taken.append((item, compares)), len, most_bytes=10)
    for item in ("aaaa", "bbbb", "c" * 50, "dd"):
        inbox.put(item)
    assert [item for item, _ in taken] == ["aaaa", "bbbb", "c" * 50]
    assert len(inbox) == 1
