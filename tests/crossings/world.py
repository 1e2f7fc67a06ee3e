"""A random cluster with all that happens in it, as a value that fits into a file."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import Reading, read_configuration
from tests.crossings.bodies import Body


@dataclass(frozen=True)
class World:
    """What is there at first, what happens, and when the leader is killed."""

    name: str
    capabilities: list[str] = field(default_factory=list)
    configuration: list[Body] = field(default_factory=list)
    objects: list[Body] = field(default_factory=list)
    script: list[Body] = field(default_factory=list)
    """Deeds (`deeds.perform`), in order of their times."""
    terms: dict[str, Any] = field(default_factory=dict)
    """How fast things are (`stage.Terms`)."""
    crashes: list[int] = field(default_factory=list)
    """The numbers of the commands at which the leader dies."""
    met: list[list[str]] = field(default_factory=list)
    """Capabilities that came together in the pods of each workload."""
    about: str = ""
    """What it shows, of a world that was kept."""

    def text(self) -> str:
        """As JSON."""
        return json.dumps({name: value for name, value in asdict(self).items() if value}, indent=1) + "\n"


def read_world(path: Path) -> World:
    """The world of a file."""
    return World(**json.loads(path.read_text()))


def reading_of(world: World) -> Reading:
    """The world's configuration, with plugins of its own: some remember what they have seen."""
    reading = _reading("---\n".join(json.dumps(each) + "\n" for each in world.configuration))
    assert reading.configuration is not None
    if reading.configuration.trial is not None:
        _reading.cache_clear()
        return reading
    return replace(reading, profiles=build_profiles(reading.configuration, Registry(BUILTIN)))


@functools.lru_cache(maxsize=2048)
def _reading(text: str) -> Reading:
    reading = read_configuration(text.encode(), "world.yaml", Registry(BUILTIN))
    if reading.configuration is None or reading.problems:
        raise ValueError(f"{[str(each) for each in reading.problems]} in {text}")
    return reading
