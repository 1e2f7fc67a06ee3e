"""The spot drill, small; `python -m tests.app.spot_drill` plays it with ten nodes and a hundred pods."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.app.spot_drill import CONTROLLERS, Size, drill
from tests.controlplane_fixtures import PlaneFactory

pytestmark = pytest.mark.long

SIZES = [
    pytest.param(Size(spot_nodes=3, apps=4, replicas=3, withdrawn=1), id="3 nodes, 12 pods"),
    pytest.param(
        Size(spot_nodes=3, apps=4, replicas=3, withdrawn=1, restart_keeper=True), id="the keeper is killed meanwhile"
    ),
]
if os.environ.get("MOORAGE_FULL_DRILL") == "1":
    SIZES.append(pytest.param(Size(), id="10 nodes, 100 pods"))


@pytest.mark.parametrize("size", SIZES)
def test_pods_leave_nodes_that_go_and_return(fresh_control_plane: PlaneFactory, tmp_path: Path, size: Size) -> None:
    """In time, under every budget, each pod moved once and brought back once, whatever is said twice or withdrawn."""
    plane = fresh_control_plane()
    plane.start_controller_manager(f"--controllers={CONTROLLERS}")
    figures = drill(plane, size, tmp_path)
    assert figures.budgets_broken == 0
    assert figures.moved_s < 120.0
    assert figures.made == 3 * size.pods + 1, "nobody was moved twice for one notice, and the single one not at all"
    assert figures.events.get("SpotReturn", 0) >= 1
