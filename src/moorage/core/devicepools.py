"""Pools of devices as one node sees them: which slices count, whether they are all there, and in which order to look.

Of the slices that concern a node, those of the highest generation of their pool count. A pool is complete if there are
as many of them as they say, on this node or anywhere. Nothing is allocated from a pool that is not complete, or whose
slices contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from moorage.core.devices import Device, DeviceId, PoolId, Reach, ResourceSlice
from moorage.core.nodes import Node
from moorage.core.quantity import parse_quantity
from moorage.core.taints import Taint
from moorage.core.values import dataclass

Counter: TypeAlias = tuple[str, str]
"""A counter: its set, and its name."""


@dataclass(slots=True, eq=False)
class DeviceCandidate:
    """A device that might be allocated."""

    id: DeviceId
    device: Device
    slice: ResourceSlice
    taints: tuple[Taint, ...]
    """Its own, and those of taint rules."""
    counters: tuple[tuple[Counter, int], ...]
    """What it takes of the counters of its pool, in nanos."""
    answers: dict[str | tuple[str, ...], bool | str] = field(default_factory=dict)
    """What selectors said of it, or how they failed; under a tuple, whether all of several hold."""
    readable: bool | None = None
    """Whether selectors can be asked about it; None until the first is."""
    _whole: bool | None = None

    @property
    def whole(self) -> bool:
        """Whether a request that names no amounts gets it if it is free and selected: nothing else is in the way."""
        if self._whole is None:
            device = self.device
            self._whole = not (device.shared or self.taints or self.counters) and all(
                each.policy is None and parse_quantity(each.value) >= 0 for each in device.capacity.values()
            )
        return self._whole

    @property
    def reach(self) -> Reach | None:
        """Where it can be used."""
        return self.device.reach if self.slice.per_device else self.slice.reach

    def is_near(self, node: Node) -> bool:
        """Whether a node that its slice concerns can use it."""
        if not self.slice.per_device:
            return True
        return self.device.reach is not None and self.device.reach.includes(node.name, node.labels)


DeviceCandidates: TypeAlias = tuple[DeviceCandidate, ...]


@dataclass(slots=True, eq=False)
class Pool:
    """What a node sees of a pool."""

    id: PoolId
    incomplete: bool = False
    invalid: str = ""
    """In what its slices contradict each other; empty if they do not."""
    candidates: DeviceCandidates = ()
    """The devices of slices that concern the node, in the order in which they are tried."""
    others: DeviceCandidates = ()
    """The devices of the other slices, for what they take of counters."""
    counters: Mapping[Counter, int] = field(default_factory=dict)
    """What all devices of the pool share, in nanos."""

    @property
    def usable(self) -> bool:
        """Whether devices may be allocated from it."""
        return not self.incomplete and not self.invalid

    @property
    def problem(self) -> str:
        """Why it is not usable; empty if it is."""
        return "incomplete: slices are missing" if self.incomplete else self.invalid and f"invalid: {self.invalid}"


Spread: TypeAlias = Callable[[ResourceSlice], DeviceCandidates]
"""The devices of a slice."""


def spread(part: ResourceSlice, taints: Callable[[DeviceId], tuple[Taint, ...]] | None) -> DeviceCandidates:
    """The devices of a slice, with the taints that rules add to them, if there are rules."""
    driver, pool, found = part.driver, part.pool, list[DeviceCandidate]()
    for device in part.devices:
        name = DeviceId(driver, pool, device.name)
        own = device.taints if taints is None else (*device.taints, *taints(name))
        found.append(DeviceCandidate(name, device, part, own, _taken(device) if device.counters else ()))
    return tuple(found)


def gather(
    near: Iterable[ResourceSlice], slices_of: Callable[[PoolId], Collection[ResourceSlice]], devices_of: Spread
) -> tuple[Pool, ...]:
    """The pools of a node in the order in which they are tried, given the slices that concern it.

    `slices_of` are all slices of a pool, those for other nodes included.
    """
    newest: dict[PoolId, list[ResourceSlice]] = {}
    for part in near:
        found = newest.setdefault(part.pool_id, [])
        if found and part.generation > found[0].generation:
            found.clear()
        if not found or part.generation == found[0].generation:
            found.append(part)
    pools = [pool for key, parts in newest.items() if (pool := _pool(key, parts, slices_of, devices_of)) is not None]
    if len(pools) > 1:
        pools.sort(key=lambda pool: (_awaits_drivers(pool), pool.id))
    return tuple(pools)


def _awaits_drivers(pool: Pool) -> bool:
    return any(candidate.device.binding_conditions for candidate in pool.candidates)


def _pool(
    key: PoolId,
    near: list[ResourceSlice],
    slices_of: Callable[[PoolId], Collection[ResourceSlice]],
    devices_of: Spread,
) -> Pool | None:
    """None: a newer generation, which does not concern this node, is on its way."""
    wanted, generation, far = near[0].slice_count, near[0].generation, list[ResourceSlice]()
    if len(near) != wanted:
        all_parts = slices_of(key)
        if any(part.generation > generation for part in all_parts):
            return None
        names = {part.name for part in near}
        far = [part for part in all_parts if part.generation == generation and part.name not in names]
        if len(near) + len(far) != wanted:
            return Pool(key, incomplete=True)
    near.sort(key=lambda part: part.name)
    return _checked(key, near, far, devices_of)


def _checked(key: PoolId, near: Sequence[ResourceSlice], far: Sequence[ResourceSlice], devices_of: Spread) -> Pool:
    candidates = tuple([each for part in near if not part.counter_sets for each in devices_of(part)])
    others = tuple([each for part in far if not part.counter_sets for each in devices_of(part)])
    if (twice := _repeated([each.id.device for each in candidates])) is not None:
        return Pool(key, invalid=f"duplicate device name {twice}")
    sets = [each for part in (*near, *far) for each in part.counter_sets]
    if (twice := _repeated([each.name for each in sets])) is not None:
        return Pool(key, invalid=f"duplicate counter set name {twice}")
    counters = {(each.name, name): parse_quantity(text) for each in sets for name, text in each.counters.items()}
    known = {each.name for each in sets}
    for each in (*candidates, *others):
        for use in each.device.counters:
            if use.name not in known:
                return Pool(key, invalid=f"counter set {use.name} not found")
            for name in use.counters:
                if (use.name, name) not in counters:
                    return Pool(key, invalid=f"counter {name} not found in counter set {use.name}")
    return Pool(key, candidates=candidates, others=others, counters=counters)


def _repeated(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    if len(set(names)) == len(names):
        return None
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _taken(device: Device) -> tuple[tuple[Counter, int], ...]:
    taken: dict[Counter, int] = {}
    for use in device.counters:
        for name, text in use.counters.items():
            taken[use.name, name] = taken.get((use.name, name), 0) + parse_quantity(text)
    return tuple(taken.items())
