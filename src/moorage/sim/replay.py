"""What another configuration would have decided: the events of a journal, decided anew.

What came from outside is told at the times at which it happened: nodes, other objects, pods that came, ended or were
deleted. What followed from the recorded decisions is left out, and follows from the new ones instead: a bind succeeds
and the pod is seen on its node, an eviction succeeds and the pod is gone, a status that was written is seen. So the
outcome is what a run with the new configuration would have decided on the same cluster.

What cannot be told apart counts as having come from outside: pods that controllers made in place of evicted ones, and
what volume controllers did for recorded binds. HTTP extenders are not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path

from moorage.adapters.journal.reader import JournalReader
from moorage.adapters.journal.records import Image, Record, RecordedTurn, Start, commands_of
from moorage.adapters.journal.replaying import engine_of
from moorage.adapters.journal.timeline import known_to
from moorage.core.events import ConfigurationChanged, Event
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.alternative import Alternative
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile
from moorage.framework.registry import Registry
from moorage.sim.simulation import SimulationWatcher

_STEP = 32
"""Pods decided per call, as the scheduler does."""
_MOST_FRUITLESS = 1_000
"""Tries in a row, between two recorded turns, that lead to nothing: a scheduler's turns are never that far apart."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a pod was placed, and where it would have been; None: nowhere."""

    pod: str
    """`namespace/name`."""
    uid: str
    recorded: str | None
    decided: str | None


@dataclass(frozen=True, slots=True)
class Observing:
    """How an experiment decides anew: what looks on, and what is not as it was recorded."""

    watcher: SimulationWatcher | None = None
    seed: int | None = None
    """Breaks ties instead of the recorded one."""
    answers_to_all: bool = False
    """Whether the first profile decides for pods of every scheduler name."""


@dataclass(slots=True)
class Rerun:
    """What came of deciding anew."""

    placements: list[Placement] = field(default_factory=list)
    """Of every pod that either of them decided on, in order of arrival."""
    recorded_evictions: list[str] = field(default_factory=list)
    evictions: list[str] = field(default_factory=list)
    began_s: float | None = None
    ended_s: float | None = None
    engine: Engine | None = None
    """What decided, as it was at the end; None if the journal is empty."""
    turns: int = 0
    events: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def differences(self) -> list[Placement]:
        """The pods that would stand elsewhere."""
        return [each for each in self.placements if each.recorded != each.decided]


def rerun(
    folder: Path,
    registry: Registry,
    configuration: Configuration,
    profiles: Sequence[Profile],
    observing: Observing | None = None,
) -> Rerun:
    """Decide everything in a journal anew; `ReadError` where it cannot be read."""
    reader = JournalReader(folder)
    player = _Player(registry, configuration, profiles, observing or Observing())
    for record in reader.records():
        player.play(record)
    result = player.finish()
    result.warnings += reader.warnings
    return result


class _Player:
    def __init__(
        self, registry: Registry, configuration: Configuration, profiles: Sequence[Profile], observing: Observing
    ) -> None:
        self._registry = registry
        self._observing = observing
        self._configuration = configuration
        self._profiles = profiles
        self._engine: Engine | None = None
        self._start: Start | None = None
        self._known = False
        """Whether the engine knows what the recorded one knew where the segment begins."""
        self._result = Rerun()
        self._now_s = 0.0
        self._wakeup_s: float | None = None
        self._deciding = False
        self._outcome = Alternative()

    def play(self, record: Record) -> None:
        if isinstance(record, RecordedTurn):
            self._turn(record)
        elif isinstance(record, Start):
            self._begin(record)
        elif isinstance(record, Image) and not self._known:
            recorded = engine_of(record, self._start, self._registry)
            self._tell(known_to(recorded), 0)

    def _begin(self, start: Start) -> None:
        before, self._start = self._start, start
        self._known = before is not None and before.run == start.run and not start.gap
        self._now_s = start.time_s
        if self._engine is None:
            observing, seed = self._observing, self._observing.seed
            settings = EngineSettings.of(self._configuration, start.seed if seed is None else seed)
            settings = replace(settings, extenders=())
            self._engine = Engine(self._profiles, settings, answers_to_all=observing.answers_to_all)
            self._tell(settings.beginning(), 0)
            if observing.watcher is not None:
                observing.watcher.begin(self._engine, self._now_s, None)
        elif not self._known:
            self._warn(
                "something is missing in the journal, or the scheduler was started again; what went away then is kept"
            )

    def _turn(self, turn: RecordedTurn) -> None:
        self._run_until(turn.now_s)
        result = self._result
        result.began_s = turn.now_s if result.began_s is None else result.began_s
        result.ended_s = turn.now_s
        result.turns += 1
        result.events += len(turn.events)
        if any(isinstance(event, ConfigurationChanged) for event in turn.events):
            self._warn("the configuration was changed while the journal was written; here it stays as given")
        self._deciding = turn.budget > 0 or (self._deciding and bool(turn.events))
        self._now_s = max(self._now_s, turn.now_s)
        self._tell(turn.events, turn.budget)
        self._outcome.recorded(commands_of(turn.commands))
        self._run_until(turn.now_s, inclusive=True)

    def _tell(self, events: Iterable[Event], budget: int) -> None:
        outcome = self._outcome
        translated = [*outcome.answers(), *outcome.translated(events)]
        if self._engine is None:
            return
        watcher = self._observing.watcher
        if watcher is not None:
            watcher.until(self._engine, self._now_s)
        commands, self._wakeup_s = self._engine.handle(translated, self._now_s, budget)
        if watcher is not None:
            watcher.turn(self._engine, self._now_s, translated, commands)
        outcome.decided(commands)

    def _run_until(self, until_s: float, *, inclusive: bool = False) -> None:
        """Go on deciding while something is to be decided before the next recorded turn."""
        fruitless = 0
        while self._deciding and (self._outcome.waiting or self._is_due(until_s, inclusive=inclusive)):
            before = (self._now_s, self._wakeup_s)
            if self._wakeup_s is not None and self._is_due(until_s, inclusive=inclusive):
                self._now_s = max(self._now_s, self._wakeup_s)
            self._tell((), _STEP)
            if self._outcome.waiting:
                fruitless = 0
                continue
            fruitless += 1
            if fruitless > _MOST_FRUITLESS:
                self._warn(f"nothing was recorded for long before {until_s:.3f}; retries in between are left out")
            if fruitless > _MOST_FRUITLESS or before == (self._now_s, self._wakeup_s):
                return

    def _is_due(self, until_s: float, *, inclusive: bool) -> bool:
        wakeup_s = self._wakeup_s
        return wakeup_s is not None and (wakeup_s < until_s or (inclusive and wakeup_s <= until_s))

    def finish(self) -> Rerun:
        self._run_until(self._now_s, inclusive=True)
        result, outcome = self._result, self._outcome
        for uid, pod in outcome.arrived.items():
            recorded, decided = outcome.recorded_nodes.get(uid), outcome.nodes.get(uid)
            if recorded is not None or decided is not None or self._answers_to(pod):
                result.placements.append(Placement(pod.key, uid, recorded, decided))
        result.recorded_evictions = list(outcome.recorded_evictions.values())
        result.evictions = list(outcome.evictions.values())
        result.engine = self._engine
        return result

    def _answers_to(self, pod: Pod) -> bool:
        return self._engine is not None and self._engine.runner_of(pod) is not None

    def _warn(self, text: str) -> None:
        if text not in self._result.warnings:
            self._result.warnings.append(text)
