"""The columnar cluster state: nodes are rows, everything a rule reads is a column.

Invariants (`moorage.core.invariants.check_invariants` compares them with a recount):
- a living node has exactly one row; rows of dead nodes are neutral in every column and are used again;
- the requested columns are the sums over the pods that stand on the row, assumed ones included;
- a pod on a node not yet known stands nowhere (row -1) and is put on its row when the node appears;
- every change of a row is noted in `node_log` or `pod_log`, rollbacks too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum, auto
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from moorage.core.amounts import PodAmounts
from moorage.core.arrays import Hashes, Ids, Ints, Mask, Rows
from moorage.core.changelog import ChangeLog
from moorage.core.columns import NOTHING, ResourceColumns
from moorage.core.deviceindex import DEVICE_CLASS, DEVICE_KINDS, RESOURCE_SLICE, DeviceIndex
from moorage.core.disruption.ledger import DisruptionLedger
from moorage.core.domains import Domains
from moorage.core.evictions import Evictions
from moorage.core.gangs import POD_MAKERS, GangIndex
from moorage.core.hashing import node_hash
from moorage.core.nodeimages import ImageIndex
from moorage.core.nodelabels import LabelColumns
from moorage.core.nodeports import PortIndex
from moorage.core.nodes import Node
from moorage.core.nodetaints import TaintColumn, TaintSet
from moorage.core.nominations import Nominations
from moorage.core.objects import PLACEMENT_POLICY, SERVICE
from moorage.core.ownercounts import OwnerCounts, is_like_its_labels
from moorage.core.podcounts import LabelGroup, PodCounts
from moorage.core.pods import FINISHED, Pod, PodTemplate
from moorage.core.podterms import PodTerms
from moorage.core.policies import PolicyIndex
from moorage.core.queueledger import LEDGER_KINDS, QueueLedger
from moorage.core.services import ServiceIndex
from moorage.core.sharedevices import DeviceColumns
from moorage.core.sparsecounts import SparseCounts
from moorage.core.statement import Statement, Undo
from moorage.core.topologytree import TopologyTrees
from moorage.core.volumeindex import VOLUME_KINDS, VolumeIndex
from moorage.core.volumeuse import VolumeUse
from moorage.core.workload import LearnedWorkload

Number = TypeVar("Number", bound=np.generic)

NOWHERE = -1
_FIRST_CAPACITY = 16


def _nowhere(capacity: int) -> Mask:
    return np.zeros(capacity, dtype=np.bool_)


class PodRecord:
    """A pod that stands on a node. `row` is NOWHERE while the node is not known."""

    __slots__ = ("assumed", "devices", "group", "node", "pod", "row", "vector")

    def __init__(self, pod: Pod, node: str, assumed: bool) -> None:
        self.pod = pod
        self.node = node
        self.row = NOWHERE
        self.vector = NOTHING
        """What it takes of its row while it stands on one."""
        self.assumed = assumed
        self.group: LabelGroup | None = None
        """What `pod_counts` counts it under while it stands on a row."""
        self.devices = () if pod.assigned is None else pod.assigned.devices
        """The shared devices that it has, or had when it last stood on its row."""


def _unsure(record: PodRecord) -> int:
    """How little is known of the shared devices of a pod; what is known for sure is counted first."""
    return 0 if record.devices else 1 if record.pod.devices else 2


def _confirmed(record: PodRecord, pod: Pod) -> bool:
    """Whether a version of a pod was given the devices that it is thought to have, or does not say."""
    return pod.assigned is None or pod.assigned.confirms(record.pod.share, record.devices)


class PodMove(StrEnum):
    """What `observe_pod` did. Looked up at every pod event, and strings hash faster than plain members."""

    NOTHING = auto()
    """The pod stands nowhere, before and after."""
    CONFIRMED = auto()
    """An assumed pod turned out to be where it was assumed."""
    ADDED = auto()
    SAME = auto()
    """Same node, and nothing that a placement rule reads is different."""
    UPDATED = auto()
    """Same node; labels, requests or the deletion mark differ."""
    MOVED = auto()
    """Assumed on one node, found on another."""
    REMOVED = auto()
    """It finished, or is not bound after all."""


_CONFIRMED, _STANDS_NOWHERE = PodMove.CONFIRMED, PodMove.NOTHING
"""What becomes of nearly every pod; looking a member up in its enumeration takes time."""


class ClusterState:
    """Nodes as rows, pods on them, and what follows from both. Changed only through its methods."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.undo = seed, Undo()
        """Where changes note how to take them back while a statement is open."""
        self.capacity = _FIRST_CAPACITY
        self.resources, self.labels = ResourceColumns(self.capacity), LabelColumns(self.capacity)
        self.taints = TaintColumn(self.capacity)
        self.ports, self.images = PortIndex(), ImageIndex()
        self.domains, self.topologies = Domains(), TopologyTrees()
        self.pod_counts, self.pod_terms, self.owners = PodCounts(), PodTerms(), OwnerCounts()
        self.gangs, self.shared_devices = GangIndex(), DeviceColumns(self.capacity)
        self.services, self.policies = ServiceIndex(), PolicyIndex()
        self.evictions, self.disruptions, self.workload = Evictions(), DisruptionLedger(self), LearnedWorkload()
        self.alive, self.unschedulable = _nowhere(self.capacity), _nowhere(self.capacity)
        self.node_hashes: Hashes = np.zeros(self.capacity, dtype=np.uint64)
        self.node_log, self.pod_log, self.start_log = ChangeLog[int](), ChangeLog[int](), ChangeLog[int]()
        """Rows that changed; of the last, rows on which a pod's start time did, which no rule about placing reads."""
        self.objects: dict[str, dict[str, Any]] = {}
        """kind -> key -> core value, for every kind that is neither pod nor node."""
        self.objects_version = self.objects_told = 0
        """The former rises with every change of any object, the latter only with those that are no what-ifs."""
        self.object_versions: dict[str, int] = {}
        """kind -> a number that rises whenever an object of the kind comes, goes or changes; absent means 0."""
        self.devices, self.volumes = DeviceIndex(self.objects), VolumeIndex(self.objects)
        self.amounts = PodAmounts(self)
        """What pods count for."""
        self.queues = QueueLedger(self.objects, self.resources, self.amounts)
        self.devices.restated = self.queues.note_claim
        self.nominations = Nominations(self.undo, self.queues)
        self.volume_use = VolumeUse(self.volumes)
        self._nodes: list[Node | None] = [None] * self.capacity
        self._row_of: dict[str, int] = {}
        self._free: list[int] = list(range(self.capacity - 1, -1, -1))
        self._records: dict[str, PodRecord] = {}
        self.record: Callable[[str], PodRecord | None] = self._records.get
        """The pod with a uid, if it stands on a node; several times per decision, hence without a call of ours."""
        self._on_row: list[dict[str, PodRecord]] = [{} for _ in range(self.capacity)]
        self._homeless: dict[str, dict[str, PodRecord]] = {}
        self._wanting: dict[str, PodRecord] = {}
        """Pods on rows that ask for something that no node offers."""
        self._living: Rows | None = None
        self._gapless = False

    # --- reading ---

    @property
    def node_count(self) -> int:
        """Number of living nodes."""
        return len(self._row_of)

    @property
    def pod_count(self) -> int:
        """Number of pods that stand on nodes, known or not."""
        return len(self._records)

    def rows(self) -> Rows:
        """All living rows, ascending. Do not change the array."""
        if self._living is None:
            self._living = np.flatnonzero(self.alive)
            self._living.flags.writeable = False
            self._gapless = len(self._living) == 0 or int(self._living[-1]) == len(self._living) - 1
        return self._living

    @property
    def height(self) -> int:
        """One more than the highest living row; columns hold nothing above it."""
        rows = self.rows()
        return int(rows[-1]) + 1 if len(rows) else 0

    def pick(self, column: npt.NDArray[Number], rows: Rows) -> npt.NDArray[Number]:
        """The column at these rows, shape (len(rows),); a view where `rows` is all of `rows()`. Do not change it."""
        if rows is self._living and self._gapless:
            return column[: len(rows)]
        return column.take(rows)

    @property
    def taint_ids(self) -> Ids:
        """`taints.ids`, under the earlier name that some plugins use."""
        return self.taints.ids

    @property
    def taint_sets(self) -> list[TaintSet]:
        """`taints.sets`, likewise."""
        return self.taints.sets

    def row_of(self, name: str) -> int | None:
        """The row of a node."""
        return self._row_of.get(name)

    def rows_of(self, names: Collection[str]) -> Rows:
        """The rows of nodes in the order of their names, shape (len(names),); NOWHERE where one is not known."""
        return np.fromiter(map(self._row_of.get, names, repeat(NOWHERE)), np.intp, len(names))

    def node(self, row: int) -> Node:
        """The node of a living row."""
        node = self._nodes[row]
        if node is None:
            raise KeyError(f"row {row} holds no node")
        return node

    def node_names(self) -> list[str]:
        """Names of all living nodes, in no particular order."""
        return list(self._row_of)

    def records(self) -> list[PodRecord]:
        """All pods that stand on nodes."""
        return list(self._records.values())

    def records_on(self, row: int) -> list[PodRecord]:
        """The pods on a row."""
        return list(self._on_row[row].values())

    @property
    def free_rows(self) -> tuple[int, ...]:
        """Rows without a node; the last one is taken first."""
        return tuple(self._free)

    def order_on(self, name: str) -> list[str]:
        """The uids of the pods on a node, in the order in which they came to it; the node need not be known."""
        row = self._row_of.get(name)
        return list(self._homeless.get(name, ()) if row is None else self._on_row[row])

    def reorder(self, name: str, uids: Collection[str]) -> None:
        """Let the pods on a node, which are these, stand as if they had come to it in this order."""
        row = self._row_of.get(name)
        table = self._homeless[name] if row is None else self._on_row[row]
        if set(uids) != set(table):
            raise ValueError(f"other pods than these are on node {name}")
        records = [(uid, table[uid]) for uid in uids]
        table.clear()
        table.update(records)

    def owner_rows(self, template: PodTemplate) -> SparseCounts:
        """How many live pods with the owner of this one stand on which row, assumed ones included. Do not change it."""
        return self._followed_owners().rows(template)

    def workload_rows(self, template: PodTemplate) -> SparseCounts:
        """As `owner_rows`, with the pods of every revision of a Deployment. Do not change it."""
        return self._followed_owners().workload_rows(template)

    def _followed_owners(self) -> OwnerCounts:
        if not self.owners.followed:
            self.owners.follow(self._standing())
        return self.owners

    def group_rows(self, template: PodTemplate) -> SparseCounts:
        """As `owner_rows`, for what placement strategies take for one workload. Do not change it."""
        owners = self._followed_owners()
        if not owners.alike_followed and is_like_its_labels(template):
            owners.follow_alike(self._standing())
        return owners.group_rows(template)

    def _standing(self) -> Iterator[tuple[Pod, int]]:
        return ((record.pod, record.row) for record in self._records.values() if record.row != NOWHERE)

    def shares(self) -> DeviceColumns:
        """What is left of the devices that pods share, counted from the first use on. Do not change it."""
        shared = self.shared_devices
        if not shared.followed:
            shared.follow((row, self.node(row)) for row in self.rows().tolist())
            for record in sorted(self._records.values(), key=_unsure):
                self._share(record)
        shared.catch_up(self.devices, self._row_of, self.node, self.pod_log)
        return shared

    def _share(self, record: PodRecord) -> None:
        """A pod on a row takes what it asks for of devices there.

        What nobody knows who could be believed, its annotations may say, if there is room for it where they say.
        """
        pod, shared = record.pod, self.shared_devices
        ask = pod.share
        if ask is not None and not ask.problem and record.row != NOWHERE:
            known = record.devices or shared.believed(ask, record.row, pod.devices)
            record.devices = shared.stand(pod.uid, record.row, ask, known)

    def object(self, kind: str, key: str) -> Any | None:
        """One object of another kind."""
        return self.objects.get(kind, {}).get(key)

    # --- nodes ---

    def upsert_node(self, node: Node) -> Node | None:
        """Add a node or replace its properties; returns what was known before."""
        row = self._row_of.get(node.name)
        before = None if row is None else self._nodes[row]
        if row is None:
            row = self._take_row(node.name)
        self._nodes[row] = node
        if self.resources.set_allocatable(row, node.allocatable) and self._wanting:
            self._count_anew()
        self.labels.set_row(row, node.labels)
        self.images.set_row(row, node.images)
        self.unschedulable[row] = node.unschedulable
        self.taints.set_row(row, node.taints)
        if self.shared_devices.followed:
            self.shared_devices.set_row(row, node)
            for record in self._on_row[row].values():
                if not record.devices:  # they came before the devices
                    self._share(record)
            self.devices.views.own_log.append(node.name)
        self.node_log.append(row)
        for record in sorted(self._homeless.pop(node.name, {}).values(), key=_unsure):
            self._stand(record, row)
        if self.undo.steps is not None:
            self.undo.steps.append(lambda: self.remove_node(node.name) if before is None else self.upsert_node(before))
        return before

    def remove_node(self, name: str) -> Node | None:
        """Take a node away; its pods stand nowhere until they are deleted or the node comes back."""
        row = self._row_of.pop(name, None)
        if row is None:
            return None
        node = self._nodes[row]
        for record in self.records_on(row):
            self._leave(record)
            self._homeless.setdefault(name, {})[record.pod.uid] = record
        self._nodes[row] = None
        self.volume_use.node_left(row)
        self.devices.views.forget_node(name)
        self.resources.set_allocatable(row, {})
        self.labels.set_row(row, {})
        self.images.set_row(row, ())
        self.images.version += 1
        self.unschedulable[row] = False
        self.taints.set_row(row, ())
        self.shared_devices.set_row(row, None)
        self.alive[row] = False
        self._living = None
        self._free.append(row)
        self.node_log.append(row)
        if self.undo.steps is not None and node is not None:
            self.undo.steps.append(lambda: self.upsert_node(node))
        return node

    def _take_row(self, name: str) -> int:
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._row_of[name] = row
        self.alive[row] = True
        self.node_hashes[row] = node_hash(self.seed, name)
        self.volume_use.node_came(row, name)
        self.images.version += 1
        self._living = None
        return row

    def _count_anew(self) -> None:
        """A resource is offered for the first time: what pods ask of it counts from now on."""
        for uid, record in list(self._wanting.items()):
            before, after = record.vector, self.resources.vector(record.pod.requests)
            if before is not after:
                self.resources.add(record.row, before, -1)
                self.resources.add(record.row, after, 1)
                record.vector = after
                self.pod_log.append(record.row)
                if not after.unknown:
                    del self._wanting[uid]

    def _grow(self) -> None:
        old, new = self.capacity, self.capacity * 2
        self.resources.grow(new)
        self.labels.grow(new)
        self.taints.grow(new)
        self.shared_devices.grow(new)
        extra = new - old
        self.alive = np.pad(self.alive, (0, extra))
        self.unschedulable = np.pad(self.unschedulable, (0, extra))
        self.node_hashes = np.pad(self.node_hashes, (0, extra))
        self._nodes.extend([None] * extra)
        self._on_row.extend({} for _ in range(extra))
        self._free.extend(range(new - 1, old - 1, -1))
        self.capacity = new

    # --- pods ---

    def observe_pod(self, pod: Pod) -> PodMove:
        """Take over what the API server says about a pod: this adds, confirms, updates, moves or removes it."""
        record = self._records.get(pod.uid)
        if pod.phase in FINISHED:
            return PodMove.NOTHING if self.remove_pod(pod.uid) is None else PodMove.REMOVED
        if pod.node is None:
            return self._observe_unbound(pod, record)
        if record is None:
            self._add(PodRecord(pod, pod.node, assumed=False))
            return PodMove.ADDED
        known, was_assumed = record.pod, record.assumed
        same = known.template is pod.template or known.template == pod.template
        same = same and (known.requests is pod.requests or known.requests == pod.requests)
        same = same and (pod.assigned is known.assigned or _confirmed(record, pod))
        if same and record.node == pod.node:
            self._refresh(record, pod)
            if known.deleted_s != pod.deleted_s:
                if record.row != NOWHERE:
                    self.pod_log.append(record.row)
                return PodMove.UPDATED
            return _CONFIRMED if was_assumed else PodMove.SAME
        self._drop(record)
        successor = PodRecord(pod, pod.node, assumed=False)
        if record.node == pod.node:
            successor.devices = successor.devices or record.devices
        self._add(successor)
        if record.node != pod.node:
            return PodMove.MOVED
        return PodMove.CONFIRMED if was_assumed else PodMove.UPDATED

    def _refresh(self, record: PodRecord, pod: Pod) -> None:
        """A new version of a pod that changes no column."""
        known, was_assumed = record.pod, record.assumed
        record.pod, record.assumed = pod, False
        if known.started_s != pod.started_s and record.row != NOWHERE:
            self.start_log.append(record.row)
        if known.deleted_s != pod.deleted_s:
            self._regroup(record, known)
            if self.queues.active:
                self.queues.stand(pod, leaving=pod.deleted_s is not None)
        if self.undo.steps is not None:

            def undo() -> None:
                record.pod, record.assumed = known, was_assumed
                self._regroup(record, pod)
                if self.queues.active:
                    self.queues.stand(known, leaving=known.deleted_s is not None)

            self.undo.steps.append(undo)

    def _regroup(self, record: PodRecord, known: Pod) -> None:
        """Selectors may see a pod differently once it is being deleted."""
        if record.group is not None and (known.deleted_s is None) != (record.pod.deleted_s is None):
            self.pod_counts.leave(record.group, record.row)
            record.group = self.pod_counts.stand(record.pod, record.row)
            if self.owners.followed:
                self.owners.note(known, record.row, -1)
                self.owners.note(record.pod, record.row, 1)

    def _observe_unbound(self, pod: Pod, record: PodRecord | None) -> PodMove:
        if record is None or record.assumed:
            return _STANDS_NOWHERE
        self.remove_pod(pod.uid)
        return PodMove.REMOVED

    def assume(self, pod: Pod, row: int) -> PodRecord:
        """Count a pod on a row before the API server has confirmed it; it stays until confirmed, forgotten, removed."""
        stale = self._records.get(pod.uid)
        if stale is not None:
            self._drop(stale)
        record = PodRecord(pod, self.node(row).name, assumed=True)
        self._records[pod.uid] = record
        self.nominations.touch(pod.uid)
        if pod.template.gang is not None:
            self.gangs.stand(pod.template.gang, record)
        if self.queues.active:
            self.queues.assume(pod)
        self._stand(record, row)
        if self.undo.steps is not None:
            self.undo.steps.append(lambda: self._drop(record))
        return record

    def forget(self, uid: str) -> PodRecord | None:
        """Take back an assumption; a confirmed pod stays."""
        record = self._records.get(uid)
        if record is None or not record.assumed:
            return None
        self._drop(record)
        return record

    def remove_pod(self, uid: str) -> PodRecord | None:
        """Take a pod off its node, assumed or not."""
        record = self._records.get(uid)
        if record is not None:
            self._drop(record)
        return record

    def put_back(self, record: PodRecord) -> None:
        """A pod that was removed is where it was again, with the devices that it had; for `core.disruption`."""
        self._add(record)

    def _add(self, record: PodRecord) -> None:
        self._records[record.pod.uid] = record
        self.nominations.touch(record.pod.uid)
        if record.pod.template.gang is not None:
            self.gangs.stand(record.pod.template.gang, record)
        if self.queues.active:
            self.queues.stand(record.pod, leaving=record.pod.deleted_s is not None)
        row = self._row_of.get(record.node)
        if row is None:
            self._homeless.setdefault(record.node, {})[record.pod.uid] = record
        else:
            self._stand(record, row)
        if self.undo.steps is not None:
            self.undo.steps.append(lambda: self._drop(record))

    def _drop(self, record: PodRecord) -> None:
        uid = record.pod.uid
        del self._records[uid]
        self.nominations.touch(uid)
        if record.pod.template.gang is not None:
            self.gangs.leave(record.pod.template.gang, uid)
        if self.queues.active:
            self.queues.leave(uid)
        if record.row == NOWHERE:
            homeless = self._homeless[record.node]
            del homeless[uid]
            if not homeless:
                del self._homeless[record.node]
        else:
            self._leave(record)
        if self.undo.steps is not None:
            self.undo.steps.append(lambda: self._add(record))

    def _stand(self, record: PodRecord, row: int) -> None:
        pod, template, resources = record.pod, record.pod.template, self.resources
        record.row = row
        self._on_row[row][pod.uid] = record
        vector = record.vector = resources.vector(pod.requests)
        resources.add(row, vector, 1)
        if vector.unknown:
            self._wanting[pod.uid] = record
        if template.host_ports:
            self.ports.add(row, template.host_ports)
        if template.volumes:
            self.volume_use.add(row, pod)
        record.group = self.pod_counts.stand(pod, row)
        if template.has_pod_terms:
            self.pod_terms.stand(template, row)
        if self.owners.followed:
            self.owners.note(pod, row, 1)
        if (template.share is not None or pod.assigned is not None) and self.shared_devices.followed:
            self._share(record)
        self.pod_log.append(row)

    def _leave(self, record: PodRecord) -> None:
        row = record.row
        record.row = NOWHERE
        del self._on_row[row][record.pod.uid]
        self.resources.add(row, record.vector, -1)
        if record.vector.unknown:
            del self._wanting[record.pod.uid]
        if record.pod.template.host_ports:
            self.ports.remove(row, record.pod.template.host_ports)
        if record.pod.template.volumes:
            self.volume_use.remove(row, record.pod)
        if record.group is not None:
            self.pod_counts.leave(record.group, row)
            record.group = None
        if record.pod.template.has_pod_terms:
            self.pod_terms.leave(record.pod.template, row)
        if self.owners.followed:
            self.owners.note(record.pod, row, -1)
        if record.pod.template.share is not None or record.pod.assigned is not None:
            self.shared_devices.leave(record.pod.uid)
        self.pod_log.append(row)

    # --- other objects ---

    def put_object(self, kind: str, key: str, value: Any) -> Any | None:
        """Add or replace an object of another kind; returns the one before."""
        table = self.objects.setdefault(kind, {})
        before = table.get(key)
        table[key] = value
        self._note_object(kind, key, before, value)
        self._note_queue(kind, before, value)
        return before

    def remove_object(self, kind: str, key: str) -> Any | None:
        """Remove an object of another kind; returns it."""
        before = self.objects.get(kind, {}).pop(key, None)
        self._note_object(kind, key, before, None)
        self._note_queue(kind, before, None)
        return before

    def _note_queue(self, kind: str, before: Any, after: Any) -> None:
        if kind in LEDGER_KINDS and self.queues.note_object(kind, before, after):
            for record in self._records.values():
                self.queues.stand(record.pod, leaving=record.pod.deleted_s is not None)
            for pod in self.nominations.pods():
                self.queues.promise(pod)

    def _note_object(self, kind: str, key: str, before: Any, after: Any) -> None:
        if self.undo.steps is not None:
            self.undo.steps.append(
                lambda: self.remove_object(kind, key) if before is None else self.put_object(kind, key, before)
            )
        if before != after:
            self.object_versions[kind] = self.object_versions.get(kind, 0) + 1
            self.objects_version += 1
            self.objects_told += self.undo.truth
        if kind == SERVICE:
            self.services.replace(before, after)
        if kind == PLACEMENT_POLICY:
            self.policies.replace(before, after)
        if kind in POD_MAKERS:
            self.gangs.note_maker(before, after)
        if kind in DEVICE_KINDS:
            self.devices.note(kind, before, after)
            self._note_devices(kind, before, after)
        if kind in VOLUME_KINDS:
            self.volumes.note(kind, before, after)
            self.volume_use.note(kind, before, after)

    def _note_devices(self, kind: str, before: Any, after: Any) -> None:
        """What is published, or how classes are named, is another thing to what pods count for."""
        if kind == RESOURCE_SLICE:
            self.queues.note_devices({each.pool_id for each in (before, after) if each is not None})
        elif kind == DEVICE_CLASS and before != after:
            self.queues.note_devices(())
            self.queues.reassign()

    # --- what-ifs ---

    def shift_amounts(self, rows: Rows, amounts: Mapping[int, Ints], sign: int = 1) -> None:
        """Let these rows request `amounts` more, or less with the sign -1: column -> int64[n]; in a statement only.

        No row may come twice. No log notes it: until it is undone, only plugins that read amounts may be asked, and
        nothing that keeps answers.
        """
        self._shift(rows, amounts, sign)
        self.undo.note(lambda: self._shift(rows, amounts, -sign))

    def _shift(self, rows: Rows, amounts: Mapping[int, Ints], sign: int) -> None:
        everywhere = len(rows) == self.height
        for column, more in amounts.items():
            requested = self.resources.requested[column]
            if everywhere:
                requested[: len(rows)] += sign * more
            else:
                requested[rows] += sign * more

    def statement(self) -> Statement:
        """Begin a what-if: `with state.statement() as what_if:`; what changes inside is undone unless committed."""
        return Statement(self.undo)
