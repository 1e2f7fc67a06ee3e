"""The decision on one pod, as plugins see it."""

from __future__ import annotations

from typing import Any

from moorage.core.arrays import Mask
from moorage.core.gangneeds import Domain
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState


class UnfinishedError(Exception):
    """An answer takes more work than this attempt may do: the pod is tried again, after others.

    The plugin that raises it keeps what it has found, so that the next attempt gets further.
    """


OTHERS_MAY_LEAVE = "others may leave with what their claims hold"
"""Key of `Cycle.memo`: present if devices count as resolvable where they are enough once all claims are free."""


class Cycle:
    """One pod, the state and the time. `memo` is for what a plugin prepares in one extension point for a later one."""

    __slots__ = (
        "asked",
        "domain",
        "expires_s",
        "feasible",
        "memo",
        "misfit_s",
        "now",
        "only",
        "pod",
        "state",
        "template",
        "warnings",
        "work",
    )

    def __init__(self, pod: Pod, state: ClusterState, now: float) -> None:
        self.pod = pod
        self.template: PodTemplate = pod.template
        self.state = state
        self.now = now
        """Seconds since the epoch; the only clock a plugin may read."""
        self.memo: dict[str, Any] = {}
        """Keyed by plugin name; lives as long as the decision."""
        self.misfit_s: float | None = None
        """Since when the pod is known to fit nowhere; None in a first attempt, and where it is not known."""
        self.domain: Domain | None = None
        """The names of the nodes that a member of a gang has to stay on; None: any."""
        self.only: Mask | None = None
        """The rows that are left for the pod, by a plan or where it belongs with others, bool[capacity]; None: any."""
        self.expires_s: float | None = None
        self.asked: Any = None
        """Set by the runner: the plugins that were asked about the pod."""
        self.feasible = 0
        """Number of nodes that passed every filter, once that is known."""
        self.work: int | None = None
        """How much work beyond the ordinary may be done in this attempt, in steps; None: as much as it takes."""
        self.warnings: tuple[tuple[str, str], ...] = ()
        """Reasons and notes of warnings, see `warn`."""

    def spend(self, work: int) -> bool:
        """Whether so much extraordinary work may be done; if not, what was found is kept, and the attempt ends."""
        if self.work is None:
            return True
        self.work -= work
        return self.work >= 0

    def expires(self, at_s: float) -> None:
        """Say that the answer changes at this time even if nothing else happens; the engine looks again then."""
        if self.expires_s is None or at_s < self.expires_s:
            self.expires_s = at_s

    def warn(self, reason: str, note: str) -> None:
        """Warn the user of a problem that does not affect the decision, with a Kubernetes event about the pod.

        `reason` is one word in CamelCase. The engine records every note once, so a note names the object it is about.
        """
        if (reason, note) not in self.warnings:
            self.warnings = (*self.warnings, (reason, note))
