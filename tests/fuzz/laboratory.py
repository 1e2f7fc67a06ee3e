"""Tries inputs on targets: `python -m tests.fuzz.laboratory --inputs 1000000 --seed 7`, or `make fuzz`.

Every input follows from the seed, the target and its number alone, so that anything found can be tried again:
`--only NAME --at NUMBER`. A finding is an exception that the target does not document, or one input that takes more
than 50 ms of the thread's CPU three times in a row, with the garbage collector set as in our processes. The exit code
is 1 if there is any.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from moorage.adapters.process import tune_process
from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import TARGETS, Target

SLOW_S = 0.050
TRIES = 3
MOST_FINDINGS = 5
"""So many of a target are kept; all are counted."""


@dataclass
class Result:
    """What came of one target."""

    name: str
    inputs: int = 0
    took_s: float = 0.0
    slowest_s: float = 0.0
    raised: int = 0
    slow: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Another share of the same target."""
        self.inputs += other.inputs
        self.took_s += other.took_s
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.raised += other.raised
        self.slow += other.slow
        self.findings = (self.findings + other.findings)[:MOST_FINDINGS]


def made(target: Target, seed: int, number: int) -> object:
    """The input of a number."""
    return target.make(Mutator(Random(f"{seed}/{target.name}/{number}"), target.most_bytes))


def tried(target: Target, what: object) -> tuple[float, str]:
    """The CPU that an input takes, and what it raises that it should not."""
    began_s = time.thread_time()
    try:
        target.run(what)
    except target.refusals:
        pass
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:150]
        return time.thread_time() - began_s, f"{type(error).__name__}: {text} ({place.filename}:{place.lineno})"
    return time.thread_time() - began_s, ""


def try_target(target: Target, seed: int, numbers: Sequence[int]) -> Result:
    """Try these inputs."""
    result = Result(target.name)
    began_s = time.perf_counter()
    for number in numbers:
        what = made(target, seed, number)
        took_s, raised = tried(target, what)
        if took_s > SLOW_S:
            gc.collect()  # a collection that was due is nobody's fault
            took_s = min([took_s, *(tried(target, made(target, seed, number))[0] for _ in range(TRIES - 1))])
        result.inputs += 1
        result.slowest_s = max(result.slowest_s, took_s)
        result.raised += bool(raised)
        result.slow += took_s > SLOW_S
        if (raised or took_s > SLOW_S) and len(result.findings) < MOST_FINDINGS:
            said = raised or f"{took_s * 1000:.0f} ms of CPU"
            result.findings.append(f"--seed {seed} --only '{target.name}' --at {number}: {said}")
    result.took_s = time.perf_counter() - began_s
    return result


def shares(inputs: int, targets: Sequence[Target]) -> dict[str, int]:
    """How many inputs each target gets, by weight, at least one."""
    total = sum(target.weight for target in targets)
    return {target.name: max(1, round(inputs * target.weight / total)) for target in targets}


def _work(job: tuple[str, int, int, int]) -> Result:
    name, seed, first, step = job
    (target,) = (target for target in TARGETS if target.name == name)
    return try_target(target, seed, range(first, first + step))


def fuzz(inputs: int, seed: int, targets: Sequence[Target], jobs: int = 1) -> list[Result]:
    """Try so many inputs on all targets together."""
    piece = 2_000
    counts = shares(inputs, targets)
    work = [
        (name, seed, first, min(piece, count - first))
        for name, count in counts.items()
        for first in range(0, count, piece)
    ]
    Random(seed).shuffle(work)
    results = {target.name: Result(target.name) for target in targets}
    if jobs == 1:
        for job in work:
            results[job[0]].add(_work(job))
        return list(results.values())
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=tune_process) as pool:
        for done, result in enumerate(pool.imap_unordered(_work, work), 1):
            results[result.name].add(result)
            if sys.stderr.isatty():
                print(f"\r{done}/{len(work)}", end="", file=sys.stderr)  # noqa: T201
    return list(results.values())


def report(results: Sequence[Result]) -> str:
    """The table, and what was found."""
    lines = [f"{'target':34} {'inputs':>8} {'inputs/s':>9} {'slowest':>9} {'raised':>7} {'slow':>5}"]
    for each in results:
        rate = each.inputs / max(each.took_s, 1e-9)
        row = (
            f"{each.name:34} {each.inputs:8} {rate:9.0f} {each.slowest_s * 1000:6.1f} ms {each.raised:7} {each.slow:5}"
        )
        lines.append(row)
    lines += [finding for each in results for finding in each.findings]
    total = sum(each.raised + each.slow for each in results)
    lines.append(f"{sum(each.inputs for each in results)} inputs, {total} findings")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="targets whose name holds this")
    parser.add_argument("--at", type=int, help="one input, with everything that it raises")
    options = parser.parse_args()
    tune_process()
    targets = [target for target in TARGETS if options.only in target.name]
    if options.at is not None:
        for target in targets:
            what = made(target, options.seed, options.at)
            print(target.name, repr(what)[:3000])  # noqa: T201
            try:
                target.run(what)
            except target.refusals as refusal:
                print("refused:", refusal)  # noqa: T201
            print(f"{tried(target, what)[0] * 1000:.1f} ms of CPU")  # noqa: T201
        return 0
    results = fuzz(options.inputs, options.seed, targets, options.jobs)
    print(report(results))  # noqa: T201
    return int(any(each.raised or each.slow for each in results))


if __name__ == "__main__":
    sys.exit(main())
