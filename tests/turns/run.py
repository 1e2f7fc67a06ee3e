"""Compare the speed of this checkout with that of another commit, in turns, on a machine where nothing else runs.

    python -m tests.turns.run COMMIT [--core equal,spread] [--cluster basic] [--turns 5] [--nodes 5000]
    python -m tests.turns.run COMMIT --core planned-alike,planned-selectors --cluster '' --nodes 3000

Decisions per second are of thread CPU time, after a first measurement that does not count. On the API server both
schedulers are measured by this checkout: the process that watches shares the cores with them, so that two of them
would be compared as well. Prints the best, the median and the ratio of each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from moorage.bench.clusterrun import Sizes, measure
from moorage.bench.contenders import Contender

ROOT = Path(__file__).resolve().parents[2]
CORE = "equal,different,spread,affinity,anti-affinity,gangs,preemption"
_MEASURE = """
import sys, time
time.perf_counter = time.thread_time
from moorage.bench import suite
measure, nodes = suite.SUITE[sys.argv[1]], int(sys.argv[2])
measure(100, 0, 64)
print(measure(nodes, 0, None).decisions_per_s)
"""
_PREEMPTION_NODES = 1000
PLANNED = Path(__file__).with_name("planned.py")

Measure = Callable[[str], float]
"""From the Python of a checkout to a figure, more is better."""


@contextmanager
def checkout(commit: str) -> Iterator[str]:
    """The Python of a checkout of a commit, with its own environment; gone at the end."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            subprocess.run(["make", "setup"], cwd=tree, check=True)
            yield str(tree / ".venv/bin/python")
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True)


def core(workload: str, nodes: int) -> Measure:
    """Decisions per second of the engine alone."""
    sized = str(_PREEMPTION_NODES if workload == "preemption" else nodes)
    kind = workload.removeprefix("planned-")
    work = ["-c", _MEASURE, workload, sized] if kind == workload else [str(PLANNED), sized, kind]

    def decisions_per_s(python: str) -> float:
        return float(subprocess.run([python, *work], check=True, capture_output=True, text=True, cwd="/").stdout)

    return decisions_per_s


def cluster(workload: str) -> Measure:
    """Pods bound per second on a real API server; the CPU that each cost is printed beside it."""

    def pods_per_s(python: str) -> float:
        found = measure(workload, Contender.MOORAGE, Sizes(1000, 4000, steady_pods=0), python=python)
        print(f"  {found.pods_per_s:,.0f} pods/s, {found.cpu_ms_per_pod:.3f} CPU ms/pod", flush=True)  # noqa: T201
        return found.pods_per_s

    return pods_per_s


def compare(name: str, taken: Measure, pythons: tuple[str, str], turns: int) -> None:
    """Measure both in turns, and print the line of one workload."""
    figures: dict[str, list[float]] = {python: [] for python in pythons}
    for turn in range(turns):
        for python in pythons if turn % 2 == 0 else pythons[::-1]:
            figures[python].append(taken(python))
    then, now = (figures[python] for python in pythons)
    ratios = f"{100 * max(now) / max(then):5.1f} and {100 * median(now) / median(then):5.1f} %"
    print(f"{name:<16} best and median: {_both(then)} then, {_both(now)} now, {ratios}", flush=True)  # noqa: T201


def _both(figures: Sequence[float]) -> str:
    return f"{max(figures):8,.0f} {median(figures):8,.0f}"


def main() -> None:
    """Read the arguments and print a line per workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--core", default=CORE, help="workloads of bench core, planned-*; empty for none")
    parser.add_argument("--cluster", default="basic", help="workloads of bench cluster; empty for none")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=5000)
    asked = parser.parse_args()
    with checkout(asked.commit) as other:
        for workload in filter(None, asked.core.split(",")):
            compare(workload, core(workload, asked.nodes), (other, sys.executable), asked.turns)
        for workload in filter(None, asked.cluster.split(",")):
            compare(f"cluster {workload}", cluster(workload), (other, sys.executable), asked.turns)


if __name__ == "__main__":
    main()
