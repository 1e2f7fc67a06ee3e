"""Metrics that are computed at scrape time: pending pods by queue and plugin, the size of the cache, gangs and the
plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from moorage.adapters import clock
from moorage.adapters.metrics.queues import queue_families
from moorage.engine.engine import Engine
from moorage.engine.races import overcommitted_count
from moorage.engine.units import Place, Unit
from moorage.framework.contract import CountsEvictions, TellsIdle
from moorage.framework.gangs import GANG_SCHEDULING
from moorage.framework.plugin import Point

QUEUES = ("active", "backoff", "unschedulable", "gated", "incomplete", "pending")
_INCOMPLETE = "incomplete"
_MOST_GANGS = 200
"""Gangs that have metrics of their own."""
_POPPED = "PodPopped"
_POINT_NAMES = {Point.PRE_FILTER: "PreFilter", Point.FILTER: "Filter", Point.SCORE: "Score"}


def size_families(engine: Engine) -> Iterable[Metric]:
    """Everything as it is now."""
    yield from _waiting(engine)
    yield from _cache(engine)
    yield from _plugins(engine)
    yield from _gangs(engine)
    yield from queue_families(engine)
    yield from _idle(engine)
    yield _circuits(engine)


def queue_of(place: Place, unit: Unit) -> str:
    """The label `queue` of a waiting pod: members of a gang that waits for more of them are incomplete."""
    if unit.gang is not None and place is Place.GATED and GANG_SCHEDULING in unit.rejected_by:
        return _INCOMPLETE
    return place.value


def _waiting(engine: Engine) -> Iterable[Metric]:
    pending = GaugeMetricFamily("scheduler_pending_pods", "Pods that wait, by queue.", labels=("queue",))
    rejecting = GaugeMetricFamily(
        "scheduler_unschedulable_pods",
        "Pods that wait, by the plugins that rejected them; a pod counts for each of these.",
        labels=("plugin", "profile"),
    )
    places: Counter[str] = Counter()
    rejections: Counter[tuple[str, str]] = Counter()
    for entry in engine.queue.entries():
        places[queue_of(entry.place, entry.unit)] += 1
        if entry.place is not Place.IN_FLIGHT:
            profile = entry.pod.template.scheduler_name
            rejections.update((name, profile) for name in entry.unit.rejected_by)
    for queue in QUEUES:
        pending.add_metric((queue,), places[queue])
    for values, number in rejections.items():
        rejecting.add_metric(values, number)
    yield pending
    yield rejecting
    yield _under_way(engine, places[Place.IN_FLIGHT.value])
    incoming = CounterMetricFamily(
        "scheduler_queue_incoming_pods", "Pods that entered a queue, by queue and reason.", labels=("queue", "event")
    )
    arrivals = engine.queue.arrivals
    for queue, counts in (
        ("active", arrivals.active), ("backoff", arrivals.backoff), ("unschedulable", arrivals.unschedulable),
    ):  # fmt: skip
        for why, number in counts.items():
            incoming.add_metric((queue, why), number)
    yield incoming


def _under_way(engine: Engine, popped: int) -> Metric:
    """Pods that were taken out of the queue and are not bound or back yet, and what they will have to hear of."""
    tracked = GaugeMetricFamily(
        "scheduler_inflight_events",
        "What the queue remembers for pods on their way: the pods themselves (PodPopped), and events kept for them.",
        labels=("event",),
    )
    tracked.add_metric((_POPPED,), popped)
    for event, number in engine.asking.meanwhile().items() if engine.asking is not None else ():
        tracked.add_metric((event,), number)
    return tracked


def _circuits(engine: Engine) -> Metric:
    circuits = GaugeMetricFamily(
        "moorage_circuit_open",
        "Whether the extender failed so often that it is not called for now.",
        labels=("name",),
    )
    for breaker in engine.asking.breakers.all if engine.asking is not None else ():
        circuits.add_metric((breaker.name,), int(breaker.shown_open(clock.now_s())))
    return circuits


def _cache(engine: Engine) -> Iterable[Metric]:
    cache = GaugeMetricFamily("scheduler_cache_size", "Objects in the scheduler's cache, by type.", labels=("type",))
    state = engine.state
    sizes = {"assumed_pods": len(engine.bindings), "pods": state.pod_count, "nodes": state.node_count}
    for name, number in sizes.items():
        cache.add_metric((name,), number)
    yield cache
    yield GaugeMetricFamily(
        "moorage_overcommitted_nodes",
        "Nodes whose pods request more than they offer: another scheduler, or a user by hand, bound to them too.",
        value=overcommitted_count(state),
    )
    yield CounterMetricFamily(
        "moorage_unhealthy_devices",
        "Devices in use that were tainted, that their driver no longer offered, or that failed.",
        value=engine.device_health.unhealthy,
    )
    yield CounterMetricFamily(
        "moorage_room_rounds", "Rounds of making room for pods of queues that found no node.", value=engine.room_rounds
    )
    yield CounterMetricFamily(
        "moorage_words_left_out",
        "Conditions and events of pods that wait which were left out, as they waited no more when it was their turn.",
        value=engine.words_left_out,
    )
    underway = GaugeMetricFamily(
        "scheduler_goroutines", "Operations that are under way, by what they do.", labels=("operation",)
    )
    underway.add_metric(("binding",), engine.bindings.posted)
    yield underway


def _idle(engine: Engine) -> Iterable[Metric]:
    """What is idle, where a profile knows what would be of use."""
    telling = [(profile, runner.plugins.first(TellsIdle)) for profile, runner in engine.runners.items()]
    if all(plugin is None for _, plugin in telling):
        return
    labels = ("resource", "profile")
    idle = GaugeMetricFamily(
        "moorage_idle_capacity", "What no pod has requested: devices, cores, bytes.", labels=labels
    )
    unusable = GaugeMetricFamily(
        "moorage_unusable_idle_capacity",
        "The mean part of it that typical pods cannot use: it lies in pieces, or something else is used up there.",
        labels=labels,
    )
    for profile, plugin in telling:
        for resource, found in ({} if plugin is None else plugin.idle(engine.state)).items():
            idle.add_metric((resource, profile), found.amount)
            unusable.add_metric((resource, profile), found.unusable)
    yield idle
    yield unusable


def _plugins(engine: Engine) -> Iterable[Metric]:
    evaluated = CounterMetricFamily(
        "scheduler_plugin_evaluation",
        "Decisions that a plugin had a say in, by extension point; also where its answer had been kept.",
        labels=("plugin", "extension_point", "profile"),
    )
    evaluations: Counter[tuple[str, str, str]] = Counter()
    for runner in engine.all_runners.values():
        for (point, plugin), number in runner.evaluations().items():
            evaluations[plugin, _POINT_NAMES[point], runner.profile.scheduler_name] += number
    for labels, number in evaluations.items():
        evaluated.add_metric(labels, number)
    yield evaluated
    evicting = [plugin for runner in engine.all_runners.values() for plugin in runner.plugins.having(CountsEvictions)]
    yield CounterMetricFamily(
        "scheduler_preemption_attempts",
        "How often room was looked for by evicting pods.",
        value=sum(plugin.attempts for plugin in evicting),
    )
    yield CounterMetricFamily(
        "moorage_evictions_guarded",
        "How often the guard against too many evictions held a preemption back.",
        value=sum(plugin.guarded for plugin in evicting),
    )


def _domains(engine: Engine) -> Iterable[Metric]:
    """The domains of gangs that were placed by the levels of a topology, and how few they could be."""
    labels = ("namespace", "group", "level")
    used = GaugeMetricFamily("moorage_gang_domains", "Domains that a gang was placed in, by level.", labels=labels)
    bound = GaugeMetricFamily(
        "moorage_gang_domains_bound", "Domains of a level without which the gang could not be placed.", labels=labels
    )
    for key, plan in islice(engine.gangs.plans.items(), _MOST_GANGS):
        for number, level in enumerate(plan.levels[: len(plan.value) - 1], start=1):
            used.add_metric((key.namespace, key.name, level), plan.value[number])
            if number < len(plan.bound):
                bound.add_metric((key.namespace, key.name, level), plan.bound[number])
    yield used
    yield bound


def _gangs(engine: Engine) -> Iterable[Metric]:
    waiting = GaugeMetricFamily("moorage_gangs_waiting", "Gangs with members that wait, by queue.", labels=("queue",))
    places = Counter(queue_of(gang.place, gang) for gang in engine.queue.gangs())
    for queue in ("active", "backoff", "unschedulable", "gated", _INCOMPLETE):
        waiting.add_metric((queue,), places[queue])
    yield waiting
    if engine.gangs.plans:
        yield from _domains(engine)
    if engine.planning is None:
        return
    given = GaugeMetricFamily("moorage_plan_nodes", "Nodes that the plan gives away.", labels=("profile",))
    usable = GaugeMetricFamily("moorage_plan_capacity", "Nodes that the plan can give away.", labels=("profile",))
    for profile, (used, capacity) in engine.planning.sizes().items():
        given.add_metric((profile,), used)
        usable.add_metric((profile,), capacity)
    yield given
    yield usable
