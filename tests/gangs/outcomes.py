"""The runs of the crash drill, what each of them showed, and the figures of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from tests.faults.rules import BIND, Rule, Stop
from tests.gangs.declarations import WAYS, Way

SIZE = 20

When = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Before bind number k is forwarded, or after the API server answered it; the first bind is number 1.

    Binds are forwarded one at a time: at bind k exactly k - 1 others were answered.
    """

    k: int
    when: When

    @property
    def rule(self) -> Rule:
        """What the proxy is told."""
        return Rule(verb=BIND, nth=self.k, act=Stop(before=self.when == "before"))


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the drill."""

    moment: Moment
    taken: bool
    way: Way
    owned: bool
    size: int = SIZE

    @property
    def name(self) -> str:
        """Name of its namespace, scheduler and nodes."""
        return f"{self.way}-{self.moment.when}-{self.moment.k:02}"

    def __str__(self) -> str:
        room = "taken" if self.taken else "free"
        owner = "owned" if self.owned else "bare"
        return f"k={self.moment.k:02} {self.moment.when:6} {self.way:11} {owner:5} room {room:5}"


@dataclass(slots=True)
class Outcome:
    """What one run showed; no breaches means that all promises were kept."""

    case: Case
    bound_at_crash: int = 0
    bound_at_judgement: int = 0
    start_s: float = 0.0
    """Seconds from the start of the second scheduler's process to its first request."""
    settled_s: float | None = None
    """Seconds from the first request of the second scheduler until the gang was whole or released, or None."""
    partial: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    overcommitted: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    refusals: Counter[tuple[int, str, str]] = field(default_factory=Counter)

    @property
    def breaches(self) -> list[str]:
        """All of them, the gravest first."""
        return [*self.partial, *self.twice, *self.overcommitted, *self.other]

    def __str__(self) -> str:
        settled = "never settled" if self.settled_s is None else f"settled after {self.settled_s:4.1f} s"
        bound = f"bound at crash {self.bound_at_crash:2}, judged {self.bound_at_judgement:2}"
        figures = f"{bound}, started in {self.start_s:.1f} s, {settled}"
        return f"{self.case}: {figures}: {'; '.join(self.breaches) or 'ok'}"


def all_cases(ways: Sequence[Way] = WAYS) -> list[Case]:
    """Return the 40 cases: every bind, both moments, half of them with a node taken, ways and owners mixed."""
    cases = []
    for k in range(1, SIZE + 1):
        for when in get_args(When):
            after = when == "after"
            # The last bind that was answered leaves no member without room, so that case must not be a taken one.
            taken = (k + after) % 2 == 0
            cases.append(Case(Moment(k, when), taken, ways[(k // 2 + after) % len(ways)], (k // 2) % 2 == 0))
    return cases


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the figures of all runs, in one line and one more for writes that were refused."""
    refusals: Counter[tuple[int, str, str]] = sum((outcome.refusals for outcome in outcomes), Counter())
    slowest_s = max((outcome.start_s + (outcome.settled_s or 0.0) for outcome in outcomes), default=0.0)
    line = (
        f"{len(outcomes)} runs, {sum(outcome.case.taken for outcome in outcomes)} with room taken: "
        f"{sum(bool(outcome.partial) for outcome in outcomes)} gangs left partial, "
        f"{sum(len(outcome.twice) for outcome in outcomes)} pods bound twice, "
        f"{sum(len(outcome.overcommitted) for outcome in outcomes)} nodes overcommitted, "
        f"{sum(len(outcome.other) for outcome in outcomes)} other breaches; "
        f"the slowest settled {slowest_s:.1f} s after the restart"
    )
    refused = ", ".join(f"{n} x {status} {method} {path}" for (status, method, path), n in refusals.most_common())
    return f"{line}\nrefused writes of the scheduler: {refused or 'none'}"
