"""A FrozenDict is a value."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.frozen import EMPTY, FrozenDict

mappings = st.dictionaries(st.text(max_size=3), st.text(max_size=3))


@given(mappings)
def test_equal_by_content(content: dict[str, str]) -> None:
    """Equal content means equal values and hashes, whatever the order of insertion."""
    backwards = FrozenDict(reversed(list(content.items())))
    assert FrozenDict(content) == backwards
    assert hash(FrozenDict(content)) == hash(backwards)
    assert FrozenDict(content) == content


@given(mappings)
def test_survives_copies(content: dict[str, str]) -> None:
    """Copies are equal and still frozen."""
    frozen = FrozenDict(content)
    for again in (copy.deepcopy(frozen), copy.copy(frozen)):
        assert again == frozen
        assert isinstance(again, FrozenDict)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.__setitem__("a", "2"),
        lambda d: d.__delitem__("a"),
        lambda d: d.update(b="2"),
        lambda d: d.pop("a"),
        lambda d: d.popitem(),
        lambda d: d.clear(),
        lambda d: d.setdefault("b", "2"),
        lambda d: d.__ior__({"b": "2"}),
    ],
    ids=["set", "delete", "update", "pop", "popitem", "clear", "setdefault", "ior"],
)
def test_refuses_changes(change: Callable[[FrozenDict[str, str]], object]) -> None:
    """Every way to change a dictionary is refused, and nothing changes."""
    frozen = FrozenDict({"a": "1"})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(frozen)
    assert frozen == {"a": "1"}


def test_the_empty_one() -> None:
    """The shared empty value is empty and equal to any other empty one."""
    assert FrozenDict() == EMPTY
    assert len(EMPTY) == 0
