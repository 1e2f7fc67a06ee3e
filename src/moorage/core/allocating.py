"""Looks for devices for claims on one node, in the order in which kube-scheduler looks, so that it finds the same.

The search goes through claims, their requests, the alternatives of a request and devices, depth first, and takes the
first solution. It is a machine without recursion: `Search.run` works for a while and can be called again, so that a
long search need not hold anything up.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import NamedTuple, Protocol, TypeAlias, cast

from moorage.core.allocated import Pick, ShareId, allocations_of, unnamed
from moorage.core.claims import ALL, CLAIM_DEVICES, Allocation, DeviceClass, ResourceClaim
from moorage.core.deviceconstraints import Constraint
from moorage.core.devicefit import AllocationError, DeviceFit, Objection, Wanted, place_of, reference
from moorage.core.devicepools import Counter, DeviceCandidate, DeviceCandidates, Pool
from moorage.core.devices import DeviceId, PoolId
from moorage.core.deviceselectors import Looks
from moorage.core.nodes import Node
from moorage.core.quantity import parse_quantity
from moorage.core.taints import is_barred


class DeviceUsage(Protocol):
    """What is in use already."""

    def held(self, device: DeviceId, /) -> bool:
        """Whether a claim holds the device for itself."""

    def consumed(self, device: DeviceId, /) -> Mapping[str, int] | None:
        """What shares of the device consume of its capacities, in nanos; None if there are none that consume."""

    def available(self, pool: Pool, /) -> dict[Counter, int]:
        """What is left of the counters of a pool, in nanos."""


class _Unused:
    """Nothing is in use."""

    def held(self, _: DeviceId, /) -> bool:
        return False

    def consumed(self, _: DeviceId, /) -> None:
        return None

    def available(self, pool: Pool, /) -> dict[Counter, int]:
        return dict(pool.counters)


NOTHING_IN_USE: DeviceUsage = _Unused()


class SearchOutcome(Enum):
    """How a part of the search ended."""

    FOUND = "found"
    NONE = "none"
    TOO_MANY = "too many"
    """With what was chosen before, the claim would hold more devices than it can."""


Part: TypeAlias = "Generator[Part | None, SearchOutcome, SearchOutcome]"
"""A part of the search: gives parts to be done first, is told how they ended, and ends itself; None for a pause."""


class _Chosen(NamedTuple):
    """A device that was chosen for a request of a claim."""

    request: int
    wanted: Wanted
    candidate: DeviceCandidate
    paid: bool
    """Whether the counters of its pool were charged for it."""


class Search:
    """One search for the devices of some claims on one node."""

    def __init__(
        self,
        node: Node,
        pools: Sequence[Pool],
        claims: Sequence[ResourceClaim],
        classes: Mapping[str, DeviceClass],
        usage: DeviceUsage,
    ) -> None:
        self.steps = 0
        """How many parts were begun."""
        self.node, self._pools, self._claims = node, pools, claims
        self._usage = usage
        self._looks = Looks(sys.maxsize)
        """How much may be looked at before the next pause."""
        self.fit = DeviceFit(node, classes, self._looks)
        """Judges devices apart from whether they are free."""
        self._pool_of = {pool.id: pool for pool in pools}
        self._wanted: list[list[list[Wanted]]] = []
        """Claim -> request -> its alternatives, or the one thing that it wants."""
        self._constraints = [[Constraint(each) for each in claim.constraints] for claim in claims]
        self._chosen: list[list[_Chosen]] = [[] for _ in claims]
        self._takers: dict[DeviceId, list[int]] = {}
        """Devices that were chosen, shared ones excepted, and for which claims."""
        self._shares: dict[DeviceId, list[Mapping[str, int]]] = {}
        """What the shares that were chosen consume, in nanos."""
        self._left: dict[PoolId, dict[Counter, int]] = {}
        """What is left of the counters of pools, as far as they were needed."""
        self.looks = 0
        """How much was looked at: devices, and what selectors cost for them."""
        self._stack: list[Part] = [self._everything()]
        self._outcome: SearchOutcome | None = None

    @property
    def met_invalid_pool(self) -> bool:
        """Whether slices of a pool contradict each other."""
        return any(pool.invalid for pool in self._pools)

    @property
    def at_selectors(self) -> int:
        """How much of what was looked at is the cost of selectors."""
        return self._looks.at_selectors

    def run(self, work: int) -> bool | None:
        """Look for so long, about one for each device that is looked at; whether devices were found for all claims.

        None: there is more to look at. Raises `AllocationError`.
        """
        self._looks.left = work
        try:
            return self._run()
        finally:
            self.looks += work - self._looks.left

    def _run(self) -> bool | None:
        if not self.steps and (found := self._glance()) is not None:
            self._stack.clear()
            return found
        while self._stack:
            try:
                part = self._stack[-1].send(cast("SearchOutcome", self._outcome))
            except StopIteration as end:
                self._stack.pop()
                self._outcome = end.value
                continue
            self._outcome = None
            if part is not None:
                self._begin(part)
            if self._looks.left <= 0:
                return None
        return self._outcome is SearchOutcome.FOUND

    def _glance(self) -> bool | None:
        """The whole search at once if one device is wanted, whichever; it finds, raises and counts the same.

        None: it has to be made part by part, since more than its selectors and its use tells whether a device will do,
        or because that takes longer than may be looked now.
        """
        wanted, looks, seen = self._one_wanted(), self._looks, 1
        if wanted is None:
            return None
        for each in chain.from_iterable([pool.candidates for pool in self._pools]):
            seen += 1
            if self._usage.held(each.id):
                continue
            selected = self.fit.is_selected(wanted, each) if looks.left > seen else None
            if selected is None or (selected and (not each.whole or self._is_consumed(each.id))):
                return None
            if selected:
                self._wanted.append([[wanted]])
                self._mark(0, 0, wanted, each)
                break
        self.steps += 1
        looks.left -= seen
        return bool(self._wanted)

    def _one_wanted(self) -> Wanted | None:
        """What the claims want, if it is one device."""
        if len(self._claims) != 1 or len(self._claims[0].requests) != 1 or self._claims[0].constraints:
            return None
        (request,) = self._claims[0].requests
        choice = request.exactly
        if choice is None or request.alternatives or not choice.is_single:
            return None
        return self.fit.ready(self._claims[0], request.name, choice)

    def picks(self) -> tuple[Pick, ...]:
        """The devices that were found, for these claims and for others that ask for the same."""
        return tuple(
            Pick(claim, each.request, self._wanted[claim][each.request].index(each.wanted), each.candidate)
            for claim, chosen in enumerate(self._chosen)
            for each in chosen
        )

    def allocations(self, share_id: ShareId = unnamed) -> tuple[Allocation, ...]:
        """What each claim gets, once devices were found."""
        return allocations_of(self.picks(), self._claims, self.fit, self.node.name, share_id)

    def _begin(self, part: Part) -> None:
        self.steps += 1
        self._looks.left -= 1
        self._stack.append(part)

    # --- the parts ---

    def _everything(self) -> Part:
        """All requests of all claims."""
        for claim in self._claims:
            total = 0
            requests: list[list[Wanted]] = []
            for request in claim.requests:
                wanted: list[Wanted] = []
                for choice in request.choices:
                    wanted.append(self.fit.ready(claim, request.name, choice))
                    if choice.mode == ALL:
                        wanted[-1].everything = yield from self._all_devices(wanted[-1])
                least = min(each.count for each in wanted)
                if least > CLAIM_DEVICES - total:
                    raise AllocationError(
                        f"{place_of(claim, request.name)}: adding {least} devices exceeds the claim limit of "
                        f"{CLAIM_DEVICES}, with {total} already accounted for"
                    )
                total += least
                requests.append(wanted)
            for number, constraint in enumerate(claim.constraints):
                if not constraint.match and not constraint.distinct:
                    raise AllocationError(
                        f"claim {reference(claim)}, constraint #{number}: empty constraint (unsupported constraint "
                        "type?)"
                    )
            self._wanted.append(requests)
        return (yield self._rest(0, 0))

    def _all_devices(self, wanted: Wanted) -> Generator[None, SearchOutcome, DeviceCandidates]:
        """The devices of a request that wants all of them."""
        found: list[DeviceCandidate] = []
        for pool in self._pools:
            self.fit.refuse_unusable(wanted, pool)
            for each in pool.candidates:
                while (selected := self.fit.is_selected(wanted, each)) is None:
                    yield None
                if selected and self.fit.has_capacity(wanted, each, (), each.id.device):
                    found.append(each)
        return tuple(found)

    def _rest(self, claim: int, request: int) -> Part:
        """This request of this claim, and all that comes after it."""
        if claim == len(self._claims):
            return SearchOutcome.FOUND
        if request == len(self._wanted[claim]):
            outcome = yield self._rest(claim + 1, 0)
            return SearchOutcome.NONE if outcome is SearchOutcome.TOO_MANY else outcome
        alternatives = self._wanted[claim][request]
        if not alternatives[0].choice.name:
            return (yield from self._devices(claim, request, alternatives[0]))
        too_many = True
        for wanted in alternatives:
            outcome = yield self._devices(claim, request, wanted)
            if outcome is SearchOutcome.FOUND:
                return outcome
            too_many = too_many and outcome is SearchOutcome.TOO_MANY
        return SearchOutcome.TOO_MANY if too_many else SearchOutcome.NONE

    def _devices(
        self, claim: int, request: int, wanted: Wanted, number: int = 0, pool: int = 0, place: int = 0
    ) -> Part:
        """The devices of a request from this number on, looked for from this place on, and all that comes after it."""
        if wanted.choice.mode == ALL and not wanted.everything:
            return SearchOutcome.NONE
        if number >= wanted.count:
            return (yield self._rest(claim, request + 1))
        if len(self._chosen[claim]) + wanted.count - number > CLAIM_DEVICES:
            return SearchOutcome.TOO_MANY
        if wanted.choice.mode == ALL:
            return (yield from self._that_one(claim, request, wanted, number))
        for at, index, candidate in self._from(wanted, pool, place):
            while (chosen := self._choose(claim, request, wanted, candidate)) is None:
                yield None
            if not chosen:
                continue
            outcome = yield from self._onward(claim, request, wanted, number + 1, at, index + 1)
            if outcome is SearchOutcome.FOUND:
                return outcome
            self._give_back(claim)
            if outcome is SearchOutcome.TOO_MANY:
                return outcome
        return SearchOutcome.NONE

    def _onward(self, claim: int, request: int, wanted: Wanted, number: int, pool: int, place: int) -> Part:
        """What comes after a device was chosen, if anything does."""
        last = claim + 1 == len(self._claims) and request + 1 == len(self._wanted[claim])
        if last and number == wanted.count:
            return SearchOutcome.FOUND
        return (yield self._devices(claim, request, wanted, number, pool, place))

    def _that_one(self, claim: int, request: int, wanted: Wanted, number: int) -> Part:
        """Of all devices the next, without which there is no solution."""
        while (chosen := self._choose(claim, request, wanted, wanted.everything[number])) is None:
            yield None
        if not chosen:
            return SearchOutcome.NONE
        outcome = yield self._devices(claim, request, wanted, number + 1)
        if outcome is not SearchOutcome.FOUND:
            self._give_back(claim)
        return outcome

    def _from(self, wanted: Wanted, pool: int, place: int) -> Iterator[tuple[int, int, DeviceCandidate]]:
        """The devices from a place of a pool on, with their places; some that would be refused at once are left out."""
        looks, expressions, held = self._looks, wanted.expressions, self._usage.held
        admin = wanted.choice.admin_access
        for at in range(pool, len(self._pools)):
            candidates = self._pools[at].candidates
            for index in range(place if at == pool else 0, len(candidates)):
                looks.left -= 1
                candidate = candidates[index]
                if looks.left > 0 and (
                    candidate.answers.get(expressions) is False or (not admin and held(candidate.id))
                ):
                    continue
                yield at, index, candidate

    # --- one device ---

    def _choose(self, claim: int, request: int, wanted: Wanted, candidate: DeviceCandidate) -> bool | None:
        """Take the device for the claim, if nothing stands against it. None: not now, or that is not known yet."""
        if self._looks.left <= 0:
            return None
        objection = self.objection(claim, wanted, candidate)
        if objection is not None:
            return None if objection is Objection.NOT_KNOWN else False
        everything = wanted.choice.mode == ALL
        if not self._constrain(claim, wanted, candidate):
            if everything:
                raise AllocationError(
                    f"{wanted.place}: cannot add device {candidate.id} because a claim constraint would not be "
                    "satisfied"
                )
            return False
        if everything and not self._has_capacity(wanted, candidate):
            self._unconstrain(claim, wanted)
            return False
        self._mark(claim, request, wanted, candidate)
        return True

    def objection(self, claim: int, wanted: Wanted, candidate: DeviceCandidate) -> Objection | None:
        """What stands first against a device; constraints, which are about several, are not looked at."""
        if not self._is_free(claim, wanted, candidate):
            return Objection.IN_USE
        if wanted.choice.mode != ALL:
            selected = self.fit.is_selected(wanted, candidate)
            if not selected:
                return Objection.NOT_KNOWN if selected is None else Objection.NOT_SELECTED
            if candidate.whole and not wanted.choice.capacity and not self._is_consumed(candidate.id):
                return None
            if not self._has_capacity(wanted, candidate):
                return Objection.CAPACITY
        if self._pays(candidate) and not self._can_pay(candidate):
            return Objection.COUNTERS
        return Objection.TAINT if is_barred(candidate.taints, wanted.choice.tolerations) else None

    def _pays(self, candidate: DeviceCandidate) -> bool:
        """Whether counters are charged for the device: for a shared one, once."""
        return bool(candidate.counters) and not (candidate.device.shared and self._is_consumed(candidate.id))

    def _is_free(self, claim: int, wanted: Wanted, candidate: DeviceCandidate) -> bool:
        takers = self._takers.get(candidate.id, ())
        if wanted.choice.admin_access:
            return claim not in takers
        return not takers and not self._usage.held(candidate.id)

    def _is_consumed(self, device: DeviceId) -> bool:
        return bool(self._shares.get(device)) or self._usage.consumed(device) is not None

    def _has_capacity(self, wanted: Wanted, candidate: DeviceCandidate) -> bool:
        before = self._usage.consumed(candidate.id)
        used = [*self._shares.get(candidate.id, ()), *(() if before is None else (before,))]
        return self.fit.has_capacity(wanted, candidate, used)

    def _can_pay(self, candidate: DeviceCandidate) -> bool:
        """Whether no counter of the pool is below zero once the device has taken what it needs."""
        left, need = self._counters(candidate), dict(candidate.counters)
        return all(amount >= need.get(counter, 0) for counter, amount in left.items())

    def _counters(self, candidate: DeviceCandidate) -> dict[Counter, int]:
        pool = self._pool_of[PoolId(candidate.id.driver, candidate.id.pool)]
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = self._usage.available(pool)
        return left

    def _constrain(self, claim: int, wanted: Wanted, candidate: DeviceCandidate) -> bool:
        if not self._constraints[claim]:
            return True
        added: list[Constraint] = []
        for constraint in self._concerned(claim, wanted):
            if not constraint.add(candidate):
                for each in added:
                    each.remove()
                return False
            added.append(constraint)
        return True

    def _unconstrain(self, claim: int, wanted: Wanted) -> None:
        for constraint in self._concerned(claim, wanted):
            constraint.remove()

    def _concerned(self, claim: int, wanted: Wanted) -> list[Constraint]:
        return [each for each in self._constraints[claim] if each.concerns(wanted.request, wanted.choice.name)]

    def _mark(self, claim: int, request: int, wanted: Wanted, candidate: DeviceCandidate) -> None:
        pays = self._pays(candidate)
        if candidate.device.shared:
            consumed = self.fit.consumption(wanted, candidate) or {}
            taken = {key: parse_quantity(text) for key, text in consumed.items()}
            self._shares.setdefault(candidate.id, []).append(taken)
        else:
            self._takers.setdefault(candidate.id, []).append(claim)
        if pays:
            left = self._counters(candidate)
            for counter, amount in candidate.counters:
                left[counter] -= amount
        self._chosen[claim].append(_Chosen(request, wanted, candidate, pays))

    def _give_back(self, claim: int) -> None:
        """The device that was chosen last for the claim."""
        _, wanted, candidate, paid = self._chosen[claim].pop()
        if candidate.device.shared:
            self._shares[candidate.id].pop()
        else:
            self._takers[candidate.id].pop()
        if paid:
            left = self._counters(candidate)
            for counter, amount in candidate.counters:
                left[counter] += amount
        self._unconstrain(claim, wanted)
