"""Play random worlds: `python -m tests.crossings.run --worlds 10000 --crashes 2000 --seed 1 --jobs 2`.

Each world is a line of JSON in results.jsonl of the results' folder, with the last commit that touched src. A run goes
on where the one before ended: worlds that were played on the same commit are left out, unless --again. With --shrink,
worlds of every rule that is breached are made small and saved beside the results; those that show a cause of their own
become tests (`finds`).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from tests.crossings.covering import pairs, wanted
from tests.crossings.making import make_world
from tests.crossings.real import judge, real_server, real_world
from tests.crossings.shrinking import RAISED, Shrinker
from tests.crossings.stage import Outcome, Stage
from tests.crossings.world import World, read_world

ROOT = Path(__file__).parents[2]
FILE = "results.jsonl"
Row = Mapping[str, Any]
Task = tuple[int, int, bool]
"""Seed, number, and whether leaders die."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is asked for; 1 if anything was breached."""
    options = _options(arguments)
    if options.file:
        return _show(read_world(options.file))
    commit = _commit()
    if options.real:
        return _on_real_server(options, commit)
    tasks = [(options.seed, n, False) for n in range(options.worlds)]
    tasks += [(options.seed, n, True) for n in range(options.crashes)]
    before = {_task(row): row for row in read(options.results) if row["commit"] == commit}
    left = tasks if options.again else [task for task in tasks if task not in before]
    rows = list(_play(left, commit, options))
    everything = [*rows, *(before[task] for task in tasks if task in before and not options.again)]
    _say("\n".join(summary(everything, commit)))
    if options.shrink:
        _keep(everything, options)
    return int(any(row["breaches"] for row in everything))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crossings.run", description="Worlds where capabilities meet."
    )
    parser.add_argument("--worlds", type=int, default=1000, help="without crashes")
    parser.add_argument("--crashes", type=int, default=200, help="worlds in which leaders die")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--results", type=Path, default=ROOT / "build/crossings", help="folder of the results")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no world after so long")
    parser.add_argument("--shrink", type=int, default=0, help="worlds of each rule that are shrunk and saved")
    parser.add_argument("--again", action="store_true", help="play worlds that were played on this commit, too")
    parser.add_argument("--real", type=int, default=0, help="only worlds on the real API server, so many")
    parser.add_argument("--file", type=Path, default=None, help="only play the world of this file")
    return parser.parse_args(arguments)


def _show(world: World) -> int:
    outcome = Stage(world).play()
    for each in outcome.breaches:
        _say(str(each))
    _say(f"{outcome.binds} binds, {outcome.evictions} evictions, {len(outcome.breaches)} breaches")
    return int(bool(outcome.breaches))


def _on_real_server(options: argparse.Namespace, commit: str) -> int:
    """The first worlds on the real API server, a minute each; what was judged on the same commit is left out."""
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / "real.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    known = {row["number"]: row for row in lines if row["commit"] == commit and row["seed"] == options.seed}
    ends_s = time.monotonic() + 60 * options.minutes
    left = [number for number in range(options.real) if number not in known or options.again]
    with real_server() if left else contextlib.nullcontext() as server, file.open("a") as out:
        for number in left:
            if server is None or time.monotonic() > ends_s:
                break
            world = real_world(options.seed, number)
            found = judge(server, world)
            breaches = [[each.rule, each.what] for each in found.breaches()]
            row = {"seed": options.seed, "number": number, "commit": commit, "breaches": breaches}
            row |= {"binds": found.binds, "evictions": found.evictions, "excused": dict(found.excused)}
            known[number] = row
            out.write(json.dumps(row) + "\n")
            out.flush()
            _say(f"{world.name}: {found.binds} binds, {found.evictions} evictions; {_brief(row) or 'well'}")
    bad = [row for row in known.values() if row["breaches"]]
    _say(f"{len(known)} worlds on the real API server on {commit}, {len(bad)} with a breach")
    return int(bool(bad))


# --- playing ---


def _play(tasks: Sequence[Task], commit: str, options: argparse.Namespace) -> Iterator[Row]:
    options.results.mkdir(parents=True, exist_ok=True)
    ends_s = time.monotonic() + 60 * options.minutes
    judge = functools.partial(row_of, commit=commit)
    with multiprocessing.Pool(options.jobs, maxtasksperchild=200) as pool, (options.results / FILE).open("a") as file:
        for row in pool.imap_unordered(judge, _until(tasks, ends_s), chunksize=4):
            file.write(json.dumps(row) + "\n")
            file.flush()
            if row["breaches"]:
                _say(f"{row['seed']}/{row['number']}{' crashes' if row['crashes'] else ''}: {_brief(row)}")
            yield row


def _until(tasks: Iterable[Task], ends_s: float) -> Iterator[Task]:
    for task in tasks:
        if time.monotonic() > ends_s:
            return
        yield task


def row_of(task: Task, commit: str = "") -> Row:
    """Play one world."""
    seed, number, crashes = task
    world, began_s = make_world(seed, number, crashes=crashes), time.process_time()
    found: dict[str, Any] = {"seed": seed, "number": number, "crashes": crashes, "commit": commit}
    found |= {"capabilities": world.capabilities, "met": world.met, **judged(world)}
    return {**found, "cpu_s": round(time.process_time() - began_s, 3)}


def judged(world: World) -> dict[str, Any]:
    """What came of a world, or what was raised."""
    try:
        outcome: Outcome = Stage(world).play()
    except Exception as error:  # noqa: BLE001 - whatever the program raises is found
        told = f"{type(error).__name__}: {error}"
        return {
            "breaches": [[f"{RAISED} {type(error).__name__}", told[:500]]],
            "binds": 0,
            "evictions": 0,
            "excused": {},
        }
    breaches = [[each.rule, each.what] for each in outcome.breaches]
    counts = {"binds": outcome.binds, "evictions": outcome.evictions, "turns": outcome.turns}
    return {"breaches": breaches, **counts, "excused": outcome.excused}


# --- telling ---


def summary(rows: Sequence[Row], commit: str) -> list[str]:
    """What the worlds amount to."""
    quiet = [row for row in rows if not row["crashes"]]
    met = set(chain.from_iterable(pairs(row["capabilities"]) for row in rows))
    close = {frozenset(pair) for row in rows for marks in row["met"] for pair in combinations(sorted(set(marks)), 2)}
    rules = Counter(rule for row in rows for rule in {each[0] for each in row["breaches"]})
    excused: Counter[str] = Counter()
    for row in rows:
        excused.update(row["excused"])
    cpu_s = sum(row["cpu_s"] for row in rows)
    return [
        f"{len(quiet)} worlds and {len(rows) - len(quiet)} with crashes on {commit}",
        f"pairs of capabilities: {len(met & wanted())} of {len(wanted())}; {len(close)} in the same pods",
        f"{sum(row['binds'] for row in rows)} binds, {sum(row['evictions'] for row in rows)} evictions",
        f"{cpu_s / max(len(rows), 1):.3f} s of CPU a world",
        *(f"excused: {what}: {count}" for what, count in excused.most_common()),
        *(f"BREACH {rule}: {count} worlds" for rule, count in rules.most_common()),
        f"{sum(bool(row['breaches']) for row in rows)} worlds with a breach",
    ]


def _brief(row: Row) -> str:
    return "; ".join(f"{rule}: {what}" for rule, what in row["breaches"][:2])[:300]


def _keep(rows: Iterable[Row], options: argparse.Namespace) -> None:
    """Shrink some worlds of each rule, and save them."""
    taken: Counter[str] = Counter()
    for row in rows:
        for rule in dict.fromkeys(each[0] for each in row["breaches"]):
            name = f"{rule}-{row['seed']}-{row['number']}{'-crashes' if row['crashes'] else ''}.json".replace(" ", "-")
            if taken[rule] >= options.shrink or (options.results / name).exists():
                continue
            taken[rule] += 1
            world = Shrinker(rule).shrink(make_world(row["seed"], row["number"], crashes=row["crashes"]))
            (options.results / name).write_text(world.text())
            _say(f"saved {options.results / name}")


def read(folder: Path) -> list[Row]:
    """The rows of a folder."""
    file = folder / FILE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _task(row: Row) -> Task:
    return row["seed"], row["number"], row["crashes"]


def _commit() -> str:
    """The last commit that changed what is tried."""
    command = ["git", "log", "-1", "--format=%h", "--", "src"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
