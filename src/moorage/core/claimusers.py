"""Which pod a claim counts for, of all that the ledger of queues knows: the first that has it.

Those that hold what they count for come before those that ask for it, then those that the claim is reserved for, in
that order, then the older. So who is first follows from what is known now, not from how it came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from moorage.core.amounts import claim_keys
from moorage.core.claims import ResourceClaim
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.pods import Pod

_UNRESERVED = 1 << 30
Place = tuple[int, float, str]
"""The place of a pod among those that hold a claim: the smallest counts for it."""


class ClaimUser(Protocol):
    """A pod that the ledger knows."""

    pod: Pod
    counted: int

    @property
    def holds(self) -> bool:
        """Whether it holds what it counts for."""


U = TypeVar("U", bound=ClaimUser)


class ClaimUsers(Generic[U]):
    """The users of every claim, and the first of each."""

    def __init__(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        self._objects = objects
        self._users: dict[str, dict[str, U]] = {}
        self._first: dict[str, U] = {}

    def __bool__(self) -> bool:
        return bool(self._users)

    @property
    def keys(self) -> list[str]:
        """The claims that have users."""
        return [*self._users]

    def add(self, user: U) -> None:
        """A pod is known from now on."""
        for key in claim_keys(user.pod.template):
            self._users.setdefault(key, {})[user.pod.uid] = user

    def remove(self, user: U) -> None:
        """A pod is not known any more, or names other claims from now on."""
        for key in claim_keys(user.pod.template):
            users = self._users.get(key, {})
            users.pop(user.pod.uid, None)
            if not users:
                self._users.pop(key, None)

    def settle(self, key: str) -> list[U]:
        """Find out who is the first; those whose part of the claim may be another now: who was, and who is."""
        before = self._first.pop(key, None)
        users = [each for each in self._users.get(key, {}).values() if each.counted]
        places = self._reserved(key) if len(users) > 1 else {}
        after = min(users, key=lambda each: (not each.holds, *_place(each.pod, places)), default=None)
        if after is not None:
            self._first[key] = after
        return [each for each in dict.fromkeys((before, after)) if each is not None]

    def has(self, key: str, pod: Pod) -> bool:
        """Whether a claim counts for a pod."""
        first = self._first.get(key)
        return first is not None and first.pod.uid == pod.uid

    def before(self, key: str, pod: Pod) -> U | None:
        """Another pod that holds a claim, and for which it counts until this one holds it."""
        first = self._first.get(key)
        return None if first is None or not first.holds or first.pod.uid == pod.uid else first

    def would_have(self, key: str, pod: Pod) -> bool:
        """Whether a claim would count for a pod if it held it."""
        before = self.before(key, pod)
        if before is None:
            return True
        places = self._reserved(key)
        return _place(pod, places) < _place(before.pod, places)

    def _reserved(self, key: str) -> dict[str, int]:
        claim: ResourceClaim | None = self._objects.get(RESOURCE_CLAIM, {}).get(key)
        return {} if claim is None else {each.uid: number for number, each in enumerate(claim.reserved_for)}


def _place(pod: Pod, reserved: Mapping[str, int]) -> Place:
    return reserved.get(pod.uid, _UNRESERVED), pod.created_s, pod.uid
