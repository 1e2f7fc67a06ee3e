"""The `search` of an experiment: which weights and arguments of a profile are searched, and for what.

Everything is tried on the configuration while the file is read: a range whose ends a plugin refuses is a problem of the
file, not of the hundredth trial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from moorage.core.values import dataclass
from moorage.framework.registry import Registry
from moorage.sim.experiments.candidates import Base, CandidateError, base_of, candidate
from moorage.sim.experiments.goals import better_larger
from moorage.sim.experiments.shapes import ObjectiveShape, ParameterShape, SearchShape
from moorage.sim.whatif_changes import did_you_mean
from moorage.wire.configuration import read_configuration
from moorage.wire.configuration.findings import Findings, at_least
from moorage.wire.problems import ABSENT

MOST_PARAMETERS, MOST_VALUES, MOST_TRIALS, MOST_OBJECTIVES = 50, 100, 10_000, 2
TRIALS, BATCH = 64, 8
LARGEST_WEIGHT = 10_000
_GROUPS: Mapping[str, str] = {
    "allocated": "allocated", "fragmented": "fragmented", "pending": "pending", "placed": "pending",
    "evictions": "evictions", "moves": "moves", "cost": "cost", "nodes-in-use": "cost", "fairness": "fairness",
    "waiting-p50": "waiting", "waiting-p95": "waiting", "waiting-p99": "waiting", "spread-violations": "violations",
    "spread-uneven": "violations", "strategy-violations": "violations",
}  # fmt: skip
"""Figure -> the measure of an experiment that has it."""
_MEAN = "-mean"
_OVER_TIME = ("allocated", "fragmented", "pending", "cost", "nodes-in-use", "fairness")
_CLOSE = 1e-6
_LARGEST = 1_000_000_000_000
_LARGEST_SEED = 2**32 - 1
"""That the sampler takes."""
_PATH = re.compile(r"[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something that is searched: a range of numbers, or values."""

    plugin: str
    argument: str
    """The path of an argument, such as `scoringStrategy.type`; empty for the plugin's weight at Score."""
    low: float = 0
    high: float = 0
    step: float | None = None
    values: tuple[Any, ...] = ()
    """If there are any, these are tried, and there is no range."""

    @property
    def name(self) -> str:
        """`Fragmentation weight`, `NodeResourcesFit scoringStrategy.type`."""
        return f"{self.plugin} {self.argument or 'weight'}"

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return all(isinstance(each, int) for each in (self.low, self.high, self.step or 1))


def front_name(index: int) -> str:
    """What the configuration of a compromise is called that a search finds."""
    return f"tuned-{index + 1}"


_FRONT = re.compile("tuned-[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class TuningGoal:
    """A figure that is to become larger or smaller."""

    measure: str
    of: str
    larger: bool

    @property
    def group(self) -> str:
        """The measure of an experiment that has it."""
        return _GROUPS[self.measure.removesuffix(_MEAN)]

    def __str__(self) -> str:
        return f"{self.measure} {self.of}".strip()


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """What is searched, and how."""

    configuration: str
    """The name of the configuration that is tuned."""
    base: Base
    parameters: tuple[Parameter, ...]
    objectives: tuple[TuningGoal, ...]
    trials: int = TRIALS
    batch: int = BATCH
    """Trials that are chosen together, and can be computed at the same time."""
    seed: int = 0
    """Of the search itself."""
    seeds: int | None = None
    """How many of the experiment's seeds a trial is run with; None: all."""
    today: Mapping[str, Any] = field(default_factory=dict)
    """Name of a parameter -> its value in the configuration, where that is known and within the range."""


class SearchReader:
    """Reads the section; problems go to `findings`."""

    def __init__(self, configurations: Mapping[str, str], registry: Registry, findings: Findings) -> None:
        self._configurations = configurations
        self._registry = registry
        self._findings = findings

    def read(self, shape: SearchShape) -> SearchPlan | None:
        """The search; None if there are problems."""
        findings, before = self._findings, len(self._findings.problems)
        name = shape.configuration or next(iter(self._configurations))
        if name not in self._configurations:
            remedy = did_you_mean(name, [*self._configurations])
            findings.problem("search.configuration", name, f"is not a configuration of this file; {remedy}")
            return None
        for each in filter(_FRONT.fullmatch, self._configurations):
            findings.problem("configurations", each, "is the name of what a search finds; call it something else")
        objectives = self._objectives(shape.objectives)
        parameters = self._parameters(shape.parameters)
        trials = at_least(shape.trials, 1, "search.trials", findings)
        batch = at_least(shape.batch, 1, "search.batch", findings)
        seed = at_least(shape.seed, 0, "search.seed", findings)
        at_least(shape.seeds, 1, "search.seeds", findings)
        limits = (("trials", trials, MOST_TRIALS), ("batch", batch, MOST_TRIALS), ("seed", seed, _LARGEST_SEED))
        for field_name, number, most in limits:
            if number is not None and number > most:
                findings.problem(f"search.{field_name}", number, f"{most} is the most")
        base = None if len(findings.problems) > before else self._base(name, shape.profile or "")
        if base is None:
            return None
        self._try_all(base, parameters)
        if len(findings.problems) > before:
            return None
        today = {each.name: value for each in parameters if (value := self._value_today(base, each)) is not None}
        return SearchPlan(
            name, base, tuple(parameters), tuple(objectives), trials or TRIALS, batch or BATCH, seed or 0,
            shape.seeds, today,
        )  # fmt: skip

    def _base(self, name: str, profile: str) -> Base | None:
        try:
            return base_of(self._configurations[name], profile, self._registry)
        except CandidateError as error:
            self._findings.problem("search.profile", profile or ABSENT, str(error))
            return None

    # --- what for ---

    def _objectives(self, shapes: Sequence[ObjectiveShape]) -> list[TuningGoal]:
        if not 1 <= len(shapes) <= MOST_OBJECTIVES:
            remedy = f"write 1 or {MOST_OBJECTIVES}, such as {{measure: allocated, of: cpu}}"
            self._findings.problem("search.objectives", len(shapes), remedy)
        found = [self._objective(f"search.objectives[{index}]", shape) for index, shape in enumerate(shapes)]
        names = [str(each) for each in found if each is not None]
        if len(set(names)) < len(names):
            self._findings.problem("search.objectives", names[0], "stands twice; remove one")
        return [each for each in found if each is not None]

    def _objective(self, path: str, shape: ObjectiveShape) -> TuningGoal | None:
        known = [*_GROUPS, *(f"{name}{_MEAN}" for name in _OVER_TIME)]
        if shape.measure not in known:
            self._findings.problem(
                f"{path}.measure", shape.measure, f"is not known; {did_you_mean(shape.measure, known)}"
            )
            return None
        goals = {"": better_larger(shape.measure), "maximize": True, "minimize": False}
        if shape.goal not in goals:
            self._findings.problem(f"{path}.goal", shape.goal, "write maximize or minimize, or leave it out")
            return None
        return TuningGoal(shape.measure, shape.of, bool(goals[shape.goal]))

    # --- what is searched ---

    def _parameters(self, shapes: Sequence[ParameterShape]) -> list[Parameter]:
        if not 1 <= len(shapes) <= MOST_PARAMETERS:
            self._findings.problem("search.parameters", len(shapes), f"write 1 to {MOST_PARAMETERS}")
        found: list[Parameter] = []
        for index, shape in enumerate(shapes):
            path = f"search.parameters[{index}]"
            if shape.argument and not _PATH.fullmatch(shape.argument):
                self._findings.problem(f"{path}.argument", shape.argument, "write a path such as scoringStrategy.type")
            made = self._values(path, shape) if shape.values is not None else self._range(path, shape)
            if any(each.name == made.name for each in found):
                self._findings.problem(path, made.name, "stands twice; remove one")
            found.append(made)
        return found

    def _values(self, path: str, shape: ParameterShape) -> Parameter:
        if any(each is not None for each in (shape.min, shape.max, shape.step)):
            self._findings.problem(path, ABSENT, "has both values and a range; remove one")
        values = shape.values or []
        if not 1 <= len(values) <= MOST_VALUES:
            self._findings.problem(f"{path}.values", len(values), f"write 1 to {MOST_VALUES} values")
        if not shape.argument:
            for index, value in enumerate(values):
                if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_WEIGHT:
                    remedy = f"a weight is a whole number from 0 to {LARGEST_WEIGHT}"
                    self._findings.problem(f"{path}.values[{index}]", value, remedy)
        return Parameter(shape.plugin, shape.argument, values=tuple(values))

    def _range(self, path: str, shape: ParameterShape) -> Parameter:
        low, high, step = shape.min, shape.max, shape.step
        for name, number in (("min", low), ("max", high)):
            if number is None:
                self._findings.problem(f"{path}.{name}", ABSENT, "required; write min and max, or values")
        for name, number in (("min", low), ("max", high), ("step", step)):
            if number is not None and abs(number) > _LARGEST:
                self._findings.problem(f"{path}.{name}", number, f"must be from {-_LARGEST} to {_LARGEST}")
                return Parameter(shape.plugin, shape.argument)
        low, high = low or 0, high or 0
        if low > high:
            self._findings.problem(f"{path}.max", high, f"must not be less than min, which is {low}")
        if step is not None and step <= 0:
            self._findings.problem(f"{path}.step", step, "must be more than 0")
        elif step is not None and (high - low) / step > _LARGEST:
            self._findings.problem(f"{path}.step", step, f"makes more than {_LARGEST} steps; write a larger one")
        elif step is not None and high > low and not _on_grid(high - low, step):
            self._findings.problem(f"{path}.step", step, f"must divide max - min, which is {high - low:g}")
        found = Parameter(shape.plugin, shape.argument, low, high, step)
        if not shape.argument and (not found.whole or low < 0 or high > LARGEST_WEIGHT):
            remedy = f"a weight is a whole number from 0, which turns the score off, to {LARGEST_WEIGHT}"
            self._findings.problem(path, ABSENT, remedy)
        return found

    def _try_all(self, base: Base, parameters: Sequence[Parameter]) -> None:
        """Each parameter at its ends, or with each of its values, the others as they are."""
        if self._findings.problems:
            return
        for index, each in enumerate(parameters):
            for value in each.values or (each.low, each.high):
                text = candidate(base, {(each.plugin, each.argument): value})
                place = f"{self._findings.source}: search.parameters[{index}] as {value!r}"
                self._findings.problems += read_configuration(text.encode(), place, self._registry).problems

    def _value_today(self, base: Base, parameter: Parameter) -> Any:
        value = base.argument(parameter.plugin, parameter.argument)
        if not parameter.argument:
            value = base.weights.get(parameter.plugin, 0)
        if parameter.values:
            return value if value in parameter.values else None
        known = isinstance(value, int if parameter.whole else (int, float)) and not isinstance(value, bool)
        if not known or not parameter.low <= value <= parameter.high:
            return None
        return value if parameter.step is None or _on_grid(value - parameter.low, parameter.step) else None


def _on_grid(distance: float, step: float) -> bool:
    steps = distance / step
    return abs(steps - round(steps)) < _CLOSE
