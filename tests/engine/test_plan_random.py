"""The plan on random histories: who runs is who a plain planner would let run, and nobody is disturbed without need.

`MOORAGE_PLAN_SEQUENCES` says how many histories are tried: 10000 for a thorough run. A failure names its seed:
`MOORAGE_PLAN_SEED=17` runs that history alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.plan_histories import digest, told

SEQUENCES = int(os.environ.get("MOORAGE_PLAN_SEQUENCES", "120"))
ONLY = os.environ.get("MOORAGE_PLAN_SEED")
SHARES = 1 if ONLY else 4
"""Tests that share the histories out, so that they can run side by side."""
SHARE_TOLD_TWICE = 10
"""Every so many histories are told a second time."""


@pytest.mark.timeout(60 + SEQUENCES)
@pytest.mark.parametrize("share", range(SHARES))
def test_who_runs_is_who_a_plain_planner_lets_run(share: int) -> None:
    """After every event, with nobody disturbed who is in the plan; and the same history again gives the same."""
    for seed in [int(ONLY)] if ONLY else range(share, SEQUENCES, SHARES):
        log = told(seed)
        if seed % SHARE_TOLD_TWICE == 0:
            assert told(seed) == log, f"seed {seed}: the same history, another plan"


def test_a_new_leader_knows_how_many_pods_of_a_running_gang_it_found() -> None:
    """A member that finished is not missed; one that is lost afterwards is, and its node is somebody else's."""
    assert told(1833)


def test_the_same_history_gives_the_same_plan_in_another_process() -> None:
    """Nothing hangs on the order in which sets happen to be walked."""
    script = f"from {digest.__module__} import digest; print(digest(range(10)))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        for hash_seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
