"""How many live pods of an owner are on which row, without ever scanning pods.

Pods that carry the stamp of a placement strategy's rule are also counted by that stamp.

Counting begins with the first use (`follow`) and then follows every pod event; without rules about owners it costs
nothing. Pods that are being deleted do not count, nor do finished ones, which are on no node. Pods without an owner
count together if placement strategies take them for one workload (`strategy_group`), and for nothing else; those that
have no strategy of their own are counted from the first question about one of them on (`follow_alike`).

Invariant, once followed: the counts of an owner are those of a recount over the pods that stand on rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moorage.core.controllers import named_after
from moorage.core.limits import STRATEGY_TEXT
from moorage.core.objects import CRON_JOB, DEPLOYMENT, Workload
from moorage.core.pods import Pod, PodTemplate
from moorage.core.sparsecounts import SparseCounts
from moorage.core.strategy import STRATEGY_ANNOTATIONS, Stamp, stamp_of

_NO_COUNTS = SparseCounts()
_BARE = "/pods like "
"""Between the namespace and what pods without an owner have in common."""


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
        self.alike_followed = False
        """Whether pods without owner and strategy are counted, too."""
        self._rows: dict[str, SparseCounts] = {}
        self._stamped: dict[str, dict[Stamp, SparseCounts]] = {}
        self._family_of: dict[str, _Family] = {}
        self._families: dict[_Family, dict[str, None]] = {}

    def follow(self, standing: Iterable[tuple[Pod, int]]) -> None:
        """Begin to count with the pods that are on rows now."""
        self.followed = True
        for pod, row in standing:
            self.note(pod, row, 1)

    def follow_alike(self, standing: Iterable[tuple[Pod, int]]) -> None:
        """Begin to count pods without owner and strategy, too, with those that are on rows now."""
        self.alike_followed = True
        for pod, row in standing:
            if is_like_its_labels(pod.template):
                self.note(pod, row, 1)

    def counts(self, pod: Pod) -> bool:
        """Whether the pod is counted while it is on a row."""
        template = pod.template
        return pod.deleted_s is None and (self.alike_followed or not is_like_its_labels(template))

    def note(self, pod: Pod, row: int, number: int) -> None:
        """A pod came to a row (1) or left it (-1)."""
        template = pod.template
        if not self.counts(pod):
            return
        key = strategy_group(template)
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

        A pod that names a Deployment or CronJob itself, as in a hand-written file, has the pods of the ReplicaSets or
        Jobs named after that one beside it.
        """
        return self._added(self._keys(template))

    def workload_rows(self, template: PodTemplate) -> SparseCounts:
        """As `rows`, with the pods of every revision of a Deployment. Do not change them."""
        family = deployment_of(template)
        if family is None:
            return self.rows(template)
        return self._added((*({owner_key(template): None} | self._families.get(_Family(*family), {})),))

    def _added(self, keys: tuple[str, ...]) -> SparseCounts:
        if len(keys) <= 1:
            return self._rows.get(keys[0], _NO_COUNTS) if keys else _NO_COUNTS
        found = SparseCounts()
        for key in keys:
            found.add_all(self._rows.get(key, _NO_COUNTS))
        return found

    def group_rows(self, template: PodTemplate) -> SparseCounts:
        """The live pods of the same workload for strategies, by row: `rows`, or pods without an owner like this one."""
        if template.owner is not None:
            return self.rows(template)
        return self._rows.get(strategy_group(template), _NO_COUNTS)

    def stamped(self, template: PodTemplate) -> list[tuple[Stamp, SparseCounts]]:
        """Those of `group_rows` with a stamp, by stamp; the same one may come more than once. Do not change them."""
        if not self._stamped:
            return []
        keys = (strategy_group(template),) if template.owner is None else self._keys(template)
        return [entry for key in keys for entry in self._stamped.get(key, {}).items()]

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


def strategy_group(template: PodTemplate) -> str:
    """What tells workloads apart for placement strategies: the owner, as `owner_key` says it; of pods without an owner
    the namespace, and in it the text of their strategy annotation, or without one their labels.
    """
    if template.owner is not None:
        return owner_key(template)
    text = _strategy_text(template)
    if text is None:
        return _key(template.namespace, f"{_BARE}{sorted(template.labels.items())}")
    return _key(template.namespace, f"{_BARE}{text if len(text) <= STRATEGY_TEXT else hash(text)}")


def is_like_its_labels(template: PodTemplate) -> bool:
    """Whether only its labels tell which pods are like this one: it has neither an owner nor a strategy."""
    return template.owner is None and _strategy_text(template) is None


def _strategy_text(template: PodTemplate) -> str | None:
    notes = template.annotations
    return next((notes[key] for key in STRATEGY_ANNOTATIONS if key in notes), None) if notes else None


def namespace_of(key: str) -> str:
    """The namespace of the workload with this `owner_key` or `strategy_group`."""
    return key.partition("/")[0]


def workload_key(workload: Workload) -> str:
    """`owner_key` of the pods that name this object."""
    return _key(workload.namespace, workload.uid or f"{workload.kind}/{workload.name}")


def _key(namespace: str, identity: str) -> str:
    return f"{namespace}/{identity}"


def deployment_of(template: PodTemplate) -> tuple[str, str, str] | None:
    """Namespace, kind and name of the Deployment that the pod's ReplicaSet is a revision of; None for others."""
    above = named_after(template)
    return (template.namespace, *above) if above is not None and above[0] == DEPLOYMENT else None


def are_of_one_workload(template: PodTemplate, other: PodTemplate) -> bool:
    """As `may_count_together`, for `workload_rows`."""
    family = deployment_of(template)
    return (family is not None and family == deployment_of(other)) or may_count_together(template, other)


def may_count_together(template: PodTemplate, other: PodTemplate) -> bool:
    """Whether one of these pods can be among the `group_rows` of the other; cheap, and now and then too generous."""
    owner = template.owner
    if owner is None and other.owner is None and template.namespace == other.namespace:
        return strategy_group(template) == strategy_group(other)
    if owner is None or other.owner is None or template.namespace != other.namespace:
        return False
    return owner.kind in (DEPLOYMENT, CRON_JOB) or owner_key(template) == owner_key(other)
