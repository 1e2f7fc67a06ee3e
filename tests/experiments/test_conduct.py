"""All combinations: what was computed is kept, a failure concerns one only, results do not depend on the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from moorage.adapters.computing import Function, JobRunner
from moorage.adapters.computing.processes import LocalProcesses
from moorage.cli.experiment_jobs import run_job
from moorage.sim.experiments.conduct import Conducted, ExperimentProgress, conduct
from moorage.sim.experiments.document import Experiment
from moorage.sim.experiments.results import ResultFolder, csv_bytes, parquet_bytes, read_results
from tests.experiments import jobs
from tests.experiments.clusters import experiment_of, results_of, trace_document

VERSION = run_job({"configuration": "x", "input": {}}, {})["version"]


def two_processes(_: int) -> JobRunner:
    """On this machine."""
    return LocalProcesses(2)


def nothing_to_run(number: int) -> NoReturn:
    """Fails if there is anything to run."""
    raise AssertionError(f"{number} jobs are left")


def conducted(
    experiment: Experiment,
    folder: Path,
    runner: Callable[[int], JobRunner] = two_processes,
    function: Function = run_job,
    told: list[ExperimentProgress] | None = None,
) -> Conducted:
    """Run everything that is not in the folder."""
    tell = (told if told is not None else []).append
    return conduct(experiment, ResultFolder(folder), runner, function, VERSION, tell)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Six combinations."""
    trace = {"nodes": "nodes.csv", "pods": "pods.csv", "order": "shuffled", "load": 1.2}
    document = trace_document(inputs=[{"name": "trace", "trace": trace}], seeds={"count": 3})
    return experiment_of(tmp_path, document)


def test_other_processes_find_the_same(experiment: Experiment, tmp_path: Path) -> None:
    """The tables are equal, byte by byte, wherever combinations are computed."""
    here = results_of(experiment)
    told: list[ExperimentProgress] = []
    there = conducted(experiment, tmp_path / "there", told=told)
    assert {each.key: answer["result"] for each, answer in there.answers.items()} == here
    assert [each.key for each in there.answers] == [each.key for each in experiment.combinations()]
    assert told[0] == ExperimentProgress(0, 0, 0, 6)
    assert told[-1] == ExperimentProgress(6, 0, 0, 6)
    again = conducted(experiment, tmp_path / "again")
    assert csv_bytes(there.rows()) == csv_bytes(again.rows())
    assert parquet_bytes(there.rows()) == parquet_bytes(again.rows())


def test_a_run_goes_on_where_it_stopped(experiment: Experiment, tmp_path: Path) -> None:
    """What is there is not computed again; what is missing or cut off is."""
    first = conducted(experiment, tmp_path)
    assert csv_bytes(conducted(experiment, tmp_path, nothing_to_run).rows()) == csv_bytes(first.rows())
    parts = sorted((tmp_path / "combinations").iterdir())
    assert len(parts) == 6
    parts[0].unlink()
    parts[1].write_bytes(parts[1].read_bytes()[:100])
    parts[2].write_bytes(b'{"result": {"rows": [["allocated", "cpu", null, "share"]]}}')
    asked: list[int] = []

    def counting(number: int) -> JobRunner:
        asked.append(number)
        return LocalProcesses(1)

    again = conducted(experiment, tmp_path, counting)
    assert asked == [3]
    assert csv_bytes(again.rows()) == csv_bytes(first.rows())


def test_other_contents_are_computed_again(experiment: Experiment, tmp_path: Path) -> None:
    """The folder is asked for what a combination is made of, not for its name."""
    conducted(experiment, tmp_path / "results")
    (tmp_path / "more").mkdir()
    document = trace_document(
        inputs=[
            {"name": "renamed", "trace": {"nodes": "nodes.csv", "pods": "pods.csv", "order": "shuffled", "load": 1.2}}
        ],
        seeds={"count": 3},
    )
    renamed = experiment_of(tmp_path / "more", document)
    assert len(conducted(renamed, tmp_path / "results", nothing_to_run).answers) == 6
    document["inputs"][0]["trace"]["load"] = 1.3
    other = experiment_of(tmp_path / "more", document)
    with pytest.raises(AssertionError, match="6 jobs are left"):
        conducted(other, tmp_path / "results", nothing_to_run)


def test_a_failure_concerns_one_combination_only(experiment: Experiment, tmp_path: Path) -> None:
    """It is told, nothing is kept of it, and the next run computes it."""
    found = conducted(experiment, tmp_path, function=jobs.refuse_one)
    assert [each.seed for each in found.failures] == [1, 1]
    assert all("process" in "".join(why) for why in found.failures.values())
    assert [each.seed for each in found.answers] == [0, 2, 0, 2]
    assert not conducted(experiment, tmp_path).failures


def test_results_of_another_version_are_not_taken(experiment: Experiment, tmp_path: Path) -> None:
    """A worker with another Moorage may decide otherwise."""
    found = conduct(experiment, ResultFolder(tmp_path), two_processes, run_job, "0.0.0", lambda _: None)
    assert len(found.failures) == 6
    assert all("and this is 0.0.0" in why[0] for why in found.failures.values())


def test_tables_are_read_as_they_were_written(experiment: Experiment, tmp_path: Path) -> None:
    """Both formats hold the same rows."""
    found = conducted(experiment, tmp_path / "x")
    rows = [*found.rows()]
    (tmp_path / "a.csv").write_bytes(csv_bytes(rows))
    (tmp_path / "a.parquet").write_bytes(parquet_bytes(rows))
    assert read_results(tmp_path / "a.csv") == read_results(tmp_path / "a.parquet") == rows
