"""Where questions are answered: bytes in, bytes out, on a picture of the cluster that events keep up to date."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from moorage.adapters import clock
from moorage.adapters.extender.metrics import ExtenderMetrics
from moorage.adapters.questions import WaitingQuestions
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


class ExtenderHandler:
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
        self._waiting = WaitingQuestions(now_s)

    def put(self, event: Event) -> None:
        """Take over an event, and let those that wait look again."""
        self._extending.handle(event)
        self._waiting.wake()

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
        filtered, waited_s = await self._waiting.decided(
            functools.partial(self._extending.filter, question.pod, question.names)
        )
        if waited_s:
            self._metrics.waited(waited_s, in_vain=not filtered.kept)
        return filtered

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
            self._waiting.wake()
            return binding_answer("")
        return binding_answer(done.message or f"the pod is {done.outcome}")
