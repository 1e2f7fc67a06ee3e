"""The `plugins` of a profile: whether names are known, may stand where they stand, and have sensible weights.

A name that kube-scheduler knows but the registry does not is a problem where leaving the plugin out could put a pod on
a node it must not get, and only a notice at Score, where it merely changes the preference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from moorage.core.values import dataclass
from moorage.framework.configuration import ALL, EnabledPlugin, PluginSet
from moorage.framework.defaults import KUBE_SCHEDULER_PLUGINS, KUBE_SCHEDULER_POINTS, REMOVED_PLUGINS
from moorage.framework.plugin import Point
from moorage.framework.registry import Registry
from moorage.wire.configuration.findings import Findings
from moorage.wire.configuration.schema import EntryShape, PluginsShape, SetShape
from moorage.wire.configuration.shapes import UNREADABLE

MULTI_POINT = "multiPoint"
_FOREIGN_POINTS = ("placement_generate", "placement_score", "pod_group_post_filter")
_PREFERENCE_POINTS = (Point.PRE_SCORE, Point.SCORE)


@dataclass(slots=True)
class PluginSets:
    """The sets of a profile, with the plugins' own names in place of aliases."""

    multi_point: PluginSet = field(default_factory=PluginSet)
    points: dict[Point, PluginSet] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    """The sets with entries that could not be understood: what seems missing there may have been meant by them."""


def read_plugin_sets(path: str, shape: PluginsShape, registry: Registry, findings: Findings) -> PluginSets:
    """Check every set of a profile; entries with problems are left out."""
    sets = PluginSets()
    for point, set_shape in _sets(shape):
        reader = _SetReader(f"{path}.{point or MULTI_POINT}", point, registry, findings)
        plugin_set = PluginSet(tuple(reader.enabled(set_shape.enabled)), tuple(reader.disabled(set_shape.disabled)))
        if reader.unclear:
            sets.unclear.add(point or MULTI_POINT)
        if point is None:
            sets.multi_point = plugin_set
        elif plugin_set != PluginSet():
            sets.points[point] = plugin_set
    for name in _FOREIGN_POINTS:
        set_shape = getattr(shape, name)
        if set_shape.enabled or set_shape.disabled:
            alias = PluginsShape.model_fields[name].alias
            names = [entry.name for entry in (*set_shape.enabled, *set_shape.disabled)]
            findings.notice(f"{path}.{alias}", names, "has no effect: Moorage does not have this extension point")
    return sets


def _sets(shape: PluginsShape) -> Iterator[tuple[Point | None, SetShape]]:
    by_alias = {field.alias: getattr(shape, name) for name, field in PluginsShape.model_fields.items()}
    yield None, by_alias[MULTI_POINT]
    for point in Point:
        yield point, by_alias[point.value]


def unknown_plugin(name: str, registry: Registry) -> str:
    """What to say about an unknown name."""
    if name in REMOVED_PLUGINS:
        return "was removed from v1; NodeVolumeLimits does its work"
    meant = registry.suggestion(name, also=KUBE_SCHEDULER_PLUGINS)
    remedy = f"did you mean {meant}?" if meant else "correct the name, or install the package that brings the plugin"
    return f"no plugin has this name; {remedy}"


class _SetReader:
    """Reads the lists of one set; `point` is None for multiPoint."""

    def __init__(self, path: str, point: Point | None, registry: Registry, findings: Findings) -> None:
        self._path = path
        self._point = point
        self._registry = registry
        self._findings = findings
        self.unclear = False

    def enabled(self, entries: Sequence[EntryShape]) -> Iterator[EnabledPlugin]:
        """The entries that can run here."""
        first: dict[str, int] = {}
        for index, entry in enumerate(entries):
            path = f"{self._path}.enabled[{index}]"
            if entry.weight is not None and entry.weight < 0:
                message = "must not be negative; 0 means 1, and disabled removes a plugin"
                self._findings.problem(f"{path}.weight", entry.weight, message)
            if entry.name == UNREADABLE or not self._is_allowed(f"{path}.name", entry.name):
                self.unclear = True
                continue
            name = self._registry.canonical(entry.name)
            if name in first:
                where = f"{self._path}.enabled[{first[name]}]"
                self._findings.problem(f"{path}.name", entry.name, f"enabled twice; remove this or {where}")
                continue
            first[name] = index
            yield EnabledPlugin(name, self._weight(f"{path}.weight", name, entry.weight))

    def disabled(self, entries: Sequence[EntryShape]) -> Iterator[str]:
        """The names that are disabled; an unknown one disables nothing, and kube-scheduler accepts it too."""
        for index, entry in enumerate(entries):
            path = f"{self._path}.disabled[{index}]"
            known = entry.name in self._registry or entry.name in KUBE_SCHEDULER_PLUGINS or entry.name == ALL
            if entry.name == UNREADABLE:
                self.unclear = True
                continue
            if not known:
                message = f"has no effect: {unknown_plugin(entry.name, self._registry)}"
                self._findings.notice(f"{path}.name", entry.name, message)
            if entry.weight is not None:
                self._findings.notice(f"{path}.weight", entry.weight, "has no effect: the plugin is disabled here")
            yield self._registry.canonical(entry.name)

    def _is_allowed(self, path: str, name: str) -> bool:
        if name == ALL:
            self._findings.problem(path, name, "* can only be disabled; name the plugins to enable")
        elif name not in self._registry and name not in KUBE_SCHEDULER_PLUGINS:
            self._findings.problem(path, name, unknown_plugin(name, self._registry))
        elif self._point is not None and self._point not in self._points(name):
            points = ", ".join(point for point in Point if point in self._points(name)) or "none"
            self._findings.problem(path, name, f"this plugin has no {self._point}; it has {points}")
        elif name not in self._registry and self._point not in _PREFERENCE_POINTS:
            self._findings.problem(path, name, "this plugin of kube-scheduler is not built yet; remove the entry")
        else:
            self._say_if_idle(path, name)
            return True
        return False

    def _points(self, name: str) -> frozenset[Point]:
        """Where the plugin may be named: what it has here, and what it has in kube-scheduler."""
        cls = self._registry.get(name)
        own: frozenset[Point] = cls.points() if cls else frozenset()
        return own.union(KUBE_SCHEDULER_POINTS.get(self._registry.canonical(name), ()))

    def _say_if_idle(self, path: str, name: str) -> None:
        cls = self._registry.get(name)
        if cls is None:
            self._findings.notice(path, name, "has no effect: this plugin of kube-scheduler is not built yet")
        elif self._point is not None and self._point not in cls.points():
            self._findings.notice(path, name, f"has no effect: this plugin needs no {self._point} in Moorage")

    def _weight(self, path: str, name: str, weight: int | None) -> int:
        if weight is None or weight < 0:
            return 0
        cls = self._registry.get(name)
        counts = self._point in (None, Point.SCORE) and (cls is None or Point.SCORE in cls.points())
        if weight and not counts:
            self._findings.notice(
                path, weight, "has no effect: only plugins that score have a weight, at score or multiPoint"
            )
        return weight
