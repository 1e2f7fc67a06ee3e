"""`moorage experiment`, as it is called."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from moorage.cli.experiment_progress import ProgressLine
from moorage.cli.main import run
from moorage.sim.experiments.conduct import ExperimentProgress
from tests.experiments.clusters import PACKED, trace_document, write_experiment

TRACE = {"nodes": "nodes.csv", "pods": "pods.csv", "order": "shuffled", "load": 1.2}
DOCUMENT = trace_document(inputs=[{"name": "trace", "trace": TRACE}], seeds={"count": 5})


@pytest.fixture
def results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """An experiment that has been run."""
    file = write_experiment(tmp_path, DOCUMENT)
    assert run(["experiment", "run", str(file)]) == 0
    printed = capsys.readouterr()
    assert "10 of 10 combinations" in printed.err.splitlines()[-1]
    assert printed.out.splitlines()[0].split() == ["TRACE", "default", "packed"]
    assert "allocated devices (share)" in printed.out
    return tmp_path / "experiment-results"


def test_what_a_run_writes(results: Path) -> None:
    """A row for each combination and measure, times apart, and a page."""
    rows = list(csv.DictReader((results / "results.csv").read_text().splitlines()))
    keys = {(row["configuration"], row["seed"], row["measure"], row["of"]) for row in rows}
    assert len(keys) == len(rows)
    assert {row["configuration"] for row in rows} == {"default", "packed"}
    assert {"allocated", "fragmented", "pending", "waiting-p99", "evictions", "moves"} <= {
        row["measure"] for row in rows
    }
    times = list(csv.DictReader((results / "times.csv").read_text().splitlines()))
    assert len(times) == 10
    assert all(int(row["decisions"]) > 0 for row in times)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href") or "url(" in str(value)]


def test_the_page_needs_no_network_and_runs_nothing(results: Path) -> None:
    """Charts are drawn in it; there are neither scripts nor links."""
    page = _Page()
    page.feed((results / "report.html").read_text())
    assert page.tags.count("svg") > 3
    assert not page.links
    assert not {"script", "link", "iframe", "img", "object"} & set(page.tags)


def test_names_are_escaped(tmp_path: Path) -> None:
    """An experiment without a name has that of its file, which is text on the page."""
    document = trace_document(configurations=[{"name": "a"}])
    file = write_experiment(tmp_path, document).rename(tmp_path / "<script>.yaml")
    assert run(["experiment", "run", str(file), "--results", str(tmp_path / "r"), "--workers", "1"]) == 0
    page = (tmp_path / "r" / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_compare(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two configurations of one run, as a table and as a document."""
    assert run(["experiment", "compare", f"{results}:default", f"{results / 'results.csv'}:packed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "trace, none: default (A) and packed (B), 5 seeds"
    assert lines[1].split() == ["MEASURE", "A", "B", "B", "-", "A", "95%", "FROM", "TO", "VERDICT"]
    assert run(["experiment", "compare", f"{results}:default", f"{results}:packed", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(each["a"], each["b"], each["pairs"]) for each in found} == {("default", "packed", 5)}
    assert run(["experiment", "compare", str(results), str(results), "-o", "json"]) == 0
    assert {each["verdict"] for each in json.loads(capsys.readouterr().out)} == {"equal"}


def test_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same rows in another format; compare reads both."""
    file = write_experiment(tmp_path, trace_document())
    assert run(["experiment", "run", str(file), "--format", "parquet"]) == 0
    folder = tmp_path / "experiment-results"
    assert (folder / "results.parquet").exists()
    assert not (folder / "results.csv").exists()
    assert run(["experiment", "run", str(file), "--results", str(tmp_path / "other")]) == 0
    capsys.readouterr()
    assert run(["experiment", "compare", str(folder), str(tmp_path / "other"), "-o", "json"]) == 0
    assert {each["verdict"] for each in json.loads(capsys.readouterr().out)} == {"equal"}


REFUSED: dict[str, tuple[list[str], str]] = {
    "no file": (["run", "gone.yaml"], "gone.yaml: no such file"),
    "not an experiment": (["run", "pods.csv"], "pods.csv"),
    "both": (["run", "experiment.yaml", "--workers", "2", "--dask", "x"], "exclude each other"),
    "workers": (["run", "experiment.yaml", "--workers", "0"], "0"),
    "no results": (["compare", "gone", "gone"], "gone: cannot be read"),
    "no table": (["compare", "pods.csv", "pods.csv"], "pods.csv:2: has no input"),
    "a value that is no number": (["compare", "nan.csv", "nan.csv"], "nan.csv:2: value: nan is no figure of a run"),
    "a value beyond all measures": (["compare", "huge.csv", "huge.csv"], "huge.csv:2: value: 1e+308 is no figure"),
    "an empty folder": (["compare", ".", "."], "holds no results.csv"),
    "results where a file is": (["run", "experiment.yaml", "--results", "pods.csv"], "pods.csv: cannot be made"),
}


@pytest.mark.parametrize(("arguments", "want"), REFUSED.values(), ids=REFUSED)
def test_refusals(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    want: str,
) -> None:
    """Lines that say what to do, and exit code 2."""
    write_experiment(tmp_path, DOCUMENT)
    for name, value in (("nan", "nan"), ("huge", "1e308")):
        text = f"input,configuration,change,seed,measure,of,value,unit\ni,c,n,1,allocated,cpu,{value},share\n"
        (tmp_path / f"{name}.csv").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert run(["experiment", *arguments]) == 2
    errors = capsys.readouterr().err
    assert want in errors
    assert all(line.startswith("error: ") for line in errors.splitlines())


def test_validate_knows_experiments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Problems of the file, of its traces and of its configurations."""
    broken = {**PACKED, "profiles": [{"plugins": {"score": {"enabled": [{"name": "Fit"}]}}}]}
    document = trace_document(
        changes=[{"name": "x", "drain": ["n9"]}], configurations=[{"name": "a", "document": broken}], seeds={"count": 0}
    )
    file = write_experiment(tmp_path, document)
    assert run(["validate", "-f", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("experiment.yaml: ")[2].partition(":")[0] for line in lines] == [
        "seeds.count",
        "configurations[0].document",
        "changes[0]",
    ]
    assert run(["validate", "-f", str(write_experiment(tmp_path, DOCUMENT))]) == 0


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    """Exit code 130 and a line that says so; the next run has what was computed."""
    file = write_experiment(tmp_path, {**DOCUMENT, "seeds": {"count": 200}})
    command = [sys.executable, "-m", "moorage", "experiment", "run", str(file), "--workers", "1"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as first:
        combinations = tmp_path / "experiment-results" / "combinations"
        while not (combinations.is_dir() and any(combinations.glob("*.json"))):
            assert first.poll() is None
        first.send_signal(signal.SIGINT)
        errors = first.communicate(timeout=120)[1]
    assert first.returncode == 130
    assert "interrupted" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    kept = len([*combinations.glob("*.json")])
    assert 0 < kept < 400
    write_experiment(tmp_path, {**DOCUMENT, "seeds": {"count": 1}})
    done = subprocess.run([*command], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr.splitlines()[0].endswith("from before")


def test_progress() -> None:
    """What is done and what is left, by what was computed now."""
    now_s = 0.0
    line = ProgressLine(sys.stderr, lambda: now_s)
    assert line.text(ExperimentProgress(0, 0, 0, 60)) == "0 of 60 combinations"
    now_s = 30.0
    assert line.text(ExperimentProgress(12, 1, 3, 60)) == "12 of 60 combinations, 3 from before, 1 failed, 2m21s left"
    now_s = 3600.0
    assert line.text(ExperimentProgress(10, 0, 0, 60)) == "10 of 60 combinations, 5h00m left"
    assert line.text(ExperimentProgress(60, 0, 0, 60)) == "60 of 60 combinations"
