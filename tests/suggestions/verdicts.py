"""Puzzles put to `moorage explain`, its suggestions put to `moorage simulate`, and brute force where it has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.core.events import PodSeen
from moorage.engine.counterfactual import Suggestion
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.feed import Feed
from moorage.sim.inputs import ClusterInput, read_cluster
from moorage.sim.opinions import opinion_from_files
from moorage.sim.simulation import SimulationError, SimulationRules, by_node_name, simulate, start_time_s
from moorage.sim.suggestions import suggestions_from_files
from moorage.wire.manifests import parse_manifests
from tests.suggestions.bruteforce import single_changes
from tests.suggestions.puzzles import FAMILIES, Puzzle, puzzle

Plain = dict[str, Any]
_MOST_DRAWS = 40


def given(objects: Iterable[Plain]) -> ClusterInput:
    """The objects as if they stood in a file."""
    body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return read_cluster(parse_manifests("cluster.json", msgspec.json.encode(body)))


def rules(plugins: Iterable[str] = ()) -> SimulationRules:
    """The default profile with further plugins, for every scheduler name."""
    more = PluginSet(enabled=tuple(map(EnabledPlugin, plugins)))
    profile = ProfileConfiguration("moorage", multi_point=more)
    return SimulationRules(
        build_profiles(Configuration(profiles=(profile,)), Registry(BUILTIN)), EngineSettings(), True
    )


def node_of(objects: Iterable[Plain], using: SimulationRules, pod: str) -> str | None:
    """Where a simulation of the input puts the pod; None if nowhere, or if the input is refused."""
    try:
        outcome = simulate(given(objects), using)
    except SimulationError:
        return None
    return next((story.node for story in outcome.pods if story.name == pod), None)


def applied(objects: Iterable[Plain], changed: Iterable[Plain]) -> list[Plain]:
    """The input with these objects in place of those of the same kind and name, or added."""
    by_name = {(body["kind"], body["metadata"]["name"]): body for body in objects}
    return list((by_name | {(body["kind"], body["metadata"]["name"]): body for body in changed}).values())


@dataclass(frozen=True)
class Verdict:
    """What came of one puzzle."""

    puzzle: Puzzle
    suggestions: tuple[Suggestion, ...]
    wrong: tuple[str, ...]
    """Suggestions that do not let the pod fit."""
    missed: str | None
    """What brute force found although nothing was suggested."""


def stuck_puzzles(family: str, count: int) -> Iterator[Puzzle]:
    """So many puzzles of a family whose pod really is stuck."""
    first, found = list(FAMILIES).index(family), 0
    for draw in range(_MOST_DRAWS * count):
        drawn = puzzle(first + draw * len(FAMILIES))
        if node_of(drawn.objects, rules(drawn.plugins), drawn.pod) is None:
            yield drawn
            found += 1
        if found == count:
            return


def verdict(drawn: Puzzle, *, simulated: bool) -> Verdict:
    """Ask, and check every answer; unless `simulated`, answers that were proven in a statement only."""
    using = rules(drawn.plugins)
    found = (_explained if simulated else proven)(drawn, using)
    wrong = [each.text for each in found if not node_of(applied(drawn.objects, each.objects), using, drawn.pod)]
    missed = None if found else _brute_force(drawn, using)
    return Verdict(drawn, found, tuple(wrong), missed)


def _explained(drawn: Puzzle, using: SimulationRules) -> tuple[Suggestion, ...]:
    return opinion_from_files(given(drawn.objects), using, "default", drawn.pod).suggestions


def proven(drawn: Puzzle, using: SimulationRules) -> tuple[Suggestion, ...]:
    """What is suggested without a simulation to check it, as on a live cluster."""
    source = given(drawn.objects)
    cluster = EmbeddedCluster(SIMULATION, start_s=start_time_s(source.objects))
    cluster.load(by_node_name(source.objects))
    cluster.step()
    world = Feed(cluster).pull()
    pod = next(event.pod for event in world if isinstance(event, PodSeen) and event.pod.name == drawn.pod)
    look = partial(suggestions_from_files, source, using, cluster, world, pod)
    suggestions, _ = look(affordable=-1)
    return suggestions


def _brute_force(drawn: Puzzle, using: SimulationRules) -> str | None:
    changes = single_changes(drawn.objects, drawn.pod)
    return next((text for text, objects in changes if node_of(objects, using, drawn.pod)), None)
