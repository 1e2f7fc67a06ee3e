"""What tuning leaves behind: the chosen configuration, with what it gains and loses, and a table of all trials."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator, Sequence
from io import StringIO

from moorage.sim.experiments.charts import number_text
from moorage.sim.experiments.comparing import Compared
from moorage.sim.experiments.document import Experiment
from moorage.sim.experiments.searches import SearchPlan
from moorage.sim.tables import shown
from moorage.sim.tuning.halves import Halves
from moorage.sim.tuning.searching import Searched
from moorage.sim.tuning.stages import Tuned

TUNED_YAML, TRIALS_CSV = "tuned.yaml", "trials.csv"
_MOST_LINES = 40


def tuned_file(experiment: Experiment, asked: SearchPlan, halves: Halves, tuned: Tuned, replay: str) -> str:
    """The chosen configuration, as a file for `--config`; what is known about it stands in comments."""
    trial = tuned.front[tuned.chosen]
    lines = [
        f"Found by `moorage tune` for the experiment {experiment.name}: trial {trial.number} of {asked.trials}.",
        f"Searched with {halves.searched_text}.",
        f"Judged with {halves.judged_text}, beside the configuration {asked.configuration}:",
        *(f"  {line}" for line in effects(tuned)),
        f"What it would have decided yesterday: {replay}",
    ]
    return "".join(f"# {shown(line)}\n" for line in lines) + trial.text


def effects(tuned: Tuned) -> list[str]:
    """Lines about the objectives, then about everything else that is really better or worse."""
    appraisal = tuned.appraisal
    about = [each for found in appraisal.objectives for each in found]
    told = {(each.input, each.change, each.measure, each.of) for each in about}
    others = [
        each
        for each in (*appraisal.gained, *appraisal.lost)
        if (each.input, each.change, each.measure, each.of) not in told
    ]
    lines = [effect(each) for each in (*about, *others)]
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]


def effect(each: Compared) -> str:
    """`openb: allocated devices 0.93 -> 0.96 share (+0.03, 95 % from 0.02 to 0.04): better`."""
    low, high = each.difference.low, each.difference.high
    interval = "" if low is None or high is None else f", 95 % from {number_text(low)} to {number_text(high)}"
    where = f"{each.input}, {each.change}" if each.change != "none" else each.input
    figure = f"{each.measure} {each.of}".strip()
    difference = f"{'+' if each.difference.mean >= 0 else ''}{number_text(each.difference.mean)}"
    before, after = number_text(each.before), number_text(each.after)
    return f"{where}: {figure} {before} -> {after} {each.unit} ({difference}{interval}): {each.verdict.value}"


def replay_command(file: str) -> str:
    """How to decide a journal anew with a configuration."""
    return f"moorage replay DIR --config {shlex.quote(file)}"


def trials_csv(asked: SearchPlan, searched: Searched) -> bytes:
    """A row for each trial: its values, and its objectives on the half that was searched."""
    out = StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    names = [each.name for each in asked.parameters]
    writer.writerow(["trial", *names, *(str(each) for each in asked.objectives), "problem"])
    writer.writerows(_trial_rows(names, asked, searched))
    return out.getvalue().encode()


def _trial_rows(names: Sequence[str], asked: SearchPlan, searched: Searched) -> Iterator[list[object]]:
    for trial in searched.trials:
        values = [value_text(trial.values[name]) for name in names]
        objectives = [repr(each) for each in trial.objectives] or [""] * len(asked.objectives)
        yield [trial.number, *values, *objectives, "; ".join(trial.problems)]


def value_text(value: object) -> str:
    """The value of a parameter, on one line."""
    if isinstance(value, float):
        return number_text(value)
    return value if isinstance(value, str) else json.dumps(value)
