"""Selectors of devices are taken apart where that is certain, and left alone where it is not."""

from __future__ import annotations

import pytest

from moorage.core.devices import Version
from moorage.core.selectorparts import MOST_CONDITIONS, comparison, conditions, written

MEMORY = 'device.capacity["gpu.example.com"].memory'
MODEL = 'device.attributes["gpu.example.com"].model'


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        pytest.param("a && b", ("a", "b"), id="two"),
        pytest.param("  (a || b) && c ", ("a || b", "c"), id="parentheses"),
        pytest.param("(a) && ((b))", ("a", "b"), id="needless parentheses"),
        pytest.param("(a) || (b)", ("(a) || (b)",), id="either"),
        pytest.param("a && b || c", ("a && b || c",), id="either of two"),
        pytest.param("a ? b : c", ("a ? b : c",), id="depends"),
        pytest.param("x.?y.orValue(true) && b", ("x.?y.orValue(true)", "b"), id="optional"),
        pytest.param('"&&" == "a || b" && c', ('"&&" == "a || b"', "c"), id="signs in texts"),
        pytest.param("f(a && b) && [c && d][0]", ("f(a && b)", "[c && d][0]"), id="inside of something"),
        pytest.param("a && (b", ("a && (b",), id="not closed"),
        pytest.param('a && "b', ('a && "b',), id="no tokens"),
        pytest.param("", ("",), id="empty"),
    ],
)
def test_the_conditions_of_a_selector(expression: str, want: tuple[str, ...]) -> None:
    """Only `&&` outside of everything separates; what cannot be read is one condition."""
    assert conditions(expression) == want


def test_a_selector_of_very_many_conditions_is_one() -> None:
    """They are evaluated one by one, so their number is bounded."""
    few, many = (" && ".join(["a"] * number) for number in (MOST_CONDITIONS, MOST_CONDITIONS + 1))
    assert len(conditions(few)) == MOST_CONDITIONS
    assert conditions(many) == (many,)


@pytest.mark.parametrize(
    ("condition", "want", "weaker"),
    [
        pytest.param(
            f'{MEMORY}.compareTo(quantity("80Gi")) >= 0',
            "80Gi",
            f'{MEMORY}.compareTo(quantity("24Gi")) >= 0',
            id="at least",
        ),
        pytest.param(
            f'{MEMORY}.isGreaterThan(quantity("80Gi"))',
            "more than 80Gi",
            f'{MEMORY}.compareTo(quantity("24Gi")) >= 0',
            id="more than",
        ),
        pytest.param(
            f'{MEMORY}.compareTo(quantity("8Gi")) <= 0',
            "at most 8Gi",
            f'{MEMORY}.compareTo(quantity("40Gi")) <= 0',
            id="at most",
        ),
        pytest.param(f'{MODEL} == "h100"', "h100", f'{MODEL} in ["h100", "40Gi", "24Gi"]', id="equal"),
        pytest.param(f'"h100" == {MODEL}', "h100", f'{MODEL} in ["h100", "40Gi", "24Gi"]', id="the other way round"),
        pytest.param(f'{MODEL} in ["a", "b"]', "a or b", f'{MODEL} in ["a", "b", "40Gi", "24Gi"]', id="one of"),
        pytest.param(f'{MODEL} != "a"', "other than a", None, id="other"),
        pytest.param('3 <= device.attributes["d"]["n"]', "at least 3", None, id="a number"),
        pytest.param('device.attributes["d"].n == -3', "-3", None, id="a negative one"),
        pytest.param('device.attributes["d"].v.compareTo(semver("1.2.0")) >= 0', "at least 1.2.0", None, id="version"),
    ],
)
def test_what_a_condition_compares(condition: str, want: str, weaker: str | None) -> None:
    """In words, and with the constant changed so that devices with these values meet it, too."""
    found = comparison(condition)
    assert found is not None
    assert found.wanted == want
    assert found.weaker(["40Gi", "24Gi"]) == weaker


@pytest.mark.parametrize(
    "condition",
    [
        "true",
        'device.driver == "x"',
        f"{MODEL} == {MODEL}",
        f'{MODEL}.startsWith("a")',
        f'{MEMORY}.compareTo(quantity("1Gi")) >= 1',
        f'{MEMORY}.add(quantity("1Gi")) >= 0',
        f"has({MODEL})",
    ],
)
def test_other_conditions_are_left_alone(condition: str) -> None:
    """No guesses."""
    assert comparison(condition) is None


def test_quotes_survive() -> None:
    """The weaker condition is an expression again."""
    found = comparison(f"{MODEL} == 'a\"b'")
    assert found is not None
    assert found.weaker(["c\\d"]) == MODEL + ' in ["a\\"b", "c\\\\d"]'


def test_values_as_people_write_them() -> None:
    """Lists, versions and truth values."""
    assert [written(each) for each in (True, 3, "x", Version("1.2.0"), ("a", "b"))] == [
        "true",
        "3",
        "x",
        "1.2.0",
        "a, b",
    ]
