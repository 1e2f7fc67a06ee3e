"""Whether a device suits a request, apart from whether it is free: selectors, the node, capacities.

Errors here are errors of the claim, its class or its selectors: allocating it fails on every node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import partial

from moorage.core.claims import ALL, EXACT_COUNT, DeviceChoice, DeviceClass, ResourceClaim
from moorage.core.devicecapacity import CapacityError, consumption, is_enough
from moorage.core.devicepools import DeviceCandidate, DeviceCandidates, Pool
from moorage.core.devices import DeviceId
from moorage.core.deviceselectors import Looks, SelectorError, all_hold, holds, remember
from moorage.core.nodes import Node
from moorage.core.values import dataclass


class AllocationError(Exception):
    """Allocating fails for good, not only on this node; the text says why."""


class SearchTimeoutError(AllocationError):
    """A search takes too long, as it would again for claims that ask for the same, until the devices change."""


class Objection(Enum):
    """What can stand against a device for a request, in the order in which it is looked at."""

    IN_USE = "in use"
    NOT_KNOWN = "not known"
    """Its selectors take longer than may be looked now."""
    NOT_SELECTED = "not selected"
    CAPACITY = "capacity"
    COUNTERS = "counters"
    TAINT = "taint"


@dataclass(slots=True, eq=False)
class Wanted:
    """A request of a claim, or one of its alternatives, made ready for a search."""

    claim: ResourceClaim
    request: str
    choice: DeviceChoice
    device_class: DeviceClass
    everything: DeviceCandidates = ()
    """For requests of all devices: these."""
    expressions: tuple[str, ...] = ()
    """The selectors of the class, then its own."""
    selected: dict[DeviceId, bool] = field(default_factory=dict)
    """What they said, as far as they were asked."""

    @property
    def count(self) -> int:
        """How many devices it takes."""
        return len(self.everything) if self.choice.mode == ALL else self.choice.count

    @property
    def name(self) -> str:
        """As allocations name it."""
        return f"{self.request}/{self.choice.name}" if self.choice.name else self.request

    @property
    def place(self) -> str:
        """As errors name it."""
        return place_of(self.claim, self.choice.name or self.request)


def reference(claim: ResourceClaim) -> str:
    """As errors name a claim."""
    return f"{claim.namespace}/{claim.name}" if claim.namespace else claim.name


def place_of(claim: ResourceClaim, request: str) -> str:
    """As errors name a request."""
    return f"claim {reference(claim)}, request {request}"


def _selector(wanted: Wanted, number: int) -> str:
    """As errors name a selector, by its number among those of the class and then those of the request."""
    own = len(wanted.device_class.selectors)
    if number < own:
        return f"class {wanted.device_class.name}: selector #{number}"
    return f"claim {reference(wanted.claim)}: selector #{number - own}"


class DeviceFit:
    """Judges devices for one node. What selectors take is taken from `looks`."""

    def __init__(self, node: Node, classes: Mapping[str, DeviceClass], looks: Looks) -> None:
        self._node, self._classes, self._looks = node, classes, looks
        self._passed: dict[tuple[int, DeviceId], int] = {}
        """How many selectors are known to hold, where that took too long to ask about all."""

    def ready(self, claim: ResourceClaim, request: str, choice: DeviceChoice) -> Wanted:
        """A request, or one of its alternatives, with its class."""
        place = place_of(claim, choice.name or request)
        for number, expression in enumerate(choice.selectors):
            if not expression:
                raise AllocationError(f"{place}, selector #{number}: CEL expression empty (unsupported selector type?)")
        if not choice.device_class:
            raise AllocationError(f"{place}: missing device class name (unsupported request type?)")
        device_class = self._classes.get(choice.device_class)
        if device_class is None:
            raise AllocationError(
                f"{place}: could not retrieve device class {choice.device_class}: deviceclass.resource.k8s.io "
                f'"{choice.device_class}" not found'
            )
        if choice.mode not in (ALL, EXACT_COUNT):
            raise AllocationError(f"{place}: unsupported count mode {choice.mode}")
        return Wanted(claim, request, choice, device_class, expressions=device_class.selectors + choice.selectors)

    def refuse_unusable(self, wanted: Wanted, pool: Pool) -> None:
        """All devices are wanted, so each pool has to be known."""
        if not pool.usable:
            how = "being updated" if pool.incomplete else "invalid"
            raise AllocationError(
                f"{wanted.place}: asks for all devices, but resource pool {pool.id} is currently {how}"
            )

    def is_selected(self, wanted: Wanted, candidate: DeviceCandidate) -> bool | None:
        """Whether the selectors of class and request hold, and the node can use it. None: ask again."""
        known = candidate.answers.get(wanted.expressions)
        found = known is True if known is not None else wanted.selected.get(candidate.id)
        if found is None:
            found = all_hold(wanted.expressions, candidate, partial(self._match, wanted, candidate))
            if found is None:
                return None
            remember(candidate, wanted.expressions, found)
            wanted.selected[candidate.id] = found
        return found and candidate.is_near(self._node)

    def _match(self, wanted: Wanted, candidate: DeviceCandidate) -> bool | None:
        """Whether all selectors hold. Each time it is asked it gets further."""
        expressions, looks = wanted.expressions, self._looks
        key = (id(wanted), candidate.id) if self._passed else None
        for number in range(0 if key is None else self._passed.get(key, 0), len(expressions)):
            before = looks.at_selectors
            try:
                held = holds(expressions[number], candidate, looks)
            except SelectorError as error:
                raise AllocationError(f"{_selector(wanted, number)}{error}") from None
            if not held:
                return held
            if looks.left <= 0 and looks.at_selectors > before:
                self._passed[id(wanted), candidate.id] = number + 1
                return None
        return True

    def has_capacity(
        self, wanted: Wanted, candidate: DeviceCandidate, used: Sequence[Mapping[str, int]], told: object = None
    ) -> bool:
        """Whether its capacities suffice beside what is used of them, in nanos; `told` is its name in errors."""
        taken = self.consumption(wanted, candidate, told)
        return taken is not None and is_enough(candidate.device, taken, *used)

    def consumption(self, wanted: Wanted, candidate: DeviceCandidate, told: object = None) -> Mapping[str, str] | None:
        """What the request takes of each capacity; None if the device cannot serve it at all."""
        if not candidate.device.capacity and not wanted.choice.capacity:
            return {}
        try:
            return consumption(candidate.device, wanted.choice.capacity)
        except CapacityError as error:
            raise AllocationError(
                f"{wanted.place}: checking capacity for device {told or candidate.id}: {error}"
            ) from None
