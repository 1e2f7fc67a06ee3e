"""Gangs that are decided on before the pod in question: their members get nodes together, or none does.

As in the engine, members that are too few to start are not tried, and take nothing from anybody; for a gang that does
not fit PostFilter is asked as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from moorage.core.disruption.away import GONE, Away
from moorage.core.gangneeds import Domain, GangNeeds
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.state import PodRecord
from moorage.engine.engine import Engine
from moorage.engine.trial import Trial
from moorage.engine.units import as_queued
from moorage.framework.contract import GangPostFilter
from moorage.framework.runner import Runner
from moorage.framework.status import GangNomination


class Seated(NamedTuple):
    """Who got a node."""

    pods: Sequence[Pod] = ()
    victims: Sequence[PodRecord] = ()
    """Who left for it."""


class GangSeats:
    """Places gangs on the state; use it inside a statement."""

    def __init__(self, engine: Engine, trial: Trial, since_s: float) -> None:
        """`since_s`: since when all members count as misfits."""
        self._engine = engine
        self._state = engine.state
        self._trial = trial
        self._since_s = since_s

    def waiting(self, key: GangKey, changed: Mapping[str, Pod]) -> list[Pod]:
        """The members of a gang without a node, some of them changed; the most important first."""
        unit = self._engine.queue.gang(key)
        queued = () if unit is None else (entry.pod for entry in unit.members.values())
        left = (changed.get(pod.uid, pod) for pod in queued if self._state.record(pod.uid) is None)
        return sorted(left, key=lambda pod: (-pod.template.priority, pod.created_s, pod.key))

    def priority(self, key: GangKey) -> int:
        """The priority of a gang that waits."""
        unit = self._engine.queue.gang(key)
        return 0 if unit is None else self._engine.gangs.priority(unit)

    def seat(self, key: GangKey, waiting: Sequence[Pod], ready: Sequence[Pod], away: Away | None) -> Seated:
        """Place those that are ready of the members that wait, if they are enough; others may leave for `away`."""
        needs = self._engine.gangs.needs(key, waiting)
        if needs is None or not ready or not needs.enough(len(ready)):
            return Seated()
        entries = [as_queued(pod, self._since_s, misfit_s=self._since_s) for pod in ready]
        domains = needs.domains(self._state)
        placement = self._trial.place_gang(entries, needs, domains)
        if placement.enough:
            return Seated([binding.entry.pod for binding in placement.bindings])
        runner = self._engine.runner_of(ready[0])
        if away is None or placement.hopeless or runner is None or needs.lasting_obstacle(self._state) is not None:
            return Seated()
        return next(self._with_room(runner, ready, needs, domains, away), Seated())

    def _with_room(
        self, runner: Runner, ready: Sequence[Pod], needs: GangNeeds, domains: Iterable[Domain | None], away: Away
    ) -> Iterator[Seated]:
        """Where evictions make room; the members stand there."""
        plugins = [each for each in runner.plugins.post_filter if isinstance(each, GangPostFilter)]
        for domain in domains:
            cycles = [self._trial.cycle(pod) for pod in ready]
            for cycle in cycles:
                cycle.domain = domain
            for plugin in plugins:
                with self._state.statement():
                    answer = self._engine.faults.ask(plugin, plugin.post_filter_gang, cycles, runner, needs)
                if isinstance(answer, GangNomination):
                    found = self._nominated(answer, ready, needs, away)
                    if found.pods:
                        yield found

    def _nominated(self, answer: GangNomination, ready: Iterable[Pod], needs: GangNeeds, away: Away) -> Seated:
        state, placed = self._state, list[Pod]()
        victims = [record for uid in answer.victims if (record := state.record(uid)) is not None]
        with state.statement() as what_if:
            away.take(victims, GONE)
            for pod in ready:
                row = state.row_of(answer.nodes.get(pod.uid, ""))
                if row is not None and self._trial.put(pod, row) is not None:
                    placed.append(pod)
            if not needs.admits(state, len(placed)):
                return Seated()
            what_if.commit()
        return Seated(placed, victims)
