"""What the scheduler knows, written to the log on SIGUSR2, as kube-scheduler does: cached nodes, then the queue.

One line per node and per pending pod, some at a time, so that a large cluster does not hold up decisions: what happens
while the lines are written may show in the later ones.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import structlog

from moorage.adapters.metrics.sizes import queue_of
from moorage.core.quantity import format_amount
from moorage.engine.engine import Engine
from moorage.engine.units import QueuedPod
from moorage.views.words import step_note

_AT_ONCE = 50
"""How many lines are written before other work gets a chance."""

log = structlog.get_logger()


async def dump_on_signal(engine: Engine) -> None:
    """Write a dump on every SIGUSR2; runs until cancelled.

    Signals reach the main thread only: a scheduler in another thread writes no dumps.
    """
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    if threading.current_thread() is not threading.main_thread():
        await asked.wait()
    loop.add_signal_handler(signal.SIGUSR2, asked.set)
    try:
        while True:
            await asked.wait()
            asked.clear()
            await dump(engine)
    finally:
        loop.remove_signal_handler(signal.SIGUSR2)


async def dump(engine: Engine) -> None:
    """Write everything once."""
    await _spread("Dump of cached NodeInfo", (_node(engine, name) for name in sorted(engine.state.node_names())))
    entries = list(engine.queue.entries())
    log.info("Dump of scheduling queue", pods=len(entries), **Counter(_queue(engine, entry) for entry in entries))
    await _spread("Dump of queued pod", (_queued(engine, entry) for entry in entries))


async def _spread(text: str, lines: Iterable[dict[str, Any]]) -> None:
    for number, line in enumerate(lines):
        if line:
            log.info(text, **line)
        if number % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)


def _node(engine: Engine, name: str) -> dict[str, Any]:
    """What is known about a node; nothing if it is gone by now."""
    state = engine.state
    row = state.row_of(name)
    if row is None:
        return {}
    requested, allocatable = {}, {}
    for resource, asked, offered in state.resources.listed(row):
        requested[resource] = format_amount(resource, asked)
        allocatable[resource] = format_amount(resource, offered)
    return {
        "node": name,
        "requested": requested,
        "allocatable": allocatable,
        "pods": sorted(f"{record.pod.key}{' (assumed)' if record.assumed else ''}" for record in state.records_on(row)),
        "nominated": sorted(pod.key for pod in state.nominations.on(name)),
    }


def _queue(engine: Engine, entry: QueuedPod) -> str:
    return queue_of(entry.place, engine.queue.unit_of(entry))


def _queued(engine: Engine, entry: QueuedPod) -> dict[str, Any]:
    """A pending pod; nothing if it has left the queue."""
    if engine.queue.get(entry.pod.uid) is not entry:
        return {}
    unit = engine.queue.unit_of(entry)
    line = {
        "pod": entry.pod.key,
        "queue": _queue(engine, entry),
        "attempts": entry.attempts,
        "rejectedBy": sorted(unit.rejected_by),
        "message": unit.message,
    }
    if unit.gang is not None:
        line["gang"] = unit.gang.object_key
    if entry.pod.nominated_node:
        line["nominatedNode"] = entry.pod.nominated_node
    binding = engine.bindings.get(entry.pod.uid)
    if binding is not None:
        line |= {"node": binding.node, "stage": binding.state.value}
    return line | {"story": [f"{_time(at_s)} {step_note(state, cause)}" for at_s, state, cause in entry.story]}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
