"""Play a shape in virtual time and print what it amounted to.

python -m tests.contention.run SHAPE [--seed N] [--scale X] [--audit] [--limit S] [--places N] [--service S]
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.contention.audit import Auditor
from tests.contention.greedy import greedy
from tests.contention.lab import play
from tests.contention.outside import Terms
from tests.contention.shapes import SHAPES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--seed", type=int, default=0, help="draws other sizes, priorities and run times")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--limit", type=float, default=600.0, help="virtual seconds")
    parser.add_argument("--places", type=int, default=Terms.places, help="requests at once")
    parser.add_argument("--service", type=float, default=Terms.service_s, help="seconds for each")
    parser.add_argument("--audit", action="store_true", help="ask all the time who keeps out what would fit")
    given = parser.parse_args()
    shape = SHAPES[given.shape](given.scale, given.seed)
    began_s = time.monotonic()
    auditors: list[Auditor] = []
    watch = (lambda lab: auditors.append(Auditor(lab))) if given.audit else None
    figures = play(shape, Terms(places=given.places, service_s=given.service), given.limit, watch)
    sizes = f"{len(shape.jobs)} jobs, {shape.pods} pods, {len(shape.nodes)} nodes"
    head = f"{shape.name}: {sizes}; took {time.monotonic() - began_s:.1f} s"
    found = [line for auditor in auditors for line in auditor.findings.lines()]
    reference = greedy(shape)
    said = f"{'greedy reference':20} utilisation {reference.utilisation:.3f}, makespan {reference.makespan_s:.1f} s"
    sys.stdout.write("\n".join([head, *figures.lines(), *found, said]) + "\n")


if __name__ == "__main__":
    main()
