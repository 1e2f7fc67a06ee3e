"""What single calls of plugins and single events cost, measured in a few turns of the loop.

The engine is pure and has no clock, and a clock around every call would cost more than some of the calls. So in a turn
that is sampled, clocks are put around the calls of plugins (`framework.instances`), and events are handed over with a
look at the clock in between; all other turns run as if there were no metrics. Turns are sampled at most every
`EVERY_S`: every one of a quiet cluster, one in dozens of a busy one; and those that follow a slow one, all of them for
`ALERT_S` where a single pod took long, so that it is known what is slow (`slowness`). Counts of these histograms are
therefore no counts of attempts.

Differences from kube-scheduler that follow from arrays: one call of Filter or Score judges many nodes, and where kept
answers decide, there is no call to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from time import perf_counter
from typing import Any

from prometheus_client.metrics_core import Metric

from moorage.adapters.metrics.slowness import SLOW_S, Slowness
from moorage.adapters.metrics.tally import Tallies, exponential_bounds
from moorage.core.events import Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.framework.calls import POINT_NAMES, POST_FILTER, code_of
from moorage.framework.changes import Change
from moorage.framework.instances import CallWrapper, Tracing
from moorage.framework.plugin import Plugin
from moorage.framework.status import Code

EVERY_S = 0.1
ALERT_S = 10.0
"""The next pod of a slow namespace may have to let others go first for as long (engine/pacing.py)."""
POINT_BOUNDS_S = exponential_bounds(0.0001, 2, 12)
PLUGIN_BOUNDS_S = exponential_bounds(0.00001, 1.5, 20)
HINT_BOUNDS_S = PLUGIN_BOUNDS_S
EVENT_BOUNDS_S = exponential_bounds(0.0001, 2, 12)


class Sampling:
    """Looks at the calls of one engine in some of its turns; not for several threads."""

    def __init__(self, engine: Engine, timer_s: Callable[[], float] = perf_counter) -> None:
        self.slowness = Slowness()
        self._engine = engine
        self._timer_s = timer_s
        self._points = Tallies(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency of all plugins of an extension point together, for one pod; sampled.",
            ("extension_point", "status", "profile"),
            POINT_BOUNDS_S,
        )
        self._plugins = Tallies(
            "scheduler_plugin_execution_duration_seconds",
            "How long a plugin ran at an extension point; sampled.",
            ("plugin", "extension_point", "status"),
            PLUGIN_BOUNDS_S,
        )
        self._hints = Tallies(
            "scheduler_queueing_hint_execution_duration_seconds",
            "How long a plugin took to say whether an event may help a pod; sampled.",
            ("plugin", "event", "hint"),
            HINT_BOUNDS_S,
        )
        self._events = Tallies(
            "scheduler_event_handling_duration_seconds",
            "How long it took to take an event over; sampled.",
            ("event",),
            EVENT_BOUNDS_S,
        )
        self._due_s = 0.0
        self._tracings = self._make_tracings()
        self._subject: object = None
        self._open: dict[tuple[str, str], tuple[float, str]] = {}
        """(extension point, profile) -> seconds and status so far, of the pod that is being looked at."""
        self._making_room = 0
        """Filters that preemption tries are not the pod's own."""
        self._inner_s = 0.0
        """What calls inside of the one that is being measured took."""
        self._spent_s: dict[str, float] = {}
        """Plugin -> what it took for the pod that is being looked at, by itself."""
        self._slow_turn = False
        self._alert_until_s = 0.0

    def reequip(self) -> None:
        """The engine has other plugins; called between two turns."""
        self._tracings = self._make_tracings()

    # --- turns ---

    def begin(self, now_s: float) -> bool:
        """Whether this turn is sampled; then `end` must follow. `now_s` is monotonic."""
        if now_s < self._due_s and not self._slow_turn and now_s >= self._alert_until_s:
            return False
        for tracing in self._tracings:
            tracing.begin()
        return True

    def events(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events of a turn that is sampled: until the engine asks for the next one, it takes the last one over."""
        for event in events:
            name = self._name_of(event)
            began_s = self._timer_s()
            yield event
            if name:
                self._events.observe((name,), self._timer_s() - began_s)
                self._subject = self._subject or event

    def timed(self, took_s: float) -> None:
        """How long a turn took, sampled or not."""
        self._slow_turn = took_s >= SLOW_S

    def alert(self, now_s: float) -> None:
        """A pod took long in a turn that was not sampled."""
        self._alert_until_s = now_s + ALERT_S

    def end(self, now_s: float) -> None:
        """Put everything back; a turn in which nothing was measured does not count."""
        for tracing in self._tracings:
            tracing.end()
        if self._subject is not None:
            self._due_s = now_s + EVERY_S
            self._close()

    def bound(self, profile: str, plugin: str, took_s: float, status: str) -> None:
        """A bind was answered; told of every one."""
        self._points.observe(("Bind", status, profile), took_s)
        self._plugins.observe((plugin, "Bind", status), took_s)

    def families(self) -> Iterable[Metric]:
        """What was measured so far."""
        tallies = (self._points, self._plugins, self._hints, self._events)
        return [*(each.family() for each in tallies), self.slowness.family()]

    # --- measuring ---

    def _make_tracings(self) -> list[Tracing]:
        """Clocks for the plugins of every profile."""

        def wrapper(profile: str) -> CallWrapper:
            def timed(plugin: Plugin, method: str, call: Callable[..., Any]) -> Callable[..., Any] | None:
                if method == "helps":
                    return self._timed_hint(call, plugin.name)
                return self._timed(call, plugin.name, POINT_NAMES[method], profile) if method in POINT_NAMES else None

            return timed

        runners = self._engine.all_runners.values()
        return [Tracing(runner.plugins.all, wrapper(runner.profile.scheduler_name)) for runner in runners]

    def _timed(self, call: Callable[..., Any], plugin: str, point: str, profile: str) -> Callable[..., Any]:
        makes_room, timer_s = point == POST_FILTER, self._timer_s

        @wraps(call)
        def timed(subject: Any, *args: Any) -> Any:
            self._making_room += makes_room
            around_s, self._inner_s = self._inner_s, 0.0
            began_s = timer_s()
            status = Code.ERROR.value
            try:
                answer = call(subject, *args)
                status = code_of(answer)
            finally:
                took_s = timer_s() - began_s
                own_s, self._inner_s = took_s - self._inner_s, around_s + took_s
                self._making_room -= makes_room
                self._note(subject, plugin, (point, profile), status, took_s, own_s)
            return answer

        return timed

    def _note(self, subject: Any, plugin: str, at: tuple[str, str], status: str, took_s: float, own_s: float) -> None:
        """A call has returned; `at` are extension point and profile, `own_s` is without the calls that it made."""
        point, profile = at
        self._plugins.observe((plugin, point, status), took_s)
        if not self._making_room and subject is not self._subject:
            self._close()
            self._subject = subject
        self._spent_s[plugin] = self._spent_s.get(plugin, 0.0) + own_s
        if self._making_room:
            return
        before_s, worst = self._open.get((point, profile), (0.0, Code.SUCCESS.value))
        if worst == Code.SUCCESS and status != Code.SKIP and point != "Filter":
            worst = status
        self._open[point, profile] = (before_s + took_s, worst)

    def _close(self) -> None:
        for (point, profile), (took_s, status) in self._open.items():
            self._points.observe((point, status, profile), took_s)
        self._open.clear()
        pod = getattr(self._subject, "pod", self._subject)
        if isinstance(pod, Pod):
            for plugin, took_s in self._spent_s.items():
                if took_s >= SLOW_S:
                    self.slowness.note(pod.template.namespace, plugin, took_s, self._timer_s())
        self._spent_s.clear()
        self._subject = None

    def _timed_hint(self, call: Callable[..., Any], plugin: str) -> Callable[..., Any]:
        timer_s = self._timer_s

        @wraps(call)
        def timed(template: Any, change: Change) -> Any:
            began_s = timer_s()
            answer = call(template, change)
            hint = "Queue" if answer else "QueueSkip"
            self._hints.observe((plugin, change.label, hint), timer_s() - began_s)
            return answer

        return timed

    def _name_of(self, event: Event) -> str:
        """What kube-scheduler calls the event; empty for answers to our own requests."""
        state = self._engine.state
        if isinstance(event, PodSeen):
            known = state.record(event.pod.uid) is not None or self._engine.queue.get(event.pod.uid) is not None
            place = "Unscheduled" if event.pod.node is None else "Assigned"
            return f"{place}Pod{'Update' if known else 'Add'}"
        if isinstance(event, PodGone):
            return f"{'Unscheduled' if state.record(event.uid) is None else 'Assigned'}PodDelete"
        if isinstance(event, NodeSeen):
            return "NodeAdd" if state.row_of(event.node.name) is None else "NodeUpdate"
        if isinstance(event, NodeGone):
            return "NodeDelete"
        if isinstance(event, ObjectSeen):
            return f"{event.kind}{'Update' if event.key in state.objects.get(event.kind, {}) else 'Add'}"
        return f"{event.kind}Delete" if isinstance(event, ObjectGone) else ""
