"""Who has which device: what drivers publish, with the claims and pods that have it, as plain values.

A device is listed once, wherever it can be used; of one node, those that it can use. A device that a claim holds and no
driver offers any more is listed too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from moorage.core.affinity import NodeTerm
from moorage.core.claims import AllocatedDevice, Allocation, ResourceClaim
from moorage.core.devicecapacity import written_like
from moorage.core.deviceindex import RESOURCE_CLAIM, DeviceIndex
from moorage.core.devicepools import Counter as PoolCounter
from moorage.core.devicepools import DeviceCandidate, Pool
from moorage.core.devices import Attribute, DeviceId, PoolId, Reach, Version
from moorage.core.nodes import Node
from moorage.core.nodeterms import NAME_FIELD
from moorage.core.quantity import parse_quantity
from moorage.core.selectors import Operator, Requirement
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.core.values import dataclass


class DeviceState(StrEnum):
    """Whether a claim could get a device, as far as others leave it."""

    FREE = "free"
    SHARED = "shared"
    """Claims have shares of it, and more can."""
    IN_USE = "in use"
    BLOCKED = "blocked"
    """No claim has it, but devices in use leave too little of a counter that it needs."""
    MISSING = "missing"
    """A claim has it, but its driver does not offer it."""


AVAILABLE = (DeviceState.FREE, DeviceState.SHARED)


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """What a claim has of a device."""

    claim: str
    """`namespace/name`."""
    request: str
    pods: tuple[str, ...]
    """The pods that the claim is reserved for, `namespace/name`."""
    consumed: Mapping[str, str]
    """Of a shared device: how much of which capacity."""
    admin: bool
    """Access for administration, which takes nothing from others."""


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device."""

    id: DeviceId
    node: str | None
    """The one node that can use it; None if there may be several."""
    everywhere: bool
    """Whether all nodes can use it."""
    state: DeviceState
    holdings: tuple[DeviceHolding, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    consumed: Mapping[str, str] = field(default_factory=dict)
    """Of a shared device: what all claims together take of its capacity."""
    counters: Mapping[str, str] = field(default_factory=dict)
    """`set/counter` -> what it takes of the counters of its pool."""
    taints: tuple[Taint, ...] = ()
    problem: str = ""
    """Why it is missing."""


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A pool that something has to be said of: its shared counters, or why nothing can be allocated from it."""

    id: PoolId
    problem: str
    counters: Mapping[str, tuple[str, str]]
    """`set/counter` -> what is left, and of how much."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Devices, by node, driver and pool; those of a pool in the order in which they are tried."""

    devices: tuple[DeviceEntry, ...]
    pools: tuple[PoolEntry, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many devices are in which state; those that there are."""
        found = Counter(entry.state for entry in self.devices)
        return {state.value: found[state] for state in DeviceState if found[state]}


def inventory(state: ClusterState, node: Node | None = None, driver: str | None = None) -> Inventory:
    """All devices, or those that a node can use; of one driver if it is named."""
    index = state.devices
    held = _holdings(state, driver)
    pools = index.pools(node) if node is not None else _pools(index, index.views.pool_ids)
    entries: list[DeviceEntry] = []
    told: list[PoolEntry] = []
    for pool in pools:
        if driver in (None, pool.id.driver):
            left = index.available(pool)
            near = [each for each in pool.candidates if node is None or each.is_near(node)]
            entries += [_entry(index, each, left, held.pop(each.id, ())) for each in near]
            if pool.counters or not pool.usable:
                told.append(_pool_entry(index, pool, left))
    entries += _missing(index, held, node)
    entries.sort(key=lambda entry: (entry.node is None, entry.node or "", entry.id.driver, entry.id.pool))
    return Inventory(tuple(entries), tuple(sorted(told, key=lambda entry: entry.id)))


def drivers(state: ClusterState) -> list[str]:
    """The drivers that publish devices."""
    return sorted({pool.driver for pool in state.devices.views.pool_ids})


def _pools(index: DeviceIndex, ids: Iterable[PoolId]) -> list[Pool]:
    return [pool for each in ids if (pool := index.views.whole(each)) is not None]


def _holdings(state: ClusterState, driver: str | None) -> dict[DeviceId, list[tuple[DeviceHolding, Allocation]]]:
    """Device -> what claims have of it; of a driver."""
    found: dict[DeviceId, list[tuple[DeviceHolding, Allocation]]] = {}
    claims: Mapping[str, ResourceClaim] = state.objects.get(RESOURCE_CLAIM, {})
    for key, claim in claims.items():
        allocation = state.devices.allocation(key) or Allocation()
        for each in allocation.devices:
            if driver in (None, each.driver):
                found.setdefault(each.id, []).append((_holding(claim, each), allocation))
    return found


def _reach(allocation: Allocation) -> Reach:
    return Reach(terms=allocation.node_terms, everywhere=allocation.node_terms is None)


def _holding(claim: ResourceClaim, each: AllocatedDevice) -> DeviceHolding:
    pods = tuple(f"{claim.namespace}/{consumer.name}" for consumer in claim.reserved_for if consumer.resource == "pods")
    return DeviceHolding(claim.key, each.request, pods, each.consumed, each.admin_access)


def _entry(
    index: DeviceIndex,
    candidate: DeviceCandidate,
    left: Mapping[PoolCounter, int],
    held: Iterable[tuple[DeviceHolding, Allocation]],
) -> DeviceEntry:
    device, reach = candidate.device, candidate.reach or Reach()
    capacity = {name: each.value for name, each in sorted(device.capacity.items())}
    consumed = index.consumed(candidate.id) or {}
    return DeviceEntry(
        candidate.id,
        reach.node or None,
        reach.everywhere,
        _state(index, candidate, left, consumed),
        tuple(holding for holding, _ in held),
        dict(sorted(device.attributes.items())),
        capacity,
        {name: written_like(amount, capacity.get(name, "")) for name, amount in sorted(consumed.items())},
        {f"{use.name}/{name}": text for use in device.counters for name, text in sorted(use.counters.items())},
        candidate.taints,
    )


def _state(
    index: DeviceIndex, candidate: DeviceCandidate, left: Mapping[PoolCounter, int], consumed: Mapping[str, int]
) -> DeviceState:
    capacity = candidate.device.capacity
    if index.held(candidate.id):
        return DeviceState.IN_USE
    if index.in_use(candidate.id):
        used_up = any(name in capacity and consumed[name] >= parse_quantity(capacity[name].value) for name in consumed)
        return DeviceState.IN_USE if used_up else DeviceState.SHARED
    if any(left[counter] < taken for counter, taken in candidate.counters):
        return DeviceState.BLOCKED
    return DeviceState.FREE


def _missing(
    index: DeviceIndex, held: Mapping[DeviceId, list[tuple[DeviceHolding, Allocation]]], node: Node | None
) -> Iterator[DeviceEntry]:
    """What claims have and was not listed, unless other nodes are offered it; of a node, what its pods may use."""
    if node is not None:
        held = {each: found for each, found in held.items() if _reach(found[0][1]).includes(node.name, node.labels)}
    pools = {pool.id: pool for pool in _pools(index, {PoolId(each.driver, each.pool) for each in held})}
    offered = {candidate.id for pool in pools.values() for candidate in pool.candidates}
    for each in sorted(held.keys() - offered):
        pool = pools.get(PoolId(each.driver, each.pool))
        problem = pool.problem if pool is not None else ""
        told = f"its pool is {problem}" if problem else "no driver offers it any more"
        holdings = tuple(holding for holding, _ in held[each])
        allocation = held[each][0][1]
        everywhere = allocation.node_terms is None
        yield DeviceEntry(each, _only_node(allocation), everywhere, DeviceState.MISSING, holdings, problem=told)


def _only_node(allocation: Allocation) -> str | None:
    match allocation.node_terms:
        case (NodeTerm(fields=(Requirement(key=key, operator=Operator.IN, values=(name,)),)),) if key == NAME_FIELD:
            return name
    return None


def _pool_entry(index: DeviceIndex, pool: Pool, left: Mapping[PoolCounter, int]) -> PoolEntry:
    sets = [each for part in index.views.slices_of(pool.id) for each in part.counter_sets]
    texts = {(each.name, name): text for each in sets for name, text in each.counters.items()}
    counters = {
        "/".join(key): (written_like(left[key], texts[key]), written_like(total, texts[key]))
        for key, total in sorted(pool.counters.items())
    }
    return PoolEntry(pool.id, pool.problem, counters)


# --- plain values ---


def document(found: Inventory) -> dict[str, Any]:
    """The inventory for JSON."""
    return {
        "devices": [device_document(entry) for entry in found.devices],
        "pools": [pool_document(entry) for entry in found.pools],
        "summary": found.counts,
    }


def device_document(entry: DeviceEntry) -> dict[str, Any]:
    """A device for JSON."""
    return {
        "node": entry.node,
        "allNodes": entry.everywhere,
        "driver": entry.id.driver,
        "pool": entry.id.pool,
        "device": entry.id.device,
        "state": entry.state.value,
        "problem": entry.problem or None,
        "attributes": {name: _plain(value) for name, value in entry.attributes.items()},
        "capacity": dict(entry.capacity),
        "consumed": dict(entry.consumed),
        "counters": dict(entry.counters),
        "taints": [str(taint) for taint in entry.taints],
        "claims": [_holding_document(each) for each in entry.holdings],
    }


def _holding_document(each: DeviceHolding) -> dict[str, Any]:
    return {
        "claim": each.claim,
        "request": each.request,
        "pods": list(each.pods),
        "consumed": dict(each.consumed),
        "adminAccess": each.admin,
    }


def pool_document(entry: PoolEntry) -> dict[str, Any]:
    """A pool for JSON."""
    counters = {name: {"free": free, "total": total} for name, (free, total) in entry.counters.items()}
    return {
        "driver": entry.id.driver,
        "pool": entry.id.pool,
        "problem": entry.problem or None,
        "counters": counters,
    }


def _plain(value: Attribute) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.text if isinstance(value, Version) else value
