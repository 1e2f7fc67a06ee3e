"""The record of a gang's start: written on one member before the first bind, so that the next leader can finish it.

Every scheduler may write the status of pods; no other right is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from moorage.core.frozen import FrozenDict
from moorage.core.gangrecords import GangRecord
from moorage.core.pods import Pod
from moorage.engine.bindingcycles import GangBinding


def starting(gang_binding: GangBinding, term: str) -> GangRecord:
    """The record of a start that is about to begin."""
    nodes = FrozenDict({binding.entry.pod.name: binding.node for binding in gang_binding.members})
    return GangRecord(done=False, term=term, nodes=nodes)


def records_of(pods: Iterable[Pod]) -> list[GangRecord]:
    """The records that the members of a gang carry."""
    return [pod.gang_record for pod in pods if pod.gang_record is not None]


def recorded_size(pods: Collection[Pod]) -> int | None:
    """How many of these members the record of an unfinished start names; None if there is no such record."""
    records = records_of(pods)
    if any(record.done for record in records):
        return None
    names = {pod.name for pod in pods}
    return max((len(names & record.nodes.keys()) for record in records), default=0) or None
