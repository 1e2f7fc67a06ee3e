"""Recorded answers of the real kube-scheduler 1.37: Moorage decides the same, score by score."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.parity.comparison import differences
from tests.parity.examination import REGRESSIONS, followed
from tests.parity.moorage_side import ask

GOLDEN = Path(__file__).parent / "golden"
QUESTIONS = {"answers": 600, "preemption": 130, "volumes": 140}
"""File -> how many questions it holds."""
SHARE = 30
"""Questions of one test: few enough to spread over processes, enough that the file is not opened for nothing."""


@cache
def recorded(name: str) -> list[dict[str, Any]]:
    """All questions of a file, with their verdicts."""
    with lzma.open(GOLDEN / f"{name}.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(("name", "count"), QUESTIONS.items(), ids=QUESTIONS)
def test_no_question_is_missing(name: str, count: int) -> None:
    """A file that was cut short must not look like agreement."""
    assert len(recorded(name)) == count


@pytest.mark.parametrize(
    ("name", "start"),
    [
        pytest.param(name, start, id=f"{name}-{start}")
        for name, count in QUESTIONS.items()
        for start in range(0, count, SHARE)
    ],
)
def test_recorded_answers(name: str, start: int) -> None:
    """Feasible nodes, every plugin's weighted score, the choice, the message and the victims are kube-scheduler's."""
    wrong: list[str] = []
    for question in recorded(name)[start : start + SHARE]:
        found = differences(question, ask(question["objects"]))
        wrong += [f"seed {question['seed']}, profile {question['profile']}: {one}" for one in found]
    assert not wrong, "\n".join(wrong)


def test_what_once_differed() -> None:
    """Small clusters on which Moorage once decided otherwise, with kube-scheduler's verdict."""
    wrong: list[str] = []
    for path in sorted(REGRESSIONS.glob("*.yaml")):
        question = yaml.safe_load(path.read_text())
        history = question.get("history")
        found = followed(question["objects"], history) if history else differences(question, ask(question["objects"]))
        wrong += [f"{path.name}: {one}" for one in found]
    assert not wrong, "\n".join(wrong)
