"""The explanation of one pod, printed as one JSON document, or as a table with a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from moorage.core.phrases import counted, listed, room_made
from moorage.core.trials import Side
from moorage.engine.counterfactual import runner_up
from moorage.engine.explain import PASSED_OVER, NodeExplanation
from moorage.engine.opinion import Opinion
from moorage.sim import tables
from moorage.sim.explanations import nodes_document
from moorage.views.details import detail_groups

if TYPE_CHECKING:  # a client of the API server, which files do not need
    from moorage.app.explain import Announcement

SHOWN_NODES = 20
"""How many nodes a table shows without --all."""

_SIDES = {Side.TRIAL: "trial", Side.CONTROL: "configuration, beside the trial"}

Ranked = Sequence[tuple[str, NodeExplanation]]


def write_json(opinion: Opinion, story: Sequence[Announcement], out: TextIO) -> None:
    """One entry of `pods`, as `moorage simulate --explain -o json` has it; of a live pod also what happened to it."""
    so_far = {"story": [_announcement(each) for each in story]} if story else {}
    out.write(msgspec.json.encode({**document(opinion), **so_far}).decode() + "\n")


def _announcement(said: Announcement) -> dict[str, Any]:
    return {"time": said.last_s, "reason": said.reason, "message": said.note, "count": said.times}


def document(opinion: Opinion) -> dict[str, Any]:
    """The entry as plain values."""
    return {
        "namespace": opinion.namespace,
        "name": opinion.name,
        "schedulerName": opinion.scheduler_name,
        "node": opinion.node,
        "nominatedNode": opinion.nominated_node,
        "victims": list(opinion.victims),
        "message": opinion.message,
        "explain": nodes_document(opinion.nodes),
        **({"side": opinion.side.value} if opinion.side is not None else {}),
        **({"capacity": opinion.capacity} if opinion.capacity else {}),
        **({"queue": list(opinion.queue)} if opinion.queue else {}),
        **({"topology": list(opinion.topology)} if opinion.topology else {}),
        **({"arriving": list(opinion.arriving)} if opinion.arriving else {}),
        **_what_if(opinion),
    }


def _what_if(opinion: Opinion) -> dict[str, Any]:
    """Suggestions for a pending pod that fits nowhere, and the runner-up for a bound one.

    A pending pod that gets a node is shown exactly as by `moorage simulate`.
    """
    if opinion.node is None and opinion.stands_on is None:
        moves = [move.document() for move in opinion.moves]
        suggestions = [suggestion.document() for suggestion in opinion.suggestions]
        return {"suggestions": suggestions, **({"moves": moves} if moves else {})}
    second = runner_up(opinion) if opinion.stands_on is not None and not opinion.planned else None
    return {} if second is None else {"runnerUp": second.document()}


def write_table(opinion: Opinion, story: Sequence[Announcement], out: TextIO, *, show_all: bool) -> None:
    """The nodes, best first, and the summary."""
    order = ranked(opinion)
    listed = order if show_all else order[:SHOWN_NODES]
    if listed:
        rows = [_row(opinion, name, node) for name, node in listed]
        tables.write_table(("NODE", "TOTAL", "WHY"), rows, out, numbers=("TOTAL",))
        if len(listed) < len(order):
            out.write(f"... and {len(order) - len(listed)} more nodes; --all shows them\n")
        out.write("\n")
    for group in detail_groups(opinion.nodes) if opinion.node is None else ():
        out.write(tables.shown(group.title) + "\n")
        out.writelines(f"    {tables.shown(line)}\n" for line in group.lines)
        out.write("\n")
    out.write(tables.shown(sentence(opinion)) + "\n")
    if opinion.side is not None:
        out.write(f"  decided on by the profiles of the {_SIDES[opinion.side]}\n")
    if opinion.capacity:
        out.write(f"  {tables.shown(opinion.capacity)}\n")
    said = opinion.message or ""
    queue = (line for line in opinion.queue if line not in said)
    out.writelines(f"  {tables.shown(line)}\n" for line in (*queue, *opinion.topology, *opinion.arriving))
    second = None if opinion.planned else runner_up(opinion)
    if second is not None:
        out.write(f"Runner-up: {tables.shown(second.text)}\n")
    if opinion.suggestions:
        out.write("\nWhat would help, the smallest change first:\n")
        lines = (f"{number:3}. {tables.shown(each.text)}\n" for number, each in enumerate(opinion.suggestions, start=1))
        out.writelines(lines)
    if opinion.moves:
        out.write(f"\nRepacking would make room with {counted(len(opinion.moves), 'move')}:\n")
        out.writelines(f"  {tables.shown(move.text)}\n" for move in opinion.moves[:SHOWN_NODES])
    if story:
        out.write("\nWhat happened so far, according to events:\n")
        out.writelines(f"  {_moment(each)}  {tables.shown(f'{each.reason}: {each.note}')}\n" for each in story)


def _moment(said: Announcement) -> str:
    at = datetime.fromtimestamp(said.last_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return at if said.times == 1 else f"{at} ({said.times} times)"


def ranked(opinion: Opinion) -> Ranked:
    """Nodes by falling total, the chosen one before its equals; then the rejected ones by what rejected them."""

    def place(item: tuple[str, NodeExplanation]) -> tuple[Any, ...]:
        name, node = item
        why = str(node.rejected or node.passed_over)
        return (bool(node.rejected), not node.competes, -node.total, name != opinion.node, why, name)

    return sorted(opinion.nodes.items(), key=place)


def sentence(opinion: Opinion) -> str:
    """The summary."""
    pod = f"{opinion.namespace}/{opinion.name}"
    if opinion.stands_on is not None:
        return f"{pod} is on {opinion.stands_on}, {_standing(opinion)}"
    if opinion.node is None:
        return f"{pod} is pending: {opinion.message}"
    return f"{pod} goes to {opinion.node}{room_made(opinion.victims)}, {_merit(opinion)}."


def _merit(opinion: Opinion) -> str:
    """Why the chosen node was chosen."""
    if opinion.planned:
        return "where the plan of its pod group puts it"
    feasible = _feasible(opinion)
    count = counted(len(opinion.nodes), "node")
    if len(feasible) <= 1:
        return f"the only one of {count} that fits" if len(opinion.nodes) > 1 else "the only node"
    best = dict(feasible).get(opinion.node or "")
    total = best.total if best is not None else 0
    equals = [name for name, node in feasible if node.total == total and name != opinion.node]
    tie = f", as much as {listed(equals)}" if equals else ""
    return f"which scores {total}{tie}, the best of {len(feasible)} nodes that fit ({count} in all)"


def _standing(opinion: Opinion) -> str:
    """How the node of a bound pod compares with the others now."""
    here = opinion.nodes.get(opinion.stands_on or "")
    now = f"{opinion.node} would be chosen now" if opinion.node is not None else f"nothing else fits: {opinion.message}"
    if not opinion.nodes:
        return f"and would not be attempted now: {opinion.message}"
    if here is None:
        return f"which no longer exists; {now}"
    if opinion.planned:
        again = opinion.node == opinion.stands_on
        return f"and the plan of its pod group would put it {'there again' if again else f'on {opinion.node}'} now."
    if here.rejected:
        return f"which would reject it now ({_why(here.rejected)}); {now}"
    if here.passed_over:
        return f"which would be {PASSED_OVER} ({_why(here.passed_over)}); {now}"
    feasible = _feasible(opinion)
    better = [name for name, node in feasible if node.total > here.total]
    if not better:
        return f"which still ranks best of {len(feasible)} that fit ({here.total})."
    best = dict(feasible)[better[0]]
    return (
        f"which scores {here.total} and ranks {len(better) + 1} of {len(feasible)} that fit; "
        f"{better[0]} ranks best now ({best.total})."
    )


def _feasible(opinion: Opinion) -> Ranked:
    return [(name, node) for name, node in ranked(opinion) if node.competes]


def _row(opinion: Opinion, name: str, node: NodeExplanation) -> tuple[str, str, str]:
    mark = " *" if name == opinion.node else ""
    if node.rejected:
        return (name + mark, "-", _why(node.rejected))
    if node.passed_over:
        return (name + mark, "-", f"{_why(node.passed_over)} ({PASSED_OVER})")
    return (name + mark, str(node.total), " ".join(f"{plugin}={score}" for plugin, score in node.scores.items()))


def _why(reasons: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{plugin}: {', '.join(said)}" for plugin, said in reasons.items())
