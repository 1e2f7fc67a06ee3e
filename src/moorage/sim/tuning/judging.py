"""What the search found, judged on the half that it has not seen.

Which compromise is chosen is decided by the half that was searched alone; the other half only says what it is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from moorage.core.values import dataclass
from moorage.sim.experiments.comparing import Compared, DifferenceVerdict, compare
from moorage.sim.experiments.results import ResultRow
from moorage.sim.experiments.searches import SearchPlan, TuningGoal
from moorage.sim.tuning.searching import Searched, TriedConfiguration

MOST_JUDGED = 8
"""Compromises that are judged, evenly chosen from the front."""


def front(searched: Searched, objectives: Sequence[TuningGoal]) -> list[TriedConfiguration]:
    """The best trials, each better in something than every other; best in the first objective first.

    Equal values count once, and the trial that came first has them.
    """
    distinct: dict[tuple[float, ...], TriedConfiguration] = {}
    for trial in searched.valid:
        distinct.setdefault(trial.objectives, trial)
    scored = {goodness(trial.objectives, objectives): trial for trial in distinct.values()}
    best = [trial for score, trial in scored.items() if not any(_beats(other, score) for other in scored)]
    return sorted(best, key=lambda trial: goodness(trial.objectives, objectives), reverse=True)


def goodness(values: Sequence[float], objectives: Sequence[TuningGoal]) -> tuple[float, ...]:
    """The values so that more is better."""
    return tuple(value if each.larger else -value for value, each in zip(values, objectives, strict=True))


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def thinned(trials: Sequence[TriedConfiguration], most: int = MOST_JUDGED) -> list[TriedConfiguration]:
    """At most so many, evenly chosen, with the first and the last."""
    if len(trials) <= most:
        return list(trials)
    return [trials[round(at * (len(trials) - 1) / (most - 1))] for at in range(most)]


def choose(trials: Sequence[TriedConfiguration], today: Sequence[float], objectives: Sequence[TuningGoal]) -> int:
    """Which compromise: the best in the first objective of those that lose nothing against today; else the first."""
    now = goodness(today, objectives)
    for index, trial in enumerate(trials):
        if all(a >= b for a, b in zip(goodness(trial.objectives, objectives), now, strict=True)):
            return index
    return 0


@dataclass(frozen=True, slots=True)
class Appraisal:
    """A configuration beside today's, on the half that the search has not seen."""

    name: str
    compared: Sequence[Compared]
    """All measures, paired over seeds."""
    objectives: Sequence[Sequence[Compared]]
    """Those of each objective, one for each input and change."""

    @property
    def better(self) -> bool:
        """Whether it is really better in an objective and in none really worse."""
        verdicts = {each.verdict for found in self.objectives for each in found}
        return DifferenceVerdict.BETTER in verdicts and DifferenceVerdict.WORSE not in verdicts

    @property
    def gained(self) -> Iterator[Compared]:
        """What is really better."""
        return (each for each in self.compared if each.verdict is DifferenceVerdict.BETTER)

    @property
    def lost(self) -> Iterator[Compared]:
        """What is really worse."""
        return (each for each in self.compared if each.verdict is DifferenceVerdict.WORSE)


def judge(rows: Sequence[ResultRow], asked: SearchPlan, name: str) -> Appraisal:
    """A configuration against the one that is tuned; objectives are judged by themselves, without the other measures.

    A goal that is not the usual one of its measure turns the verdict around.
    """
    own = [row for row in rows if row.configuration == name]
    today = [row for row in rows if row.configuration == asked.configuration]
    wanted = {(each.measure, each.of): each for each in asked.objectives}
    about = [[row for row in side if (row.measure, row.of) in wanted] for side in (today, own)]
    found = compare(about[0], about[1], asked.configuration, name)
    objectives = [
        [_towards(each, objective) for each in found if (each.measure, each.of) == key]
        for key, objective in wanted.items()
    ]
    return Appraisal(name, compare(today, own, asked.configuration, name), objectives)


def _towards(compared: Compared, objective: TuningGoal) -> Compared:
    if compared.verdict not in (DifferenceVerdict.BETTER, DifferenceVerdict.WORSE, DifferenceVerdict.OTHER):
        return compared
    better = (compared.difference.mean > 0) == objective.larger
    return replace(compared, verdict=DifferenceVerdict.BETTER if better else DifferenceVerdict.WORSE)
