"""The list of an engine's facts: a new attribute of a part has to be listed as one, or as none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moorage.core.state import ClusterState
from moorage.engine.engine import Engine
from moorage.engine.facts import FACTS, REBUILT
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Extender
from moorage.framework.cycle import Cycle
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing.builders import make_pod
from tests.engine.planned import configuration


def parts(part: Any) -> Iterator[Any]:
    yield part
    for name in FACTS[type(part)]:
        value = getattr(part, name)
        if type(value) in FACTS:
            yield from parts(value)


def everything() -> dict[type, Any]:
    """One of each part that has facts."""
    profiles = build_profiles(configuration(), Registry(BUILTIN))
    engine = Engine(profiles, EngineSettings(extenders=(Extender("http://a", filter_verb="f"),)))
    state: ClusterState = engine.state
    reserving = (state.evictions, state.nominations, state.volumes, state.devices, state.devices.writes)
    others = (*reserving, state.disruptions, Cycle(make_pod("a"), state, 0.0))
    return {type(each): each for each in (*parts(engine), *others)}


PARTS = everything()


def test_every_part_is_known() -> None:
    """Both tables speak of the same parts, and all of them are part of an engine."""
    assert set(FACTS) == set(REBUILT) == set(PARTS)


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
def test_every_attribute_is_a_fact_or_is_worked_out_again(kind: type) -> None:
    """A new one: name it in `engine.facts`, with its type if replays from the middle need it."""
    part = PARTS[kind]
    names = set(getattr(part, "__dict__", ())) | set(getattr(kind, "__slots__", ()))
    properties = {name for name in FACTS[kind] if isinstance(getattr(kind, name, None), property)}
    assert names - REBUILT[kind] == set(FACTS[kind]) - properties
    assert REBUILT[kind] <= names, "what is not there any more"


@pytest.mark.parametrize("plugin", BUILTIN, ids=lambda plugin: plugin.name)
def test_what_plugins_remember_is_there(plugin: Any) -> None:
    """The attributes that a plugin says it remembers exist."""
    made = plugin()
    assert all(hasattr(made, name) for name in made.remembers)
