"""What would have to change for one plugin to accept one node: asked of the plugin itself (`framework.remedies`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from moorage.core.pods import Pod
from moorage.engine.counterfactual.scene import Scene
from moorage.framework.contract import SuggestsRemedies
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.runner import Runner


class Remedies:
    """Asks the plugins of one profile, inside an open scene."""

    def __init__(self, scene: Scene, runner: Runner) -> None:
        self._scene = scene
        self._runner = runner
        self._plugins = {plugin.name: plugin for plugin in runner.plugins.having(SuggestsRemedies)}

    def of(self, name: str, pod: Pod, row: int) -> list[Remedy]:
        """The ways to make a plugin accept a row; none for plugins that suggest nothing."""
        plugin, instance = self._plugins.get(name), self._runner.plugins.get(name)
        if plugin is None or instance is None:
            return []
        accepts = partial(self._scene.accepts, instance, row)
        return list(plugin.remedies(Rejected(self._scene.state, pod, row, accepts)))

    def distinct(self, names: Iterable[str]) -> list[str]:
        """The plugins without those that have the same ways out as an earlier one; in the order of their names."""
        found = {self._way(name): name for name in sorted(names, reverse=True)}
        return sorted(found.values())

    def _way(self, name: str) -> object:
        plugin = self._plugins.get(name)
        return name if plugin is None else type(plugin).remedies
