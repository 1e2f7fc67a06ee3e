"""Follows the pods of one engine and makes their spans; the engine knows nothing of it.

The engine announces each attempt (`Engine(observer=...)`), calls of plugins pass the seam of `framework.instances`, and
the loop shows what went into a turn and what came out of it. Of pods that are not sampled nothing is kept. Of sampled
ones an attempt is kept until it ends, and the pod itself while it waits after a failure, so that its root span can end
if it is deleted; both up to a limit. What a pod's way looked like before an attempt is read from its story.

Times are those of this process's clock, except the pod's creation, which is the API server's, in whole seconds.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple

from moorage.adapters import clock
from moorage.adapters.tracing.attempts import (
    Attempt,
    AttemptSpans,
    PluginCall,
    created_ns,
    held_steps,
    identity,
    queued_steps,
    to_ns,
)
from moorage.adapters.tracing.spans import Emit, Sampler, Span, TraceIds, ids_of
from moorage.core.commands import Bind, Command, RecordEvent
from moorage.core.events import BindDone, BindOutcome, Event, PodGone, PodSeen
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.lifecycle import BINDING, ON_ITS_WAY, TRYING
from moorage.engine.units import QueuedPod
from moorage.framework.calls import POINT_NAMES, POST_FILTER, code_of
from moorage.framework.cycle import Cycle
from moorage.framework.instances import CallWrapper, Tracing
from moorage.framework.plugin import Plugin
from moorage.framework.runner import Runner
from moorage.framework.status import Code

MOST_PODS = 10_000
"""Pods that are remembered at a time, of each sort."""
SCHEDULED, UNSCHEDULABLE, GONE, ELSEWHERE = "scheduled", "unschedulable", "gone", "elsewhere"
"""How an attempt or a pod's way ended: the last two are pods that were deleted, or bound by another scheduler."""
_FAILURES = {GONE: "the pod was deleted", ELSEWHERE: "the pod was bound by another process"}
_STANDS = (BindOutcome.BOUND, BindOutcome.ELSEWHERE)
_SCHEDULED_EVENT = "Scheduled"
_ABOUT_ATTEMPTS = (_SCHEDULED_EVENT, "FailedScheduling")


class _Waiting(NamedTuple):
    """A pod whose last attempt failed."""

    pod: Pod
    ids: TraceIds
    start_ns: int
    attempts: int
    profile: str


class PodTraces:
    """The traces of one engine; not for several threads. `emit` gets every span."""

    def __init__(
        self,
        emit: Emit,
        sampler: Sampler,
        *,
        now_ns: Callable[[], int] = clock.now_ns,
        new_id: Callable[[], int] = lambda: random.getrandbits(64) or 1,
        most_pods: int = MOST_PODS,
    ) -> None:
        self._emit = emit
        self._sampler = sampler
        self._now_ns = now_ns
        self._new_id = new_id
        self._most_pods = most_pods
        self._engine: Engine | None = None
        self._attempts: dict[str, Attempt] = {}
        """Attempts that have not ended, by the pod's uid."""
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._telling: OrderedDict[RecordEvent, int] = OrderedDict()
        """Events that are to be published, and since when."""
        self._current: Attempt | None = None
        """The attempt that the engine is in."""
        self._touched: dict[str, None] = {}
        """Pods whose attempt began or may have ended in this turn."""
        self._making_room = False
        """Filters that preemption tries are not the pod's own."""

    def equip(self, engine: Engine) -> None:
        """Trace the plugins that an engine has from now on; call it again when it has others, between two turns."""
        self._engine = engine
        for runner in engine.all_runners.values():
            Tracing(runner.plugins.all, self._wrapper()).begin()

    # --- during a turn ---

    def attempt(self, runner: Runner, cycle: Cycle) -> None:
        """An attempt begins: the observer of the engine."""
        now_ns = self._now_ns()
        self._leave(now_ns)
        pod = cycle.pod
        found = self._attempts.get(pod.uid)
        entry = None if self._engine is None else self._engine.queue.get(pod.uid)
        if entry is None:
            return
        if found is not None and found.number != entry.attempts:
            self._end(found, now_ns, UNSCHEDULABLE, entry.message)  # it failed and is tried again in the same turn
            found = None
        if found is None:
            found = self._begin(entry, pod, runner.profile.scheduler_name, now_ns)
        if found is not None:
            self._current = found
            self._touched[pod.uid] = None

    def _begin(self, entry: QueuedPod, pod: Pod, profile: str, now_ns: int) -> Attempt | None:
        ids = ids_of(pod.uid)
        if not self._sampler.takes(ids.trace):
            return None
        if len(self._attempts) >= self._most_pods:
            self._sweep()
        if len(self._attempts) >= self._most_pods:
            return None
        steps, seen_ns = queued_steps(entry.story), to_ns(entry.first_s)
        made = Attempt(ids, self._new_id(), pod, profile, entry.attempts, seen_ns, now_ns, steps)
        self._attempts[pod.uid] = made
        return made

    def _sweep(self) -> None:
        """Forget attempts for pods that no profile is responsible for any more."""
        for uid in [uid for uid in self._attempts if self._entry(uid) is None]:
            del self._attempts[uid]

    def _leave(self, now_ns: int) -> None:
        if self._current is not None:
            self._current.decided_ns = now_ns
            self._current = None

    def _wrapper(self) -> CallWrapper:
        def wrap(plugin: Plugin, method: str, call: Callable[..., Any]) -> Callable[..., Any] | None:
            known = method in POINT_NAMES and method != "pre_enqueue"
            return self._traced(call, plugin.name, POINT_NAMES[method]) if known else None

        return wrap

    def _traced(self, call: Callable[..., Any], plugin: str, point: str) -> Callable[..., Any]:
        makes_room, now_ns = point == POST_FILTER, self._now_ns
        attempts = self._attempts

        @wraps(call)
        def traced(cycle: Cycle, *args: Any) -> Any:
            attempt = attempts.get(cycle.pod.uid)
            if attempt is None or self._making_room:
                return call(cycle, *args)
            self._making_room = makes_room
            code, start_ns = Code.ERROR.value, now_ns()
            try:
                answer = call(cycle, *args)
                code = code_of(answer)
            finally:
                self._making_room = False
                attempt.note(PluginCall(point, plugin, start_ns, now_ns(), code))
            return answer

        return traced

    # --- after a turn ---

    def observe(self, events: Sequence[Event], commands: Iterable[Command], now_s: float) -> None:
        """Take note of one call of the engine, before its commands are carried out."""
        end_ns = self._now_ns()
        self._leave(end_ns)
        touched, attempts = self._touched, self._attempts
        ended: dict[str, str] = {}
        for event in events:
            uid, result = _ending(event)
            if result and (uid in attempts or uid in self._waiting):
                ended[uid] = result
                touched[uid] = None
        for command in commands:
            if type(command) is Bind and command.pod.uid in attempts:
                self._ordered(attempts[command.pod.uid], command, end_ns)
            elif type(command) is RecordEvent and command.pod.uid in attempts:
                self._told(command, end_ns)
                touched[command.pod.uid] = None
                if command.reason == _SCHEDULED_EVENT:
                    ended[command.pod.uid] = SCHEDULED
        for uid in touched:
            self._settle(uid, ended.get(uid, ""), to_ns(now_s), end_ns)
        touched.clear()

    def _ordered(self, attempt: Attempt, command: Bind, end_ns: int) -> None:
        attempt.ordered, attempt.ordered_ns = command, end_ns
        attempt.decided_ns = attempt.decided_ns or end_ns
        entry = self._entry(attempt.pod.uid)
        attempt.held = () if entry is None else held_steps(entry.story)

    def _settle(self, uid: str, result: str, now_ns: int, end_ns: int) -> None:
        """End what has ended for a pod: its attempt, its whole way, both or neither."""
        attempt, entry = self._attempts.get(uid), self._entry(uid)
        if attempt is None:
            if entry is None and result:
                self._finish_waiting(uid, result, end_ns)
        elif entry is None:
            result = result or GONE
            self._end(attempt, end_ns, result, "" if result == SCHEDULED else _FAILURES[result], now_ns)
            self._finish(attempt, result, now_ns if attempt.ordered is not None else end_ns)
        elif entry.state is TRYING:
            attempt.decided_ns = 0
        elif entry.state not in ON_ITS_WAY:
            attempt.held = attempt.held or held_steps(entry.story)
            self._end(attempt, end_ns, UNSCHEDULABLE, entry.message, now_ns)
        elif entry.state is not BINDING and not attempt.decided_ns:
            attempt.decided_ns = end_ns

    def _entry(self, uid: str) -> QueuedPod | None:
        """The pod in the queue or in a binding cycle; the watch may show the node before the bind is answered."""
        if self._engine is None:
            return None
        binding = self._engine.bindings.get(uid)
        return self._engine.queue.get(uid) if binding is None else binding.entry

    def _end(self, attempt: Attempt, end_ns: int, result: str, failure: str, bound_ns: int = 0) -> None:
        """End an attempt; the pod waits on, unless its way has ended too."""
        del self._attempts[attempt.pod.uid]
        latest_ns = max((call.end_ns for call in attempt.calls), default=0)
        if attempt.ordered is not None:
            ends_ns = max(bound_ns, attempt.ordered_ns, latest_ns)
        else:
            ends_ns = max(attempt.decided_ns, latest_ns) if attempt.decided_ns else end_ns
            ends_ns = end_ns if attempt.held else ends_ns
        answered_ns = max(bound_ns, attempt.ordered_ns)
        for span in AttemptSpans(attempt, self._new_id).spans(ends_ns, result, failure, answered_ns):
            self._emit(span)
        if result == UNSCHEDULABLE:
            waiting = _Waiting(attempt.pod, attempt.ids, created_ns(attempt), attempt.number, attempt.profile)
            _remember(self._waiting, attempt.pod.uid, waiting, self._most_pods)
        else:
            self._waiting.pop(attempt.pod.uid, None)

    def _finish(self, attempt: Attempt, result: str, end_ns: int) -> None:
        waiting = _Waiting(attempt.pod, attempt.ids, created_ns(attempt), attempt.number, attempt.profile)
        self._emit_root(waiting, result, end_ns, "" if attempt.ordered is None else attempt.ordered.node)

    def _finish_waiting(self, uid: str, result: str, end_ns: int) -> None:
        waiting = self._waiting.pop(uid, None)
        if waiting is not None:
            self._emit_root(waiting, result, end_ns, "")

    def _emit_root(self, way: _Waiting, result: str, end_ns: int, node: str) -> None:
        attributes = {
            **identity(way.pod),
            "moorage.profile": way.profile,
            "moorage.attempts": way.attempts,
            "moorage.priority": way.pod.template.priority,
            "moorage.result": result,
        }
        if node and result == SCHEDULED:
            attributes["k8s.node.name"] = node
        gang = way.pod.template.gang
        if gang is not None:
            attributes["moorage.gang"] = gang.object_key
        start_ns = min(way.start_ns, end_ns)
        self._emit(Span(way.ids.trace, way.ids.root, 0, "schedule", start_ns, end_ns, attributes))

    # --- events about pods ---

    def _told(self, command: RecordEvent, now_ns: int) -> None:
        if command.reason in _ABOUT_ATTEMPTS and command not in self._telling:
            _remember(self._telling, command, now_ns, self._most_pods)

    def published(self, command: RecordEvent) -> None:
        """An event was published."""
        since_ns = self._telling.pop(command, None)
        if since_ns is None:
            return
        ids, pod = ids_of(command.pod.uid), command.pod
        attributes = {
            "k8s.namespace.name": pod.namespace,
            "k8s.pod.name": pod.name,
            "k8s.pod.uid": pod.uid,
            "moorage.event.reason": command.reason,
        }
        self._emit(Span(ids.trace, self._new_id(), ids.root, "event", since_ns, self._now_ns(), attributes))


def _ending(event: Event) -> tuple[str, str]:
    """The pod whose way an event may end, and how; nothing for other events."""
    if type(event) is PodSeen:
        return event.pod.uid, ELSEWHERE if event.pod.node is not None else ""
    if type(event) is PodGone:
        return event.uid, GONE
    if type(event) is BindDone:
        return event.uid, ELSEWHERE if event.outcome in _STANDS else GONE
    return "", ""


def _remember(into: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    """Keep a value; the oldest one makes room."""
    into[key] = value
    into.move_to_end(key)
    if len(into) > most:
        into.popitem(last=False)
