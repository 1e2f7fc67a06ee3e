"""What `moorage experiment` prints: means of results, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from moorage.core.phrases import counted
from moorage.sim.experiments.charts import number_text
from moorage.sim.experiments.comparing import Compared
from moorage.sim.experiments.conduct import Conducted
from moorage.sim.experiments.document import Experiment
from moorage.sim.experiments.report import CHARTED, OVER_TIME, means, title_of
from moorage.sim.experiments.statistics import MeanInterval
from moorage.sim.tables import write_table


def results_document(experiment: Experiment, conducted: Conducted) -> dict[str, Any]:
    """All results as plain values."""
    return {
        "name": experiment.name,
        "combinations": experiment.number,
        "results": [row._asdict() for row in conducted.rows()],
        "failures": [
            {
                "input": each.input,
                "configuration": each.configuration,
                "change": each.change,
                "seed": each.seed,
                "problems": list(why),
            }
            for each, why in conducted.failures.items()
        ],
    }


def write_means(experiment: Experiment, conducted: Conducted, out: TextIO) -> None:
    """The main measures of each input and change, a column for each configuration."""
    names = list(experiment.configurations)
    for number, (given, change) in enumerate(
        (given["name"], change) for given in experiment.inputs for change in experiment.changes
    ):
        answers = {
            each: found for each, found in conducted.answers.items() if (each.input, each.change) == (given, change)
        }
        if number:
            out.write("\n")
        title = given if len(experiment.changes) == 1 else f"{given}, {change}"
        rows = [
            (title_of(*key), *(_mean_text(by_name.get(name)) for name in names))
            for key, by_name in means(answers).items()
            if key[0] in (*CHARTED, *OVER_TIME) and not key[1].startswith(("queue=", "priority="))
        ]
        write_table((title.upper(), *names), rows, out, numbers=names)


def _mean_text(found: MeanInterval | None) -> str:
    if found is None:
        return "-"
    reach = "" if found.high is None else f" +- {number_text(found.high - found.mean)}"
    return f"{number_text(found.mean)}{reach}"


def write_comparison(found: Sequence[Compared], out: TextIO) -> None:
    """A row for each measure that differs; the rest is counted."""
    pairs = list(dict.fromkeys((each.input, each.change, each.configurations) for each in found))
    for number, (given, change, (a, b)) in enumerate(pairs):
        own = [each for each in found if (each.input, each.change, each.configurations) == (given, change, (a, b))]
        differing = [each for each in own if each.difference.mean or each.verdict != "equal"]
        if number:
            out.write("\n")
        seeds = counted(max(each.difference.number for each in own), "seed")
        out.write(f"{given}, {change}: {a} (A) and {b} (B), {seeds}\n")
        if differing:
            columns = ("MEASURE", "A", "B", "B - A", "95% FROM", "TO", "VERDICT")
            write_table(columns, [_compared_row(each) for each in differing], out, numbers=columns[1:6])
        out.write(f"{len(own) - len(differing)} of {len(own)} measures are equal for every seed\n")


def _compared_row(each: Compared) -> tuple[str, ...]:
    low, high = (("-" if end is None else number_text(end)) for end in (each.difference.low, each.difference.high))
    return (
        title_of(each.measure, each.of, each.unit),
        number_text(each.before),
        number_text(each.after),
        number_text(each.difference.mean),
        low,
        high,
        each.verdict.value,
    )
