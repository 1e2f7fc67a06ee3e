"""The two stages of tuning on an experiment's runners: search on one half, judge on the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from moorage.core.values import dataclass
from moorage.sim.experiments.conduct import Conducted, ExperimentProgress
from moorage.sim.experiments.document import Experiment
from moorage.sim.experiments.results import ResultRow
from moorage.sim.experiments.searches import SearchPlan, front_name
from moorage.sim.tuning.halves import Halves, TuningError
from moorage.sim.tuning.judging import Appraisal, choose, front, judge, thinned
from moorage.sim.tuning.searching import Figures, Searched, TriedConfiguration, search

Conduct: TypeAlias = Callable[[Experiment, Callable[[ExperimentProgress], None]], Conducted]
"""Runs all combinations of an experiment that have no result yet."""
Tell: TypeAlias = Callable[[ExperimentProgress], None]


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of it."""

    searched: Searched
    front: Sequence[TriedConfiguration]
    """The compromises that were judged."""
    chosen: int
    """Which of them."""
    appraisals: Mapping[str, Appraisal]
    """Name of a configuration, `tuned-1` and so on for the front -> what it is worth beside today's."""
    rows: Sequence[ResultRow]
    """Of the half that judges."""

    @property
    def appraisal(self) -> Appraisal:
        """Of the one that was chosen."""
        return self.appraisals[front_name(self.chosen)]


def run_search(halves: Halves, asked: SearchPlan, conduct: Conduct, tell: Tell) -> Searched:
    """The first stage."""
    given = halves.searched
    each = given.number // len(given.configurations)
    total = ExperimentProgress(0, 0, 0, each * (asked.trials + 1))

    def evaluate(configurations: Mapping[str, str]) -> Mapping[str, Figures | Sequence[str]]:
        nonlocal total
        before = total

        def told(progress: ExperimentProgress) -> None:
            nonlocal total
            total = ExperimentProgress(
                before.done + progress.done,
                before.failed + progress.failed,
                before.before + progress.before,
                before.number,
            )
            tell(total)

        return _figures(configurations, conduct(replace(given, configurations=configurations), told))

    return search(asked, given.configurations[asked.configuration], evaluate)


def _figures(names: Mapping[str, str], conducted: Conducted) -> dict[str, Figures | Sequence[str]]:
    """Means over inputs, changes and seeds; a configuration of which a combination failed has none."""
    values: dict[str, dict[tuple[str, str], list[float]]] = {name: {} for name in names}
    for row in conducted.rows():
        values[row.configuration].setdefault((row.measure, row.of), []).append(row.value)
    found: dict[str, Figures | Sequence[str]] = {
        name: {key: sum(each) / len(each) for key, each in by_key.items()} for name, by_key in values.items()
    }
    for combination, why in conducted.failures.items():
        found[combination.configuration] = [f"{combination}: {'; '.join(why)}"]
    return found


def run_appraisal(
    halves: Halves, asked: SearchPlan, searched: Searched, conduct: Conduct, tell: Tell, choice: int | None = None
) -> Tuned:
    """The second stage: the front, and all configurations of the file; `choice` is a place in the front."""
    judged = thinned(front(searched, asked.objectives))
    if choice is not None and choice >= len(judged):
        raise TuningError(f"--choose: there are {len(judged)} compromises; name one of them")
    chosen = choose(judged, searched.today, asked.objectives) if choice is None else choice
    names = {front_name(index): trial.text for index, trial in enumerate(judged)}
    given = replace(halves.judged, configurations={**halves.judged.configurations, **names})
    conducted = conduct(given, tell)
    for combination, why in conducted.failures.items():
        raise TuningError(f"{combination}: {'; '.join(why)}")
    rows = [*conducted.rows()]
    appraisals = {name: judge(rows, asked, name) for name in given.configurations if name != asked.configuration}
    return Tuned(searched, judged, chosen, appraisals, rows)
