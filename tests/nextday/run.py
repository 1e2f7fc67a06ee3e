"""Run the next-day suite: `python -m tests.nextday.run --only plan/rollout-default --results build/nextday`.

Each cell is a line of JSON in results.jsonl of the results' folder, with the last commit that touched src or deploy. A
run goes on where the one before ended: cells that were judged on the same commit are left out, unless --again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage.bench.controlplane import ControlPlaneError
from tests.nextday.capacities import CAPACITIES
from tests.nextday.cells import SEEDS, Cell, Row, chosen, laboratory
from tests.nextday.examples import EXAMPLES
from tests.nextday.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
FILE = "results.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells that are asked for; 1 if any of them was breached or could not be judged."""
    options = _options(arguments)
    wanted = chosen(options.only, options.seeds)
    if options.table:
        _say(table(read(options.results)))
        return 0
    if options.list or not wanted:
        for cell in wanted:
            _say(cell.name)
        return int(not wanted)
    commit = _commit()
    done = set() if options.again else {row["cell"] for row in read(options.results) if row["commit"] == commit}
    try:
        rows = _run([cell for cell in wanted if cell.name not in done], commit, options)
    except ControlPlaneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    bad = [row for row in rows if not row.ok]
    _say(f"\n{len(rows)} cells on {commit}: {len(bad)} with a breach; {len(done)} were judged before")
    return int(bool(bad))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.nextday.run", description="The next-day suite.")
    parser.add_argument("--only", nargs="*", default=[], metavar="CELL", help="beginnings of names, or parts of them")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of rollouts, scale steps and node loss")
    parser.add_argument("--results", type=Path, default=ROOT / "build/nextday", help="folder of the results")
    parser.add_argument("--minutes", type=float, default=360.0, help="begin no cell after so long")
    parser.add_argument("--again", action="store_true", help="run cells that were judged on this commit, too")
    parser.add_argument("--list", action="store_true", help="only list the cells")
    parser.add_argument("--table", action="store_true", help="only show the results as a table")
    return parser.parse_args(arguments)


def _run(wanted: Sequence[Cell], commit: str, options: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    if not wanted:
        return rows
    options.results.mkdir(parents=True, exist_ok=True)
    ends_s = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="moorage-nextday-") as logs, laboratory(Path(logs), commit) as lab:
        for cell in wanted:
            if time.monotonic() > ends_s:
                break
            rows.append(lab.run(cell))
            with (options.results / FILE).open("a") as file:
                file.write(json.dumps(rows[-1].as_json()) + "\n")
            _report(rows[-1])
    return rows


def read(folder: Path) -> list[Mapping[str, Any]]:
    """The rows of a folder, the last one of each cell and commit."""
    file = folder / FILE
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines]
    return list({(row["cell"], row["commit"]): row for row in rows}.values())


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many cells of each operation and example were well, as Markdown; the last row of a cell counts."""
    found: dict[tuple[str, str], list[tuple[str, bool]]] = defaultdict(list)
    for row in {row["cell"]: row for row in rows}.values():
        example, operation, capacity, _ = row["cell"].split("/")
        found[operation, example].append((capacity, row["ok"]))
    examples = [name for name in EXAMPLES if any(example == name for _, example in found)]
    lines = [f"| {' | '.join(['operation', *examples])} |", f"|{'---|' * (len(examples) + 1)}"]
    for operation in (name for name in OPERATIONS if any(each == name for each, _ in found)):
        shares = [_share(found.get((operation, example), [])) for example in examples]
        lines.append(f"| {operation} | {' | '.join(shares)} |")
    return "\n".join(lines)


def _share(found: Sequence[tuple[str, bool]]) -> str:
    """All of how many, or which capacities are not well."""
    bad = sorted({capacity for capacity, ok in found if not ok}, key=CAPACITIES.index)
    good = sum(ok for _, ok in found)
    return f"{good} of {len(found)}: not {', '.join(bad)}" if bad else f"all {good}" if good else ""


def _report(row: Row) -> None:
    outcome = "ok" if row.ok else "FAILED" if row.failed else "BREACH"
    _say(f"{row.cell:<44}{outcome:<8}{row.seconds:>6.1f} s")
    for line in [*row.breaches, *([row.failed] if row.failed else [])]:
        _say(f"    {line}")


def _commit() -> str:
    """The last commit that changed what is tried."""
    command = ["git", "log", "-1", "--format=%h", "--", "src", "deploy"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
