"""What plugins know that helps to find a change: the remedies for one node, nodes with the same ones, and related pods.

A plugin that raises is named once, and its hook is not asked again: what others suggest does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import Pod, PodTemplate
from moorage.engine.counterfactual.scene import Scene
from moorage.framework.contract import Named, RemedyGroups, SeparatesPods, SuggestsRemedies
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.runner import Runner

Answer = TypeVar("Answer")


class Remedies:
    """Asks the plugins of one profile, inside an open scene."""

    def __init__(self, scene: Scene, runner: Runner) -> None:
        self._scene = scene
        self._runner = runner
        having = runner.plugins.having
        self._suggesting = {plugin.name: plugin for plugin in having(SuggestsRemedies)}
        self._grouping = {plugin.name: plugin for plugin in having(RemedyGroups)}
        self._separating = {plugin.name: plugin for plugin in having(SeparatesPods)}
        self._failed: set[tuple[str, str]] = set()
        """Plugins and hooks that have raised."""

    def of(self, name: str, pod: Pod, row: int) -> list[Remedy]:
        """The ways to make a plugin accept a row; none for plugins that suggest nothing."""
        plugin, instance = self._suggesting.get(name), self._runner.plugins.get(name)
        if plugin is None or instance is None:
            return []
        rejected = Rejected(self._scene.state, pod, row, partial(self._scene.accepts, instance, row))
        return self._ask(plugin, "remedies", lambda: list(plugin.remedies(rejected))) or []

    def distinct(self, names: Iterable[str]) -> list[str]:
        """The plugins without those that have the same ways out as an earlier one; in the order of their names."""
        found = {self._way(name): name for name in sorted(names, reverse=True)}
        return sorted(found.values())

    def _way(self, name: str) -> object:
        plugin = self._suggesting.get(name)
        return name if plugin is None else type(plugin).remedies

    def groups(self, names: Iterable[str], rows: Rows) -> list[Ints]:
        """What tells rows apart for these plugins beside their reasons, int64[n] each."""
        found = []
        for plugin in (self._grouping[name] for name in names if name in self._grouping):
            answer = self._ask(plugin, "remedy_groups", partial(_groups, plugin, self._scene, rows))
            if answer is not None:
                found.append(answer)
        return found

    def separate(self, names: Iterable[str]) -> bool:
        """Whether pods on other nodes may be why one of these plugins rejects a node."""
        return not self._separating.keys().isdisjoint(names)

    def keys_between(self, template: PodTemplate, other: PodTemplate) -> set[str]:
        """The topology keys in whose domains a pod like `other` may be in the way of one like `template`."""
        found: set[str] = set()
        for plugin in self._separating.values():
            found |= self._ask(plugin, "separates", lambda by=plugin: set(by.separates(template, other))) or set()  # type: ignore[misc]
        return found

    def _ask(self, plugin: Named, hook: str, ask: Callable[[], Answer]) -> Answer | None:
        """What the plugin answers; None if its hook raises, or has raised before."""
        if (plugin.name, hook) in self._failed:
            return None
        try:
            return ask()
        except Exception as error:  # noqa: BLE001 - a plugin's fault must not cost the others' suggestions
            self._failed.add((plugin.name, hook))
            self._scene.engine.faults.note(plugin, hook, error)
            return None


def _groups(plugin: RemedyGroups, scene: Scene, rows: Rows) -> Ints:
    return np.asarray(plugin.remedy_groups(scene.state, rows), dtype=np.int64).reshape(len(rows))
