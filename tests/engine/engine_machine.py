"""A world that tells an engine of random events, and the checks that no pod is lost and nothing counted twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from moorage.core.commands import Bind
from moorage.core.events import (
    BindDone,
    BindOutcome,
    ConfigurationChanged,
    NodeGone,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodSeen,
)
from moorage.core.pods import Pod
from moorage.engine.backoff import Backoff
from moorage.engine.settings import EngineSettings
from moorage.engine.units import Place
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.status import Code, Hold, Nomination, Status, unschedulable
from moorage.testing import make_node, make_pod
from tests.engine.actors import Permitter, PostFilter, PreBinder, Raiser, Reserver
from tests.engine.play import Play, small_profile

NODES = st.sampled_from([f"n{i}" for i in range(5)])
PODS = st.integers(0, 9)
MOODS = ("", "", "", "hold", "refuse", "error", "wait", "pre_bind hold", "filter", "permit", "bind", "unreserve")


def moody(*moods: str) -> Callable[[Cycle], Any]:
    """Answers by the pod's label, until a Signal says go."""

    def say(cycle: Cycle) -> Status | Hold | None:
        mood = cycle.template.labels.get("mood", "")
        if mood not in moods or cycle.state.object("Signal", "go"):
            return None
        answers: dict[str, Status | Hold] = {
            "refuse": unschedulable("in a bad mood"),
            "error": Status(Code.ERROR, ("broken",)),
            "wait": Status(Code.WAIT),
        }
        return answers.get(mood, Hold(cycle.pod.created_s + 50.0))

    return say


class EngineMachine(RuleBasedStateMachine):
    """The outside world behaves badly but lawfully: binds are answered once, watches show what is true, late."""

    @initialize(post=st.sampled_from(["n0", "n3", None]))
    def begin(self, post: str | None) -> None:
        self.post = post
        self.play = Play(*self._plugins())
        self.real: dict[str, Pod] = {}
        """What the API server knows."""
        self.unanswered: dict[str, str] = {}
        """Binds that were posted: uid -> node."""
        self.serial = 0

    def _plugins(self) -> list[Plugin]:
        return [
            Raiser(),
            Reserver("Reserver", [], moody("refuse", "error")),
            Permitter(moody("hold", "wait")),
            PreBinder(moody("pre_bind hold")),
            PostFilter(lambda cycle: Nomination(self.post) if cycle.template.priority else None),
        ]

    def _run(self, *events: Any, later_s: float = 0.0, budget: int = 1 << 62) -> None:
        commands = self.play.handle(*events, at=self.play.now + later_s, budget=budget)
        for command in commands:
            if isinstance(command, Bind):
                assert command.pod.uid not in self.unanswered, "bound twice at the same time"
                assert command.pod.uid in self.real, "a pod that was seen deleted is bound"
                self.unanswered[command.pod.uid] = command.node

    @rule(name=NODES, cpu=st.sampled_from(["1", "4"]), budget=st.sampled_from([0, 1, 1 << 62]))
    def node_seen(self, name: str, cpu: str, budget: int) -> None:
        self._run(NodeSeen(make_node(name, cpu=cpu)), budget=budget)

    @rule(name=NODES)
    def node_gone(self, name: str) -> None:
        self._run(NodeGone(name))

    @rule(number=PODS, mood=st.sampled_from(MOODS), priority=st.integers(0, 1), gated=st.booleans())
    def pod_made(self, number: int, mood: str, priority: int, gated: bool) -> None:
        uid = f"default/p{number}"
        if uid in self.real or uid in self.unanswered:
            return  # a uid is never used twice
        label = {"raises" if mood in ("filter", "permit", "bind", "unreserve") else "mood": mood} if mood else {}
        pod = make_pod(
            f"p{number}",
            cpu="1",
            labels=label,
            priority=priority,
            gates=["g"] if gated else [],
            created_s=self.play.now,
        )
        self.real[uid] = pod
        self._run(PodSeen(pod))

    @rule(number=PODS)
    def pod_shown_again(self, number: int) -> None:
        """A status update, or a watch that lags behind a bind."""
        uid = f"default/p{number}"
        if uid in self.real:
            pod = self.real[uid] = replace(self.real[uid], gates=(), generation=self.real[uid].generation + 1)
            self._run(PodSeen(pod))

    @rule(number=PODS, node=st.none() | NODES)
    def pod_nominated(self, number: int, node: str | None) -> None:
        uid = f"default/p{number}"
        if uid in self.real and self.real[uid].node is None:
            self.real[uid] = replace(self.real[uid], nominated_node=node)
            self._run(PodSeen(self.real[uid]))

    @rule(number=PODS)
    def pod_gone(self, number: int) -> None:
        if self.real.pop(f"default/p{number}", None) is not None:
            self._run(PodGone(f"default/p{number}"))

    @rule(number=PODS)
    def pod_marked_for_deletion(self, number: int) -> None:
        uid = f"default/p{number}"
        if uid in self.real:
            self.real[uid] = replace(self.real[uid], deleted_s=self.play.now)
            self._run(PodSeen(self.real[uid]))

    @rule(number=PODS)
    def pod_finished(self, number: int) -> None:
        uid = f"default/p{number}"
        if uid in self.real and self.real[uid].node is not None:
            self.real[uid] = replace(self.real[uid], phase="Succeeded")
            self._run(PodSeen(self.real[uid]))

    @rule(number=PODS, node=NODES)
    def bound_by_somebody_else(self, number: int, node: str) -> None:
        uid = f"default/p{number}"
        if uid in self.real and self.real[uid].node is None and uid not in self.unanswered:
            self.real[uid] = replace(self.real[uid], node=node)
            self._run(PodSeen(self.real[uid]))

    @rule(
        data=st.data(),
        how=st.sampled_from(["bound", "bound", "failed", "elsewhere"]),
        watch=st.sampled_from(["before", "after", "late"]),
    )
    def bind_answered(self, data: st.DataObject, how: str, watch: str) -> None:
        """The watch shows the pod on its node before the answer, with it, or some time later."""
        if not self.unanswered:
            return
        uid = data.draw(st.sampled_from(sorted(self.unanswered)))
        node = self.unanswered.pop(uid)
        pod = self.real.get(uid)
        if pod is None:
            self._run(BindDone(uid, BindOutcome.GONE))
            return
        if pod.node is None and how == "failed":
            self._run(BindDone(uid, BindOutcome.FAILED, message="no luck"))
            return
        if pod.node is None:
            pod = self.real[uid] = replace(pod, node=node if how == "bound" else "n4")
        outcome = BindOutcome.BOUND if pod.node == node else BindOutcome.ELSEWHERE
        answer = BindDone(uid, outcome, pod.node)
        if watch == "before":
            self._run(PodSeen(pod))
            self._run(answer)
        elif watch == "after":
            self._run(answer, PodSeen(pod))
        else:
            self._run(answer)
            if pod.deleted_s is None:
                self._run(PodSeen(replace(pod, node=None)))
            self._run(PodSeen(pod))

    @rule(plain=st.booleans(), wait_s=st.sampled_from([1.0, 30.0]))
    def configuration_changed(self, plain: bool, wait_s: float) -> None:
        """Other plugins decide from now on; every pod is shown again."""
        profile = small_profile(*([] if plain else self._plugins()))
        changed = ConfigurationChanged("", [profile], self._settings(Backoff(wait_s, wait_s)))
        self.play.engine.handle([changed], self.play.now, budget=0)
        self._run(*(PodSeen(pod) for pod in self.real.values()))

    def _settings(self, backoff: Backoff) -> EngineSettings:
        return EngineSettings(backoff)

    @rule()
    def signal(self) -> None:
        self.serial += 1
        self._run(ObjectSeen("Signal", "go" if self.serial % 3 == 0 else "noise", self.serial))

    @rule(seconds=st.sampled_from([0.0, 1.0, 10.0, 60.0, 400.0]), budget=st.sampled_from([1, 1 << 62]))
    def time_passes(self, seconds: float, budget: int) -> None:
        self._run(later_s=seconds, budget=budget)

    def teardown(self) -> None:
        """With room for all and everything answered, every pod that may be bound is bound."""
        if not hasattr(self, "play"):
            return
        self._run(ObjectSeen("Signal", "go", 1), NodeSeen(make_node("spacious", cpu="100")))
        for _ in range(12):
            self._answer_all()
            self._run(later_s=400.0)
        self._answer_all()
        for uid, pod in self.real.items():
            if pod.node is None and pod.deleted_s is None and not pod.gates and not pod.template.labels.get("raises"):
                raise AssertionError(f"{uid} was never bound: {self.play.engine.queue.get(uid)}")
        places = {entry.place for entry in self.play.engine.queue.entries()}
        assert places <= {Place.GATED, Place.BACKOFF, Place.ACTIVE}

    def _answer_all(self) -> None:
        for uid, node in sorted(self.unanswered.items()):
            del self.unanswered[uid]
            if uid in self.real:
                pod = self.real[uid]
                self.real[uid] = pod if pod.node else replace(pod, node=node)
                outcome = BindOutcome.BOUND if self.real[uid].node == node else BindOutcome.ELSEWHERE
                self._run(BindDone(uid, outcome, self.real[uid].node), PodSeen(self.real[uid]))
            else:
                self._run(BindDone(uid, BindOutcome.GONE))
