"""Every check can fail: for each promise a plugin that breaks it, and one that keeps them all."""

# ruff: noqa: ARG002 - bad plugins do not look at what they are given

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from moorage.core.arrays import Ints, Rows
from moorage.core.nodes import Node
from moorage.core.pods import Pod, PodTemplate
from moorage.framework.arguments import PluginArgs
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import SKIP, OnlyNodes, Reason, Rejections, Status, unresolvable
from moorage.testing import ConformanceError, GeneratedCluster, check_plugin
from moorage.testing.conformance import CHECKS

CROWDED = Reason("node(s) had too many pods for comfort")


class ComfortArgs(PluginArgs):
    """How many pods are comfortable."""

    comfortable: int = 2


class Comfort(Plugin):
    """A good plugin: keeps nodes half empty and prefers empty ones. The bad ones below derive from it."""

    name: ClassVar[str] = "Comfort"
    Args: ClassVar[type[PluginArgs]] = ComfortArgs
    reads: ClassVar[Reads] = Reads.PODS

    def __init__(self, args: ComfortArgs | None = None) -> None:
        self.args: ComfortArgs = args or ComfortArgs()

    def sign(self, template: PodTemplate) -> Any:
        return template.priority

    def counts(self, cycle: Cycle, rows: Rows) -> Ints:
        return cycle.state.pick(cycle.state.resources.requested[3], rows)

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        if cycle.template.priority >= 1000:
            return None
        crowded = self.counts(cycle, rows) > self.args.comfortable
        return Rejections(crowded.astype(np.int64), (CROWDED,))

    def filter_row(self, cycle: Cycle, row: int) -> bool:
        return self.filter(cycle, np.array([row], dtype=np.intp)) is None or bool(
            cycle.state.resources.requested.item(3, row) <= self.args.comfortable
        )

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.maximum(100 - 10 * self.counts(cycle, rows), 0)

    def score_row(self, cycle: Cycle, row: int) -> int:
        return max(100 - 10 * cycle.state.resources.requested.item(3, row), 0)


def comfort_filter(pod: Pod, _node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
    return [CROWDED.text] if len(pods) > 2 and pod.template.priority < 1000 else []


def comfort_score(_pod: Pod, _node: Node, pods: list[Pod], _cluster: GeneratedCluster) -> int:
    return max(100 - 10 * len(pods), 0)


def test_a_good_plugin_passes_every_check() -> None:
    """With its references, its default arguments, and arguments as a configuration writes them."""
    check_plugin(Comfort, reference_filter=comfort_filter, reference_score=comfort_score)
    check_plugin(Comfort, {"comfortable": 4})
    check_plugin(Comfort, ComfortArgs(comfortable=1))
    check_plugin(Soft, reference_filter=comfort_filter, reference_score=comfort_score)


class Forgetful(Comfort):
    """Answers differently the second time."""

    asked = 0

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        self.asked += 1
        return np.full(len(rows), self.asked % 100, dtype=np.int64)


class Meddler(Comfort):
    """Changes the state."""

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        cycle.state.assume(replace(cycle.pod, uid=f"copy of {cycle.pod.uid} {cycle.state.pod_count}"), int(rows[0]))
        return None


class RowShuffler(Comfort):
    """Changes the rows it was given."""

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        found = super().filter(cycle, rows)
        if rows.flags.writeable:
            rows[:] = rows[::-1].copy()
        return found


class WrongShape(Comfort):
    """Answers for one row too many."""

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.zeros(len(rows) + 1, dtype=np.int64)


class WrongKind(Comfort):
    """Returns a mask where Rejections are due."""

    def filter(self, cycle: Cycle, rows: Rows) -> Any:
        return np.ones(len(rows), dtype=np.bool_)


class StrayBit(Comfort):
    """Sets a bit that has no reason."""

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        return Rejections(np.full(len(rows), 2, dtype=np.int64), (CROWDED,))


class TooTalkative(Comfort):
    """Has more reasons than there are bits."""

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        return Rejections(np.zeros(len(rows), dtype=np.int64), [CROWDED] * 63)


class Floating(Comfort):
    """Scores in floats."""

    def score(self, cycle: Cycle, rows: Rows) -> Any:
        return np.full(len(rows), 0.5)


class Generous(Comfort):
    """Scores above 100."""

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.full(len(rows), 101, dtype=np.int64)


class PoorlyNormalized(Comfort):
    """Normalises to negative scores."""

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return scores - 101


class NormalizesInPlace(Comfort):
    """Overwrites the kept raw scores."""

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        scores //= 2
        return scores


class RowCounter(Comfort):
    """Prefers high row numbers."""

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return rows.astype(np.int64)

    def score_row(self, cycle: Cycle, row: int) -> int:
        return row


class Relative(Comfort):
    """Compares rows with each other, which only `normalize` may."""

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        counts = self.counts(cycle, rows)
        return np.where(counts == counts.min(initial=1000), 100, 0)

    score_row = None  # type: ignore[assignment]


class Soft(Comfort):
    """Keeps all promises: it had rather not have what is half full."""

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        return Rejections((self.counts(cycle, rows) > 1).astype(np.int64), (Reason("node(s) had company"),))


class RelativelySoft(Soft):
    """Passes over all but the emptiest of the rows."""

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        counts = self.counts(cycle, rows)
        return Rejections((counts > counts.min()).astype(np.int64), (CROWDED,)) if len(rows) else None


class SoftAndOpen(RelativelySoft):
    """The same; its answers are not kept."""

    reads: ClassVar[Reads] = Reads.CLUSTER


class SoftlyFloating(Soft):
    """Marks rows with floats."""

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        return Rejections(np.zeros(len(rows)), (CROWDED,))  # type: ignore[arg-type]


class SoftlySecretive(Soft):
    """Has its preferences by a label that `sign` leaves out."""

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        return super().filter_softly(cycle, rows) if cycle.template.labels.get("app") == "web" else None


class MemoReader(Comfort):
    """Needs PreFilter in the same cycle, although its answers are kept."""

    def pre_filter(self, cycle: Cycle) -> None:
        cycle.memo[self.name] = 2

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        return super().filter(cycle, rows) if self.name in cycle.memo else None


class HastyRow(Comfort):
    """The fast path forgets about priorities."""

    def filter_row(self, cycle: Cycle, row: int) -> bool:
        return bool(cycle.state.resources.requested.item(3, row) <= self.args.comfortable)


class SlowRow(Comfort):
    """The fast path scores one less."""

    def score_row(self, cycle: Cycle, row: int) -> int:
        return super().score_row(cycle, row) + 1


class Secretive(Comfort):
    """Reads labels without signing for them."""

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        return None if cycle.template.labels.get("app") == "web" else super().filter(cycle, rows)


class ClaimsNodeOnly(Comfort):
    """Counts pods, but claims to read nodes only."""

    reads: ClassVar[Reads] = Reads.NODE


class LooksAround(Comfort):
    """Depends on the number of nodes without an epoch."""

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.full(len(rows), min(cycle.state.node_count, 100), dtype=np.int64)

    score_row = None  # type: ignore[assignment]


class Explodes(Comfort):
    """Raises on some pods."""

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        raise KeyError("no such label")


class WrongPreFilter(Comfort):
    """Returns a list of names."""

    def pre_filter(self, cycle: Cycle) -> Any:
        return ["n1"]


class WrongReference(Comfort):
    """Forgets that important pods may crowd."""

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        crowded = self.counts(cycle, rows) > self.args.comfortable
        return Rejections(crowded.astype(np.int64), (CROWDED,))

    def filter_row(self, cycle: Cycle, row: int) -> bool:
        return bool(cycle.state.resources.requested.item(3, row) <= self.args.comfortable)


class WrongScore(Comfort):
    """Scores fuller nodes higher."""

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.minimum(10 * self.counts(cycle, rows), 100)

    score_row = None  # type: ignore[assignment]


class SkipsTooMuch(Comfort):
    """PreFilter skips pods that Filter would reject."""

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return SKIP


class NarrowsTooMuch(Comfort):
    """PreFilter leaves out nodes that fit."""

    def pre_filter(self, cycle: Cycle) -> OnlyNodes:
        return OnlyNodes(frozenset({"n0"}))


class RefusesAll(Comfort):
    """PreFilter refuses pods that fit."""

    def pre_filter(self, cycle: Cycle) -> Status:
        return unresolvable("no")


class BadGate(Comfort):
    """PreEnqueue answers with a truth."""

    def pre_enqueue(self, pod: Pod) -> Any:
        return True


class BadKey(Comfort):
    """Keys of the queue are not tuples."""

    def queue_key(self, pod: Pod, since_s: float) -> Any:
        return since_s


class BadBinder(Comfort):
    """Binds with a name."""

    def bind(self, cycle: Cycle, row: int) -> Any:
        return "n1"


class Mixed(Comfort):
    """Keys of the queue cannot be compared."""

    def queue_key(self, pod: Pod, since_s: float) -> tuple[object, ...]:
        return (object(),)


class Quack(Comfort):
    """Suggests words."""

    def remedies(self, rejected: Rejected) -> list[Any]:
        return [f"be kinder to {rejected.pod.name}"]


class Placebo(Comfort):
    """Suggests to change nothing."""

    def remedies(self, rejected: Rejected) -> list[Remedy]:
        return [Remedy((), 1.0)] if rejected.pod.name else []


BAD = [
    (Forgetful, "deterministic"),
    (Meddler, "state untouched"),
    (RowShuffler, "state untouched"),
    (WrongShape, "shape"),
    (WrongKind, "shape"),
    (StrayBit, "shape"),
    (TooTalkative, "shape"),
    (WrongPreFilter, "shape"),
    (Floating, "dtype"),
    (Generous, "range"),
    (PoorlyNormalized, "range"),
    (NormalizesInPlace, "arguments untouched"),
    (RowCounter, "node order irrelevant"),
    (Relative, "rows judged singly"),
    (RelativelySoft, "rows judged singly"),
    (SoftAndOpen, "rows judged singly"),
    (SoftlyFloating, "dtype"),
    (SoftlySecretive, "sign honest"),
    (MemoReader, "rows judged singly"),
    (HastyRow, "row paths agree"),
    (SlowRow, "row paths agree"),
    (Secretive, "sign honest"),
    (ClaimsNodeOnly, "reads honest"),
    (ClaimsNodeOnly, "decisions anew"),
    (LooksAround, "reads honest"),
    (Explodes, "raises nothing"),
    (BadGate, "other points"),
    (BadKey, "other points"),
    (BadBinder, "other points"),
    (Mixed, "raises nothing"),
    (Quack, "remedies as promised"),
    (Placebo, "remedies as promised"),
    (WrongReference, "equals reference"),
    (WrongScore, "equals reference"),
    (SkipsTooMuch, "equals reference"),
    (NarrowsTooMuch, "equals reference"),
    (RefusesAll, "equals reference"),
]


@pytest.mark.parametrize(("cls", "want_check"), BAD, ids=lambda value: getattr(value, "__name__", None))
def test_a_plugin_that_breaks_a_promise_is_told_which(cls: type[Plugin], want_check: str) -> None:
    """The failure is one line per promise, with the plugin's name, the promise and where it showed."""
    with pytest.raises(ConformanceError) as failure:
        check_plugin(cls, reference_filter=comfort_filter, reference_score=comfort_score)
    lines = str(failure.value).splitlines()
    assert any(line.startswith(f"Comfort: {want_check}: ") and "(seed " in line for line in lines), lines


def test_every_check_has_a_plugin_that_fails_it() -> None:
    """No check is decoration."""
    assert set(CHECKS) <= {check for _, check in BAD}


def test_a_plugin_that_reads_the_cluster_may_compare_rows() -> None:
    """Its answers are not kept, so only what holds for every plugin is demanded."""

    class Free(Relative):
        reads: ClassVar[Reads] = Reads.CLUSTER

    check_plugin(Free)


def test_seeds_choose_the_clusters() -> None:
    """A reference sees the clusters of the seeds, in turn."""
    seen: list[int] = []

    def note(_pod: Pod, _node: Node, pods: list[Pod], cluster: GeneratedCluster) -> int:
        seen.append(cluster.seed)
        return max(100 - 10 * len(pods), 0)

    check_plugin(Comfort, seeds=[5, 3], reference_score=note)
    assert list(dict.fromkeys(seen)) == [5, 3]
