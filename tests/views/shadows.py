"""Reports of shadows, made by hand."""

from __future__ import annotations

from typing import Any

from moorage.core.frozen import FrozenDict
from moorage.engine.shadowing.ledger import Ledger
from moorage.engine.shadowing.verdicts import ComparedEviction, Decision, Finding, ShadowVerdict
from moorage.framework.idle import Idle
from moorage.views.shadow import ShadowReport
from moorage.views.standing import Standing

THERE = Standing(
    nodes=4,
    nodes_in_use=3,
    pods=20,
    pending=1,
    allocated={"cpu": 0.5},
    allocated_in_use={"cpu": 0.75},
    currency="EUR",
    cost_micros=1_250_000,
    idle={"cpu": Idle(4.0, 1.0)},
    spread_rules=5,
    spread_broken=1,
)


def finding(verdict: ShadowVerdict = ShadowVerdict.DIFFERENT, **fields: Any) -> Finding:
    """A node that scores better here."""
    scores = {
        "scores_there": FrozenDict({"Fit": 10, "Spread": 40}),
        "scores_here": FrozenDict({"Fit": 90, "Spread": 30}),
    }
    return Finding(verdict, **{"here": "n2", "feasible": 3, **scores, **fields})


def decision(name: str = "web-1", there: str | None = "n1", **fields: Any) -> Decision:
    """Of the stock scheduler."""
    return Decision(1_700_000_000.0, "shop", name, "default-scheduler", there, finding(**fields))


def report(*decisions: Decision, evictions: tuple[ComparedEviction, ...] = (), **fields: Any) -> ShadowReport:
    """What a shadow says after these."""
    ledger = Ledger()
    for each in decisions:
        ledger.note(each)
    for eviction in evictions:
        ledger.evicted(eviction)
    return ShadowReport(
        mode="follow",
        schedulers={"default-scheduler": "moorage"},
        began_s=1_700_000_000.0,
        ended_s=1_700_000_600.0,
        counts=ledger.counts,
        differences=tuple(ledger.differences),
        evictions=tuple(ledger.evictions),
        there=THERE,
        **fields,
    )
