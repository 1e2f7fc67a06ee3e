"""Pods of Jobs that do not come back, summed up for the object above the Jobs.

A Job counts for the object that its owner reference names in full, in its own namespace: anyone may write a uid
into a reference. The reference is all that is needed, so that Jobs may be known before the object above them. Sums
are kept by role, and worked out anew only where the object above has come to read roles from another label, or to make
other roles later.

Nothing here outlives its Job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moorage.core.gangowners import GangOwner, GangPart, done_of
from moorage.core.objects import Workload


class Above(NamedTuple):
    """The object above a Job, as an owner reference names it."""

    namespace: str
    group: str
    kind: str
    name: str
    uid: str


class _Below:
    """The Jobs below one object."""

    __slots__ = ("early", "jobs", "label", "later", "sums")

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[Mapping[str, str], int]] = {}
        """Uid -> its labels, and how many of its pods do not come back."""
        self.label = ""
        """Names the role of a Job."""
        self.later: Mapping[str, int] = {}
        """Roles that are gangs of their own."""
        self.sums: dict[str, int] = {}
        """Such a role -> how many of its pods do not come back."""
        self.early = 0
        """The same of all other roles."""

    def count(self, labels: Mapping[str, str], done: int) -> None:
        role = labels.get(self.label, "")
        if role in self.later:
            self.sums[role] = self.sums.get(role, 0) + done
        else:
            self.early += done

    def rule(self, owner: GangOwner) -> None:
        """Tell roles apart as the object above does."""
        if (self.label, self.later) == (owner.role_label, owner.later):
            return
        self.label, self.later = owner.role_label, owner.later
        self.sums, self.early = {}, 0
        for labels, done in self.jobs.values():
            self.count(labels, done)


class DoneJobs:
    """The Jobs of one cluster that have pods which do not come back."""

    def __init__(self) -> None:
        self._above: dict[str, Above] = {}
        """Uid of a Job -> the object above it."""
        self._below: dict[Above, _Below] = {}

    def __len__(self) -> int:
        """How many Jobs count."""
        return len(self._above)

    def note(self, job: Workload) -> list[Above]:
        """A Job is like this now; the objects above for which that makes a difference."""
        above, done = None, done_of(job)
        if job.owner is not None and done:
            owner = job.owner
            above = Above(job.namespace, owner.api_version.rpartition("/")[0], owner.kind, owner.name, owner.uid)
            below = self._below.get(above)
            if below is not None and below.jobs.get(job.uid) == (job.labels, done):
                return []
        changed = self.drop(job.uid)
        if above is not None:
            below = self._below.setdefault(above, _Below())
            below.jobs[job.uid] = job.labels, done
            below.count(job.labels, done)
            self._above[job.uid] = above
            changed = [*changed, above] if above not in changed else changed
        return changed

    def drop(self, uid: str) -> list[Above]:
        """A Job is gone, or says nothing any more; the object above if that makes a difference."""
        above = self._above.pop(uid, None)
        if above is None:
            return []
        below = self._below[above]
        labels, done = below.jobs.pop(uid)
        below.count(labels, -done)
        if not below.jobs:
            del self._below[above]
        return [above]

    def of(self, owner: GangOwner, group_kind: tuple[str, str], part: GangPart) -> int:
        """How many pods of a gang do not come back by what the Jobs below its owner say."""
        below = self._below.get(Above(owner.namespace, *group_kind, owner.name, owner.uid))
        if below is None:
            return 0
        below.rule(owner)
        return below.sums.get(part.name, 0) if part.name in owner.later else below.early
