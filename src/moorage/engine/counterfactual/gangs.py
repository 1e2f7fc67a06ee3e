"""What lets a gang start: fewer members, a wider level, pods that leave a domain, more nodes, or smaller requests."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.core.edits import AddNode, Annotate, Edits, ShrinkGang
from moorage.core.gangs import NATIVE_KIND, group_object, terms_of
from moorage.core.gangtopology import TopologyMistake, topology_terms
from moorage.core.pods import Pod
from moorage.core.topologyasks import TOPOLOGY_REQUIRED
from moorage.engine.counterfactual.gangmoves import gang_moves
from moorage.engine.counterfactual.growth import MOST_NODES, fewest, growth_cost, kinds_of_nodes, more_nodes
from moorage.engine.counterfactual.scene import Fit, Scene, lowered


def gang_candidates(scene: Scene, pod: Pod) -> Iterator[tuple[float, Edits]]:
    """Edits with their cost; a number of nodes, or of members, is the smallest, or largest, that will do."""
    yield from smaller_gangs(scene, pod)
    yield from _wider(scene)
    yield from gang_moves(scene)
    for rank, node in enumerate(kinds_of_nodes(scene.state, pod.template)):
        found = fewest(lambda count, like=node.name: _grown(scene, like, count), MOST_NODES)  # type: ignore[misc]
        if isinstance(found, Fit):
            count = sum(isinstance(edit, AddNode) for edit in found.edits)
            yield growth_cost(count, rank), found.edits
    yield from lowered(scene, pod, ())


def _grown(scene: Scene, like: str, count: int) -> Fit | None:
    return scene.trial(more_nodes(scene.state, like, count))


def _wider(scene: Scene) -> Iterator[tuple[float, Edits]]:
    """A wider level than the required one; the narrowest that is enough."""
    group = None if scene.unit is None else group_object(scene.state, scene.unit)
    key = TOPOLOGY_REQUIRED
    if group is None or key not in group.annotations:
        return
    terms = topology_terms(scene.state, group, [pod.template for pod in scene.members])
    if terms is None or isinstance(terms, TopologyMistake) or group.annotations[key] not in terms.levels.keys:
        return
    wider = terms.levels.keys[: terms.levels.keys.index(group.annotations[key])]
    for steps, level in enumerate(reversed(wider)):
        edits = (Annotate(NATIVE_KIND, group.namespace, group.name, key, level),)
        if scene.trial(edits) is not None:
            yield 2.5 + 0.5 * steps, edits
            return


def smaller_gangs(scene: Scene, pod: Pod) -> Iterator[tuple[float, Edits]]:
    """As many members as will do."""
    key = scene.unit
    group = None if key is None else group_object(scene.state, key)
    terms = None if key is None else terms_of(scene.state, key, [pod])
    if key is None or group is None or terms is None or terms.min_count is None:
        return
    low, high = 0, terms.min_count
    while high - low > 1:
        middle = (low + high) // 2
        fits = scene.trial((ShrinkGang(NATIVE_KIND, group.namespace, group.name, middle),)) is not None
        low, high = (middle, high) if fits else (low, middle)
    if low:
        lost = terms.min_count - low
        yield 3.0 + 3.0 * lost / terms.min_count, (ShrinkGang(NATIVE_KIND, group.namespace, group.name, low),)
