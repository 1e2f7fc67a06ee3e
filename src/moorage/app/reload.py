"""A configuration file that changes while the scheduler runs: applied if it is valid, else refused with every problem.

The file is read again every `EVERY_S` and compared by content, so it does not matter how it was changed: in place, by
renaming, or by the kubelet, which swaps a symbolic link. A content has to be read twice in a row before it counts, as a
file that is written in place may be incomplete. A change without effect, such as another comment, is ignored.

`leaderElection`, `clientConnection` and traces cannot change while a process runs. A change of them is reported and
waits for the next start; everything else of the file is applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from moorage.adapters.kube.errors import KubeError
from moorage.adapters.metrics.reloads import ReloadMetrics
from moorage.app.identity import own_pod
from moorage.app.plugins import find_plugins
from moorage.core.commands import RecordEvent
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile
from moorage.framework.tracing import TRACING_KIND, TracingConfiguration
from moorage.wire.configuration import Reading, read_configuration

EVERY_S = 1.0
APPLIED, REFUSED = "ConfigurationApplied", "ConfigurationRefused"
REPORTER = "moorage"
_LASTING = {"leader_election": "leaderElection", "client_connection": "clientConnection"}
"""Attribute of the configuration -> its field in the file."""

log = structlog.get_logger()

Apply = Callable[[Configuration, Sequence[Profile]], Awaitable[None]]
"""Puts a configuration in force; raises KubeError if that is not possible, and then nothing has changed."""


class Reloader:
    """Follows one file. `tell` gets events about this process's own pod."""

    def __init__(
        self,
        file: str,
        configuration: Configuration,
        apply: Apply,
        tell: Callable[[RecordEvent], None],
        metrics: ReloadMetrics,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self.configuration = configuration
        """The configuration in force."""
        self._file = file
        self._apply = apply
        self._tell = tell
        self._metrics = metrics
        self._every_s = every_s
        self._known: bytes | str | None = None
        """The content that was handled last, or why it could not be read."""
        self._seen: bytes | str | None = None
        self._first: Configuration | None = None
        """The file at the start, for what cannot change; flags may have overridden it."""
        self._registry = find_plugins().registry
        self._readable_once = Path(file).exists() and not Path(file).is_file()

    async def run(self) -> None:
        """Follow the file until cancelled. A pipe or a terminal cannot be read a second time."""
        if self._readable_once:
            await asyncio.Event().wait()
        while True:
            await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """Read the file once, and act if it has changed and is stable."""
        content = await asyncio.to_thread(_content, Path(self._file))
        at_rest, self._seen = content == self._seen, content
        if not at_rest or content == self._known:
            return
        self._known = content
        if isinstance(content, str):
            self._refuse([content])
            return
        reading = read_configuration(content, self._file, self._registry)
        if reading.configuration is None or reading.problems:
            self._refuse([str(problem) for problem in reading.problems])
        else:
            await self._adopt(reading.configuration, reading)

    async def _adopt(self, wanted: Configuration, reading: Reading) -> None:
        configuration = self._with_lasting(wanted)
        first = self._first = self._first or wanted
        waiting = [field for name, field in _LASTING.items() if getattr(wanted, name) != getattr(first, name)]
        if wanted.component(TracingConfiguration()) != first.component(TracingConfiguration()):
            waiting.append(TRACING_KIND)
        for notice in reading.notices:
            log.info("note on the configuration", note=str(notice))
        if configuration == self.configuration and not waiting:
            self._metrics.unchanged()
            return
        if configuration != self.configuration:
            try:
                await self._apply(configuration, reading.profiles)
            except KubeError as error:
                self._refuse([f"{self._file}: {error}"])
                return
            self.configuration = configuration
        self._metrics.applied()
        note = (
            f"{self._file} was applied, profiles: {', '.join(profile.scheduler_name for profile in reading.profiles)}"
        )
        if waiting:
            note += f"; {' and '.join(waiting)} differ and wait for the next start"
        log.info("configuration applied", file=self._file, waits_for_restart=waiting)
        self._tell(self._event("Normal", APPLIED, note))

    def _with_lasting(self, wanted: Configuration) -> Configuration:
        """The configuration with what cannot change as it was, and without what other commands read in the file."""
        return replace(wanted, **{name: getattr(self.configuration, name) for name in ("components", *_LASTING)})

    def _refuse(self, problems: Sequence[str]) -> None:
        self._metrics.refused()
        for problem in problems:
            log.error("configuration refused, the previous one stays in force", problem=problem)
        self._tell(self._event("Warning", REFUSED, f"The previous configuration stays in force. {'; '.join(problems)}"))

    def _event(self, kind: str, reason: str, note: str) -> RecordEvent:
        return RecordEvent(own_pod(self.configuration), kind, reason, "Reloading", note, REPORTER)


def _content(file: Path) -> bytes | str:
    """The content of the file, or why it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        return f"{file}: cannot be read ({error.strerror}); put it back"
