"""Repacking on the real API server, by the keeper and by the descheduler, from the same start.

    python -m tests.repack.compare [--nodes 300] [--seed 1] [--only keeper|descheduler] [--threshold 50]

A cluster of the openb trace at 45 % with random survivors. In both turns kube-scheduler with MostAllocated places what
was evicted, kube-controller-manager makes successors and keeps budgets, and played kubelets end evicted pods. The
descheduler is v0.36.0 with HighNodeUtilization, repeated until it evicts nothing more; the keeper has `repack`. The
bound is that of `moorage.engine.repacking.bound` on the same start.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import yaml

from moorage.bench.controlplane import ControlPlane, Options
from tests.app.spot_drill import running
from tests.repack.descheduler import descheduler
from tests.repack.harbour import Harbour, harbour, packing
from tests.repack.leftover import NODES, Leftover, leftover
from tests.repack.planned import planned

QUIET_S = 80.0
LONGEST_S = 900.0
PACE = {"movesAtOnce": 20, "movesPerHour": 100_000, "settleAfter": "5s", "restAfter": "1h"}


class Figures(NamedTuple):
    """What a turn came to."""

    who: str
    pods: int
    before: int
    """Nodes in use."""
    after: int
    evictions: int
    pending: int
    budgets_broken: int
    took_s: float
    rested: bool
    """Whether it ended by itself, and not at the limit of time while it still evicted pods."""


@contextmanager
def keeper(plane: ControlPlane, folder: Path, aims: Mapping[str, float]) -> Iterator[None]:
    """The keeper with a profile like kube-scheduler's; `aims` are further fields of `repack`."""
    kind = {"apiVersion": "moorage.dev/v1alpha1", "kind": "KeeperConfiguration"}
    settings = {**kind, "moveAgainAfter": "30s", "repack": {**PACE, **aims}}
    scheduler = {**packing("default-scheduler"), "leaderElection": {"leaderElect": False}}
    path = folder / "keeper.yaml"
    path.write_text(yaml.safe_dump_all([scheduler, settings]))
    with running(plane, folder, "keeper", "--config", str(path), "--metrics-listen", "", "--health-listen", ""):
        yield


def turn(who: str, cluster: Leftover, folder: Path, threshold: int, aims: Mapping[str, float]) -> Figures:
    """One contender, on a control plane of its own."""
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane.start(Options()))
        there: Harbour = stack.enter_context(harbour(plane))
        there.fill(cluster)
        pods, before = there.healthy(), there.in_use()
        plane.start_scheduler(config=packing("default-scheduler"))
        if who == "keeper":
            stack.enter_context(keeper(plane, folder, aims))
        else:
            stack.enter_context(descheduler(plane, folder, threshold))
        there.wait(lambda: there.moved > 0, 300, "the first move")
        took_s, rested = there.rest(QUIET_S, LONGEST_S)
        name = who if who == "keeper" else f"{who}, {threshold} %"
        counts = (pods, before, there.in_use(), there.moved, there.pending(), len(there.broken()))
        return Figures(name, *counts, round(took_s, 1), rested)


def main() -> int:
    """Play the turns and print a line of JSON for each."""
    parser = argparse.ArgumentParser(description="Compare the keeper's repacking with the descheduler's.")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threshold", type=int, action="append", default=[])
    parser.add_argument("--nodes-at-once", type=int, default=155)
    parser.add_argument("--least-gain", type=float, default=0.1)
    parser.add_argument("--logs", help="keep the logs in this folder")
    parser.add_argument("--only", choices=("keeper", "descheduler"))
    options = parser.parse_args()
    bound = planned(leftover(options.nodes, seed=options.seed))
    print(json.dumps({"planned": bound._asdict()}), flush=True)  # noqa: T201 - a command
    aims = {"nodesAtOnce": options.nodes_at_once, "leastGain": options.least_gain}
    turns = [("keeper", 0), *(("descheduler", each) for each in options.threshold or [50])]
    for who, threshold in turns:
        if options.only not in (None, who):
            continue
        with tempfile.TemporaryDirectory(prefix="moorage-repack-") as made:
            folder = options.logs or made
            Path(folder).mkdir(parents=True, exist_ok=True)
            found = turn(who, leftover(options.nodes, seed=options.seed), Path(folder), threshold, aims)
        print(json.dumps(found._asdict()), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
