"""How much may be searched in vain for the units of one leaf, and for whom next.

Where each of many units could get room, but amounts do not show that it does not get any, every change would start all
searches anew. So a leaf has an allowance of tries (sets of victims) that came to nothing. As long as that is not used
up, nothing is different. Once it is, the leaf is short: a round searches for a few of its units, a part of a search at
a time where it can be taken up again, and pays for it out of what comes in every second.

All units of a leaf that is short have their turn, in laps: nobody twice before everybody once. Of pods that differ only
in what they request, those that request at least as much as one that got nothing in this lap are passed over, but for
one of them in every lap. When a lap ends without a change since it began, the leaf is at rest.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import field
from math import inf
from typing import NamedTuple

from moorage.core.queuetree import QueueNode
from moorage.core.values import dataclass
from moorage.engine.units import Unit

MOST_TRIES = 512.0
"""How many tries in vain a leaf has at once."""
TRIES_PER_S = 8.0
"""How many more every second."""
MOST_AT_ONCE = 16
"""How many one round makes for a leaf that is short, and for all others if it is paced, as others wait for its end."""
_LEAST_AT_ONCE = 8.0
"""How many there are at least before one that is told to end does."""
_LOOK = 0.25
"""What it counts to find out whether a node could hold a pod."""
_MOST_UNITS = 8
"""For how many units of a leaf that is short there is a search at the same time."""
_PAUSE_S = 1.0
"""How long a leaf that is short waits for its next round, if nothing changes."""
_DONE = 1 << 40
_PROMISE = "_promise"
"""The way that searches for nothing."""

What = tuple[str, object]
"""A way to make room, and the kind of unit that it is tried for."""


class RoomRequest(NamedTuple):
    """What a unit asks for: `amounts` of what `like` names, which is equal for units that differ in these only."""

    like: object
    amounts: tuple[int, ...]


AskingOf = Callable[[Unit], RoomRequest | None]
"""None for units that cannot be compared."""


@dataclass(slots=True, eq=False)
class _Leaf:
    """What is known about one leaf."""

    tries: float
    at_s: float
    """When `tries` was right."""
    short: bool = False
    stale: bool = True
    """Whether something has changed since the lap began."""
    chosen: list[Unit] = field(default_factory=list)
    """Units that a round searches for now."""
    done: set[str] = field(default_factory=set)
    """Units that had their turn in this lap."""
    vain: dict[object, list[tuple[int, ...]]] = field(default_factory=dict)
    """What got nothing in this lap: `RoomRequest`."""
    passed: dict[str, None] = field(default_factory=dict)
    """Units that were passed over in this lap."""
    probe: str = ""
    """A unit that is not, though it would be."""
    probed: set[str] = field(default_factory=set)
    """The same of earlier laps."""
    progress: dict[What, int] = field(default_factory=dict)
    """How many tries of a search are behind it."""
    spent: int = 0
    """Tries of this round."""
    paused: bool = False
    """Whether this round had to stop."""
    rests: bool = False
    """Whether there is nothing to try until something changes."""


class SearchPart:
    """A part of a search: what an earlier round has tried is left out, and it may end before everything is tried."""

    def __init__(self, behind: int, most: float) -> None:
        self.passed = 0
        """How many sets are behind it now."""
        self.paused = False
        """Whether it ended before all were."""
        self._behind, self._most = behind, most

    def ends(self, *, told: bool) -> bool:
        """Whether it ends before the next set of victims: it was told to, or has made all its tries."""
        if self._most == inf:
            return told
        made = self.passed - self._behind
        self.paused = made >= self._most or (told and made >= _LEAST_AT_ONCE)
        return self.paused

    def is_behind(self) -> bool:
        """Take the next set; whether it was tried before."""
        self.passed += 1
        return self.passed <= self._behind


class RoomEfforts:
    """The efforts for all leaves; `most` is their allowance."""

    def __init__(self, most: float = MOST_TRIES) -> None:
        self._most = most
        self._leaves: dict[QueueNode, _Leaf] = {}
        self._now = 0.0
        self._paced, self._made = False, 0
        self.next_s = inf
        """When to go on for leaves that are short; never if there is nothing left to try for them."""

    def clear(self) -> None:
        """Everything may be different now."""
        self._leaves.clear()
        self.next_s = inf

    def changed(self) -> None:
        """The state is another one."""
        for each in self._leaves.values():
            each.stale = True
            if not each.short:
                each.progress.clear()

    def rest(self) -> None:
        """There is nothing to do before something changes."""
        self.next_s = inf

    # --- a round ---

    def choose(
        self,
        units: Sequence[Unit],
        now: float,
        leaf_of: Callable[[Unit], QueueNode | None],
        key_of: Callable[[Unit], tuple[object, ...]],
        asking_of: AskingOf,
        *,
        paced: bool = False,
    ) -> list[Unit]:
        """The units that a round is about: all, but for a few only of each leaf that is short.

        One that is paced goes on in the next turn after some tries, as long as nobody got anything.
        """
        self._now, self.next_s = now, inf
        self._paced, self._made = paced, 0
        for each in self._leaves.values():
            self._fill(each)
        self._leaves = {
            leaf: each for leaf, each in self._leaves.items() if each.short or each.progress or each.tries < self._most
        }
        short: dict[QueueNode, list[Unit]] = {leaf: [] for leaf, each in self._leaves.items() if each.short}
        if not short:
            return [*units]
        found = list[Unit]()
        for unit in units:
            leaf = leaf_of(unit)
            of_leaf = None if leaf is None else short.get(leaf)
            (found if of_leaf is None else of_leaf).append(unit)
        for leaf, waiting in short.items():
            found += self._choose(self._leaves[leaf], waiting, key_of, asking_of)
        return found

    def _fill(self, each: _Leaf) -> None:
        each.tries = min(self._most, each.tries + (self._now - each.at_s) * TRIES_PER_S)
        each.at_s, each.spent, each.paused, each.rests = self._now, 0, False, False
        if each.short and each.tries >= self._most / 2:
            each.short = False
            each.chosen, each.stale = [], True
            each.done.clear()
            each.progress.clear()

    def _choose(
        self, each: _Leaf, waiting: list[Unit], key_of: Callable[[Unit], tuple[object, ...]], asking_of: AskingOf
    ) -> list[Unit]:
        known = {unit.uid: unit for unit in waiting}
        each.chosen = [known[unit.uid] for unit in each.chosen if unit.uid in known]
        if not each.chosen:
            each.progress.clear()
            each.chosen = self._next(each, waiting, key_of, asking_of)
            if not each.chosen and each.stale:
                self._begin(each, known.keys())
                each.chosen = self._next(each, waiting, key_of, asking_of)
        each.rests = not each.chosen
        if each.rests:
            return []
        if each.tries < min(MOST_AT_ONCE, self._most):  # a round for less would cost more than its tries
            each.paused = True
            self._go_on_later(each)
            return []
        return each.chosen

    def _begin(self, each: _Leaf, waiting: Iterable[str]) -> None:
        """A new lap."""
        each.stale = False
        each.done.clear()
        each.vain.clear()
        each.probed &= set(waiting)
        if each.passed.keys() <= each.probed:
            each.probed.clear()
        each.probe = next((uid for uid in each.passed if uid not in each.probed), "")
        each.probed.add(each.probe)
        each.passed.clear()

    def _next(
        self, each: _Leaf, waiting: list[Unit], key_of: Callable[[Unit], tuple[object, ...]], asking_of: AskingOf
    ) -> list[Unit]:
        """The first unit in the order of the leaf, and those that have waited for the longest time."""
        left = [unit for unit in waiting if unit.uid not in each.done]
        found = dict[str, Unit]()
        for unit in [min(left, key=key_of), *left] if left else ():
            if self._is_passed(each, unit, asking_of):
                each.done.add(unit.uid)
                each.passed[unit.uid] = None
            else:
                found[unit.uid] = unit
            if len(found) == _MOST_UNITS:
                break
        return list(found.values())

    def _is_passed(self, each: _Leaf, unit: Unit, asking_of: AskingOf) -> bool:
        asking = asking_of(unit) if each.vain and unit.uid != each.probe else None
        return asking is not None and any(_at_least(asking.amounts, less) for less in each.vain.get(asking.like, ()))

    def allows(self, leaf: QueueNode, what: What, *, still: bool) -> bool:
        """Whether a search may begin, or go on; `still`: nobody got anything in this round."""
        each = self._leaves.get(leaf)
        if what[0] == _PROMISE:
            return True
        if each is not None and each.short and each.progress.get(what, 0) == _DONE:
            return False
        if self.left(leaf, still=still) > 0:
            return True
        if each is not None:
            each.paused = True
        return False

    def left(self, leaf: QueueNode, *, still: bool) -> float:
        """How many more tries this round may make for a leaf."""
        each = self._leaves.get(leaf)
        if each is not None and each.short:
            return min(each.tries, MOST_AT_ONCE - each.spent)
        return MOST_AT_ONCE - self._made if self._paced and still else inf

    def goes_on(self, leaf: QueueNode) -> bool:
        """Whether the next turn goes on for a leaf that may try no more in this one."""
        each = self._leaves.get(leaf)
        return each is None or not each.short

    def behind(self, leaf: QueueNode, what: What) -> int:
        """How many tries of a search were made before."""
        each = self._leaves.get(leaf)
        return 0 if each is None else each.progress.get(what, 0)

    def charge(self, leaf: QueueNode, tries: int) -> None:
        """So many tries came to nothing."""
        each = self._spend(leaf, tries)
        if each is not None:
            each.spent += tries
            self._made += tries

    def looked(self, leaf: QueueNode) -> None:
        """It was found out whether a node could hold a pod."""
        self._spend(leaf, _LOOK)

    def _spend(self, leaf: QueueNode, tries: float) -> _Leaf | None:
        each = self._leaves.get(leaf)
        if each is None:
            if self._most == inf:
                return None
            each = self._leaves[leaf] = _Leaf(self._most, self._now)
        each.tries -= tries
        if each.tries <= 0 and not each.short:
            each.short = each.stale = True
        return each

    def pause(self, leaf: QueueNode, what: What, behind: int) -> None:
        """A search ends for now; so many tries of it are behind it."""
        each = self._leaves[leaf]
        each.paused = True
        each.progress[what] = behind

    def vain(self, leaf: QueueNode, what: What) -> None:
        """A search has come to nothing."""
        each = self._leaves.get(leaf)
        if each is not None and each.short and what[0] != _PROMISE:
            each.progress[what] = _DONE

    def ended(self, asking_of: AskingOf, served: Container[str], *, cut: bool) -> None:
        """The round is over, and these got room; `cut`: before everything was tried. When to go on follows."""
        for each in self._leaves.values():
            if not each.short and not cut:
                each.progress.clear()
            if not each.short or each.rests:
                continue
            if each.chosen and not cut and not each.paused:
                for unit in each.chosen:
                    each.done.add(unit.uid)
                    asking = None if unit.uid in served else asking_of(unit)
                    if asking is not None:
                        each.vain.setdefault(asking.like, []).append(asking.amounts)
                each.chosen = []
            self._go_on_later(each)

    def _go_on_later(self, each: _Leaf) -> None:
        wait_s = max(_PAUSE_S, (min(MOST_AT_ONCE, self._most) - each.tries) / TRIES_PER_S)
        self.next_s = min(self.next_s, self._now + wait_s)


def _at_least(amounts: tuple[int, ...], less: tuple[int, ...]) -> bool:
    return all(amount >= other for amount, other in zip(amounts, less, strict=True))
