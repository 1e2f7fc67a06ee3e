"""`KeeperConfiguration`: defaults, everything set, and every mistake named at once."""

from __future__ import annotations

from moorage.framework.configuration import Configuration
from moorage.framework.keeping import (
    AtDeadline,
    NodeSignal,
    SignalKind,
    keeper_configuration,
)
from tests.wire.configuration.keeper_documents import keeper_of, read


def test_defaults() -> None:
    """An empty document, and none at all, say the same; the lease is never the scheduler's."""
    found = keeper_of("")
    assert (found.notice_s, found.return_after_s, found.returns_at_once) == (120.0, 600.0, 2)
    assert not found.move_singles
    assert found.at_deadline is AtDeadline.KEEP_BUDGETS
    assert found.leader_election is not None
    assert found.leader_election.resource_name == "moorage-keeper"
    assert keeper_configuration(Configuration()).notice_s == found.notice_s


def test_everything_set() -> None:
    """Each field arrives."""
    found = keeper_of(
        "noticeTime: 90s\ndeadlineMargin: 5s\natDeadline: Delete\nmovesAtOnce: 7\nreturnAfter: 1m\nreturnsAtOnce: 0\n"
        "moveSingles: true\nfallbackAfter: 30s\nmoveAgainAfter: 2m\n"
        "leaderElection: {leaderElect: true, resourceName: mine}\n"
        "signals:\n- {taint: example.com/bye, text: soon, noticeTime: 30s}\n- {condition: Doomed}\n"
        "- {cordon: example.com/why}\n- {taint: karpenter.sh/disrupted, ignore: true}\n"
    )
    assert (found.notice_s, found.margin_s, found.moves_at_once, found.returns_at_once) == (90.0, 5.0, 7, 0)
    assert (found.return_after_s, found.move_again_after_s, found.fallback_s) == (60.0, 120.0, 30.0)
    assert found.move_singles
    assert found.at_deadline is AtDeadline.DELETE
    assert found.leader_election is not None
    assert found.leader_election.resource_name == "mine"
    assert found.signals == (
        NodeSignal(SignalKind.TAINT, "example.com/bye", "soon", 30.0),
        NodeSignal(SignalKind.CONDITION, "Doomed"),
        NodeSignal(SignalKind.CORDON, "example.com/why"),
        NodeSignal(SignalKind.TAINT, "karpenter.sh/disrupted", ignored=True),
    )


def test_every_mistake_is_named_at_once() -> None:
    """With its path, its value and what to write instead."""
    reading = read(
        "noticeTime: 0s\natDeadline: Break\nmovesAtOnce: 0\nreturnsAtOnce: -1\nretrunAfter: 10m\n"
        "signals:\n- {taint: a, condition: b}\n- {}\n- {taint: a, noticeTime: 0s}\n"
    )
    lines = sorted(str(problem).partition("c.yaml: ")[2] for problem in reading.problems)
    assert [line.partition(":")[0] for line in lines] == [
        "atDeadline", "movesAtOnce", "noticeTime", "retrunAfter", "returnsAtOnce",
        "signals[0]", "signals[1]", "signals[2].noticeTime",
    ]  # fmt: skip
    assert "did you mean returnAfter?" in "\n".join(lines)
    assert "write KeepBudgets or Delete" in "\n".join(lines)


def test_a_margin_must_fit_into_the_notice() -> None:
    """Otherwise every moment would be the last chance."""
    (problem,) = read("noticeTime: 30s\ndeadlineMargin: 30s\n").problems
    assert "deadlineMargin" in str(problem)
    assert "shorter than noticeTime" in str(problem)
