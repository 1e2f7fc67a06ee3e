"""Run the fault laboratory: every scenario with several seeds, a line each as it ends, and what to do about a breach.

    python -m tests.faults.run [--only PREFIX] [--seeds 3] [--seed N] [--lanes 3] [-o json] [--logs FOLDER] [--list]

Scenarios that may share an API server do, some at a time; those that need controllers take turns on another; those that
end the API server, or are about speed, run alone. Exit code 1 on any breach.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

import structlog

from moorage.bench.controlplane import ControlPlane, ControlPlaneError
from tests.faults.lab import CONTROLLERS, PLANE, Ends, Lab, Result, Scenario, opened, scratch
from tests.faults.table import SCENARIOS

LANES = 3
SEEDS = 3
SHOWN = 6
"""So many breaches of a run are printed; JSON has all of them."""


class Runner:
    """Runs scenarios where each may run, and reports results as they come."""

    def __init__(self, folder: Path, lanes: int, report: Callable[[Result], None]) -> None:
        self._folder = folder
        self._lanes = lanes
        self._report = report
        self._ends = Ends()
        self.results: list[Result] = []

    async def run(self, runs: Sequence[tuple[Scenario, int]]) -> list[Result]:
        """All of them: those that share first, then those that run alone."""
        by_place = {
            place: [run for run in runs if run[0].place == place] for place in ("shared", "controllers", "fresh")
        }
        async with AsyncExitStack() as stack:
            works = []
            if by_place["shared"]:
                lab = await self._lab(stack)
                works.append(self._in_lanes(lab, by_place["shared"], self._lanes))
            if by_place["controllers"]:
                lab = await self._lab(stack, controllers=True)
                works.append(self._in_lanes(lab, by_place["controllers"], 1))
            await asyncio.gather(*works)
        for scenario, seed in by_place["fresh"]:
            async with AsyncExitStack() as stack:
                self._done(await (await self._lab(stack)).run(scenario, seed))
        return self.results

    async def _in_lanes(self, lab: Lab, runs: Sequence[tuple[Scenario, int]], lanes: int) -> None:
        left = iter(runs)

        async def lane() -> None:
            for scenario, seed in left:
                self._done(await lab.run(scenario, seed))

        await asyncio.gather(*(lane() for _ in range(lanes)))

    async def _lab(self, stack: AsyncExitStack, *, controllers: bool = False) -> Lab:
        plane = await asyncio.to_thread(ControlPlane.start, PLANE)
        stack.callback(plane.stop)
        if controllers:
            await asyncio.to_thread(plane.start_controller_manager, f"--controllers={CONTROLLERS}")
        return await stack.enter_async_context(opened(plane, self._folder, self._ends))

    def _done(self, result: Result) -> None:
        self.results.append(result)
        self._report(result)


def chosen(only: str, seeds: Sequence[int]) -> list[tuple[Scenario, int]]:
    """Each scenario whose name begins so with each seed; seeds of one scenario are far apart, so that lanes mix."""
    return [(scenario, seed) for seed in seeds for scenario in SCENARIOS if scenario.name.startswith(only)]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PREFIX", help="scenarios whose name begins so")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many seeds, from 1 on ({SEEDS})")
    parser.add_argument("--seed", type=int, default=None, help="this seed only")
    parser.add_argument("--lanes", type=int, default=LANES, help=f"how many run at a time where they may ({LANES})")
    parser.add_argument("--logs", type=Path, default=None, help="folder for the processes' logs, kept")
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="json: one document at the end"
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios and end")
    options = parser.parse_args()
    seeds = [options.seed] if options.seed is not None else list(range(1, options.seeds + 1))
    runs = chosen(options.only, seeds)
    if options.list or not runs:
        for scenario in SCENARIOS:
            _say(f"{scenario.name:<44}{scenario.row}")
        return int(not runs)
    return _run(options, runs)


def _run(options: argparse.Namespace, runs: Sequence[tuple[Scenario, int]]) -> int:
    # The kubelets that are played have much to say about an API server that is away.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    as_table, began_s = options.output == "table", time.monotonic()

    def report(result: Result) -> None:
        lines = [str(result), *(f"    {line}" for line in result.breaches[:SHOWN])]
        if len(result.breaches) > SHOWN:
            lines.append(f"    and {len(result.breaches) - SHOWN} more")
        if not result.ok:
            lines.append(f"    again: {result.command}")
        (_say if as_table else _murmur)("\n".join(lines))

    try:
        with scratch(options.logs) as folder:
            results = asyncio.run(Runner(folder, options.lanes, report).run(runs))
    except ControlPlaneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    bad = [result for result in results if not result.ok]
    minutes = (time.monotonic() - began_s) / 60
    summary = f"{len(results)} runs of {len({each.scenario for each in results})} scenarios in {minutes:.1f} minutes"
    if as_table:
        _say(f"\n{summary}: {len(bad)} with a breach")
        for result in bad:
            _say(f"BREACH {result.scenario} seed {result.seed}: {result.breaches[0]}\n    again: {result.command}")
    else:
        _say(json.dumps({"summary": summary, "minutes": minutes, "runs": [asdict(each) for each in results]}, indent=2))
    return int(bool(bad))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _murmur(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
