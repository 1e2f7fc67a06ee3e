"""VolumeBinding: the claims of a pod must have volumes that its node can use, or get such volumes in time.

Filter asks for each node what the claims would get there (`core.volumematching`). Reserve keeps the volumes and claims
of the chosen node from other pods, PreBind writes the choice and waits until the volume controllers have bound them
(`core.volumebinding`). Nodes score by how well the sizes fit: the free capacity that drivers publish, or the static
volumes that would be taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, field_validator

from moorage.core.arrays import Ints, Rows
from moorage.core.commands import PodRef
from moorage.core.pods import Pod, PodTemplate, PodVolume
from moorage.core.state import ClusterState
from moorage.core.volumebinding import BindingFailed, Progress, awaited, complete, writes
from moorage.core.volumeindex import CAPACITY, CLAIM, CLASS, CSI_DRIVER, CSI_NODE, VOLUME, Reservation
from moorage.core.volumematching import Match, PodClaims, class_uses, classify, match
from moorage.core.volumes import LOST, PersistentVolumeClaim
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import volume_remedies
from moorage.framework.shapes import HIGHEST, rising, score_table
from moorage.framework.status import SKIP, Code, Hold, Reason, Rejections, Status, unresolvable

_FULL = 100
_WAITS = "VolumeBinding/progress"
_REASONS = (
    Reason("node(s) didn't match PersistentVolume's node affinity", resolvable=False),
    Reason("node(s) didn't find available persistent volumes to bind", resolvable=False),
    Reason("node(s) did not have enough free storage", resolvable=False),
    Reason("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", resolvable=False),
)
"""In the order of the bits of `Match.bits`."""


class UtilizationShapePoint(PluginArgs):
    """A point of the scoring function: at this utilization in percent, this score out of 10."""

    utilization: Annotated[int, Field(ge=0, le=_FULL)] = 0
    score: Annotated[int, Field(ge=0, le=HIGHEST)] = 0


_DEFAULT_SHAPE = (UtilizationShapePoint(score=HIGHEST), UtilizationShapePoint(utilization=_FULL))


class VolumeBindingArgs(PluginArgs):
    """How long PreBind waits for the volume controllers, and how utilization becomes a score (default: emptiest)."""

    bind_timeout_seconds: Annotated[int, Field(ge=0)] = 600
    shape: Annotated[tuple[UtilizationShapePoint, ...], Field(strict=False)] = _DEFAULT_SHAPE

    @field_validator("shape")
    @classmethod
    def _checked(cls, shape: tuple[UtilizationShapePoint, ...]) -> tuple[UtilizationShapePoint, ...]:
        return rising(shape) or _DEFAULT_SHAPE


class VolumeBinding(Plugin):
    """Binds the claims of a pod to volumes that its node can use."""

    name: ClassVar[str] = "VolumeBinding"
    Args: ClassVar[type[PluginArgs]] = VolumeBindingArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_LABELS | What.OBJECT
    kinds: ClassVar[frozenset[str]] = frozenset({CLAIM, VOLUME, CLASS, CSI_NODE, CSI_DRIVER, CAPACITY})
    keeps: ClassVar[Mapping[str, Any]] = {_WAITS: Progress}
    reserves_in_state: ClassVar[bool] = True
    remedies = volume_remedies

    def __init__(self, args: VolumeBindingArgs | None = None) -> None:
        self.args: VolumeBindingArgs = args or VolumeBindingArgs()
        self._scores = score_table(self.args.shape)

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        """Pods with claims."""
        return bool(template.volumes) and any(_claimed(template.volumes))

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """Of claims only the pod's own matter."""
        if change.kind != CLAIM:
            return True
        return any(f"{template.namespace}/{volume.claim}" == change.key for volume in _claimed(template.volumes))

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Refuse pods whose claims are missing, lost, being deleted, or not bound though they should be."""
        if not cycle.template.volumes:
            return SKIP
        claims = []
        for volume in _claimed(cycle.template.volumes):
            claim = cycle.state.volumes.claim(f"{cycle.template.namespace}/{volume.claim}")
            problem = _problem(cycle.pod, volume, claim)
            if claim is None or problem is not None:
                return unresolvable(problem or "")
            claims.append(claim)
        if not claims:
            return SKIP
        sorted_claims = classify(cycle.state, claims)
        if sorted_claims.immediate:
            return unresolvable("pod has unbound immediate PersistentVolumeClaims")
        cycle.memo[self.name] = (sorted_claims, None)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows on which a claim would have no volume."""
        found = match(cycle.state, self._claims(cycle), rows)
        cycle.memo[self.name] = (self._claims(cycle), found)
        return Rejections(found.bits, _REASONS) if found.bits.any() else None

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        """Skip pods whose claims all have volumes: nodes do not differ for them."""
        return None if cycle.template.volumes and self._claims(cycle).waiting else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The shape's score of the utilization, on average over the storage classes."""
        found = self._match(cycle, rows)
        total: Ints = np.zeros(len(rows), dtype=np.int64)
        classes: Ints = np.zeros(len(rows), dtype=np.int64)
        for counts, requested, capacity in class_uses(found):
            full = (capacity == 0) | (requested > capacity)
            used = np.where(full, _FULL, requested * _FULL // np.maximum(capacity, 1))
            total += np.where(counts, self._scores[used], 0)
            classes += counts
        # Rounded half up, as sums and numbers of classes are not negative.
        divisor = np.maximum(classes, 1)
        scores: Ints = (2 * total + divisor) // (2 * divisor)
        return scores

    def reserve(self, cycle: Cycle, row: int) -> Status | None:
        """Keep the chosen volumes and claims from other pods."""
        if not cycle.template.volumes:
            return None
        claims = self._claims(cycle)
        if not claims.waiting:
            return None
        found = match(cycle.state, claims, np.array([row], dtype=np.intp))
        if found.bits[0]:
            return Status(Code.ERROR, ("the volumes for the chosen node are gone",))
        bindings, provisions = found.of_position(0)
        reservation = Reservation(
            cycle.state.node(row).name,
            tuple((volume.name, claim) for volume, claim in bindings),
            tuple(provisions),
        )
        cycle.state.volumes.reserve(cycle.pod.uid, reservation)
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002 - part of the interface
        """Give everything back; what was written stays, and the next attempt uses it."""
        if cycle.template.volumes:
            cycle.state.volumes.release(cycle.pod.uid)

    def pre_bind(self, cycle: Cycle, row: int) -> Status | Hold | None:  # noqa: ARG002 - part of the interface
        """Write the choice, and wait until all claims are bound."""
        if not cycle.template.volumes:
            return None
        reservation = cycle.state.volumes.reservation(cycle.pod.uid)
        if reservation is None:
            return None
        progress: Progress | None = cycle.memo.get(_WAITS)
        if progress is None:
            pod = PodRef(cycle.template.namespace, cycle.pod.name, cycle.pod.uid)
            progress = Progress(pod, reservation, cycle.now + self.args.bind_timeout_seconds)
            cycle.memo[_WAITS] = progress
        elif cycle.now >= progress.deadline_s:
            return Status(Code.ERROR, ("binding volumes: context deadline exceeded",))
        try:
            if complete(cycle.state, progress):
                return None
        except BindingFailed as error:
            return Status(Code.ERROR, (f"binding volumes: {error}",))
        reason = "binding volumes: context deadline exceeded"
        return Hold(progress.deadline_s, writes(cycle.state, progress), reason, awaited(cycle.state, reservation))

    def post_bind(self, cycle: Cycle, row: int) -> None:
        """Drop the reservation: the objects themselves show it now."""
        self.unreserve(cycle, row)

    def _claims(self, cycle: Cycle) -> PodClaims:
        known: tuple[PodClaims, Match | None] | None = cycle.memo.get(self.name)
        return PodClaims() if known is None else known[0]

    def _match(self, cycle: Cycle, rows: Rows) -> Match:
        """The match for exactly these rows, which Filter may have computed already."""
        known: tuple[PodClaims, Match | None] | None = cycle.memo.get(self.name)
        if known is not None and known[1] is not None and np.array_equal(known[1].rows, rows):
            return known[1]
        return match(cycle.state, self._claims(cycle), rows)


def _claimed(volumes: Iterable[PodVolume]) -> Iterable[PodVolume]:
    return (volume for volume in volumes if volume.claim is not None)


def _problem(pod: Pod, volume: PodVolume, claim: PersistentVolumeClaim | None) -> str | None:
    """Why a claim keeps its pod from running anywhere."""
    if claim is None:
        if volume.ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{volume.claim}"'
        return f'persistentvolumeclaim "{volume.claim}" not found'
    if claim.phase == LOST:
        return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume or ""}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{claim.name}" is being deleted'
    if volume.ephemeral and (claim.owner is None or claim.owner.uid != pod.uid):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return None
