"""One line per decision, with kube-scheduler's words at kube-scheduler's levels (see `views.words`).

A quiet scheduler has no `DecisionLog`, and pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from moorage.core.commands import Bind, Command
from moorage.core.events import BindDone, Event
from moorage.engine.breakers import Switched
from moorage.views.story import bound, decided
from moorage.views.words import WORDS, Happening

DECISIONS, ATTEMPTS = 2, 3
"""From these verbosities on there are lines about decisions and about attempts to bind."""

log = structlog.get_logger()


class DecisionLog:
    """Logs the decisions of an engine. With `dry_run` nothing is bound, so only attempts are logged."""

    def __init__(self, verbosity: int, *, dry_run: bool = False) -> None:
        self._verbosity = max(verbosity, ATTEMPTS) if dry_run else verbosity
        self._dry_run = dry_run
        self._underway: dict[str, Bind] = {}

    @classmethod
    def of(cls, verbosity: int, *, dry_run: bool) -> DecisionLog | None:
        """The log for this verbosity; None if decisions are not logged."""
        return cls(verbosity, dry_run=dry_run) if dry_run or verbosity >= DECISIONS else None

    def tell(self, events: Iterable[Event], commands: Iterable[Command]) -> None:
        """Log one turn, before its commands are carried out."""
        for event in events:
            if isinstance(event, BindDone):
                bind = self._underway.pop(event.uid, None)
                if bind is not None and not self._dry_run:
                    self._write(bound(bind, event))
        for command in commands:
            if isinstance(command, Bind):
                self._underway[command.pod.uid] = command
            for happening in decided(command):
                self._write(happening)

    def _write(self, happening: Happening) -> None:
        line = WORDS[happening.what].line
        if line is not None and line.verbosity <= self._verbosity:
            facts = {name: happening.facts[fact] for fact, name in line.fields.items()}
            log.info(line.message, pod=happening.key, **facts)


def tell_of_circuits(news: Iterable[Switched]) -> None:
    """A line for every circuit that was opened or closed, at any verbosity."""
    for switched in news:
        if switched.open:
            log.warning("circuit opened, the extender is not called for now", name=switched.name, error=switched.error)
        else:
            log.info("circuit closed, the extender is called again", name=switched.name)
