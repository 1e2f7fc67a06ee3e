"""What the scheduler does, line by line, with kube-scheduler's words at kube-scheduler's levels (see `views.words`).

A quiet scheduler has no `DecisionLog`, and pays nothing for it. From `LIVES` on it also tells of what comes in and how
pods move through the queue, from `ACCOUNTS` on what each rule counted and rejected.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from moorage.core.commands import Bind, Command, RecordEvent
from moorage.core.events import BindDone, BindOutcome, Event, PodGone, PodSeen
from moorage.engine.breakers import Switched
from moorage.engine.engine import Engine
from moorage.views.lives import Accounts, Lives
from moorage.views.loglines import AS_IN_KUBERNETES
from moorage.views.story import bound, confirmed, decided
from moorage.views.words import WORDS, Happening

DECISIONS, ATTEMPTS = 2, 3
"""From these verbosities on there are lines about decisions and about attempts to bind."""
LIVES, ACCOUNTS = 3, 4

log = structlog.get_logger()


def accounts_at(verbosity: int) -> Accounts | None:
    """What observes the attempts of an engine whose log has this verbosity; None if they are not told of."""
    return Accounts() if verbosity >= ACCOUNTS else None


class DecisionLog:
    """Logs the decisions of an engine. With `dry_run` nothing is bound, so only attempts are logged."""

    def __init__(
        self,
        verbosity: int,
        *,
        dry_run: bool = False,
        lives: Lives | None = None,
        accounts: Accounts | None = None,
    ) -> None:
        self._verbosity = max(verbosity, ATTEMPTS) if dry_run else verbosity
        self._dry_run = dry_run
        self._lives = lives
        self._accounts = accounts
        self._underway: dict[str, Bind] = {}

    @classmethod
    def of(
        cls, verbosity: int, engine: Engine, accounts: Accounts | None = None, *, dry_run: bool = False
    ) -> DecisionLog | None:
        """The log of an engine for this verbosity; None if decisions are not logged."""
        if not dry_run and verbosity < DECISIONS:
            return None
        return cls(verbosity, dry_run=dry_run, lives=Lives(engine) if verbosity >= LIVES else None, accounts=accounts)

    def tell(self, events: Iterable[Event], commands: Iterable[Command]) -> None:
        """Log one turn, before its commands are carried out."""
        moved: dict[str, None] = {}
        for event in events:
            if isinstance(event, BindDone):
                self._ended(event)
            elif self._lives is not None and isinstance(event, PodSeen):
                self._write(self._lives.seen(event.pod))
                self._tried(event.pod.uid)
                moved[event.pod.uid] = None
            elif self._lives is not None and isinstance(event, PodGone):
                self._write(self._lives.gone(event.uid))
        for command in commands:
            if isinstance(command, Bind):
                self._underway[command.pod.uid] = command
            if isinstance(command, Bind | RecordEvent):
                self._tried(command.pod.uid)
                moved[command.pod.uid] = None
            self._write(decided(command))
        self._tell_rest(moved)

    def _ended(self, event: BindDone) -> None:
        bind = self._underway.pop(event.uid, None)
        if bind is None or self._dry_run:
            return
        if event.outcome is BindOutcome.BOUND:
            self._write([confirmed(bind)])
        self._write([bound(bind, event)])

    def _tried(self, uid: str) -> None:
        """How a pod came to be tried, and what its rules said."""
        if self._lives is not None:
            self._write(self._lives.steps(uid, tried=True))
        if self._accounts is not None:
            self._write(self._accounts.take(uid))

    def _tell_rest(self, moved: Iterable[str]) -> None:
        """Where pods went after their attempts."""
        if self._accounts is not None:
            self._write(self._accounts.take_rest())
        if self._lives is not None:
            for uid in moved:
                self._write(self._lives.steps(uid))

    def _write(self, happenings: Iterable[Happening]) -> None:
        for happening in happenings:
            line = WORDS[happening.what].line
            if line is not None and line.verbosity <= self._verbosity:
                facts = {name: happening.facts[fact] for fact, name in line.fields.items()}
                log.info(line.message, pod=happening.key, **facts, **AS_IN_KUBERNETES)


def tell_of_circuits(news: Iterable[Switched]) -> None:
    """A line for every circuit that was opened or closed, at any verbosity."""
    for switched in news:
        if switched.open:
            log.warning("circuit opened, the extender is not called for now", name=switched.name, error=switched.error)
        else:
            log.info("circuit closed, the extender is called again", name=switched.name)
