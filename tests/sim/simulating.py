"""Simulations of a few objects, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.plugin import Plugin
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.inputs import ClusterInput, read_cluster
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.simulation import SimulationRules, simulate
from moorage.wire.manifests import parse_manifests


def given(objects: Iterable[Any]) -> ClusterInput:
    """The objects as if they stood in the file `cluster.json`."""
    body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return read_cluster(parse_manifests("cluster.json", msgspec.json.encode(body)))


def rules(
    *extra: type[Plugin], names: Sequence[str] = ("moorage",), answers_to_all: bool = True, seed: int = 0
) -> SimulationRules:
    """The default profile with further plugins, once for each scheduler name."""
    plugins = PluginSet(enabled=tuple(EnabledPlugin(plugin.name) for plugin in extra))
    profiles = tuple(ProfileConfiguration(name, multi_point=plugins) for name in names)
    built = build_profiles(Configuration(profiles=profiles), Registry((*BUILTIN, *extra)))
    return SimulationRules(built, EngineSettings(seed=seed), answers_to_all)


def run(objects: Iterable[Any], using: SimulationRules | None = None, *, explain: bool = False) -> SimulationOutcome:
    """Simulate these objects."""
    return simulate(given(objects), using or rules(), explain=explain)


def places(outcome: SimulationOutcome) -> dict[str, str | None]:
    """`namespace/name` -> node, for every pod of the report."""
    return {story.key: story.node for story in outcome.pods}
