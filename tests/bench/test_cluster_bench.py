"""`moorage bench cluster` from the command line to the chart, on real control planes but tiny."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from moorage.cli.main import moorage


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*[Mm]atplotlib.*")
@pytest.mark.usefixtures("control_plane_assets")
def test_a_tiny_run_measures_everybody(tmp_path: Path) -> None:
    """Both schedulers and the limit client bind every pod; the document has all figures, and the chart is there."""
    sizes = ["--nodes", "10", "--pods", "20", "--rounds", "1", "--arrivals", "10"]
    arguments = ["bench", "cluster", *sizes, "--workload", "basic", "--report", str(tmp_path), "-o", "json"]
    run = CliRunner().invoke(moorage, arguments)
    assert run.exit_code == 0, run.output
    content = json.loads(run.stdout)
    assert run.stderr.splitlines()[:2] == ["basic, kube-scheduler, round 1", "basic, moorage, round 1"]
    assert content == json.loads((tmp_path / "cluster.json").read_text())
    assert [(one["contender"], one["bound"], one["events"]) for one in content["measurements"]] == [
        ("kube-scheduler", 20, 20),
        ("moorage", 20, 20),
        ("limit", 20, 20),
    ]
    for row in content["summary"]:
        assert row["pods_per_s"] > 0
        assert row["worst_event_lag_s"] is not None
        if row["contender"] != "limit":
            assert min(row["cpu_ms_per_pod"], row["peak_memory_mb"], row["p50_ms"], row["p99_ms"]) > 0
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".png", ".svg"}


def test_without_a_control_plane_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, and the remedy."""
    monkeypatch.setenv("MOORAGE_CACHE", str(tmp_path))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    run = CliRunner().invoke(moorage, ["bench", "cluster", "--nodes", "1", "--pods", "2"])
    assert run.exit_code == 2
    assert len(run.stderr.splitlines()) == 1
    assert "no test control plane; build it once" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--workload", "fast"], "'fast' is not a workload; choose from basic", id="unknown workload"),
        pytest.param(["--nodes", "0"], "0 is not in the range", id="no nodes"),
        pytest.param(["--rounds", "x"], "'x' is not a valid integer", id="rounds not a number"),
    ],
)
def test_wrong_arguments_get_one_line(arguments: list[str], want: str) -> None:
    """Exit code 2, and the remedy."""
    run = CliRunner().invoke(moorage, ["bench", "cluster", *arguments])
    assert run.exit_code == 2
    assert want in run.output
