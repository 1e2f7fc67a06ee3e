"""How many live pods of an owner are on which row, without ever scanning pods.

Pods that carry the stamp of a placement strategy's rule are also counted by that stamp.

Counting begins with the first use (`follow`) and then follows every pod event; without rules about owners it costs
nothing. Pods that are being deleted do not count, nor do finished ones, which are on no node.

Invariant, once followed: the counts of an owner are those of a recount over the pods that stand on rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moorage.core.controllers import named_after
from moorage.core.objects import CRON_JOB, DEPLOYMENT, Workload
from moorage.core.pods import Pod, PodTemplate
from moorage.core.sparsecounts import SparseCounts
from moorage.core.strategy import Stamp, stamp_of

_NO_COUNTS = SparseCounts()


class _Family(NamedTuple):
    """The Deployment or CronJob that owners are named after."""

    namespace: str
    kind: str
    name: str


class OwnerCounts:
    """Live pods by owner and row."""

    def __init__(self) -> None:
        self.followed = False
        """Whether the counts are in use; if not, pod events need not be passed on."""
        self._rows: dict[str, SparseCounts] = {}
        self._stamped: dict[str, dict[Stamp, SparseCounts]] = {}
        self._family_of: dict[str, _Family] = {}
        self._families: dict[_Family, dict[str, None]] = {}

    def follow(self, standing: Iterable[tuple[Pod, int]]) -> None:
        """Begin to count with the pods that are on rows now."""
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
        stamp = stamp_of(template)
        if stamp.text:
            self._note_stamp(key, stamp, row, number)
        if not counts.total:
            del self._rows[key]
            self._part(key)

    def rows(self, template: PodTemplate) -> SparseCounts:
        """The live pods that have the owner of this one, by row. Do not change them.

        A pod that names a Deployment or CronJob itself, as the simulator makes them, has the pods of the ReplicaSets or
        Jobs named after that one beside it.
        """
        keys = self._keys(template)
        if len(keys) <= 1:
            return self._rows.get(keys[0], _NO_COUNTS) if keys else _NO_COUNTS
        found = SparseCounts()
        for key in keys:
            found.add_all(self._rows.get(key, _NO_COUNTS))
        return found

    def stamped(self, template: PodTemplate) -> list[tuple[Stamp, SparseCounts]]:
        """Those of `rows` that carry a stamp, by stamp; the same one may come more than once. Do not change them."""
        if not self._stamped:
            return []
        return [entry for key in self._keys(template) for entry in self._stamped.get(key, {}).items()]

    def all_stamped(self) -> Iterator[tuple[str, Stamp, SparseCounts]]:
        """Every owner that has live pods with a stamp, with their counts."""
        return ((key, *entry) for key, stamps in self._stamped.items() for entry in stamps.items())

    def _keys(self, template: PodTemplate) -> tuple[str, ...]:
        """The owners whose pods count together with this one."""
        owner = template.owner
        if owner is None:
            return ()
        own = owner_key(template)
        if owner.kind not in (DEPLOYMENT, CRON_JOB):
            return (own,)
        return (own, *self._families.get(_Family(template.namespace, owner.kind, owner.name), ()))

    def _note_stamp(self, key: str, stamp: Stamp, row: int, number: int) -> None:
        stamps = self._stamped.setdefault(key, {})
        counts = stamps.get(stamp)
        if counts is None:
            counts = stamps[stamp] = SparseCounts()
        counts.add(row, number)
        if not counts.total:
            del stamps[stamp]
            if not stamps:
                del self._stamped[key]

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
    """What tells owners apart: namespace and uid, or the name in files that leave the uid out; empty without an owner.

    Every user can write the uid of another namespace's object into an owner reference. Kubernetes takes it for a
    missing object of the pod's own namespace, and so does the key: such pods do not count for an owner in another
    namespace.
    """
    owner = template.owner
    return "" if owner is None else _key(template.namespace, owner.uid or f"{owner.kind}/{owner.name}")


def namespace_of(key: str) -> str:
    """The namespace of the owner with this `owner_key`."""
    return key.partition("/")[0]


def workload_key(workload: Workload) -> str:
    """`owner_key` of the pods that name this object."""
    return _key(workload.namespace, workload.uid or f"{workload.kind}/{workload.name}")


def _key(namespace: str, identity: str) -> str:
    return f"{namespace}/{identity}"


def may_count_together(template: PodTemplate, other: PodTemplate) -> bool:
    """Whether one of these pods can be among the `rows` of the other; cheap, and now and then too generous."""
    owner = template.owner
    if owner is None or other.owner is None or template.namespace != other.namespace:
        return False
    return owner.kind in (DEPLOYMENT, CRON_JOB) or owner_key(template) == owner_key(other)
