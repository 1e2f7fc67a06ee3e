"""Decisions with HTTP extenders: each extender is called for one pod at a time, as by kube-scheduler.

The engine never blocks. A pod that an extender is interested in is judged as usual, but instead of choosing, the nodes
that passed go out as an AskExtenders command; the answer comes back as an event and the pod is judged again, on the
state of that moment, among the nodes that the extenders kept. Evictions are checked in the same way before they are
ordered. Other pods are decided on meanwhile; those that the same extenders are interested in wait for their turn, so
that an extender knows of each placement before it is called for the next pod.

An extender that fails repeatedly is not called for a while (`breakers`): if it is ignorable, it is skipped, otherwise
its pods fail at once. When it is tried again, only the pod of that request waits.

Invariants: there is at most one open request to an extender; every command is answered.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.commands import AskExtenders, AskPreemption, Bind, Command, Victims
from moorage.core.events import ExtendersAnswered, PreemptionAnswered
from moorage.core.pods import PodTemplate
from moorage.core.resources import Requests
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.engine.breakers import Breaker, Breakers
from moorage.engine.evictor import ref_of
from moorage.engine.failures import EXTENDER, Failure
from moorage.engine.faults import failed
from moorage.engine.lifecycle import TRYING, UNSCHEDULABLE
from moorage.engine.queue import SchedulingQueue
from moorage.engine.turn import Turn
from moorage.engine.units import QueuedPod, Unit
from moorage.framework.changes import Change
from moorage.framework.configuration import Extender
from moorage.framework.cycle import Cycle
from moorage.framework.preemption import ALL_CANDIDATES, Candidate, best_of, nomination_of
from moorage.framework.runner import Judgement, PluginRejections, Runner
from moorage.framework.status import Code, Nomination, Reason, Rejections

_NO_CANDIDATE = "preemption: no candidate node for preemption"
_KEPT_INTERESTS = 4096


@dataclass(frozen=True, slots=True)
class Endings:
    """How the engine continues with a pod once its request is answered."""

    place: Callable[[QueuedPod, Runner, Cycle, int, Turn], None]
    """The pod gets a row."""
    reject: Callable[[QueuedPod, Runner, Cycle, Judgement, Turn], None]
    """No row fits."""
    conclude: Callable[[QueuedPod, Runner, Failure, Nomination | None, Turn], None]
    """No row fits, and PostFilter has run."""


_GoOn: TypeAlias = Callable[[], None]
"""What to do next, once plugins were called."""


@dataclass(frozen=True, slots=True)
class Interest:
    """The extenders that are interested in a pod, by request; numbers are their places in the configuration."""

    nodes: tuple[int, ...] = ()
    victims: tuple[int, ...] = ()
    binder: int | None = None

    @property
    def places(self) -> frozenset[int]:
        """All that are called before a pod is bound."""
        return frozenset(self.nodes + self.victims)


@dataclass(frozen=True, slots=True)
class _Question:
    """An open request about a pod."""

    entry: QueuedPod
    runner: Runner
    asked: frozenset[str] = frozenset()
    """Nodes."""
    nominated: bool = False
    """Whether only the node that the pod is nominated to was sent."""
    failure: Failure | None = None
    """Set if the request is about evictions: how the attempt ended."""
    places: frozenset[int] = frozenset()
    """The extenders that take part in the attempt; there is no other open request to them."""
    token: int = 0
    """Identifies its answer."""


class Asking:
    """The pods that extenders are interested in, from the start of their attempt to its end."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        state: ClusterState,
        queue: SchedulingQueue,
        endings: Endings,
        token: Callable[[], int],
    ) -> None:
        """`token` returns a new number that identifies an answer."""
        self._token = token
        self._extenders = extenders
        self._state = state
        self._queue = queue
        self._endings = endings
        self._order = sorted(range(len(extenders)), key=lambda place: extenders[place].ignorable)
        """Extenders that are not ignorable come first."""
        self.breakers = Breakers([Breaker(extender.url_prefix.rstrip("/")) for extender in extenders])
        self._open: dict[int, _Question] = {}
        """By token."""
        self._busy: set[int] = set()
        """The extenders that take part in open requests."""
        self._waiting: dict[frozenset[int], list[tuple[tuple[Any, ...], int, QueuedPod]]] = {}
        """The extenders that pods wait for -> those pods, a heap."""
        self._tickets = 0
        self._meanwhile: dict[str, list[Change]] = {}
        """uid -> what has happened since the first request about the pod."""
        self._interests: dict[Requests, Interest] = {}

    def interest(self, template: PodTemplate) -> Interest:
        """The extenders that are interested in pods like this."""
        found = self._interests.get(template.requests)
        if found is None:
            if len(self._interests) >= _KEPT_INTERESTS:
                self._interests.clear()
            found = self._interests[template.requests] = self._interest(template.requests)
        return found

    def _interest(self, requests: Requests) -> Interest:
        names = {name for name, _ in requests.amounts}
        about = [
            (place, self._extenders[place])
            for place in self._order
            if not self._extenders[place].managed_resources
            or any(resource.name in names for resource in self._extenders[place].managed_resources)
        ]
        binders = [place for place, extender in about if extender.bind_verb]
        return Interest(
            tuple(place for place, extender in about if extender.filter_verb or extender.prioritize_verb),
            tuple(place for place, extender in about if extender.preempt_verb),
            binders[0] if binders else None,
        )

    # --- circuits ---

    def _asked(self, template: PodTemplate, now: float) -> Interest:
        """The extenders to call for pods like this now: without ignorable ones that fail repeatedly."""
        found = self.interest(template)
        if not any(breaker.is_open for breaker in self.breakers.all):
            return found
        return replace(
            found,
            nodes=tuple(place for place in found.nodes if self._needed(place, now)),
            victims=tuple(place for place in found.victims if self._needed(place, now)),
        )

    def _needed(self, place: int, now: float) -> bool:
        return not self._extenders[place].ignorable or self._admits(place, now)

    def _admits(self, place: int, now: float) -> bool:
        """Whether a request would be let through; while an extender is being tried, no other request is."""
        breaker = self.breakers.all[place]
        return breaker.admits(now) and not (breaker.is_open and place in self._busy)

    def _refusal(self, places: Iterable[int], now: float) -> str:
        """Why these extenders are not called; empty if they are."""
        for breaker in [self.breakers.all[place] for place in places if not self._admits(place, now)]:
            return f"extender {breaker.name} failed {breaker.failures} times in a row and is not asked: {breaker.error}"
        return ""

    # --- taking turns ---

    def anew(self) -> Asking:
        """The same extenders with nothing asked of them yet: answers that are still owed will mean nothing."""
        asking = Asking(self._extenders, self._state, self._queue, self._endings, self._token)
        asking.breakers = self.breakers
        return asking

    def has(self, entry: QueuedPod) -> bool:
        """Whether a pod waits for its turn, or for an answer."""
        asked = any(question.entry is entry for question in self._open.values())
        return asked or any(each is entry for heap in self._waiting.values() for _, _, each in heap)

    def entries(self) -> list[QueuedPod]:
        """The pods that wait for an answer, or for their turn."""
        waiting = sorted((item for heap in self._waiting.values() for item in heap), key=lambda item: item[:2])
        entries = [*(question.entry for question in self._open.values()), *(entry for _, _, entry in waiting)]
        return [entry for entry in entries if self._is_current(entry)]

    def ready(self) -> bool:
        """Whether `pop` would find a pod that waits for its turn."""
        return bool(self._waiting) and self._turn() is not None

    def _turn(self) -> frozenset[int] | None:
        """The extenders whose pods are next: none of them has an open request."""
        breakers = self.breakers.all
        free = [
            places
            for places in self._waiting
            if not any(place in self._busy and not breakers[place].is_open for place in places)
        ]
        return min(free, key=lambda places: self._waiting[places][0][:2], default=None)

    def pop(self, now: float) -> Unit | None:
        """The next unit to try."""
        while self._waiting and (places := self._turn()) is not None:
            heap = self._waiting[places]
            _, _, entry = heapq.heappop(heap)
            if not heap:
                del self._waiting[places]
            if self._is_current(entry):
                return entry.unit
        return self._queue.pop(now)

    def takes(self, entry: QueuedPod, runner: Runner, cycle: Cycle, turn: Turn) -> bool:
        """Try a pod that extenders are interested in, or let it wait for its turn; False if none is interested."""
        asked = self._asked(cycle.template, turn.now)
        if not asked.nodes and not asked.victims:
            return False
        breakers = self.breakers.all
        if any(place in self._busy and not breakers[place].is_open for place in asked.places):
            self._tickets += 1
            waiting = self._waiting.setdefault(asked.places, [])
            heapq.heappush(waiting, (self._queue.key(entry.unit), self._tickets, entry))
            return True
        self._meanwhile[entry.pod.uid] = []
        self._guarded(lambda: self._begin(entry, runner, cycle, turn), entry, runner, turn)
        self._catch_up(entry, turn.now)
        return True

    def _is_current(self, entry: QueuedPod) -> bool:
        return self._queue.get(entry.pod.uid) is entry and entry.state is TRYING

    def _guarded(self, step: Callable[[], _GoOn], entry: QueuedPod, runner: Runner, turn: Turn) -> None:
        """Find out how to continue, then do it; if a plugin raises, only this attempt ends."""
        try:
            go_on = step()
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
            failure = Failure(failed(error), frozenset(), Code.ERROR)
            self._endings.conclude(entry, runner, failure, None, turn)
            return
        go_on()

    # --- nodes ---

    def _begin(self, entry: QueuedPod, runner: Runner, cycle: Cycle, turn: Turn) -> _GoOn:
        """Ask about the nominated node alone if the pod fits there, else about all nodes that it fits on."""
        nominated = self._state.nominations.node_of(entry.pod.uid)
        row = None if nominated is None else self._state.row_of(nominated)
        if nominated is not None and row is not None and runner.fits(cycle, row):
            asked = self._asked(cycle.template, turn.now).nodes
            if asked and not self._refusal(asked, turn.now):
                question = _Question(entry, runner, frozenset({nominated}), True)
                return lambda: self._ask((nominated,), question, turn)
            if not asked:
                cycle.feasible = 1
                return lambda: self._endings.place(entry, runner, cycle, row, turn)
        return self._ask_all(entry, runner, cycle, turn)

    def _ask_all(self, entry: QueuedPod, runner: Runner, cycle: Cycle, turn: Turn) -> _GoOn:
        judgement = runner.judge(cycle, self._state.rows())
        if not len(judgement.passed):
            return lambda: self._endings.reject(entry, runner, cycle, judgement, turn)
        asked = self._asked(cycle.template, turn.now).nodes
        if not asked:
            row = self._best(runner, cycle, judgement.passed, {})
            return lambda: self._endings.place(entry, runner, cycle, row, turn)
        refusal = self._refusal(asked, turn.now)
        if refusal:
            failure = Failure(refusal, frozenset(), Code.ERROR)
            return lambda: self._endings.conclude(entry, runner, failure, None, turn)
        names = tuple(self._names(judgement.passed))
        return lambda: self._ask(names, _Question(entry, runner, frozenset(names)), turn)

    def _ask(self, names: tuple[str, ...], question: _Question, turn: Turn) -> None:
        pod = question.entry.pod
        asked = self._asked(pod.template, turn.now)
        token = self._put(question, asked)
        turn.commands.append(AskExtenders(ref_of(pod), names, asked.nodes, pod.resource_version, token))

    def _put(self, question: _Question, asked: Interest) -> int:
        """Register a request; returns its token."""
        token = self._token()
        self._open[token] = replace(question, places=asked.places, token=token)
        self._busy |= asked.places
        return token

    def nodes_answered(self, event: ExtendersAnswered, turn: Turn) -> None:
        """Decide among the nodes that the extenders kept; nodes that were not in the request need another one."""
        question = self._close(event, turn.now, evictions=False)
        if question is None:
            return
        entry, runner = question.entry, question.runner
        if event.error and not question.nominated:
            failure = Failure(event.error, frozenset(), Code.ERROR)
            self._endings.conclude(entry, runner, failure, None, turn)
            self._meanwhile.pop(entry.pod.uid, None)
            return
        decide = self._decide_nominated if question.nominated else self._decide
        cycle = Cycle(entry.pod, self._state, turn.now)
        cycle.misfit_s = entry.misfit_s
        self._guarded(lambda: decide(question, event, cycle, turn), entry, runner, turn)
        self._catch_up(entry, turn.now)

    def _decide_nominated(self, question: _Question, event: ExtendersAnswered, cycle: Cycle, turn: Turn) -> _GoOn:
        """Take the nominated node if it was kept; otherwise the attempt continues with all nodes."""
        entry, runner = question.entry, question.runner
        kept = () if event.error else event.kept
        for row in (self._state.row_of(name) for name in kept if name in question.asked):
            if row is not None and runner.fits(cycle, row):
                cycle.feasible = 1
                return partial(self._endings.place, entry, runner, cycle, row, turn)
        return self._ask_all(entry, runner, cycle, turn)

    def _decide(self, question: _Question, event: ExtendersAnswered, cycle: Cycle, turn: Turn) -> _GoOn:
        entry, runner = question.entry, question.runner
        judgement = runner.judge(cycle, self._state.rows())
        names = self._names(judgement.passed)
        kept = frozenset(event.kept)
        rows = judgement.passed[[name in kept for name in names]] if names else judgement.passed
        if len(rows):
            row = self._best(runner, cycle, rows, event.scores)
            return lambda: self._endings.place(entry, runner, cycle, row, turn)
        if not question.asked.issuperset(names):
            return self._ask_all(entry, runner, cycle, turn)
        rejected = _rejected(judgement, names, event)
        return lambda: self._endings.reject(entry, runner, cycle, rejected, turn)

    def _best(self, runner: Runner, cycle: Cycle, rows: Rows, scores: Mapping[str, int]) -> int:
        """The row with the best total of plugins and extenders, as `Runner.decide` breaks ties."""
        more: Ints = np.array([scores.get(name, 0) for name in self._names(rows)], dtype=np.int64)
        return runner.best_of(cycle, rows, more)

    def _names(self, rows: Rows) -> list[str]:
        return [self._state.node(int(row)).name for row in rows]

    def _close(self, event: ExtendersAnswered | PreemptionAnswered, now: float, *, evictions: bool) -> _Question | None:
        """Close the request of an answer and return it; None if it is not open, or its pod is not waiting any more."""
        question = self._open.get(event.token)
        if question is None or (question.failure is not None) != evictions:
            return None
        del self._open[event.token]
        self._busy = {place for other in self._open.values() for place in other.places}
        self.breakers.heard(event.heard, event.faults, now)
        if self._is_current(question.entry):
            return question
        self._meanwhile.pop(question.entry.pod.uid, None)
        return None

    def changed(self, changes: Iterable[Change]) -> None:
        """Note what happens while requests are open."""
        for seen in self._meanwhile.values():
            seen.extend(changes)

    def meanwhile(self) -> Counter[str]:
        """What has happened since the oldest open request was sent, by the names of kube-scheduler's events."""
        return Counter(change.label for change in max(self._meanwhile.values(), key=len, default=()))

    def _catch_up(self, entry: QueuedPod, now: float) -> None:
        """After its attempt, wake a pod that changes in the meantime may help, unless it has another open request."""
        if any(question.entry is entry for question in self._open.values()):
            return
        changes = self._meanwhile.pop(entry.pod.uid, [])
        unit = entry.unit
        if entry.state is UNSCHEDULABLE and any(
            self._queue.helps(name, unit, change, now) for change in changes for name in sorted(unit.rejected_by)
        ):
            self._queue.wake(unit, now)

    # --- evictions ---

    def prepare(self, cycle: Cycle) -> None:
        """Before PostFilter: ask plugins for all candidates, as extenders will choose among them."""
        if self._asked(cycle.template, cycle.now).victims:
            cycle.memo[ALL_CANDIDATES] = True

    def consults(
        self,
        entry: QueuedPod,
        runner: Runner,
        failure: Failure,
        nomination: Nomination | None,
        turn: Turn,
    ) -> bool:
        """Ask about evictions before they are ordered; False if no extender has to be asked."""
        pod = entry.pod
        asked = self._asked(pod.template, turn.now)
        if nomination is None or not nomination.candidates or not asked.victims:
            return False
        refusal = self._refusal(asked.victims, turn.now)
        if refusal:
            failure = replace(failure, message=f"{failure.message} preemption: {refusal}")
            self._endings.conclude(entry, runner, failure, None, turn)
            return True
        token = self._put(_Question(entry, runner, failure=failure), asked)
        candidates, version = nomination.candidates, pod.resource_version
        turn.commands.append(AskPreemption(ref_of(pod), candidates, asked.victims, version, token))
        return True

    def victims_answered(self, event: PreemptionAnswered, turn: Turn) -> None:
        """Apply the best candidate that is left, or report why there is none."""
        question = self._close(event, turn.now, evictions=True)
        if question is None or question.failure is None:
            return
        entry = question.entry
        failure, nomination, tail = question.failure, None, ""
        candidates = [found for offer in event.candidates if (found := self._candidate(offer)) is not None]
        if event.error:
            tail = f"preemption: {event.error}"
        elif not candidates:
            tail = _NO_CANDIDATE
        else:
            nomination = nomination_of(self._state, best_of(Cycle(entry.pod, self._state, turn.now), candidates))
            tail = nomination.message
        failure = replace(failure, message=f"{failure.message} {tail}")
        self._endings.conclude(entry, question.runner, failure, nomination, turn)
        self._catch_up(entry, turn.now)

    def _candidate(self, offer: Victims) -> Candidate | None:
        """A candidate on the current state; None if a victim has left its node in the meantime."""
        row = self._state.row_of(offer.node)
        records = [self._state.record(pod.uid) for pod in offer.pods]
        there = [record for record in records if record is not None and record.node == offer.node]
        if row is None or not there or len(there) < len(records):
            return None
        there.sort(key=lambda record: -record.pod.template.priority)
        return Candidate(row, tuple(there), offer.violations)

    # --- binding ---

    def delegated(self, command: Command, template: PodTemplate) -> Command:
        """A bind, delegated to the extender that binds pods like this, if there is one."""
        binder = self.interest(template).binder
        if binder is None or not isinstance(command, Bind):
            return command
        if self._extenders[binder].ignorable and self.breakers.all[binder].is_open:
            return command
        return command._replace(extender=binder)


def _rejected(judgement: Judgement, names: Sequence[str], event: ExtendersAnswered) -> Judgement:
    """The judgement with the extenders' rejections; nodes dropped without a reason count as unresolvable."""
    groups: dict[Reason, list[int]] = {}
    silent: list[int] = []
    for row, name in zip(map(int, judgement.passed), names, strict=True):
        if name in event.unresolvable:
            groups.setdefault(Reason(event.unresolvable[name], resolvable=False), []).append(row)
        elif name in event.failed:
            groups.setdefault(Reason(event.failed[name]), []).append(row)
        else:
            silent.append(row)
    verdicts = [_verdict(rows, (reason,)) for reason, rows in groups.items()]
    if silent and not verdicts:
        verdicts.append(_verdict([], ()))  # it rejects nothing, but names what has to answer differently
    return replace(
        judgement,
        passed=judgement.passed[:0],
        verdicts=(*judgement.verdicts, *verdicts),
        excluded=np.concatenate([judgement.excluded, np.array(silent, dtype=np.intp)]),
    )


def _verdict(rows: list[int], reasons: tuple[Reason, ...]) -> PluginRejections:
    return PluginRejections(
        EXTENDER, np.array(rows, dtype=np.intp), Rejections(np.ones(len(rows), dtype=np.int64), reasons)
    )
