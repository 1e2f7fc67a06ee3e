"""Which volumes the pods of each node use: per claim, per disk, and per CSI driver beside the node's limits.

Only pods with volumes cost anything. Rows are counted again when they are asked about after something changed that
they depend on: their pods, claims, volumes, attachments or CSINode.

Invariant: after `refresh`, every column equals a fresh count (`tests/core/test_volumeuse.py` compares).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from moorage.core.arrays import Ints, Mask
from moorage.core.csimigration import BY_KIND, BY_PLUGIN, disk_handle, volume_handle
from moorage.core.pods import Pod, PodVolume
from moorage.core.volumeindex import ATTACHMENT, CLAIM, CLASS, CSI_NODE, VOLUME, VolumeIndex
from moorage.core.volumes import CSINode, PersistentVolumeClaim

UNLIMITED = -1

Held = dict[str, str]
"""Name of a volume, unique in the cluster -> its CSI driver."""


class VolumeUse:
    """Volumes in use, by row."""

    def __init__(self, index: VolumeIndex) -> None:
        self._index = index
        self._names: dict[int, str] = {}
        self._rows: dict[str, int] = {}
        self._pods: dict[int, dict[str, Pod]] = {}
        self._claim_users: dict[str, dict[int, int]] = {}
        """Key of a claim -> row -> number of pods there that use it."""
        self._direct_users: dict[str, int] = {}
        """Key of a claim -> number of pods that name it themselves."""
        self._disks: dict[tuple[str, str], dict[int, list[int]]] = {}
        """(kind, identity) -> row -> number of pods that only read it, number of pods that may write."""
        self._volume_rows: dict[str, set[int]] = {}
        """Name of a PersistentVolume -> rows that were counted with it."""
        self._dirty: set[int] = set()
        self._held: dict[int, Held] = {}
        self._holders: dict[str, set[int]] = {}
        self._attached: dict[str, Ints] = {}
        self._limits: dict[str, Ints] = {}
        self._installed: dict[str, Mask] = {}
        self._drivers: dict[int, tuple[str, ...]] = {}
        self._capacity = 0

    # --- what happens ---

    def node_came(self, row: int, name: str) -> None:
        """A node took a row."""
        self._names[row], self._rows[name] = name, row
        if self._index.csi_node(name) is not None:
            self._dirty.add(row)

    def node_left(self, row: int) -> None:
        """A row is free again; its pods have left before."""
        del self._rows[self._names.pop(row)]
        self._dirty.discard(row)
        self._forget(row)

    def add(self, row: int, pod: Pod) -> None:
        """A pod with volumes came to the row."""
        self._pods.setdefault(row, {})[pod.uid] = pod
        self._count(row, pod, 1)

    def remove(self, row: int, pod: Pod) -> None:
        """A pod with volumes left the row."""
        pods = self._pods[row]
        del pods[pod.uid]
        if not pods:
            del self._pods[row]
        self._count(row, pod, -1)

    def note(self, kind: str, before: Any, after: Any) -> None:
        """A storage object changed; the index knows it already."""
        if kind == CLASS:
            self._dirty.update(self._pods)
            return
        for value in (before, after):
            if value is None:
                continue
            if kind == CLAIM:
                self._dirty.update(self._claim_users.get(value.key, ()))
            elif kind == VOLUME:
                self._dirty.update(self._volume_rows.get(value.name, ()))
            elif kind in (CSI_NODE, ATTACHMENT):
                row = self._rows.get(value.name if kind == CSI_NODE else value.node)
                if row is not None:
                    self._dirty.add(row)

    def _count(self, row: int, pod: Pod, by: int) -> None:
        self._dirty.add(row)
        namespace = pod.template.namespace
        for volume in pod.template.volumes:
            if volume.claim is not None:
                key = f"{namespace}/{volume.claim}"
                _add(self._claim_users.setdefault(key, {}), row, by)
                if not self._claim_users[key]:
                    del self._claim_users[key]
                if not volume.ephemeral:
                    _add(self._direct_users, key, by)
            elif volume.disk is not None:
                self._count_disk(row, volume.disk, by)

    def _count_disk(self, row: int, disk: tuple[str, str, bool], by: int) -> None:
        kind, identity, read_only = disk
        rows = self._disks.setdefault((kind, identity), {})
        uses = rows.setdefault(row, [0, 0])
        uses[0 if read_only else 1] += by
        if not any(uses):
            del rows[row]
        if not rows:
            del self._disks[kind, identity]

    # --- questions ---

    def in_use(self, claim_key: str) -> bool:
        """Whether a pod on a node names the claim; generic ephemeral volumes do not count."""
        return claim_key in self._direct_users

    def rows_with_disk(self, kind: str, identity: str, read_only: bool) -> Iterator[int]:
        """Rows whose pods keep another pod from using this disk: several pods may read it, but none beside a writer."""
        for row, (_, writers) in self._disks.get((kind, identity), {}).items():
            if writers or not read_only:
                yield row

    def refresh(self, capacity: int) -> None:
        """Count the rows again that something happened to; columns get this many rows."""
        if capacity != self._capacity:
            self._grow(capacity)
        if not self._dirty:
            return
        for row in self._dirty:
            self._forget(row)
            name = self._names.get(row)
            node = None if name is None else self._index.csi_node(name)
            if node is not None:
                self._recount(row, node)
        self._dirty.clear()

    def limits(self, driver: str) -> Ints | None:
        """How many volumes of the driver each row can hold, UNLIMITED without a limit; None if no row has one."""
        return self._limits.get(driver)

    def attached(self, driver: str) -> Ints | None:
        """How many volumes of the driver each row holds, of rows that have any CSI driver; None if no row does."""
        return self._attached.get(driver)

    def installed(self, driver: str) -> Mask | None:
        """Which rows have the driver; None if no row has it."""
        return self._installed.get(driver)

    def holders(self, volume: str) -> set[int]:
        """Rows with CSI drivers on which a pod uses this volume."""
        return self._holders.get(volume, set())

    # --- counting ---

    def volumes_of(self, pod: Pod, *, csi_node: bool, strict: bool = False) -> Held:
        """The CSI volumes of a pod on a node with or without a CSINode.

        With `strict` a missing claim raises `KeyError` with its name, otherwise it does not count.
        """
        held: Held = {}
        for volume in pod.template.volumes:
            found = self._resolve(pod, volume, csi_node, strict)
            if found is not None and all(found):
                held["/".join(found)] = found[0]
        return held

    def _resolve(self, pod: Pod, volume: PodVolume, csi_node: bool, strict: bool) -> tuple[str, str] | None:
        """Driver and handle of a volume; None if it is not a CSI driver's."""
        if volume.claim is None:
            if volume.disk is None or not csi_node:
                return None
            migration = BY_KIND.get(volume.disk[0])
            if migration is None or not migration.counted:
                return None
            return migration.driver, disk_handle(volume.disk[0], volume.disk[1])
        claim = self._index.raw_claim(f"{pod.template.namespace}/{volume.claim}")
        if claim is None:
            if strict:
                raise KeyError(volume.claim)
            return None
        return self._of_claim(claim, csi_node)

    def _of_claim(self, claim: PersistentVolumeClaim, csi_node: bool) -> tuple[str, str] | None:
        volume = self._index.raw_volume(claim.volume) if claim.volume else None
        if volume is None:
            return self._of_class(claim, csi_node)
        if volume.source is None:
            return None
        if volume.source.kind == "csi":
            return volume.source.driver, volume.source.handle
        migration = BY_KIND.get(volume.source.kind)
        if migration is None or not migration.counted or not csi_node:
            return None
        return migration.driver, volume_handle(volume)

    def _of_class(self, claim: PersistentVolumeClaim, csi_node: bool) -> tuple[str, str] | None:
        """A volume that is still to be made, by the provisioner of its class."""
        found = self._index.storage_class(claim.storage_class) if claim.storage_class else None
        if found is None:
            return None
        handle = f"unbound:{claim.key}"
        migration = BY_PLUGIN.get(found.provisioner)
        if migration is None:
            return found.provisioner, handle
        return (migration.driver, handle) if migration.counted and csi_node else None

    def _recount(self, row: int, node: CSINode) -> None:
        drivers = []
        for driver in node.drivers:
            drivers.append(driver.name)
            self._mask(driver.name)[row] = True
            if driver.volume_limit is not None:
                self._column(self._limits, driver.name, UNLIMITED)[row] = driver.volume_limit
        self._drivers[row] = tuple(drivers)
        held: Held = {}
        for pod in self._pods.get(row, {}).values():
            held.update(self.volumes_of(pod, csi_node=True))
            self._depend(row, pod)
        self._held[row] = held
        for volume, driver_name in held.items():
            self._holders.setdefault(volume, set()).add(row)
            self._column(self._attached, driver_name, 0)[row] += 1
        for volume, driver_name in self._attachments(row, node.name).items():
            if volume not in held:
                self._column(self._attached, driver_name, 0)[row] += 1

    def _depend(self, row: int, pod: Pod) -> None:
        for volume in pod.template.volumes:
            claim = self._index.raw_claim(f"{pod.template.namespace}/{volume.claim}") if volume.claim else None
            if claim is not None and claim.volume:
                self._volume_rows.setdefault(claim.volume, set()).add(row)

    def _attachments(self, row: int, node: str) -> Held:
        found: Held = {}
        for attachment in self._index.attachments_on(node):
            if not attachment.driver or attachment.volume is None:
                continue
            self._volume_rows.setdefault(attachment.volume, set()).add(row)
            volume = self._index.raw_volume(attachment.volume)
            if volume is not None and volume.source is not None and volume.source.kind == "csi":
                found[f"{attachment.driver}/{volume.source.handle}"] = attachment.driver
        return found

    def _forget(self, row: int) -> None:
        """Make the row neutral in every column."""
        for volume in self._held.pop(row, {}):
            holders = self._holders[volume]
            holders.discard(row)
            if not holders:
                del self._holders[volume]
        if self._drivers.pop(row, None) is None:
            return
        _reset(self._attached.values(), row, 0)
        _reset(self._limits.values(), row, UNLIMITED)
        for mask in self._installed.values():
            mask[row] = False

    def _grow(self, capacity: int) -> None:
        extra = capacity - self._capacity
        self._capacity = capacity
        for columns, neutral in ((self._attached, 0), (self._limits, UNLIMITED)):
            for driver, column in columns.items():
                columns[driver] = np.pad(column, (0, extra), constant_values=neutral)
        for driver, mask in self._installed.items():
            self._installed[driver] = np.pad(mask, (0, extra))

    def _column(self, columns: dict[str, Ints], driver: str, neutral: int) -> Ints:
        found = columns.get(driver)
        if found is None:
            found = columns[driver] = np.full(self._capacity, neutral, dtype=np.int64)
        return found

    def _mask(self, driver: str) -> Mask:
        found = self._installed.get(driver)
        if found is None:
            found = self._installed[driver] = np.zeros(self._capacity, dtype=np.bool_)
        return found


def _reset(columns: Iterable[Ints], row: int, neutral: int) -> None:
    for column in columns:
        column[row] = neutral


def _add(counts: dict[Any, int], key: Any, by: int) -> None:
    count = counts.get(key, 0) + by
    if count:
        counts[key] = count
    else:
        del counts[key]
