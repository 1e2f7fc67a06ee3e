"""A configuration on trial: which profiles decide on a pod, what is counted of both sides, and when the trial ends.

The profile of a pod follows from the trial and the pod alone: from its namespace, and from the workload or gang that it
belongs to, so that all pods of a workload are on one side. A trial begins when the engine is told what the cluster
keeps of it (`TrialRecalled`), never by itself. It ends by its clock, by its limits, or with its document; whatever ends
it, its pods are decided on by the other profiles from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from moorage.core.objects import NAMESPACE
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.templatecache import TemplateCache
from moorage.core.trials import (
    LASTING_ENDS,
    MOST_MESSAGE,
    Side,
    SideTally,
    TrialEnd,
    TrialPhase,
    TrialRecord,
    TrialVerdict,
    is_among,
    percentile_s,
    wait_class,
    workload_key,
)
from moorage.core.values import dataclass
from moorage.engine.lifecycle import ACTIVE, BACKOFF, UNSCHEDULABLE
from moorage.engine.units import QueuedPod
from moorage.framework.runner import Runner
from moorage.framework.trying import AtEnd, Limit, TrialConfiguration, TrialPods

JUDGED_EVERY_S = 5.0
KEPT_EVERY_S = 15.0
"""How old the record of a running trial may be: a leader that dies has counted for this much longer, at most."""
_KEPT = 50_000
_P99 = 0.99
_WAITING = frozenset({ACTIVE, BACKOFF, UNSCHEDULABLE})


class Measure(NamedTuple):
    """What the sides are compared by."""

    name: str
    """As the document calls it."""
    unit: str
    limit: Callable[[TrialConfiguration], Limit]
    scaled: bool = True
    """Whether it grows with the number of pods of a side."""


MEASURES = (
    Measure("pending", "pods", lambda trial: trial.limits.pending),
    Measure("evictions", "evictions", lambda trial: trial.limits.evictions),
    Measure("failedBinds", "failed binds", lambda trial: trial.limits.failed_binds),
    Measure("waitingP99", "s", lambda trial: trial.limits.waiting_p99, scaled=False),
)


@dataclass(frozen=True, slots=True)
class SideStanding:
    """How one side stands."""

    samples: int
    """Pods that were created since the trial began, and placed or tried in vain or waiting."""
    pending: int
    evictions: int
    failed_binds: int
    waiting_p99_s: float

    def value(self, measure: str) -> float:
        """Of a measure, by its name."""
        values = (self.pending, self.evictions, self.failed_binds, self.waiting_p99_s)
        return next(value for each, value in zip(MEASURES, values, strict=True) if each.name == measure)


class Sides:
    """The trial of one engine; while none is in force, every pod is decided on by the profiles of the configuration."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.on = False
        """Whether a trial is in force, running or kept."""
        self.terms: TrialConfiguration | None = None
        """What the configuration says."""
        self.runners: dict[str, Runner] = {}
        """Of the trial, by scheduler name."""
        self.fallback: Runner | None = None
        """Of the trial, for scheduler names that no profile has."""
        self.recalled = False
        """Whether it is known what the cluster keeps of a trial: only then may one begin."""
        self.refused: str | None = None
        """Why the file cannot be read that has the trial; None if it can, or another one was read since."""
        self.record: TrialRecord | None = None
        """The latest trial; its time and counts are those of its last change (see `snapshot`)."""
        self._began_s = 0.0
        self._judge_s = 0.0
        """When the sides are compared again."""
        self._worse_since_s: float | None = None
        self._tallies: dict[Side, SideTally] = {side: SideTally() for side in Side}
        self._pending: dict[Side, int] = dict.fromkeys(Side, 0)
        """When the sides were last compared; only shown."""
        self._covered: TemplateCache[bool] = TemplateCache(_KEPT)
        self._selected: frozenset[str] | None = None
        """Namespaces that the selector selects; None until that is looked up."""

    @property
    def measures(self) -> bool:
        """Whether what happens is counted."""
        return self.on and self.record is not None and self.record.phase is TrialPhase.RUNNING

    # --- which side ---

    def runner_of(self, pod: Pod) -> Runner | None:
        """The trial's runner for a pod that takes part; None for the others."""
        runner = self.runners.get(pod.template.scheduler_name, self.fallback)
        return runner if runner is not None and self._covers(pod) else None

    def side_of(self, pod: Pod) -> Side | None:
        """The side of a pod; None if no trial is in force, or it has no other profile for such pods."""
        if not self.on or self.runners.get(pod.template.scheduler_name, self.fallback) is None:
            return None
        return Side.TRIAL if self._covers(pod) else Side.CONTROL

    def _covers(self, pod: Pod) -> bool:
        template = pod.template
        if template.owner is None and template.gang is None:
            return self._takes_part(pod)  # equal pods without an owner are workloads of their own
        known = self._covered.get(template)
        return self._covered.keep(template, self._takes_part(pod)) if known is None else known

    def _takes_part(self, pod: Pod) -> bool:
        if self.terms is None:
            return False
        pods = self.terms.pods
        return self._has(pods, pod.template.namespace) and is_among(workload_key(pod), pods.workload_percent)

    def _has(self, pods: TrialPods, namespace: str) -> bool:
        if pods.namespaces is None and pods.namespace_selector is None:
            return True
        if self._selected is None:
            self._selected = self._select(pods)
        return namespace in (pods.namespaces or ()) or namespace in self._selected

    def _select(self, pods: TrialPods) -> frozenset[str]:
        selector, known = pods.namespace_selector, self._state.objects.get(NAMESPACE, {})
        if selector is None:
            return frozenset()
        return frozenset(name for name, namespace in known.items() if selector.matches(namespace.labels))

    def moved(self, namespace: str) -> bool:
        """Whether a namespace that was changed is selected now and was not, or the other way round."""
        pods = None if self.terms is None else self.terms.pods
        if pods is None or pods.namespace_selector is None or self._selected is None or not self.on:
            return False
        found = self._state.objects.get(NAMESPACE, {}).get(namespace)
        now = found is not None and pods.namespace_selector.matches(found.labels)
        return now is not (namespace in self._selected) and namespace not in (pods.namespaces or ())

    def move(self, namespace: str) -> None:
        """Let a namespace change sides."""
        self._covered.clear()
        self._selected = (self._selected or frozenset()) ^ {namespace}

    # --- beginning and end ---

    def equip(self, terms: TrialConfiguration | None, runners: Mapping[str, Runner], fallback: Runner | None) -> None:
        """Use these terms and their runners from now on; `resume` says what becomes of the trial so far."""
        self.terms, self.runners, self.fallback = terms, dict(runners), fallback
        self.refused = None
        self._look_again()

    def _look_again(self) -> None:
        """Look up namespaces anew."""
        self._covered.clear()
        self._selected = None

    def resume(self, record: TrialRecord | None, now: float) -> None:
        """Go on with a trial, begin another one, or end it, as terms and record say."""
        self.recalled, self.on, terms = True, False, self.terms
        self.record = record
        self._look_again()  # namespaces are followed only while a trial is in force
        if terms is None or self.refused is not None:
            end = TrialEnd.REMOVED if self.refused is None else TrialEnd.BROKEN
            if record is not None and record.in_force:
                self.record = _ended(record, end, self.refused or "the configuration has no trial any more")
            return
        digest = terms.digest
        if record is not None and record.digest == digest:
            if record.end in LASTING_ENDS and not record.in_force:
                return
            if record.in_force:
                self._go_on(record, now)
                return
        self._go_on(TrialRecord(terms.name, digest, began_s=now), now)

    def _go_on(self, record: TrialRecord, now: float) -> None:
        self.record, self.on = replace(record, began_s=min(record.began_s, now)), True
        self._began_s, self._judge_s, self._worse_since_s = now - max(record.ran_s, 0.0), now, None
        self._tallies = {side: record.counts(side).tally() for side in Side}

    def end(self, end: TrialEnd, message: str, now: float, verdict: TrialVerdict = TrialVerdict.UNKNOWN) -> None:
        """Let the other profiles decide again."""
        record = self.snapshot(now)
        if record is not None and record.in_force:
            self.record, self.on = replace(_ended(record, end, message), verdict=verdict), False

    def snapshot(self, now: float) -> TrialRecord | None:
        """The record as it is now."""
        if self.record is None or not self.measures:
            return self.record
        control, trial = (
            replace(self._tallies[side].counts(), pending=self._pending[side]) for side in (Side.CONTROL, Side.TRIAL)
        )
        return replace(self.record, ran_s=max(now - self._began_s, 0.0), control=control, trial=trial)

    # --- counting ---

    def placed(self, entry: QueuedPod, now: float) -> None:
        """A pod was bound."""
        side = self._counted(entry.pod)
        if side is not None:
            self._tallies[side].add(now - _since_s(entry))

    def bind_failed(self, pod: Pod) -> None:
        """A bind was refused."""
        side = self._counted(pod)
        if side is not None:
            self._tallies[side].failed_binds += 1

    def evicts(self, preemptor: Pod) -> None:
        """A pod is evicted for this one, whose profile decided so; whichever side the victim is on."""
        side = self.side_of(preemptor) if self.measures else None
        if side is not None:
            self._tallies[side].evictions += 1

    def _counted(self, pod: Pod) -> Side | None:
        """The side that a pod counts for; those that are older than the trial count for none."""
        if not self.measures or self.record is None or pod.created_s < int(self.record.began_s):
            return None
        return self.side_of(pod)

    def standings(self, entries: Iterable[QueuedPod], now: float) -> dict[Side, SideStanding]:
        """How the sides stand; pods that wait count with the time that they have waited so far."""
        pending = dict.fromkeys(Side, 0)
        waiting = dict.fromkeys(Side, 0)
        waits = {side: dict(tally.waits) for side, tally in self._tallies.items()}
        for entry in entries if self.measures else ():
            side = self._counted(entry.pod) if entry.state in _WAITING and entry.ready_s is not None else None
            if side is None:
                continue
            waiting[side] += 1
            pending[side] += entry.attempts > 0
            place = wait_class(now - _since_s(entry))
            waits[side][place] = waits[side].get(place, 0) + 1
        return {
            side: SideStanding(
                tally.placed + waiting[side],
                pending[side],
                tally.evictions,
                tally.failed_binds,
                percentile_s(waits[side], _P99),
            )
            for side, tally in self._tallies.items()
        }

    # --- judging ---

    def next_s(self) -> float | None:
        """When `review` next has something to do."""
        return min(self._judge_s, self._began_s + self._duration_s) if self.measures else None

    def remaining_s(self, now: float) -> float:
        """How long a running trial still runs."""
        return max(self._began_s + self._duration_s - now, 0.0) if self.measures else 0.0

    @property
    def _duration_s(self) -> float:
        return 0.0 if self.terms is None else self.terms.duration_s

    def due(self, now: float) -> bool:
        """Whether the sides are to be compared."""
        next_s = self.next_s()
        return next_s is not None and next_s <= now

    def review(self, entries: Iterable[QueuedPod], now: float) -> bool:
        """Compare the sides; returns whether the trial is to end now, for which `conclude` has to be called."""
        self._judge_s = now + JUDGED_EVERY_S
        standings = self.standings(entries, now)
        self._pending = {side: each.pending for side, each in standings.items()}
        verdict, _ = self.judge(standings)
        if verdict is not TrialVerdict.WORSE:
            self._worse_since_s = None
        elif self._worse_since_s is None:
            self._worse_since_s = now
        return self._lasts(now) or now >= self._began_s + self._duration_s

    def _lasts(self, now: float) -> bool:
        """Whether the trial has been worse for as long as it may be."""
        if self._worse_since_s is None or self.terms is None:
            return False
        return now - self._worse_since_s >= self.terms.limits.lasting_s

    def conclude(self, entries: Iterable[QueuedPod], now: float) -> None:
        """End the trial, or keep its profiles, as its terms say."""
        terms = self.terms
        if terms is None:
            return
        verdict, why = self.judge(self.standings(entries, now))
        if self._lasts(now) and verdict is TrialVerdict.WORSE:
            self.end(TrialEnd.WORSE, why, now, verdict)
        elif terms.at_end is AtEnd.KEEP and verdict in (TrialVerdict.BETTER, TrialVerdict.ALIKE):
            record = self.snapshot(now)
            if record is not None:
                kept = replace(record, phase=TrialPhase.KEPT, end=TrialEnd.TIME_OVER, verdict=verdict)
                self.record = replace(kept, message=why[:MOST_MESSAGE])
        else:
            self.end(TrialEnd.TIME_OVER, why, now, verdict)

    def judge(self, standings: Mapping[Side, SideStanding]) -> tuple[TrialVerdict, str]:
        """The verdict by the limits, and why."""
        if self.terms is None:
            return TrialVerdict.UNKNOWN, "there is no trial"
        control, trial = standings[Side.CONTROL], standings[Side.TRIAL]
        least = self.terms.limits.min_samples
        if min(control.samples, trial.samples) < least:
            few = f"{trial.samples} pods in the trial and {control.samples} beside it, at least {least} are needed"
            return TrialVerdict.UNKNOWN, f"too few pods to compare: {few}"
        better: list[str] = []
        worse: list[str] = []
        for measure in MEASURES:
            limit, ours, other = measure.limit(self.terms), trial.value(measure.name), control.value(measure.name)
            theirs = other * trial.samples / control.samples if measure.scaled else other
            said = f"{measure.name} is {ours:.4g} where {theirs:.4g} is expected from the control"
            if limit.passed(ours, theirs):
                worse.append(said)
            elif limit.passed(theirs, ours):
                better.append(said)
        if worse:
            return TrialVerdict.WORSE, "; ".join(worse)
        return (
            (TrialVerdict.BETTER, "; ".join(better))
            if better
            else (TrialVerdict.ALIKE, "no measure differs beyond its limit")
        )


def _since_s(entry: QueuedPod) -> float:
    """Since when a pod waits; time behind a gate does not count."""
    return entry.first_s if entry.ready_s is None else entry.ready_s


def _ended(record: TrialRecord, end: TrialEnd, message: str) -> TrialRecord:
    return replace(record, phase=TrialPhase.ENDED, end=end, message=message[:MOST_MESSAGE])
