"""Expressions with cel-go's answers: the recorded ones beside this checkout, and our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moorage.core.devicecel import CompileError, EvaluationError, SelectableDevice, compile_selector
from moorage.core.devices import Version

RECORDED = Path(__file__).parents[3] / "shared" / "dra" / "cel.jsonl"


def _attribute(given: dict[str, Any]) -> Any:
    ((kind, value),) = given.items()
    if kind == "version":
        return Version(value)
    return [Version(each) for each in value] if kind == "versions" else value


def device_of(row: dict[str, Any]) -> SelectableDevice:
    """The device of a recorded evaluation."""
    return SelectableDevice(
        row.get("driver", ""),
        {name: _attribute(each) for name, each in row.get("attributes", {}).items()},
        {name: each["value"] for name, each in row.get("capacity", {}).items()},
        row.get("allowMultipleAllocations", False),
    )


def answered(expression: str, device: SelectableDevice) -> dict[str, Any]:
    """Our answer in the form of the recorded ones."""
    selector = compile_selector(expression)
    if isinstance(selector, CompileError):
        return {"compileError": selector.message}
    answer = selector.answer(device)
    if isinstance(answer, EvaluationError):
        return {"cost": answer.cost, "error": answer.message}
    return {"cost": answer.cost, "match": answer.matches}


def recorded() -> list[dict[str, Any]]:
    """All recorded evaluations."""
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def in_pieces(expression: str, device: SelectableDevice, effort: int = 0) -> dict[str, Any]:
    """The same, interrupted wherever that is possible."""
    selector = compile_selector(expression)
    if isinstance(selector, CompileError):
        return {"compileError": selector.message}
    asking = selector.begin(device)
    while (answer := asking.go_on(effort)) is None:
        pass
    if isinstance(answer, EvaluationError):
        return {"cost": answer.cost, "error": answer.message}
    return {"cost": answer.cost, "match": answer.matches}
