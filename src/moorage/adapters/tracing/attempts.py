"""One attempt to place a pod, and the spans that come of it.

attempt
  decide            from the attempt's begin until the pod has a node, or none
    Filter ...      an extension point, as far as plugins were called
      PLUGIN        one call
  wait              while the pod is held in Permit or PreBind, or waits for its gang
  bind              from the order to the answer
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

from moorage.adapters.tracing.spans import Attributes, Mark, Span, TraceIds
from moorage.core.commands import Bind
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.lifecycle import PERMIT, PRE_BIND, READY, TRYING, WAITING, Step

MOST_CALLS = 128
"""Calls of plugins that an attempt has spans for; the others are counted."""
LONGEST_TEXT = 1024
_HELD = (PERMIT, PRE_BIND, READY)
_S_TO_NS = 1_000_000_000


class PluginCall(NamedTuple):
    """A call of a plugin."""

    point: str
    plugin: str
    start_ns: int
    end_ns: int
    code: str


@dataclass(slots=True, eq=False)
class Attempt:
    """An attempt that has not ended yet. Times are nanoseconds since 1970."""

    ids: TraceIds
    span_id: int
    pod: Pod
    profile: str
    number: int
    seen_ns: int
    """When the scheduler first saw the pod."""
    began_ns: int
    waited: tuple[Step, ...]
    """The pod's way through the queue to this attempt."""
    decided_ns: int = 0
    """When it was decided on; 0 while it is not."""
    ordered: Bind | None = None
    ordered_ns: int = 0
    held: tuple[Step, ...] = ()
    """Where it had to wait after the decision, with a last step that ends the waiting."""
    calls: list[PluginCall] = field(default_factory=list)
    omitted: int = 0
    """Calls without a span."""

    def note(self, call: PluginCall) -> None:
        """Take note of a call."""
        if len(self.calls) < MOST_CALLS:
            self.calls.append(call)
        else:
            self.omitted += 1


def queued_steps(story: Sequence[Step]) -> tuple[Step, ...]:
    """The steps through the queue that led to the attempt with which the story ends."""
    steps: list[Step] = []
    for step in reversed(story):
        if step[1] in WAITING:
            steps.append(step)
        elif step[1] is not TRYING or steps:
            break
    return tuple(reversed(steps))


def held_steps(story: Sequence[Step]) -> tuple[Step, ...]:
    """The steps since the latest attempt began, as long as the pod was held, and the one that ended it."""
    began = max((at for at, step in enumerate(story) if step[1] is TRYING), default=len(story))
    steps = story[began + 1 :]
    end = next((at for at, step in enumerate(steps) if step[1] not in _HELD), len(steps))
    return tuple(steps[: end + 1])


def identity(pod: Pod) -> dict[str, str | int | bool]:
    """The attributes that say which pod a span is about, by OpenTelemetry's conventions."""
    return {"k8s.namespace.name": pod.namespace, "k8s.pod.name": pod.name, "k8s.pod.uid": pod.uid}


def to_ns(at_s: float) -> int:
    """A time of the engine."""
    return int(at_s * _S_TO_NS)


class AttemptSpans:
    """The spans of an attempt that has ended; `new_id` gives span ids."""

    def __init__(self, attempt: Attempt, new_id: Callable[[], int]) -> None:
        self._attempt = attempt
        self._new_id = new_id

    def spans(self, end_ns: int, result: str, failure: str, bound_ns: int) -> Iterator[Span]:
        """All of them, children first. `bound_ns` is when the bind was answered, if one was ordered."""
        attempt = self._attempt
        failure = failure[:LONGEST_TEXT]
        decided_ns = attempt.decided_ns or end_ns
        yield from self._before()
        yield from self._decision(decided_ns)
        for step, after in zip(attempt.held, attempt.held[1:], strict=False):
            if after[0] > step[0]:
                yield self._child("wait", to_ns(step[0]), to_ns(after[0]), {"moorage.state": step[1].value})
        if attempt.ordered is not None:
            node: Attributes = {**identity(attempt.pod), "k8s.node.name": attempt.ordered.node}
            yield self._child("bind", attempt.ordered_ns, bound_ns, node, failure)
        yield self._whole(end_ns, result, failure)

    def _before(self) -> Iterator[Span]:
        """How the pod was seen, if this is the first attempt, and how it waited for this one."""
        attempt, about = self._attempt, identity(self._attempt.pod)
        if attempt.number == 1:
            yield self._of_root("watch", created_ns(attempt), attempt.seen_ns, about)
        if attempt.waited:
            marks = tuple(_mark(step) for step in attempt.waited)
            began_ns = min(marks[0].at_ns, attempt.began_ns)
            yield self._of_root("queue", began_ns, attempt.began_ns, about, marks)

    def _decision(self, decided_ns: int) -> Iterator[Span]:
        attempt = self._attempt
        own = self._new_id()
        for at, calls in _by_point(attempt.calls):
            parent = own if calls[0].start_ns <= decided_ns else attempt.span_id
            point = self._new_id()
            for call in calls:
                attributes = {"moorage.extension_point": at, "moorage.plugin": call.plugin, "moorage.code": call.code}
                yield self._span(point, call.plugin, call.start_ns, call.end_ns, attributes)
            attributes = {"moorage.extension_point": at}
            yield self._span(parent, at, calls[0].start_ns, calls[-1].end_ns, attributes, span_id=point)
        about: dict[str, str | int | bool] = dict(identity(attempt.pod))
        if attempt.ordered is not None:
            about["moorage.evaluated_nodes"] = attempt.ordered.evaluated
            about["moorage.feasible_nodes"] = attempt.ordered.feasible
        if attempt.omitted:
            about["moorage.calls_omitted"] = attempt.omitted
        yield self._span(attempt.span_id, "decide", attempt.began_ns, decided_ns, about, span_id=own)

    def _whole(self, end_ns: int, result: str, failure: str) -> Span:
        attempt = self._attempt
        attributes: dict[str, str | int | bool] = {
            **identity(attempt.pod),
            "moorage.profile": attempt.profile,
            "moorage.attempt": attempt.number,
            "moorage.result": result,
        }
        if attempt.ordered is not None:
            attributes["k8s.node.name"] = attempt.ordered.node
        if failure:
            attributes["moorage.reason"] = failure
        ids, own = attempt.ids, attempt.span_id
        return Span(ids.trace, own, ids.root, "attempt", attempt.began_ns, end_ns, attributes, failure)

    def _of_root(
        self, name: str, start_ns: int, end_ns: int, attributes: Attributes, marks: tuple[Mark, ...] = ()
    ) -> Span:
        ids = self._attempt.ids
        return Span(ids.trace, self._new_id(), ids.root, name, start_ns, end_ns, attributes, "", marks)

    def _child(self, name: str, start_ns: int, end_ns: int, attributes: Attributes, failure: str = "") -> Span:
        return self._span(self._attempt.span_id, name, start_ns, end_ns, attributes, failure)

    def _span(
        self,
        parent: int,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: Attributes,
        failure: str = "",
        span_id: int = 0,
    ) -> Span:
        own = span_id or self._new_id()
        return Span(self._attempt.ids.trace, own, parent, name, start_ns, max(start_ns, end_ns), attributes, failure)


def created_ns(attempt: Attempt) -> int:
    """When the pod was created; never after it was seen, as the API server's clock may be ahead."""
    created_s = attempt.pod.created_s
    return min(to_ns(created_s), attempt.seen_ns) if created_s > 0 else attempt.seen_ns


def _mark(step: Step) -> Mark:
    at_s, state, cause = step
    return Mark(to_ns(at_s), state.value, {"moorage.cause": cause[:LONGEST_TEXT]} if cause else {})


def _by_point(calls: Sequence[PluginCall]) -> Iterator[tuple[str, list[PluginCall]]]:
    """Calls that follow each other at the same extension point."""
    run: list[PluginCall] = []
    for call in calls:
        if run and run[-1].point != call.point:
            yield run[0].point, run
            run = []
        run.append(call)
    if run:
        yield run[0].point, run
