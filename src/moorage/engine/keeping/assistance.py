"""Successors that are pending although there is a place for them are nominated to it (`status.nominatedNodeName`).

Most are bound before they could be nominated, and nominating a bound pod would only be one more write. It helps the
others: where many pods compete for the same room, it is kept for the pod that lost its place. Only the schedulers whose
profiles are configured here are known to honour nominations.
"""

from __future__ import annotations

import numpy as np

from moorage.core.arrays import Mask
from moorage.core.commands import KeeperCommand, PatchPodStatus
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.evictor import ref_of
from moorage.engine.keeping.departures import Departures
from moorage.engine.keeping.moves import Move, Moves
from moorage.engine.keeping.proofs import Proofs

WAITED_S = 1.0
AGAIN_S = 10.0


class Assistance:
    """Looks after successors that have no node yet."""

    def __init__(self, world: Engine, departures: Departures, proofs: Proofs, moves: Moves) -> None:
        self._world = world
        self._departures = departures
        self._proofs = proofs
        self._moves = moves

    def plan(self, now: float) -> list[KeeperCommand]:
        """Nominations to be written now."""
        waiting = [move for move in self._moves.all() if self._needs_help(move, now)]
        if not waiting:
            return []
        waits_too = {id(move) for move in waiting}
        leaving = self._departures.rows(self._proofs.state)
        commands: list[KeeperCommand] = []
        with self._proofs.session(move for move in self._moves.all() if id(move) not in waits_too):
            for move in waiting:
                command = self._nominate(move, leaving, now)
                commands += [] if command is None else [command]
        return commands

    def _needs_help(self, move: Move, now: float) -> bool:
        pod = move.successor
        if pod is None or pod.node is not None or pod.nominated_node or pod.gates:
            return False
        if pod.template.scheduler_name not in self._world.runners or now - move.seen_s < WAITED_S:
            return False
        return move.nominated_s is None or now - move.nominated_s >= AGAIN_S

    def _nominate(self, move: Move, leaving: Mask, now: float) -> PatchPodStatus | None:
        pod = move.successor
        if pod is None:
            return None
        move.nominated_s = now
        node = self._kept(pod, move, leaving, now)
        if node is None:
            return None
        move.place = node
        return PatchPodStatus(ref_of(pod), nominated_node=node)

    def _kept(self, pod: Pod, move: Move, leaving: Mask, now: float) -> str | None:
        """The place that was verified for it if it is still good, else another one."""
        row = None if move.place is None else self._proofs.state.row_of(move.place)
        if row is not None and not leaving[row]:
            others = np.ones(len(leaving), dtype=np.bool_)
            others[row] = False
            found = self._proofs.fallback(pod, now, others)
            if found is not None:
                return found
        return self._proofs.fallback(pod, now, leaving)
