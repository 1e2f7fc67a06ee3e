"""Counterfactual answers on generated pending pods: each is true, and where one exists one is given.

`make test` looks at a share; `make suggestions` (or MOORAGE_SUGGESTIONS=500) at 500 pods.
"""

from __future__ import annotations

import json
import os
from math import ceil
from pathlib import Path

import pytest

from moorage.cli.main import run
from tests.suggestions.puzzles import FAMILIES
from tests.suggestions.verdicts import stuck_puzzles, verdict

PODS = int(os.environ.get("MOORAGE_SUGGESTIONS", "60"))
EACH = ceil(PODS / len(FAMILIES))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_explain_suggests_lets_the_pod_fit(family: str) -> None:
    """Every suggestion, put into the input, lets `simulate` bind the pod; and brute force finds nothing beyond."""
    verdicts = [verdict(drawn, simulated=True) for drawn in stuck_puzzles(family, EACH)]
    assert len(verdicts) == EACH
    assert [each.wrong for each in verdicts if each.wrong] == []
    assert [each.missed for each in verdicts if each.missed] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_statement_proves_holds_in_a_simulation(family: str) -> None:
    """A live cluster cannot be simulated to check a suggestion: the proof inside the statement must be enough."""
    verdicts = [verdict(drawn, simulated=False) for drawn in stuck_puzzles(family, ceil(EACH / 2))]
    assert [each.wrong for each in verdicts if each.wrong] == []


@pytest.mark.parametrize("family", ["cpu", "taint", "spread", "deployment", "fragmented", "rivals"])
def test_anyone_can_check_with_the_commands(family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`explain -o json` carries whole objects; in a second file they replace those of their names, or are added."""
    drawn = next(stuck_puzzles(family, 1))
    cluster, change = tmp_path / "cluster.json", tmp_path / "change.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": drawn.objects}))
    assert run(["explain", drawn.pod, "-f", str(cluster), "-o", "json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["node"] is None
    assert entry["suggestions"]
    for suggestion in entry["suggestions"]:
        assert set(suggestion) == {"text", "objects"}
        change.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": suggestion["objects"]}))
        assert run(["simulate", "-f", str(cluster), "-f", str(change), "-o", "json"]) == 0
        pods = {each["name"]: each for each in json.loads(capsys.readouterr().out)["pods"]}
        assert pods[drawn.pod]["node"] is not None, suggestion["text"]
