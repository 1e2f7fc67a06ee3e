"""Which gang a pod says it belongs to: by its spec, by a label or by an annotation.

How large the gang is and what else holds for it is another question, see `gangs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
GROUP_ANNOTATIONS = ("moorage.dev/pod-group", "pod-group")
"""The first one that is there counts."""
KAI_ANNOTATION = "pod-group-name"
VOLCANO_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_AVAILABLE = "moorage.dev/pod-group-min-available"
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
KUEUE_COUNT = "kueue.x-k8s.io/pod-group-total-count"
GROVE_LABEL = "grove.io/podgang"
TASK_GROUP = "yunikorn.apache.org/task-group-name"
TASK_GROUPS = "yunikorn.apache.org/task-groups"
_APPLICATIONS = ("yunikorn.apache.org/app-id", "applicationId", "spark-app-selector")
_MOST_MEMBERS = 1_000_000
_TASK_MEMBERS = re.compile(r'"minMember"\s*:\s*([0-9]{1,7})\b')
"""In the JSON of YuniKorn's task groups, whose sum is the size."""


class Declared(StrEnum):
    """How a pod names its gang; pods that name it in different ways are in different gangs."""

    SPEC = "spec"
    """spec.schedulingGroup.podGroupName: a PodGroup of Kubernetes' own."""
    LABEL = "label"
    """The label of the coscheduling CRD."""
    ANNOTATION = "annotation"
    VOLCANO = "volcano"
    """An annotation of Volcano: a PodGroup of its own."""
    KAI = "kai"
    """An annotation of KAI: likewise."""
    GROVE = "grove"
    """A label of Grove: a PodGang."""
    KUEUE = "kueue"
    """The label of Kueue's groups of plain pods, which have no object: the members say how many they are."""
    YUNIKORN = "yunikorn"
    """The application of a pod that is in one of YuniKorn's task groups; likewise."""
    OWNER = "owner"
    """Nothing: the gang follows from the pod's owners."""

    __hash__ = str.__hash__  # that of an enum is a call of Python, for every look into a table of gangs


_FOREIGN = (*((key, Declared.VOLCANO) for key in VOLCANO_ANNOTATIONS), (KAI_ANNOTATION, Declared.KAI))
_BY_LABEL = ((KUEUE_GROUP, Declared.KUEUE), (GROVE_LABEL, Declared.GROVE))
SELF_SIZED = frozenset({Declared.ANNOTATION, Declared.KUEUE, Declared.YUNIKORN})
"""Gangs whose members may say how many they are."""


class GangKey(NamedTuple):
    """Names one gang."""

    namespace: str
    name: str
    by: Declared

    @property
    def object_key(self) -> str:
        """`namespace/name`, the key of its PodGroup object and its name in messages."""
        return f"{self.namespace}/{self.name}"


def gang_key(
    namespace: str, group: str | None, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> GangKey | None:
    """The gang of a pod with these properties; `group` is spec.schedulingGroup.podGroupName."""
    if group:
        return GangKey(namespace, group, Declared.SPEC)
    name = labels.get(GROUP_LABEL)
    if name:
        return GangKey(namespace, name, Declared.LABEL)
    for annotation in GROUP_ANNOTATIONS if annotations else ():
        name = annotations.get(annotation)
        if name:
            return GangKey(namespace, name, Declared.ANNOTATION)
    for annotation, by in _FOREIGN if annotations else ():
        name = annotations.get(annotation)
        if name:
            return GangKey(namespace, name, by)
    return _of_stranger(namespace, labels, annotations)


def _of_stranger(namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> GangKey | None:
    """The gang that a pod names in the words of Kueue, Grove or YuniKorn."""
    for label, by in _BY_LABEL:
        name = labels.get(label)
        if name:
            return GangKey(namespace, name, by)
    if annotations and annotations.get(TASK_GROUP):
        name = annotations.get(_APPLICATIONS[0]) or next((labels[key] for key in _APPLICATIONS if labels.get(key)), "")
        if name:
            return GangKey(namespace, name, Declared.YUNIKORN)
    return None


class OwnedMember(NamedTuple):
    """What follows from the owners of a pod."""

    gang: GangKey
    role: str = ""
    """Empty where the usual labels say it."""
    rank: tuple[int, ...] | None = None
    """None where the usual labels say it."""


def gang_size(annotations: Mapping[str, str]) -> int | None:
    """The size that a member's annotation gives to its gang, None if there is none or it is no number above 0."""
    text = annotations.get(MIN_AVAILABLE) or annotations.get(KUEUE_COUNT) or ""
    if not text and TASK_GROUPS in annotations:
        return min(sum(map(int, _TASK_MEMBERS.findall(annotations[TASK_GROUPS]))), _MOST_MEMBERS) or None
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_MOST_MEMBERS)):
        return None
    return min(int(text), _MOST_MEMBERS) or None
