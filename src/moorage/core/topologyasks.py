"""What gangs ask of the levels of the network: which they must or should stay inside, and in which slices.

What is written in the words of Kueue, KAI or Volcano becomes the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from moorage.core.values import dataclass

SUBGROUP_LABELS = (
    "moorage.dev/subgroup",
    "kueue.x-k8s.io/podset",
    "kai.scheduler/subgroup-name",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "training.kubeflow.org/replica-type",
    "ray.io/group",
    "volcano.sh/task-spec",
    "spark-role",
    "grove.io/podclique",
)
"""Labels of pods that name their role inside the gang; the first one that is there counts."""
TOPOLOGY_REQUIRED = "moorage.dev/topology-required"
RANK_LABELS = (
    ("jobset.sigs.k8s.io/job-index", "batch.kubernetes.io/job-completion-index"),
    ("batch.kubernetes.io/job-completion-index",),
    ("kueue.x-k8s.io/pod-group-pod-index",),
    ("leaderworkerset.sigs.k8s.io/worker-index",),
    ("training.kubeflow.org/replica-index",),
    ("ray.io/worker-group-replica-index", "ray.io/replica-host-index"),
    ("volcano.sh/task-index",),
    ("grove.io/podclique-pod-index",),
    ("apps.kubernetes.io/pod-index",),
)
"""Labels of pods whose numbers are their rank inside the role; the first line that is there as a whole counts."""
RANK_OFFSET = "kueue.x-k8s.io/pod-index-offset"
"""Annotation of pods: the rank of the first one of the role."""


_MOST_DIGITS = 9


def numbers_at(
    keys: Iterable[str], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> tuple[int, ...] | None:
    """The numbers that labels, or annotations, have under these keys; None unless all of them are there."""
    numbers = []
    for key in keys:
        text = labels.get(key) or annotations.get(key) or ""
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            return None
        numbers.append(int(text))
    return tuple(numbers)


class SliceAsk(NamedTuple):
    """So many consecutive members lie in one domain of the level."""

    level: str
    size: int | None
    """None if it was not given: then a slice is one of the jobs that the role is made of."""
    uneven: bool = False
    """Whether the last slice may be smaller."""
    soft: bool = False
    """Whether a wider level will do where this one has no room."""


class Objective(StrEnum):
    """What a placement is measured by."""

    FEWEST = ""
    """Few domains."""
    BALANCED = "balanced"
    """Equal numbers in few domains of the preferred level."""


@dataclass(frozen=True, slots=True)
class TopologyAsk:
    """What an object or a pod asks of the levels."""

    required: str = ""
    """All members lie in one domain of this level."""
    preferred: str = ""
    """They should, else in one of the narrowest wider level that can hold them."""
    unconstrained: bool = False
    slices: tuple[SliceAsk, ...] = ()
    """The widest first."""
    topology: str = ""
    """Name of the Topology, where several have the levels."""
    shares: str = ""
    """Sub-groups with the same word here share the constraint."""
    objective: Objective = Objective.FEWEST
    mistake: str = ""
    """What cannot be understood; the gang waits until it is put right."""

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it names."""
        return tuple(filter(None, (self.required, self.preferred, *(each.level for each in self.slices))))


NOTHING_ASKED = TopologyAsk()


@dataclass(frozen=True, slots=True)
class SubGroup:
    """Members of a gang by their role, or a group of such groups."""

    name: str
    parent: str = ""
    """The group that it is part of; empty for the gang."""
    least: int | None = None
    """How many members must be placed together; None if that is not said."""
    ask: TopologyAsk = NOTHING_ASKED
