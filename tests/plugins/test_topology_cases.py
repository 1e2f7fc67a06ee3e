"""The cases of other schedulers' topology tests, in each of their words: as good as the reference, and optimal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from moorage.cli.simulate import command

YARDSTICK = Path(__file__).resolve().parents[3] / "shared" / "topology"
pytestmark = pytest.mark.skipif(not YARDSTICK.is_dir(), reason="the yardstick lies beside the repository")


@pytest.fixture
def check() -> Iterator[ModuleType]:
    """Give the yardstick's own module."""
    sys.path.insert(0, str(YARDSTICK))
    import check  # type: ignore[import-not-found]  # noqa: PLC0415

    yield check
    sys.path.remove(str(YARDSTICK))


@pytest.mark.parametrize(("api", "least"), [("moorage", 169), ("kueue", 160), ("kai", 127), ("native", 63)])
def test_every_case_is_placed_optimally(check: Any, tmp_path: Path, api: str, least: int) -> None:
    """No case is worse than the reference, every value is the best there is, and ranks are in order."""
    cases = [case for case in json.loads((YARDSTICK / "cases.json").read_text())["cases"] if not case.get("cannot")]
    asked, wrong = 0, []
    for case in cases:
        if check.cannot(case, api):
            continue
        asked += 1
        path = tmp_path / "case.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": check.objects(case, api)}))
        answer = json.loads(CliRunner().invoke(command, ["-f", str(path), "-o", "json"]).stdout)
        placed = {pod["name"]: pod["node"] for pod in answer["pods"] if pod["node"]}
        good, optimal, ranks, why = check.grade(case, placed)
        if not good or not optimal or ranks is False or answer["evictions"]:
            wrong.append(f"{case['id']}: {why}")
    assert asked >= least
    assert not wrong
