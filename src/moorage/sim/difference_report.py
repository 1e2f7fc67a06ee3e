"""A difference, printed: as plain values for documents, or as tables for people.

Scripts rely on the form of the document; docs/what-if.md describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from moorage.core.prices import format_price
from moorage.core.quantity import format_amount
from moorage.core.resources import CPU, MEMORY
from moorage.sim.difference import CostChange, Difference, Eviction, Money, MovedPod, PendingPod, PodAt, Why
from moorage.sim.tables import shown, write_table
from moorage.sim.utilisation import Usage

_NOTHING = "-"


def difference_document(difference: Difference) -> dict[str, Any]:
    """`difference` of the document."""
    return {
        "changes": list(difference.changes),
        "moves": [
            {**_pod(move), "from": move.source, "to": move.target, "becomes": move.becomes, "why": move.why.value}
            for move in difference.moves
        ],
        "waits": [
            {**_pod(wait), "from": wait.source, "becomes": wait.becomes, "message": wait.message}
            for wait in difference.waits
        ],
        "starts": [{**_pod(pod), "to": pod.node} for pod in difference.starts],
        "evicted": [
            {**_pod(each), "node": each.node, "why": each.why.value, "by": each.by, "returns": each.returns}
            for each in difference.evicted
        ],
        "added": [{**_pod(pod), "node": pod.node} for pod in difference.added],
        "removed": [{**_pod(pod), "node": pod.node} for pod in difference.removed],
        "budgets": [
            {
                "namespace": note.namespace,
                "name": note.name,
                "allowed": note.allowed,
                "evicted": note.evicted,
                "message": note.message,
            }
            for note in difference.budgets
        ],
        "notes": list(difference.notes),
        "utilisation": {
            name: {"before": _usage_document(before), "after": _usage_document(after)}
            for name, (before, after) in difference.utilisation.items()
        },
        "cost": None if difference.cost is None else _cost_document(difference.cost),
        "summary": difference_summary(difference),
    }


def difference_summary(difference: Difference) -> dict[str, int]:
    """How many pods of each fate."""
    parts = ("moves", "waits", "starts", "evicted", "added", "removed")
    return {part: len(getattr(difference, part)) for part in parts}


def _pod(each: MovedPod | PendingPod | Eviction | PodAt) -> dict[str, str]:
    return {"namespace": each.namespace, "name": each.name}


def _usage_document(usage: Usage) -> dict[str, Any]:
    return {
        "nodes": usage.nodes,
        "pods": usage.pods,
        "cpu": _share_document(CPU, usage.cpu_milli, usage.allocatable_cpu_milli),
        "memory": _share_document(MEMORY, usage.memory_bytes, usage.allocatable_memory_bytes),
    }


def _share_document(resource: str, requested: int, allocatable: int) -> dict[str, Any]:
    return {
        "requested": format_amount(resource, requested),
        "allocatable": format_amount(resource, allocatable),
        "percent": _percent(requested, allocatable),
    }


def _percent(part: int, whole: int) -> float:
    """With one digit after the point, 0 of nothing."""
    return round(100 * part / whole, 1) if whole else 0.0


def _cost_document(cost: CostChange) -> dict[str, Any]:
    return {
        "currency": cost.currency,
        "before": _money_document(cost.before),
        "after": _money_document(cost.after),
        "withoutPrice": list(cost.without_price),
        "stale": cost.stale,
    }


def _money_document(money: Money) -> dict[str, Any]:
    return {
        "inUse": format_price(money.in_use_micros),
        "all": format_price(money.all_micros),
        "nodesInUse": money.nodes_in_use,
    }


def write_difference(difference: Difference, out: TextIO) -> None:
    """Tables of what differs, each only if there is something in it, and a line that sums up."""
    for columns, rows in _tables(difference):
        if rows:
            write_table(columns, rows, out)
            out.write("\n")
    budgets = (f"budget {note.namespace}/{note.name}: {note.message}" for note in difference.budgets)
    out.writelines(f"{shown(line)}\n" for line in (*budgets, *difference.notes))
    if difference.cost is not None:
        out.writelines(f"{line}\n" for line in _cost_lines(difference.cost))
    out.write(f"{_sentence(difference)}\n")


def _tables(difference: Difference) -> Iterator[tuple[tuple[str, ...], Sequence[tuple[str, ...]]]]:
    yield ("MOVES", "FROM", "TO", "AS", "WHY"), [_move_row(each) for each in difference.moves]
    yield ("WAITS", "FROM", "AS", "MESSAGE"), [_wait_row(each) for each in difference.waits]
    yield ("STARTS", "ON"), [(_key(pod), pod.node or _NOTHING) for pod in difference.starts]
    # Of a pod that a drain makes move or wait, the rows above have said everything.
    said = {*map(_key, difference.moves), *map(_key, difference.waits)}
    evicted = [each for each in difference.evicted if each.why is not Why.DRAIN or _key(each) not in said]
    yield ("EVICTED", "FROM", "WHY", "COMES BACK AS"), [_eviction_row(each) for each in evicted]
    yield ("ADDED", "ON"), [(_key(pod), pod.node or _NOTHING) for pod in difference.added]
    yield ("REMOVED", "FROM"), [(_key(pod), pod.node or _NOTHING) for pod in difference.removed]
    yield ("CAPACITY", "NODES", "PODS", "CPU", "MEMORY"), [*_usage_rows(difference.utilisation)]


def _key(each: MovedPod | PendingPod | Eviction | PodAt) -> str:
    return f"{each.namespace}/{each.name}"


def _move_row(move: MovedPod) -> tuple[str, ...]:
    return (_key(move), move.source, move.target, move.becomes or _NOTHING, move.why.value)


def _wait_row(wait: PendingPod) -> tuple[str, ...]:
    return (_key(wait), wait.source or _NOTHING, wait.becomes or _NOTHING, wait.message)


def _eviction_row(each: Eviction) -> tuple[str, ...]:
    why = f"to make room for {each.by}" if each.why is Why.PREEMPTION and each.by else each.why.value
    return (_key(each), each.node or _NOTHING, why, each.returns or _NOTHING)


def _usage_rows(usages: Mapping[str, tuple[Usage, Usage]]) -> Iterator[tuple[str, ...]]:
    for name, pair in usages.items():
        yield (
            name,
            _change(pair, lambda usage: str(usage.nodes)),
            _change(pair, lambda usage: str(usage.pods)),
            _change(pair, lambda usage: f"{_percent(usage.cpu_milli, usage.allocatable_cpu_milli)}%"),
            _change(pair, lambda usage: f"{_percent(usage.memory_bytes, usage.allocatable_memory_bytes)}%"),
        )


def _change(pair: tuple[Usage, Usage], shown: Callable[[Usage], str]) -> str:
    before, after = map(shown, pair)
    return before if before == after else f"{before} -> {after}"


def _cost_lines(cost: CostChange) -> Iterator[str]:
    notes = [f"{len(cost.without_price)} without a price"] if cost.without_price else []
    notes += ["stale prices"] if cost.stale else []
    end = f" ({', '.join(notes)})" if notes else ""
    for words, micros in (
        ("nodes in use", (cost.before.in_use_micros, cost.after.in_use_micros)),
        ("all nodes", (cost.before.all_micros, cost.after.all_micros)),
    ):
        before, after = (f"{format_price(each)} {cost.currency}".rstrip() for each in micros)
        yield f"cost per hour, {words}: {before} before, {after} after{end}"


def _sentence(difference: Difference) -> str:
    words = {"moves": "moved", "waits": "waiting", "starts": "started"}
    counts = difference_summary(difference).items()
    return ", ".join(f"{number} {words.get(name, name)}" for name, number in counts)
