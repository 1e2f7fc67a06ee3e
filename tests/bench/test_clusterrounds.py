"""The rounds of `moorage bench cluster`, and what is told of them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from moorage.bench import clusterreport
from moorage.bench.clusterchart import NoChartError, draw
from moorage.bench.clusterrounds import document, summary, turns
from moorage.bench.clusterrun import Measurement, Sizes
from moorage.bench.contenders import Contender

MOORAGE = Measurement(
    workload="basic",
    contender="moorage",
    round=1,
    nodes=10,
    pods=100,
    pods_present=0,
    bound=100,
    pods_per_s=600.0,
    start_s=2.0,
    cpu_ms_per_pod=0.8,
    binding_cpu_ms_per_pod=0.6,
    peak_memory_mb=130.0,
    events=100,
    last_event_lag_s=1.0,
    worst_event_lag_s=1.5,
    p50_ms=5.0,
    p99_ms=20.0,
)
PEER = replace(MOORAGE, contender="kube-scheduler", pods_per_s=200.0, cpu_ms_per_pod=4.0)
LIMIT = replace(MOORAGE, contender="limit", pods_per_s=800.0, p50_ms=None, p99_ms=None)


def test_the_schedulers_take_turns() -> None:
    """Who is first in one round is second in the next; everybody gets every workload in every round."""
    plan = turns(["basic", "spread"], 3)
    assert [turn.contender for turn in plan if turn.workload == "spread" and turn.contender is not Contender.LIMIT] == [
        Contender.KUBE_SCHEDULER,
        Contender.MOORAGE,
        Contender.MOORAGE,
        Contender.KUBE_SCHEDULER,
        Contender.KUBE_SCHEDULER,
        Contender.MOORAGE,
    ]
    assert len(set(plan)) == len(plan) == 2 * 3 * 3


def test_figures_are_medians_and_compared_with_those_of_the_same_run() -> None:
    """One bad round changes nothing; ratio and shares are of the medians."""
    slow = replace(MOORAGE, round=2, pods_per_s=1.0, cpu_ms_per_pod=50.0)
    rows = {row.contender: row for row in summary([PEER, MOORAGE, LIMIT, slow, replace(MOORAGE, round=3)])}
    mine = rows["moorage"]
    assert (mine.figures["pods_per_s"], mine.rounds) == (600.0, 3)
    assert (mine.ratio, mine.share_of_limit, mine.cpu_ratio) == (3.0, 0.75, 0.2)
    assert (rows["kube-scheduler"].ratio, rows["kube-scheduler"].share_of_limit) == (None, 0.25)


def test_what_was_lost_is_told() -> None:
    """Events and binds that never came are notes of one line each."""
    rows = summary([replace(PEER, events=90), replace(MOORAGE, bound=97, events=97)])
    assert list(clusterreport.notes(rows)) == [
        "basic: kube-scheduler wrote no Scheduled event for 10 pods",
        "basic: moorage left 3 pods without a node; figures are of the others",
    ]


def test_the_table_has_a_line_for_each_contender() -> None:
    """What was not measured is a dash."""
    lines = [line.split() for line in clusterreport.table(summary([PEER, MOORAGE, LIMIT]))]
    assert [line[:3] for line in lines[1:]] == [
        ["basic", "kube-scheduler", "200"],
        ["basic", "moorage", "600"],
        ["basic", "limit", "800"],
    ]
    assert lines[3][-2:] == ["-", "-"]


def test_the_document_holds_everything(tmp_path: Path) -> None:
    """Sizes, the summary and every measurement, in a folder that need not be there."""
    path = clusterreport.write_document(document([PEER, MOORAGE], Sizes(10, 100), 1), tmp_path / "new" / "folder")
    content = json.loads(path.read_text())
    assert (content["nodes"], content["pods"], content["rounds"]) == (10, 100, 1)
    assert [row["ratio"] for row in content["summary"]] == [None, 3.0]
    assert [one["contender"] for one in content["measurements"]] == ["kube-scheduler", "moorage"]


@pytest.mark.filterwarnings("ignore")
def test_the_chart_is_drawn_as_png_and_svg(tmp_path: Path) -> None:
    """Two files that are what their names say."""
    paths = draw(summary([PEER, MOORAGE, LIMIT]), "10 nodes", tmp_path, "cluster")
    assert [path.name for path in paths] == ["cluster.png", "cluster.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in paths[1].read_text()


def test_without_matplotlib_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(NoChartError, match=r"pip install 'moorage\[bench\]'"):
        draw(summary([MOORAGE]), "", tmp_path, "cluster")
