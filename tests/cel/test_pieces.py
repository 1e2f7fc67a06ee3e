"""An evaluation that is interrupted ends as one in one go: with the same answer, message and cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moorage.core.devicecel import CompileError, SelectableDevice, compile_selector
from tests.cel.answers import answered, device_of, in_pieces

_LINES = (Path(__file__).parent / "cases.jsonl").read_text().splitlines()
_DEVICE = device_of(json.loads(_LINES[0])["device"])
_SMALL = SelectableDevice("d.example.com", {"s": "a" * 64}, {"m": "1Gi"})
_ATTRIBUTE = 'device.attributes["d.example.com"].s'


def test_all_cases_can_be_evaluated_step_by_step() -> None:
    """Every function and macro, and every kind of error."""
    cases = [json.loads(line) for line in _LINES[1:]]
    wrong = [case["expression"] for case in cases if in_pieces(case["expression"], _DEVICE) != case["answer"]]
    assert not wrong


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("[1, 2, 3].all(x, [4, 5].all(y, [6].exists(z, x < y && y < z)))", id="nested"),
        pytest.param("[1, 2].map(x, [3, 4].map(y, x * y)).map(z, z.size()) == [2, 2]", id="lists in a chain"),
        pytest.param("[[1, 2].all(x, x > 0), [3].exists(x, x > 3)].filter(b, b).size() == 1", id="one after the other"),
        pytest.param("[1, 2, 3].filter(x, [1, 2].exists(y, y == x)).all(x, [x, x].all(y, y == x))", id="in the range"),
        pytest.param("cel.bind(a, [1, 2].map(x, x + 1), cel.bind(b, a.map(x, x + 1), b.all(x, x > 2)))", id="bound"),
        pytest.param("{'a': 1, 'b': 2}.all(k, v, [v].all(x, x == v)) && [5, 6].exists(i, e, i == 1)", id="pairs"),
        pytest.param("[1, 2].all(x, [0].all(y, 1 / y > 0)) || [1, 2].all(x, x > 0)", id="an error that is absorbed"),
        pytest.param("[1, 0].all(x, [1].all(y, 1 / x > 0))", id="an error"),
        pytest.param("[1, 2].exists_one(x, [x].exists_one(y, y == 2)) && [3].sortBy(x, -x) == [3]", id="counted"),
        pytest.param(f"[1, 2].all(x, {_ATTRIBUTE}.matches('a+') && [1].all(y, {_ATTRIBUTE}.matches('^a')))", id="work"),
        pytest.param("[1].all(x, [dyn('a')].all(y, y))", id="no bool"),
        pytest.param("lists.range(100000).all(x, x >= 0)", id="too much"),
    ],
)
@pytest.mark.parametrize("effort", [0, 7, 1000])
def test_folds_go_on_where_they_were(expression: str, effort: int) -> None:
    effort = effort if "100000" not in expression else max(effort, 200)
    assert in_pieces(expression, _SMALL, effort) == answered(expression, _SMALL)


def test_a_piece_is_short() -> None:
    """However much the whole of it costs."""
    selector = compile_selector("lists.range(300).all(x, lists.range(300).all(y, x + y >= 0))")
    assert not isinstance(selector, CompileError)
    asking = selector.begin(_SMALL)
    spent = []
    while (answer := asking.go_on(2_000)) is None:
        spent.append(asking.effort)
    assert answer.cost > 500_000
    assert max(after - before for before, after in zip([0, *spent], spent, strict=False)) < 4_000
