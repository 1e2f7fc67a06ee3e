"""Resolves a profile of the configuration to the plugins that run, in order, with their weights.

A profile holds factories; every runner makes its own plugins (`framework.instances`), so profiles can be shared by any
number of runners, clusters and threads.

The rules are kube-scheduler's:
- The default plugins count as entries of multiPoint. A multiPoint entry of the same name replaces a default, with its
  own weight; other multiPoint entries follow the defaults. `disabled` removes defaults, never what the same set
  enables.
- multiPoint enables a plugin at every extension point it has, except where that point's own set disables it; `*` there
  leaves only what the point itself enables.
- At a point, first come its own entries that multiPoint has too (in the point's order), then the rest of multiPoint,
  then the point's other entries.
- A weight at `score` wins over one in multiPoint; 0 stands for 1.

Unlike in kube-scheduler, a plugin may have no extension point at all; it is enabled in multiPoint like any other. And a
plugin that kube-scheduler does not have always gets the point that prepares another one with that point: named at
`filter` alone, it also has its PreFilter, where it warns of what it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from moorage.core.frozen import FrozenDict
from moorage.core.values import dataclass
from moorage.framework.configuration import ALL, Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.defaults import DEFAULT_PLUGINS, KUBE_SCHEDULER_PLUGINS
from moorage.framework.plugin import Plugin, Point
from moorage.framework.registry import Registry

MAX_NODE_SCORE = 100
MAX_TOTAL_SCORE = 2**63 - 1
_EMPTY = PluginSet()
_PREPARES = {Point.PRE_FILTER: Point.FILTER, Point.PRE_SCORE: Point.SCORE}


class ProfileError(ValueError):
    """A profile that cannot run; the message is one line. `plugin` is the plugin that refused, if one did."""

    def __init__(self, message: str, plugin: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin


@dataclass(frozen=True, slots=True)
class Resolution:
    """The names of the plugins at each point, in order, before any plugin is built."""

    names: Mapping[Point, tuple[str, ...]]
    weights: Mapping[str, int]
    missing: tuple[str, ...]
    """Default plugins that this profile would run if the registry had them."""
    pointless: tuple[str, ...] = ()
    """Plugins of multiPoint that have no extension point; they are found by their hooks."""


@dataclass(frozen=True, slots=True)
class Shortcoming:
    """Why the plugins of a profile do not make a scheduler."""

    point: Point
    value: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Factory:
    """Makes one plugin of a profile, a new one at each call of `make`."""

    name: str
    make: Callable[[], Plugin]
    args: Any = None
    kinds: frozenset[str] = frozenset()
    """Kinds that the plugin reads from `state.objects`."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins that decide on the pods of one scheduler name."""

    scheduler_name: str
    by_point: Mapping[Point, tuple[Factory, ...]]
    weights: Mapping[str, int]
    """Of every plugin at Score, by name; at least 1."""
    pointless: tuple[Factory, ...] = ()
    """The plugins that have no extension point."""

    def at(self, point: Point) -> tuple[Factory, ...]:
        """The plugins of a point, in the order in which they run."""
        return self.by_point.get(point, ())

    def without(self, *points: Point) -> Profile:
        """The same profile without these points."""
        return replace(self, by_point=FrozenDict({at: made for at, made in self.by_point.items() if at not in points}))

    @property
    def plugins(self) -> tuple[Factory, ...]:
        """Every plugin of the profile once, in the order in which it first appears; those without a point come last."""
        by_name = {plugin.name: plugin for point in Point for plugin in self.at(point)}
        return (*by_name.values(), *self.pointless)


def resolve(profile: ProfileConfiguration, registry: Registry) -> Resolution:
    """Which plugins run at which point. Names that the registry does not have are left out."""
    everywhere = _merge(DEFAULT_PLUGINS, profile.multi_point)
    known = [entry for entry in everywhere if entry.name in registry]
    names = {point: _order(point, profile.points.get(point, _EMPTY), known, registry) for point in Point}
    for preparing, prepared in _PREPARES.items():
        own = (name for name in names[prepared] if name not in KUBE_SCHEDULER_PLUGINS)
        missed = (name for name in own if name not in names[preparing] and _has(registry, name, preparing))
        names[preparing] = (*names[preparing], *missed)
    score_entries = (*profile.points.get(Point.SCORE, _EMPTY).enabled, *known)
    missing = tuple(e.name for e in everywhere if e.name not in registry and e not in profile.multi_point.enabled)
    pointless = tuple(entry.name for entry in known if not _points(registry, entry.name))
    return Resolution(FrozenDict(names), FrozenDict(_weights(score_entries, registry)), missing, pointless)


def shortcomings(resolution: Resolution) -> tuple[Shortcoming, ...]:
    """What keeps the profile from running."""
    found: list[Shortcoming] = []
    queue_sort, bind = resolution.names[Point.QUEUE_SORT], resolution.names[Point.BIND]
    if len(queue_sort) != 1:
        message = "exactly one queue sort plugin is needed; enable PrioritySort and disable others"
        found.append(Shortcoming(Point.QUEUE_SORT, queue_sort, message))
    if not bind:
        found.append(Shortcoming(Point.BIND, bind, "at least one bind plugin is needed; enable DefaultBinder"))
    if sum(resolution.weights.values()) * MAX_NODE_SCORE > MAX_TOTAL_SCORE:
        message = "the sum of all scores would overflow; use smaller weights"
        found.append(Shortcoming(Point.SCORE, tuple(resolution.weights), message))
    return tuple(found)


def build_profile(profile: ProfileConfiguration, registry: Registry) -> Profile:
    """Resolve the profile and try its plugins' arguments; `ProfileError` where one refuses them."""
    resolution = resolve(profile, registry)
    for shortcoming in shortcomings(resolution):
        raise ProfileError(f"profile {profile.scheduler_name}: {shortcoming.point}: {shortcoming.message}")
    wanted = dict.fromkeys(name for names in (*resolution.names.values(), resolution.pointless) for name in names)
    made = {name: _factory(name, profile, registry) for name in wanted}
    by_point = {point: tuple(made[name] for name in names) for point, names in resolution.names.items()}
    at_score = {name: resolution.weights[name] for name in resolution.names[Point.SCORE]}
    pointless = tuple(made[name] for name in resolution.pointless)
    return Profile(profile.scheduler_name, FrozenDict(by_point), FrozenDict(at_score), pointless)


def build_profiles(configuration: Configuration, registry: Registry) -> tuple[Profile, ...]:
    """All profiles of a configuration, in its order."""
    return tuple(build_profile(profile, registry) for profile in configuration.profiles)


def _merge(defaults: Iterable[EnabledPlugin], changes: PluginSet) -> list[EnabledPlugin]:
    """The multiPoint entries: defaults with the profile's changes applied."""
    replaced = {entry.name: entry for entry in changes.enabled}
    kept: dict[str, EnabledPlugin] = {}
    if ALL not in changes.disabled:
        kept = {e.name: replaced.get(e.name, e) for e in defaults if e.name not in changes.disabled}
    for entry in changes.enabled:
        kept.setdefault(entry.name, entry)
    return list(kept.values())


def _order(point: Point, own: PluginSet, everywhere: Iterable[EnabledPlugin], registry: Registry) -> tuple[str, ...]:
    """The plugins at one point, given its own set and the multiPoint entries."""
    enabled = _having(point, own.enabled, registry)
    if ALL in own.disabled:
        return tuple(enabled)
    general = [name for name in _having(point, everywhere, registry) if name not in own.disabled]
    overriding = [name for name in enabled if name in general]
    general_only = [name for name in general if name not in enabled]
    return (*overriding, *general_only, *(name for name in enabled if name not in general))


def _weights(entries: Iterable[EnabledPlugin], registry: Registry) -> dict[str, int]:
    weights: dict[str, int] = {}
    for entry in entries:
        if _has(registry, entry.name, Point.SCORE):
            weights.setdefault(entry.name, entry.weight or 1)
    return weights


def _having(point: Point, entries: Iterable[EnabledPlugin], registry: Registry) -> list[str]:
    return list(dict.fromkeys(entry.name for entry in entries if _has(registry, entry.name, point)))


def _has(registry: Registry, name: str, point: Point) -> bool:
    return point in _points(registry, name)


def _points(registry: Registry, name: str) -> frozenset[Point]:
    cls = registry.get(name)
    return frozenset() if cls is None else cls.points()


def _factory(name: str, profile: ProfileConfiguration, registry: Registry) -> Factory:
    cls = registry.get(name)
    if cls is None:
        raise ProfileError(f"profile {profile.scheduler_name}: no plugin is called {name}", name)
    try:
        args = profile.args.get(name)
        args = cls.Args() if args is None else args
        cls(args)
    except Exception as error:  # constructors of third-party plugins may raise anything; it becomes one line
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise ProfileError(f"profile {profile.scheduler_name}: {name} refused its arguments: {reason}", name) from error
    return Factory(cls.name, partial(cls, args), args, cls.kinds)
