"""The available plugins: the built-in ones and those of installed packages.

A package offers plugins through the entry-point group `moorage.plugins`; each entry point names a plugin class. One
that cannot be loaded is reported in one line and does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from moorage.core.values import dataclass
from moorage.framework.plugin import Plugin
from moorage.framework.registry import Registry, RegistryError
from moorage.plugins.builtin import BUILTIN
from moorage.wire.problems import Problem

GROUP = "moorage.plugins"


@dataclass(frozen=True, slots=True)
class FoundPlugins:
    """What can be named in a configuration, and what could not be loaded."""

    registry: Registry
    problems: tuple[Problem, ...] = ()


def find_plugins(
    builtin: Iterable[type[Plugin]] = BUILTIN, installed: Iterable[EntryPoint] | None = None
) -> FoundPlugins:
    """All plugins; `installed` replaces the entry points of the packages that are installed."""
    registry = Registry(builtin)
    problems: list[Problem] = []
    found = entry_points(group=GROUP) if installed is None else installed
    for entry_point in sorted(found, key=lambda each: (each.name, each.value)):
        message = _register(entry_point, registry)
        if message:
            problems.append(Problem(_package(entry_point), f"{GROUP}.{entry_point.name}", entry_point.value, message))
    return FoundPlugins(registry, tuple(problems))


def _register(entry_point: EntryPoint, registry: Registry) -> str:
    """Load and register the class; returns the problem, empty if there is none."""
    try:
        registry.register(entry_point.load())
    except RegistryError as error:
        return str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - importing runs a stranger's code
        reason = (str(error).splitlines() or [""])[0]
        remedy = "repair or remove the package"
        return f"the plugin cannot be loaded: {type(error).__name__}{': ' if reason else ''}{reason}; {remedy}"
    return ""


def _package(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist
    return f"package {distribution.name} {distribution.version}" if distribution else "an installed package"
