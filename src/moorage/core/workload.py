"""What pods of this cluster typically ask for, learned from the pods that it has and had, waiting ones included.

Every pod counts once, from when it is first seen. Pods that are gone go on counting, but never for more than those that
exist: when they would, each of them counts for half from then on. So the picture follows a workload that changes,
nothing depends on a clock, and a process that starts anew has most of it as soon as it knows the pods.

The picture is looked at again after a sixteenth of the pods have come or gone, and a new one is published (`revision`)
only if it differs: answers that follow from it are kept until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from moorage.core.affinity import NodeAffinity
from moorage.core.frozen import FrozenDict
from moorage.core.pods import FINISHED, Pod, PodTemplate
from moorage.core.resources import CPU, MEMORY
from moorage.core.shareasks import ShareAsk

_COVERED = 0.95
_MOST_SHAPES = 128
_LEAST_CHANGES, _CHANGES_SHARE = 16, 16
_DIFFERS = 0.02
_FORGOTTEN = 0.5


class PodShape(NamedTuple):
    """What typical pods have in common."""

    cpu_milli: int
    memory_bytes: int
    share: ShareAsk | None
    node_selector: FrozenDict[str, str]
    node_affinity: NodeAffinity | None


class Typical(NamedTuple):
    """A shape, and which part of all pods has it."""

    shape: PodShape
    part: float


def shape_of(template: PodTemplate, share: ShareAsk | None) -> PodShape:
    """The shape of pods with this template, which ask for this share of devices."""
    requests, affinity = template.requests, template.node_affinity
    if share is not None and share.slots:  # which container has which device does not matter to nodes
        share = replace(share, slots=())
    if affinity is not None and affinity.required is None:
        affinity = None
    return PodShape(requests.get(CPU), requests.get(MEMORY), share, template.node_selector, affinity)


class LearnedWorkload:
    """Counts shapes once something asks for it (`followed`)."""

    def __init__(self) -> None:
        self.followed = False
        self.revision = 0
        """Rises when the picture changes."""
        self.typical: tuple[Typical, ...] = ()
        """The commonest shapes, as of the last revision; their parts add up to 1."""
        self._live: dict[str, PodShape] = {}
        self._counts: dict[PodShape, float] = {}
        """Weights of shapes: pods that exist count for 1."""
        self._past: dict[PodShape, float] = {}
        """How much of that is due to pods that are gone."""
        self._gone = 0.0
        self._changes = 0

    def follow(self, pods: Iterable[Pod]) -> None:
        """Begin to count, with these pods."""
        self.followed = True
        for pod in pods:
            self.seen(pod)

    def seen(self, pod: Pod, claimed: ShareAsk | None = None) -> None:
        """A pod exists, with claims for such a share of devices, or has finished; said again, nothing changes."""
        if not self.followed:
            return
        if pod.phase in FINISHED:
            self.gone(pod.uid)
        elif pod.uid not in self._live:
            shape = self._live[pod.uid] = shape_of(pod.template, claimed or pod.template.share)
            self._counts[shape] = self._counts.get(shape, 0.0) + 1.0
            self._changes += 1

    def gone(self, uid: str) -> None:
        """A pod is gone."""
        shape = self._live.pop(uid, None)
        if shape is None:
            return
        self._past[shape] = self._past.get(shape, 0.0) + 1.0
        self._gone += 1.0
        self._changes += 1
        if self._gone > max(len(self._live), _LEAST_CHANGES):
            self._fade()

    def _fade(self) -> None:
        """Pods that are gone count for half of what they did."""
        for shape, weight in list(self._past.items()):
            kept = weight / 2 if weight > _FORGOTTEN else 0.0
            self._counts[shape] -= weight - kept
            self._past[shape] = kept
            if not kept:
                del self._past[shape]
            if self._counts[shape] < _FORGOTTEN / 2:
                del self._counts[shape]
        self._gone = sum(self._past.values())

    def settle(self) -> int:
        """Look again if enough pods have come and gone; the revision that holds."""
        enough = max(_LEAST_CHANGES, len(self._live) // _CHANGES_SHARE) if self.revision else 0
        if self._changes > enough:
            self._changes = 0
            typical = self._commonest()
            known = dict(self.typical)
            shift = sum(max(each.part - known.get(each.shape, 0.0), 0.0) for each in typical)
            if shift > _DIFFERS or not self.revision:
                self.typical = typical
                self.revision += 1
        return self.revision

    def _commonest(self) -> tuple[Typical, ...]:
        """The commonest shapes until they cover most pods."""
        total, covered = sum(self._counts.values()), 0.0
        found: list[tuple[PodShape, float]] = []
        for shape, weight in sorted(self._counts.items(), key=_commonest_first):
            if covered >= _COVERED * total or len(found) == _MOST_SHAPES:
                break
            found.append((shape, weight))
            covered += weight
        return tuple(Typical(shape, weight / covered) for shape, weight in found)


def _commonest_first(item: tuple[PodShape, float]) -> tuple[float, int, int, str]:
    """Equally common shapes in an order that does not depend on when they were seen."""
    shape, weight = item
    return -weight, -shape.cpu_milli, -shape.memory_bytes, repr(shape[2:])
