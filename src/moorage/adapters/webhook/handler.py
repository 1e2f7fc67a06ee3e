"""Where questions are answered: bytes in, bytes out, on a picture of the cluster that events keep up to date.

Every decision about a pod that has a strategy is one log line.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from math import inf

import structlog

from moorage.adapters import clock
from moorage.adapters.questions import WaitingQuestions
from moorage.adapters.webhook.metrics import WebhookMetrics
from moorage.core.commands import Command
from moorage.core.events import Event
from moorage.core.strategy import RULE_STAMP
from moorage.engine.admission import Admission, Asked, Outcome, Verdict
from moorage.wire.admission import (
    AdmissionQuestion,
    Unasked,
    placement_patch,
    read_placement,
    read_review,
    review_answer,
)

PATIENCE_S = 0.25
"""If asking another replica took longer, the review has waited enough, as API servers wait for two seconds."""
_MOST_WAITING = 64
"""Reviews that may wait at a time without client certificates: every event is checked for each of them."""

log = structlog.get_logger()


Forward = Callable[[bytes], Awaitable[bytes | None]]
"""Passes a review on to the replica that this one follows: the response, or None if there is none."""


async def _nowhere(_: bytes) -> bytes | None:
    return None


class WebhookHandler:
    """Answers for one `Admission`. `carry_out` gets commands, `forward` asks the replica that this one follows."""

    def __init__(
        self,
        admission: Admission,
        metrics: WebhookMetrics,
        *,
        carry_out: Callable[[Command], None] = lambda _: None,
        forward: Forward = _nowhere,
        now_s: Callable[[], float] = clock.now_s,
    ) -> None:
        self._admission = admission
        self._metrics = metrics
        self._carry_out = carry_out
        self._forward = forward
        self._waiting = WaitingQuestions(now_s)

    def put(self, event: Event) -> None:
        """Take over an event, and let those that wait look again."""
        self._admission.handle(event)
        for command in self._admission.take_commands():
            self._carry_out(command)
        self._waiting.wake()

    def tick(self) -> None:
        """Forget what has expired; called every now and then."""
        self._admission.expire(self._waiting.now_s())

    async def mutate(self, body: bytes, certain: bool) -> bytes:
        """Answer an `AdmissionReview` with another; `QuestionError` if it is none.

        `certain` says whether it is known that the API server asks.
        """
        question = read_review(body)
        if isinstance(question, Unasked):
            log.debug("not about a new pod, no placement", what=question.what)
            return review_answer(question.uid)
        verdict = await self._decided(question, certain)
        if verdict.outcome is Outcome.ELSEWHERE:
            began_s = time.monotonic()
            answer = await self._forward(body)
            if answer is not None:
                self._metrics.forwarded()
                _log_elsewhere(question, answer)
                return answer
            patient = time.monotonic() - began_s < PATIENCE_S
            verdict = await self._decided(question, certain, here=True, patient=patient)
        if not question.dry_run:
            self._metrics.decided(verdict.outcome)
        _log(question, verdict)
        patch = placement_patch(question, verdict.node_selector, verdict.annotations)
        return review_answer(question.uid, patch, [verdict.warning] if verdict.warning else ())

    async def _decided(
        self, question: AdmissionQuestion, certain: bool, *, here: bool = False, patient: bool = True
    ) -> Verdict:
        asked = Asked(question.template, question.dry_run, question.node, certain, here)
        decide = functools.partial(self._admission.decide, asked)
        most = inf if certain else _MOST_WAITING
        verdict, _ = await self._waiting.decided(decide, most if patient else 0)
        return verdict


def _title(question: AdmissionQuestion) -> str:
    return f"{question.template.namespace}/{question.name}"


def _log_elsewhere(question: AdmissionQuestion, answer: bytes) -> None:
    """What the replica that this one follows has decided, as it is written there."""
    words = _words(question)
    given = read_placement(answer)
    if given is None:
        log.info("placement by another replica", **words)
        return
    if RULE_STAMP in given.annotations:
        words["rule"] = given.annotations[RULE_STAMP]
        words["node_selector"] = _labels(given.node_selector)
    if given.warning:
        log.warning("placement left to default scheduling by another replica", **words, why=given.warning)
    else:
        log.info("placement by another replica", **words)


def _words(question: AdmissionQuestion) -> dict[str, str]:
    words = {"pod": _title(question)}
    if question.dry_run:
        words["dry_run"] = "true"
    return words


def _labels(node_selector: Mapping[str, str]) -> str:
    return ",".join(f"{key}:{value}" for key, value in node_selector.items())


def _log(question: AdmissionQuestion, verdict: Verdict) -> None:
    words = _words(question)
    if verdict.rule is not None:
        words["rule"] = str(verdict.rule + 1)
    match verdict.outcome:
        case Outcome.PLACED:
            words["node_selector"] = _labels(verdict.node_selector)
            words["before"] = "/".join(map(str, verdict.counts))
            log.info("placement", **words, source=verdict.source)
        case Outcome.FAILED:
            log.warning("placement left to default scheduling", **words, why=verdict.warning)
        case Outcome.KEPT:
            log.info("placement kept", **words, source=verdict.source)
        case Outcome.NONE:
            log.debug("no placement strategy", **words)
