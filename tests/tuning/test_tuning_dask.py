"""A search on a real Dask cluster."""

from __future__ import annotations

from pathlib import Path

from moorage.cli.main import run
from tests.experiments.daskcluster import dask_processes
from tests.tuning.clusters import SEARCH, document, write_document


def test_a_cluster_searches_what_this_machine_searches(tmp_path: Path) -> None:
    """Trials, results and the configuration that comes of them are equal, byte by byte."""
    search = {**SEARCH, "trials": 4, "batch": 2, "seeds": 1}
    path = str(write_document(tmp_path, document(search=search, seeds={"count": 5})))
    here, there, written = tmp_path / "here", tmp_path / "there", tmp_path / "tuned.yaml"
    code = run(["tune", path, "--results", str(here), "--workers", "2", "--write", str(written)])
    found = written.read_bytes() if code == 0 else b""
    with dask_processes(tmp_path / "dask") as cluster:
        arguments = ["tune", path, "--results", str(there), "--dask", cluster.address, "--write", str(written)]
        assert run(arguments) == code
    assert (written.read_bytes() if code == 0 else b"") == found
    for name in ("trials.csv", "results.csv"):
        assert (there / name).read_bytes() == (here / name).read_bytes()
