"""No expression takes more than its budget, however it is nested or written."""

from __future__ import annotations

import pytest

from moorage.cel.environment import COST_EXCEEDED, MOST_COST
from moorage.core.devicecel import CompileError, EvaluationError, SelectableDevice, SelectorAnswer, compile_selector

DEVICE = SelectableDevice("d.example.com", {"s": "a" * 64}, {"m": "1Gi"})
_ATTRIBUTE = 'device.attributes["d.example.com"].s'


def _folds(number: int, body: str) -> str:
    return "".join(f"[1,2,3,4,5,6,7,8,9,10].all(x{each}, " for each in range(number)) + body + ")" * number


def _bound(number: int, first: str, next_one: str, body: str) -> str:
    """Variables that are each made of the one before."""
    begin = f"cel.bind(x0, {first}, "
    rest = "".join(f"cel.bind(x{each}, {next_one.format(f'x{each - 1}')}, " for each in range(1, number))
    return begin + rest + body.format(f"x{number - 1}") + ")" * number


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(" * 249 + "true" + ")" * 249, id="brackets"),
        pytest.param("[" * 249 + "]" * 249 + " != []", id="lists"),
        pytest.param("+".join(["1"] * 250) + " == 250", id="sums"),
        pytest.param("!" * 5000 + "true", id="negations"),
        pytest.param("true ? true : " * 249 + "true", id="conditionals"),
        pytest.param(" && ".join(["true"] * 2000), id="conjunctions"),
        pytest.param("dyn(" * 249 + "true" + ")" * 249, id="calls"),
        pytest.param("[1].all(x, " * 125 + "true" + ")" * 125, id="folds"),
    ],
)
def test_what_cel_go_accepts_is_evaluated_however_deep_it_is(expression: str) -> None:
    selector = compile_selector(expression)
    assert not isinstance(selector, CompileError), selector
    answer = selector.answer(DEVICE)
    assert isinstance(answer, SelectorAnswer), answer
    assert answer.matches


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(" * 5000 + "true" + ")" * 5000, id="brackets"),
        pytest.param("(" * 9000, id="open brackets"),
        pytest.param("+".join(["1"] * 4000) + " == 1", id="sums"),
        pytest.param("{'a': dyn(1)}" + ".a" * 4000 + " == 1", id="selections"),
        pytest.param("true ? true : " * 600 + "true", id="conditionals"),
        pytest.param("f(" * 4000 + ")" * 4000, id="calls"),
        pytest.param("[" * 240 + "1" + "]" * 240 + ".map(x, [x])" * 240 + " == []", id="types"),
        pytest.param("[1].all(x, [1].exists(y, !" * 120 + "true" + "))" * 120, id="folds"),
    ],
)
def test_what_is_nested_too_deep_is_refused(expression: str) -> None:
    selector = compile_selector(expression)
    assert isinstance(selector, CompileError)
    assert selector.message.startswith(("compilation failed: ", "program instantiation failed: "))
    assert len(selector.message) <= 20_000


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(_folds(7, "int('1'.find('[0-9]*')) < 100"), id="nested folds"),
        pytest.param("lists.range(1000000000).size() == 1", id="a long range"),
        pytest.param(_bound(60, "[1]", "{0} + {0}", "{0}.size() == 1"), id="lists that double"),
        pytest.param(_bound(60, "[1]", "[{0}, {0}]", "{0} == {0}"), id="lists of lists that double"),
        pytest.param(_bound(8, _ATTRIBUTE, "{0}.replace('a', {0})", "{0} == ''"), id="texts that are squared"),
        pytest.param(
            f"cel.bind(t, {_ATTRIBUTE}.replace('a', {_ATTRIBUTE}.replace('a', {_ATTRIBUTE})), "
            'lists.range(200).all(i, !t.matches("(a{1,500}){1,2}b")))',
            id="patterns with many states",
        ),
        pytest.param(
            "[1]" + ".map(x, x)" * 2 + ".first()" + ".optMap(y, y)" * 60 + ".hasValue()", id="optMap in a chain"
        ),
    ],
)
def test_what_would_take_too_long_ends_with_the_error_of_the_cost_limit(expression: str) -> None:
    assert len(expression) <= 10 * 1024
    selector = compile_selector(expression)
    assert not isinstance(selector, CompileError), selector
    answer = selector.answer(DEVICE)
    assert isinstance(answer, EvaluationError)
    assert answer.message == COST_EXCEEDED
    assert answer.cost <= MOST_COST * 2


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("sets.contains(lists.range(900), lists.range(900))", id="large sets"),
        pytest.param("sets.equivalent(lists.range(600), lists.range(600))", id="equal sets"),
        pytest.param("!sets.intersects(lists.range(900), [dyn(true), dyn('a'), dyn(900)])", id="sets of other values"),
        pytest.param(_folds(4, f"{_ATTRIBUTE}.matches('^(a|b)+$')"), id="one pattern on one text"),
    ],
)
def test_what_cel_go_finds_within_its_limit_is_found(expression: str) -> None:
    """Although it takes many steps in Go."""
    selector = compile_selector(expression)
    assert not isinstance(selector, CompileError), selector
    answer = selector.answer(DEVICE)
    assert isinstance(answer, SelectorAnswer), answer
    assert answer.matches


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param('quantity("80Gi").compareTo(quantity("80Gi")) == 0', 4, id="quantities"),
        pytest.param('semver("1.2.3").isLessThan(semver("v1.3", true))', 3, id="versions"),
        pytest.param('isQuantity("x") || isSemver("x")', 2, id="no quantity, no version"),
        pytest.param('[1, 2].all(x, quantity("12345678901").asInteger() > x)', 17, id="in a fold"),
    ],
)
def test_constants_that_are_converted_once_cost_what_they_cost(text: str, want: int) -> None:
    """In every evaluation, however often it is asked."""
    selector = compile_selector(text)
    assert not isinstance(selector, CompileError), selector
    assert [selector.answer(DEVICE).cost for _ in range(2)] == [want, want]
