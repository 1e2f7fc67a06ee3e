"""The check of `moorage bench core --check`: detects when decisions have become much slower.

Times of different machines cannot be compared, so nothing here is a time. A decision is compared with a yardstick, a
fixed piece of Python and numpy work that is measured beside it, in CPU time: the ratio is how many decisions the
yardstick's time is worth. Machines change both alike, Moorage's code only one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np

from moorage.bench.core import measure

NODES = 1000
SHARE = 0.6
"""A ratio below this share of the baseline's is a regression; runs on a busy machine differ by a fifth."""
ROUNDS = 3
DECISIONS: Mapping[str, int] = {
    "equal": 4000,
    "different": 500,
    "spread": 1500,
    "affinity": 1500,
    "anti-affinity": 900,
    "preferred-affinity": 1500,
    "selectors": 600,
    "mixed": 1000,
    "gangs": 900,
    "devices": 1500,
}
"""Workload -> decisions that are enough for a steady ratio."""


class BaselineError(Exception):
    """The baseline cannot be used; the message is one line."""


def yardstick_s() -> float:
    """CPU seconds of the yardstick: dictionaries, small objects and short arrays, as decisions use them."""
    ranks = np.arange(NODES, dtype=np.int64)
    began_s = time.process_time()
    known: dict[str, tuple[int, str]] = {}
    for number in range(4000):
        name = f"pod-{number}"
        known[name] = (number, name)
        if number % 8 == 0:
            feasible = ranks[ranks % 7 != number % 7]
            known[name] = (int(feasible[int(np.argmax(feasible))]), name)
    sum(number for number, _ in known.values())
    return time.process_time() - began_s


def ratios(
    measured: Callable[[str, int], float] | None = None, told: Callable[[str], None] = lambda _: None
) -> dict[str, float]:
    """Workload -> decisions per yardstick, the best of a few rounds: load can only make it worse."""
    rate = measured or _rate
    found: dict[str, float] = {}
    for workload, decisions in DECISIONS.items():
        told(workload)
        for _ in range(ROUNDS):
            ratio = rate(workload, decisions) * min(yardstick_s() for _ in range(3))
            found[workload] = max(found.get(workload, 0.0), round(ratio, 3))
    return found


def _rate(workload: str, decisions: int) -> float:
    return measure(workload, NODES, 0, decisions, clock=time.process_time).decisions_per_s


def read(path: Path | None = None) -> dict[str, float]:
    """The ratios of the baseline, the shipped one unless a file is named."""
    source = path or files("moorage.bench") / "baseline.json"
    try:
        content = json.loads(source.read_text())
        return {str(name): float(value) for name, value in content["ratios"].items()}
    except OSError as error:
        raise BaselineError(f"{source}: cannot be read: {error.strerror}; name a file that exists") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BaselineError(f"{source}: is not a baseline; write one with --write-baseline") from None


def write(path: Path, found: Mapping[str, float]) -> None:
    """Keep these ratios as a baseline."""
    path.write_text(json.dumps({"nodes": NODES, "ratios": dict(found)}, indent=2) + "\n")


def regressions(found: Mapping[str, float], wanted: Mapping[str, float]) -> Iterator[str]:
    """One line for each workload that fell behind, and for each in the baseline that was not measured."""
    for workload, want in wanted.items():
        got = found.get(workload)
        if got is None:
            yield f"{workload}: is in the baseline but was not measured; write the baseline anew"
        elif got < want * SHARE:
            yield f"{workload}: {got:.2f} decisions per yardstick, {got / want:.0%} of the baseline's {want:.2f}"
