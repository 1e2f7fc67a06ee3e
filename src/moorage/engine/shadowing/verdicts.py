"""What comes of comparing a decision of another scheduler with the one that a profile would have made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from moorage.core.frozen import FrozenDict
from moorage.core.values import dataclass

_NO_POINTS: FrozenDict[str, int] = FrozenDict()
_NO_REASONS: FrozenDict[str, tuple[str, ...]] = FrozenDict()


class ShadowVerdict(StrEnum):
    """How two decisions on one pod relate; the values are labels of metrics and keys of reports."""

    SAME = "same"
    """The same node."""
    TIE = "tie"
    """Another node with the same total under the profile: either could have been chosen."""
    ORDER = "order"
    """Different as things were seen, but not in another order of decisions that nobody could tell from it."""
    DIFFERENT = "different"
    PENDING_HERE = "pendingHere"
    """Placed by the other scheduler; the profile finds no node."""
    PENDING_THERE = "pendingThere"
    """Unschedulable for the other scheduler; the profile finds a node."""
    BOTH_PENDING = "bothPending"
    """Unschedulable for both."""
    UNDECIDED = "undecided"
    """It cannot be compared: a plugin failed, a search took too long, or the node is not known."""


AGREEMENT = frozenset({ShadowVerdict.SAME, ShadowVerdict.TIE, ShadowVerdict.ORDER, ShadowVerdict.BOTH_PENDING})
DISAGREEMENT = frozenset({ShadowVerdict.DIFFERENT, ShadowVerdict.PENDING_HERE, ShadowVerdict.PENDING_THERE})


@dataclass(frozen=True, slots=True)
class Finding:
    """One decision compared on one state."""

    verdict: ShadowVerdict
    here: str | None = None
    """The node that the profile chooses."""
    feasible: int = 0
    """How many nodes fit."""
    scores_there: Mapping[str, int] = _NO_POINTS
    """Plugin -> normalised score times weight of the other scheduler's node; empty if the profile rejects it."""
    scores_here: Mapping[str, int] = _NO_POINTS
    rejected: Mapping[str, tuple[str, ...]] = _NO_REASONS
    """The plugin that rejects the other scheduler's node, and its reasons."""
    message: str = ""
    """Why the profile finds no node, or why the decision cannot be compared."""
    without: tuple[str, ...] = ()
    """Plugins without whose scores the other scheduler's node would be among the best."""
    reversed: tuple[str, ...] = ()
    """Plugins for which that is true if their scores count with the other sign."""

    @property
    def difference(self) -> dict[str, int]:
        """Plugin -> points by which it prefers the node chosen here; those without a preference are left out."""
        if self.rejected:
            return {}
        names = dict.fromkeys((*self.scores_here, *self.scores_there))
        points = {name: self.scores_here.get(name, 0) - self.scores_there.get(name, 0) for name in names}
        return {name: value for name, value in points.items() if value}


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of the other scheduler, and what the profile says to it."""

    at_s: float
    """When the bind, or the refusal, was seen."""
    namespace: str
    name: str
    scheduler: str
    there: str | None
    """The node that the other scheduler chose; None if it found none."""
    finding: Finding
    flips: int = 0
    """How many neighbouring binds had to be seen in another order to explain a difference."""

    @property
    def verdict(self) -> ShadowVerdict:
        """What came of it."""
        return self.finding.verdict


@dataclass(frozen=True, slots=True)
class ComparedEviction:
    """The other scheduler evicted pods for a pod; what the profile would have done."""

    at_s: float
    namespace: str
    name: str
    scheduler: str
    there: str
    """The node that the pod was nominated to."""
    here: str | None
    """The node on which the profile would have made room, or on which it finds room without evictions."""
    victims_there: tuple[str, ...] = ()
    """`namespace/name` each."""
    victims_here: tuple[str, ...] = ()


@dataclass(slots=True)
class PluginTally:
    """What one plugin had to do with differences."""

    decisive: int = 0
    """Differences in which it preferred the node chosen here by more points than any other plugin."""
    without: int = 0
    """Differences that would be none without its scores."""
    reversed: int = 0
    """Differences that would be none if its scores counted with the other sign."""
    points: int = 0
    """Sum of the points by which it preferred the nodes chosen here."""
    rejections: int = 0
    """Decisions in which it rejected the other scheduler's node."""


@dataclass(slots=True)
class EvictionTally:
    """Preemptions of the other scheduler."""

    nominations: int = 0
    same_node: int = 0
    victims_there: int = 0
    victims_here: int = 0


@dataclass(slots=True)
class ShadowCounts:
    """Everything that is counted, and kept however long it takes."""

    verdicts: dict[tuple[str, ShadowVerdict], int] = field(default_factory=dict)
    """By scheduler name and verdict."""
    plugins: dict[str, PluginTally] = field(default_factory=dict)
    evictions: EvictionTally = field(default_factory=EvictionTally)
    unseen: int = 0
    """Pods of the named schedulers that had a node when they were first seen."""
    skipped: int = 0
    """Decisions that were not compared, as too many events waited."""
    left_out: int = 0
    """Differences that are no longer kept one by one."""

    def of(self, verdict: ShadowVerdict) -> int:
        """How many decisions had this verdict, of all schedulers."""
        return sum(number for (_, each), number in self.verdicts.items() if each is verdict)

    @property
    def decisions(self) -> int:
        """How many there were."""
        return sum(self.verdicts.values())
