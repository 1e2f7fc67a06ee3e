"""Which gang a pod says it belongs to: by its spec, by a label or by an annotation.

How large the gang is and what else holds for it is another question, see `gangs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
GROUP_ANNOTATIONS = ("moorage.dev/pod-group", "pod-group")
"""The first one that is there counts."""
KAI_ANNOTATION = "pod-group-name"
VOLCANO_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_AVAILABLE = "moorage.dev/pod-group-min-available"
_MOST_MEMBERS = 1_000_000


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


_FOREIGN = (*((key, Declared.VOLCANO) for key in VOLCANO_ANNOTATIONS), (KAI_ANNOTATION, Declared.KAI))


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
    return None


def gang_size(annotations: Mapping[str, str]) -> int | None:
    """The size that a member's annotation gives to its gang, None if there is none or it is no number above 0."""
    text = annotations.get(MIN_AVAILABLE, "")
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_MOST_MEMBERS)):
        return None
    return min(int(text), _MOST_MEMBERS) or None
