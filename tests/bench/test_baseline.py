"""`moorage bench core --check`: ratios that fell are named, whatever the machine's speed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from moorage.bench import baseline
from moorage.cli.main import moorage


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure little: what the ratio is does not matter here."""
    monkeypatch.setattr(baseline, "DECISIONS", {"equal": 64})
    monkeypatch.setattr(baseline, "NODES", 20)
    monkeypatch.setattr(baseline, "ROUNDS", 1)


def check(tmp_path: Path, ratios: dict[str, float]) -> tuple[int, list[str]]:
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps({"ratios": ratios}))
    run = CliRunner().invoke(moorage, ["bench", "core", "--check", "--baseline", str(file)])
    return run.exit_code, run.stdout.splitlines()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("ratios", "want_code", "want_lines"),
    [
        pytest.param({"equal": 1e-6}, 0, ["1 ratios, none below 60% of the baseline"], id="as good as ever"),
        pytest.param({"equal": 1e9}, 1, ["equal: "], id="fallen"),
        pytest.param({"equal": 1e-6, "old": 1.0}, 1, ["old: is in the baseline but was not measured"], id="vanished"),
    ],
)
def test_the_exit_code_is_the_answer(
    tmp_path: Path, ratios: dict[str, float], want_code: int, want_lines: list[str]
) -> None:
    """0 when nothing fell, else 1 and one line for each that did."""
    code, lines = check(tmp_path, ratios)
    assert code == want_code
    assert len(lines) == len(want_lines)
    assert all(line.startswith(want) for line, want in zip(lines, want_lines, strict=True))


@pytest.mark.usefixtures("quick")
def test_a_baseline_that_was_just_written_holds(tmp_path: Path) -> None:
    """It has a ratio for each workload."""
    file = tmp_path / "mine.json"
    run = CliRunner().invoke(moorage, ["bench", "core", "--write-baseline", str(file)])
    assert run.exit_code == 0, run.output
    assert set(baseline.read(file)) == {"equal"}


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(None, "cannot be read", id="not there"),
        pytest.param("{", "is not a baseline", id="not JSON"),
        pytest.param('{"ratios": {"equal": "fast"}}', "is not a baseline", id="not numbers"),
        pytest.param("[]", "is not a baseline", id="not an object"),
    ],
)
def test_a_bad_baseline_is_bad_input(tmp_path: Path, content: str | None, want: str) -> None:
    """Exit code 2 and one line with the file's name and the remedy."""
    file = tmp_path / "b.json"
    if content is not None:
        file.write_text(content)
    run = CliRunner().invoke(moorage, ["bench", "core", "--check", "--baseline", str(file)])
    assert run.exit_code == 2
    assert want in run.stderr
    assert str(file) in run.stderr


def test_the_shipped_baseline_knows_every_workload_that_is_measured() -> None:
    """So that a new workload is guarded from its first day."""
    assert set(baseline.read()) == set(baseline.DECISIONS)


def test_regressions_have_room_for_a_busy_machine() -> None:
    """Down to the share nothing is said, below it the line tells by how much."""
    assert list(baseline.regressions({"a": 6.1, "b": 5.9}, {"a": 10.0, "b": 10.0})) == [
        "b: 5.90 decisions per yardstick, 59% of the baseline's 10.00"
    ]
