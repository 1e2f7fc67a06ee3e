"""The stage: an embedded cluster, the engine that decides for it, and a scenario that keeps both busy.

`advance` is the only way on. It goes from moment to moment (acts, timers of the cluster, wake-ups of the engine), so
what happens does not depend on how large the caller's steps are: same scenario, seed and rules, same demo.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from moorage.adapters.memory.cluster import LIFELIKE, EmbeddedCluster
from moorage.adapters.memory.runner import CommandRunner
from moorage.core.commands import Bind, Command
from moorage.core.events import BindDone, Event, KeeperEvent
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.explain import explain
from moorage.engine.keeping.keeper import Keeper
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.sim.demo.chronicle import Chronicle
from moorage.sim.demo.scenario import Scenario
from moorage.sim.feed import Feed
from moorage.sim.simulation import SimulationRules
from moorage.views.words import Happening
from moorage.wire.workloadkinds import workloads_in

T = TypeVar("T")
RATE_WINDOW_S = 5.0
_MOST_ROUNDS = 1000
"""Rounds of deciding and carrying out within one moment; more would mean that controllers keep undoing each other's
changes."""
_KEPT_EVENTS = 200


@dataclass(slots=True)
class Counts:
    """How much there was to decide."""

    decisions: int = 0
    """Attempts, successful or not."""
    deciding_s: float = 0.0
    """Wall clock time that the engine spent on them."""


class DemoStage:
    """One demo on its way; times are in seconds since its start."""

    def __init__(
        self, scenario: Scenario, rules: SimulationRules, *, stopwatch_s: Callable[[], float] = time.perf_counter
    ) -> None:
        self.cluster = EmbeddedCluster(LIFELIKE, seed=rules.settings.seed)
        self.engine = Engine(rules.profiles, rules.settings, answers_to_all=True, observer=self._observe)
        self.counts = Counts()
        self._began_s = self.cluster.now_s
        self.chronicle = Chronicle(self.cluster, self._began_s)
        self._runner = CommandRunner(self.cluster.store, keep_events=_KEPT_EVENTS)
        self._stopwatch_s = stopwatch_s
        self._scores: dict[str, dict[str, int]] = {}
        """Uid of a pod that is being decided on -> total score of each node that fits."""
        self._explaining_s = 0.0
        self._decided_s: deque[float] = deque()
        self._wake_s: float | None = None
        self.keeper: Keeper | None = None
        if scenario.keeper is not None and _has(rules, scenario.keeper_needs):
            self.keeper = Keeper(rules.profiles, scenario.keeper, seed=rules.settings.seed)
        self._keeper_wake_s: float | None = None
        self._untold: list[Event] = rules.settings.beginning()
        """What the engine has to hear before anything else."""
        self._acts = scenario.acts()
        self._next_act = next(self._acts, None)
        for node in scenario.nodes:
            self.cluster.create(node)
        self._feed = Feed(self.cluster, workloads=workloads_in(rules.settings.every(rules.profiles)))

    @property
    def elapsed_s(self) -> float:
        """How far the demo has come."""
        return self.cluster.now_s - self._began_s

    @property
    def decisions_per_s(self) -> float:
        """Of the last few seconds."""
        since_s = self.elapsed_s - RATE_WINDOW_S
        while self._decided_s and self._decided_s[0] < since_s:
            self._decided_s.popleft()
        return len(self._decided_s) / RATE_WINDOW_S

    def advance(self, to_s: float) -> Sequence[Happening]:
        """Let everything happen that is due until then; what did."""
        while (next_s := self._next_s()) <= to_s:
            self.cluster.advance(self._began_s + max(next_s, self.elapsed_s))
            self._perform(next_s)
            self._settle()
        self.cluster.advance(max(self.cluster.now_s, self._began_s + to_s))
        return self.chronicle.take()

    def act(self, deed: Callable[[EmbeddedCluster], T]) -> T:
        """A user of the dashboard changes the cluster; all controllers react at once. Returns the result of the
        change.
        """
        given = deed(self.cluster)
        self._settle()
        return given

    def _next_s(self) -> float:
        """The next moment at which something happens."""
        times = [self.cluster.next_s, self._wake_s, self._keeper_wake_s]
        due_s = min((moment for moment in times if moment is not None), default=float("inf")) - self._began_s
        return due_s if self._next_act is None else min(due_s, self._next_act[0])

    def _perform(self, until_s: float) -> None:
        """The acts that are due, each with the reactions to it before the next one."""
        while self._next_act is not None and self._next_act[0] <= until_s:
            _, cycle, act = self._next_act
            if act.story:
                self.chronicle.tell(act.story)
            for deed in act.deeds:
                deed(self.cluster, cycle)
            self._settle()
            self._next_act = next(self._acts, None)

    def _settle(self) -> None:
        """Decide, carry out and let all controllers react until nothing is left to do at this moment."""
        answers, self._untold = self._untold, []
        kept: list[KeeperEvent] = []
        for _ in range(_MOST_ROUNDS):
            self.cluster.step()
            self.chronicle.follow()
            seen = self._feed.pull()
            if not seen and not answers and not kept and not self._is_due():
                break
            answers = self._decide([*answers, *seen])
            kept = self._keep([*kept, *seen])

    def _is_due(self) -> bool:
        """Whether a timer has expired by now."""
        times = [time_s for time_s in (self._wake_s, self._keeper_wake_s) if time_s is not None]
        return bool(times) and min(times) <= self.cluster.now_s

    def _keep(self, events: list[KeeperEvent]) -> list[KeeperEvent]:
        """One call of the keeper, if there is one; the answers to its commands."""
        if self.keeper is None:
            return []
        commands, self._keeper_wake_s = self.keeper.handle(events, self.cluster.now_s)
        answers = []
        for command in commands:
            self.chronicle.decided(command)
            answer = self._runner.keep(command)
            answers += [] if answer is None else [answer]
        return answers

    def _decide(self, events: list[Event]) -> list[Event]:
        """One call of the engine; the answers to its commands."""
        self._explaining_s = 0.0
        before_s = self._stopwatch_s()
        commands, self._wake_s = self.engine.handle(events, self.cluster.now_s)
        self.counts.deciding_s += self._stopwatch_s() - before_s - self._explaining_s
        answers = [answer for command in commands if (answer := self._carry_out(command)) is not None]
        self._scores.clear()
        return answers

    def _carry_out(self, command: Command) -> Event | None:
        answer = self._runner.run(command)
        self.chronicle.decided(command)
        if isinstance(command, Bind) and isinstance(answer, BindDone):
            self.chronicle.bound(command, answer, self._scores.get(command.pod.uid, {}))
        return answer

    def _observe(self, runner: Runner, cycle: Cycle) -> None:
        """Remember how the nodes score: the engine itself keeps only the winner."""
        before_s = self._stopwatch_s()
        try:
            found = explain(runner, cycle.state, cycle.pod, cycle.now)
        except Exception:  # noqa: BLE001 - a plugin's fault; the attempt itself will meet it and say so in its message
            found = {}
        self._scores[cycle.pod.uid] = {name: node.total for name, node in found.items() if node.competes}
        self.counts.decisions += 1
        self._decided_s.append(self.elapsed_s)
        self._explaining_s += self._stopwatch_s() - before_s


def _has(rules: SimulationRules, plugin: str) -> bool:
    """Whether a profile has the plugin; an empty name is none, which all have."""
    return not plugin or any(each.name == plugin for profile in rules.profiles for each in profile.plugins)
