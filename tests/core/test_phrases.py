"""Names and numbers as parts of sentences."""

from __future__ import annotations

import pytest

from moorage.core.phrases import counted, joined, listed, room_made


@pytest.mark.parametrize(
    ("names", "whole", "short"),
    [
        ((), "", ""),
        (("a",), "a", "a"),
        (("a", "b"), "a and b", "a and b"),
        (("a", "b", "c"), "a, b and c", "a, b and c"),
        (("a", "b", "c", "d", "e"), "a, b, c, d and e", "a, b, c and 2 more"),
    ],
)
def test_names_in_a_sentence(names: tuple[str, ...], whole: str, short: str) -> None:
    """The last one follows an `and`; long lists are cut where that is asked for."""
    assert (joined(names), listed(names)) == (whole, short)


@pytest.mark.parametrize(("number", "want"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_numbers_of_things(number: int, want: str) -> None:
    """One of them is singular."""
    assert counted(number, "pod") == want


@pytest.mark.parametrize(
    ("names", "want"),
    [((), ""), (("a",), " once a has made room"), (("a", "b"), " once a and b have made room")],
    ids=["nobody", "one", "two"],
)
def test_who_makes_room(names: tuple[str, ...], want: str) -> None:
    """One has, several have."""
    assert room_made(names) == want
