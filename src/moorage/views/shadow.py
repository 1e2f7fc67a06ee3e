"""What a shadow has found, as plain values: for `-o json`, the table, the HTML report and the dashboard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from moorage.core.prices import format_price
from moorage.core.values import dataclass
from moorage.engine.shadowing.verdicts import (
    AGREEMENT,
    ComparedEviction,
    Decision,
    PluginTally,
    ShadowCounts,
    ShadowVerdict,
)
from moorage.views.shadownames import Names
from moorage.views.standing import Standing

_MUCH_OF = 0.5


@dataclass(frozen=True, slots=True)
class Lag:
    """How long events waited before they were taken into account."""

    p50_s: float = 0.0
    p99_s: float = 0.0
    most_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """Everything that was found from the beginning to now."""

    mode: str
    schedulers: Mapping[str, str]
    """Name of another scheduler -> name of the profile that judges it."""
    began_s: float
    ended_s: float
    counts: ShadowCounts
    differences: Sequence[Decision]
    """The newest ones, oldest first."""
    evictions: Sequence[ComparedEviction]
    there: Standing
    here: Standing | None = None
    """None where the other scheduler's placements are taken over."""
    cpu_s: float = 0.0
    lag: Lag = Lag()

    @property
    def agreement(self) -> float | None:
        """The share of decisions that agree, of those that can be compared; None if there were none."""
        compared = self.counts.decisions - self.counts.of(ShadowVerdict.UNDECIDED)
        return sum(map(self.counts.of, AGREEMENT)) / compared if compared else None


_DRIFT = (
    "In mode own, one tie that is broken the other way leads to other placements from then on: compare the figures of "
    "both worlds rather than single decisions."
)


def conclusions(counts: ShadowCounts) -> list[str]:
    """What the differences are due to, in sentences; the most important one first."""
    scored = sum(tally.decisive for tally in counts.plugins.values())
    found = [*_by_scores(counts.plugins, scored)] if scored else []
    for name, tally in sorted(counts.plugins.items(), key=lambda item: -item[1].rejections):
        if tally.rejections:
            found.append(
                f"{name} rejects the other scheduler's node in {_decisions(tally.rejections)}: its rule is another "
                "there, or is not applied."
            )
    if counts.of(ShadowVerdict.UNDECIDED):
        found.append(f"{_decisions(counts.of(ShadowVerdict.UNDECIDED)).capitalize()} could not be compared.")
    if counts.skipped:
        found.append(
            f"{_decisions(counts.skipped).capitalize()} came faster than could be compared, and count nowhere else: "
            "give the shadow a core of its own, or name fewer schedulers."
        )
    return found


def _by_scores(plugins: Mapping[str, PluginTally], scored: int) -> Iterable[str]:
    ranked = sorted(plugins.items(), key=lambda item: (-item[1].reversed, -item[1].decisive, item[0]))
    name, tally = ranked[0]
    decisive, most = max(plugins.items(), key=lambda item: (item[1].decisive, item[1].points))
    if tally.reversed >= _MUCH_OF * scored and tally.reversed > tally.without:
        yield (
            f"{name} counts the other way round: with the opposite sign of its scores, {tally.reversed} of {scored} "
            "different decisions would be agreements. Check its weight and its arguments on both sides."
        )
        return
    name, tally = max(plugins.items(), key=lambda item: (item[1].without, item[1].decisive))
    if tally.without >= _MUCH_OF * scored:
        yield (
            f"{name} accounts for {tally.without} of {scored} different decisions: without its scores, the other "
            "scheduler's nodes would be among the best. Check its weight and its arguments on both sides."
        )
    if decisive != name or tally.without < _MUCH_OF * scored:
        yield (
            f"{decisive} prefers the nodes chosen here by more points than any other plugin in {most.decisive} of "
            f"{scored} different decisions."
        )


def _decisions(number: int) -> str:
    return "1 decision" if number == 1 else f"{number} decisions"


def document(report: ShadowReport, names: Names) -> dict[str, Any]:
    """The report as JSON has it; tables and pages are made from it, so that no name escapes `names`."""
    counts = report.counts
    return {
        "mode": report.mode,
        "schedulers": dict(report.schedulers),
        "began": _time(report.began_s),
        "ended": _time(report.ended_s),
        "decisions": {"total": counts.decisions, **{str(verdict): counts.of(verdict) for verdict in ShadowVerdict}},
        "agreement": report.agreement,
        "unseen": counts.unseen,
        "skipped": counts.skipped,
        "conclusions": [*([] if report.here is None else [_DRIFT]), *conclusions(counts)],
        "plugins": [_plugin(name, counts.plugins[name]) for name in sorted(counts.plugins)],
        "differences": [_difference(each, names) for each in report.differences],
        "differencesLeftOut": counts.left_out,
        "evictions": {
            "nominations": counts.evictions.nominations,
            "sameNode": counts.evictions.same_node,
            "victimsThere": counts.evictions.victims_there,
            "victimsHere": counts.evictions.victims_here,
            "newest": [_eviction(each, names) for each in report.evictions],
        },
        "worlds": {"there": _world(report.there), "here": None if report.here is None else _world(report.here)},
        "cost": {
            "cpuSeconds": round(report.cpu_s, 3),
            "cpuMillisecondsPerDecision": round(1000 * report.cpu_s / counts.decisions, 3)
            if counts.decisions
            else None,
            "lagSeconds": {
                "p50": round(report.lag.p50_s, 4),
                "p99": round(report.lag.p99_s, 4),
                "max": round(report.lag.most_s, 4),
            },
        },
    }


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _plugin(name: str, tally: PluginTally) -> dict[str, Any]:
    return {
        "name": name,
        "decisive": tally.decisive,
        "agreementsWithoutIt": tally.without,
        "agreementsWithTheOtherSign": tally.reversed,
        "points": tally.points,
        "rejections": tally.rejections,
    }


def _difference(decision: Decision, names: Names) -> dict[str, Any]:
    finding = decision.finding
    found: dict[str, Any] = {
        "pod": names.pod(decision.namespace, decision.name),
        "scheduler": decision.scheduler,
        "at": _time(decision.at_s),
        "verdict": str(decision.verdict),
        "there": names.node(decision.there),
        "here": names.node(finding.here),
        "feasibleNodes": finding.feasible,
    }
    if finding.scores_there or finding.scores_here:
        found["scores"] = {
            name: {"there": finding.scores_there.get(name, 0), "here": finding.scores_here.get(name, 0)}
            for name in finding.scores_here
        }
        found["totals"] = {"there": sum(finding.scores_there.values()), "here": sum(finding.scores_here.values())}
    if finding.rejected:
        found["rejected"] = {
            plugin: [text for reason in reasons if (text := names.text(reason))]
            for plugin, reasons in finding.rejected.items()
        }
    if finding.message:
        found["message"] = names.text(finding.message)
    return found


def _eviction(eviction: ComparedEviction, names: Names) -> dict[str, Any]:
    return {
        "pod": names.pod(eviction.namespace, eviction.name),
        "scheduler": eviction.scheduler,
        "at": _time(eviction.at_s),
        "there": names.node(eviction.there),
        "here": names.node(eviction.here),
        "victimsThere": [names.pod(*key.split("/", 1)) for key in eviction.victims_there],
        "victimsHere": [names.pod(*key.split("/", 1)) for key in eviction.victims_here],
    }


def _world(standing: Standing) -> dict[str, Any]:
    return {
        "nodes": standing.nodes,
        "nodesInUse": standing.nodes_in_use,
        "pods": standing.pods,
        "pending": standing.pending,
        "allocated": {name: round(share, 4) for name, share in standing.allocated.items()},
        "allocatedOnNodesInUse": {name: round(share, 4) for name, share in standing.allocated_in_use.items()},
        "costPerHour": None if standing.currency is None else format_price(standing.cost_micros),
        "currency": standing.currency,
        "nodesWithoutPrice": standing.without_price,
        "idle": {
            name: {"amount": round(idle.amount, 3), "unusable": round(idle.unusable, 3)}
            for name, idle in standing.idle.items()
        },
        "spread": {
            "constraints": standing.spread_rules,
            "broken": standing.spread_broken,
            "uneven": standing.spread_uneven,
        },
        "strategies": {"workloads": standing.strategies, "off": standing.strategies_off},
    }
