"""How many live pods of an owner stand on which row, without ever scanning pods for it.

The counts begin with the first question (`follow`) and from then on follow every pod event; whoever has no rule about
owners pays nothing. Pods that are being deleted do not count, nor do finished ones, which stand nowhere.

Invariant, once followed: the counts of an owner are those of a recount over the pods that stand on rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moorage.core.controllers import named_after
from moorage.core.objects import CRON_JOB, DEPLOYMENT
from moorage.core.pods import Pod, PodTemplate
from moorage.core.sparsecounts import SparseCounts

_NOBODY = SparseCounts()


class _Family(NamedTuple):
    """The Deployment or CronJob that owners are named after."""

    namespace: str
    kind: str
    name: str


class OwnerCounts:
    """Live pods by owner and row."""

    def __init__(self) -> None:
        self.followed = False
        """Whether anybody has asked yet; if not, pod events need not be told."""
        self._rows: dict[str, SparseCounts] = {}
        self._family_of: dict[str, _Family] = {}
        self._families: dict[_Family, dict[str, None]] = {}

    def follow(self, standing: Iterable[tuple[Pod, int]]) -> None:
        """Begin to count with the pods that stand on rows now."""
        self.followed = True
        for pod, row in standing:
            self.note(pod, row, 1)

    def note(self, pod: Pod, row: int, number: int) -> None:
        """A pod came to a row (1) or left it (-1)."""
        template = pod.template
        if pod.deleted_s is not None or template.owner is None:
            return
        key = owner_key(template)
        counts = self._rows.get(key)
        if counts is None:
            counts = self._rows[key] = SparseCounts()
            self._join(template, key)
        counts.add(row, number)
        if not counts.total:
            del self._rows[key]
            self._part(key)

    def rows(self, template: PodTemplate) -> SparseCounts:
        """The live pods that have the owner of this one, by row. Do not change them.

        A pod that names a Deployment or CronJob itself, as the simulator makes them, has the pods of the ReplicaSets or
        Jobs named after that one beside it.
        """
        owner = template.owner
        if owner is None:
            return _NOBODY
        own = self._rows.get(owner_key(template), _NOBODY)
        if owner.kind not in (DEPLOYMENT, CRON_JOB):
            return own
        kin = self._families.get(_Family(template.namespace, owner.kind, owner.name))
        if not kin:
            return own
        found = SparseCounts()
        for counts in (own, *(self._rows[key] for key in kin)):
            found.add_all(counts)
        return found

    def all(self) -> Iterator[tuple[str, SparseCounts]]:
        """Every owner that has live pods, with their counts."""
        return iter(self._rows.items())

    def _join(self, template: PodTemplate, key: str) -> None:
        above = named_after(template)
        if above is not None:
            family = self._family_of[key] = _Family(template.namespace, *above)
            self._families.setdefault(family, {})[key] = None

    def _part(self, key: str) -> None:
        family = self._family_of.pop(key, None)
        if family is not None:
            del self._families[family][key]
            if not self._families[family]:
                del self._families[family]


def owner_key(template: PodTemplate) -> str:
    """What tells owners apart: the uid, or the name in files that leave it out."""
    owner = template.owner
    if owner is None:
        return ""
    return owner.uid or f"{template.namespace}/{owner.kind}/{owner.name}"


def may_count_together(template: PodTemplate, other: PodTemplate) -> bool:
    """Whether one of these pods can be among the `rows` of the other; cheap, and now and then too generous."""
    owner = template.owner
    if owner is None or other.owner is None or template.namespace != other.namespace:
        return False
    return owner.kind in (DEPLOYMENT, CRON_JOB) or owner_key(template) == owner_key(other)
