"""`simulate --repack`: what repacking would do with a simulated cluster at rest, printed."""

from __future__ import annotations

from typing import TextIO

from moorage.sim.outcome import FinalCluster
from moorage.sim.tables import shown, write_table
from moorage.sim.whatif import budgets_of
from moorage.views.repack import RepackView, repack_lines, repack_view

_ROOM, _EMPTY = "room for {}", "empties its node"


def repack_of(world: FinalCluster) -> RepackView:
    """The plans for the cluster as a simulation left it."""
    return repack_view(world.engine, budgets_of(world), world.cluster.now_s, world.prices)


def write_repack(view: RepackView, out: TextIO) -> None:
    """A table of moves, and lines that sum up."""
    moves = [(move, _ROOM.format(room.unit)) for room in view.rooms for move in room.moves]
    moves += [(move, _EMPTY) for move in view.emptying.moves]
    if moves:
        rows = [(f"{move.pod.namespace}/{move.pod.name}", move.source, move.target, why) for move, why in moves]
        write_table(("REPACK", "FROM", "TO", "WHY"), rows, out)
        out.write("\n")
    out.writelines(f"{shown(line)}\n" for line in repack_lines(view))
