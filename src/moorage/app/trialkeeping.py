"""Keeps what there is to know about a trial in the Lease, for the next leader, and tells people how it goes.

The Lease is written by the leader alone and with a precondition, in every renewal, so the record costs no further
request and no former leader can overwrite it. A change of the trial is written at once, counts every `KEPT_EVERY_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from moorage.app.leadership import Leadership
from moorage.core.trials import TrialPhase, TrialRecord
from moorage.engine.engine import Engine
from moorage.engine.sides import KEPT_EVERY_S
from moorage.wire.trialrecords import TRIAL_ANNOTATION, trial_record, trial_text

LOOK_S = 0.5
BEGAN, ENDED, KEPT = "TrialBegan", "TrialEnded", "TrialKept"

log = structlog.get_logger()

Tell = Callable[[str, str, str], None]
"""Publishes an event of Kubernetes: type, reason and note."""


class TrialKeeping:
    """The record of one process's engine."""

    def __init__(
        self, engine: Engine, leadership: Leadership | None, tell: Tell, *, now_s: Callable[[], float]
    ) -> None:
        self._engine = engine
        self._leadership = leadership
        self._tell = tell
        self._now_s = now_s
        self._told: tuple[str, TrialPhase] | None = None
        """Digest and phase that people know of."""
        self._kept_s = 0.0

    def recall(self) -> TrialRecord | None:
        """What the leader before has left; None if it left nothing that can be read."""
        text = None if self._leadership is None else self._leadership.noted(TRIAL_ANNOTATION)
        record = None if text is None else trial_record(text)
        if text is not None and record is None:
            log.warning("the record of a trial cannot be read, a trial begins anew", annotation=TRIAL_ANNOTATION)
        if record is not None:
            self._told = (record.digest, record.phase)
        return record

    async def run(self, acting: Callable[[], bool]) -> None:
        """Look at the trial while `acting` says that this process decides; runs until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            if acting():
                self.keep()

    def keep(self, *, always: bool = False) -> None:
        """Tell what has changed, and keep it; counts only when they are due, or `always`."""
        record = self._engine.sides.snapshot(self._now_s())
        if record is None or not self._engine.sides.recalled:
            return
        state = (record.digest, record.phase)
        due = time.monotonic() - self._kept_s >= KEPT_EVERY_S
        if state != self._told:
            self._announce(record)
        elif not (due or always):
            return
        self._told, self._kept_s = state, time.monotonic()
        if self._leadership is not None:
            self._leadership.note(TRIAL_ANNOTATION, trial_text(record))

    def _announce(self, record: TrialRecord) -> None:
        if record.phase is TrialPhase.RUNNING:
            log.info("a trial runs", trial=record.name, ran_s=round(record.ran_s, 1))
            self._tell("Normal", BEGAN, f"The trial {record.name} runs.")
            return
        kept = record.phase is TrialPhase.KEPT
        end = "" if record.end is None else record.end.value
        said = "its profiles stay" if kept else "its pods are decided on by the configuration"
        told = log.info if kept else log.warning
        verdict = record.verdict.value
        told("a trial has ended", trial=record.name, end=end, verdict=verdict, why=record.message, now=said)
        note = f"The trial {record.name} has ended ({end}, {verdict}): {record.message}; {said}."
        self._tell("Normal" if kept else "Warning", KEPT if kept else ENDED, note)
