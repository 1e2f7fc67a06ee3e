"""What must hold of a run under contention, whatever the shape; a breach is a sentence with the figure in it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.contention.audit import Auditor, Findings
from tests.contention.figures import Figures
from tests.contention.greedy import greedy
from tests.contention.lab import play
from tests.contention.shapes import Shape

MOST_IDLE_S = 11.0
"""While something fits: a gang gathers room for ten seconds at most."""
MOST_UNBOUND_S = 2.0


@dataclass(frozen=True)
class Wanted:
    """The limits of a shape."""

    utilisation: float = 0.0
    share_of_greedy: float = 0.0
    """Of the utilisation that the plain reference reaches."""
    evictions: float = float("inf")
    requests_per_pod: float = float("inf")
    idle_s: float = MOST_IDLE_S
    partial_s: float = 1.0


def judged(shape: Shape, wanted: Wanted, patience: float = 1.6) -> list[str]:
    """Play a shape, for so many times as long as the reference takes; what was not as wanted."""
    reference = greedy(shape)
    auditors: list[Auditor] = []
    figures = play(shape, limit_s=patience * reference.makespan_s, watch=lambda lab: auditors.append(Auditor(lab)))
    least = max(wanted.utilisation, wanted.share_of_greedy * reference.utilisation)
    return [*_breaches(figures, wanted, least), *_findings(auditors[0].findings, wanted)]


def _breaches(figures: Figures, wanted: Wanted, least: float) -> list[str]:
    requests = f"{figures.requests_per_pod:.1f} requests a pod, not {wanted.requests_per_pod:.1f}"
    told = [
        (not figures.complete, f"{figures.jobs_left} jobs have not ended"),
        (figures.utilisation < least, f"utilisation {figures.utilisation:.3f}, not {least:.3f}"),
        (figures.evictions > wanted.evictions, f"{figures.evictions} evictions, not {wanted.evictions:.0f}"),
        (figures.partial_longest_s > wanted.partial_s, f"a gang is partial for {figures.partial_longest_s:.2f} s"),
        (figures.requests_per_pod > wanted.requests_per_pod, f"{requests}: {dict(figures.requests)}"),
    ]
    return [breach for broken, breach in told if broken]


def _findings(findings: Findings, wanted: Wanted) -> list[str]:
    longest, unbound_s = findings.longest, findings.unbound_longest_s
    idle = [f"nothing started for {longest}"] if longest.length_s > wanted.idle_s else []
    unbound = [f"a pod was assumed and not bound for {unbound_s:.1f} s"] if unbound_s > MOST_UNBOUND_S else []
    return idle + unbound
