"""Pods moved out of a domain, so that a gang that asks for levels fits there: the fewest, each with another node.

Tried in the domains that need to lose least; the moved pods are placed anew with the gang already in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moorage.core.arrays import Rows
from moorage.core.disruption.away import MOVED, Away
from moorage.core.edits import Edits, MovePod
from moorage.core.pods import as_pending
from moorage.core.state import PodRecord
from moorage.engine.counterfactual.moves import importance, movable, size
from moorage.engine.counterfactual.scene import Scene
from moorage.framework.contract import PlansGangs

_MOST_DOMAINS = 12
_MOST_PODS = 4
"""More than so many moves are no small change."""
_MOST_FOUND = 2


def gang_moves(scene: Scene) -> Iterator[tuple[float, Edits]]:
    """Sets of moves with their cost."""
    found = 0
    for records in _crowds(scene)[:_MOST_DOMAINS]:
        edits = _places(scene, _fewest(scene, records))
        if edits:
            yield 2.0 + len(edits), edits
            found += 1
        if found >= _MOST_FOUND:
            return


def _crowds(scene: Scene) -> list[list[PodRecord]]:
    """Of each domain that the gang could be in, the pods that could leave it; those of few pods first."""
    crowds = ([record for row in rows.tolist() for record in scene.state.records_on(row)] for rows in _domains(scene))
    left = [[record for record in crowd if movable(record) and record.pod.template.gang is None] for crowd in crowds]
    return sorted((crowd for crowd in left if crowd), key=lambda crowd: (len(crowd), crowd[0].node))


def _domains(scene: Scene) -> Sequence[Rows]:
    planner = None if scene.runner is None else scene.runner.plugins.first(PlansGangs)
    needs = scene.gang_needs
    if planner is None or needs is None:
        return ()
    return planner.gang_domains([scene.cycle(pod) for pod in scene.members], needs) or ()


def _fewest(scene: Scene, crowd: Sequence[PodRecord]) -> list[PodRecord]:
    """The fewest of the pods without which the gang fits; none if that takes too many."""
    gone = sorted(crowd, key=lambda each: (each.pod.template.priority, -size(each), each.pod.key))[:_MOST_PODS]
    if not _fits_without(scene, gone):
        return []
    for record in sorted(gone, key=importance, reverse=True):
        rest = [each for each in gone if each is not record]
        if rest and _fits_without(scene, rest):
            gone = rest
    return gone


def _fits_without(scene: Scene, gone: Sequence[PodRecord]) -> bool:
    with scene.state.statement():
        Away(scene.state).take(gone, MOVED)
        return scene.places_gang()


def _places(scene: Scene, gone: Sequence[PodRecord]) -> Edits:
    """A new node for each; empty if one of them has none."""
    found: list[MovePod] = []
    with scene.state.statement():
        nodes = {record.pod.uid: record.node for record in gone}
        Away(scene.state).take(gone, MOVED)
        if not gone or not scene.places_gang():
            return ()
        for pod in (record.pod for record in gone):
            placed = scene.place(as_pending(pod))
            if placed is None:
                return ()
            found.append(MovePod(pod.namespace, pod.name, pod.uid, nodes[pod.uid], placed.node))
    return tuple(found)
