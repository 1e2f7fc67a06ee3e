"""The life of pods for a verbose log: what the watch says of them, their way through the queue, and their attempts.

`Lives` compares what comes in with what came before. `Accounts` observes the attempts of an engine: what each rule
counted, and which nodes which plugin rejected, judged again at that moment. Both cost time and memory that a quiet
scheduler does not spend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from moorage.core.pods import Pod
from moorage.engine.diagnosis import rejections_by_row
from moorage.engine.engine import Engine
from moorage.engine.faults import describe
from moorage.engine.lifecycle import ACTIVE, BACKOFF, GATED, TRYING, UNSCHEDULABLE, State, Step
from moorage.framework.contract import TellsCounts
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Judgement, Runner
from moorage.views.words import POD, Happening, HappeningKind

_QUEUES: Mapping[State, str] = {
    ACTIVE: "Active",
    BACKOFF: "Backoff",
    UNSCHEDULABLE: "Unschedulable",
    GATED: "Gated",
}
"""The queues as kube-scheduler's log calls them."""
_MOST_NAMES = 8


class _Seen(NamedTuple):
    """What is remembered of a pod."""

    key: str
    placed: bool


class Lives:
    """What happens to pods, event by event and step by step; pods of other schedulers count once they have a node."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[str, _Seen] = {}
        self._told: dict[str, Step] = {}
        """The latest step that was told, by uid."""

    def seen(self, pod: Pod) -> Iterator[Happening]:
        """A pod was added or changed."""
        before, placed = self._seen.get(pod.uid), pod.node is not None
        if not placed and self._engine.runner_of(pod) is None:
            return
        self._seen[pod.uid] = _Seen(pod.key, placed)
        if before is not None and before.placed == placed:
            yield _about(pod.key, HappeningKind.UPDATED_PLACED if placed else HappeningKind.UPDATED_WAITING)
            return
        yield _about(pod.key, HappeningKind.ADDED_PLACED if placed else HappeningKind.ADDED_WAITING)
        if before is not None:
            yield _about(pod.key, HappeningKind.DELETED_PLACED if before.placed else HappeningKind.DELETED_WAITING)

    def gone(self, uid: str) -> Iterator[Happening]:
        """A pod was deleted, or has finished."""
        before = self._seen.pop(uid, None)
        self._told.pop(uid, None)
        if before is not None:
            yield _about(before.key, HappeningKind.DELETED_PLACED if before.placed else HappeningKind.DELETED_WAITING)

    def steps(self, uid: str, *, tried: bool = False) -> Iterator[Happening]:
        """The steps of a pod through the queue that were not told yet; with `tried`, up to its latest attempt."""
        entry = self._engine.queue.get(uid)
        if entry is None or not entry.story:
            self._told.pop(uid, None)
            return
        story, told = entry.story, self._told.get(uid)
        known = next((at for at in range(len(story), 0, -1) if story[at - 1] is told), 0)
        new = story[known:]
        if tried:
            new = new[: max((at + 1 for at, step in enumerate(new) if step[1] is TRYING), default=0)]
        for step in new:
            _, state, cause = self._told[uid] = step
            if state in _QUEUES:
                yield _about(entry.pod.key, HappeningKind.QUEUED, cause=cause, queue=_QUEUES[state])
            elif state is TRYING:
                yield _about(entry.pod.key, HappeningKind.POPPED)
                yield _about(entry.pod.key, HappeningKind.TRIED)


class Accounts:
    """What rules counted and rejected in the attempts of a turn; `note` is the observer of an engine."""

    def __init__(self) -> None:
        self._noted: dict[str, list[Happening]] = {}

    def note(self, runner: Runner, cycle: Cycle) -> None:
        """Ask the rules of a profile about a pod that is about to be tried; a failure is the attempt's to report."""
        again = Cycle(cycle.pod, cycle.state, cycle.now)
        again.memo.update(cycle.memo)
        again.misfit_s, again.domain = cycle.misfit_s, cycle.domain
        try:
            judgement = runner.judge(again, cycle.state.rows())
            judgement = judgement.preferring(runner.prefer(again, judgement.passed))
            found = [*_counted(runner, again), *_rejected(judgement, again)]
        except Exception as error:  # noqa: BLE001 - as in an attempt, a plugin may raise anything
            found = [_about(cycle.pod.key, HappeningKind.COUNTED, plugin="", counted=describe(error))]
        self._noted[cycle.pod.uid] = found

    def take(self, uid: str) -> list[Happening]:
        """What was noted about a pod, once."""
        return self._noted.pop(uid, [])

    def take_rest(self) -> Iterator[Happening]:
        """What was noted about pods that nothing was decided for."""
        noted, self._noted = self._noted, {}
        return (each for found in noted.values() for each in found)


def _about(key: str, what: HappeningKind, **facts: object) -> Happening:
    return Happening(0.0, what, POD, key, facts)


def _counted(runner: Runner, cycle: Cycle) -> Iterator[Happening]:
    for rule in runner.plugins.having(TellsCounts):
        text = rule.counted(cycle)
        if text:
            yield _about(cycle.pod.key, HappeningKind.COUNTED, plugin=rule.name, counted=text)


def _rejected(judgement: Judgement, cycle: Cycle) -> Iterator[Happening]:
    """A line for every plugin and reason, with the names of some nodes."""
    if judgement.refusal is not None:
        refusal = judgement.refusal
        facts = {"plugin": refusal.plugin, "reason": refusal.message, "count": cycle.state.node_count, "nodes": "all"}
        yield _about(cycle.pod.key, HappeningKind.REJECTED, **facts)
        return
    found: dict[tuple[str, str], list[str]] = {}
    for row, (plugin, reasons) in rejections_by_row(judgement).items():
        found.setdefault((plugin, ", ".join(reasons)), []).append(cycle.state.node(row).name)
    for (plugin, reason), names in found.items():
        some = named(names)
        yield _about(cycle.pod.key, HappeningKind.REJECTED, plugin=plugin, reason=reason, count=len(names), nodes=some)


def named(names: list[str]) -> str:
    """The first names in alphabetical order, and how many there are beside them."""
    rest = len(names) - _MOST_NAMES
    return ", ".join(sorted(names)[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
