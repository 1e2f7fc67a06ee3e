"""A trial as people are shown it: how long it runs, how its two sides stand, and what came of it."""

from __future__ import annotations

from typing import Any

from moorage.core.trials import Side, TrialPhase, TrialRecord, TrialVerdict, percentile_s
from moorage.core.values import dataclass
from moorage.engine.engine import Engine

_P99 = 0.99


@dataclass(frozen=True, slots=True)
class SideAccount:
    """One side; only pods that were created since the trial began count."""

    placed: int
    pending: int
    """Pods that were tried in vain and wait."""
    evictions: int
    failed_binds: int
    waiting_p99_s: float


@dataclass(frozen=True, slots=True)
class TrialAccount:
    """What there is to show."""

    name: str
    phase: TrialPhase
    ran_s: float
    remaining_s: float | None
    """None where it is not known, or it does not run any more."""
    end: str
    """Why it does not run any more; empty while it does."""
    verdict: TrialVerdict
    message: str
    sides: tuple[tuple[Side, SideAccount], ...]


def account_of(engine: Engine, now: float) -> TrialAccount | None:
    """The latest trial of an engine; None if it has none."""
    sides = engine.sides
    record = sides.snapshot(now)
    if record is None:
        return None
    if not sides.measures:
        return account(record)
    standings = sides.standings(engine.queue.entries(), now)
    verdict, message = sides.judge(standings)
    accounts = tuple(
        (
            side,
            SideAccount(
                record.counts(side).placed, each.pending, each.evictions, each.failed_binds, each.waiting_p99_s
            ),
        )
        for side, each in standings.items()
    )
    remaining_s = sides.remaining_s(now)
    return TrialAccount(record.name, record.phase, record.ran_s, remaining_s, "", verdict, message, accounts)


def account(record: TrialRecord, remaining_s: float | None = None) -> TrialAccount:
    """What a record says by itself."""
    sides = []
    for side in Side:
        counts = record.counts(side)
        p99_s = percentile_s(counts.waits, _P99)
        shown = SideAccount(counts.placed, counts.pending, counts.evictions, counts.failed_binds, p99_s)
        sides.append((side, shown))
    end = "" if record.end is None else record.end.value
    return TrialAccount(
        record.name, record.phase, record.ran_s, remaining_s, end, record.verdict, record.message, tuple(sides)
    )


def trial_document(account: TrialAccount) -> dict[str, Any]:
    """The account as plain values, in the words of the configuration."""
    document: dict[str, Any] = {
        "name": account.name,
        "phase": account.phase.value,
        "ranSeconds": round(account.ran_s, 3),
        "verdict": account.verdict.value,
        "message": account.message,
    }
    if account.remaining_s is not None:
        document["remainingSeconds"] = round(account.remaining_s, 3)
    if account.end:
        document["end"] = account.end
    for side, each in account.sides:
        document[side.value] = {
            "placed": each.placed,
            "pending": each.pending,
            "evictions": each.evictions,
            "failedBinds": each.failed_binds,
            "waitingP99Seconds": round(each.waiting_p99_s, 3),
        }
    return document


def trial_line(account: TrialAccount) -> str:
    """The account in one line."""
    sides = "; ".join(f"{side.value}: {each.placed} placed, {each.pending} pending" for side, each in account.sides)
    end = f" ({account.end})" if account.end else ""
    return f"trial {account.name}: {account.phase.value}{end}, {account.verdict.value}; {sides}"
