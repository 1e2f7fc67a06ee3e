"""Selectors match as Kubernetes' own do."""

from __future__ import annotations

import pytest

from moorage.core.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    parse_label_integer,
    selector_from_labels,
)


@pytest.mark.parametrize(
    ("operator", "values", "value", "want"),
    [
        (Operator.IN, ("a", "b"), "a", True),
        (Operator.IN, ("a", "b"), "c", False),
        (Operator.IN, ("a", "b"), None, False),
        (Operator.IN, ("",), "", True),
        (Operator.NOT_IN, ("a", "b"), "a", False),
        (Operator.NOT_IN, ("a", "b"), "c", True),
        (Operator.NOT_IN, ("a", "b"), None, True),
        (Operator.EXISTS, (), "", True),
        (Operator.EXISTS, (), None, False),
        (Operator.DOES_NOT_EXIST, (), None, True),
        (Operator.DOES_NOT_EXIST, (), "", False),
        (Operator.GT, ("5",), "6", True),
        (Operator.GT, ("5",), "5", False),
        (Operator.GT, ("5",), None, False),
        (Operator.GT, ("-5",), "-4", True),
        (Operator.GT, ("5",), "10", True),
        (Operator.GT, ("x",), "10", False),
        (Operator.GT, ("5",), "many", False),
        (Operator.GT, ("5", "6"), "10", False),
        (Operator.LT, ("5",), "4", True),
        (Operator.LT, ("5",), "5", False),
        (Operator.LT, ("5",), None, False),
        (Operator.LT, ("5",), "1_0", False),
    ],
)
def test_requirement(operator: Operator, values: tuple[str, ...], value: str | None, want: bool) -> None:
    """A requirement judges one label, present or absent."""
    assert Requirement("k", operator, values).matches_value(value) is want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("+7", 7),
        ("-7", -7),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("", None),
        (" 1", None),
        ("1\n", None),
        ("1.0", None),
        ("1_0", None),
        ("１", None),
        ("0x1", None),
    ],
)
def test_label_integers(text: str, want: int | None) -> None:
    """Only 64-bit integers in ASCII digits compare."""
    assert parse_label_integer(text) == want


def test_a_selector_needs_all_requirements() -> None:
    """Requirements are joined by and."""
    selector = Selector((Requirement("a", Operator.IN, ("1",)), Requirement("b", Operator.DOES_NOT_EXIST)))
    assert selector.matches({"a": "1"})
    assert not selector.matches({"a": "1", "b": ""})
    assert not selector.matches({})


@pytest.mark.parametrize("labels", [{}, {"": ""}, {"a": "1"}])
def test_everything_and_nothing(labels: dict[str, str]) -> None:
    """EVERYTHING selects all objects, NOTHING none."""
    assert EVERYTHING.matches(labels)
    assert not NOTHING.matches(labels)


def test_from_labels() -> None:
    """Labels as a selector do not depend on their order."""
    assert selector_from_labels({"a": "1", "b": "2"}) == selector_from_labels({"b": "2", "a": "1"})
    assert selector_from_labels({"a": "1"}).matches({"a": "1", "c": "3"})
    assert selector_from_labels({}) == EVERYTHING
