"""What a team may count on in a cluster that it shares, with pods that are placed whole: the properties of DRF.

`MOORAGE_QUEUE_WORLDS` says how many clusters are tried, see `test_properties`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.queues import Queue, ResourceShare
from tests.queues.teams import GPU
from tests.queues.worlds import CPU, World, make_job

WORLDS = int(os.environ.get("MOORAGE_QUEUE_WORLDS", "200")) // 4
PARTS = 2
CORES, GPUS = 24, 12


class Demand(NamedTuple):
    """What every pod of a team asks for, and how many there are."""

    cpus: int
    gpus: int
    pods: int

    def most(self, cpus: int, gpus: int) -> int:
        """How many pods run with so much."""
        bounds = [self.pods]
        bounds += [cpus // self.cpus] if self.cpus else []
        bounds += [gpus // self.gpus] if self.gpus else []
        return min(bounds)


class Result(NamedTuple):
    """How many pods of each team run, and what its fair share is."""

    running: dict[str, int]
    cores: dict[str, int]
    gpus: dict[str, int]


def share_out(demands: dict[str, Demand], first: str, lies: dict[str, Demand] | None = None) -> Result:
    """Who runs on one node in the end. Teams have no quotas and equal weights, and the pods of `first` come first.

    `lies` are pods that a team asks for and does not need, less important than its others.
    """
    shares = FrozenDict({GPU: ResourceShare(0), CPU: ResourceShare(0)})
    world = World([Queue(name, resources=shares) for name in demands], [(GPUS, CORES)])
    for team in sorted(demands, key=lambda each: (each != first, each)):
        asked = [("", 50, demands[team])]
        asked += [("lie-", 40, lies[team])] if lies and team in lies else []
        for prefix, priority, (cpus, gpus, pods) in asked:
            for number in range(pods):
                name = f"{prefix}{team}-{number}"
                world.submit(make_job(name, team, cpus=cpus, gpus=gpus, priority=priority, created_s=float(number)))
        world.settle()
    tree = world.engine.state.queues.settle(world.engine.state)
    gpu = tree.resources.index(GPU)
    return Result(
        {team: sum(name.startswith(team) for name in world.placed()) for team in demands},
        {team: tree.nodes[team].share[0] // 1000 for team in demands},
        {team: tree.nodes[team].share[gpu] // 1000 for team in demands},
    )


def worlds(part: int) -> Iterator[tuple[int, random.Random, dict[str, Demand], str]]:
    """Seeds, and what teams ask for."""
    for seed in range(part, WORLDS, PARTS):
        draw = random.Random(seed)
        demands = {
            f"t{number}": Demand(draw.randint(1, 4), draw.randint(0, 3), draw.randint(1, 12))
            for number in range(draw.randint(2, 3))
        }
        yield seed, draw, demands, draw.choice(list(demands))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(120 + WORLDS)
def test_teams_get_their_parts_and_envy_nobody(part: int) -> None:
    """Sharing incentive: a team runs at least what it could run on its part of the cluster alone, whichever came first.
    Envy-freeness: with what another has of its share, no team could run more than one pod more than it does.
    """
    for seed, _, demands, first in worlds(part):
        result = share_out(demands, first)
        for team, demand in demands.items():
            has = result.running[team]
            assert has >= demand.most(CORES // len(demands), GPUS // len(demands)), (seed, team, demands, result)
            for other, (cpus, gpus, _) in demands.items():
                cores = min(result.running[other] * cpus, result.cores[other])
                devices = min(result.running[other] * gpus, result.gpus[other])
                assert demand.most(cores, devices) <= has + 1, (seed, team, other, demands, result)


def test_what_is_lent_is_not_divided_again() -> None:
    """Where envy-freeness ends: no team has to give up for one beyond its share what both have beyond theirs."""
    demands = {"t0": Demand(3, 0, 7), "t1": Demand(3, 0, 7), "t2": Demand(1, 2, 10)}
    result = share_out(demands, "t2")
    assert result.cores == {"t0": 8, "t1": 8, "t2": 8}
    assert result.running == {"t0": 4, "t1": 2, "t2": 6}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(120 + WORLDS)
def test_asking_for_more_than_needed_gains_nothing(part: int) -> None:
    """Strategy-proofness: where queues share one resource, no pod more of those runs that a team needs."""
    for seed, draw, drawn, first in worlds(part):
        demands = {team: each._replace(cpus=0, gpus=max(1, each.gpus)) for team, each in drawn.items()}
        lie = Demand(0, draw.randint(1, 3), draw.randint(1, 6))
        honest, liar = share_out(demands, first), share_out(demands, first, {"t0": lie})
        assert liar.running["t0"] <= honest.running["t0"], (seed, demands, lie, honest, liar)


def test_asking_for_more_may_pay_where_resources_are_shared_apart() -> None:
    """Where strategy-proofness ends: a team that asks for devices that it does not need lowers the others' shares of
    them, and what they have to give up then may be what it needs.
    """
    demands = {"t0": Demand(3, 1, 3), "t1": Demand(4, 2, 9), "t2": Demand(3, 3, 12)}
    honest = share_out(demands, "t2")
    liar = share_out(demands, "t2", {"t0": Demand(3, 1, 2)})
    assert (honest.gpus["t1"], liar.gpus["t1"]) == (5, 4)
    assert (honest.running["t0"], liar.running["t0"]) == (2, 3)
