"""Devices as an allocator looks them up: pools by node, what is in use, and what pods on their way have reserved.

Kept up to date by every change of a slice, a taint rule or a claim. What a claim holds is what the API server says,
else what a pod on its way has reserved for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moorage.core.claims import Allocation, DeviceClass, ResourceClaim
from moorage.core.commands import Command, PatchObject
from moorage.core.devicepools import Counter, Pool
from moorage.core.devices import DeviceId, PoolId
from moorage.core.deviceviews import DeviceViews, forget
from moorage.core.events import PatchDone
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.quantity import parse_quantity
from moorage.core.resourcenames import IMPLICIT_EXTENDED_RESOURCE
from moorage.core.unanswered import UnansweredWrites, takes_all, takes_back

RESOURCE_CLAIM, RESOURCE_SLICE, DEVICE_CLASS = "ResourceClaim", "ResourceSlice", "DeviceClass"
TAINT_RULE = "DeviceTaintRule"
DEVICE_KINDS = frozenset({RESOURCE_CLAIM, RESOURCE_SLICE, TAINT_RULE, DEVICE_CLASS})
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the special claim that a scheduler makes for the extended resources of a pod."""
_NOTHING: Mapping[str, Allocation] = {}


class DeviceIndex:
    """Finds devices by the nodes that can use them, and knows which are free."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        """`objects` is the state's table of objects, kind -> key -> value."""
        self._objects = objects
        self.views = DeviceViews(lambda: objects.get(TAINT_RULE, {}))
        """What nodes see of slices."""
        self.backing: Mapping[str, DeviceClass] = {}
        """Extended resource -> the class of devices that backs it."""
        self.backing_version = 0
        """Differs whenever `backing` does."""
        self._special: dict[tuple[str, str, str], dict[str, None]] = {}
        """Namespace, name and uid of a pod -> keys of its special claims; there are several only by mistake."""
        self._standing: dict[str, Allocation] = {}
        """Key of a claim -> what it holds."""
        self._holders: dict[DeviceId, int] = {}
        """How many claims hold a device for themselves."""
        self._shares: dict[DeviceId, int] = {}
        """How many shares of a device are in use."""
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        """What these shares consume, in nanos."""
        self.restated: Callable[[str], None] = _untold
        """Told the key of each claim that came, changed or went, or that is going to hold something else."""
        self.writes = UnansweredWrites()
        self.freed = ""
        """Key of the claim that was noted last, if that shows that writes to it have come to nothing; else empty."""
        self._reservations: dict[str, dict[str, Allocation]] = {}
        """Uid of a pod on its way -> key of a claim -> what it is going to hold."""
        self._reserved: dict[str, dict[str, Allocation]] = {}
        """The same by claim: key -> uid -> what it is going to hold."""

    # --- objects ---

    def note(self, kind: str, before: Any, after: Any) -> None:
        """An object was added (`before` None), changed or removed (`after` None)."""
        if kind == RESOURCE_SLICE:
            self.views.note_slice(before, after)
        elif kind == RESOURCE_CLAIM and (before or after) is not None:
            self._note_special(before, after)
            key = (after or before).key
            self._restate(key)
            self.freed = ""
            for uid in self.writes.resolved(key, self._version(key)):
                if self._known(key, uid, seen=True):
                    self.freed = key
        elif kind == DEVICE_CLASS and before != after:
            self.backing = _backing(self._objects[DEVICE_CLASS].values())
            self.backing_version += 1
        elif kind == TAINT_RULE and before != after:
            self.views.note_rule(before, after)

    def _note_special(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        was, now = _pod_of_special(before), _pod_of_special(after)
        if was == now:
            return
        if before is not None and was is not None:
            forget(self._special, was, before.key)
        if after is not None and now is not None:
            self._special.setdefault(now, {})[after.key] = None

    def special_of(self, pod: Pod) -> ResourceClaim | None:
        """The special claim for the extended resources of a pod; rather one that stays than one that is deleted."""
        keys = self._special.get((pod.namespace, pod.name, pod.uid))
        if keys is None:
            return None
        claims: Mapping[str, ResourceClaim] = self._objects.get(RESOURCE_CLAIM, {})
        found = [claims[key] for key in keys if key in claims]
        return min(found, key=lambda claim: (claim.deleting, claim.key), default=None)

    def pools(self, node: Node) -> tuple[Pool, ...]:
        """The pools that have something for a node, in the order in which they are tried."""
        return self.views.pools(self.views.view(node))

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
        if (before and before.devices) != (after and after.devices):
            self._count(before, -1)
            self._count(after, 1)
        self.restated(key)

    def _count(self, allocation: Allocation | None, by: int) -> None:
        for each in allocation.devices if allocation is not None else ():
            if each.admin_access:
                continue
            name = each.id
            self.views.note_use(PoolId(each.driver, each.pool))
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

    def join(self, uid: str, key: str) -> Allocation | None:
        """A pod writes what another pod has taken for a claim, so it stays taken whatever becomes of the other."""
        found = self.pending(key)
        if found is not None:
            self._reservations.setdefault(uid, {})[key] = found
            self._reserved.setdefault(key, {})[uid] = found
        return found

    def release(self, uid: str) -> Mapping[str, Allocation]:
        """A pod needs its reservation no more: its claims hold the devices, or it is not bound; returns what it had.

        What a write may still give to a claim stays taken until all is known about that write.
        """
        reserved = dict(self._reservations.get(uid, {}))
        for key in reserved:
            if not self.writes.give_up(key, uid):
                self._give_back(uid, key)
        return reserved

    def set_aside(self, uid: str) -> Mapping[str, Allocation]:
        """In a what-if a pod gives up what it has reserved, whatever its writes may still do; returns that.

        `reserve` takes it back.
        """
        reserved = self._reservations.get(uid)
        if not reserved:
            return _NOTHING
        taken = dict(reserved)
        for key in taken:
            self._give_back(uid, key)
        return taken

    def _give_back(self, uid: str, key: str) -> None:
        if key in self._reservations.get(uid, {}):
            forget(self._reservations, uid, key)
            forget(self._reserved, key, uid)
            self._restate(key)

    # --- writes on their way ---

    def ordered(self, commands: Iterable[Command]) -> None:
        """These commands go out."""
        for command in commands:
            if isinstance(command, PatchObject) and command.kind == RESOURCE_CLAIM:
                self.writes.ordered(command, self._version(f"{command.namespace}/{command.name}") or "")

    def answered(self, answer: PatchDone) -> bool:
        """A write to a claim was answered; whether pods may go on: devices are free again, or the claim is known."""
        command = answer.command
        key, uid = f"{command.namespace}/{command.name}", command.pod.uid
        known = self.writes.answered(answer, self._version(key))
        return known and (takes_back(command) or takes_all(command) or self._known(key, uid, seen=bool(answer.version)))

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


def _pod_of_special(claim: ResourceClaim | None) -> tuple[str, str, str] | None:
    """Namespace, name and uid of the pod that a special claim is for; None if the claim is none.

    The uid alone would let a claim of any namespace stand in for it.
    """
    owner = None if claim is None else claim.owner
    if claim is None or owner is None or EXTENDED_RESOURCE_CLAIM not in claim.annotations:
        return None
    is_pod = owner.kind == "Pod" and owner.api_version == "v1"
    return (claim.namespace, owner.name, owner.uid) if is_pod else None


def _backing(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Of several classes for one resource the newest counts, then the first by name; the others back nothing."""
    found: dict[str, DeviceClass] = {}
    for each in sorted(classes, key=lambda each: (-each.created_s, each.name)):
        explicit, implicit = each.extended_resource, IMPLICIT_EXTENDED_RESOURCE + each.name
        if explicit is None or found.setdefault(explicit, each) is each:
            found[implicit] = each
    return found


def _untold(_: str) -> None:
    """Nobody wants to know."""


def _add(counts: dict[Any, int], key: Any, by: int) -> None:
    """Add to a count; what is 0 is left out."""
    total = counts.get(key, 0) + by
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)
