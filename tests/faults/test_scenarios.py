"""A share of the fault laboratory; `make faults` plays all of it with three seeds, and holds it to its figures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.controlplane_fixtures import PlaneFactory
from tests.faults.lab import CONTROLLERS, Ends, Place, Result, Scenario, opened
from tests.faults.run import chosen
from tests.faults.table import SCENARIOS

SHARED = ("answer:bind-lost", "sieve:scheduler:crash:05", "sieve:scheduler:missed")
KEEPING = ("keeper:notice-twice",)
DEVICES = ("devices:crash:12", "devices:crash:21", "devices:cut")
FOUND: tuple[tuple[str, int], ...] = ()
"""Runs that once showed a breach, by scenario and seed."""


def named(name: str) -> Scenario:
    return next(scenario for scenario in SCENARIOS if scenario.name == name)


async def play(plane: ControlPlane, folder: Path, runs: list[tuple[str, int]], lanes: int) -> list[Result]:
    places = asyncio.Semaphore(lanes)
    async with opened(plane, folder, Ends()) as lab:

        async def one(name: str, seed: int) -> Result:
            async with places:
                return await lab.run(named(name), seed)

        return list(await asyncio.gather(*(one(name, seed) for name, seed in runs)))


def broken(results: list[Result]) -> list[str]:
    """What was breached, but for figures: a machine that does other things as well says nothing about those."""
    return [f"{result.command}: {line}" for result in results for line in result.breaches if "is promised" not in line]


@pytest.mark.slow
def test_what_is_asked_of_the_api_server_may_fail(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """Lost answers, a crash and missed events: nothing bound twice, the same end."""
    runs = [(name, 1) for name in SHARED] + [run for run in FOUND if named(run[0]).place == "shared"]
    assert broken(asyncio.run(play(fresh_control_plane(), tmp_path, runs, lanes=2))) == []


@pytest.mark.slow
def test_what_needs_controllers_under_fault(fresh_control_plane: PlaneFactory, tmp_path: Path) -> None:
    """A notice that comes twice moves everybody once; a crash between claims and binds leaves no device behind."""
    plane = fresh_control_plane()
    plane.start_controller_manager(f"--controllers={CONTROLLERS}")
    runs = [(name, 1) for name in (*KEEPING, *DEVICES)] + [run for run in FOUND if named(run[0]).place == "controllers"]
    assert broken(asyncio.run(play(plane, tmp_path, runs, lanes=1))) == []


def test_the_table() -> None:
    """Names are unique, every place is one that the runner knows, and a prefix chooses."""
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    places: set[Place] = {scenario.place for scenario in SCENARIOS}
    assert places == {"shared", "controllers", "fresh"}
    assert [(each.name, seed) for each, seed in chosen("answer:bind-lost", [4, 5])] == [
        ("answer:bind-lost", 4),
        ("answer:bind-lost", 5),
    ]
