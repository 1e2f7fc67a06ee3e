"""The loop between the outside and the engine: events in, decisions, commands out, and the time in between.

Decisions run only as far ahead of the posted binds as there are places (engine/bindingcycles.py), and in steps of
`_STEP` so that events are received in between. Nothing is decided before everything that is watched was listed once,
nor while another process leads. A turn that takes longer than `_TURN_S` ends early: its decisions are carried out,
events that it has not applied wait for the next turn, and the slow plugins are named in the log. Requests share the
thread with decisions, so pods that take long are tried when no others are active and no bind is in flight
(engine/pacing.py), and after a slow turn the loop listens for `_LISTEN_S`, so that what came in the meantime is
received before another slow turn begins.

Every step of the loop updates the heartbeat (`ticked_s`), on which the renewal of the lease depends. A loop that has
nothing to do still turns every `tick_s`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from moorage.adapters import clock
from moorage.adapters.journal.writer import Journal
from moorage.adapters.metrics.scheduler import MeasuredTurn, SchedulerMetrics
from moorage.adapters.metrics.slowness import SLOW_S
from moorage.adapters.tracing.pods import PodTraces
from moorage.app.decisions import DecisionLog, tell_of_circuits
from moorage.app.selfcheck import SelfCheck
from moorage.app.watch import TurnWatch
from moorage.core.commands import Command
from moorage.core.events import DecisionSlow, Event
from moorage.engine.engine import Engine

_STEP = 32
_TURN_S = 0.25
_LOOK_S = 0.02
_LISTEN_S = 0.02
"""Data that has arrived takes several steps of the event loop, not one, from the socket to the inbox."""
_BUSY, _GATHER_S = 128, 0.002
"""With this many binds in flight there is enough to post for a while, and answers are cheaper to handle in batches."""

log = structlog.get_logger()


class DecisionLoop:
    """Feeds one engine. `carry_out` gets every command and must not block."""

    def __init__(
        self,
        engine: Engine,
        carry_out: Callable[[Command], None],
        *,
        metrics: SchedulerMetrics | None = None,
        now_s: Callable[[], float] = clock.now_s,
        timer_s: Callable[[], float] = time.monotonic,
        decision_log: DecisionLog | None = None,
        leading: Callable[[], bool] = lambda: True,
        tick_s: float = math.inf,
        journal: Journal | None = None,
        selfcheck: SelfCheck | None = None,
        traces: PodTraces | None = None,
    ) -> None:
        self.engine = engine
        self.journal = journal
        """Records everything that goes into the engine."""
        self.deciding = False
        """Whether decisions are made, provided that `leading` allows it; events are always applied."""
        self.paused = False
        """Whether decisions are paused, although this process leads."""
        self.ticked_s = timer_s()
        """When the last step of a turn was done, by the monotonic clock. Read by other threads."""
        self._leading = leading
        self._tick_s = tick_s
        self._carry_out = carry_out
        self._metrics = metrics
        self._now_s = now_s
        self._timer_s = timer_s
        self._decision_log = decision_log
        self._selfcheck = selfcheck
        self._traces = traces
        self._inbox: list[Event] = []
        self._taken = 0
        """How many events the engine has applied."""
        self._wake = asyncio.Event()
        self._was_slow = False
        """Whether the last turn took long."""

    def put(self, event: Event) -> None:
        """Hand over an event; called from the event loop's thread."""
        self._inbox.append(event)
        self._wake.set()

    def put_all(self, events: Iterable[Event]) -> None:
        """Hand over several events."""
        self._inbox.extend(events)
        self._wake.set()

    def start_deciding(self) -> None:
        """Start to place pods."""
        self.deciding = True
        self._wake.set()

    async def tell(self, event: Event) -> None:
        """Hand over an event, and wait until the engine has applied it and all earlier ones."""
        self.put(event)
        taken = self._taken + len(self._inbox)
        while self._taken < taken:  # noqa: ASYNC110 - an asyncio.Event would cost something in every turn
            await asyncio.sleep(_LOOK_S)

    async def answered(self, timeout_s: float) -> None:
        """Wait until every bind that was ordered, or follows a record, is answered, or for the timeout. Pause first."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.engine.bindings.posted or self.engine.gangs.recording:  # noqa: ASYNC110 - an event would cost something in every turn
                    await asyncio.sleep(_LOOK_S)

    async def applied(self, timeout_s: float) -> None:
        """Wait until all events that were handed over are applied, or until the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._inbox:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(_LOOK_S)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            next_s = self._turn()
            if next_s is not None and next_s <= self._now_s() and self._budget():
                await asyncio.sleep(_LISTEN_S if self._was_slow else 0)
                continue
            if not self._budget():
                next_s = self.engine.next_change_s(deciding=False)  # no decisions now, but deadlines still count
            timeout_s = self._tick_s if next_s is None else min(self._tick_s, max(0.0, next_s - self._now_s()))
            with contextlib.suppress(TimeoutError):  # not wait_for, which may miss that it is cancelled
                async with asyncio.timeout(None if timeout_s == math.inf else timeout_s):
                    await self._wake.wait()
            if self.engine.bindings.posted >= _BUSY:
                await asyncio.sleep(_GATHER_S)
            self._wake.clear()

    def _turn(self) -> float | None:
        now_s, began_s = self._now_s(), self._timer_s()
        self._tick(began_s)
        watch = TurnWatch(min(_TURN_S, self._tick_s / 2), self._timer_s, self._tick)
        sampled = self._metrics is not None and self._metrics.sampling.begin(began_s)
        told = watch.events(self._inbox)
        if self._metrics is not None and sampled:
            told = self._metrics.sampling.events(told)
        budget = min(self._budget(), _STEP)
        commands: list[Command] | None = None
        try:
            commands, next_s = self.engine.handle(told, now_s, budget, watch.stop)
        finally:
            ended_s = self._timer_s()
            self._was_slow = ended_s - began_s >= SLOW_S
            events, self._inbox = self._inbox[: watch.taken], self._inbox[watch.taken :]
            self._taken += watch.taken
            if self._metrics is not None and sampled:
                self._metrics.sampling.end(ended_s)
            if self.journal is not None:
                self.journal.turn(events, now_s, budget, commands, watch.stopped_at)
        if self._selfcheck is not None:
            self._selfcheck.look()
        if self._inbox:
            self._wake.set()
        if self._metrics is not None:
            self._metrics.observe(MeasuredTurn(events, commands, now_s, began_s, ended_s))
        if self._traces is not None:
            self._traces.observe(events, commands, now_s)
        self._name_slow(watch.step_s, ended_s)
        self._announce(events, commands)
        for command in commands:
            self._carry_out(command)
        return next_s

    def _announce(self, events: Sequence[Event], commands: Sequence[Command]) -> None:
        """Log what a turn resulted in."""
        for fault in self.engine.faults.take():
            log.error("a plugin failed", fault=fault)
        if self.engine.asking is not None:
            tell_of_circuits(self.engine.asking.breakers.take_news())
        if self._decision_log is not None:
            self._decision_log.tell(events, commands)

    def _tick(self, at_s: float) -> None:
        self.ticked_s = at_s

    def _name_slow(self, last_s: float, ended_s: float) -> None:
        """Tell the engine which pods took long, and log which plugin was slow.

        In a turn that was not sampled the slow plugin is unknown; only the pod after which the turn ended early is
        known. `last_s` is how long that one took.
        """
        told, named = ([], []) if self._metrics is None else self._metrics.sampling.slowness.take()
        if not told and last_s >= SLOW_S and self.engine.stopped_after:
            told = [DecisionSlow(self.engine.stopped_after, "", last_s)]
            if self._metrics is not None:
                self._metrics.sampling.alert(ended_s)
        if told:
            self.put_all(told)
        for slow in named:
            words = "a plugin is repeatedly slow; pods of other namespaces go first"
            log.warning(words, plugin=slow.plugin, pods=slow.pods, longest_s=round(slow.longest_s, 3))

    def _budget(self) -> int:
        """Pods that wait in Permit or PreBind do not count: they may wait for pods that are not decided yet."""
        if not self.deciding or self.paused or not self._leading():
            return 0
        return self.engine.bindings.free
