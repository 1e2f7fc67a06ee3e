"""The record of a gang's start: a condition on one of its members, written before the first bind.

`False` means that the start is on its way, `True` that as many members as needed were bound. The message of the first
holds the term of leadership and the members with their nodes, so that whoever comes next can finish the start. Writing
a pod's status is what every scheduler may do; no other right is needed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from moorage.core.limits import GANG_RECORD_CHARS
from moorage.core.pods import GANG_RECORD, Condition, Pod
from moorage.engine.flights import Party

_BRACES = 2
"""A record is an object that holds one object; no name in it has a brace."""
_to_json = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class GangRecord:
    """What a record says."""

    done: bool
    term: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Member's name -> node."""


def starting(party: Party, term: str) -> Condition:
    """The record of a start that is about to begin."""
    nodes = {flight.entry.pod.name: flight.node for flight in party.flights}
    text = _to_json({"term": term, "members": nodes})
    return Condition(GANG_RECORD, "False", "Binding", text)


STARTED = Condition(GANG_RECORD, "True", "Started", "")
"""The record of a start that has succeeded."""


def read_record(pod: Pod) -> GangRecord | None:
    """The record that a pod carries; None if there is none that we can have written.

    Anybody who may write a pod's status can write one. So its text is bounded before it is parsed, and says nothing
    unless it has our form.
    """
    condition = pod.gang_record
    if condition is None:
        return None
    if condition.status == "True":
        return GangRecord(done=True)
    text = condition.message
    if len(text) > GANG_RECORD_CHARS or text.count("{") > _BRACES or "[" in text:
        return None
    try:
        said = json.loads(text)
        members, term = said["members"], said.get("term", "")
        nodes = {str(name): str(node) for name, node in members.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return GangRecord(done=False, term=str(term), nodes=nodes)


def records_of(pods: Iterable[Pod]) -> list[GangRecord]:
    """The records that the members of a gang carry."""
    return [record for pod in pods if (record := read_record(pod)) is not None]


def recorded_size(pods: Collection[Pod]) -> int | None:
    """How many of these members the record of a start that is on its way names; None if there is no such record."""
    records = records_of(pods)
    if any(record.done for record in records):
        return None
    names = {pod.name for pod in pods}
    return max((len(names & record.nodes.keys()) for record in records), default=0) or None
