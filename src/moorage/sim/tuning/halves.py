"""The two halves of an experiment's input: one to search with, the other to judge what was found.

Pods of traces and generators are divided: every other one belongs to the same half, and every seed is used for both.
Inputs that have no arrivals cannot be divided, so there the seeds are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moorage.core.phrases import counted
from moorage.core.values import dataclass
from moorage.sim.experiments.document import Experiment
from moorage.sim.experiments.searches import SearchPlan
from moorage.sim.experiments.sources import GENERATOR, TRACE

_ARRIVE = (TRACE, GENERATOR)


class TuningError(ValueError):
    """A search that is not possible; the text is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Halves:
    """Experiments on the halves; their configurations are replaced by those that are tried."""

    searched: Experiment
    judged: Experiment
    searched_text: str
    """What it is, in words."""
    judged_text: str


def halves_of(experiment: Experiment, search: SearchPlan) -> Halves:
    """Divide an experiment; `TuningError` if it has too few seeds for that."""
    wanted = {objective.group for objective in search.objectives}
    measures = [*experiment.measures, *sorted(wanted - {*experiment.measures})]
    names = ", ".join(given["name"] for given in experiment.inputs)
    seeds = list(experiment.seeds)
    if all(given["kind"] in _ARRIVE for given in experiment.inputs):
        first = seeds[: search.seeds]
        searched = replace(experiment, seeds=first, measures=sorted(wanted), split=(0, 2))
        judged = replace(experiment, measures=measures, split=(1, 2))
        return Halves(
            searched,
            judged,
            f"every other pod of {names}, {_seeds(first)}",
            f"the other pods of {names}, {_seeds(seeds)}",
        )
    if len(seeds) < 2:
        raise TuningError("seeds: one seed cannot be divided into a half to search with and one to judge; write 10")
    half = len(seeds) // 2
    first, rest = seeds[:half][: search.seeds], seeds[half:]
    searched = replace(experiment, seeds=first, measures=sorted(wanted))
    judged = replace(experiment, seeds=rest, measures=measures)
    return Halves(searched, judged, f"{names}, {_seeds(first)}", f"{names}, {_seeds(rest)}")


def _seeds(seeds: Iterable[int]) -> str:
    found = list(seeds)
    if len(found) > 2 and found == [*range(found[0], found[-1] + 1)]:
        return f"seeds {found[0]} to {found[-1]}"
    some = ", ".join(map(str, found[:10]))
    return f"{counted(len(found), 'seed')} ({some}{', ...' if len(found) > 10 else ''})"
