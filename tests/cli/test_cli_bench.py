"""`moorage bench core`: rows for every workload, and clear words for wrong ones."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from moorage.bench.suite import SUITE
from moorage.cli.main import moorage


def test_json_rows_have_the_promised_fields() -> None:
    """One document with a row for each workload and size."""
    run = CliRunner().invoke(moorage, ["bench", "core", "--nodes", "20,40", "--decisions", "15", "-o", "json"])
    assert run.exit_code == 0, run.output
    rows = json.loads(run.stdout)
    assert {(row["workload"], row["nodes"]) for row in rows} == {(name, nodes) for name in SUITE for nodes in (20, 40)}
    assert all(row["decisions_per_s"] > 0 and row["pods_present"] >= 0 for row in rows)


def test_the_table_has_a_line_for_each_row() -> None:
    """A header and the figures."""
    run = CliRunner().invoke(
        moorage, ["bench", "core", "--nodes", "20", "--workload", "equal,mixed", "--decisions", "9"]
    )
    lines = run.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["workload", "equal", "mixed"]


def test_gangs_of_a_topology_say_how_long_one_takes() -> None:
    """Of every size one, in whole slices, as many as there is room for; other workloads have no such time."""
    run = CliRunner().invoke(moorage, ["bench", "core", "--nodes", "40", "--workload", "slices,equal", "-o", "json"])
    slices, equal = json.loads(run.stdout)
    assert slices["decisions"] == 8 + 16 + 32 + 64
    assert 0 < slices["median_ms"] <= slices["p99_ms"]
    assert equal["median_ms"] is None


@pytest.mark.parametrize(("asked", "want"), [("1", 3), ("3", 3), ("16", 15)])
def test_gangs_come_whole(asked: str, want: int) -> None:
    """The number of pods is that of whole gangs, and at least one gang is placed."""
    run = CliRunner().invoke(
        moorage, ["bench", "core", "--nodes", "20", "--workload", "gangs", "--decisions", asked, "-o", "json"]
    )
    assert [row["decisions"] for row in json.loads(run.stdout)] == [want]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["--workload", "fast"], "'fast' is not a workload; choose from equal", id="unknown workload"),
        pytest.param(["--nodes", "many"], "'many' is not a list of whole numbers", id="nodes not a number"),
        pytest.param(["--nodes", "0"], "'0' is not a list of whole numbers above zero", id="no nodes"),
    ],
)
def test_wrong_arguments_get_one_line(arguments: list[str], want: str) -> None:
    """Exit code 2, and the remedy."""
    run = CliRunner().invoke(moorage, ["bench", "core", *arguments])
    assert run.exit_code == 2
    assert want in run.output
