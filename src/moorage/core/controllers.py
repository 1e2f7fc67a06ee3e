"""The controller that a pod belongs to: found through owner references, or by name where one in the middle is missing.

A pod of a Deployment names its ReplicaSet, a pod of a CronJob its Job; users know the Deployment and the CronJob. Only
their annotations count: Kubernetes copies annotations down and never takes them away again. A pod of a hand-written
file may also name a Deployment or CronJob itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.gangowners import wanted_of
from moorage.core.objects import (
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Workload,
    object_key,
)
from moorage.core.pods import Owner, PodTemplate

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

REVISION = "deployment.kubernetes.io/revision"
"""Annotation of a Deployment and of its ReplicaSets: the number of the revision."""
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_DIGITS = 10
_REVISION_DIGITS = 19
TEMPLATE_HASH = "pod-template-hash"
"""Label of a ReplicaSet's pods; also the end of its name, where a Deployment made it."""

API_GROUPS = {
    REPLICATION_CONTROLLER: "",
    REPLICA_SET: "apps",
    DEPLOYMENT: "apps",
    STATEFUL_SET: "apps",
    JOB: "batch",
    CRON_JOB: "batch",
}
"""Kinds that can be the controller of a pod -> their API group; others have kinds of the same names."""

CONTROLLER_KINDS = frozenset(API_GROUPS)
_ABOVE = {REPLICA_SET: DEPLOYMENT, JOB: CRON_JOB}


class Controller(NamedTuple):
    """What a pod belongs to."""

    owner: Owner
    """What the pod itself names; `state.owners` counts its live pods."""
    kind: str
    """Kind and name of the controller that users know; its annotations count."""
    name: str
    desired: int | None
    """How many pods the named owner wants at present; None while nothing is known about it."""
    size: int | None
    """For how many pods the workload is made, whatever a rollout or the progress of a Job has left of them now."""
    annotations: FrozenDict[str, str] = EMPTY
    made: int | None = None
    """How many pods the named owner will have in the end. The newest revision of a Deployment will have as many as the
    Deployment wants, unless its rollout is paused; others have what they want at present, or less."""
    rollout: int | None = None
    """Of the newest revision of a Deployment, unless paused: how many pods of all revisions its rollout leaves running;
    as long as more run, it removes old ones. None for others."""
    beside: bool = False
    """Whether it is an older revision of a Deployment, or a paused one: pods of other revisions stay beside its own."""

    @property
    def title(self) -> str:
        """`Kind/name`."""
        return f"{self.kind}/{self.name}"


def controller_of(state: ClusterState, template: PodTemplate) -> Controller | None:
    """The controller of such a pod, None if it has none of `CONTROLLER_KINDS`; cheap enough for every decision."""
    owner = template.owner
    if owner is None or not _is_known_kind(owner):
        return None
    direct = _find(state, template.namespace, owner)
    if direct is None:
        return _by_name(state, template, owner)
    above = direct.owner
    if above is None or above.kind != _ABOVE.get(owner.kind) or not _is_known_kind(above):
        desired = direct.desired
        return Controller(owner, owner.kind, owner.name, desired, wanted_of(direct), direct.annotations, desired)
    top = _find(state, template.namespace, above)
    size = wanted_of(top if top is not None and top.kind == DEPLOYMENT else direct)
    # A Deployment's annotations are copied to its ReplicaSets: they count where the Deployment itself cannot be read.
    said = direct.annotations if top is None else top.annotations
    made, rollout, beside = _prospects(direct, top)
    return Controller(owner, above.kind, above.name, direct.desired, size, said, made, rollout, beside)


def _prospects(direct: Workload, top: Workload | None) -> tuple[int, int | None, bool]:
    """What becomes of a ReplicaSet or Job: `made`, `rollout` and `beside` of its controller."""
    if direct.kind != REPLICA_SET:
        return direct.desired, None, False
    if top is None:  # may not be read; the controller writes its size on its ReplicaSets
        text = direct.annotations.get(_DESIRED, "")
        size = int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else direct.desired
        return size, size, False
    if top.paused or not _is_newest(direct, top):
        return direct.desired, None, True
    return top.replicas, top.replicas - top.max_unavailable, False


def _is_newest(replica_set: Workload, deployment: Workload) -> bool:
    """Whether this is the revision that the Deployment rolls out; where nobody numbers revisions, all are."""
    one, other = (revision_number(each.annotations.get(REVISION, "")) for each in (replica_set, deployment))
    return one is None or other is None or one >= other


def revision_number(text: str) -> int | None:
    """What an annotation says that numbers a revision; None if it is no number of the size that controllers write."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _REVISION_DIGITS else None


def named_after(template: PodTemplate) -> tuple[str, str] | None:
    """Kind and name of the Deployment or CronJob that the pod's owner must have been made by, going by its name."""
    owner = template.owner
    if owner is None or owner.kind not in _ABOVE:
        return None
    stem, _, last = owner.name.rpartition("-")
    numbered = last.isascii() and last.isdigit()
    fits = numbered if owner.kind == JOB else last != "" and last == template.labels.get(TEMPLATE_HASH)
    return (_ABOVE[owner.kind], stem) if stem and fits else None


def owner_object(state: ClusterState, template: PodTemplate) -> Workload | None:
    """The very object that a pod names as its controller, by its uid; None if it has not been seen."""
    owner = template.owner
    if owner is None or not owner.uid or not _is_known_kind(owner):
        return None
    found = _find(state, template.namespace, owner)
    return found if found is not None and found.uid == owner.uid else None


def _by_name(state: ClusterState, template: PodTemplate, owner: Owner) -> Controller:
    """For a pod whose owner has not been seen, or was left out of a file.

    If another owner of that name is known, ours is its successor, and what we know of the Deployment may be that of its
    predecessor: then nothing is guessed.
    """
    is_successor = state.object(owner.kind, object_key(template.namespace, owner.name)) is not None
    above = None if is_successor else named_after(template)
    top = None if above is None else state.object(above[0], object_key(template.namespace, above[1]))
    if not isinstance(top, Workload):
        return Controller(owner, owner.kind, owner.name, None, None)
    beside = top.kind == DEPLOYMENT and top.paused
    rollout = top.replicas - top.max_unavailable if top.kind == DEPLOYMENT and not beside else None
    size = wanted_of(top)
    return Controller(owner, top.kind, top.name, top.desired, size, top.annotations, top.desired, rollout, beside)


def _is_known_kind(owner: Owner) -> bool:
    group = API_GROUPS.get(owner.kind)
    named = owner.api_version.rpartition("/")[0]
    return group is not None and (named == group or not owner.api_version)


def _find(state: ClusterState, namespace: str, owner: Owner) -> Workload | None:
    """The object that a reference means; another one of the same name is not it."""
    found = state.object(owner.kind, object_key(namespace, owner.name))
    if not isinstance(found, Workload) or (owner.uid and found.uid and owner.uid != found.uid):
        return None
    return found
