"""Where questions are answered: bytes in, bytes out, on a picture of the cluster that events keep up to date.

A question that has to wait is asked again whenever something happens, and at the time that the decision names. Others
are answered meanwhile. Every decision about a pod that has a strategy is one log line.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from math import inf

import structlog

from moorage.adapters import clock
from moorage.adapters.webhook.metrics import WebhookMetrics
from moorage.core.commands import Command
from moorage.core.events import Event
from moorage.engine.admission import Admission, Asked, Outcome, Verdict
from moorage.wire.admission import Question, Unasked, placement_patch, read_review, review_answer

_TURNS = 3
"""Turns of the event loop that bytes of a watch take at most until they have become an event."""

_MOST_WAITING = 64
"""Questions that wait at a time, where anybody may ask: every event is looked at for each of them."""

log = structlog.get_logger()


class Desk:
    """Answers for one `Admission`. `carry_out` gets commands, `now_s` is the time."""

    def __init__(
        self,
        admission: Admission,
        metrics: WebhookMetrics,
        *,
        carry_out: Callable[[Command], None] = lambda _: None,
        now_s: Callable[[], float] = clock.now_s,
    ) -> None:
        self._admission = admission
        self._metrics = metrics
        self._carry_out = carry_out
        self._now_s = now_s
        self._changed = asyncio.Event()
        self._waiting = 0

    def put(self, event: Event) -> None:
        """Take over an event, and let those that wait look again."""
        self._admission.handle(event)
        for command in self._admission.take_commands():
            self._carry_out(command)
        if self._waiting:
            self._changed.set()
            self._changed = asyncio.Event()

    def tick(self) -> None:
        """Forget what has expired; called every now and then."""
        self._admission.expire(self._now_s())

    async def mutate(self, body: bytes, certain: bool) -> bytes:
        """Answer an `AdmissionReview` with another; `ReviewError` if it is none.

        `certain` says whether it is known that the API server asks.
        """
        question = read_review(body)
        if isinstance(question, Unasked):
            log.debug("not about a new pod, no placement", what=question.what)
            return review_answer(question.uid)
        verdict = await self._decided(question, certain)
        if not question.dry_run:
            self._metrics.decided(verdict.outcome)
        _log(question, verdict)
        patch = placement_patch(question, verdict.node_selector, verdict.annotations)
        return review_answer(question.uid, patch, [verdict.warning] if verdict.warning else ())

    async def _decided(self, question: Question, certain: bool) -> Verdict:
        asked = Asked(question.template, question.dry_run, question.node, certain)
        for _ in range(_TURNS):
            await asyncio.sleep(0)  # what was on the wire before the question is to be heard before it
        began_s, waited_s = time.monotonic(), 0.0
        while True:
            now_s = self._now_s()
            answer = self._admission.decide(asked, now_s, waited_s)
            if isinstance(answer, Verdict):
                return answer
            if not certain and self._waiting >= _MOST_WAITING:
                waited_s = inf
                continue
            await self._change(answer.until_s - now_s)
            waited_s = time.monotonic() - began_s

    async def _change(self, timeout_s: float) -> None:
        """Wait until something happens, or for so long."""
        self._waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(0.0, timeout_s))
        finally:
            self._waiting -= 1


def _log(question: Question, verdict: Verdict) -> None:
    words = {"pod": f"{question.template.namespace}/{question.name}"}
    if question.dry_run:
        words["dry_run"] = "true"
    if verdict.rule is not None:
        words["rule"] = str(verdict.rule + 1)
    match verdict.outcome:
        case Outcome.PLACED:
            words["node_selector"] = ",".join(f"{key}:{value}" for key, value in verdict.node_selector.items())
            words["before"] = "/".join(map(str, verdict.counts))
            log.info("placement", **words, source=verdict.source)
        case Outcome.FAILED:
            log.warning("placement left to default scheduling", **words, why=verdict.warning)
        case Outcome.KEPT:
            log.info("placement kept", **words, source=verdict.source)
        case Outcome.NONE:
            log.debug("no placement strategy", **words)
