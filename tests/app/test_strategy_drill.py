"""The strategy drill, short; `python -m tests.app.strategy_drill` plays the full one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.app.strategy_drill import Course, Way, drill
from tests.controlplane_fixtures import PlaneFactory

pytestmark = pytest.mark.long

COURSE = Course(finale=10) if os.environ.get("MOORAGE_FULL_DRILL") == "1" else Course((6, 20, 7, 3), 1.0)


@pytest.mark.parametrize("way", Way, ids=str)
def test_a_split_is_kept(fresh_control_plane: PlaneFactory, tmp_path: Path, way: Way) -> None:
    """Up, down and after the loss of a node, within 60 s each, and nobody is moved who stands right."""
    plane = fresh_control_plane()
    plane.start_controller_manager()
    figures = drill(plane, way, tmp_path, COURSE)
    assert len(figures.steps) >= 5
    if not COURSE.finale:
        assert figures.evictions == 0
