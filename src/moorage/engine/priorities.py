"""The priority that counts for a pod: what its profile's plugin says, else `spec.priority`.

The engine works on pods whose template has that priority, so that queue, nominations and evictions all see the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from weakref import ref

from moorage.core.commands import Command, RecordEvent
from moorage.core.pods import Pod, PodTemplate
from moorage.core.templatecache import TemplateCache
from moorage.engine.evictor import ref_of
from moorage.engine.faults import Faults
from moorage.framework.contract import ReadsPriority
from moorage.framework.runner import Runner
from moorage.framework.status import Status

INVALID = "InvalidPriority"
_KEPT = 50_000


class _Reading(NamedTuple):
    """The plugin's answer for a template."""

    priority: int
    warning: str | None
    template: ref[PodTemplate] | None = None
    """The same with that priority, where it differs."""


class Priorities:
    """Asks the plugins that determine the priority of pods."""

    def __init__(self, runner_of: Callable[[Pod], Runner | None], faults: Faults, *, asked: bool) -> None:
        self.asked = asked
        """Whether any profile has such a plugin."""
        self._runner_of = runner_of
        self._faults = faults
        self._known: TemplateCache[_Reading] = TemplateCache(_KEPT)
        self._read_from: TemplateCache[PodTemplate] = TemplateCache(_KEPT)
        """Templates with another priority -> the original ones, which pods that come later have again."""

    def read(self, pod: Pod, commands: list[Command], *, is_new: bool) -> Pod:
        """The pod with the priority that counts; for a new pod, an annotation that cannot be read is reported."""
        plugin = self._plugin(pod)
        if plugin is None:
            return pod
        template, warning = self._template(pod.template, plugin)
        if warning is not None and is_new:
            reporter = pod.template.scheduler_name
            commands.append(RecordEvent(ref_of(pod), "Warning", INVALID, "Scheduling", warning, reporter))
        return pod if template is pod.template else replace(pod, template=template)

    def may_evict(self, preemptor: Pod, victim: Pod) -> bool:
        """Whether the preemptor outranks the victim with the priority that it is allowed now."""
        plugin = self._plugin(preemptor)
        allowed = preemptor.template.priority
        if plugin is not None:
            allowed = min(allowed, self._ask(plugin, preemptor.template)[0])
        return allowed > victim.template.priority

    def _plugin(self, pod: Pod) -> ReadsPriority | None:
        runner = self._runner_of(pod)
        return None if runner is None else runner.priorities

    def _template(self, template: PodTemplate, plugin: ReadsPriority) -> tuple[PodTemplate, str | None]:
        known = self._known.get(template)
        if known is None:
            known = self._known.keep(template, _Reading(*self._ask(plugin, template)))
        if known.priority == template.priority:
            return template, known.warning
        found = None if known.template is None else known.template()
        if found is None:
            found = replace(template, priority=known.priority)
            self._known.keep(template, known._replace(template=ref(found)))
            self._read_from.keep(found, template)
        return found, known.warning

    def _ask(self, plugin: ReadsPriority, template: PodTemplate) -> tuple[int, str | None]:
        answer = self._faults.ask(plugin, plugin.priority_of, template)
        return (template.priority, None) if isinstance(answer, Status) else answer
