"""`make simlive`: random files through a live cluster and through `simulate`, compared.

    python -m tests.simlive.run [--files 200] [--first 0] [--minutes 60] [--together] [--results FILE]

Each file is one line of the results, so that a run goes on where the last one ended. Two figures come of it:
(a) the live pods as pending pods, in the order in which they were tried: every one on the node that it has live;
(b) the file itself with 20 seeds: for every workload, the counts per group of equal nodes that live had.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.simlive.comparing import differing_counts, differing_nodes
from tests.simlive.files import random_file
from tests.simlive.live import live


def main() -> int:
    """Play the files that the results lack; 1 if one of them differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--together", action="store_true", help="create all workloads of a file at once")
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "simlive.jsonl")
    options = parser.parse_args()
    known = _known(options.results)
    lacking = [number for number in range(options.first, options.first + options.files) if number not in known]
    end_s = time.monotonic() + options.minutes * 60
    if lacking:
        with tempfile.TemporaryDirectory() as folder, live(Path(folder)) as cluster, options.results.open("a") as out:
            for number in lacking:
                if time.monotonic() > end_s:
                    break
                objects = random_file(number)
                rest = cluster.play(objects, together=options.together)
                known[number] = {
                    "file": number,
                    "pods": len(rest.pods),
                    "nodes": differing_nodes(rest),
                    "counts": differing_counts(objects, rest),
                }
                line = json.dumps(known[number]) + "\n"
                out.write(line)
                out.flush()
                sys.stderr.write(line)
    return _report(
        [each for number, each in known.items() if number in range(options.first, options.first + options.files)]
    )


def _known(results: Path) -> dict[int, dict[str, object]]:
    lines = results.read_text().splitlines() if results.exists() else []
    return {each["file"]: each for each in map(json.loads, lines)}


def _report(done: list[dict[str, object]]) -> int:
    same_nodes = sum(1 for each in done if not each["nodes"])
    same_counts = sum(1 for each in done if not each["counts"])
    figures = f"(a) the same nodes in {same_nodes}, (b) the counts among the seeds' in {same_counts}"
    sys.stdout.write(f"{len(done)} files: {figures}\n")
    return int(min(same_nodes, same_counts) < len(done))


if __name__ == "__main__":
    sys.exit(main())
