"""A few gang cases of the black-box conformance in every run; `make conformance` runs all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.run import CASES, PLANE, run_cases
from tests.controlplane_fixtures import PlaneFactory

CHOSEN = ("GNG-01", "GNG-02", "GNG-06")
"""Enough members and room; the last member releases all; two gangs and room for one."""


@pytest.mark.skipif(not (CASES / "run.py").is_file(), reason=f"no conformance cases in {CASES}")
def test_gang_cases_pass(fresh_control_plane: PlaneFactory, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """None fails and none is skipped."""
    plane = fresh_control_plane(feature_gates=PLANE.feature_gates, runtime_config=PLANE.runtime_config)
    code = run_cases(plane, ["--only", *CHOSEN, "--log", str(tmp_path / "log")])
    report = capfd.readouterr().out
    assert code == 0, report
    assert f"{len(CHOSEN)} passed, 0 failed, 0 skipped" in report
