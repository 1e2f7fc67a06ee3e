"""A configuration file that changes while the scheduler runs: applied if it is valid, else refused with every problem.

The file is read again every `EVERY_S` and compared by content, so it does not matter how it was changed: in place, by
renaming, or by the kubelet, which swaps a symbolic link. A content has to be read twice in a row before it counts, as a
file that is written in place may be incomplete. A change without effect, such as another comment, is ignored.

A trial that cannot be read ends, and everything else holds; if the file as a whole is refused, the trial ends too, as
nobody can say what the file wants of it.

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
from moorage.adapters.neighbours import neighbours_of
from moorage.app.identity import own_pod
from moorage.app.plugins import find_plugins
from moorage.core.commands import RecordEvent
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile
from moorage.framework.tracing import TRACING_KIND, TracingConfiguration
from moorage.wire.configuration import Reading, read_configuration

EVERY_S = 1.0
APPLIED, REFUSED = "ConfigurationApplied", "ConfigurationRefused"
TRIAL_REFUSED = "TrialRefused"
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
        refuse_trial: Callable[[str], Awaitable[None]],
        every_s: float = EVERY_S,
    ) -> None:
        """`refuse_trial` is told why what the file says about a trial cannot be read, so that the trial ends."""
        self._refuse_trial = refuse_trial
        self._trial_refused = False
        self._beside: tuple[str, ...] = ()
        """Other files that the file names; their content counts, too."""
        self.configuration = configuration
        """The configuration in force."""
        self._file = file
        self._apply = apply
        self._tell = tell
        self._metrics = metrics
        self._every_s = every_s
        self._known: tuple[bytes | str, ...] = ()
        """The contents that were handled last, or why they could not be read."""
        self._seen: tuple[bytes | str, ...] = ()
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
        others = [await asyncio.to_thread(neighbours_of(self._file), name) for name in self._beside]
        contents = (content, *others)
        at_rest, self._seen = contents == self._seen, contents
        if not at_rest or contents == self._known:
            return
        self._known = contents
        if isinstance(content, str):
            await self._refuse([content])
            return
        reading = read_configuration(content, self._file, self._registry, neighbours_of(self._file))
        self._beside = reading.beside
        if reading.configuration is None or reading.problems:
            await self._refuse([str(problem) for problem in reading.problems])
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
        await self._judge_trial(reading)
        again, self._trial_refused = self._trial_refused and configuration.trial is not None, False
        if configuration == self.configuration and not waiting and not again:
            self._metrics.unchanged()
            return
        if configuration != self.configuration or again:
            try:
                await self._apply(configuration, reading.profiles)
            except KubeError as error:
                await self._refuse([f"{self._file}: {error}"])
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

    async def _judge_trial(self, reading: Reading) -> None:
        """A trial that cannot be read ends; everything else of the file holds."""
        problems = [str(problem) for problem in reading.trial_problems]
        for problem in problems:
            log.error("trial refused, the rest of the configuration holds", problem=problem)
        if problems:
            self._tell(self._event("Warning", TRIAL_REFUSED, f"No trial runs. {'; '.join(problems)}"))
            await self._refuse_trial(problems[0])

    async def _refuse(self, problems: Sequence[str]) -> None:
        """Keep the previous configuration, but no trial of it: what people want to try is not known any more."""
        self._trial_refused = True
        await self._refuse_trial(problems[0])
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
