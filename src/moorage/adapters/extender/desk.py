"""Where questions are answered: bytes in, bytes out, on a picture of the cluster that events keep up to date.

A question that has to wait is asked again whenever something happens, and at the time that the decision names. Others
are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from moorage.adapters import clock
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.core.commands import Bind, Command
from moorage.core.events import BindDone, BindOutcome, Event
from moorage.engine.extending import Extending, Filtered
from moorage.wire.extender_questions import (
    NodeQuestion,
    binding_answer,
    filter_answer,
    filter_error,
    preemption_answer,
    priorities_answer,
    read_binding_question,
    read_node_question,
    read_preemption_question,
)
from moorage.wire.templates import TemplateTable

_TURNS = 3
"""Turns of the event loop that bytes of a watch take at most until they have become an event."""


class Desk:
    """Answers for one `Extending`.

    `bind` carries out a bind and says what came of it, `carry_out` gets commands that need no answer, `now_s` is the
    time.
    """

    def __init__(
        self,
        extending: Extending,
        bind: Callable[[Bind], Awaitable[BindDone]],
        metrics: ExtenderMetrics,
        *,
        carry_out: Callable[[Command], None] = lambda _: None,
        now_s: Callable[[], float] = clock.now_s,
    ) -> None:
        self._extending = extending
        self._bind = bind
        self._metrics = metrics
        self._carry_out = carry_out
        self._now_s = now_s
        self._table = TemplateTable()
        self._changed = asyncio.Event()
        self._waiting = 0

    def put(self, event: Event) -> None:
        """Take over an event, and let those that wait look again."""
        self._extending.handle(event)
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._changed.set()
            self._changed = asyncio.Event()

    async def filter(self, body: bytes) -> bytes:
        """Answer `ExtenderArgs` with an `ExtenderFilterResult`."""
        question = read_node_question(body, self._table)
        filtered = await self._filtered(question)
        for command in self._extending.take_commands():
            self._carry_out(command)
        if filtered.error:
            return filter_error(filtered.error)
        return filter_answer(question, filtered.kept, filtered.failed, filtered.unresolvable)

    async def _filtered(self, question: NodeQuestion) -> Filtered:
        for _ in range(_TURNS):
            await asyncio.sleep(0)  # what was on the wire before the question is to be heard before it
        began_s, waited_s = time.monotonic(), 0.0
        while True:
            now_s = self._now_s()
            answer = self._extending.filter(question.pod, question.names, now_s, waited_s)
            if isinstance(answer, Filtered):
                break
            await self._change(answer.until_s - now_s)
            waited_s = time.monotonic() - began_s
        if waited_s:
            self._metrics.waited(waited_s, in_vain=not answer.kept)
        return answer

    async def _change(self, timeout_s: float) -> None:
        """Wait until something happens, or for so long."""
        self._waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(0.0, timeout_s))
        finally:
            self._waiting -= 1

    async def prioritize(self, body: bytes) -> bytes:
        """Answer `ExtenderArgs` with a `HostPriorityList`."""
        question = read_node_question(body, self._table)
        scores = self._extending.prioritize(question.pod, question.names, self._now_s())
        return priorities_answer(question.names, scores)

    async def preempt(self, body: bytes) -> bytes:
        """Answer `ExtenderPreemptionArgs` with an `ExtenderPreemptionResult`."""
        question = read_preemption_question(body, self._table)
        uids = {node: victims.uids for node, victims in question.victims.items()}
        nodes = self._extending.preempt(question.pod, uids, self._now_s())
        return preemption_answer({node: question.victims[node] for node in nodes})

    async def bind(self, body: bytes) -> bytes:
        """Carry out `ExtenderBindingArgs`, and answer with an `ExtenderBindingResult`."""
        pod, node = read_binding_question(body)
        refusal = self._extending.bind_refusal(pod, node)
        if refusal:
            return binding_answer(refusal)
        done = await self._bind(Bind(pod, node))
        if done.outcome is BindOutcome.BOUND:
            self._extending.bound(pod.uid, node)
            self._wake()
            return binding_answer("")
        return binding_answer(done.message or f"the pod is {done.outcome}")
