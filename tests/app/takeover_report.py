"""What a takeover drill came to: a line for each takeover, the judgement, and the breaches."""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.app.takeover_ledger import Attempt, Ledger
from tests.gangs.ledger import cpu_milli

LIMITS_S = {"SIGTERM": 3.0, "SIGKILL": 20.0, "SIGSTOP": 20.0}
"""From the signal to the next leader's first bind."""
HEAD = f"{'#':>3}  {'signal':8}{'old term':>9}{'its binds':>11}{'lease after':>13}{'first bind':>12}{'limit':>8}"
SHOWN = 5
"""So many breaches of a kind are printed."""


@dataclass(slots=True)
class Takeover:
    """One change of leaders, timed from the signal."""

    signal: str
    transitions: str
    """The term of the leader that got the signal, without its name."""
    struck_s: float
    binds: int = 0
    """Pods that it bound in its term."""
    lease_s: float = 0.0
    bind_s: float = 0.0

    @property
    def limit_s(self) -> float:
        """How long it may take."""
        return LIMITS_S[self.signal]


@dataclass(slots=True)
class Report:
    """Figures and breaches; `fence` says whether the admission policy was installed."""

    fence: bool
    in_time: bool = True
    """Whether takeovers that are too slow count as breaches."""
    takeovers: list[Takeover] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Breaches, in words."""
    pods: int = 0
    room: int = 0
    bound: int = 0
    held_back: int = 0
    """Binds in the queue of the suspended leader that the API server would have taken when it woke up."""
    sent_late: int = 0
    """Binds of a term that were sent when the Lease already named another one."""
    fenced: int = 0
    """Binds that the policy refused, but for the one by hand."""
    conflicts: int = 0
    by_hand: str = ""
    """What the API server said to a bind of the suspended leader's term."""
    counts: dict[str, int] = field(default_factory=dict)

    def judge(self, ledger: Ledger, attempts: Sequence[Attempt], pods: Sequence[dict[str, Any]], room: int) -> None:
        """Hold what was seen, what was asked for and what is there now against each other."""
        on_nodes = [pod for pod in pods if pod["spec"].get("nodeName")]
        self.pods, self.room, self.bound = len(pods), room, len(on_nodes)
        accepted = Counter(each.pod for each in attempts if each.accepted)
        twice = ledger.twice + [f"{pod} was bound {n} times" for pod, n in accepted.items() if n > 1]
        stale = ledger.stale_binds()
        late = ledger.late_attempts(attempts)
        self._count("pods lost", [f"{room} pods fit and {self.bound} are bound"] if self.bound < room else [])
        if self.counts["pods lost"]:
            self.counts["pods lost"] = room - self.bound
        self._count("pods bound twice", twice)
        self._count("nodes over allocatable", sorted({*ledger.overcommitted, *_overfull(on_nodes, ledger)}))
        self._count("binds of an old term accepted", stale)
        by_hand = int(self.fence)
        self.sent_late = len(late) - by_hand
        self.fenced = sum(each.fenced for each in attempts) - by_hand
        if self.sent_late:
            terms = dict(Counter(each.term for each in late))
            self.faults.append(f"binds of terms that had ended were sent: {terms}")
        self.conflicts = sum(each.code == 409 for each in attempts)
        if len(ledger.bound) != self.bound:
            self.faults.append(f"the watch saw {len(ledger.bound)} pods bound, and the list has {self.bound}")

    def add(self, takeover: Takeover) -> None:
        """Take a takeover that has happened."""
        self.takeovers.append(takeover)
        if self.in_time and takeover.bind_s > takeover.limit_s:
            self.faults.append(
                f"takeover {len(self.takeovers)} after {takeover.signal} took {takeover.bind_s:.2f} s,"
                f" the limit is {takeover.limit_s:g} s"
            )

    def answered_by_hand(self, status: int, message: str) -> None:
        """Take what came of a bind of an old term; without the fence it was a dry run, which may pass."""
        passed = status < 300
        self.by_hand = f"{status} {'accepted (a dry run)' if passed and not self.fence else message or 'accepted'}"
        if self.fence and passed:
            self.faults.append("a bind of an old term, posted by hand, was accepted behind the fence")

    def summary(self) -> str:
        """The last lines."""
        lines = ["", *self._times(), "", f"{self.pods} pods, room for {self.room}, {self.bound} bound"]
        lines += [f"{count:>6}  {what}" for what, count in self.counts.items()]
        lines += [
            f"{self.held_back:>6}  binds that the suspended leader still had in its queue and did not send",
            f"{self.sent_late:>6}  binds of an old term sent by replicas, accepted or not",
            f"{self.conflicts:>6}  binds refused because the pod was bound already",
        ]
        if self.fence:
            lines.append(f"{self.fenced:>6}  binds of Moorage refused by the fence and tried again")
        lines.append(f"an old term's bind, by hand: {self.by_hand}")
        lines += [f"BREACH: {fault}" for fault in self.faults] or ["no breach"]
        return "\n".join(lines)

    def _times(self) -> list[str]:
        lines = []
        for name, limit_s in LIMITS_S.items():
            times_s = [takeover.bind_s for takeover in self.takeovers if takeover.signal == name]
            if times_s:
                middle_s, most_s = statistics.median(times_s), max(times_s)
                lines.append(
                    f"{name}: {len(times_s)} takeovers, first bind after {middle_s:.2f} s (median),"
                    f" {most_s:.2f} s (most), limit {limit_s:g} s"
                )
        return lines

    def _count(self, what: str, breaches: Sequence[str]) -> None:
        self.counts[what] = len(breaches)
        self.faults += [f"{what}: {breach}" for breach in breaches[:SHOWN]]


def line_of(number: int, takeover: Takeover) -> str:
    """A takeover as a line of the table."""
    times = f"{takeover.lease_s:>11.2f} s{takeover.bind_s:>10.2f} s{takeover.limit_s:>6g} s"
    verdict = "" if takeover.bind_s <= takeover.limit_s else "  TOO LATE"
    return f"{number:>3}  {takeover.signal:8}{takeover.transitions:>9}{takeover.binds:>11}{times}{verdict}"


def say(line: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _overfull(pods: Sequence[dict[str, Any]], ledger: Ledger) -> list[str]:
    """Nodes that are overcommitted by what a list says."""
    used: Counter[str] = Counter()
    for pod in pods:
        used[pod["spec"]["nodeName"]] += cpu_milli(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    room = ledger.room_milli
    return [f"{node} has {room}m of cpu and {milli}m on it" for node, milli in used.items() if milli > room]
