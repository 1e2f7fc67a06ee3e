"""Warnings of plugins become Kubernetes events, each of them once."""

from __future__ import annotations

from moorage.core.commands import Command, RecordEvent
from moorage.engine.evictor import ref_of
from moorage.framework.cycle import Cycle

_REMEMBERED = 4096


class Warnings:
    """Remembers what was reported; when that becomes too much, it starts over."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str, str]] = set()

    def tell(self, cycle: Cycle, reporter: str, commands: list[Command]) -> None:
        """Add events for the warnings of a cycle that the reporter has not published in the pod's namespace yet."""
        for reason, note in cycle.warnings:
            told = (reporter, cycle.template.namespace, reason, note)
            if told in self._told:
                continue
            if len(self._told) >= _REMEMBERED:
                self._told.clear()
            self._told.add(told)
            commands.append(RecordEvent(ref_of(cycle.pod), "Warning", reason, "Scheduling", note, reporter))
