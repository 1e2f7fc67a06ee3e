"""What-ifs as a page asks for them: plain values in, the difference as plain values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moorage.sim.difference_report import difference_document
from moorage.sim.simulation import SimulationError, SimulationRules
from moorage.sim.whatif import cluster_input, what_if
from moorage.sim.whatif_changes import AddNodes, Afresh, Change, ChangeError, Drain, Scale, parse_scale

MOST_CHANGES = 100
"""In one question."""
MOST_REPLICAS = 20_000
"""Of all workloads that are scaled, together. A page has to answer quickly; `moorage simulate` allows more."""
MOST_NODES = 5_000
"""That are added, together."""


class RequestError(ValueError):
    """What was asked for cannot be simulated; the text is for people."""


def answer(
    objects: Iterable[dict[str, Any]], rules: SimulationRules, asked: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """The difference that the changes of `asked` make to a cluster of whole objects.

    `asked` has lists of `drain` (node names), `scale` (as `parse_scale` reads them) and `add` (`number`, `like`), and
    `afresh`; all of them may be missing.
    """
    try:
        changes = [*_changes(asked)]
        if not changes:
            raise RequestError("no changes are given; add one")
        _check_size(changes)
        return difference_document(what_if(cluster_input(objects, source), changes, rules).difference)
    except ChangeError as error:
        raise RequestError("; ".join(error.problems)) from None
    except SimulationError as error:
        raise RequestError("; ".join(map(str, error.problems[:3]))) from None


def _check_size(changes: Sequence[Change]) -> None:
    replicas = sum(change.replicas for change in changes if isinstance(change, Scale))
    nodes = sum(change.number for change in changes if isinstance(change, AddNodes))
    for number, most, what in (
        (len(changes), MOST_CHANGES, "changes"),
        (replicas, MOST_REPLICAS, "replicas"),
        (nodes, MOST_NODES, "new nodes"),
    ):
        if number > most:
            raise RequestError(
                f"{number} {what} are too many to ask for here, {most} is the most; use moorage simulate"
            )


def _changes(asked: Mapping[str, Any]) -> Iterator[Change]:
    yield from (Drain(str(node)) for node in _items(asked, "drain"))
    yield from (parse_scale(str(text)) for text in _items(asked, "scale"))
    for each in _items(asked, "add"):
        number = each.get("number") if isinstance(each, Mapping) else None
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise RequestError("add: give a number of nodes above 0, and the node that they are like")
        yield AddNodes(number, str(each.get("like") or ""))
    if asked.get("afresh") is True:
        yield Afresh()


def _items(asked: Mapping[str, Any], name: str) -> list[Any]:
    found = asked.get(name) or []
    if not isinstance(found, list):
        raise RequestError(f"{name}: give a list")
    return found
