"""Our own expressions with cel-go's answers: every function, operator and macro, and every kind of error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cel.answers import answered, device_of

_LINES = (Path(__file__).parent / "cases.jsonl").read_text().splitlines()
_DEVICE = device_of(json.loads(_LINES[0])["device"])
_CASES: list[dict[str, Any]] = [json.loads(line) for line in _LINES[1:]]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["expression"][:60])
def test_the_answer_is_that_of_cel_go(case: dict[str, Any]) -> None:
    assert answered(case["expression"], _DEVICE) == case["answer"]


def test_cases_cover_answers_errors_and_mistakes() -> None:
    kinds = {kind for case in _CASES for kind in case["answer"]}
    assert kinds == {"match", "cost", "error", "compileError"}
