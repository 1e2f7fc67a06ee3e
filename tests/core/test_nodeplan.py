"""Units get nodes that their pods can use: a matching in the plan's order, the same however it came about.

`MOORAGE_PLAN_SEQUENCES` says how many random sequences are tried: 10000 for a thorough run.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.core.nodeplan import Ask, NodePlan, Share, Stand
from moorage.core.seating import bits_of, rows_of

SEQUENCES = int(os.environ.get("MOORAGE_PLAN_SEQUENCES", "400"))


class PlainPlanner:
    """Walks all units at every question, and tries every pod on every node."""

    def __init__(self, usable: dict[int, int], vacant: set[int]) -> None:
        self.usable, self.vacant = usable, vacant
        self.asks: dict[str, Ask] = {}

    def shares(self) -> dict[str, Share]:
        found: dict[str, Share] = {}
        taken: list[set[int]] = []
        """For every pod so far the nodes that it may have."""
        for ask in sorted(self.asks.values(), key=lambda ask: ask.order):
            share, pods = (None, []) if ask.behind and ask.behind not in found else self.share(ask, taken)
            if share is not None:
                found[ask.id], taken = share, [*taken, *pods]
        return found

    def share(self, ask: Ask, taken: list[set[int]]) -> tuple[Share | None, list[set[int]]]:
        stands = [{stand.row} for stand in ask.stands]
        wants = [set(rows_of(self.usable[kind])) for kind in ask.wants]
        if matched([*taken, *stands, *wants]):
            return Share(len(wants)), [*stands, *wants]
        if not stands or ask.behind:
            return None, []
        if ask.spare:
            pods: list[set[int]] = []
            for rows in stands:
                pods = [*pods, rows] if matched([*taken, *pods, rows]) else pods
            lost = frozenset(stand.row for stand in ask.stands if {stand.row} not in pods)
            if len(lost) <= ask.spare and matched([*taken, *pods, *wants]):
                return Share(len(wants), lost), [*pods, *wants]
        granted = most(taken, stands, wants)
        if wants and granted and len(granted) == len(most([], stands, wants)):
            return Share(len(granted) - len(stands)), granted
        return self.moved(ask, taken, wants)

    def moved(self, ask: Ask, taken: list[set[int]], wants: list[set[int]]) -> tuple[Share | None, list[set[int]]]:
        pods: list[set[int]] = []
        lost = []
        for stand in ask.stands:
            if matched([*taken, *pods, {stand.row}]):
                pods.append({stand.row})
            else:
                lost.append(stand)
        if not lost or not pods or any(stand.kind is None for stand in lost):
            return None, []
        pods += [set(rows_of(self.usable[stand.kind])) & self.vacant for stand in lost if stand.kind is not None]
        if not matched([*taken, *pods, *wants]):
            return None, []
        return Share(len(wants), frozenset(stand.row for stand in lost)), [*pods, *wants]


def matched(pods: list[set[int]]) -> bool:
    """Whether each of them can have a node of its own."""
    holder: dict[int, int] = {}

    def place(pod: int, seen: set[int]) -> bool:
        for row in sorted(pods[pod] - seen):
            seen.add(row)
            if row not in holder or place(holder[row], seen):
                holder[row] = pod
                return True
        return False

    return all(place(pod, set()) for pod in range(len(pods)))


def most(taken: list[set[int]], stands: list[set[int]], wants: list[set[int]]) -> list[set[int]]:
    """These pods of a unit, with as many as possible of those that wait; none if it cannot stand."""
    pods = stands if matched([*taken, *stands]) else []
    for rows in wants if pods else ():
        pods = [*pods, rows] if matched([*taken, *pods, rows]) else pods
    return pods


ROWS = 7
KINDS = 3
STAND = st.builds(Stand, st.integers(0, ROWS - 1), st.sampled_from([None, 0, 1]))
EVENT = st.one_of(
    st.tuples(
        st.just("put"),
        st.integers(0, 9),
        st.integers(0, 2),
        st.integers(0, 2),
        st.booleans(),
        st.lists(STAND, max_size=3, unique_by=lambda stand: stand.row),
        st.lists(st.integers(0, KINDS - 1), max_size=3),
    ),
    st.tuples(st.just("drop"), st.integers(0, 9)),
    st.tuples(st.just("use"), st.integers(0, KINDS - 1), st.sets(st.integers(0, ROWS - 1))),
    st.tuples(st.just("settle")),
)
MASKS = st.lists(st.sets(st.integers(0, ROWS - 1)), min_size=KINDS, max_size=KINDS)


@settings(max_examples=SEQUENCES, deadline=None)
@given(masks=MASKS, alike=st.booleans(), events=st.lists(EVENT, min_size=1, max_size=25))
def test_the_plan_equals_one_made_from_scratch(
    masks: list[set[int]], alike: bool, events: list[tuple[Any, ...]]
) -> None:
    """However units come and go, and whether pods can use the same nodes or not."""
    usable = {kind: bits_of(masks[0] if alike else mask) for kind, mask in enumerate(masks)}
    vacant = set(range(ROWS))
    plain = PlainPlanner(usable, vacant)
    plan = NodePlan(lambda kind: usable[kind], lambda: bits_of(vacant))
    known: set[str] = set()
    for event in events:
        play(plan, plain, event, alike)
        if event[0] == "settle":
            known = compare(plan, plain, known)
    compare(plan, plain, known)


def play(plan: NodePlan, plain: PlainPlanner, event: tuple[Any, ...], alike: bool) -> None:
    """Make one event happen to both."""
    what, *rest = event
    if what == "put":
        number, rank, spare, hangs, stands, wants = rest
        leave_behind(plan, plain, f"u{number}")
        if stands or wants:
            key = (rank, not stands, number)
            spare = min(spare, len(stands) - 1) if stands and not wants else 0
            behind = f"u{number - 5}" if hangs and number > 4 and not stands else ""
            if behind and not (plain.asks.get(behind) and plain.asks[behind].key < key):
                behind = ""
            ask = Ask(f"u{number}", key, tuple(stands), tuple(wants), spare, behind)
            plan.put(ask)
            plain.asks[ask.id] = ask
    elif what == "drop":
        leave_behind(plan, plain, f"u{rest[0]}")
        plan.drop(f"u{rest[0]}")
        plain.asks.pop(f"u{rest[0]}", None)
    elif what == "use":
        for kind in range(KINDS) if alike else [rest[0]]:
            plain.usable[kind] = bits_of(rest[1])
        plan.usable_changed()


def leave_behind(plan: NodePlan, plain: PlainPlanner, gone: str) -> None:
    """What hangs on a unit that changes goes first."""
    for each in [ask.id for ask in plain.asks.values() if ask.behind == gone]:
        plan.drop(each)
        del plain.asks[each]


def compare(plan: NodePlan, plain: PlainPlanner, known: set[str]) -> set[str]:
    entered, _ = plan.settle()
    want = plain.shares()
    got = {each: share for each in plain.asks if (share := plan.share(each)) is not None}
    assert got == want
    for each, share in got.items():
        if share.granted:
            assert each in known or each in entered, "nobody is told that it may be tried"
    return {each for each, share in got.items() if share.granted}
