"""Devices as kube-scheduler chose them: recorded answers, where they are at hand."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import pytest

from moorage.cli.simulate import SimulateOptions, answer

FOLDER = Path(__file__).parents[3] / "shared" / "dra"
ANSWERS = FOLDER / "answers.jsonl"
QUESTIONS = [json.loads(line) for line in ANSWERS.read_text().splitlines() if line] if ANSWERS.is_file() else []


def compare() -> Any:
    """The module that compares a simulation with an answer."""
    spec = importlib.util.spec_from_file_location("compare", FOLDER / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not QUESTIONS, reason="recorded answers are not at hand")
def test_recorded_answers(tmp_path: Path) -> None:
    """Nodes, devices, messages, scores and what is written to claims."""
    asked = compare()

    def ask(question: dict[str, Any], *_: object) -> Any:
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": question["objects"]}))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            answer(SimulateOptions(files=[str(file)], explain=True, output_format="json"))
        return json.loads(out.getvalue())

    asked.ask = ask
    found = {question["seed"]: asked.check(question, "", None) for question in QUESTIONS}
    assert {seed: differences for seed, differences in found.items() if differences} == {}
