"""A few runs of the drill of gangs in slices in every run; `make racks` has all of them, and waits the whole 30 s."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.controlplane_fixtures import PlaneFactory
from tests.gangs.drill import PLANE
from tests.gangs.outcomes import Moment
from tests.gangs.rackdrill import RackCase, RackDrill, RackOutcome
from tests.gangs.racks import SIZE, faults_of

CASES = (
    RackCase(Moment(6, "after"), taken=True, crowded=False, second=2),
    RackCase(Moment(9, "before"), taken=False, crowded=True, second=0),
    RackCase(Moment(16, "before"), taken=False, crowded=False, second=0),
)


def test_slices_survive_kills_and_lost_nodes(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """No gang is outside of its block and no slice broken; lost members come back to their racks, the others stay."""
    plane = fresh_control_plane(feature_gates=PLANE.feature_gates, runtime_config=PLANE.runtime_config)
    seen: list[RackOutcome] = []
    asyncio.run(RackDrill(plane, tmp_path, patient=False).run(CASES, len(CASES), seen.append))
    assert [str(outcome) for outcome in seen if outcome.breaches] == []
    assert {outcome.case.name: outcome.bound_at_crash for outcome in seen} == {
        "racks-after-06": 6, "racks-before-09": 8, "racks-before-16": 15,
    }  # fmt: skip
    assert {outcome.case.crowded for outcome in seen if outcome.moved} == {True}


@pytest.mark.parametrize(
    ("moved", "want"),
    [
        ({}, []),
        ({rank: f"x-b1-r{rank // 4}-n{rank % 4}" for rank in range(SIZE)}, []),
        ({3: "x-b0-r3-n4"}, ["broken: slice 0 is in racks b0/r0, b0/r3"]),
        ({3: "x-b1-r0-n4"}, ["outside: the gang is in 2 blocks", "broken: slice 0 is in racks b0/r0, b1/r0"]),
    ],
)
def test_the_judge_sees_what_is_wrong(moved: dict[int, str], want: list[str]) -> None:
    """Racks of the same name in two blocks are two racks."""
    homes = {rank: f"x-b0-r{rank // 4}-n{rank % 4}" for rank in range(SIZE)}
    assert faults_of(homes | moved) == want
