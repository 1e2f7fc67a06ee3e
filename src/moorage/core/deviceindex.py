"""Devices as an allocator looks them up: pools by node, what is in use, and what pods on their way have reserved.

Kept up to date by every change of a slice, a taint rule or a claim: no decision looks at all slices of a cluster. What
a claim holds is what the API server says, else what a pod on its way has reserved for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from moorage.core.claims import Allocation, DeviceClass, ResourceClaim
from moorage.core.commands import Command, PatchObject
from moorage.core.devicepools import Counter, DeviceCandidates, Pool, gather, spread
from moorage.core.devices import DeviceId, DeviceTaintRule, PoolId, ResourceSlice
from moorage.core.events import PatchDone
from moorage.core.nodes import Node
from moorage.core.quantity import parse_quantity
from moorage.core.resourcenames import IMPLICIT_EXTENDED_RESOURCE
from moorage.core.taints import Taint
from moorage.core.unanswered import UnansweredWrites

RESOURCE_CLAIM, RESOURCE_SLICE, DEVICE_CLASS = "ResourceClaim", "ResourceSlice", "DeviceClass"
TAINT_RULE = "DeviceTaintRule"
DEVICE_KINDS = frozenset({RESOURCE_CLAIM, RESOURCE_SLICE, TAINT_RULE, DEVICE_CLASS})
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the special claim that a scheduler makes for the extended resources of a pod."""

_NO_SLICES: Mapping[str, ResourceSlice] = {}


class _Seen(NamedTuple):
    """The pools of a node, and what they were gathered from."""

    labels: Mapping[str, str]
    versions: tuple[int, int, int]
    """Of taint rules, of slices for several nodes, and of slices for this one."""
    pool_versions: tuple[tuple[PoolId, int], ...]
    pools: tuple[Pool, ...]


class DeviceIndex:
    """Finds devices by the nodes that can use them, and knows which are free."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        """`objects` is the state's table of objects, kind -> key -> value."""
        self._objects = objects
        self._by_pool: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._by_node: dict[str, dict[str, ResourceSlice]] = {}
        """Slices for one node, by its name."""
        self._wide: dict[str, ResourceSlice] = {}
        """Slices for several nodes."""
        self._clock = self._wide_version = self._rules_version = 0
        """Versions are times of the latest change, each of which has another one."""
        self._pool_versions: dict[PoolId, int] = {}
        self._node_versions: dict[str, int] = {}
        self._candidates: dict[str, DeviceCandidates] = {}
        """Devices of slices, by name, as far as they were needed since a rule changed."""
        self._seen: dict[str, _Seen] = {}
        """Pools of nodes, as far as they were needed."""
        self.backing: Mapping[str, DeviceClass] = {}
        """Extended resource -> the class of devices that backs it."""
        self.backing_version = 0
        """Differs whenever `backing` does."""
        self._special: dict[str, str] = {}
        """Uid of a pod -> key of its special claim."""
        self._standing: dict[str, Allocation] = {}
        """Key of a claim -> what it holds."""
        self._holders: dict[DeviceId, int] = {}
        """How many claims hold a device for themselves."""
        self._shares: dict[DeviceId, int] = {}
        """How many shares of a device are in use."""
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        """What these shares consume, in nanos."""
        self._use_versions: dict[PoolId, int] = {}
        """Versions of what is in use of a pool."""
        self.writes = UnansweredWrites()
        self._reservations: dict[str, dict[str, Allocation]] = {}
        """Uid of a pod on its way -> key of a claim -> what it is going to hold."""
        self._reserved: dict[str, dict[str, Allocation]] = {}
        """The same by claim: key -> uid -> what it is going to hold."""

    # --- objects ---

    def note(self, kind: str, before: Any, after: Any) -> None:
        """An object was added (`before` None), changed or removed (`after` None)."""
        if kind == RESOURCE_SLICE:
            self._note_slice(before, after)
        elif kind == RESOURCE_CLAIM and (before or after) is not None:
            self._note_special(before, after)
            key = (after or before).key
            self._restate(key)
            for uid in self.writes.resolved(key, self._version(key)):
                self._known(key, uid, seen=True)
        elif kind == DEVICE_CLASS and before != after:
            self.backing, self.backing_version = _backing(self._objects[DEVICE_CLASS].values()), self._tick()
        elif kind == TAINT_RULE and before != after:
            self._rules_version = self._tick()
            self._candidates.clear()

    def _note_slice(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        if before is not None:
            self._drop(before)
        if after is not None:
            self._by_pool.setdefault(after.pool_id, {})[after.name] = after
            if after.only_node:
                self._by_node.setdefault(after.only_node, {})[after.name] = after
            else:
                self._wide[after.name] = after
            self._touch(after)

    def _note_special(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        for claim in (before, after):
            if claim is not None and claim.owner is not None and EXTENDED_RESOURCE_CLAIM in claim.annotations:
                self._special.pop(claim.owner.uid, None)
                if claim is after:
                    self._special[claim.owner.uid] = claim.key

    def special_of(self, uid: str) -> ResourceClaim | None:
        """The special claim for the extended resources of a pod."""
        key = self._special.get(uid)
        return None if key is None else self._objects.get(RESOURCE_CLAIM, {}).get(key)

    def _drop(self, part: ResourceSlice) -> None:
        self._candidates.pop(part.name, None)
        self._touch(part)
        if _forget(self._by_pool, part.pool_id, part.name):
            del self._pool_versions[part.pool_id]
            self._use_versions.pop(part.pool_id, None)
        if not part.only_node:
            self._wide.pop(part.name, None)
        elif _forget(self._by_node, part.only_node, part.name):
            del self._node_versions[part.only_node]

    def _touch(self, part: ResourceSlice) -> None:
        now = self._pool_versions[part.pool_id] = self._tick()
        if part.only_node:
            self._node_versions[part.only_node] = now
        else:
            self._wide_version = now

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    @property
    def empty(self) -> bool:
        """Whether no driver has published anything."""
        return not self._by_pool

    def slices_of(self, pool: PoolId) -> Collection[ResourceSlice]:
        """All slices of a pool, of whatever generation."""
        return self._by_pool.get(pool, _NO_SLICES).values()

    def slices_at(self, node: str) -> Collection[ResourceSlice]:
        """The slices that are for one node alone."""
        return self._by_node.get(node, _NO_SLICES).values()

    def pools(self, node: Node) -> tuple[Pool, ...]:
        """The pools that have something for a node, in the order in which they are tried."""
        seen = self._seen.get(node.name)
        if seen is not None and self._is_current(seen, node):
            return seen.pools
        near = [*self._by_node.get(node.name, _NO_SLICES).values()]
        near += [part for part in self._wide.values() if part.reaches(node.name, node.labels)]
        pools = gather(near, self.slices_of, self._devices_of)
        keys = {part.pool_id for part in near}
        versions = tuple((key, self._pool_versions[key]) for key in keys)
        self._seen[node.name] = _Seen(node.labels, self._versions(node.name), versions, pools)
        return pools

    @property
    def pool_ids(self) -> list[PoolId]:
        """All pools."""
        return [*self._by_pool]

    def whole(self, pool: PoolId) -> Pool | None:
        """A pool as if one node could use all of it; None if there is no such pool."""
        return next(iter(gather(self.slices_of(pool), self.slices_of, self._devices_of)), None)

    def _is_current(self, seen: _Seen, node: Node) -> bool:
        return (
            seen.versions == self._versions(node.name)
            and (seen.labels is node.labels or seen.labels == node.labels)
            and all(self._pool_versions.get(key) == version for key, version in seen.pool_versions)
        )

    def _versions(self, node: str) -> tuple[int, int, int]:
        return self._rules_version, self._wide_version, self._node_versions.get(node, 0)

    def _devices_of(self, part: ResourceSlice) -> DeviceCandidates:
        found = self._candidates.get(part.name)
        if found is None:
            found = self._candidates[part.name] = spread(part, self._rule_taints)
        return found

    def _rule_taints(self, device: DeviceId) -> tuple[Taint, ...]:
        rules: Mapping[str, DeviceTaintRule] = self._objects.get(TAINT_RULE, {})
        return tuple(
            rule.taint for _, rule in sorted(rules.items()) if rule.taint is not None and rule.applies_to(device)
        )

    def forget_node(self, node: str) -> None:
        """A node is gone: what was gathered for it is not needed any more."""
        self._seen.pop(node, None)

    # --- what is in use ---

    def held(self, device: DeviceId) -> bool:
        """Whether a claim holds the device for itself."""
        return device in self._holders

    def in_use(self, device: DeviceId) -> bool:
        """Whether a claim holds the device, or a share of it."""
        return device in self._holders or device in self._shares

    def consumed(self, device: DeviceId) -> Mapping[str, int] | None:
        """What shares of the device consume of its capacities, in nanos; None if there are none that consume."""
        return self._consumed.get(device)

    def available(self, pool: Pool) -> dict[Counter, int]:
        """What is left of the counters of a pool, in nanos; may be negative."""
        left = dict(pool.counters)
        if left:
            for candidate in (*pool.candidates, *pool.others):
                if candidate.counters and self.in_use(candidate.id):
                    for counter, taken in candidate.counters:
                        left[counter] -= taken
        return left

    def use_version(self, pool: PoolId) -> int:
        """Differs whenever something else of the pool is in use."""
        return self._use_versions.get(pool, 0)

    def allocation(self, key: str) -> Allocation | None:
        """What a claim holds, or is going to hold."""
        return self._standing.get(key)

    def pending(self, key: str) -> Allocation | None:
        """What a claim is going to hold, which the API server does not know yet."""
        claim: ResourceClaim | None = self._objects.get(RESOURCE_CLAIM, {}).get(key)
        return self._standing.get(key) if claim is None or claim.allocation is None else None

    def _restate(self, key: str) -> None:
        claim: ResourceClaim | None = self._objects.get(RESOURCE_CLAIM, {}).get(key)
        told = None if claim is None else claim.allocation
        after = told if told is not None else next(iter(self._reserved.get(key, {}).values()), None)
        before = self._standing.pop(key, None)
        if after is not None:
            self._standing[key] = after
        if before != after:
            self._count(before, -1)
            self._count(after, 1)

    def _count(self, allocation: Allocation | None, by: int) -> None:
        for each in allocation.devices if allocation is not None else ():
            if each.admin_access:
                continue
            name = each.id
            pool = PoolId(each.driver, each.pool)
            if pool in self._by_pool:
                self._use_versions[pool] = self._tick()
            if not each.share_id:
                _add(self._holders, name, by)
                continue
            _add(self._shares, name, by)
            if each.consumed:
                amounts = self._consumed.setdefault(name, {})
                for capacity, text in each.consumed.items():
                    _add(amounts, capacity, by * parse_quantity(text))
            if name not in self._shares:
                self._consumed.pop(name, None)

    # --- reservations ---

    def reserve(self, uid: str, allocations: Mapping[str, Allocation]) -> None:
        """A pod on its way takes devices for its claims, which are named by key; in place of what it had."""
        self.release(uid)
        if allocations:
            self._reservations.setdefault(uid, {}).update(allocations)
            for key, allocation in allocations.items():
                self._reserved.setdefault(key, {})[uid] = allocation
                self._restate(key)

    def release(self, uid: str) -> Mapping[str, Allocation]:
        """A pod needs its reservation no more: its claims hold the devices, or it is not bound; returns what it had.

        What a write may still give to a claim stays taken until all is known about that write.
        """
        reserved = dict(self._reservations.get(uid, {}))
        for key in reserved:
            if not self.writes.give_up(key, uid):
                self._give_back(uid, key)
        return reserved

    def _give_back(self, uid: str, key: str) -> None:
        if key in self._reservations.get(uid, {}):
            _forget(self._reservations, uid, key)
            _forget(self._reserved, key, uid)
            self._restate(key)

    # --- writes on their way ---

    def ordered(self, commands: Iterable[Command]) -> None:
        """These commands go out."""
        for command in commands:
            if isinstance(command, PatchObject) and command.kind == RESOURCE_CLAIM:
                self.writes.ordered(command, self._version(f"{command.namespace}/{command.name}") or "")

    def answered(self, answer: PatchDone) -> bool:
        """A write to a claim was answered; whether devices are free again that were kept for it."""
        command = answer.command
        key, uid = f"{command.namespace}/{command.name}", command.pod.uid
        made = answer.version if answer.ok else None
        return self.writes.answered(command, made, self._version(key)) and self._known(key, uid, seen=bool(made))

    def _version(self, key: str) -> str | None:
        claim: ResourceClaim | None = self._objects.get(RESOURCE_CLAIM, {}).get(key)
        return None if claim is None else claim.resource_version

    def _known(self, key: str, uid: str, *, seen: bool) -> bool:
        """All is known about a write, and whether its effect was seen; returns whether devices are free by that.

        A claim that holds nothing after its allocation was seen has been deallocated since.
        """
        given_up = self.writes.end(key, uid)
        if given_up or (seen and self.pending(key) is not None):
            self._give_back(uid, key)
            return self.allocation(key) is None
        return False

    @property
    def reservations(self) -> dict[str, dict[str, Allocation]]:
        """What all pods on their way have taken: uid -> key of a claim -> what it is going to hold."""
        return self._reservations

    @reservations.setter
    def reservations(self, taken: Mapping[str, Mapping[str, Allocation]]) -> None:
        for uid in [*self._reservations]:
            self.release(uid)
        for uid, allocations in taken.items():
            self.reserve(uid, allocations)

    def reservation(self, uid: str) -> Mapping[str, Allocation]:
        """What a pod has taken."""
        return self._reservations.get(uid, {})


def _backing(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Of several classes for one resource the newest counts, then the first by name; the others back nothing."""
    found: dict[str, DeviceClass] = {}
    for each in sorted(classes, key=lambda each: (-each.created_s, each.name)):
        explicit, implicit = each.extended_resource, IMPLICIT_EXTENDED_RESOURCE + each.name
        if explicit is None or found.setdefault(explicit, each) is each:
            found[implicit] = each
    return found


def _add(counts: dict[Any, int], key: Any, by: int) -> None:
    """Add to a count; what is 0 is left out."""
    total = counts.get(key, 0) + by
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)


def _forget(index: dict[Any, dict[str, Any]], group: Any, name: str) -> bool:
    """Take a member out of its group; whether that was the last one."""
    members = index[group]
    members.pop(name, None)
    if not members:
        del index[group]
    return not members
