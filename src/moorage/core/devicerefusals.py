"""What stands against a device for a request: everything, not only the first thing, with what would end it.

For explanations. The rules are those of the search (`core.allocating`, `core.devicefit`), which is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from moorage.core.allocating import Search
from moorage.core.claims import DeviceConstraint, ResourceClaim
from moorage.core.devicecapacity import written_like
from moorage.core.devicefit import Objection, Wanted
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.devicepools import DeviceCandidate, Pool
from moorage.core.devices import DeviceId, PoolId
from moorage.core.deviceselectors import Looks, SelectorError, condition_holds, holds
from moorage.core.phrases import listed
from moorage.core.quantity import parse_quantity
from moorage.core.selectorparts import comparison, conditions
from moorage.core.state import ClusterState
from moorage.core.taints import Taint, barring
from moorage.core.values import dataclass

LONGEST_CONDITION = 120
"""Characters of a selector that are shown."""


@dataclass(frozen=True, slots=True)
class UnmetCondition:
    """A condition of a selector of the request; `value` is what the device has, if a weaker one can name it."""

    selector: int
    condition: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Claims that hold the device, or what it needs."""

    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TooMuch:
    """A capacity of which the request may have only this much."""

    name: str
    left: str


Fix: TypeAlias = UnmetCondition | HeldBy | TooMuch | Taint


@dataclass(frozen=True, slots=True)
class DeviceRefusal:
    """One thing that stands against a device."""

    rule: str
    """What refuses, for counting."""
    text: str
    """The same for this device."""
    fix: Fix | None = None
    """What would end it; None for rules that are not the claim's."""
    unsuitable: bool = False
    """Whether the device is not of the sort that is asked for."""


class Holders:
    """Which claims hold a device, or a share of it; looked up once."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._found: dict[DeviceId, dict[str, None]] | None = None

    def of(self, device: DeviceId) -> tuple[str, ...]:
        """Their keys."""
        if self._found is None:
            self._found = {}
            for key in self._state.objects.get(RESOURCE_CLAIM, {}):
                allocation = self._state.devices.allocation(key)
                for each in allocation.devices if allocation is not None else ():
                    if not each.admin_access:
                        self._found.setdefault(each.id, {})[key] = None
        return tuple(self._found.get(device, ()))


@dataclass(slots=True)
class Refusing:
    """Judges the devices of one node for the requests of one claim."""

    state: ClusterState
    search: Search
    number: int
    """The claim's place in the search."""
    claim: ResourceClaim
    pools: Mapping[PoolId, Pool]
    looks: Looks
    held: Holders

    def refusals(self, wanted: Wanted, candidate: DeviceCandidate) -> list[DeviceRefusal]:
        """All that stands against a device, what it is first: its selectors, then whether it is free."""
        self.looks.left -= 1
        found = [*self._selectors(wanted, candidate)]
        if not candidate.is_near(self.search.node):
            found.append(DeviceRefusal("another node", "it is for other nodes", unsuitable=True))
        objection = self.search.objection(self.number, wanted, candidate)
        if objection is Objection.IN_USE:
            held = self.held.of(candidate.id)
            found.append(DeviceRefusal("in use", f"in use by {listed(held)}" if held else "in use", HeldBy(held)))
        found += self._capacities(wanted, candidate)
        found += self._counters(candidate)
        for taint in barring(candidate.taints, wanted.choice.tolerations):
            found.append(DeviceRefusal(f"taint {taint}", f"tainted {taint}", taint))
        found += self._constraints(wanted, candidate)
        if objection is not None and not found:
            found.append(DeviceRefusal(objection.value, objection.value))
        return found

    # --- selectors ---

    def _selectors(self, wanted: Wanted, candidate: DeviceCandidate) -> Iterator[DeviceRefusal]:
        name = wanted.device_class.name
        for number, expression in enumerate(wanted.device_class.selectors):
            try:
                if _holds(expression, candidate, self.looks):
                    continue
                told = f"not of class {name}: {_shown(expression)}"
            except SelectorError as error:
                told = f"class {name}, selector #{number}{_shown(str(error))}"
            yield DeviceRefusal(f"class {name}, selector #{number}", told, unsuitable=True)
            return
        for number, expression in enumerate(wanted.choice.selectors):
            try:
                if not _holds(expression, candidate, self.looks):
                    yield from self._unmet(number, expression, candidate)
            except SelectorError as error:
                told = f"selector #{number}{_shown(str(error))}"
                yield DeviceRefusal(f"selector #{number}", told, unsuitable=True)

    def _unmet(self, number: int, expression: str, candidate: DeviceCandidate) -> Iterator[DeviceRefusal]:
        """The conditions of a selector that a device does not meet."""
        parts = conditions(expression)
        found = 0
        for place, condition in enumerate(parts):
            if len(parts) == 1 or not condition_holds(condition, candidate, self.looks):
                found += 1
                yield _unmet(number, place, condition, candidate)
        if not found:
            told = f"selector #{number} does not hold: {_shown(expression)}"
            yield DeviceRefusal(f"selector #{number}", told, unsuitable=True)

    # --- amounts ---

    def _capacities(self, wanted: Wanted, candidate: DeviceCandidate) -> Iterator[DeviceRefusal]:
        device, asked = candidate.device, wanted.choice.capacity
        for name in asked:
            if name not in device.capacity:
                yield DeviceRefusal(f"capacity {name}", f"has no capacity {name}")
        taken = self.search.fit.consumption(wanted, candidate)
        if taken is None:
            if all(name in device.capacity for name in asked):
                yield DeviceRefusal("capacity", "its request policy does not allow the amount")
            return
        used = self.state.devices.consumed(candidate.id) or {}
        for name, text in taken.items():
            value = device.capacity[name].value
            left = parse_quantity(value) - used.get(name, 0)
            if parse_quantity(text) > left:
                told = written_like(left, value)
                fix = TooMuch(name, told) if name in asked and left > 0 else HeldBy(self.held.of(candidate.id))
                yield DeviceRefusal(f"capacity {name}", f"{name} {told} left, wanted {text}", fix)

    def _counters(self, candidate: DeviceCandidate) -> Iterator[DeviceRefusal]:
        if not candidate.counters or self.state.devices.in_use(candidate.id):
            return
        pool = self.pools[PoolId(candidate.id.driver, candidate.id.pool)]
        left = self.state.devices.available(pool)
        texts = {(use.name, name): text for use in candidate.device.counters for name, text in use.counters.items()}
        for counter, amount in candidate.counters:
            if left[counter] < amount:
                has = written_like(max(left[counter], 0), texts[counter])
                users = [
                    key
                    for each in (*pool.candidates, *pool.others)
                    if any(name == counter for name, _ in each.counters)
                    for key in self.held.of(each.id)
                ]
                told = f"counter {'/'.join(counter)} {has} left, needs {texts[counter]}"
                yield DeviceRefusal(f"counter {'/'.join(counter)}", told, HeldBy(tuple(dict.fromkeys(users))))

    # --- others ---

    def _constraints(self, wanted: Wanted, candidate: DeviceCandidate) -> Iterator[DeviceRefusal]:
        for constraint in self.claim.constraints:
            name = constraint.match or constraint.distinct
            named = {wanted.request, wanted.name}
            concerned = not constraint.requests or not named.isdisjoint(constraint.requests)
            if concerned and not candidate.device.attribute(candidate.id.driver, name)[1]:
                yield DeviceRefusal(constraint_text(constraint), f"has no attribute {name}")


def _holds(expression: str, candidate: DeviceCandidate, looks: Looks) -> bool:
    """Whether a selector holds, however long it takes."""
    while (held := holds(expression, candidate, looks)) is None:
        pass
    return held


def constraint_text(constraint: DeviceConstraint) -> str:
    """As claims write it."""
    return f"matchAttribute {constraint.match}" if constraint.match else f"distinctAttribute {constraint.distinct}"


def _unmet(number: int, place: int, condition: str, candidate: DeviceCandidate) -> DeviceRefusal:
    shown = _shown(condition)
    compared = comparison(condition)
    rule = f"selector #{number}: {shown}"
    value = None if compared is None else compared.value_of(candidate)
    if compared is None:
        told = f"{shown} does not hold"
    else:
        has = f"no {compared.name}" if value is None else f"{compared.name} {value}"
        told = f"{has}, wanted {compared.wanted}"
    return DeviceRefusal(rule, told, UnmetCondition(number, place, value), unsuitable=True)


def _shown(expression: str) -> str:
    text = " ".join(expression.split())
    return text if len(text) <= LONGEST_CONDITION else f"{text[: LONGEST_CONDITION - 3]}..."
