"""One line per decision, with kube-scheduler's words at kube-scheduler's levels.

| from | line |
|---|---|
| `-v 2` | `Successfully bound pod to node`, `Unable to schedule pod; no fit; waiting`, evictions |
| `-v 3` | `Attempting to bind pod to node` |
| `-v 4` | what became of binds that ended otherwise |

A quiet scheduler has no `DecisionLog`, and pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from moorage.core.commands import Bind, Command, DeletePod, PodRef, RecordEvent
from moorage.core.events import BindDone, BindOutcome, Event
from moorage.engine.breakers import Switched

DECISIONS, ATTEMPTS, DETAILS = 2, 3, 4
"""From which verbosity on there are lines about what."""

log = structlog.get_logger()


class DecisionLog:
    """Tells of what goes in and out of an engine. With `dry_run` nothing is bound, and attempts are all there is."""

    def __init__(self, verbosity: int, *, dry_run: bool = False) -> None:
        self._verbosity = verbosity
        self._dry_run = dry_run
        self._underway: dict[str, Bind] = {}

    @classmethod
    def of(cls, verbosity: int, *, dry_run: bool) -> DecisionLog | None:
        """The log for this verbosity; None if nobody wants to hear of decisions."""
        return cls(verbosity, dry_run=dry_run) if dry_run or verbosity >= DECISIONS else None

    def tell(self, events: Iterable[Event], commands: Iterable[Command]) -> None:
        """Tell of one turn, before its commands are carried out."""
        for event in events:
            if isinstance(event, BindDone):
                self._bound(event)
        for command in commands:
            if isinstance(command, Bind):
                self._attempt(command)
            elif isinstance(command, RecordEvent):
                if command.reason == "FailedScheduling":
                    log.info("Unable to schedule pod; no fit; waiting", pod=_name(command.pod), err=command.note)
            elif isinstance(command, DeletePod):
                self._evict(command)

    def _attempt(self, bind: Bind) -> None:
        self._underway[bind.pod.uid] = bind
        if self._dry_run or self._verbosity >= ATTEMPTS:
            log.info("Attempting to bind pod to node", **_decision(bind))

    def _bound(self, event: BindDone) -> None:
        bind = self._underway.pop(event.uid, None)
        if bind is None or self._dry_run:
            return
        if event.outcome is BindOutcome.BOUND:
            log.info("Successfully bound pod to node", **_decision(bind))
        elif self._verbosity >= DETAILS:
            log.info("Pod was not bound", **_decision(bind), outcome=event.outcome.value, err=event.message)

    def _evict(self, command: DeletePod) -> None:
        preemptor = "" if command.preemptor is None else _name(command.preemptor)
        log.info("Evicting pod", pod=_name(command.pod), preemptor=preemptor, reason=command.reason)


def tell_of_circuits(news: Iterable[Switched]) -> None:
    """A line for every circuit that was opened or closed, at any verbosity."""
    for switched in news:
        if switched.open:
            log.warning("circuit opened, it is not asked for now", name=switched.name, error=switched.error)
        else:
            log.info("circuit closed, it is asked again", name=switched.name)


def _decision(bind: Bind) -> dict[str, object]:
    return {
        "pod": _name(bind.pod),
        "node": bind.node,
        "evaluatedNodes": bind.evaluated,
        "feasibleNodes": bind.feasible,
    }


def _name(pod: PodRef) -> str:
    return f"{pod.namespace}/{pod.name}"
