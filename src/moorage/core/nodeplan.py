"""Which units get the nodes that their pods can use: in the order of their keys, each whole or not at all.

A unit has pods that stand on nodes of their own and pods that wait for one. It is taken if all of them have a node
beside the units taken before it. What stands keeps its own node, so it is only ever a unit that comes later that loses
one. Three things soften "whole" for units that stand:

- Of those that have more pods than they need, some may go.
- If there is no node for a pod that waits, and no unit that comes first is to blame, the others stay without it.
- If a node is lost to a unit that comes first, the pod from there may have another one that is free at once.

As long as all pods that wait can use the same nodes, and no unit has to be softened, this is a matter of numbers
(`core.plan`), and an event costs O(log units). Otherwise the nodes are matched (`core.seating`): all units are walked
again when something has changed that may let a unit in or put one out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from moorage.core.plan import Order, Plan
from moorage.core.seating import Bits, Seating, rows_of, some_of


class Stand(NamedTuple):
    """A pod on its node."""

    row: int
    kind: int | None = None
    """Which nodes a successor could use; None if there would be none."""


class Ask(NamedTuple):
    """Pods that are given nodes together."""

    id: str
    key: tuple[Any, ...]
    """Smaller comes first; equal keys are told apart by the id."""
    stands: tuple[Stand, ...] = ()
    wants: tuple[int, ...] = ()
    """The kinds of the pods that need a node to stand."""
    spare: int = 0
    """How many of the pods that stand it could do without, if none waits."""
    behind: str = ""
    """The unit without which this one gets nothing; it comes first."""

    @property
    def order(self) -> Order:
        """The place among all units."""
        return self.key, self.id

    @property
    def is_one(self) -> bool:
        """Whether it is one pod that needs nobody else."""
        return not self.behind and len(self.stands) + len(self.wants) == 1

    @property
    def is_soft(self) -> bool:
        """Whether it may be neither taken whole nor left out, or hangs on another one."""
        return bool(self.spare or self.behind or (self.stands and self.wants))


class Share(NamedTuple):
    """What a unit gets."""

    granted: int
    """How many of its waiting pods have a node."""
    lost: frozenset[int] = frozenset()
    """Rows that it loses though it is in the plan."""


_STANDS, _GRANTED = Share(0), Share(1)
_ORDER = attrgetter("key", "id")


class NodePlan:
    """The units, and which of them get nodes; `settle` brings that up to date."""

    def __init__(self, usable: Callable[[int], Bits], vacant: Callable[[], Bits]) -> None:
        """`usable`: the rows that pods of a kind can use; `vacant`: the rows without any pod that counts."""
        self._usable = usable
        self._asks: dict[str, Ask] = {}
        self._kinds: Counter[int] = Counter()
        """Kinds of waiting pods, and how many pods there are of each."""
        self._rows: dict[int, set[str]] = {}
        """Row -> units with a pod on it."""
        self._followers: Counter[str] = Counter()
        """Unit -> how many others hang on it."""
        self._crowded = 0
        """How many pods stand on a row on which another one stood before."""
        self._numbers: _Numbers | None = _Numbers(self._asks, self._rows)
        self._matched = _Matched(self._asks, usable, vacant)
        """In force while there are no `_numbers`."""
        self._unsure = True
        """Whether pods of other kinds wait than before, or pods can use other nodes."""
        self._alike = True
        """Whether all waiting pods can use the same nodes, but for those that can use none."""
        self._common: Bits = 0
        """Those nodes."""
        self._hopeless: frozenset[int] = frozenset()
        """The kinds of pods that can use none."""
        self._recalled = False
        self._changed: set[str] = set()
        self._in: dict[str, int] = {}
        """Units that had a share when `settle` was last called, and how many of their waiting pods had a node."""

    # --- what is asked ---

    def put(self, ask: Ask) -> None:
        """Add a unit, or change it."""
        known = self._asks.get(ask.id)
        if known == ask:
            return
        if known is not None:
            self._count(known, -1)
        self._asks[ask.id] = ask
        self._count(ask, 1)
        if self._numbers is not None:
            self._numbers.put(ask)
        else:
            self._matched.change(known, ask)

    def drop(self, ask_id: str) -> None:
        """Forget a unit; one that is not known is no error."""
        known = self._asks.pop(ask_id, None)
        if known is None:
            return
        self._count(known, -1)
        if self._numbers is not None:
            self._numbers.drop(known)
        else:
            self._matched.change(known, None)

    def usable_changed(self) -> None:
        """Pods of some kinds can use other nodes than before."""
        self._matched.stale = self._unsure = True

    def kinds(self) -> set[int]:
        """The kinds that any unit names."""
        found = set(self._kinds)
        return found.union(stand.kind for ask in self._asks.values() for stand in ask.stands if stand.kind is not None)

    def _count(self, ask: Ask, sign: int) -> None:
        if ask.behind:
            self._followers[ask.behind] += sign
        if self._followers.get(ask.id):
            self._matched.stale = True
        for kind in ask.wants:
            self._unsure = self._unsure or kind not in self._kinds or self._kinds[kind] + sign == 0
            self._kinds[kind] += sign
            if not self._kinds[kind]:
                del self._kinds[kind]
        for stand in ask.stands:
            here = self._rows.setdefault(stand.row, set())
            if sign > 0:
                self._crowded += bool(here)
                here.add(ask.id)
                continue
            here.discard(ask.id)
            self._crowded -= bool(here)
            if not here:
                del self._rows[stand.row]

    # --- what is given ---

    def share(self, ask_id: str) -> Share | None:
        """What a unit gets; None if it is not in the plan, or not known."""
        if ask_id not in self._asks:
            return None
        return self._matched.shares.get(ask_id) if self._numbers is None else self._numbers.share(self._asks[ask_id])

    def __contains__(self, ask_id: object) -> bool:
        """Whether the unit is known, in the plan or not."""
        return ask_id in self._asks

    def ask(self, ask_id: str) -> Ask | None:
        """What is known of a unit."""
        return self._asks.get(ask_id)

    def choices(self, ask_id: str, rather: Iterable[tuple[int, int]] = ()) -> dict[int, Bits] | None:
        """The rows that waiting pods of a unit may take without harm for others, by their kind; None: any.

        They are no more than the unit needs where it has several waiting pods. `rather` are kinds and rows that were
        meant for some of them.
        """
        return None if self._numbers is not None else self._matched.choices(self._asks[ask_id], rather)

    def changed(self) -> set[str]:
        """The units whose share may be another than at the last call, though they are the same."""
        found, self._changed = self._changed, set()
        return found

    def sizes(self, more: Bits) -> tuple[int, int]:
        """How many nodes the plan gives away, and how many there are to give: these, and what waiting pods can use."""
        for kind in self._kinds:
            more |= self._usable(kind)
        shares = [(ask, share) for ask in self._asks.values() if (share := self.share(ask.id)) is not None]
        standing = sum(more >> stand.row & 1 for ask, _ in shares for stand in ask.stands)
        return standing + sum(share.granted for _, share in shares), more.bit_count()

    def taken(self) -> list[Ask]:
        """The units in the plan, in order."""
        return [ask for ask in self if self.share(ask.id) is not None]

    def lost_rows(self) -> set[int]:
        """The rows that units in the plan lose."""
        shares = {} if self._numbers is not None else self._matched.shares
        return set().union(*(share.lost for share in shares.values() if share.lost))

    @property
    def inside(self) -> dict[str, int]:
        """The units that were in the plan at the last `settle`, and how many of their waiting pods had a node."""
        return dict(self._in)

    def remember(self, inside: Mapping[str, int]) -> None:
        """The next `settle` tells what is different from this."""
        self._in, self._recalled = dict(inside), True

    def __iter__(self) -> Iterator[Ask]:
        """All units in order."""
        return iter(sorted(self._asks.values(), key=lambda ask: ask.order))

    # --- bringing it up to date ---

    def settle(self) -> tuple[list[str], list[str]]:
        """Bring the plan up to date; units that get more than at the last call, and that get nothing any more."""
        anew = self._choose_way() or self._recalled
        self._recalled = False
        if anew:
            self._changed.update(self._asks)
        if self._numbers is None:
            self._matched.refresh()
            self._changed |= self._matched.changed
            self._matched.changed.clear()
            now = {each: share.granted for each, share in self._matched.shares.items()}
        else:
            entered, left = self._numbers.news
            if not anew:
                self._changed.update(entered, left, self._numbers.resized)
                self._numbers.resized.clear()
                for each in left:
                    self._in.pop(each, None)
                self._in.update((each, share.granted) for each in entered if (share := self.share(each)) is not None)
                return entered, left
            shares = ((each, self._numbers.share(ask)) for each, ask in self._asks.items())
            now = {each: share.granted for each, share in shares if share is not None}
        before, self._in = self._in, now
        more = [each for each, granted in now.items() if granted > before.get(each, -1)]
        return sorted(more, key=lambda each: self._asks[each].order), sorted(before.keys() - now.keys())

    def _choose_way(self) -> bool:
        """Decide whether numbers are enough; returns whether that has changed."""
        before = self._numbers
        if self._unsure:
            masks = {kind: self._usable(kind) for kind in self._kinds}
            common = {mask for mask in masks.values() if mask}
            self._unsure, self._alike = False, len(common) <= 1
            self._common = next(iter(common), self._common)
            self._hopeless = frozenset(kind for kind, mask in masks.items() if not mask)
        if not self._alike or self._crowded:
            self._numbers = None
        elif before is not None or self._matched.is_plain():
            if before is None:
                self._numbers = _Numbers(self._asks, self._rows)
                self._numbers.put_all(self._common, self._hopeless)
            else:
                before.use(self._common, self._hopeless)
            if self._numbers is not None and not self._numbers.suffice(self._usable):
                self._numbers = None
        if before is not None and self._numbers is None:
            self._matched.stale = True
        return (before is None) is not (self._numbers is None)


class _Numbers:
    """The plan where all waiting pods can use the same rows."""

    def __init__(self, asks: Mapping[str, Ask], rows: Mapping[int, Collection[str]]) -> None:
        self._asks, self._rows = asks, rows
        self.plan = Plan()
        self._common: Bits = 0
        self._hopeless: frozenset[int] = frozenset()
        """Kinds of pods that can use no node."""
        self._soft: dict[str, None] = {}
        """Units that numbers may not do justice to."""
        self._put_lately: dict[str, None] = {}
        """Units with several pods that stand, put since `suffice` was last asked."""
        self.resized: set[str] = set()
        """Units that have or need another number of nodes since other ones can be used."""
        self.news: tuple[list[str], list[str]] = ([], [])
        """Units that entered the plan and that left it since `suffice` was asked the time before."""

    def put_all(self, common: Bits, hopeless: frozenset[int]) -> None:
        """Begin with all units."""
        self._common, self._hopeless = common, hopeless
        self.plan.resize(common.bit_count())
        for ask in self._asks.values():
            self.put(ask)

    def use(self, common: Bits, hopeless: frozenset[int]) -> None:
        """From now on all pods that wait can use these rows, but for hopeless kinds."""
        again: set[str] = set()
        if hopeless != self._hopeless:
            changed = hopeless ^ self._hopeless
            self._hopeless = hopeless
            again.update(ask.id for ask in self._asks.values() if changed.intersection(ask.wants))
        if common != self._common:
            changed_rows, self._common = common ^ self._common, common
            self.plan.resize(common.bit_count())
            again.update(each for row in rows_of(changed_rows) for each in self._rows.get(row, ()))
        for each in sorted(again):
            self.put(self._asks[each])
        self.resized |= again

    def put(self, ask: Ask) -> None:
        """Add or change a unit."""
        if ask.is_soft:
            self._soft[ask.id] = None
        else:
            self._soft.pop(ask.id, None)
        if len(ask.stands) > 1:
            self._put_lately[ask.id] = None
        size = self._size(ask)
        if size and not self._hopeless.intersection(ask.wants):
            self.plan.put(ask.id, ask.key, size)
        else:
            self.plan.drop(ask.id)

    def drop(self, ask: Ask) -> None:
        """Forget a unit."""
        self._soft.pop(ask.id, None)
        self.plan.drop(ask.id)

    def share(self, ask: Ask) -> Share | None:
        """What a unit gets."""
        if self._hopeless.intersection(ask.wants):
            return None
        return Share(len(ask.wants)) if self.plan.has(ask.id) or not self._size(ask) else None

    def suffice(self, usable: Callable[[int], Bits]) -> bool:
        """Whether every unit is taken whole or left out."""
        self.news = self.plan.changes()
        doubtful, self._put_lately = [*self.news[1], *self._put_lately], {}
        asks = [ask for each in doubtful if (ask := self._asks.get(each)) is not None and self.share(ask) is None]
        return all(map(self._is_served, self._soft)) and not any(self._may_move(ask, usable) for ask in asks)

    def _may_move(self, ask: Ask, usable: Callable[[int], Bits]) -> bool:
        """Whether a pod that loses its node may have one that is not among the common nodes."""
        kinds = {stand.kind for stand in ask.stands if stand.kind is not None} if len(ask.stands) > 1 else ()
        return any(usable(kind) & ~self._common for kind in kinds)

    def _is_served(self, ask_id: str) -> bool:
        ask = self._asks[ask_id]
        if not ask.behind:
            return self.share(ask) is not None
        above = self._asks.get(ask.behind)
        return self.share(ask) is None or (above is not None and self.share(above) is not None)

    def _size(self, ask: Ask) -> int:
        """How many of the common nodes its pods have or need."""
        return sum(self._common >> stand.row & 1 for stand in ask.stands) + len(ask.wants)


class _Matched:
    """The plan where pods can use different rows."""

    def __init__(self, asks: Mapping[str, Ask], usable: Callable[[int], Bits], vacant: Callable[[], Bits]) -> None:
        self._asks, self._usable, self._vacant = asks, usable, vacant
        self.seating = Seating(0)
        self.shares: dict[str, Share] = {}
        self.stale = True
        """Whether all units have to be walked again."""
        self._last: Order | None = None
        """The place of the last unit in the plan."""
        self._left_out = 0
        """How many units are not in the plan."""
        self.changed: set[str] = set()
        """Units that got another share when all were walked."""

    def is_plain(self) -> bool:
        """Whether every unit is taken whole or left out, as far as is known."""
        if self.stale:
            self.refresh()
        for ask in self._asks.values():
            share = self.shares.get(ask.id) if ask.is_soft else None
            if ask.is_soft and not ask.behind and (share is None or share.lost or share.granted < len(ask.wants)):
                return False
        return True

    # --- all units ---

    def refresh(self) -> None:
        """Walk all units, if that is necessary."""
        if not self.stale:
            return
        self.stale = False
        before = self.shares
        self.seating, self.shares = Seating(self._vacant()), {}
        inside: Ask | None = None
        for ask in sorted(self._asks.values(), key=_ORDER):
            share = self._share_of_one(ask) if ask.is_one else self._share(ask)
            if share is not None:
                self.shares[ask.id] = share
                inside = ask
        self.seating.settle_on_vacant()
        self._last = None if inside is None else inside.order
        self._left_out = len(self._asks) - len(self.shares)
        self.changed.update(each for each, share in before.items() if self.shares.get(each) != share)
        self.changed.update(self.shares.keys() - before.keys())

    def _share_of_one(self, ask: Ask) -> Share | None:
        """The same for one pod by itself, as most units are."""
        if ask.stands:
            return _STANDS if self.seating.stay(ask.stands[0].row) else None
        return _GRANTED if self.seating.sit(self._usable(ask.wants[0])) else None

    def _share(self, ask: Ask) -> Share | None:
        """What a unit gets beside those that come first."""
        if ask.behind and ask.behind not in self.shares:
            return None
        now = self.seating.save()
        if self._stay(ask) and self._sit(ask.wants):
            return Share(len(ask.wants))
        self.seating.restore(now)
        if not ask.stands:
            return None
        if ask.spare:
            lost = [stand.row for stand in ask.stands if not self.seating.stay(stand.row)]
            if len(lost) <= ask.spare and self._sit(ask.wants):
                return Share(len(ask.wants), frozenset(lost))
            self.seating.restore(now)
        if ask.wants and self._stay(ask):
            granted = self._granted(ask)
            if granted == self._granted_alone(ask):
                return Share(granted)
        self.seating.restore(now)
        moved = self._move(ask)
        if moved is None:
            self.seating.restore(now)
            return None
        return Share(len(ask.wants), moved)

    def _stay(self, ask: Ask) -> bool:
        return all(self.seating.stay(stand.row) for stand in ask.stands)

    def _sit(self, kinds: Iterable[int]) -> bool:
        return all(self.seating.sit(self._usable(kind)) for kind in kinds)

    def _granted(self, ask: Ask) -> int:
        """How many of its waiting pods get a node."""
        return sum(self.seating.sit(self._usable(kind)) for kind in ask.wants)

    def _granted_alone(self, ask: Ask) -> int:
        """The same if there were no other unit."""
        now = self.seating.save()
        self.seating.restore(Seating(0).save())
        granted = self._granted(ask) if self._stay(ask) else 0
        self.seating.restore(now)
        return granted

    def _move(self, ask: Ask) -> frozenset[int] | None:
        """The rows that are lost, if each pod from there has another node at once, and some stay where they are."""
        lost = [stand for stand in ask.stands if not self.seating.stay(stand.row)]
        if not lost or len(lost) == len(ask.stands):
            return None
        kinds = [stand.kind for stand in lost]
        if not all(kind is not None and self.seating.sit(self._usable(kind) & self.seating.vacant) for kind in kinds):
            return None
        return frozenset(stand.row for stand in lost) if self._sit(ask.wants) else None

    # --- one unit ---

    def change(self, before: Ask | None, after: Ask | None) -> None:
        """A unit came, changed or went: where that lets nobody else in or out, the walk is spared."""
        if self.stale:
            return
        done = False
        if before is None and after is not None:
            done = self._add(after)
        elif after is None and before is not None:
            done = self._remove(before)
        elif before is not None and after is not None:
            done = self._arrive(before, after)
        self.stale = not done

    def _add(self, ask: Ask) -> bool:
        if ask.is_soft:
            return False
        now = self.seating.save()
        if self._stay(ask) and self._sit(ask.wants):
            self.shares[ask.id] = Share(len(ask.wants))
            self._last = ask.order if self._last is None else max(self._last, ask.order)
            return True
        self.seating.restore(now)
        self._left_out += 1
        return not ask.stands and self._last is not None and ask.order > self._last

    def _remove(self, ask: Ask) -> bool:
        share = self.shares.pop(ask.id, None)
        if share is None:
            self._left_out -= 1
            return True
        if self._left_out or share.lost or share.granted != len(ask.wants):
            return False
        for stand in ask.stands:
            self.seating.free_again(stand.row)
        for kind in ask.wants:
            self.seating.stand_up(self._usable(kind))
        return True

    def _arrive(self, before: Ask, after: Ask) -> bool:
        """Waiting pods of one kind stand now, and nothing else is different but the place in the order."""
        share, last = self.shares.get(before.id), self._last
        new = [stand.row for stand in after.stands if stand not in before.stands]
        kinds = set(before.wants)
        if share is None or share.lost or len(kinds) != 1 or share.granted != len(before.wants) or last is None:
            return False
        if len(after.stands) - len(before.stands) != len(new) or len(before.wants) - len(after.wants) != len(new):
            return False
        mask = self._usable(before.wants[0])
        if before.order == last or not all(self.seating.arrive(mask, row) for row in new):
            return False
        self.shares[after.id] = Share(len(after.wants))
        return True

    def choices(self, ask: Ask, rather: Iterable[tuple[int, int]]) -> dict[int, Bits] | None:
        """Rows for the waiting pods of a unit by kind; None: any that they can use and that nobody keeps."""
        if self.stale or ask.id not in self.shares or not ask.wants:
            return None
        masks = {kind: self._usable(kind) for kind in ask.wants}
        held = self.seating.held
        if not any(rows and other & mask for other, rows in held.items() for mask in masks.values() if other != mask):
            return None
        if len(ask.wants) == 1:
            return {kind: self.seating.choices(mask) for kind, mask in masks.items()}
        now = self.seating.save()
        counts = Counter(masks[kind] for kind in ask.wants)
        rows = dict.fromkeys(counts, 0)
        for kind, row in rather:
            mask = masks.get(kind, 0)
            if mask >> row & 1 and counts[mask] and self.seating.arrive(mask, row):
                rows[mask] |= 1 << row
                counts[mask] -= 1
        for mask, count in counts.items():
            rows[mask] |= some_of(self.seating.held.get(mask, 0), count, self.seating.vacant)
        self.seating.restore(now)
        return {kind: rows[mask] for kind, mask in masks.items()}
