"""The search itself: trials are chosen in batches by Optuna, computed, and told; the same file gives the same trials.

A batch is chosen before any of its trials is computed, so that the trials do not depend on how many are computed at a
time. What was computed before is not computed again, so a search that was interrupted goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from typing import Any, TypeAlias

from moorage.core.values import dataclass
from moorage.sim.experiments.candidates import candidate
from moorage.sim.experiments.searches import Parameter, SearchPlan, TuningGoal
from moorage.sim.tuning.halves import TuningError

Figures: TypeAlias = Mapping[tuple[str, str], float]
"""(measure, of) -> the mean over inputs, changes and seeds."""
Evaluate: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, Figures | Sequence[str]]]
"""Name -> text of configurations in; figures of each, or why it has none."""
_TODAY = "today"


@dataclass(frozen=True, slots=True)
class TriedConfiguration:
    """One configuration that was tried."""

    number: int
    values: Mapping[str, Any]
    """Name of a parameter -> its value."""
    text: str
    """The configuration."""
    objectives: tuple[float, ...] = ()
    """Empty if it could not be run."""
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class Searched:
    """All trials, and what the configuration of today is worth on the same half."""

    today: tuple[float, ...]
    trials: list[TriedConfiguration] = field(default_factory=list)

    @property
    def valid(self) -> list[TriedConfiguration]:
        """Those with figures."""
        return [each for each in self.trials if each.objectives]


def search(asked: SearchPlan, today: str, evaluate: Evaluate) -> Searched:
    """Run all trials; `today` is the configuration that is tuned. `TuningError` if none of them can be run."""
    optuna = _optuna()
    directions = ["maximize" if each.larger else "minimize" for each in asked.objectives]
    # The first batch is random. That must not depend on the number of trials, so that a longer search goes on.
    sampler = optuna.samplers.TPESampler(seed=asked.seed, n_startup_trials=asked.batch)
    study = optuna.create_study(directions=directions, sampler=sampler)
    if asked.today:
        study.enqueue_trial({each.name: _told(each, asked.today[each.name]) for each in _known(asked)})
    space = {each.name: _distribution(optuna, each) for each in asked.parameters}
    found = Searched(values_of(_one(evaluate({_TODAY: today}), _TODAY), asked.objectives))
    while len(found.trials) < asked.trials:
        number = min(asked.batch, asked.trials - len(found.trials))
        begun = [study.ask(space) for _ in range(number)]
        batch = [_trial(asked, each) for each in begun]
        answers = evaluate({f"trial-{each.number}": each.text for each in batch})
        for trial, each in zip(begun, batch, strict=True):
            done = _answered(each, answers[f"trial-{each.number}"], asked.objectives)
            found.trials.append(done)
            if done.objectives:
                study.tell(trial, done.objectives)
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
    if not found.valid:
        raise TuningError(f"no trial could be run: {'; '.join(found.trials[0].problems)}")
    return found


def values_of(figures: Figures, objectives: Sequence[TuningGoal]) -> tuple[float, ...]:
    """The objectives of a configuration; `TuningError` if the results do not have one."""
    for each in objectives:
        if (each.measure, each.of) not in figures:
            same = sorted(of for measure, of in figures if measure == each.measure)
            known = ", ".join(of or "nothing in particular" for of in same) or "nothing: the input has none of it"
            raise TuningError(f"search.objectives: the results have no {each}; {each.measure} is known of {known}")
    return tuple(figures[each.measure, each.of] for each in objectives)


def _optuna() -> Any:
    try:
        found = import_module("optuna")
    except ImportError as error:
        raise TuningError(f"{error.name} is not installed; run pip install 'moorage[tune]'") from None
    found.logging.set_verbosity(found.logging.ERROR)
    return found


def _known(asked: SearchPlan) -> list[Parameter]:
    return [each for each in asked.parameters if each.name in asked.today]


def _told(parameter: Parameter, value: Any) -> Any:
    """As the distribution has it: values are chosen by their place."""
    return parameter.values.index(value) if parameter.values else value


def _distribution(optuna: Any, parameter: Parameter) -> Any:
    kinds = optuna.distributions
    if parameter.values:
        return kinds.CategoricalDistribution([*range(len(parameter.values))])
    if parameter.whole:
        return kinds.IntDistribution(int(parameter.low), int(parameter.high), step=int(parameter.step or 1))
    return kinds.FloatDistribution(float(parameter.low), float(parameter.high), step=parameter.step)


def _trial(asked: SearchPlan, trial: Any) -> TriedConfiguration:
    values = {}
    for each in asked.parameters:
        chosen = trial.params[each.name]
        values[each.name] = each.values[chosen] if each.values else chosen
    placed = {(each.plugin, each.argument): values[each.name] for each in asked.parameters}
    return TriedConfiguration(trial.number + 1, values, candidate(asked.base, placed))


def _answered(
    trial: TriedConfiguration, answer: Figures | Sequence[str], objectives: Sequence[TuningGoal]
) -> TriedConfiguration:
    if isinstance(answer, Mapping):
        return TriedConfiguration(trial.number, trial.values, trial.text, values_of(answer, objectives))
    return TriedConfiguration(trial.number, trial.values, trial.text, problems=tuple(answer))


def _one(answers: Mapping[str, Figures | Sequence[str]], name: str) -> Figures:
    answer = answers[name]
    if isinstance(answer, Mapping):
        return answer
    raise TuningError(f"the configuration that is tuned cannot be run: {'; '.join(answer)}")
