"""Experiments on a real Dask cluster: a scheduler and two workers, each a process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.adapters.computing import Job
from moorage.adapters.computing.dask import DaskCluster
from moorage.cli.experiment_jobs import run_job
from moorage.cli.main import run
from tests.experiments.clusters import experiment_of, results_of, trace_document, write_experiment
from tests.experiments.daskcluster import dask_processes

TRACE = {"nodes": "nodes.csv", "pods": "pods.csv", "order": "shuffled", "load": 1.2}
DOCUMENT = trace_document(inputs=[{"name": "trace", "trace": TRACE}], seeds={"count": 6})


def test_a_cluster_finds_what_this_machine_finds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The tables are equal, byte by byte."""
    file = str(write_experiment(tmp_path, DOCUMENT))
    here, there = tmp_path / "here", tmp_path / "there"
    assert run(["experiment", "run", file, "--results", str(here), "--workers", "2", "-o", "json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    with dask_processes(tmp_path / "dask") as cluster:
        arguments = ["experiment", "run", file, "--results", str(there), "--dask", cluster.address, "-o", "json"]
        assert run(arguments) == 0
    assert json.loads(capfd.readouterr().out) == printed
    assert (there / "results.csv").read_bytes() == (here / "results.csv").read_bytes()
    assert len((here / "results.csv").read_text().splitlines()) > 12 * 20


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """The other one does what it had been given, and what it had been given to remember."""
    experiment = experiment_of(tmp_path, DOCUMENT)
    jobs = {f"{index}": Job(each.asked, each.input) for index, each in enumerate(experiment.combinations())}
    with dask_processes(tmp_path / "dask") as cluster:
        answers = DaskCluster(cluster.address).run(run_job, jobs, experiment.data)
        found = [next(answers), next(answers)]
        cluster.workers[0].kill()
        cluster.workers[0].wait()
        found += answers
    here = [*results_of(experiment).values()]
    assert len(found) == len(jobs) == 12
    assert {each.job: each.value and each.value["result"] for each in found} == {
        f"{index}": result for index, result in enumerate(here)
    }


def test_no_scheduler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line and exit code 2."""
    file = str(write_experiment(tmp_path, DOCUMENT))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert run(["experiment", "run", file, "--dask", f"tcp://127.0.0.1:{port}"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "no Dask scheduler answers" in lines[-1]


@pytest.mark.parametrize("address", ["foo", "foo://10.0.0.1:8786", "tcp://10.0.0.1:port"])
def test_no_address(address: str, tmp_path: Path) -> None:
    """One line and exit code 2, and nothing afterwards: no client was begun that nobody closes."""
    file = str(write_experiment(tmp_path, DOCUMENT))
    command = [sys.executable, "-m", "moorage", "experiment", "run", file, "--dask", address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    *_, line = ended.stderr.splitlines()
    assert ended.returncode == 2
    assert line.startswith(f"error: {address}: no Dask scheduler answers"), ended.stderr
    assert "Traceback" not in ended.stderr
