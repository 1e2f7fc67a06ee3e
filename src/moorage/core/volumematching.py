"""Which volumes the claims of a pod would get on each node, as the volume binder of Kubernetes chooses them.

- A bound claim needs its volume, and the node must reach it.
- A claim that waits for its first consumer gets the smallest free volume of its class that the node reaches; claims
  choose in order of size, and no two get the same volume.
- What finds none is provisioned, where the class can do that for the node and enough capacity is left.
Everything is computed for all given rows at once; arrays are aligned with `rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np

from moorage.core.affinity import NodeTerm
from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.csimigration import BY_KIND, migrated_terms
from moorage.core.nodelabels import LabelColumns
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.core.volumes import NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim, StorageClass

NODE_CONFLICT, BIND_CONFLICT, NO_SPACE, NO_VOLUME = 1, 2, 4, 8
"""Bits of `Match.bits`: the node does not reach a bound volume; no volume for a claim; not enough capacity; a bound
volume does not exist."""
AVAILABLE = "Available"
NONE = -1
_NOWHERE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod by what has to be done for them, each in the order of the pod's volumes."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()
    """Without volume, of a class that waits for the first consumer."""
    immediate: tuple[PersistentVolumeClaim, ...] = ()
    """Without volume, though the controllers should have seen to it."""


@dataclass(frozen=True, slots=True)
class StaticChoice:
    """For one claim: which of `volumes` each row would take, NONE where none fits; int64[len(rows)]."""

    claim: PersistentVolumeClaim
    volumes: tuple[PersistentVolume, ...]
    choice: Ints


@dataclass(frozen=True, slots=True)
class Provision:
    """For one claim: on which rows it would be provisioned, and the capacity found there, NONE where the capacity is
    not checked.
    """

    claim: PersistentVolumeClaim
    storage_class: StorageClass
    needed: Mask
    capacity_bytes: Ints


@dataclass(slots=True)
class Match:
    """The outcome for all rows; `bits` is 0 where the node will do."""

    rows: Rows
    bits: Ints
    statics: list[StaticChoice] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)

    def of_position(
        self, position: int
    ) -> tuple[list[tuple[PersistentVolume, PersistentVolumeClaim]], list[PersistentVolumeClaim]]:
        """Volumes with their claims, and claims to provision, for one of the rows."""
        chosen = ((static, int(static.choice[position])) for static in self.statics)
        bindings = [(static.volumes[index], static.claim) for static, index in chosen if index != NONE]
        return bindings, [provision.claim for provision in self.provisions if provision.needed[position]]


def classify(state: ClusterState, claims: Iterable[PersistentVolumeClaim]) -> PodClaims:
    """Sort claims by what has to be done for them."""
    bound, waiting, immediate = [], [], []
    for claim in claims:
        found = state.volumes.storage_class(claim.storage_class) if claim.storage_class else None
        if claim.bound:
            bound.append(claim)
        elif found is not None and found.wait_for_consumer and claim.volume is None:
            waiting.append(claim)
        else:
            immediate.append(claim)
    return PodClaims(tuple(bound), tuple(waiting), tuple(immediate))


def match(state: ClusterState, claims: PodClaims, rows: Rows) -> Match:
    """What the claims would get on these rows."""
    found = Match(rows, np.zeros(len(rows), dtype=np.int64))
    _check_bound(state, claims.bound, found)
    if claims.waiting:
        _Waiting(state, claims.waiting, found).run()
    return found


def reaches(state: ClusterState, volume: PersistentVolume, rows: Rows) -> Mask:
    """Which rows reach a bound volume; nodes that migrated its plugin to CSI look for the driver's label."""
    terms = volume.node_terms
    mask = np.ones(len(rows), dtype=np.bool_) if terms is None else _terms_mask(state.labels, terms, rows)
    migration = BY_KIND.get(volume.source.kind) if volume.source is not None else None
    if migration is None or migration.topology_key is None:
        return mask
    named = (state.row_of(name) for name in state.volumes.migrated_nodes(migration.plugin))
    migrated = np.isin(rows, np.array([row for row in named if row is not None], dtype=np.intp))
    if migrated.any():
        terms = migrated_terms(volume, migration.topology_key)
        translated = np.ones(len(rows), dtype=np.bool_) if terms is None else _terms_mask(state.labels, terms, rows)
        mask = np.where(migrated, translated, mask)
    return mask


def _terms_mask(labels: LabelColumns, terms: Iterable[NodeTerm], rows: Rows) -> Mask:
    """Which rows match a term by their labels; to volumes, nodes have no fields."""
    found: Mask = np.zeros(len(rows), dtype=np.bool_)
    for term in terms:
        if (term.expressions or term.fields) and all(field.matches_value(None) for field in term.fields):
            found |= _all_hold(labels, term.expressions, rows)
    return found


def _all_hold(labels: LabelColumns, requirements: Iterable[Requirement], rows: Rows) -> Mask:
    found: Mask = np.ones(len(rows), dtype=np.bool_)
    for requirement in requirements:
        found &= labels.matching(requirement, rows)
    return found


def _check_bound(state: ClusterState, claims: Iterable[PersistentVolumeClaim], found: Match) -> None:
    """The first claim that fails decides for a row."""
    undecided = np.ones(len(found.rows), dtype=np.bool_)
    for claim in claims:
        volume = state.volumes.volume(claim.volume or "")
        if volume is None:
            found.bits[undecided] |= NO_VOLUME
            return
        lost = undecided & ~reaches(state, volume, found.rows)
        found.bits[lost] |= NODE_CONFLICT
        undecided &= ~lost


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether nothing but place, phase and class could keep the claim from using the volume."""
    return (
        (volume.claim is None or refers_to(volume, claim))
        and volume.capacity_bytes >= claim.request_bytes
        and volume.volume_mode == claim.volume_mode
        and (volume.attributes_class or "") == (claim.attributes_class or "")
        and not volume.deleting
    )


def refers_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to the claim or reserved for it."""
    ref = volume.claim
    return ref is not None and (ref.namespace, ref.name) == (claim.namespace, claim.name) and ref.uid in ("", claim.uid)


def _candidates(state: ClusterState, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, ...]:
    """The volume that is reserved for the claim, or all free ones that fit, smallest first."""
    usable = [volume for volume in state.volumes.volumes_of_class(claim.storage_class or "") if fits(volume, claim)]
    reserved = [volume for volume in usable if refers_to(volume, claim)]
    if reserved:
        return (reserved[0],)
    modes = set(claim.access_modes)
    return tuple(
        volume
        for volume in usable
        if volume.phase == AVAILABLE
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and modes <= set(volume.access_modes)
    )


class _Waiting:
    """The claims of one pod that wait for their first consumer."""

    def __init__(self, state: ClusterState, claims: tuple[PersistentVolumeClaim, ...], found: Match) -> None:
        self._state = state
        self._claims = claims
        self._found = found
        self._size = len(found.rows)
        self._positions = _Positions(state.labels, found.rows)
        self._taken: dict[str, set[int]] = {}
        """Volume -> positions at which one of the claims has it."""

    def run(self) -> None:
        """Fill in the match."""
        open_rows = np.ones(self._size, dtype=np.bool_)
        selected = [claim for claim in self._claims if claim.selected_node is not None]
        for claim in selected:
            open_rows &= self._found.rows == self._state.row_of(claim.selected_node or "")
        self._found.bits[~open_rows] |= BIND_CONFLICT
        needs = [(claim, open_rows) for claim in selected]
        others = [claim for claim in self._claims if claim.selected_node is None]
        for claim in sorted(others, key=lambda claim: claim.request_bytes):
            static = self._choose(claim)
            self._found.statics.append(static)
            needs.append((claim, open_rows & (static.choice == NONE)))
        failed = ~open_rows
        for claim, needed in needs:
            self._provision(claim, needed, failed)

    def _choose(self, claim: PersistentVolumeClaim) -> StaticChoice:
        volumes = _candidates(self._state, claim)
        choice = np.full(self._size, NONE, dtype=np.int64)
        left = self._size
        for index, volume in enumerate(volumes):
            taken = self._taken.get(volume.name, _NOWHERE)
            at = [p for p in self._positions.of_terms(volume.node_terms, choice) if p not in taken]
            if not at:
                continue
            choice[at] = index
            if len(self._claims) > 1:
                self._taken.setdefault(volume.name, set()).update(at)
            left -= len(at)
            if not left:
                break
        return StaticChoice(claim, volumes, choice)

    def _provision(self, claim: PersistentVolumeClaim, needed: Mask, failed: Mask) -> None:
        """Rows that need the claim provisioned and cannot have that are added to `failed`, with the reason's bit."""
        storage_class = self._state.volumes.storage_class(claim.storage_class or "")
        if storage_class is None or not needed.any():
            return
        bits = self._found.bits
        if storage_class.provisioner in ("", NO_PROVISIONER):
            elsewhere = needed & ~failed
        else:
            allowed = storage_class.allowed_topologies
            elsewhere = needed & ~failed
            if allowed:
                elsewhere &= ~_terms_mask(self._state.labels, allowed, self._found.rows)
            else:
                elsewhere[:] = False
        bits[elsewhere] |= BIND_CONFLICT
        failed |= elsewhere
        capacity_bytes = self._capacity(claim, storage_class)
        if capacity_bytes is None:
            capacity_bytes = np.full(self._size, NONE, dtype=np.int64)
        else:
            short = needed & ~failed & (capacity_bytes == NONE)
            bits[short] |= NO_SPACE
            failed |= short
        self._found.provisions.append(Provision(claim, storage_class, needed, capacity_bytes))

    def _capacity(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Ints | None:
        """The capacity that suffices for the claim on each row, NONE where there is none; None if the capacity is not
        checked.
        """
        driver = self._state.volumes.csi_driver(storage_class.provisioner)
        if not claim.request_bytes or driver is None or not driver.storage_capacity:
            return None
        found = np.full(self._size, NONE, dtype=np.int64)
        for capacity in self._state.volumes.capacities_of_class(storage_class.name):
            largest = capacity.largest_volume_bytes
            if largest is None or largest < claim.request_bytes or capacity.node_topology is None:
                continue
            at = self._positions.of_selector(capacity.node_topology, found)
            if at:
                found[at] = capacity.capacity_bytes or 0
        return found


class _Positions:
    """Where in `rows` the nodes are that match; most volumes and capacities name one value of one label.

    Every question comes with an array that is NONE at the positions that are still of interest.
    """

    def __init__(self, labels: LabelColumns, rows: Rows) -> None:
        self._labels = labels
        self._rows = rows
        self._by_value: dict[str, dict[str, list[int]]] = {}

    def of_terms(self, terms: tuple[NodeTerm, ...] | None, known: Ints) -> list[int]:
        """Positions that match a term; all for None."""
        if terms is None:
            return _positions(known == NONE)
        if len(terms) == 1 and len(terms[0].expressions) == 1 and not terms[0].fields:
            return self._of_requirements(terms[0].expressions, known)
        return _positions(_terms_mask(self._labels, terms, self._rows) & (known == NONE))

    def of_selector(self, selector: Selector, known: Ints) -> list[int]:
        """Positions that the selector selects."""
        return self._of_requirements(selector.requirements, known)

    def _of_requirements(self, requirements: tuple[Requirement, ...], known: Ints) -> list[int]:
        if len(requirements) != 1 or requirements[0].operator is not Operator.IN:
            return _positions(_all_hold(self._labels, requirements, self._rows) & (known == NONE))
        values = requirements[0].values
        with_value = self._with_value(requirements[0].key)
        if len(values) == 1:
            found = with_value.get(values[0], [])
        else:
            found = [position for value in set(values) for position in with_value.get(value, ())]
        return [position for position in found if known[position] == NONE]

    def _with_value(self, key: str) -> dict[str, list[int]]:
        """Value of a label -> positions of the nodes that have it."""
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = {}
            column = self._labels.known(key)
            ids = [] if column is None else column.ids[self._rows].tolist()
            for position, number in enumerate(ids):
                if column is not None and number >= 0:
                    found.setdefault(column.values[number], []).append(position)
        return found


def _positions(mask: Mask) -> list[int]:
    found: list[int] = np.flatnonzero(mask).tolist()
    return found


def class_uses(found: Match) -> Iterator[tuple[Mask, Ints, Ints]]:
    """Per storage class: on which rows it counts for the score, and there the bytes requested and the bytes there are.

    Where static volumes are taken, only they count; elsewhere what is provisioned from a known capacity.
    """
    size = len(found.rows)
    any_static = np.zeros(size, dtype=np.bool_)
    uses: dict[tuple[bool, str], tuple[Mask, Ints, Ints]] = {}

    def of_class(static: bool, name: str) -> tuple[Mask, Ints, Ints]:
        zeros = (np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))
        return uses.setdefault((static, name), zeros)

    for each in found.statics:
        taken = each.choice != NONE
        if taken.any():
            counts, requested, capacity = of_class(True, each.claim.storage_class or "")
            sizes = np.array([volume.capacity_bytes for volume in each.volumes], dtype=np.int64)
            capacity[taken] += sizes[each.choice[taken]]
            requested[taken] += each.claim.request_bytes
            counts |= taken
            any_static |= taken
    for each_new in found.provisions:
        known = each_new.needed & (each_new.capacity_bytes != NONE) & ~any_static
        if known.any():
            counts, requested, capacity = of_class(False, each_new.storage_class.name)
            capacity[known] = each_new.capacity_bytes[known]
            requested[known] += each_new.claim.request_bytes
            counts |= known
    yield from uses.values()
