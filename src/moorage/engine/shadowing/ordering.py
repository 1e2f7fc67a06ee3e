"""Differences that the order of decisions may explain.

A watch shows binds in the order in which they were written. Between the decision and the write, a scheduler has decided
on other pods, so where several pods wait at once, the order of decisions is not that of the binds, and nobody can see
it. Two decisions can be out of order only if both pods waited at the same time: where pods come one after another,
nothing is left to explain.

A difference is therefore judged again on the state as it was, with neighbouring binds undone or brought forward:
first those on the two nodes in question, the nearest first, as amounts are what most decisions depend on; then ever
more of the binds before and after, for rules that look at the whole cluster. If the other scheduler's choice is then
among the best, an order exists that explains it, and the difference is no evidence against anybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from moorage.core.disruption.away import GONE, MOVED, Away
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.shadowing.comparing import compared
from moorage.engine.shadowing.verdicts import Finding, ShadowVerdict

KEPT_MOVES = 4096
KEPT_BYTES = 32 << 20
"""Of the pods of these moves: a pod may be large, and is kept here after it is gone."""
NEIGHBOURS = 256
"""How many binds before and after a decision are looked at."""
_AGREE = (ShadowVerdict.SAME, ShadowVerdict.TIE)


@dataclass(frozen=True, slots=True)
class SeenMove:
    """A pod came to a node, or left it."""

    number: int
    """Rises with everything that happens to pods."""
    pod: Pod
    """As it stood on the node."""
    came: bool
    since: int
    """The number of the moment since which it had waited, if it came; 0 if that is not known."""


class MoveLog:
    """The latest moves of all pods, and how to go back to a moment between them."""

    def __init__(self, kept: int = KEPT_MOVES, kept_bytes: int = KEPT_BYTES) -> None:
        self._moves: deque[SeenMove] = deque()
        self._kept, self._kept_bytes = kept, kept_bytes
        self._bytes = 0
        self._first = 0
        """Moves with smaller numbers may have been dropped."""
        self.number = 0

    def step(self) -> int:
        """The number of another moment."""
        self.number += 1
        return self.number

    def note(self, pod: Pod, *, came: bool, since: int = 0) -> int:
        """A pod came or left; returns the number of the moment."""
        self._moves.append(SeenMove(self.step(), pod, came, since))
        self._bytes += pod.template.size
        while len(self._moves) > self._kept or (self._bytes > self._kept_bytes and len(self._moves) > 1):
            dropped = self._moves.popleft()
            self._bytes -= dropped.pod.template.size
            self._first = dropped.number + 1
        return self.number

    def reaches(self, number: int) -> bool:
        """Whether all moves since this moment are known."""
        return number + 1 >= self._first

    def after(self, number: int) -> list[SeenMove]:
        """The moves after a moment, newest first."""
        found: list[SeenMove] = []
        for move in reversed(self._moves):
            if move.number <= number:
                break
            found.append(move)
        return found

    def count_after(self, number: int) -> int:
        """At least how many moves came after a moment."""
        return self.number - number


def go_back(state: ClusterState, later: Sequence[SeenMove]) -> None:
    """Undo moves, given newest first; call it in a statement."""
    for move in later:
        undo(state, move)


def undo(state: ClusterState, move: SeenMove) -> None:
    """As if the pod had not come, or not left."""
    if move.came:
        Away(state).take((state.record(move.pod.uid),), MOVED)
    else:
        state.observe_pod(move.pod)


def _apply(state: ClusterState, move: SeenMove) -> None:
    if move.came:
        state.observe_pod(move.pod)
    else:
        Away(state).take((state.record(move.pod.uid),), GONE)


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """A decision that differs, and when it was seen."""

    pod: Pod
    """Without a node."""
    there: str
    since: int
    """The number of the moment since which the pod had waited."""
    number: int
    """That of its bind."""


def explained(engine: Engine, moves: MoveLog, question: OpenDecision, now: float) -> tuple[Finding, int]:
    """Judge a difference again; the finding, and how many neighbouring moves had to change places for it.

    The verdict is ORDER if there is an order that explains the difference.
    """
    state = engine.state
    later = moves.after(question.number - 1)
    with state.statement():
        go_back(state, later)
        finding = compared(engine, question.pod, question.there, now)
        if finding.verdict in _AGREE:  # something else that was seen late, as an object of another kind
            return replace(finding, verdict=ShadowVerdict.ORDER), 0
        if finding.verdict is ShadowVerdict.UNDECIDED or not moves.reaches(question.number - 1):
            return finding, 0
        before, after = _neighbours(moves, question, later)
        for search in (_on_both_nodes, _ever_more):
            with state.statement():
                flips = search(engine, question, (before, after), finding, now)
            if flips:
                return replace(finding, verdict=ShadowVerdict.ORDER), flips
    return finding, 0


def _neighbours(
    moves: MoveLog, question: OpenDecision, later: Sequence[SeenMove]
) -> tuple[list[SeenMove], list[SeenMove]]:
    """What may have happened after the decision though it was seen before, and the other way round; nearest first.

    A pod that left after the bind cannot have left before the decision.
    """
    before = [move for move in moves.after(question.since) if move.number < question.number]
    after = [move for move in reversed(later) if move.came and 0 < move.since < question.number < move.number]
    return before[:NEIGHBOURS], after[:NEIGHBOURS]


def _on_both_nodes(
    engine: Engine,
    question: OpenDecision,
    neighbours: tuple[list[SeenMove], list[SeenMove]],
    finding: Finding,
    now: float,
) -> int:
    """Undo binds to the other's node, and bring forward binds to the one chosen here, one by one; 0 if in vain."""
    before, after, flips = [*neighbours[0]], [*neighbours[1]], 0
    state = engine.state
    while True:
        early = next((move for move in after if move.pod.node == finding.here), None)
        wanted = (question.there, True), (finding.here, False)
        late = next((move for move in before if (move.pod.node, move.came) in wanted), None)
        if early is not None:
            after.remove(early)
            _apply(state, early)
        elif late is not None:
            before.remove(late)
            undo(state, late)
        else:
            return 0
        flips += 1
        finding = compared(engine, question.pod, question.there, now)
        if finding.verdict in _AGREE:
            return flips


def _ever_more(
    engine: Engine, question: OpenDecision, neighbours: tuple[list[SeenMove], list[SeenMove]], _: Finding, now: float
) -> int:
    """Undo the last 1, 2, 4, ... moves before, then bring forward the first 1, 2, 4, ... after; 0 if in vain."""
    state = engine.state
    for moves, change in ((neighbours[0], undo), (neighbours[1], _apply)):
        with state.statement():
            done, size = 0, 1
            while done < len(moves):
                for move in moves[done : done + size]:
                    change(state, move)
                done, size = min(done + size, len(moves)), size * 2
                if compared(engine, question.pod, question.there, now).verdict in _AGREE:
                    return done
    return 0
