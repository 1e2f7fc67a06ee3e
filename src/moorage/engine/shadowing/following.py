"""Follows another scheduler: each of its decisions is judged on the state that it was made on, then taken over.

A decision is seen when the watch shows the pod on its node; updates of pods come in the order of their resource
versions, so whatever was seen before is the state. What differs is judged again a little later, when binds that were
decided earlier and written later are known (`ordering`). A pod that the other scheduler calls unschedulable is judged
then, and again a little later: it counts as pending there and placed here only if it fits both times. Pods that it
evicts are put back for the comparison.

`tell` and `review` are the only ways in. Everything that is kept is bounded by the pods that wait and by constants.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from moorage.core.disruption.away import MOVED, Away
from moorage.core.events import Event, PodGone, PodSeen
from moorage.core.pods import Condition, Pod, as_pending
from moorage.core.state import NOWHERE
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.faults import describe
from moorage.engine.placing import choose
from moorage.engine.shadowing.comparing import compared, cycle_of, placed
from moorage.engine.shadowing.ordering import NEIGHBOURS, MoveLog, OpenDecision, explained, go_back
from moorage.engine.shadowing.shadow import Shadow, ShadowTerms, world_of
from moorage.engine.shadowing.verdicts import DISAGREEMENT, ComparedEviction, Decision, Finding, ShadowVerdict

SETTLE_S = 2.0
"""After this time all that belongs to a decision has been seen."""
MOST_OPEN = 2048
"""From so many on, differences are judged before their time."""
MOST_KEPT_OPEN = 4 * MOST_OPEN
"""Where differences come faster than they are judged again, the oldest are given up."""
UNSCHEDULABLE = "Unschedulable"
_TOO_MANY = "too many differences at once to be judged again"
_ALL = 1 << 62


@dataclass(slots=True)
class Waiting:
    """A pod without a node."""

    since: int
    """The number of the moment when it was first seen."""
    condition: Condition | None = None
    nominated: str | None = None
    counted: frozenset[ShadowVerdict] = frozenset()
    """Verdicts that it has counted for: each at most once."""


@dataclass(frozen=True, slots=True)
class _Open:
    """Something that is judged again, or judged at all, a little later."""

    due_s: float
    number: int
    decision: Decision
    pod: Pod
    """Without a node."""
    since: int = 0
    evicting: bool = False


class Follow(Shadow):
    """One other scheduler, or several, beside these profiles."""

    mode = "follow"

    def __init__(self, terms: ShadowTerms) -> None:
        super().__init__(terms)
        self.engine = world_of(terms)
        self.waiting: dict[str, Waiting] = {}
        self._moves = MoveLog()
        self._open: deque[_Open] = deque()

    @property
    def worlds(self) -> tuple[Engine, Engine | None]:
        """The other scheduler's world, and ours, which is the same here."""
        return self.engine, None

    def tell(self, event: Event, now: float, *, compares: bool = True) -> None:
        """Something was seen; a decision that there is no time to compare is taken over and counted."""
        if isinstance(event, PodSeen):
            self._pod_seen(event.pod, now, compares=compares)
        elif isinstance(event, PodGone):
            self.waiting.pop(event.uid, None)
            self._left(event.uid)
        self.engine.handle((event,), now, budget=0)

    def review(self, now: float, most: int = _ALL) -> float | None:
        """Judge what is due, at most so many; returns when to call again, None if nothing is open."""
        while self._open:
            first = self._open[0]
            known = self._moves.count_after(first.number) >= 2 * NEIGHBOURS
            if now < first.due_s and len(self._open) <= MOST_OPEN and not (known and not first.evicting):
                return first.due_s
            if not most:
                return now
            most -= 1
            self._open.popleft()
            self._conclude(first, now)
        return None

    def finish(self, now: float, in_time: Callable[[], bool] = lambda: True) -> None:
        """Judge all that is open, with what is known; what is not judged in time is given up."""
        while self._open:
            open_ = self._open.popleft()
            if in_time():
                self._conclude(open_, now)
            else:
                self._give_up(open_)

    # --- pods ---

    def _pod_seen(self, pod: Pod, now: float, *, compares: bool) -> None:
        uid, known = pod.uid, self.waiting.get(pod.uid)
        if pod.finished:
            self.waiting.pop(uid, None)
            self._left(uid)
        elif pod.node is not None:
            if known is not None:
                del self.waiting[uid]
            if self.engine.state.record(uid) is None:
                self._came(pod, known, now, compares=compares)
        elif pod.deleted_s is None:
            if known is None:
                known = self.waiting[uid] = Waiting(self._moves.step())
            if self._begun and pod.template.scheduler_name in self._names:
                self._still_waits(pod, known, now, compares=compares)

    def _left(self, uid: str) -> None:
        record = self.engine.state.record(uid)
        if record is not None:
            self._moves.note(record.pod, came=False)

    def _came(self, pod: Pod, known: Waiting | None, now: float, *, compares: bool) -> None:
        named = self._begun and pod.template.scheduler_name in self._names
        if named and known is None:
            self.ledger.counts.unseen += 1
        elif named and known is not None and compares:
            self._decided(pod, known, now)
            return
        elif named:
            self.ledger.skip()
        self._moves.note(pod, came=True, since=0 if known is None else known.since)

    def _decided(self, pod: Pod, known: Waiting, now: float) -> None:
        """The other scheduler has placed a pod."""
        there = pod.node or ""
        pending = self._pending(pod)
        decision = self._decision(pod, there, compared(self.engine, pending, there, now), now)
        number = self._moves.note(pod, came=True, since=known.since)
        if decision.verdict in DISAGREEMENT:
            self._postpone(_Open(now + SETTLE_S, number, decision, pending, known.since))
        else:
            self.ledger.note(decision)

    def _still_waits(self, pod: Pod, known: Waiting, now: float, *, compares: bool) -> None:
        condition, nominated = pod.scheduled_condition, pod.nominated_node
        news = nominated is not None and nominated != known.nominated
        refused = condition is not None and condition.reason == UNSCHEDULABLE and condition != known.condition
        known.condition, known.nominated = condition, nominated
        if not compares:
            self.ledger.skip(news or refused)
        elif news:
            decision = self._decision(pod, nominated, Finding(ShadowVerdict.UNDECIDED), now)
            open_ = _Open(now + SETTLE_S, self._moves.step(), decision, self._pending(pod), known.since, evicting=True)
            self._postpone(open_)
        elif refused and nominated is None:
            pending = self._pending(pod)
            decision = self._decision(pod, None, placed(self.engine, pending, now), now)
            if decision.verdict is ShadowVerdict.PENDING_THERE:
                self._postpone(_Open(now + SETTLE_S, self._moves.step(), decision, pending, known.since))
            else:
                self._count_once(pod.uid, decision)

    def _pending(self, pod: Pod) -> Pod:
        """The pod as the profile would have been asked about it: as it last waited."""
        entry = self.engine.queue.get(pod.uid)
        return as_pending(pod) if entry is None else entry.pod

    def _decision(self, pod: Pod, there: str | None, finding: Finding, now: float) -> Decision:
        return Decision(now, pod.namespace, pod.name, pod.template.scheduler_name, there, finding)

    def _count_once(self, uid: str, decision: Decision) -> None:
        known = self.waiting.get(uid)
        if known is not None and decision.verdict not in known.counted:
            known.counted |= {decision.verdict}
            self.ledger.note(decision)

    # --- what is judged later ---

    def _postpone(self, open_: _Open) -> None:
        self._open.append(open_)
        if len(self._open) > MOST_KEPT_OPEN:
            self._give_up(self._open.popleft())

    def _give_up(self, open_: _Open) -> None:
        undecided = Finding(ShadowVerdict.UNDECIDED, message=_TOO_MANY)
        self.ledger.note(replace(open_.decision, finding=undecided))

    def _conclude(self, open_: _Open, now: float) -> None:
        decision = open_.decision
        if open_.evicting:
            self._compare_victims(open_, now)
        elif decision.there is not None:
            question = OpenDecision(open_.pod, decision.there, open_.since, open_.number)
            finding, flips = explained(self.engine, self._moves, question, now)
            if finding.verdict in (ShadowVerdict.ORDER, ShadowVerdict.UNDECIDED):
                decision = replace(decision, finding=finding, flips=flips)
            self.ledger.note(decision)
        elif open_.pod.uid in self.waiting:
            finding = placed(self.engine, self._pending(open_.pod), now)
            self._count_once(open_.pod.uid, replace(decision, finding=finding))

    def _compare_victims(self, open_: _Open, now: float) -> None:
        """What the profile does without the evictions of the other scheduler."""
        decision, state = open_.decision, self.engine.state
        there = decision.there or ""
        later = self._moves.after(open_.since)
        gone = [move.pod for move in later if not move.came and move.pod.node == there and move.pod.preempted]
        row = state.row_of(there)
        going = [] if row is None else [each.pod for each in state.records_on(row) if each.pod.preempted]
        with state.statement():
            go_back(state, [move for move in later if move.number > open_.number])
            for victim in (*gone, *going):
                state.observe_pod(replace(victim, deleted_s=None, preempted=False))
            Away(state).take((state.record(open_.pod.uid),), MOVED)
            state.nominations.clear(open_.pod.uid)
            here, victims = self._room(replace(open_.pod, nominated_node=None), now)
        keys = tuple(victim.key for victim in (*gone, *going))
        self.ledger.evicted(
            ComparedEviction(now, decision.namespace, decision.name, decision.scheduler, there, here, keys, victims)
        )

    def _room(self, pod: Pod, now: float) -> tuple[str | None, tuple[str, ...]]:
        engine, runner = self.engine, self.engine.runner_of(pod)
        if runner is None:
            return None, ()
        try:
            cycle = cycle_of(engine, pod, now)
            row = choose(engine.state, runner, cycle)
            if row != NOWHERE:
                return engine.state.node(row).name, ()
            judgement = runner.judge(cycle_of(engine, pod, now), engine.state.rows())
            row, records = engine.trial(now).make_room(runner, cycle_of(engine, pod, now), judgement)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the comparison of other pods
            engine.faults.add(f"what to evict for {pod.key}: {describe(error)}", error)
            return None, ()
        return (None if row == NOWHERE else engine.state.node(row).name), tuple(each.pod.key for each in records)
