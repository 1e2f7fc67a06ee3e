"""What the parts of the engine share: the state, the queue, binding cycles, pending changes, alarms, and what follows
from the configuration in force.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from moorage.core.commands import Command
from moorage.core.disruption.ledger import STRICT
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.victims import Ranks
from moorage.engine.bindingcycles import BindingCycles
from moorage.engine.evictor import Evictor
from moorage.engine.faults import Faults
from moorage.engine.priorities import Priorities
from moorage.engine.queue import SchedulingQueue
from moorage.engine.sides import Sides
from moorage.engine.turnover import Turnover
from moorage.engine.units import Unit
from moorage.engine.warnings import Warnings
from moorage.framework.changes import Change, What
from moorage.framework.contract import GivesFractions, KeepsBudgets
from moorage.framework.cycle import Cycle
from moorage.framework.profiles import Profile
from moorage.framework.runner import Runner
from moorage.framework.trying import TrialConfiguration

if TYPE_CHECKING:
    from moorage.engine.asking import Asking
    from moorage.engine.planning import Planning
    from moorage.engine.sharing import Sharing

_TRIAL = "trial\0"
Observer = Callable[[Runner, Cycle], None]
"""Called right before every attempt, with the state that the attempt will see; must not change anything."""
Commands = list[Command]
Stop = Callable[[], bool]
"""Called between the steps of a call: whether the call should end now, so that its decisions are carried out."""


class EngineContext:
    """One state, one queue, and the runners of all profiles."""

    def __init__(
        self,
        profiles: Sequence[Profile],
        state: ClusterState,
        queue: SchedulingQueue,
        *,
        answers_to_all: bool = False,
        observer: Observer | None = None,
    ) -> None:
        """With `answers_to_all` the first profile also decides for scheduler names that no profile has."""
        self.state = state
        self.queue = queue
        self._answers_to_all = answers_to_all
        self.runners: dict[str, Runner] = {}
        """By scheduler name."""
        self.fallback: Runner | None = None
        """Decides for scheduler names that no profile has."""
        self.bindings = BindingCycles()
        self.faults = Faults()
        self.sides = Sides(state)
        """A trial of other profiles."""
        self.turnover = Turnover()
        self.evictor = Evictor(state, queue, self.sides, self.turnover)
        self.warnings = Warnings()
        self.priorities = Priorities(self.runner_of, self.faults, asked=False)
        self.changes: list[Change] = []
        """What has happened since waiting pods were last woken."""
        self.observer = observer
        self.planning: Planning | None = None
        """The plan of who gets the nodes; None unless profiles are planned."""
        self.sharing: Sharing | None = None
        """Units that belong to queues; None unless a profile knows queues."""
        self.asking: Asking | None = None
        """Calls of extenders; None if none are configured."""
        self._tokens = 0
        self.stop: Stop | None = None
        """Only while the engine is being called."""
        self.paced = False
        """Whether that call has a budget, so that it is one of many."""
        self._alarms: list[tuple[float, int, Unit]] = []
        self._alarm_numbers = itertools.count()
        self.equip(self.runners_for(profiles))

    def runners_for(self, profiles: Sequence[Profile]) -> dict[str, Runner]:
        """Runners on the state, by scheduler name; their plugins ask the plan which pods may be evicted."""
        return {profile.scheduler_name: Runner(profile, self.state, self._ranks) for profile in profiles}

    def _ranks(self) -> Ranks | None:
        return self.planning

    def equip(self, runners: Mapping[str, Runner]) -> None:
        """Use these runners from now on."""
        if self._answers_to_all:
            self.fallback = next(iter(runners.values()))
        self.runners.clear()
        self.runners.update(runners)
        self.state.amounts.gives_fractions = self._gives_fractions
        self.state.amounts.divides_devices = any(map(self._gives_fractions, self.runners))
        asked = any(runner.priorities is not None for runner in runners.values())
        self.priorities = Priorities(self.runner_of, self.faults, asked=asked)

    def _gives_fractions(self, scheduler_name: str) -> bool:
        runner = self.runners.get(scheduler_name, self.fallback)
        return runner is not None and runner.plugins.first(GivesFractions) is not None

    def equip_trial(self, trial: TrialConfiguration | None) -> None:
        """Have these profiles at hand; the events of a trial say from when to when they are used."""
        runners = {} if trial is None else self.runners_for(trial.built)
        fallback = None if self.fallback is None else runners.get(self.fallback.profile.scheduler_name)
        self.sides.equip(trial, runners, fallback)

    def all_runners(self) -> dict[str, Runner]:
        """Those of a trial, too, whether or not it is in force; by names of their own, which no pod can name."""
        return self.runners | {f"{_TRIAL}{name}": runner for name, runner in self.sides.runners.items()}

    def runner_of(self, pod: Pod) -> Runner | None:
        """The runner of the profile that is responsible for a pod; None if no profile is."""
        if self.sides.on and (found := self.sides.runner_of(pod)) is not None:
            return found
        return self.runners.get(pod.template.scheduler_name, self.fallback)

    def responsible(self, pod: Pod) -> Runner:
        """The same for a pod in the queue, which always has one."""
        name = pod.template.scheduler_name
        runner = self.runner_of(pod) if self.sides.on else self.runners.get(name, self.fallback)
        if runner is None:
            raise LookupError(f"no profile has the scheduler name {name}")
        return runner

    def keeps_budgets(self, pod: Pod) -> bool:
        """Whether no pod may be evicted against a disruption budget, as the profile of this one says."""
        if self.sharing is not None and self.sharing.governs(pod):
            return self.sharing.terms(pod).pdb_policy == STRICT
        runner = self.runner_of(pod)
        plugin = None if runner is None else runner.plugins.first(KeepsBudgets)
        return plugin is not None and plugin.pdb_policy == STRICT

    def stopped(self) -> bool:
        """Whether the call should end now. Called even where it cannot end, since each call is a sign of life."""
        return self.stop is not None and self.stop()

    def end_nomination(self, uid: str) -> None:
        """End the nomination of a pod, if it has one: other pods may use the room now."""
        pod = self.state.nominations.pod(uid)
        if pod is not None:
            self.state.nominations.clear(uid)
            self.changes.append(Change(What.POD_REMOVED, pod=pod))

    def token(self) -> int:
        """A number by which the answer to a command is recognised; no two commands have the same."""
        self._tokens += 1
        return self._tokens

    # --- alarms, for answers that change with time alone ---

    def set_alarm(self, at_s: float, unit: Unit) -> None:
        """Wake a unit at this time, whatever it is waiting for."""
        heapq.heappush(self._alarms, (at_s, next(self._alarm_numbers), unit))

    def ring(self, now: float) -> None:
        """Wake the units whose alarm is due. Alarms that are set meanwhile ring at the next call."""
        if not self._alarms:
            return
        due = []
        while self._alarms and self._alarms[0][0] <= now:
            due.append(heapq.heappop(self._alarms)[2])
        for unit in due:
            if self.queue.holds(unit):
                self.queue.wake(unit, now)

    def tidy(self) -> None:
        """Drop alarms of units that have left the queue, and renumber the others in the same order."""
        held = sorted((at_s, number) for at_s, number, unit in self._alarms if self.queue.holds(unit))
        units = {number: unit for _, number, unit in self._alarms}
        self._alarms = [(at_s, place, units[number]) for place, (at_s, number) in enumerate(held)]
        self._alarm_numbers = itertools.count(len(held))

    def next_alarm(self) -> float | None:
        """When `ring` next has something to do."""
        while self._alarms and not self.queue.holds(self._alarms[0][2]):
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None
