"""What must hold for the devices of some requests of a claim together."""

from __future__ import annotations

from moorage.core.claims import DeviceConstraint
from moorage.core.devicepools import DeviceCandidate
from moorage.core.devices import Attribute


class Constraint:
    """A constraint of a claim, with the values of the devices that were chosen so far, oldest first."""

    __slots__ = ("_chosen", "_name", "_same", "_wanted")

    def __init__(self, constraint: DeviceConstraint) -> None:
        self._wanted = frozenset(constraint.requests)
        self._same = bool(constraint.match)
        self._name = constraint.match or constraint.distinct
        self._chosen: list[Attribute] = []

    def concerns(self, request: str, alternative: str) -> bool:
        """Whether devices for this request count; `alternative` is empty where it has none."""
        return (
            not self._wanted
            or request in self._wanted
            or (alternative != "" and f"{request}/{alternative}" in self._wanted)
        )

    def add(self, candidate: DeviceCandidate) -> bool:
        """Choose a device, unless that breaks the constraint; `remove` takes the latest one back."""
        value, found = candidate.device.attribute(candidate.id.driver, self._name)
        if not found or not (self._matches(value) if self._same else self._differs(value)):
            return False
        self._chosen.append(value)
        return True

    def remove(self) -> None:
        """The device that was chosen last is given back."""
        self._chosen.pop()

    def _matches(self, value: Attribute) -> bool:
        return not self._chosen or _equal(value, self._chosen[0])

    def _differs(self, value: Attribute) -> bool:
        return not self._chosen or (_is_single(value) and not any(_equal(value, each) for each in self._chosen))


def _equal(one: Attribute, other: Attribute) -> bool:
    return _is_single(one) and type(one) is type(other) and one == other


def _is_single(value: Attribute) -> bool:
    """Whether it can be equal to anything: lists, and values of types that are not known, cannot."""
    return value is not None and not isinstance(value, tuple)
