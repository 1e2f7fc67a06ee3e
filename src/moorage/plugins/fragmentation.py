"""Fragmentation: pods go where they leave the least room that typical pods cannot use.

What a node has left is of use to a typical request if the request fits there: to one for devices all that is left of
devices which are large enough for it, to one without devices all that is left of a node that has none. What is left and
not of use is a fragment; over the workload that this cluster has (`core.workload`) that is a mean, and the score is by
how much the mean falls, or rises least, with the pod there. The idea is that of FGD ("Beware of Fragmentation", USENIX
ATC '23).

The change counts in steps, as nearly least fragmentation and then consolidation does better than least fragmentation:
within a step the fuller node wins. Before both, a pod that would do with several models of devices spares those that
others insist on (`spare`).

Of the feasible nodes the best get 100, and the others fewer points in their order.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.columns import CPU_COLUMN, MEMORY_COLUMN
from moorage.core.pods import PodTemplate
from moorage.core.shareasks import WHOLE, ShareAsk
from moorage.core.sharedevices import MODEL_LABELS, SharedDevices
from moorage.core.state import ClusterState
from moorage.core.workload import Shape, Typical, shape_of
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads

_HIGHEST = 100
_PARTS = 1_000_000
"""Parts of typical requests are counted in millionths, so that sums over them are exact."""
_FIT_BITS, _STEP_BITS = 20, 24
_FITS = (1 << _FIT_BITS) - 1

Table = npt.NDArray[np.float64]


class FragmentationArgs(PluginArgs):
    """How coarse the score is, and whether models that others insist on are spared."""

    step: Annotated[int, Field(ge=1, le=8000)] = 80
    """Changes of the fragment that differ by less, in thousandths of a device, are about as good."""
    spare: bool = True


class _Target(NamedTuple):
    """Typical requests as arrays, one entry each; models are columns of `accepts` and entries of `pressure`."""

    parts: Floats
    cpu: Floats
    memory: Floats
    devices: Floats
    """How many; 0 for requests without."""
    size: npt.NDArray[np.intp]
    """Into `sizes`."""
    sizes: Ints
    """Different sizes of shares, in thousandths of a device."""
    accepts: Mask
    """bool[models, requests]"""
    pressure: Ints
    """By model: its place among all in the order of how much pods press on it that insist on it."""
    total: float
    most: tuple[float, float, float]
    """The largest cpu, memory and devices of a node, for comparisons."""


class _Left(NamedTuple):
    """What nodes have left: cpu and memory float64[n], room of devices float64[slots, n], kinds of nodes."""

    cpu: Floats
    memory: Floats
    room: Table
    model: npt.NDArray[np.int32]
    bare: Mask
    """Nodes without devices."""


class Fragmentation(Plugin):
    """The least growth of what typical pods cannot use."""

    name: ClassVar[str] = "Fragmentation"
    Args: ClassVar[type[PluginArgs]] = FragmentationArgs
    reads: ClassVar[Reads] = Reads.PODS
    wakes: ClassVar[What] = What(0)
    learns_workload: ClassVar[bool] = True

    def __init__(self, args: FragmentationArgs | None = None) -> None:
        self.args: FragmentationArgs = args or FragmentationArgs()
        self._target: tuple[Hashable, _Target] | None = None
        self._largest = 1.0, 1.0
        """Cpu and memory of the largest node, as of `_seen` in the log of nodes."""
        self._seen = -1

    def sign(self, template: PodTemplate) -> Hashable:
        """What it takes of a node."""
        return template.requests, template.share

    def epoch(self, state: ClusterState) -> Hashable:
        """The typical requests, the devices that there are, and the size of the largest node."""
        if self._seen != state.node_log.position:
            offered, rows = state.resources.allocatable, state.rows()
            most = (float(offered[column].take(rows).max(initial=1)) for column in (CPU_COLUMN, MEMORY_COLUMN))
            self._largest, self._seen = (next(most), next(most)), state.node_log.position
        return state.workload.revision, state.shares().version, self._largest

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Composed of what counts: models spared, then steps of the change, then how full the node is."""
        state = cycle.state
        shares, target, shape = state.shares(), self._typical(state), shape_of(cycle.template)
        before = _left(state, shares, rows)
        size = _size(shape.share, shares, rows)
        after = _with(before, shape, size)
        gained = _useful(target, after) - _useful(target, before)
        gained += target.total * (_stock(target, before) - _stock(target, after))
        steps = np.floor(gained / (self.args.step * _PARTS)).astype(np.int64)
        fit = (_FITS * (1.0 - _spread(target, after) / 3.0)).astype(np.int64)
        found: Ints = (steps << _FIT_BITS) + np.clip(fit, 0, _FITS)
        if self.args.spare and shape.share is not None:
            found -= target.pressure.take(before.model) << _FIT_BITS + _STEP_BITS
        return found

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        """100 for the best, the others below in their order."""
        best, worst = int(scores.max()), int(scores.min())
        if best == worst:
            return np.full(len(scores), _HIGHEST, dtype=np.int64)
        below: Ints = ((scores - worst) * ((_HIGHEST - 1) / (best - worst))).astype(np.int64)
        below[scores == best] = _HIGHEST
        return below

    def _typical(self, state: ClusterState) -> _Target:
        epoch = self.epoch(state)
        if self._target is None or self._target[0] != epoch:
            self._target = epoch, _target(state, state.workload.typical, self._largest)
        return self._target[1]


# --- typical requests ---


def _target(state: ClusterState, typical: tuple[Typical, ...], largest: tuple[float, float]) -> _Target:
    shares, rows = state.shares(), state.rows()
    shapes = [each.shape for each in typical]
    sizes = [_nominal(shape.share) for shape in shapes]
    distinct = sorted(set(sizes))
    count = np.array([0 if shape.share is None else shape.share.count for shape in shapes], dtype=np.float64)
    parts = np.round(np.array([each.part for each in typical], dtype=np.float64) * _PARTS)
    accepts = _accepted(shares.models, shapes)
    return _Target(
        parts,
        np.array([shape.cpu_milli for shape in shapes], dtype=np.float64),
        np.array([shape.memory_bytes for shape in shapes], dtype=np.float64),
        count,
        np.array([distinct.index(size) for size in sizes], dtype=np.intp),
        np.array(distinct, dtype=np.int64),
        accepts,
        _pressures(shares, rows, accepts, parts * count * np.array(sizes, dtype=np.float64)),
        float(parts.sum()),
        (*largest, float(shares.count.take(rows).max(initial=1)) * WHOLE),
    )


def _nominal(share: ShareAsk | None) -> int:
    """The size of a share in thousandths where the device is not known: of its memory only if that is relative."""
    return 0 if share is None else max(share.milli, share.memory_milli)


def _accepted(models: list[str], shapes: list[Shape]) -> Mask:
    """Which models of devices a request accepts by what it says about models, bool[models, requests]."""
    found: Mask = np.ones((len(models), len(shapes)), dtype=np.bool_)
    known: dict[Hashable, list[bool]] = {}
    for number, shape in enumerate(shapes):
        if shape.share is not None:
            where = shape.node_selector, shape.node_affinity, shape.share.models
            if where not in known:
                known[where] = [_accepts(shape, shape.share, model) for model in models]
            found[:, number] = known[where]
    return found


def _accepts(shape: Shape, share: ShareAsk, model: str) -> bool:
    if share.models and model not in share.models:
        return False
    if any(value != model for key, value in shape.node_selector.items() if key in MODEL_LABELS):
        return False
    terms = None if shape.node_affinity is None else shape.node_affinity.required
    return terms is None or any(
        all(each.matches_value(model) for each in term.expressions if each.key in MODEL_LABELS) for term in terms
    )


def _pressures(shares: SharedDevices, rows: Rows, accepts: Mask, asked: Floats) -> Ints:
    """Models in the order of what pods ask of them that do not accept all, int64[models]; equal ones are equal.

    A pod presses on each model that it accepts with its demand over all the devices that it accepts.
    """
    supply = np.bincount(shares.model_ids.take(rows), shares.count.take(rows), len(shares.models))
    present = supply > 0
    pressure = np.zeros(len(shares.models))
    for number in np.flatnonzero(~accepts[present].all(axis=0) & (asked > 0)):
        wanted = accepts[:, number]
        pressure[wanted] += asked[number] / max(supply[wanted].sum(), 1.0)
    shown = pressure / max(pressure.max(initial=0.0), 1e-9)
    return np.unique(np.round(shown, 6), return_inverse=True)[1].astype(np.int64)


# --- what nodes have left, before and after ---


def _left(state: ClusterState, shares: SharedDevices, rows: Rows) -> _Left:
    offered, taken = state.resources.allocatable, state.resources.requested
    return _Left(
        (offered[CPU_COLUMN].take(rows) - taken[CPU_COLUMN].take(rows)).astype(np.float64),
        (offered[MEMORY_COLUMN].take(rows) - taken[MEMORY_COLUMN].take(rows)).astype(np.float64),
        shares.room(rows).astype(np.float64),
        shares.model_ids.take(rows),
        shares.count.take(rows) == 0,
    )


def _size(share: ShareAsk | None, shares: SharedDevices, rows: Rows) -> Floats:
    """What an ask takes of each device of a row, in thousandths, float64[n]."""
    size = np.full(len(rows), _nominal(share), dtype=np.float64)
    if share is not None and share.memory_mib:
        size = np.maximum(size, np.ceil(share.memory_mib * WHOLE / np.maximum(shares.each.take(rows), 1)))
    return size


def _with(left: _Left, shape: Shape, size: Floats) -> _Left:
    """What is left with one more pod, on the devices that `SharedDevices.choose` would take."""
    room = left.room
    if shape.share is not None:
        fullness = np.where(room >= size, room, np.inf)
        room = room.copy()
        order = fullness.argsort(axis=0, kind="stable") if shape.share.count > 1 else fullness.argmin(axis=0)[None]
        taken, columns = order[: shape.share.count], np.arange(room.shape[1])
        room[taken, columns] = np.maximum(room[taken, columns] - size, 0.0)
    return left._replace(cpu=left.cpu - shape.cpu_milli, memory=left.memory - shape.memory_bytes, room=room)


def _stock(target: _Target, left: _Left) -> Floats:
    """What there is to fragment: room on devices or, on nodes without, the mean of cpu and memory, float64[n]."""
    plain = (left.cpu / target.most[0] + left.memory / target.most[1]) * (WHOLE / 2)
    return np.where(left.bare, np.round(plain), left.room.sum(axis=0))


def _useful(target: _Target, left: _Left) -> Floats:
    """The part of the stock that typical requests can use, times their parts, float64[n]."""
    large = left.room[:, :, None] >= target.sizes
    hosts = large.sum(axis=0)[:, target.size]
    usable = np.einsum("gn,gns->ns", left.room, large)[:, target.size]
    runs = (left.cpu[:, None] >= target.cpu) & (left.memory[:, None] >= target.memory)
    runs &= (hosts >= target.devices) & target.accepts.take(left.model, axis=0)
    usable *= runs
    found: Floats = usable @ (target.parts * (target.devices > 0))
    if left.bare.any():
        plain = (runs & (target.devices == 0)) @ target.parts
        found = np.where(left.bare, plain * _stock(target, left), found)
    return found


def _spread(target: _Target, left: _Left) -> Floats:
    """How empty nodes are, from 0 to 3, float64[n]."""
    cpu, memory, devices = target.most
    found: Floats = left.cpu / cpu + left.memory / memory + left.room.sum(axis=0) / devices
    return found
