"""A few moments of the crash drill in every run; `make drill` tries all of them and waits the whole 30 s each."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.controlplane_fixtures import PlaneFactory
from tests.gangs.drill import PLANE, Drill
from tests.gangs.outcomes import Case, Moment, Outcome

CASES = (
    Case(Moment(1, "after"), taken=True, way="native", owned=True),
    Case(Moment(8, "before"), taken=True, way="annotations", owned=True),
    Case(Moment(13, "after"), taken=False, way="crd", owned=False),
    Case(Moment(20, "before"), taken=True, way="native", owned=False),
)


def test_a_scheduler_that_is_killed_leaves_no_partial_gang(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """The next scheduler completes the gang or releases it; nothing is bound twice, no node holds too much."""
    plane = fresh_control_plane(feature_gates=PLANE.feature_gates, runtime_config=PLANE.runtime_config)
    seen: list[Outcome] = []
    asyncio.run(Drill(plane, tmp_path, patient=False).run(CASES, len(CASES), seen.append))
    assert [str(outcome) for outcome in seen if outcome.breaches] == []
    assert len(seen) == len(CASES)
    want_bound = {case.name: case.moment.k - (case.moment.when == "before") for case in CASES}
    assert {outcome.case.name: outcome.bound_at_crash for outcome in seen} == want_bound
