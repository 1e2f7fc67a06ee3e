"""What a plan for a cluster of the trace comes to, without an API server."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.repack import repack_of
from moorage.sim.rules import rules_of
from moorage.sim.simulation import simulate
from moorage.sim.whatif import cluster_input
from moorage.wire.configuration import read_configuration
from tests.repack.harbour import packing
from tests.repack.leftover import Leftover, leftover


class Planned(NamedTuple):
    """The figures of a plan."""

    pods: int
    in_use: int
    gained: int
    bound: int
    moves: int
    filled: int


def planned(cluster: Leftover) -> Planned:
    """Plan once, with a profile that packs."""
    reading = read_configuration(json.dumps(packing("default-scheduler")).encode(), "packing", Registry(BUILTIN))
    assert not reading.problems, reading.problems
    outcome = simulate(cluster_input(cluster.objects(), "trace"), rules_of(reading, 0, answers_to_all=True))
    assert outcome.world is not None
    plan = repack_of(outcome.world).emptying
    return Planned(len(cluster.pods), plan.in_use, plan.gained, plan.bound, len(plan.moves), len(plan.filled))


if __name__ == "__main__":
    for number in map(int, sys.argv[1:] or ("1", "2", "3")):
        print(number, planned(leftover(seed=number))._asdict(), flush=True)  # noqa: T201 - a command
