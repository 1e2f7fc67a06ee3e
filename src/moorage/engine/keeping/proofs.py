"""Where pods could run instead: verified by the whole profile, in a what-if that is undone.

A session is one what-if. Every place that it grants is taken from then on, so of ten pods that could use one free place
only one gets it. Places of pods that were evicted earlier stay taken until their successors have a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from moorage.core.arrays import Mask
from moorage.core.capacity import Capacities, Capacity, CapacityTypes
from moorage.core.disruption.away import MOVED, Away
from moorage.core.pods import Pod, PodTemplate, as_pending
from moorage.core.state import NOWHERE, ClusterState
from moorage.engine.engine import Engine
from moorage.engine.faults import describe
from moorage.engine.keeping.moves import Move
from moorage.framework.contract import TellsCapacity
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner

_FALLBACK_ORDER = (Capacity.ON_DEMAND, Capacity.UNKNOWN, Capacity.SPOT)


class Proofs:
    """Asks the profiles of one world."""

    def __init__(self, world: Engine) -> None:
        self._world = world
        self._plain = CapacityTypes()
        self._faults: dict[str, None] = {}

    @property
    def state(self) -> ClusterState:
        """The state that is asked."""
        return self._world.state

    def take_faults(self) -> list[str]:
        """The faults of plugins since the last call; a pod for which a plugin fails has no place."""
        found, self._faults = [*self._faults], {}
        return found

    def capacity(self, pod: Pod, node: str) -> Capacity:
        """The capacity type of a node according to the pod's profile."""
        row = self.state.row_of(node)
        runner = self._world.runner_of(pod)
        return self._plain.unlabelled if row is None else Capacity(self._types_of(runner).column(self.state)[row])

    def capacities(self, pod: Pod) -> Capacities:
        """The capacity type of every row according to the pod's profile. Do not change the array."""
        return self._types_of(self._world.runner_of(pod)).column(self.state)

    def is_spot(self, node: str) -> bool:
        """Whether any profile considers the node spot capacity."""
        row = self.state.row_of(node)
        if row is None:
            return False
        labels = self.state.node(row).labels
        return any(self._types_of(runner).of(labels) is Capacity.SPOT for runner in self._world.runners.values())

    @contextmanager
    def session(self, moves: Iterable[Move]) -> Iterator[None]:
        """A what-if in which the places of unfinished moves are taken; `fallback` and `home` are called inside."""
        with self.state.statement():
            for move in moves:
                self._reserve(move)
            yield

    def _reserve(self, move: Move) -> None:
        successor = move.successor
        if move.place is None or (successor is not None and (successor.node or successor.nominated_node)):
            return  # it has a node, or its nomination is counted already
        row = self.state.row_of(move.place)
        if row is not None:
            self.state.assume(replace(as_pending(move.pod), uid=f"{move.pod.uid}/successor"), row)

    def fallback(self, pod: Pod, now: float, leaving: Mask) -> str | None:
        """The best node outside `leaving` (bool[capacity]) on which the pod passes every filter, on-demand first."""
        return self.grant(pod, now, lambda runner, cycle: self._best(runner, cycle, leaving))

    def home(self, pod: Pod, now: float, settled: Mask, template: PodTemplate | None = None) -> str | None:
        """The node that the profile itself would choose, if that is one of `settled` (bool[capacity]).

        `template` is that of the pod's successor, if it differs.
        """

        def choose(runner: Runner, cycle: Cycle) -> int:
            row = runner.decide(cycle)
            return row if row != NOWHERE and settled[row] else NOWHERE

        return self.grant(pod, now, choose, template)

    def grant(
        self,
        pod: Pod,
        now: float,
        choose: Callable[[Runner, Cycle], int],
        template: PodTemplate | None = None,
        away: Away | None = None,
    ) -> str | None:
        """Choose a row for a pod as if it were pending; if there is one, it is there, and `away` knows where it was."""
        ghost = as_pending(pod if template is None else replace(pod, template=template))
        with self.state.statement() as attempt:
            (Away(self.state) if away is None else away).take((self.state.record(pod.uid),), MOVED)
            try:
                record = self._world.trial(now).place(ghost, choose)
            except Exception as error:  # noqa: BLE001 - a plugin's fault must not keep the others' pods from moving
                self._faults[describe(error)] = None
                return None
            if record is not None:
                attempt.commit()
        return None if record is None else record.node

    def _best(self, runner: Runner, cycle: Cycle, leaving: Mask) -> int:
        rows = runner.judge(cycle, self.state.rows()).passed
        rows = rows[~leaving[rows]]
        kinds = self._types_of(runner).column(self.state)[rows]
        for kind in _FALLBACK_ORDER:
            of_kind = rows[kinds == kind]
            if len(of_kind):
                return runner.best_of(cycle, of_kind)
        return NOWHERE

    def _types_of(self, runner: Runner | None) -> CapacityTypes:
        """How the profile's own plugins recognise spot capacity, so that both agree."""
        plugin = None if runner is None else runner.plugins.first(TellsCapacity)
        return self._plain if plugin is None else plugin.capacity_types
