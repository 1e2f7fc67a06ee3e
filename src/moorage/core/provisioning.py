"""Requests for capacity: what a gang that waits for nodes tells Cluster Autoscaler, in a ProvisioningRequest.

A gang has one request at most. Its name follows from the gang's, so that every leader finds the one that an earlier
leader wrote, and a second one cannot be made.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moorage.core.membership import Declared, GangKey
from moorage.core.objects import Namespaced
from moorage.core.pods import Pod, PodTemplate
from moorage.core.values import dataclass

PROVISIONING_REQUEST = "ProvisioningRequest"
BEST_EFFORT_ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK_CAPACITY = "check-capacity.autoscaling.x-k8s.io"
CONSUMED = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of pods: Cluster Autoscaler adds nodes for the request, and none for the pods themselves."""
CONSUMED_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
_CONSUMED_BEFORE = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
FOR_GANG = "moorage.dev/provisions-for"
"""Annotation of a request: how the gang is declared, a colon, its name."""
COUNTS = "moorage.dev/pod-set-counts"
"""Annotation of a request: how many pods of each sort it asks room for."""
MOST_POD_SETS = 32
"""The API server accepts no more in one request."""
_FINAL = frozenset({"Failed", "BookingExpired", "CapacityRevoked"})
"""Conditions after which Cluster Autoscaler does nothing more for a request."""
_LONGEST_NAME = 40
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class ProvisioningRequest(Namespaced):
    """A request as it is in the cluster."""

    namespace: str
    name: str
    uid: str = ""
    class_name: str = ""
    gang: GangKey | None = None
    """The gang that it was written for by us; None for one of somebody else."""
    counts: str = ""
    owner: str = ""
    """Uid of the pod that it is deleted with."""
    conditions: tuple[str, ...] = ()
    """The types of those that are true."""
    message: str = ""
    """Of the condition that changed last."""

    @property
    def sets(self) -> int:
        """How many pod sets, and so PodTemplates, it has; never more than a request of ours could have."""
        return min(self.counts.count(",") + 1, MOST_POD_SETS) if self.counts else 0

    @property
    def final(self) -> bool:
        """Whether nothing more will come of it."""
        return not _FINAL.isdisjoint(self.conditions)


class CapacityAsk(NamedTuple):
    """What a gang needs room for."""

    class_name: str
    sets: tuple[tuple[Pod, ...], ...]
    """Pods that are alike to an autoscaler, together."""

    @property
    def counts(self) -> str:
        """The number of pods of each set, as the annotation of the request says it."""
        return ",".join(str(len(each)) for each in self.sets)

    @property
    def pods(self) -> list[Pod]:
        """All of them; the first one is the owner of the request."""
        return [pod for each in self.sets for pod in each]

    def is_met_by(self, request: ProvisioningRequest) -> bool:
        """Whether a request asks for this, and something may still come of it."""
        same = request.class_name == self.class_name and request.counts == self.counts
        return same and not request.final and any(pod.uid == request.owner for pod in self.pods)


def request_name(gang: GangKey) -> str:
    """The name of a gang's request, and how the names of its PodTemplates begin."""
    digest = hashlib.sha256("/".join(gang).encode()).hexdigest()[:10]
    return f"{_NOT_IN_NAMES.sub('-', gang.name.lower())[:_LONGEST_NAME].strip('-') or 'gang'}-{digest}"


def gang_text(gang: GangKey) -> str:
    """What the annotation of a request says of its gang."""
    return f"{gang.by.value}:{gang.name}"


def gang_of(namespace: str, name: str, text: str) -> GangKey | None:
    """The gang of a request with this annotation; None if it is not one that we wrote."""
    by, _, gang_name = text.partition(":")
    if by not in {each.value for each in Declared}:
        return None
    gang = GangKey(namespace, gang_name, Declared(by))
    return gang if request_name(gang) == name else None


def ask_for(class_name: str, pods: Iterable[Pod]) -> CapacityAsk | None:
    """Ask room for these pods; None if they differ in more ways than a request can say."""
    sets: dict[tuple[object, ...], list[Pod]] = {}
    for pod in pods:
        sets.setdefault(_looks(pod.template), []).append(pod)
    if not 0 < len(sets) <= MOST_POD_SETS:
        return None
    return CapacityAsk(class_name, tuple(tuple(each) for each in sets.values()))


def _looks(template: PodTemplate) -> tuple[object, ...]:
    """What an autoscaler sees of a pod. Labels count only with rules that may select them."""
    selecting = bool(template.spread) or template.has_pod_terms
    return (
        template.requests,
        template.node_selector,
        template.node_affinity,
        template.tolerations,
        template.host_ports,
        template.volumes,
        len(template.claims),
        template.priority,
        (template.labels, template.spread, template.pod_affinity, template.pod_anti_affinity) if selecting else None,
    )


def consumed(annotations: Mapping[str, str]) -> str:
    """The request that a pod with these annotations consumes; empty if it consumes none."""
    return annotations.get(CONSUMED) or annotations.get(_CONSUMED_BEFORE) or ""
