"""A world of random events with extenders that answer late, or not as they should."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from moorage.core.commands import AskExtenders, AskPreemption, Bind, DeletePod
from moorage.core.events import DeleteDone, ExtendersAnswered, PodGone, PreemptionAnswered
from moorage.engine.backoff import Backoff
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Extender
from moorage.plugins.default_preemption import DefaultPreemption
from tests.engine.actors import Raiser
from tests.engine.engine_machine import EngineMachine
from tests.engine.play import Play, small_profile

EXTENDERS = (
    Extender("http://a", filter_verb="f", preempt_verb="p"),
    Extender("http://b", bind_verb="b"),
    Extender("http://c", filter_verb="f", ignorable=True),
)


class ExtenderMachine(EngineMachine):
    """The same world with extenders that think for a while."""

    question: AskExtenders | AskPreemption | None = None

    @initialize(post=st.none())
    def begin(self, post: None) -> None:
        super().begin(post)
        self.play = Play()
        profile = small_profile(Raiser(), DefaultPreemption())
        self.play.engine = Engine([profile], self._settings(Backoff()))
        self.evicted: list[str] = []

    def _settings(self, backoff: Backoff) -> EngineSettings:
        """Another configuration means that questions are asked anew: no pod waits for the answer to an old one."""
        self.question = None
        return EngineSettings(backoff, extenders=EXTENDERS)

    def _run(self, *events: Any, later_s: float = 0.0, budget: int = 1 << 62) -> None:
        super()._run(*events, later_s=later_s, budget=budget)
        for command in self.play.commands:
            if isinstance(command, AskExtenders | AskPreemption):
                assert self.question is None, "two questions at once"
                self.question = command
            elif isinstance(command, DeletePod):
                self.evicted.append(command.pod.uid)
            elif isinstance(command, Bind):
                assert command.extender == 1, "the extender was to bind"

    @rule(
        how=st.sampled_from(["keep", "keep", "keep one", "refuse", "refuse for good", "drop", "fail"]),
        ignored=st.booleans(),
    )
    def question_answered(self, how: str, ignored: bool) -> None:
        question, self.question = self.question, None
        asked = () if question is None else question.extenders
        failed = {0} if how == "fail" else {2} if ignored else set[int]()
        heard: dict[str, Any] = {
            "heard": tuple(place for place in asked if place not in failed),
            "faults": tuple((place, "broken") for place in asked if place in failed),
        }
        if isinstance(question, AskPreemption):
            offers = {"keep": question.candidates, "keep one": question.candidates[-1:]}.get(how, ())
            error = "broken" if how == "fail" else ""
            self._run(PreemptionAnswered(question.pod.uid, offers, error, question.token, **heard))
        elif question is not None:
            kept = {"keep": question.nodes, "keep one": question.nodes[-1:]}.get(how, ())
            refused = dict.fromkeys(question.nodes, "no")
            self._run(
                ExtendersAnswered(
                    question.pod.uid,
                    kept,
                    refused if how == "refuse" else {},
                    refused if how == "refuse for good" else {},
                    error="broken" if how == "fail" else "",
                    token=question.token,
                    **heard,
                )
            )

    def _answer_all(self) -> None:
        while self.question is not None or self.unanswered or self.evicted:
            self.question_answered("keep", ignored=False)
            for uid in self.evicted[:]:
                self.evicted.remove(uid)
                self.real.pop(uid, None)
                self._run(DeleteDone(uid, ok=True), PodGone(uid))
            super()._answer_all()
