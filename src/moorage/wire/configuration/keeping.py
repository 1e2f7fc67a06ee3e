"""`KeeperConfiguration` of `moorage.dev/v1alpha1`: shape and sense."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from moorage.framework.arguments import Seconds
from moorage.framework.keeping import (
    AtDeadline,
    KeeperConfiguration,
    NodeSignal,
    RepackAim,
    Repacking,
    SignalKind,
)
from moorage.wire.configuration.connections import read_own_election
from moorage.wire.configuration.findings import Findings, at_least, positive
from moorage.wire.configuration.schema import ComponentShape, Int32, LeaderElectionShape, Shape

_POLICIES = tuple(policy.value for policy in AtDeadline)
_AIMS = tuple(aim.value for aim in RepackAim)
_KINDS = tuple(kind.value for kind in SignalKind)


class SignalShape(Shape):
    """How a node says that it goes: exactly one of taint, condition and cordon names the key."""

    taint: str = ""
    condition: str = ""
    cordon: str = ""
    text: str = ""
    notice_time: Seconds | None = None
    ignore: bool = False
    soft: bool = False


class RepackShape(Shape):
    """How the cluster is repacked; the document turns it on."""

    aims: list[str] | None = None
    least_gain: float | None = None
    nodes_at_once: Int32 | None = None
    moves_at_once: Int32 | None = None
    moves_per_hour: Int32 | None = None
    most_moves: Int32 | None = None
    settle_after: Seconds | None = None
    rest_after: Seconds | None = None


class KeeperShape(ComponentShape):
    """Everything has a default."""

    notice_time: Seconds | None = None
    deadline_margin: Seconds | None = None
    at_deadline: str | None = None
    moves_at_once: Int32 | None = None
    return_after: Seconds | None = None
    returns_at_once: Int32 | None = None
    move_singles: bool | None = None
    repairs_at_once: Int32 | None = None
    fallback_after: Seconds | None = None
    move_again_after: Seconds | None = None
    leader_election: LeaderElectionShape | None = None
    repack: RepackShape | None = None
    signals: Annotated[list[SignalShape], Field(default_factory=list)]


def read_keeper(shape: KeeperShape, profile: str, findings: Findings) -> KeeperConfiguration:
    """The configuration with its defaults; what makes no sense is reported."""
    given: dict[str, Any] = {
        "notice_s": positive(shape.notice_time, "noticeTime", findings),
        "margin_s": _not_negative(shape.deadline_margin, "deadlineMargin", findings),
        "at_deadline": _policy(shape.at_deadline, findings),
        "moves_at_once": at_least(shape.moves_at_once, 1, "movesAtOnce", findings),
        "return_after_s": _not_negative(shape.return_after, "returnAfter", findings),
        "returns_at_once": at_least(shape.returns_at_once, 0, "returnsAtOnce", findings),
        "move_singles": shape.move_singles,
        "repairs_at_once": at_least(shape.repairs_at_once, 0, "repairsAtOnce", findings),
        "fallback_s": _not_negative(shape.fallback_after, "fallbackAfter", findings),
        "move_again_after_s": _not_negative(shape.move_again_after, "moveAgainAfter", findings),
        "repack": None if shape.repack is None else _repacking(shape.repack, findings),
        "leader_election": read_own_election(shape.leader_election, "keeper", findings),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    signals = [_signal(signal, f"signals[{index}]", findings) for index, signal in enumerate(shape.signals)]
    found = KeeperConfiguration(profile=profile, signals=tuple(s for s in signals if s is not None), **settings)
    if found.margin_s >= found.notice_s and not findings.problems:
        message = f"must be shorter than noticeTime, which is {found.notice_s:g}s"
        findings.problem("deadlineMargin", f"{found.margin_s:g}s", message)
    return found


def _repacking(shape: RepackShape, findings: Findings) -> Repacking:
    given: dict[str, Any] = {
        "aims": _aims(shape.aims, findings),
        "least_gain": _share(shape.least_gain, findings),
        "nodes_at_once": at_least(shape.nodes_at_once, 1, "repack.nodesAtOnce", findings),
        "moves_at_once": at_least(shape.moves_at_once, 1, "repack.movesAtOnce", findings),
        "moves_per_hour": at_least(shape.moves_per_hour, 1, "repack.movesPerHour", findings),
        "most_moves": at_least(shape.most_moves, 1, "repack.mostMoves", findings),
        "settle_s": _not_negative(shape.settle_after, "repack.settleAfter", findings),
        "rest_s": _not_negative(shape.rest_after, "repack.restAfter", findings),
    }
    return Repacking(**{name: value for name, value in given.items() if value is not None})


def _aims(texts: list[str] | None, findings: Findings) -> tuple[RepackAim, ...] | None:
    if texts is None:
        return None
    for index, text in enumerate(texts):
        if text not in _AIMS:
            findings.problem(f"repack.aims[{index}]", text, f"write {' or '.join(_AIMS)}")
    return tuple(dict.fromkeys(RepackAim(text) for text in texts if text in _AIMS))


def _share(share: float | None, findings: Findings) -> float | None:
    if share is not None and not 0.0 <= share <= 1.0:
        findings.problem("repack.leastGain", share, "must be a share between 0 and 1")
    return share


def _not_negative(seconds: float | None, path: str, findings: Findings) -> float | None:
    if seconds is not None and seconds < 0:
        findings.problem(path, f"{seconds:g}s", "must not be negative")
    return seconds


def _policy(text: str | None, findings: Findings) -> AtDeadline | None:
    if text is None:
        return None
    if text not in _POLICIES:
        findings.problem("atDeadline", text, f"write {' or '.join(_POLICIES)}")
        return None
    return AtDeadline(text)


def _signal(shape: SignalShape, path: str, findings: Findings) -> NodeSignal | None:
    keys = (shape.taint, shape.condition, shape.cordon)
    named = {kind: key for kind, key in zip(_KINDS, keys, strict=True) if key}
    if len(named) != 1:
        if not findings.touches(path):
            findings.problem(path, sorted(named), f"must name exactly one of {', '.join(_KINDS)}")
        return None
    positive(shape.notice_time, f"{path}.noticeTime", findings)
    ((kind, key),) = named.items()
    return NodeSignal(SignalKind(kind), key, shape.text, shape.notice_time, shape.ignore, shape.soft)
