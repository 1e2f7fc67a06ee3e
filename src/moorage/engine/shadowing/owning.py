"""Lets these profiles go on with their own placements, beside another scheduler on the same cluster.

Two worlds get the same events: nodes, objects, pods that come, end or are deleted, pods of schedulers that are not
named. In one the other scheduler's binds count, in the other our own: its engine decides as soon as a pod is seen, and
its binds and evictions succeed at once. A pod that is evicted here waits again, as its controller would make another
one; a pod that the other scheduler evicts is gone in both worlds, and so is one that has run to its end there before
it got a node here. Nothing of it reaches a cluster.

Two decisions are compared once both are known, by the scores of both nodes in our world as it is then. HTTP extenders
are not asked. What volume controllers did for the other scheduler's binds counts as having come from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moorage.core.commands import Command, DeletePod
from moorage.core.disruption.away import MOVED, Away
from moorage.core.events import Event, PodGone, PodSeen
from moorage.core.pods import Pod, as_pending
from moorage.core.values import dataclass
from moorage.engine.alternative import Alternative
from moorage.engine.engine import Engine
from moorage.engine.opinion import waiting_message
from moorage.engine.shadowing.comparing import compared
from moorage.engine.shadowing.following import SETTLE_S, UNSCHEDULABLE
from moorage.engine.shadowing.shadow import Shadow, ShadowTerms, world_of
from moorage.engine.shadowing.verdicts import Decision, Finding, ShadowVerdict

_STEP = 32
"""Pods decided per call, as the scheduler does."""
_ROUNDS = 64
"""The most calls in one review: what is left is done in the next."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the other scheduler decided, and when."""

    pod: Pod
    there: str | None
    at_s: float


class Own(Shadow):
    """Two worlds on one cluster."""

    mode = "own"

    def __init__(self, terms: ShadowTerms) -> None:
        super().__init__(terms)
        self.there, self.here = world_of(terms), world_of(terms)
        self._alternative = Alternative()
        self._told: list[Event] = []
        """What our world has not been told yet."""
        self._waiting: set[str] = set()
        """Pods that wait in the other world."""
        self._bound: dict[str, _Seen] = {}
        """Pods that it has placed and that are not compared yet."""
        self._refused: dict[str, _Seen] = {}
        """Pods that it called unschedulable; `there` is None."""
        self._told_of: dict[str, frozenset[ShadowVerdict]] = {}
        """Waiting pods that have counted as pending, and how."""

    @property
    def worlds(self) -> tuple[Engine, Engine | None]:
        """The other scheduler's world, and ours."""
        return self.there, self.here

    def tell(self, event: Event, now: float, *, compares: bool = True) -> None:
        """Something was seen; a decision that there is no time to compare is taken over and counted."""
        if isinstance(event, PodSeen) and event.pod.template.scheduler_name in self._names:
            self._pod_seen(event.pod, now, compares=compares)
            if event.pod.finished and self._alternative.waits(event.pod.uid):
                self._gone(event.pod.uid)
            else:
                self._told += self._alternative.translated((event,))
        elif isinstance(event, PodGone):
            self._forget(event.uid)
            self._gone(event.uid)
        elif not isinstance(event, PodSeen) or event.pod.uid not in self._alternative.evictions:
            self._told.append(event)
        self.there.handle((event,), now, budget=0)

    def review(self, now: float, most: int = _ROUNDS) -> float | None:
        """Decide and compare, in at most so many steps; returns when to call again."""
        wakeup_s: float | None = now
        while most and self._begun and wakeup_s is not None and wakeup_s <= now:
            most -= 1
            events = [*self._alternative.answers(), *self._told]
            self._told = []
            commands, wakeup_s = self.here.handle(events, now, _STEP)
            self._alternative.decided(commands)
            self._bring_back(commands)
            if self._alternative.waiting:
                wakeup_s = now
        self._compare(now)
        open_s = [seen.at_s + SETTLE_S for seen in (*self._bound.values(), *self._refused.values())]
        return min((at_s for at_s in (wakeup_s, *open_s) if at_s is not None), default=None)

    def finish(self, now: float, in_time: Callable[[], bool] = lambda: True) -> None:  # noqa: ARG002 - it is quick
        """Compare all that is open, with what is known."""
        self.review(now)
        self._compare(now + SETTLE_S)

    # --- pods ---

    def _pod_seen(self, pod: Pod, now: float, *, compares: bool) -> None:
        uid = pod.uid
        record = self.there.state.record(uid)
        counts = self.ledger.counts
        counts.evictions.victims_there += record is not None and pod.preempted and not record.pod.preempted
        if pod.finished:
            self._forget(uid)
        elif pod.node is not None:
            if uid in self._waiting:
                self._waiting.discard(uid)
                self._refused.pop(uid, None)
                self._told_of.pop(uid, None)
                if self._begun and compares:
                    self._bound[uid] = _Seen(pod, pod.node, now)
                elif self._begun:
                    self.ledger.skip()
            elif record is None and self._begun:
                counts.unseen += 1
        elif pod.deleted_s is None:
            self._waiting.add(uid)
            condition = pod.scheduled_condition
            if self._begun and condition is not None and condition.reason == UNSCHEDULABLE:
                self._refused.setdefault(uid, _Seen(pod, None, now))  # compared once, whenever there is time

    def _gone(self, uid: str) -> None:
        """Nothing waits for this pod any more in our world, either."""
        self._told += self._alternative.translated((PodGone(uid),))
        self._alternative.forget(uid)

    def _forget(self, uid: str) -> None:
        self._waiting.discard(uid)
        self._told_of.pop(uid, None)
        for table in (self._bound, self._refused):
            table.pop(uid, None)

    def _bring_back(self, commands: Sequence[Command]) -> None:
        """Pods that were evicted here wait again, unless nothing would make them again, or nobody here places them."""
        for command in commands:
            if isinstance(command, DeletePod):
                self.ledger.counts.evictions.victims_here += 1
                record = self.here.state.record(command.pod.uid)
                if record is not None and self._would_return(record.pod):
                    self._alternative.come_back(record.pod)

    def _would_return(self, pod: Pod) -> bool:
        return pod.template.owner is not None and pod.template.scheduler_name in self._names

    # --- comparing ---

    def _compare(self, now: float) -> None:
        for uid, seen in [*self._bound.items()]:
            here = self._alternative.nodes.get(uid)
            if here is not None or now - seen.at_s >= SETTLE_S:
                del self._bound[uid]
                self._note(seen, self._finding(seen.pod, seen.there or "", here, now))
        for uid, seen in [*self._refused.items()]:
            if now - seen.at_s >= SETTLE_S:
                del self._refused[uid]
                here = self._alternative.nodes.get(uid)
                verdict = ShadowVerdict.BOTH_PENDING if here is None else ShadowVerdict.PENDING_THERE
                told = self._told_of.get(uid, frozenset())
                if verdict not in told:
                    self._told_of[uid] = told | {verdict}
                    self._note(seen, Finding(verdict, here))

    def _finding(self, pod: Pod, there: str, here: str | None, now: float) -> Finding:
        if here is None:
            return Finding(ShadowVerdict.PENDING_HERE, message=waiting_message(self.here, as_pending(pod)))
        if here == there:
            return Finding(ShadowVerdict.SAME, here)
        state = self.here.state
        with state.statement():
            Away(state).take((state.record(pod.uid),), MOVED)
            return compared(self.here, as_pending(pod), there, now, here)

    def _note(self, seen: _Seen, finding: Finding) -> None:
        pod = seen.pod
        scheduler = pod.template.scheduler_name
        self.ledger.note(Decision(seen.at_s, pod.namespace, pod.name, scheduler, seen.there, finding))
