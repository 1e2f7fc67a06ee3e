"""Devices that pods may share, as columns: what is left of each device of each node, compute and memory.

Devices are those that labels or device plugins count (`nvidia.com/gpu.count`, else what the node offers). A share lies
on one device, whole devices must be idle. Which devices a pod gets is decided in one place, `choose`: the fullest that
have room, so that large pieces stay large; for whole devices the first idle ones.

Counting begins with the first use (`follow`) and then follows every pod and node; where no profile shares devices it
costs nothing. Memory is in MiB; where a node does not say how much its devices have, in thousandths of a device.

Invariant, once followed: what is left of a device is its size less what the pods on its row have taken of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from moorage.core.annotations import parse_count
from moorage.core.arrays import Ids, Ints, Mask, Rows
from moorage.core.changelog import ChangeLog
from moorage.core.claimshares import NOTHING_PUBLISHED, PublishedDevices, published_devices
from moorage.core.deviceindex import DeviceIndex
from moorage.core.limits import SHARED_DEVICES
from moorage.core.shareasks import (
    ALIBABA_COUNT,
    ALIBABA_MODEL,
    KOORDINATOR_CORE,
    KOORDINATOR_GPU,
    NVIDIA_GPU,
    WHOLE,
    ShareAsk,
)
from moorage.core.sharewriting import registered_devices
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.core.nodes import Node

PRODUCT, COUNT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory"
MODEL_LABELS = (ALIBABA_MODEL, PRODUCT)
"""On a node: the model of its devices; the first one that is there counts."""
UNHEALTHY = "moorage.dev/unhealthy-devices"
"""On a node: indices of devices that are not to be used, separated by commas."""
_ABSENT = -1
"""What is left of a device that is not there, or failed: less than any request."""
_NEVER = 1 << 40
_KOORDINATOR_EACH = 100
_NO_MODEL = ""

Slots = npt.NDArray[np.int64]
"""int64[slots, capacity]"""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """The devices of a node; all of one size."""

    count: int = 0
    memory: int = WHOLE
    """Of each, in MiB; in thousandths where that is unknown."""
    measured: bool = False
    """Whether the node says how much memory its devices have."""
    model: str = _NO_MODEL
    failed: frozenset[int] = frozenset()
    uuids: tuple[str, ...] = ()


NO_DEVICES = DeviceRow()


class HeldShares:
    """What a pod has of the devices of its row."""

    __slots__ = ("ask", "devices", "row")

    def __init__(self, row: int, ask: ShareAsk, devices: tuple[int, ...]) -> None:
        self.row, self.ask, self.devices = row, ask, devices


class DeviceColumns:
    """`milli` and `memory` are int64[slots, capacity]: what is left of device i of a row, -1 where there is none."""

    def __init__(self, capacity: int) -> None:
        self.followed = False
        self.version = 0
        """Rises when the devices of a node are others than before."""
        self.milli: Slots = np.full((1, capacity), _ABSENT, dtype=np.int64)
        self.memory: Slots = self.milli.copy()
        self.room: Slots = np.zeros((1, capacity), dtype=np.int64)
        """What is left in thousandths of the device, of compute or memory, whichever is less; 0 where there is none."""
        self.each: Ints = np.full(capacity, WHOLE, dtype=np.int64)
        """Memory of each device of a row."""
        self.measured: Mask = np.zeros(capacity, dtype=np.bool_)
        self.count: Ints = np.zeros(capacity, dtype=np.int64)
        """Devices that can be used, without published ones."""
        self.offers: Ints = self.count.copy()
        """Devices of all kinds: published ones have room in the slots after those that count."""
        self.model_ids: Ids = np.zeros(capacity, dtype=np.int32)
        """Into `models`."""
        self.models: list[str] = [_NO_MODEL]
        self._rows: dict[int, DeviceRow] = {}
        self._held: dict[str, HeldShares] = {}
        self._published_to = -1
        """How far the log of published devices was read."""
        self._published: dict[int, PublishedDevices] = {}
        self._capacity: Mapping[str, int] | None = None

    # --- nodes ---

    def follow(self, nodes: Iterable[tuple[int, Node]]) -> None:
        """Begin to count."""
        self.followed = True
        for row, node in nodes:
            self.set_row(row, node)

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        extra = capacity - len(self.each)
        self.milli = np.pad(self.milli, ((0, 0), (0, extra)), constant_values=_ABSENT)
        self.memory = np.pad(self.memory, ((0, 0), (0, extra)), constant_values=_ABSENT)
        self.room = np.pad(self.room, ((0, 0), (0, extra)))
        self.each = np.pad(self.each, (0, extra), constant_values=WHOLE)
        self.measured = np.pad(self.measured, (0, extra))
        self.count = np.pad(self.count, (0, extra))
        self.offers = np.pad(self.offers, (0, extra))
        self.model_ids = np.pad(self.model_ids, (0, extra))

    def set_row(self, row: int, node: Node | None) -> None:
        """The node of a row came, changed or, with None, went; its pods keep their devices."""
        if node is None:
            self.publish(row, NOTHING_PUBLISHED, _NO_MODEL)
        found = NO_DEVICES if node is None else devices_of(node)
        if found == self._rows.get(row, NO_DEVICES):
            return
        self.version += 1
        self._rows[row] = found
        self._widen(found.count)
        usable = [device for device in range(found.count) if device not in found.failed]
        self.milli[:, row] = self.memory[:, row] = _ABSENT
        self.milli[usable, row], self.memory[usable, row] = WHOLE, found.memory
        self.room[:, row] = 0
        self.room[usable, row] = WHOLE
        self.each[row], self.measured[row], self.count[row] = found.memory, found.measured, len(usable)
        self.model_ids[row] = self._model_id(found.model)
        for hold in self._held.values():
            if hold.row == row:
                self._take(hold, 1)
        if not found.count:
            del self._rows[row]
        self._lay_out(row)

    def catch_up(
        self, index: DeviceIndex, row_of: Mapping[str, int], node: Callable[[int], Node], changed: ChangeLog[int]
    ) -> None:
        """Read what drivers have published since, and note the rows to which that is news."""
        log = index.views.own_log
        if self._published_to == log.position:
            return
        names = log.since(self._published_to)
        self._published_to = log.position
        if index.views.empty and not self._published:
            return
        for name in dict.fromkeys(row_of if names is None else names):
            row = row_of.get(name)
            if row is not None and self.publish(row, published_devices(index, node(row)), model_of(node(row))):
                changed.append(row)

    def publish(self, row: int, found: PublishedDevices, model: str) -> bool:
        """What drivers publish for the node of a row; whether that is news. Scores read it, no count does."""
        before = self._published.get(row, NOTHING_PUBLISHED)
        if found == before:
            return False
        if found.room:
            self._published[row] = found
        else:
            del self._published[row]
        if len(found.room) != len(before.room) or found.capacity != before.capacity:
            self.version += 1
            self._capacity = None
        if not self.count.item(row):
            self.model_ids[row] = self._model_id(model)
        self._lay_out(row)
        return True

    @property
    def capacity(self) -> Mapping[str, int]:
        """The largest capacity of each name that a published device has, in nanos."""
        if self._capacity is None:
            found: dict[str, int] = {}
            for each in self._published.values():
                for name, amount in each.capacity.items():
                    found[name] = max(found.get(name, 0), amount)
            self._capacity = found
        return self._capacity

    def _lay_out(self, row: int) -> None:
        """Published devices have the slots after those that count."""
        first, room = self._rows.get(row, NO_DEVICES).count, self._published.get(row, NOTHING_PUBLISHED).room
        self._widen(first + len(room))
        self.room[first:, row] = 0
        self.room[first : first + len(room), row] = room
        self.offers[row] = self.count[row] + len(room)

    def _widen(self, slots: int) -> None:
        more = ((0, slots - len(self.milli)), (0, 0))
        if slots > len(self.milli):
            self.milli = np.pad(self.milli, more, constant_values=_ABSENT)
            self.memory = np.pad(self.memory, more, constant_values=_ABSENT)
            self.room = np.pad(self.room, more)

    def _model_id(self, model: str) -> int:
        if model not in self.models:
            self.models.append(model)
        return self.models.index(model)

    def devices(self, row: int) -> DeviceRow:
        """The devices of a row."""
        return self._rows.get(row, NO_DEVICES)

    # --- pods ---

    def stand(self, uid: str, row: int, ask: ShareAsk, devices: tuple[int, ...]) -> tuple[int, ...]:
        """A pod came to a row with these devices, or with those that are chosen for it; which it has now."""
        hold = self._held[uid] = HeldShares(row, ask, devices or self.choose(ask, row))
        self._take(hold, 1)
        return hold.devices

    def leave(self, uid: str) -> None:
        """A pod left its row."""
        hold = self._held.pop(uid, None)
        if hold is not None:
            self._take(hold, -1)

    def held(self, uid: str) -> HeldShares | None:
        """What a pod has."""
        return self._held.get(uid)

    def holds(self) -> Iterable[tuple[str, HeldShares]]:
        """All that pods have, by uid."""
        return self._held.items()

    def _take(self, hold: HeldShares, sign: int) -> None:
        row, ask = hold.row, hold.ask
        known = self._rows.get(row, NO_DEVICES)
        memory = self.memory_of(ask, row)
        for device in hold.devices:
            if device < known.count and device not in known.failed:
                self.milli[device, row] -= sign * ask.milli
                self.memory[device, row] -= sign * (memory if memory < _NEVER else 0)
                left = min(self.milli.item(device, row), self.memory.item(device, row) * WHOLE // known.memory)
                self.room[device, row] = max(left, 0)

    def believed(self, ask: ShareAsk, row: int, said: tuple[int, ...]) -> tuple[int, ...]:
        """The devices that a pod's annotations say it has; none if it cannot have them, as others use them or so.

        Whoever may edit the pod may write them: they are as many as it asks for, and take nothing that another has.
        """
        known = self.devices(row).count
        real = len(said) == ask.count and all(device < known for device in said)
        return said if real and self.has_room(ask, row, said) else ()

    def choose(self, ask: ShareAsk, row: int) -> tuple[int, ...]:
        """The devices that a pod gets on a row: the fullest with room, of equal ones those with the lowest index.

        A pod that is on the row although it does not fit there gets the emptiest of the others.
        """
        memory, milli = self.memory_of(ask, row), ask.milli
        left = zip(self.room[:, row].tolist(), self.milli[:, row].tolist(), self.memory[:, row].tolist(), strict=True)
        ranked = sorted(
            (compute < milli or free < memory, room, device)
            for device, (room, compute, free) in enumerate(left)
            if compute != _ABSENT or free != _ABSENT
        )
        fitting = [device for misfit, _, device in ranked if not misfit][: ask.count]
        crowded = [device for misfit, _, device in reversed(ranked) if misfit][: ask.count - len(fitting)]
        return tuple(sorted(fitting + crowded))

    # --- asking ---

    def memory_of(self, ask: ShareAsk, row: int) -> int:
        """What an ask takes of the memory of each device on a row; more than any has where that cannot be known."""
        if ask.memory_mib:
            return ask.memory_mib if self.measured.item(row) else _NEVER
        return -(-ask.memory_milli * self.each.item(row) // WHOLE)

    def hosts(self, ask: ShareAsk, rows: Rows) -> Ints:
        """How many devices of each row have room for a part of the ask, int64[n]."""
        if ask.milli == ask.memory_milli and not (ask.memory_mib or self._published):  # both fit where the lesser does
            same: Ints = (self.room.take(rows, axis=1) >= ask.milli).sum(axis=0)
            return same
        if ask.memory_mib:
            memory: Ints = np.where(self.measured.take(rows), ask.memory_mib, _NEVER)
        else:
            memory = -(-ask.memory_milli * self.each.take(rows) // WHOLE)
        fits = (self.milli.take(rows, axis=1) >= ask.milli) & (self.memory.take(rows, axis=1) >= memory)
        found: Ints = fits.sum(axis=0)
        return found

    def fits_row(self, ask: ShareAsk, row: int) -> bool:
        """Whether one row has room for the ask."""
        memory, milli = self.memory_of(ask, row), ask.milli
        left = zip(self.milli[:, row].tolist(), self.memory[:, row].tolist(), strict=True)
        return len([device for device in left if device[0] >= milli and device[1] >= memory]) >= ask.count

    def has_room(self, ask: ShareAsk, row: int, devices: Iterable[int]) -> bool:
        """Whether each of these devices of a row has room for a part of the ask, or is not counted."""
        memory, known = self.memory_of(ask, row), self.devices(row)
        counted = (each for each in devices if each < known.count and each not in known.failed)
        left = (self.left(row, each) for each in counted)
        return all(compute >= ask.milli and free >= (memory if memory < _NEVER else 0) for compute, free in left)

    def left(self, row: int, device: int) -> tuple[int, int]:
        """What a device of a row has left, compute and memory; negative where it failed."""
        return self.milli.item(device, row), self.memory.item(device, row)

    def right_model(self, ask: ShareAsk, rows: Rows) -> Mask:
        """Which rows have a model that will do, bool[n]."""
        if not ask.models:
            return np.ones(len(rows), dtype=np.bool_)
        wanted = [number for number, model in enumerate(self.models) if model in ask.models]
        return np.isin(self.model_ids.take(rows), wanted)


def model_of(node: Node) -> str:
    """The model of its devices, empty if it does not say."""
    return node.labels.get(ALIBABA_MODEL) or node.labels.get(PRODUCT, _NO_MODEL)


def devices_of(node: Node) -> DeviceRow:
    """The devices of a node, from what agents have written, labels and what it offers, in this order."""
    registered = registered_devices(node.annotations)
    count = min(len(registered) or _counted(node), SHARED_DEVICES)
    if not count:
        return NO_DEVICES
    memory = min((device.memory_mib for device in registered), default=0) or parse_count(node.labels.get(MEMORY, ""), 1)
    failed = {number for number, device in enumerate(registered) if not device.healthy}
    failed.update(
        n for text in node.annotations.get(UNHEALTHY, "").split(",") if (n := parse_count(text, 0)) is not None
    )
    return DeviceRow(
        count,
        memory or WHOLE,
        bool(memory),
        model_of(node),
        frozenset(failed),
        tuple(device.uuid for device in registered),
    )


def _counted(node: Node) -> int:
    offered = node.allocatable
    shares = max(offered.get(KOORDINATOR_CORE, 0), offered.get(KOORDINATOR_GPU, 0)) // _KOORDINATOR_EACH
    found = max(offered.get(NVIDIA_GPU, 0), offered.get(ALIBABA_COUNT, 0), shares)
    labelled = parse_count(node.labels.get(COUNT, ""), 0)
    return found if labelled is None or not found else min(labelled, found)
