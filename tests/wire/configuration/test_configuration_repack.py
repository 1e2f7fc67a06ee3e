"""`repack` of a KeeperConfiguration: off unless it is there, defaults, and what makes no sense."""

from __future__ import annotations

from moorage.framework.keeping import RepackAim, Repacking
from tests.wire.configuration.keeper_documents import keeper_of, read


def test_it_is_off_unless_it_is_there() -> None:
    """An empty `repack` turns it on with its defaults."""
    assert keeper_of("").repack is None
    assert keeper_of("repack: {}\n").repack == Repacking()


def test_everything_set() -> None:
    """Each field arrives."""
    found = keeper_of(
        "repack: {aims: [Empty], leastGain: 0.1, nodesAtOnce: 3, movesAtOnce: 2, movesPerHour: 30, mostMoves: 9, "
        "settleAfter: 10s, restAfter: 2h}\n"
    )
    assert found.repack == Repacking((RepackAim.EMPTY,), 0.1, 3, 2, 30, 9, 10.0, 7200.0)


def test_every_mistake_is_named() -> None:
    """All at once, with path and remedy."""
    reading = read("repack: {aims: [Fill], leastGain: 2, nodesAtOnce: 0, movesPerHour: 0, settleAfter: -1s}\n")
    paths = [problem.path for problem in reading.problems]
    assert [path.partition("repack.")[2] for path in paths] == [
        "aims[0]",
        "leastGain",
        "nodesAtOnce",
        "movesPerHour",
        "settleAfter",
    ]
