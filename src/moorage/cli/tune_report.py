"""What `moorage tune` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from moorage.core.phrases import counted
from moorage.sim.experiments.charts import number_text
from moorage.sim.experiments.comparing import Compared, comparison_document
from moorage.sim.experiments.searches import SearchPlan, front_name
from moorage.sim.tables import write_table
from moorage.sim.tuning.halves import Halves
from moorage.sim.tuning.stages import Tuned
from moorage.sim.tuning.tunedfile import effects, value_text


def write_tuning(asked: SearchPlan, halves: Halves, tuned: Tuned, out: TextIO) -> None:
    """The front of best compromises, what it is worth, and whether that is better than today's configuration."""
    names = " and ".join(str(each) for each in asked.objectives)
    out.write(f"Searched with {halves.searched_text}; judged with {halves.judged_text}.\n")
    failed = len(tuned.searched.trials) - len(tuned.searched.valid)
    note = f", {failed} of which could not be run" if failed else ""
    out.write(f"{counted(len(tuned.searched.trials), 'trial')}{note}. The best for {names}, where it was searched:\n\n")
    objectives = [str(each) for each in asked.objectives]
    columns = ("", "TRIAL", *objectives, "VALUES")
    write_table(columns, [*_front_rows(asked, tuned)], out, numbers=["TRIAL", *objectives])
    out.write(f"\nWhere it was not searched, beside {asked.configuration}:\n\n")
    columns = ("CONFIGURATION", "INPUT", "MEASURE", "TODAY", "IT", "DIFFERENCE", "95% FROM", "TO", "VERDICT")
    write_table(columns, [*_judged_rows(tuned)], out, numbers=columns[3:8])
    name = front_name(tuned.chosen)
    out.write("\n")
    if tuned.appraisal.better:
        out.write(f"{name} is better than {asked.configuration}. What changes for certain:\n")
        out.writelines(f"  {line}\n" for line in effects(tuned))
    else:
        out.write(f"Nothing that was found is better than {asked.configuration}; keep it.\n")


def _front_rows(asked: SearchPlan, tuned: Tuned) -> Iterator[tuple[str, ...]]:
    today = ", ".join(f"{name} {value_text(value)}" for name, value in asked.today.items())
    yield asked.configuration, "-", *map(number_text, tuned.searched.today), today
    for index, trial in enumerate(tuned.front):
        values = ", ".join(f"{name} {value_text(value)}" for name, value in trial.values.items())
        mark = " (chosen)" if index == tuned.chosen else ""
        yield f"{front_name(index)}{mark}", str(trial.number), *map(number_text, trial.objectives), values


def _judged_rows(tuned: Tuned) -> Iterator[tuple[str, ...]]:
    for name, appraisal in tuned.appraisals.items():
        for each in (each for found in appraisal.objectives for each in found):
            yield name, *_figures(each)


def _figures(each: Compared) -> tuple[str, ...]:
    where = each.input if each.change == "none" else f"{each.input}, {each.change}"
    ends = ("-" if end is None else number_text(end) for end in (each.difference.low, each.difference.high))
    means = (number_text(value) for value in (each.before, each.after, each.difference.mean))
    return where, f"{each.measure} {each.of}".strip(), *means, *ends, each.verdict.value


def tuning_document(asked: SearchPlan, halves: Halves, tuned: Tuned, written: str, replay: str) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "configuration": asked.configuration,
        "searched": halves.searched_text,
        "judged": halves.judged_text,
        "objectives": [
            {"measure": each.measure, "of": each.of, "goal": "maximize" if each.larger else "minimize"}
            for each in asked.objectives
        ],
        "today": _objectives(asked, tuned.searched.today),
        "trials": [
            {
                "trial": each.number,
                "values": dict(each.values),
                "objectives": _objectives(asked, each.objectives),
                "problems": list(each.problems),
            }
            for each in tuned.searched.trials
        ],
        "front": [
            {"name": front_name(index), "trial": each.number, "values": dict(each.values)}
            for index, each in enumerate(tuned.front)
        ],
        "comparisons": {name: comparison_document(each.compared) for name, each in tuned.appraisals.items()},
        "chosen": front_name(tuned.chosen),
        "better": tuned.appraisal.better,
        "file": written or None,
        "replay": replay if written else None,
    }


def _objectives(asked: SearchPlan, values: Sequence[float]) -> dict[str, float]:
    return {str(each): value for each, value in zip(asked.objectives, values, strict=False)}
