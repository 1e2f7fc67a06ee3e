"""The page of the queue: pending pods, where they wait, since when and why; and their gangs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from moorage.core.gangs import terms_of
from moorage.core.membership import GangKey
from moorage.core.pods import Pod
from moorage.engine.units import Place
from moorage.views.world import World

_MOST_MEMBERS = 200
_MOST_GANGS = 100


def queue_counts(world: World) -> dict[str, int]:
    """How many pods are in each place."""
    counts = Counter(world.place(pod)[0] for pod in world.waiting.values())
    return {place.value: counts[place] for place in Place}


def queue_page(world: World, most: int, place: str = "") -> dict[str, Any]:
    """Pending pods, the most important and oldest first, `most` of each place; only those of `place` if it is given."""
    by_place: dict[Place, list[tuple[Pod, str]]] = {each: [] for each in Place}
    for pod in world.waiting.values():
        where, message = world.place(pod)
        by_place[where].append((pod, message))
    shown: list[dict[str, Any]] = []
    for where, pods in by_place.items():
        if place in ("", where.value):
            pods.sort(key=lambda pair: (-pair[0].template.priority, pair[0].created_s, pair[0].key))
            shown += [_row(world, pod, where, message) for pod, message in pods[:most]]
    return {
        "version": world.versions.queue,
        "counts": {where.value: len(pods) for where, pods in by_place.items()},
        "exact": world.queue is not None,
        "rows": shown,
        "gangs": [*_gangs(world, (pod for pods in by_place.values() for pod, _ in pods))][:_MOST_GANGS],
    }


def _row(world: World, pod: Pod, place: Place, message: str) -> dict[str, Any]:
    entry = None if world.queue is None else world.queue.get(pod.uid)
    return {
        "pod": pod.key,
        "place": place.value,
        "since": pod.created_s if entry is None else entry.since_s,
        "attempts": None if entry is None else entry.attempts,
        "message": message,
        "priority": pod.template.priority,
        "scheduler": pod.template.scheduler_name,
        "nominated": pod.nominated_node or "",
        "gang": "" if pod.template.gang is None else pod.template.gang.object_key,
    }


def _gangs(world: World, waiting: Iterable[Pod]) -> Iterable[dict[str, Any]]:
    """The gangs of pending pods, each with all its members."""
    keys = dict.fromkeys(pod.template.gang for pod in waiting if pod.template.gang is not None)
    for key in keys:
        yield _gang(world, key)


def _gang(world: World, key: GangKey) -> dict[str, Any]:
    members = [world.pods[uid] for uid in world.gangs.get(key, {})]
    waiting = [pod for pod in members if pod.node is None]
    terms = terms_of(world.state, key, waiting)
    return {
        "name": key.object_key,
        "needs": None if terms is None else terms.min_count,
        "standing": len(members) - len(waiting),
        "members": [
            {"pod": pod.key, "node": pod.node or "", "place": "" if pod.node else world.place(pod)[0].value}
            for pod in sorted(members, key=lambda pod: pod.name)[:_MOST_MEMBERS]
        ],
        "total": len(members),
    }
