"""Room for a pod or gang that waits, made by moving pods that have a place elsewhere.

Each waiting pod gets a node where it fits, or the one where it fits once the fewest pods have left. Then those are
placed elsewhere, each where its profile would put it; where one of them has no place, its node is not used, and the
search begins again. No pod is moved for one that is less important than itself. A plan is proven as it will be carried
out: the nodes are closed, the pods move one after the other, the nodes are opened, and then what waits is placed by the
same trial as in the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from moorage.core.arrays import Mask, Rows
from moorage.core.disruption.away import MOVED, Away
from moorage.core.gangneeds import ANYWHERE, Domain, GangNeeds
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.core.state import NOWHERE
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.keeping.proofs import Proofs
from moorage.engine.repacking.census import Census, Mover
from moorage.engine.repacking.choice import choice
from moorage.engine.repacking.plans import PlannedMove, RoomPlan
from moorage.engine.trial import Trial
from moorage.engine.units import as_queued
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner

MOST_STEPS = 20_000
_MOST_ROWS = 64
"""So many nodes are tried for one waiting pod."""
_MOST_DOMAINS = 32
_MOST_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """A pod, or the waiting members of a gang, most important first."""

    key: str
    """`namespace/name` of the pod or gang."""
    pods: tuple[Pod, ...]
    gang: GangKey | None = None

    @property
    def priority(self) -> int:
        """That of its least important pod."""
        return min(pod.template.priority for pod in self.pods)


def waiting_units(world: Engine) -> Iterator[WaitingUnit]:
    """What waits in a world's queue, most important first, then the oldest."""
    alone: list[WaitingUnit] = []
    gangs: dict[GangKey, list[Pod]] = {}
    for entry in world.queue.entries():
        pod = entry.pod
        if pod.gates or pod.deleted_s is not None:
            continue
        key = None if pod.template.gang is None else world.gangs.unit_of(pod)
        if key is None:
            alone.append(WaitingUnit(pod.key, (pod,)))
        else:
            gangs.setdefault(key, []).append(pod)
    units = [*alone]
    for key, pods in gangs.items():
        ordered = tuple(sorted(pods, key=lambda pod: (-pod.template.priority, pod.created_s, pod.key)))
        units.append(WaitingUnit(key.object_key, ordered, key))
    yield from sorted(units, key=lambda unit: (-unit.priority, unit.pods[0].created_s, unit.key))


class RoomMaking:
    """Searches on one state, which is as before when a search ends."""

    def __init__(
        self,
        world: Engine,
        proofs: Proofs,
        census: Census,
        now: float,
        *,
        most_moves: int,
        most_steps: int = MOST_STEPS,
    ) -> None:
        self._world = world
        self._state = world.state
        self._proofs = proofs
        self._census = census
        self._now = now
        self._most_moves = most_moves
        self._most_steps = most_steps
        self.steps = 0
        """How many placements were tried."""

    def plan(self, unit: WaitingUnit) -> RoomPlan | None:
        """The moves for a unit; without any if it fits as it is, None if moves do not help."""
        needs = None if unit.gang is None else self._world.gangs.needs(unit.gang, unit.pods)
        if unit.gang is not None and (needs is None or not needs.enough(len(unit.pods))):
            return None
        places = self._placed(unit, needs)
        if places is not None:
            return RoomPlan(unit.key, (), places, self.steps)
        domains = ANYWHERE if needs is None else needs.domains(self._state)
        for domain in domains[:_MOST_DOMAINS]:
            found = self._search(unit, needs, domain)
            if found is not None:
                return found
        return None

    def _search(self, unit: WaitingUnit, needs: GangNeeds | None, domain: Domain | None) -> RoomPlan | None:
        rows = self._rows(domain).copy()
        for _ in range(_MOST_ATTEMPTS):
            attempt = _Attempt(self, unit, rows, domain)
            with self._state.statement():
                stuck = attempt.run(needs)
            if stuck is None:
                return self._proven(unit, needs, attempt.movers, attempt.held)
            if stuck == NOWHERE or self.spent:
                return None
            rows[stuck] = False
        return None

    def _rows(self, domain: Domain | None) -> Mask:
        if domain is None:
            return self._census.open
        rows = self._state.rows_of(domain)
        inside: Mask = np.zeros(self._state.capacity, dtype=np.bool_)
        inside[rows[rows != NOWHERE]] = True
        return inside & self._census.open

    def _proven(
        self, unit: WaitingUnit, needs: GangNeeds | None, movers: Sequence[Mover], held: Sequence[int]
    ) -> RoomPlan | None:
        """The moves one after the other with all nodes of the unit closed, and then the unit itself."""
        moves: list[PlannedMove] = []
        with self._state.statement():
            self._close(held, value=True)
            for mover in movers:
                target = self.place(mover)
                if target is None:
                    return None
                moves.append(PlannedMove(mover.pod, mover.node, target))
            self._close(held, value=False)
            places = self._placed(unit, needs)
        if places is None:
            return None
        return RoomPlan(unit.key, tuple(moves), places, self.steps, tuple(self._state.node(row).name for row in held))

    def _close(self, rows: Sequence[int], *, value: bool) -> None:
        for row in rows:
            self._state.upsert_node(replace(self._state.node(row), unschedulable=value))

    def _placed(self, unit: WaitingUnit, needs: GangNeeds | None) -> dict[str, str] | None:
        """Where the pods of the unit go as things are; None if they do not fit."""
        trial = self._world.trial(self._now)
        self.steps += len(unit.pods)
        with self._state.statement():
            if needs is None:
                record = trial.place(unit.pods[0])
                return None if record is None else {unit.pods[0].key: record.node}
            entries = [as_queued(pod, self._now) for pod in unit.pods]
            outcome = trial.place_gang(entries, needs, needs.domains(self._state))
            nodes = {binding.entry.pod.key: binding.node for binding in outcome.bindings}
            return nodes if outcome.enough else None

    # --- for an attempt ---

    @property
    def spent(self) -> bool:
        """Whether the limit is reached."""
        return self.steps >= self._most_steps

    def place(self, mover: Mover) -> str | None:
        """Place a pod that leaves its node."""
        self.steps += 1
        return self._proofs.grant(mover.pod, self._now, choice(self._state, mover.pod.template, mover.row))

    def movable(self, row: int, priority: int) -> list[Mover]:
        """The pods of a node that may be moved for one of this priority."""
        return [mover for mover in self._census.guests.get(row, ()) if mover.pod.template.priority <= priority]

    @property
    def trial(self) -> Trial:
        """To place pods of the unit."""
        return self._world.trial(self._now)

    def runner_of(self, pod: Pod) -> Runner | None:
        """The runner of a waiting pod's profile."""
        return self._world.runner_of(pod)

    @property
    def most_moves(self) -> int:
        """How many pods a plan may move."""
        return self._most_moves


class _Attempt:
    """One unit in one domain, in a what-if."""

    def __init__(self, making: RoomMaking, unit: WaitingUnit, rows: Mask, domain: Domain | None) -> None:
        self._making = making
        self._state = making._state  # noqa: SLF001 - a part of the search
        self._unit = unit
        self._rows = rows
        self._domain = domain
        self._leaving: dict[str, Mover] = {}
        self._held: dict[int, None] = {}

    @property
    def movers(self) -> list[Mover]:
        """The pods that have to move, in this order."""
        return sorted(self._leaving.values(), key=lambda each: [-amount for _, amount in each.amounts])

    @property
    def held(self) -> list[int]:
        """The rows of the unit."""
        return [*self._held]

    def run(self, needs: GangNeeds | None) -> int | None:
        """Place the unit, and then the pods that left; None if all have a place, else what is in the way.

        That is the row of a pod that has no other place, or NOWHERE if the unit itself has none.
        """
        wanted = len(self._unit.pods) if needs is None else max(needs.members, 1)
        served = 0
        for pod in self._unit.pods:
            served += self._serve(pod)
            if served >= wanted or self._making.spent:
                break
        if served < wanted:
            return NOWHERE
        for mover in self.movers:
            if self._making.place(mover) is None:
                return mover.row
        return None

    def _serve(self, pod: Pod) -> bool:
        runner = self._making.runner_of(pod)
        if runner is None:
            return False
        self._making.steps += 1
        record = self._making.trial.place(pod, self._chosen)
        if record is not None:
            self._held[record.row] = None
            return True
        return any(self._free(pod, runner, row) for row in self._promising(pod)[:_MOST_ROWS])

    def _chosen(self, runner: Runner, cycle: Cycle) -> int:
        """The row that the profile chooses of those in the domain."""
        cycle.domain = self._domain
        row = runner.decide(cycle)
        if row == NOWHERE or self._rows[row]:
            return row
        passed = runner.judge(cycle, self._state.rows()).passed
        passed = passed[self._rows[passed]]
        return runner.best_of(cycle, passed) if len(passed) else NOWHERE

    def _promising(self, pod: Pod) -> list[int]:
        """Rows where the amounts would do if all that may move had left, those with the fewest pods to move first."""
        resources = self._state.resources
        asked = resources.vector(pod.template.requests)
        if asked.unknown:
            return []
        found: list[tuple[int, str, int]] = []
        rows: Rows = np.flatnonzero(self._rows)
        for row in map(int, rows):
            movers = self._standing(row)
            if not movers:
                continue
            freed = dict[int, int]()
            for mover in movers:
                for column, amount in mover.amounts:
                    freed[column] = freed.get(column, 0) + amount
            left = resources.allocatable[:, row] - resources.requested[:, row]
            if all(int(left[column]) + freed.get(column, 0) >= amount for column, amount in asked.pairs):
                found.append((len(movers), self._state.node(row).name, row))
        return [row for _, _, row in sorted(found)]

    def _standing(self, row: int) -> list[Mover]:
        movers = self._making.movable(row, self._unit.priority)
        return [mover for mover in movers if mover.pod.uid not in self._leaving]

    def _free(self, pod: Pod, runner: Runner, row: int) -> bool:
        """Let the pod in on a row, with as few moves as possible; nothing is changed if that does not work."""
        if self._making.spent:
            return False
        leaving = self._least(pod, runner, row)
        if leaving is None or len(self._leaving) + len(leaving) > self._making.most_moves:
            return False
        with self._state.statement() as attempt:
            Away(self._state).take((self._state.record(mover.pod.uid) for mover in leaving), MOVED)
            if self._making.trial.put(pod, row) is None:
                return False
            attempt.commit()
        self._leaving |= {mover.pod.uid: mover for mover in leaving}
        self._held[row] = None
        return True

    def _least(self, pod: Pod, runner: Runner, row: int) -> list[Mover] | None:
        """The pods that have to leave: all that may, without those that can stay after all, the largest first."""
        movers = sorted(
            self._standing(row), key=lambda each: (-each.pod.template.priority, [-a for _, a in each.amounts])
        )
        with self._state.statement():
            away = Away(self._state)
            away.take((self._state.record(mover.pod.uid) for mover in movers), MOVED)
            if not self._fits(pod, runner, row):
                return None
            leaving: list[Mover] = []
            for mover in movers:
                with self._state.statement() as back:
                    away.put_back(away.home(mover.pod.uid))
                    if self._fits(pod, runner, row):
                        back.commit()
                    else:
                        leaving.append(mover)
        return leaving

    def _fits(self, pod: Pod, runner: Runner, row: int) -> bool:
        self._making.steps += 1
        cycle = self._making.trial.cycle(pod)
        cycle.domain = self._domain
        return runner.fits(cycle, row)
