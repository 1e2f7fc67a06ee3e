"""Tests of the real control plane are never skipped by accident."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST = "def test_it(control_plane): pass\n"


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        pytest.param({}, "1 error", id="failure-by-default"),
        pytest.param({"MOORAGE_SKIP_CONTROLPLANE": "1"}, "1 skipped", id="skipped-on-request"),
        pytest.param({"MOORAGE_SKIP_CONTROLPLANE": "1", "CI": "true"}, "1 error", id="never-skipped-in-ci"),
    ],
)
def test_missing_programs(tmp_path: Path, environ: dict[str, str], want: str) -> None:
    """Without the programs a test fails with the remedy, and is skipped only where somebody wants that."""
    (tmp_path / "test_it.py").write_text(TEST)
    hidden = ("CI", "MOORAGE_SKIP_CONTROLPLANE", "KUBEBUILDER_ASSETS")
    env = {key: value for key, value in os.environ.items() if key not in hidden and not key.startswith("PYTEST_")}
    env |= {"MOORAGE_CACHE": str(tmp_path / "cache"), **environ}
    command = [sys.executable, "-m", "pytest", "-rsE", "-p", "no:cacheprovider", "-p", "tests.controlplane_fixtures"]
    command += ["-c", str(tmp_path / "pytest.ini"), str(tmp_path / "test_it.py")]
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = controlplane: the real one\n")
    ended = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert want in ended.stdout.splitlines()[-1], ended.stdout
    assert "no test control plane; build it once" in ended.stdout
