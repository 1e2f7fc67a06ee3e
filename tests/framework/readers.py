"""Test plugins of every kind of `Reads`, normalising and not, with answers that depend on exactly what they say."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.columns import CPU_COLUMN
from moorage.core.hashing import node_hash, pod_hash
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import NOWHERE, ClusterState
from moorage.framework.configuration import Configuration
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Point, Reads
from moorage.framework.profiles import Factory, Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.framework.runner import Runner
from moorage.framework.status import SKIP, OnlyNodes, Reason, Rejections, Status
from moorage.plugins.builtin import BUILTIN

NOW_S = 1_000.0
_GOLDEN = 0x9E3779B97F4A7C15


class NodeScore(Plugin):
    """Reads the node: the length of its name; not normalised."""

    name: ClassVar[str] = "NodeScore"
    reads: ClassVar[Reads] = Reads.NODE

    def sign(self, template: PodTemplate) -> Hashable:
        return template.labels.get("loud", "")

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        loud = 10 if cycle.template.labels.get("loud") else 1
        return np.array([loud * len(cycle.state.node(int(row)).name) for row in rows], dtype=np.int64)


class NodeNormal(Plugin):
    """Reads the node: its generation label; normalised to the best feasible one. Some pods skip it."""

    name: ClassVar[str] = "NodeNormal"
    reads: ClassVar[Reads] = Reads.NODE

    def sign(self, template: PodTemplate) -> Hashable:
        return template.labels.get("calm", "")

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        return SKIP if cycle.template.labels.get("calm") else None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.array([int(cycle.state.node(int(row)).labels.get("gen", "0")) for row in rows], dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        return scores * 100 // max(1, int(scores.max()))


class PodsFilter(Plugin):
    """Reads the pods on the node: at most two with the label of the pod."""

    name: ClassVar[str] = "PodsFilter"
    reads: ClassVar[Reads] = Reads.PODS

    def sign(self, template: PodTemplate) -> Hashable:
        return template.labels.get("app", "")

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if cycle.template.labels.get("app") else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        counts = [_count(cycle.state, int(row), cycle.template.labels["app"]) for row in rows]
        return Rejections(np.array([int(count >= 2) for count in counts], dtype=np.int64), (Reason("two already"),))


class PodsScore(Plugin):
    """Reads the pods on the node: fewer are better; not normalised."""

    name: ClassVar[str] = "PodsScore"
    reads: ClassVar[Reads] = Reads.PODS

    def sign(self, template: PodTemplate) -> Hashable:  # noqa: ARG002 - part of the interface
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        counts = np.array([len(cycle.state.records_on(int(row))) for row in rows], dtype=np.int64)
        return np.maximum(0, 100 - 10 * counts)


class PodsNormal(Plugin):
    """Reads the pods on the node: those with the same priority; normalised."""

    name: ClassVar[str] = "PodsNormal"
    reads: ClassVar[Reads] = Reads.PODS

    def sign(self, template: PodTemplate) -> Hashable:
        return template.priority

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        wanted = cycle.template.priority
        return np.array(
            [sum(r.pod.template.priority == wanted for r in cycle.state.records_on(int(row))) for row in rows],
            dtype=np.int64,
        )

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        return 100 - scores * 100 // max(1, int(scores.max()))


class AmountsPlugin(Plugin):
    """Reads amounts: enough cpu is left, and how much; everything shifts with an object that `epoch` follows."""

    name: ClassVar[str] = "AmountsPlugin"
    reads: ClassVar[Reads] = Reads.AMOUNTS

    def sign(self, template: PodTemplate) -> Hashable:
        return template.requests.get("cpu")

    def epoch(self, state: ClusterState) -> Hashable:
        return state.object("Reserve", "cpu")

    def _left(self, cycle: Cycle, rows: Rows) -> Ints:
        resources = cycle.state.resources
        kept = int(cycle.state.object("Reserve", "cpu") or 0)
        left: Ints = resources.allocatable[CPU_COLUMN][rows] - resources.requested[CPU_COLUMN][rows] - kept
        return left

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        short = self._left(cycle, rows) < cycle.template.requests.get("cpu")
        return Rejections(short.astype(np.int64), (Reason("reserved cpu"),))

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        return np.clip(self._left(cycle, rows) // 100, 0, 100)


class ClusterFilter(Plugin):
    """Reads anything: the node with most pods is full, and pods with the label go to the named nodes only."""

    name: ClassVar[str] = "ClusterFilter"

    def pre_filter(self, cycle: Cycle) -> Status | OnlyNodes | None:
        wanted = cycle.template.labels.get("only")
        if wanted:
            return OnlyNodes(frozenset(wanted.split("_")))
        return SKIP if cycle.template.labels.get("calm") else None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        counts = {int(row): len(cycle.state.records_on(int(row))) for row in cycle.state.rows()}
        most = max(counts.values(), default=0)
        if most < 3:
            return None
        return Rejections(np.array([int(counts[int(row)] == most) for row in rows], dtype=np.int64), (Reason("most"),))


class PodsSoft(Plugin):
    """Reads the pods on the node: it had rather not have two with the label of the pod on one node."""

    name: ClassVar[str] = "PodsSoft"
    reads: ClassVar[Reads] = Reads.PODS

    def sign(self, template: PodTemplate) -> Hashable:
        return template.labels.get("app", "")

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if cycle.template.labels.get("app") else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - part of the interface
        return None

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        counts = [_count(cycle.state, int(row), cycle.template.labels["app"]) for row in rows]
        return Rejections(np.array([int(count >= 1) for count in counts], dtype=np.int64), (Reason("one already"),))


class NodeSoft(Plugin):
    """Reads the node: it had rather have nodes with a disk."""

    name: ClassVar[str] = "NodeSoft"
    reads: ClassVar[Reads] = Reads.NODE

    def sign(self, template: PodTemplate) -> Hashable:  # noqa: ARG002 - part of the interface
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - part of the interface
        return None

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        bare = ["disk" not in cycle.state.node(int(row)).labels for row in rows]
        return Rejections(np.array(bare, dtype=np.int64), (Reason("no disk"),))


class ClusterSoft(Plugin):
    """Reads anything: in a cluster with an even number of pods it had rather have nodes without any."""

    name: ClassVar[str] = "ClusterSoft"

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        return not template.labels.get("calm")

    def pre_filter(self, cycle: Cycle) -> Status | None:
        cycle.memo["ClusterSoft"] = cycle.state.pod_count % 2 == 0
        return SKIP if cycle.template.labels.get("calm") else None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - part of the interface
        return None

    def filter_softly(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        if not cycle.memo["ClusterSoft"]:
            return None
        used = [len(cycle.state.records_on(int(row))) > 0 for row in rows]
        return Rejections(np.array(used, dtype=np.int64), (Reason("not empty"),))


class ClusterNormal(Plugin):
    """Reads anything: the total number of pods; normalised over the feasible rows."""

    name: ClassVar[str] = "ClusterNormal"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        total = cycle.state.pod_count
        names = (cycle.state.node(int(row)).name for row in rows)
        return np.array([(len(name) * 7 + total) % 5 for name in names], dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        return scores * 100 // max(1, int(scores.max()))


def _count(state: ClusterState, row: int, app: str) -> int:
    return sum(record.pod.template.labels.get("app") == app for record in state.records_on(row))


def make_profile(
    plugins: Iterable[Plugin], *, scheduler_name: str = "test", weights: Mapping[str, int] | None = None
) -> Profile:
    """A profile that runs these plugins at every point they have, in this order."""
    everyone = tuple(plugins)
    by_point = {point: tuple(given(p) for p in everyone if point in type(p).points()) for point in Point}
    scores = {p.name: (weights or {}).get(p.name, 1) for p in by_point[Point.SCORE]}
    return Profile(scheduler_name, by_point, scores, tuple(given(p) for p in everyone if not type(p).points()))


def given(plugin: Plugin) -> Factory:
    """Gives every runner this very plugin, so that a test can look at it."""
    return Factory(plugin.name, partial(_itself, plugin), getattr(plugin, "args", None), plugin.kinds)


def _itself(plugin: Plugin) -> Plugin:
    return plugin


def default_profile() -> Profile:
    """What runs with no configuration file, from newly made plugins."""
    (profile,) = build_profiles(Configuration(), Registry(BUILTIN))
    return profile


def brute_force(profile: Profile, state: ClusterState, pod: Pod) -> int:
    """The best row, from `judge` and `score_table` alone: best total, then the smallest hash of pod and node."""
    runner, cycle = Runner(profile, state), Cycle(pod, state, NOW_S)
    passed = runner.judge(cycle, state.rows()).passed
    for factory in profile.at(Point.FILTER):
        passed = softly(factory.make(), state, pod, passed)
    if len(passed) <= 1:
        return int(passed[0]) if len(passed) else NOWHERE
    total = np.zeros(len(passed), dtype=np.int64)
    for column in runner.score_table(cycle, passed).values():
        total = total + column
    best = int(total.max())
    ties = [int(row) for row, score in zip(passed, total, strict=True) if score == best]
    return min(ties, key=lambda row: tie_break(state, pod, row))


def softly(plugin: Plugin, state: ClusterState, pod: Pod, rows: Rows) -> Rows:
    """The rows that a plugin leaves: asked row by row, as the state is and with the pods that were promised the row."""
    if not hasattr(plugin, "filter_softly"):
        return rows

    def passes_over(row: int) -> bool:
        cycle = Cycle(pod, state, NOW_S)
        skips = getattr(plugin, "pre_filter", lambda _: None)(cycle) is SKIP
        said = None if skips else plugin.filter_softly(cycle, np.array([row], dtype=np.intp))
        return said is not None and bool(said.bits[0])

    def counts(each: Pod) -> bool:
        return (
            state.record(each.uid) is None and each.uid != pod.uid and each.template.priority >= pod.template.priority
        )

    def passes_over_with_promises(row: int) -> bool:
        promised = [each for each in state.nominations.on(state.node(row).name) if counts(each)]
        with state.statement():
            for each in promised:
                state.assume(each, row)
            return bool(promised) and passes_over(row)

    left = [row for row in map(int, rows) if not passes_over(row) and not passes_over_with_promises(row)]
    return np.array(left, dtype=np.intp) if left else rows


def tie_break(state: ClusterState, pod: Pod, row: int) -> int:
    """The hash of (seed, pod, node) in plain integers."""
    node = node_hash(state.seed, state.node(row).name)
    return ((node ^ pod_hash(state.seed, pod.key)) * _GOLDEN) % 2**64


def decide(runner: Runner, state: ClusterState, pod: Pod) -> int:
    """What the runner decides now."""
    return runner.decide(Cycle(pod, state, NOW_S))


def node_name(state: ClusterState, row: int) -> Any:
    """The name of the row's node, None for NOWHERE."""
    return None if row == NOWHERE else state.node(row).name
