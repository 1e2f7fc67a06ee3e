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

from collections.abc import Hashable, Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field

from moorage.core.arrays import Floats, Ids, Ints, Mask, Rows
from moorage.core.claimshares import share_of
from moorage.core.columns import CPU_COLUMN, MEMORY_COLUMN
from moorage.core.frozen import FrozenDict
from moorage.core.limits import SHARED_DEVICES
from moorage.core.pods import PodTemplate
from moorage.core.quantity import amount, parse_quantity
from moorage.core.resources import CPU, MEMORY
from moorage.core.shareasks import WHOLE, Convention, ShareAsk
from moorage.core.sharedevices import MODEL_LABELS, DeviceColumns
from moorage.core.state import ClusterState
from moorage.core.workload import LearnedWorkload, PodShape, Typical, shape_of
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.idle import Idle
from moorage.framework.plugin import Plugin, Reads

_HIGHEST = 100
_PARTS = 1_000_000
"""Parts of typical requests are counted in millionths, so that sums over them are exact."""
_FIT_BITS, _STEP_BITS = 20, 24
_FITS = (1 << _FIT_BITS) - 1
_RESOURCES = "devices", "cpu", "memory"
_MOST_REQUESTS = 128
_BLOCK = 512
"""Rows that are scored at once: what is computed on the way then stays in the processor's caches."""


def _quantity(value: object) -> str:
    """The text of a quantity, which may be a number in YAML."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError("must be a quantity, such as 500m or 2Gi")  # noqa: TRY004 - pydantic's
    if parse_quantity(str(value)) < 0:
        raise ValueError("must not be negative")
    return str(value)


Quantity = Annotated[str, BeforeValidator(_quantity)]


class TypicalRequest(PluginArgs):
    """A request that is typical for the cluster."""

    cpu: Quantity = "0"
    memory: Quantity = "0"
    devices: Annotated[int, Field(ge=0, le=SHARED_DEVICES)] = 0
    milli: Annotated[int, Field(ge=1, le=WHOLE)] = WHOLE
    """Of each device, in thousandths."""
    models: tuple[str, ...] = ()
    """The models of devices that will do; empty for any."""
    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    """How common it is, compared with the others."""

    def shape(self) -> PodShape:
        """As learned ones are."""
        share = None
        if self.devices:
            models = tuple(sorted(self.models))
            share = ShareAsk(Convention.WHOLE, self.devices, self.milli, self.milli, models=models)
        return PodShape(amount(CPU, self.cpu), amount(MEMORY, self.memory), share, FrozenDict(), None)


class FragmentationArgs(PluginArgs):
    """How coarse the score is, whether models that others insist on are spared, and what is typical."""

    step: Annotated[int, Field(ge=1, le=8000)] = 80
    """Changes of the fragment that differ by less, in thousandths of a device, are about as good."""
    spare: bool = True
    workload: Annotated[tuple[TypicalRequest, ...], Field(max_length=_MOST_REQUESTS, strict=False)] = ()
    """Typical requests; without any they are learned from the pods."""


class _Requests(NamedTuple):
    """Typical requests as arrays, one entry each."""

    parts: Floats
    cpu: Ints
    memory: Ints


class _Target(NamedTuple):
    """Typical requests; models are columns of `accepts` and entries of `pressure`."""

    plain: _Requests
    """Requests without devices."""
    sharing: _Requests
    """Requests for devices; the next four are about them."""
    devices: Ints
    size: npt.NDArray[np.intp]
    """Into `sizes`."""
    sizes: Ints
    """Different sizes of shares, in thousandths of a device."""
    accepts: Mask | None
    """bool[models, requests]; None if all requests accept all models."""
    pressure: Ints
    """By model: its place among all in the order of how much pods press on it that insist on it."""
    total: float
    scale: tuple[float, float, float]
    """What makes cpu, memory and room comparable: the largest node has a third of `_FITS` of each."""


class _Left(NamedTuple):
    """What nodes have left, before and after: cpu and memory int64[2, n], room of devices int64[slots, 2, n]."""

    cpu: Ints
    memory: Ints
    room: Ints


class Fragmentation(Plugin):
    """The least growth of what typical pods cannot use."""

    name: ClassVar[str] = "Fragmentation"
    Args: ClassVar[type[PluginArgs]] = FragmentationArgs
    reads: ClassVar[Reads] = Reads.PODS
    wakes: ClassVar[What] = What(0)
    learns_workload: ClassVar[bool] = True
    best_stays_best: ClassVar[bool] = True

    def __init__(self, args: FragmentationArgs | None = None, *, learned: LearnedWorkload | None = None) -> None:
        self.args: FragmentationArgs = args or FragmentationArgs()
        self._learned = learned
        """What is typical, instead of what the state has learned; for those who measure."""
        self._given = _parts(self.args.workload)
        self._target: tuple[Hashable, _Target] | None = None
        self._largest = 1.0, 1.0
        """Cpu and memory of the largest node, as of `_seen` in the log of nodes."""
        self._seen = -1
        self._state: ClusterState | None = None

    def attach(self, state: ClusterState) -> None:
        """For `sign`: what pods ask for is in their claims, too."""
        self._state = state

    def sign(self, template: PodTemplate) -> Hashable:
        """What it takes of a node."""
        return template.requests, template.share if self._state is None else share_of(self._state, template)

    def epoch(self, state: ClusterState) -> Hashable:
        """The typical requests, the devices that there are, and the size of the largest node."""
        if self._seen != state.node_log.position:
            offered, rows = state.resources.allocatable, state.rows()
            most = (float(offered[column].take(rows).max(initial=1)) for column in (CPU_COLUMN, MEMORY_COLUMN))
            self._largest, self._seen = (next(most), next(most)), state.node_log.position
        revision = 0 if self._given else (self._learned or state.workload).revision
        return revision, state.shares().version, self._largest

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Composed of what counts: models spared, then steps of the change, then how full the node is."""
        if len(rows) > _BLOCK:
            blocks = [self.score(cycle, rows[first : first + _BLOCK]) for first in range(0, len(rows), _BLOCK)]
            return np.concatenate(blocks)
        state = cycle.state
        shape = shape_of(cycle.template, share_of(state, cycle.template))
        shares, target = state.shares(), self._typical(state)
        left, model = _before_and_after(state, shares, rows, shape), shares.model_ids.take(rows)
        stock = room = left.room.sum(axis=0)
        useful, bare = _useful(target, left, model), shares.offers.take(rows) == 0
        amounts = left.cpu * target.scale[0] + left.memory * target.scale[1]
        if bare.any():
            stock = np.where(bare, np.round(amounts * (WHOLE * 1.5 / _FITS)), room)
            useful = np.where(bare, _useful_plain(target.plain, left) * stock, useful)
        gained = useful[1] - useful[0] + target.total * (stock[0] - stock[1])
        steps = np.floor(gained / (self.args.step * _PARTS)).astype(np.int64)
        after = amounts[1] + room[1] * target.scale[2]
        fit = np.minimum(np.maximum(_FITS - after, 0.0), _FITS).astype(np.int64)
        found: Ints = (steps << _FIT_BITS) + fit
        if self.args.spare and shape.share is not None:
            found -= target.pressure.take(model) << _FIT_BITS + _STEP_BITS
        return found

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        """100 for the best, the others below in their order."""
        best, worst = int(scores.max()), int(scores.min())
        if best == worst:
            return np.full(len(scores), _HIGHEST, dtype=np.int64)
        below: Ints = ((scores - worst) * ((_HIGHEST - 1) / (best - worst))).astype(np.int64)
        below[scores == best] = _HIGHEST
        return below

    def idle(self, state: ClusterState) -> dict[str, Idle]:
        """What is left of devices, cpu (cores) and memory (bytes), and the mean of it that typical requests cannot use.

        Devices are for requests for devices; cpu and memory of a node are of use to a request that fits there.
        """
        target, rows = self._typical(state), state.rows()
        sums = np.zeros((2, len(_RESOURCES)))
        for first in range(0, len(rows), _BLOCK):
            sums += _idle(state, target, rows[first : first + _BLOCK])
        scaled = sums / np.array((WHOLE, WHOLE, 1))
        return {name: Idle(*scaled[:, place].tolist()) for place, name in enumerate(_RESOURCES)}

    def _typical(self, state: ClusterState) -> _Target:
        epoch = self.epoch(state)
        if self._target is None or self._target[0] != epoch:
            typical = self._given or (self._learned or state.workload).typical
            self._target = epoch, _target(state, typical, self._largest)
        return self._target[1]


# --- typical requests ---


def _parts(workload: Sequence[TypicalRequest]) -> tuple[Typical, ...]:
    total = sum(each.weight for each in workload)
    return tuple(Typical(each.shape(), each.weight / total) for each in workload)


def _target(state: ClusterState, typical: tuple[Typical, ...], largest: tuple[float, float]) -> _Target:
    shares, rows = state.shares(), state.rows()
    sharing = [each for each in typical if each.shape.share is not None]
    shapes = [each.shape for each in sharing]
    sizes = [_nominal(shape.share) for shape in shapes]
    distinct = sorted(set(sizes))
    count = np.array([0 if shape.share is None else shape.share.count for shape in shapes], dtype=np.int64)
    requests, plain = _requests(sharing), _requests([each for each in typical if each.shape.share is None])
    accepts, third = _accepted(shares.models, shapes), _FITS / 3
    return _Target(
        plain,
        requests,
        count,
        np.array([distinct.index(size) for size in sizes], dtype=np.intp),
        np.array(distinct, dtype=np.int64),
        None if accepts.all() else accepts,
        _pressures(shares, rows, accepts, requests.parts * count * np.array(sizes, dtype=np.float64)),
        float(plain.parts.sum() + requests.parts.sum()),
        (third / largest[0], third / largest[1], third / (float(shares.offers.take(rows).max(initial=1)) * WHOLE)),
    )


def _requests(typical: list[Typical]) -> _Requests:
    return _Requests(
        np.round(np.array([each.part for each in typical], dtype=np.float64) * _PARTS),
        np.array([each.shape.cpu_milli for each in typical], dtype=np.int64),
        np.array([each.shape.memory_bytes for each in typical], dtype=np.int64),
    )


def _nominal(share: ShareAsk | None) -> int:
    """The size of a share in thousandths where the device is not known: of its memory only if that is relative."""
    return 0 if share is None else max(share.milli, share.memory_milli)


def _accepted(models: list[str], shapes: list[PodShape]) -> Mask:
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


def _accepts(shape: PodShape, share: ShareAsk, model: str) -> bool:
    if share.models and model not in share.models:
        return False
    if any(value != model for key, value in shape.node_selector.items() if key in MODEL_LABELS):
        return False
    terms = None if shape.node_affinity is None else shape.node_affinity.required
    return terms is None or any(
        all(each.matches_value(model) for each in term.expressions if each.key in MODEL_LABELS) for term in terms
    )


def _pressures(shares: DeviceColumns, rows: Rows, accepts: Mask, asked: Floats) -> Ints:
    """Models in the order of what pods ask of them that do not accept all, int64[models]; equal ones are equal.

    A pod presses on each model that it accepts with its demand over all the devices that it accepts.
    """
    supply = np.bincount(shares.model_ids.take(rows), shares.offers.take(rows), len(shares.models))
    present = supply > 0
    pressure = np.zeros(len(shares.models))
    for number in np.flatnonzero(~accepts[present].all(axis=0) & (asked > 0)):
        wanted = accepts[:, number]
        pressure[wanted] += asked[number] / max(supply[wanted].sum(), 1.0)
    shown = pressure / max(pressure.max(initial=0.0), 1e-9)
    return np.unique(np.round(shown, 6), return_inverse=True)[1].astype(np.int64)


# --- what nodes have left, before and after ---


def _before_and_after(state: ClusterState, shares: DeviceColumns, rows: Rows, shape: PodShape) -> _Left:
    """What rows have left, and what they would have with one more pod: both in one go, as that is faster.

    The pod is on the devices that `DeviceColumns.choose` would take.
    """
    columns = state.resources
    asked, found = (shape.cpu_milli, shape.memory_bytes), []
    for column, part in zip((CPU_COLUMN, MEMORY_COLUMN), asked, strict=True):
        left = columns.allocatable[column].take(rows) - columns.requested[column].take(rows)
        found.append(np.array((left, left - part)))
    room = shares.room.take(rows, axis=1)
    both = np.empty((len(room), 2, len(rows)), dtype=np.int64)
    both[:, 0], both[:, 1] = room, room if shape.share is None else _with(room, shape.share, shares, rows)
    return _Left(found[0], found[1], both)


def _with(room: Ints, share: ShareAsk, shares: DeviceColumns, rows: Rows) -> Ints:
    """The room with one more share, int64[slots, n]."""
    size: int | Ints = _nominal(share)
    if share.memory_mib:
        size = np.maximum(size, -(-share.memory_mib * WHOLE // np.maximum(shares.each.take(rows), 1)))
    fullness = np.where(room >= size, room, 2 * WHOLE)
    order = fullness.argsort(axis=0, kind="stable") if share.count > 1 else fullness.argmin(axis=0)[None]
    taken, columns, after = order[: share.count], np.arange(len(rows)), room.copy()
    after[taken, columns] = np.maximum(room[taken, columns] - size, 0)
    return after


def _useful(target: _Target, left: _Left, model: Ids) -> Floats:
    """The room on devices that typical requests can use, times their parts, float64[2, n]."""
    usable, runs = _usable(target, left, model)
    usable *= runs
    found: Floats = usable @ target.sharing.parts
    return found


def _usable(target: _Target, left: _Left, model: Ids) -> tuple[Ints, Mask]:
    """The room on devices large enough for typical requests, and where these fit, both [2, n, requests]."""
    room = left.room[..., None]
    large = room >= target.sizes
    hosts = large.sum(axis=0).take(target.size, axis=2)
    usable: Ints = (room * large).sum(axis=0).take(target.size, axis=2)
    runs = _runs(target.sharing, left)
    runs &= hosts >= target.devices
    if target.accepts is not None:
        runs &= target.accepts.take(model, axis=0)
    return usable, runs


def _idle(state: ClusterState, target: _Target, rows: Rows) -> Floats:
    """Sums over rows of what is idle, and of what is of no use, by resource, float64[2, resources]."""
    columns, shares = state.resources, state.shares()
    cpu, memory = (
        np.maximum(columns.allocatable[column].take(rows) - columns.requested[column].take(rows), 0)[None]
        for column in (CPU_COLUMN, MEMORY_COLUMN)
    )
    room = shares.room.take(rows, axis=1)
    left = _Left(cpu, memory, room[:, None])
    usable, runs = _usable(target, left, shares.model_ids.take(rows))
    fits = (_useful_plain(target.plain, left) + runs @ target.sharing.parts)[0] / max(target.total, 1.0)
    served = ((usable * runs) @ target.sharing.parts).sum() / max(float(target.sharing.parts.sum()), 1.0)
    wasted = 1.0 - fits if target.total else np.zeros(len(rows))
    devices = float(room.sum())
    unused = devices - served if len(target.sharing.parts) else 0.0
    idle = (devices, float(cpu.sum()), float(memory.sum()))
    return np.array((idle, (unused, float(cpu[0] @ wasted), float(memory[0] @ wasted))))


def _useful_plain(requests: _Requests, left: _Left) -> Floats:
    """The parts of typical requests without devices that fit, float64[2, n]."""
    found: Floats = _runs(requests, left) @ requests.parts
    return found


def _runs(requests: _Requests, left: _Left) -> Mask:
    """Where cpu and memory are enough, bool[2, n, requests]."""
    enough: Mask = left.cpu[..., None] >= requests.cpu
    enough &= left.memory[..., None] >= requests.memory
    return enough
