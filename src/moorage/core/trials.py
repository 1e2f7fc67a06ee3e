"""A configuration on trial: the two sides, what is counted of each, and what is kept of it from leader to leader.

Counts are of bounded size however long a trial runs: waiting times are counted in classes, each a tenth longer than the
one before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from moorage.core.controllers import named_after
from moorage.core.hashing import node_hash
from moorage.core.pods import Pod
from moorage.core.values import dataclass

_STEP = 1.1
_SHORTEST_S = 0.01
MOST_CLASSES = 220
"""The last class begins at a hundred days, about."""
_LONGEST_S = 1e12
_PARTS = 1_000_000
"""How finely workloads are divided."""
_SALT = 0x7E1A1
"""So that the share of a trial has nothing to do with how ties are broken."""
MOST_NAME = 63
"""Characters of the name of a trial."""
MOST_MESSAGE = 512
"""Characters of a message that are kept."""


class Side(StrEnum):
    """Which profiles decide on a pod; the values are labels of metrics."""

    CONTROL = "control"
    """The profiles of the KubeSchedulerConfiguration."""
    TRIAL = "trial"


class TrialPhase(StrEnum):
    """Where a trial is in its life."""

    RUNNING = "Running"
    KEPT = "Kept"
    """Its time is over, and its profiles stay."""
    ENDED = "Ended"


class TrialEnd(StrEnum):
    """Why a trial does not run any more."""

    WORSE = "Worse"
    TIME_OVER = "TimeOver"
    REMOVED = "Removed"
    """The configuration has no trial any more."""
    BROKEN = "Broken"
    """The configuration cannot be read any more."""


LASTING_ENDS = frozenset({TrialEnd.WORSE, TrialEnd.TIME_OVER})
"""A trial that ended so does not begin again by itself; after the others it does, as soon as its document is back."""


class TrialVerdict(StrEnum):
    """How the trial compares with the control, by the limits of its document."""

    BETTER = "Better"
    WORSE = "Worse"
    ALIKE = "Alike"
    UNKNOWN = "Unknown"
    """Too few pods on one side."""


@dataclass(slots=True)
class SideTally:
    """What happened on one side since the trial began."""

    placed: int = 0
    """Pods that were created since then and bound."""
    evictions: int = 0
    """Pods that were evicted for pods of this side, whatever their own."""
    failed_binds: int = 0
    waits: dict[int, int] = field(default_factory=dict)
    """Class of waiting time -> how many of the placed pods."""

    def add(self, waited_s: float) -> None:
        """A pod was bound after this long."""
        place = wait_class(waited_s)
        self.placed += 1
        self.waits[place] = self.waits.get(place, 0) + 1

    def counts(self) -> SideCounts:
        """The same as a value."""
        return SideCounts(self.placed, self.evictions, self.failed_binds, tuple(sorted(self.waits.items())))


@dataclass(frozen=True, slots=True)
class SideCounts:
    """A tally as a value."""

    placed: int = 0
    evictions: int = 0
    failed_binds: int = 0
    waits: tuple[tuple[int, int], ...] = ()
    """Class of waiting time and number, ascending."""
    pending: int = 0
    """Pods that waited after an attempt in vain when the sides were last compared; only shown."""

    def tally(self) -> SideTally:
        """To count on."""
        return SideTally(self.placed, self.evictions, self.failed_binds, dict(self.waits))


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """What there is to know about a trial; the next leader goes on from it."""

    name: str
    digest: str
    """Of what is tried and with which pods: a trial with another digest is another trial."""
    phase: TrialPhase = TrialPhase.RUNNING
    ran_s: float = 0.0
    """For how long it has run; the time without a leader does not count. Its end follows from this alone, so that
    clocks of different machines are not compared."""
    end: TrialEnd | None = None
    verdict: TrialVerdict = TrialVerdict.UNKNOWN
    message: str = ""
    """Why it ended, in words."""
    control: SideCounts = SideCounts()
    trial: SideCounts = SideCounts()
    began_s: float = 0.0
    """When it began, by the clock of the leader of that time: pods that were created before do not count."""

    def counts(self, side: Side) -> SideCounts:
        """Those of one side."""
        return self.trial if side is Side.TRIAL else self.control

    @property
    def in_force(self) -> bool:
        """Whether its profiles decide on its pods."""
        return self.phase is not TrialPhase.ENDED


def wait_class(waited_s: float) -> int:
    """The class of a waiting time."""
    if not waited_s > _SHORTEST_S:
        return 0
    return min(math.ceil(math.log(min(waited_s, _LONGEST_S) / _SHORTEST_S, _STEP)), MOST_CLASSES)


def longest_s(place: int) -> float:
    """The longest waiting time of a class."""
    return _SHORTEST_S * _STEP**place


def percentile_s(waits: Mapping[int, int] | Iterable[tuple[int, int]], share: float) -> float:
    """The waiting time within which this share of the pods was placed; 0 where there are none."""
    numbers = sorted(dict(waits).items())
    rank = math.ceil(share * sum(number for _, number in numbers))
    for place, number in numbers:
        rank -= number
        if rank <= 0:
            return longest_s(place)
    return 0.0


def workload_key(pod: Pod) -> str:
    """Names what a pod is part of, the same for all its pods, whatever rollouts or restarts replace.

    Members of a gang are on one side, so the gang counts, if there is one.
    """
    template = pod.template
    if template.gang is not None:
        return f"{template.gang.by}/{template.gang.object_key}"
    if template.owner is None:
        return f"Pod/{pod.key}"
    kind, name = named_after(template) or (template.owner.kind, template.owner.name)
    return f"{kind}/{template.namespace}/{name}"


def is_among(key: str, percent: float) -> bool:
    """Whether a workload belongs to the given share of all workloads; to each larger share, too."""
    return node_hash(_SALT, key) % _PARTS < percent * _PARTS / 100
