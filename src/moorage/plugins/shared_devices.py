"""SharedDevices: shares of devices lie on one device each, and whole devices are idle ones.

What a pod asks for is in its template, in the words of one of several conventions (`core.shareasks`); what is left of
each device is in columns (`core.sharedevices`), where a pod takes its devices as soon as it is assumed on a node. They
are written to the pod's status before it is bound, where a new leader finds them, and with the Binding as annotations,
for agents on the node.

Score prefers devices, and nodes, that are in use already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.assignments import Assignment
from moorage.core.phrases import counted
from moorage.core.pods import PodTemplate
from moorage.core.shareasks import WHOLE, ShareAsk
from moorage.core.sharedevices import DeviceColumns, DeviceRow
from moorage.core.sharewriting import words_for
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.details import Detail, NearMiss
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import SKIP, Reason, Rejections, Status, unresolvable

_NONE, _MODEL, _FEW, _SHORT = 1, 2, 4, 8
_HIGHEST = 100
_MOST_TOLD = 200
"""Rows whose devices are looked at one by one for an explanation."""
_NEAREST = 3
_PARTS = "compute", "memory"
_ANY_DEVICE = 1 << 32
"""More than any device has."""


class SharedDevices(Plugin):
    """Room on devices, one by one."""

    name: ClassVar[str] = "SharedDevices"
    reads: ClassVar[Reads] = Reads.PODS
    reserves_in_state: ClassVar[bool] = True
    wakes: ClassVar[What] = (
        What.NODE_ADDED | What.NODE_ALLOCATABLE | What.NODE_LABELS | What.POD_REMOVED | What.POD_UPDATED | What.SELF
    )

    gives_fractions: ClassVar[bool] = True

    def sign(self, template: PodTemplate) -> ShareAsk | None:
        """What it asks for of devices."""
        return template.share

    def helps(self, template: PodTemplate, change: Change) -> bool:  # noqa: ARG002 - part of the interface
        """Of pods only those help that had devices."""
        return change.what is not What.POD_REMOVED or change.pod is None or change.pod.template.share is not None

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Leave pods without devices alone, and refuse those whose wish cannot be understood."""
        ask = cycle.template.share
        if ask is None:
            return SKIP
        return unresolvable(ask.problem) if ask.problem else None

    # --- Filter ---

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows with too few devices that have room for a part of the ask."""
        ask, shares = cycle.template.share, cycle.state.shares()
        if ask is None or ask.problem:
            return None
        hosts = shares.hosts(ask, rows)
        short = hosts < ask.count
        wrong = ~shares.right_model(ask, rows) if ask.models else None
        if not short.any() and (wrong is None or not wrong.any()):
            return None
        count = shares.count.take(rows)
        possible = count if not ask.memory_mib else count * self._large_enough(ask, shares, rows)
        bits = np.where(short, np.where(possible < ask.count, _FEW, _SHORT), 0)
        if wrong is not None:
            bits[wrong] = _MODEL
        bits[count == 0] = _NONE
        return Rejections(bits, _reasons(ask))

    def filter_row(self, cycle: Cycle, row: int) -> bool:
        """Whether one row has room."""
        ask, shares = cycle.template.share, cycle.state.shares()
        if ask is None or ask.problem:
            return True
        if ask.models and shares.devices(row).model not in ask.models:
            return False
        return shares.fits_row(ask, row)

    def _large_enough(self, ask: ShareAsk, shares: DeviceColumns, rows: Rows) -> Ints:
        """1 where an idle device has the memory that is asked for, int64[n]."""
        enough: Ints = (shares.measured.take(rows) & (shares.each.take(rows) >= ask.memory_mib)).astype(np.int64)
        return enough

    # --- Score ---

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        """Leave pods without devices alone."""
        return SKIP if cycle.template.share is None else None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """How much of the devices is in use with the pod there: of those that it would get, else of the node's."""
        ask, shares = cycle.template.share, cycle.state.shares()
        if ask is None:
            return np.zeros(len(rows), dtype=np.int64)
        room = shares.room.take(rows, axis=1)
        if ask.whole:
            whole = np.maximum(shares.count.take(rows) * WHOLE, 1)
            left: Ints = room.sum(axis=0) - ask.count * WHOLE
        else:
            size = _size(ask, shares.each.take(rows))
            whole = np.full(len(rows), WHOLE, dtype=np.int64)
            left = np.where(room >= size, room, WHOLE).min(axis=0) - size
        used: Ints = _HIGHEST - np.clip(left, 0, whole) * _HIGHEST // whole
        return used

    # --- for explanations ---

    def details(self, cycle: Cycle, rows: Rows) -> dict[int, tuple[Detail, ...]]:
        """Device by device, what it lacks."""
        ask, shares = cycle.template.share, cycle.state.shares()
        if ask is None or ask.problem:
            return {}
        return {row: (_detail(ask, shares, row),) for row in map(int, rows[:_MOST_TOLD])}

    # --- on the way ---

    def reserve(self, cycle: Cycle, row: int) -> Status | None:  # noqa: ARG002 - part of the interface
        """The pod took its devices when it was assumed; only that they are enough is left to be seen."""
        ask = cycle.template.share
        hold = None if ask is None else cycle.state.shares().held(cycle.pod.uid)
        if ask is not None and (hold is None or len(hold.devices) < ask.count):
            return unresolvable("the devices of the node changed")
        return None

    def binding_annotations(self, cycle: Cycle, row: int) -> Mapping[str, str]:
        """The devices, in our words and in those of the convention."""
        ask = cycle.template.share
        hold = None if ask is None else cycle.state.shares().held(cycle.pod.uid)
        if ask is None or hold is None:
            return {}
        shares, state = cycle.state.shares(), cycle.state
        memory = shares.memory_of(ask, row)
        return words_for(ask, hold.devices, state.node(row).name, memory, shares.devices(row).uuids, cycle.now)

    def assignment(self, cycle: Cycle, row: int) -> Assignment | None:
        """The same as what the next leader reads."""
        ask = cycle.template.share
        hold = None if ask is None else cycle.state.shares().held(cycle.pod.uid)
        return None if hold is None else Assignment(cycle.state.node(row).name, hold.devices, hold.ask)


def _size(ask: ShareAsk, each: Ints) -> Ints:
    """What the ask takes of a device, in thousandths, int64[n]."""
    memory = -(-ask.memory_mib * WHOLE // np.maximum(each, 1)) if ask.memory_mib else ask.memory_milli
    size: Ints = np.maximum(ask.milli, memory) + np.zeros(len(each), dtype=np.int64)
    return size


def _detail(ask: ShareAsk, shares: DeviceColumns, row: int) -> Detail:
    """How many devices of a row have room, what the others lack, and which of them lack the least."""
    known, size = shares.devices(row), (ask.milli, shares.memory_of(ask, row))
    refused: Counter[str] = Counter()
    near: list[tuple[int, NearMiss]] = []
    for device in range(known.count):
        if device in known.failed:
            refused["not healthy"] += 1
            continue
        left = shares.left(row, device)
        lacks = [part for part, has, want in zip(_PARTS, left, size, strict=True) if has < want]
        if lacks:
            refused[f"too little {' and '.join(lacks)} left"] += 1
            near.append((_gap(left, size, known.memory), _near_miss(known, device, left, size)))
    nearest = sorted(near, key=lambda each: each[0])[:_NEAREST]
    fit = known.count - sum(refused.values())
    verdict = f"finds room on {fit} of {counted(known.count, 'device')}, and needs {ask.count}"
    if ask.models and known.model not in ask.models:
        verdict = f"accepts {' or '.join(ask.models)}, and the model here is {known.model or 'unknown'}"
    return Detail(f"a request for {_wanted(ask)}", verdict, refused, tuple(miss for _, miss in nearest))


def _gap(left: tuple[int, int], size: tuple[int, int], memory: int) -> int:
    """What a device lacks, in thousandths."""
    lacks = (max(0, size[0] - left[0]), max(0, size[1] - left[1]) * WHOLE // max(memory, 1))
    return max(lacks)


def _near_miss(known: DeviceRow, device: int, left: tuple[int, int], size: tuple[int, int]) -> NearMiss:
    name = f"device {device}" + (f" ({known.uuids[device]})" if device < len(known.uuids) else "")
    units = "m", "Mi" if known.measured else "m"
    asked = zip(_PARTS, units, left, size, strict=True)
    why = [f"{has}{unit} of {want}{unit} {part} left" for part, unit, has, want in asked if has < want <= _ANY_DEVICE]
    return NearMiss(name, tuple(why) or ("it does not say how much memory it has",))


def _amounts(ask: ShareAsk) -> str:
    """What is asked for of each device."""
    amounts = [f"{ask.milli}m compute"] if ask.milli else []
    amounts += [f"{ask.memory_mib}Mi memory"] if ask.memory_mib else []
    return " and ".join(amounts) or "the memory"


def _wanted(ask: ShareAsk) -> str:
    if ask.whole:
        return counted(ask.count, "whole device")
    return f"{counted(ask.count, 'share')} of {_amounts(ask)}"


@lru_cache(maxsize=256)
def _reasons(ask: ShareAsk) -> tuple[Reason, ...]:
    """In the order of their bits."""
    missing = f"devices with {_amounts(ask)} left"
    if ask.whole:
        missing = "idle devices" if ask.count > 1 else "idle device"
    return (
        Reason("node(s) had no devices that can be shared", resolvable=False),
        Reason("node(s) had devices of another model", resolvable=False),
        Reason(f"node(s) had fewer than {ask.count} device(s) that are large enough", resolvable=False),
        Reason(f"Insufficient {missing}"),
    )
