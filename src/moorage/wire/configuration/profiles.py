"""The `profiles` of a configuration: each by itself, then what they must have in common."""

from __future__ import annotations

from moorage.core.values import dataclass
from moorage.framework.configuration import PluginSet, ProfileConfiguration
from moorage.framework.plugin import Point
from moorage.framework.profiles import Resolution, resolve, shortcomings
from moorage.framework.registry import Registry
from moorage.wire.configuration.findings import Findings
from moorage.wire.configuration.plugin_arguments import default_arguments, read_arguments
from moorage.wire.configuration.plugin_sets import MULTI_POINT, PluginSets, read_plugin_sets
from moorage.wire.configuration.schema import ProfileShape
from moorage.wire.problems import ABSENT

DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class _Read:
    """A profile with what the comparison of profiles needs."""

    path: str
    profile: ProfileConfiguration
    resolution: Resolution
    sets: PluginSets

    def is_clear(self, point: Point) -> bool:
        return not self.sets.unclear & {MULTI_POINT, point.value}


def read_profiles(
    shapes: list[ProfileShape], registry: Registry, findings: Findings
) -> tuple[ProfileConfiguration, ...]:
    """All profiles; with none written, the one that kube-scheduler would run."""
    shapes = shapes or [ProfileShape()]
    names = _scheduler_names(shapes, findings)
    read = [_read(i, names[i], shape, registry, findings) for i, shape in enumerate(shapes)]
    for other in read[1:]:
        _compare_queue_sort(read[0], other, findings)
    missing = dict.fromkeys(name for one in read for name in one.resolution.missing)
    if missing:
        message = "these plugins of the default set are not built yet and do not run"
        findings.notice("profiles", ABSENT, f"{message}: {', '.join(missing)}")
    return tuple(one.profile for one in read)


def _scheduler_names(shapes: list[ProfileShape], findings: Findings) -> list[str]:
    names: list[str] = []
    for index, shape in enumerate(shapes):
        path = f"profiles[{index}].schedulerName"
        name = shape.scheduler_name
        if name is None and len(shapes) == 1:
            name = DEFAULT_SCHEDULER
        if not name:
            if not findings.touches(path):
                findings.problem(path, name or "", "required; pods choose the profile by this name")
        elif name in names:
            findings.problem(path, name, f"used twice; profiles[{names.index(name)}] has the same name, choose another")
        names.append(name or "")
    return names


def _read(index: int, name: str, shape: ProfileShape, registry: Registry, findings: Findings) -> _Read:
    path = f"profiles[{index}]"
    percentage(f"{path}.percentageOfNodesToScore", shape.percentage_of_nodes_to_score, findings)
    sets = read_plugin_sets(f"{path}.plugins", shape.plugins, registry, findings)
    args = read_arguments(f"{path}.pluginConfig", shape.plugin_config, registry, findings)
    profile = ProfileConfiguration(name, sets.multi_point, sets.points, args, shape.percentage_of_nodes_to_score)
    read = _Read(path, profile, resolve(profile, registry), sets)
    for shortcoming in shortcomings(read.resolution):
        if read.is_clear(shortcoming.point) and not findings.touches(f"{path}.plugins.{shortcoming.point}"):
            findings.problem(f"{path}.plugins.{shortcoming.point}", list(shortcoming.value), shortcoming.message)
    _check_arguments(read, shape, registry, findings)
    return read


def percentage(path: str, value: int | None, findings: Findings) -> None:
    """`percentageOfNodesToScore`, of a profile or of all."""
    if value is not None and not 0 <= value <= 100:
        findings.problem(path, value, "must be from 0 to 100")


def _check_arguments(read: _Read, shape: ProfileShape, registry: Registry, findings: Findings) -> None:
    """Find arguments for plugins that do not run, and plugins that miss theirs."""
    everyone = (*read.resolution.names.values(), read.resolution.pointless)
    running = {name for names in everyone for name in names}
    configured = [registry.canonical(config.name) for config in shape.plugin_config]
    for index, name in enumerate(configured):
        if name in registry and name not in running and not read.sets.unclear:
            path = f"{read.path}.pluginConfig[{index}].name"
            findings.notice(path, name, "has no effect: the plugin is not enabled in this profile")
    for name in sorted(running.difference(configured)):
        cls = registry.get(name)
        if cls is not None:
            default_arguments(f"{read.path}.pluginConfig", cls, findings)


def _compare_queue_sort(first: _Read, other: _Read, findings: Findings) -> None:
    """All profiles share one queue, so they must sort it alike; kube-scheduler compares what is written, too."""
    point = Point.QUEUE_SORT
    path = f"{other.path}.plugins.{point}"
    clear = first.is_clear(point) and other.is_clear(point)
    if not clear or findings.touches(path) or findings.touches(f"{first.path}.plugins.{point}"):
        return
    written, wanted = (one.profile.points.get(point, PluginSet()) for one in (other, first))
    names, wanted_names = (one.resolution.names[point] for one in (other, first))
    if written != wanted or names != wanted_names:
        message = f"must be the same in all profiles, and {first.path} has {', '.join(wanted_names)}; write both alike"
        findings.problem(path, list(names), message)
        return
    sorter = names[0]
    config_path = f"{other.path}.pluginConfig"
    if first.profile.args.get(sorter) != other.profile.args.get(sorter) and not findings.touches(config_path):
        findings.problem(
            config_path, sorter, f"the queue sort plugin must have the arguments that it has in {first.path}"
        )
