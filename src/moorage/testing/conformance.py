"""The checks that every plugin must pass, third-party plugins included.

One call in a test:

    from moorage.testing import check_plugin

    def test_conformance():
        check_plugin(MyPlugin, {"threshold": 3})

Clusters are generated from seeds. A failure names the plugin, the rule that it violates (a key of `CHECKS`) and the
smallest fact that shows it. A scalar reference, written independently, makes the strongest check of all:

    def reference_filter(pod, node, pods_on_node, cluster) -> list[str]: ...   # the reasons against the node
    def reference_score(pod, node, pods_on_node, cluster) -> int: ...          # what `score` returns, not normalised

It must reject the nodes that PreFilter excludes, with any reason, and is not asked for scores that PreScore skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.commands import Bind, DeletePod, PatchPodStatus, RecordEvent
from moorage.core.edits import Edit
from moorage.core.nodes import Node
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import NOWHERE, ClusterState
from moorage.core.values import dataclass
from moorage.framework.arguments import PluginArgs
from moorage.framework.contract import SuggestsRemedies
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Point, Reads
from moorage.framework.profiles import Factory, Profile
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.runner import Runner
from moorage.framework.status import Status
from moorage.testing.answers import NOW_S, Answer, Malformed, ask, by_name, filter_reasons, score_array, soft_reasons
from moorage.testing.builders import make_node, make_pod, make_state
from moorage.testing.clusters import GeneratedCluster, generate_cluster
from moorage.testing.fingerprint import fingerprint

DEFAULT_SEEDS = range(12)
_FEW_ROWS = 3

ReferenceFilter = Callable[[Pod, Node, list[Pod], GeneratedCluster], list[str]]
ReferenceScore = Callable[[Pod, Node, list[Pod], GeneratedCluster], int]


class ConformanceError(AssertionError):
    """A plugin violates a rule of the contract."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The plugin under test; `new()` makes an instance that has seen nothing."""

    cls: type[Plugin]
    args: PluginArgs
    reference_filter: ReferenceFilter | None = None
    reference_score: ReferenceScore | None = None

    def new(self) -> Any:
        return self.cls(self.args)

    @property
    def kept(self) -> bool:
        """Whether the runner keeps answers of this plugin."""
        return self.cls.reads is not Reads.CLUSTER


_Check = Callable[[_Subject, GeneratedCluster], Iterator[str]]


def check_plugin(
    plugin_cls: type[Plugin],
    args: PluginArgs | Mapping[str, Any] | None = None,
    *,
    seeds: Iterable[int] = DEFAULT_SEEDS,
    reference_filter: ReferenceFilter | None = None,
    reference_score: ReferenceScore | None = None,
) -> None:
    """Raise ConformanceError with one line per violated rule; return if the plugin passes all checks.

    `args` are the plugin's arguments, as a configuration writes them or as its `Args`.
    """
    name = getattr(plugin_cls, "name", plugin_cls.__name__)
    subject = _Subject(plugin_cls, _read_args(plugin_cls, args), reference_filter, reference_score)
    problems: dict[str, str] = {}
    for seed in seeds:
        for check, text in _problems(subject, generate_cluster(seed)):
            problems.setdefault(check, f"{name}: {check}: {text} (seed {seed})")
    if problems:
        raise ConformanceError("\n".join(problems.values()))


def _read_args(plugin_cls: type[Plugin], args: PluginArgs | Mapping[str, Any] | None) -> PluginArgs:
    return args if isinstance(args, PluginArgs) else plugin_cls.Args.model_validate(dict(args or {}))


def _problems(subject: _Subject, cluster: GeneratedCluster) -> Iterator[tuple[str, str]]:
    for name, check in CHECKS.items():
        try:
            problem = next(check(subject, cluster), None)
        except Malformed as malformed:
            yield malformed.check, str(malformed)
        except Exception as error:  # noqa: BLE001 - a stranger's plugin may raise anything; that is a finding
            yield "raises nothing", f"{type(error).__name__}: {error} (while checking: {name})"
        else:
            if problem is not None:
                yield name, problem


def _deterministic(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """The same question gets the same answer, from the same instance and from a new one."""
    state, plugin = cluster.state(), subject.new()
    for pod in cluster.pending:
        first = ask(plugin, state, pod)
        for again, which in ((plugin, "the same instance"), (subject.new(), "a new instance")):
            difference = first.difference(ask(again, state, pod))
            if difference:
                yield f"pod {pod.name} asked again of {which}: {difference}"


def _state_untouched(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """Calls change nothing, neither the state nor the rows handed in."""
    state, plugin = cluster.state(), subject.new()
    for pod in cluster.pending:
        rows = state.rows().copy()
        before = fingerprint(state)
        ask(plugin, state, pod, rows)
        after = fingerprint(state)
        changed = [name for name, value in before.items() if after[name] != value]
        if changed:
            yield f"pod {pod.name}: {', '.join(changed)} of the state changed"
        if not np.array_equal(rows, state.rows()):
            yield f"pod {pod.name}: the array of rows changed"


def _node_order(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """Row numbers mean nothing: other orders and gaps between rows give the same answer by node name."""
    want_state, plugin = cluster.state(), subject.new()
    for nodes, what in ((cluster.nodes[::-1], "nodes in reverse order"), (None, "gaps between the rows")):
        state = cluster.state(nodes) if nodes is not None else _with_gaps(cluster)
        for pod in cluster.pending:
            difference = ask(plugin, want_state, pod).difference(ask(subject.new(), state, pod))
            if difference:
                yield f"pod {pod.name}, {what}: {difference}"


def _with_gaps(cluster: GeneratedCluster) -> ClusterState:
    state = make_state()
    for number, node in enumerate(cluster.nodes):
        state.upsert_node(make_node(f"ghost{number}"))
        state.upsert_node(node)
    for number in range(len(cluster.nodes)):
        state.remove_node(f"ghost{number}")
    for pod in cluster.pods:
        state.observe_pod(pod)
    return state


def _rows_subset(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """Each row is judged alone: fewer rows, or one row by the fast path, get the same answers, PreFilter or not."""
    state, plugin = cluster.state(), subject.new()
    if not subject.kept:
        yield from _soft_subset(plugin, state, cluster)
        return
    for pod in cluster.pending:
        answer = ask(plugin, state, pod)
        for rows in (state.rows()[::2].copy(), state.rows()[1:2].copy()):
            difference = _subset_difference(plugin, answer, Cycle(pod, state, NOW_S), rows)
            if difference:
                yield f"pod {pod.name}, {len(rows)} of {len(cluster.nodes)} rows: {difference}"


def _subset_difference(plugin: Any, answer: Answer, cycle: Cycle, rows: Rows) -> str | None:
    names = {cycle.state.node(int(row)).name for row in rows}
    if answer.reasons:
        want = {name: reasons for name, reasons in answer.reasons.items() if name in names}
        found = filter_reasons(plugin, cycle, rows)
        if found != want:
            return f"reasons: {found}, want {want}"
    if answer.passed_over:
        want = {name: reasons for name, reasons in answer.passed_over.items() if name in names}
        found = soft_reasons(plugin, cycle, rows)
        if found != want:
            return f"passed over: {found}, want {want}"
    if answer.scores:
        wanted = {name: score for name, score in answer.scores.items() if name in names}
        scores = by_name(cycle.state, rows, score_array(plugin, cycle, rows))
        if scores != wanted:
            return f"scores: {scores}, want {wanted}"
    return None


def _soft_subset(plugin: Any, state: ClusterState, cluster: GeneratedCluster) -> Iterator[str]:
    for pod in cluster.pending:
        rows = state.rows()[::2].copy()
        all_rows, some = (ask(plugin, state, pod, each).passed_over for each in (state.rows(), rows))
        want = {name: all_rows[name] for name in some}
        if some != want:
            yield f"pod {pod.name}, {len(rows)} of {len(cluster.nodes)} rows: filter_softly {some}, want {want}"


def _decisions(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """A runner with kept answers decides as one that asks anew about every node, soft rejections included."""
    points = subject.cls.points()
    if not points & {Point.FILTER, Point.SCORE}:
        return
    state = cluster.state()
    factory = Factory(subject.cls.name, subject.new, subject.args, subject.cls.kinds)
    profile = Profile("conformance", dict.fromkeys(points, (factory,)), {factory.name: 1})
    kept = Runner(profile, state)
    for pod in cluster.pending:
        row = kept.decide(Cycle(pod, state, NOW_S))
        want = _best_rows(Runner(profile, state), subject.new(), state, pod)
        if row not in (want or {NOWHERE}):
            names = [state.node(each).name for each in sorted(want)]
            found = "no node" if row == NOWHERE else state.node(row).name
            yield f"pod {pod.name}: the runner takes {found}; asked anew, the best of all nodes are {names}"
        if row != NOWHERE:
            state.assume(pod, row)


def _best_rows(runner: Runner, plugin: Any, state: ClusterState, pod: Pod) -> set[int]:
    """The rows with the most points of those that pass; those that are passed over only if there is no other."""
    cycle = Cycle(pod, state, NOW_S)
    passed = runner.judge(cycle, state.rows()).passed
    passed_over = {name for name, reasons in ask(plugin, state, pod, passed).passed_over.items() if reasons}
    wanted = [int(row) for row in passed if state.node(int(row)).name not in passed_over]
    rows = np.array(wanted, dtype=np.intp) if wanted else passed
    totals = sum(runner.score_table(cycle, rows).values(), np.zeros(len(rows), dtype=np.int64))
    return {int(row) for row in rows[totals == totals.max()]} if len(rows) else set()


def _row_paths(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """`filter_row` and `score_row` agree with `filter` and `score`."""
    state, plugin = cluster.state(), subject.new()
    filter_row, score_row = getattr(plugin, "filter_row", None), getattr(plugin, "score_row", None)
    for pod in cluster.pending:
        answer = ask(plugin, state, pod)
        cycle = Cycle(pod, state, NOW_S)
        for row in map(int, state.rows()):
            name = state.node(row).name
            if filter_row is not None and name in answer.reasons:
                passes = filter_row(cycle, row)
                if passes is not (not answer.reasons[name]):
                    yield f"pod {pod.name}, node {name}: filter_row {passes}, filter {answer.reasons[name]}"
            if score_row is not None and name in answer.scores:
                score = score_row(cycle, row)
                if score != answer.scores[name]:
                    yield f"pod {pod.name}, node {name}: score_row {score}, score {answer.scores[name]}"


def _honest_sign(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """Pods with equal signs get equal answers: a field that `sign` leaves out must not matter."""
    if not subject.kept:
        return
    state, plugin = cluster.state(), subject.new()
    for pod, other in zip(cluster.pending, (*cluster.pending[1:], cluster.pending[0]), strict=True):
        answer = ask(plugin, state, pod)
        for name in (each.name for each in fields(PodTemplate) if each.init and not each.name.startswith("_")):
            template = replace(pod.template, **{name: getattr(other.template, name)})
            if plugin.sign(template) == plugin.sign(pod.template):
                changed = replace(pod, template=template, requests=template.requests)
                difference = answer.difference(ask(plugin, state, changed))
                if difference:
                    yield f"pod {pod.name} with another {name} has an equal sign, but {difference}"


def _honest_reads(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """What `reads` leaves out does not matter: other nodes, and for Reads.NODE the pods, unless `epoch` changes."""
    if not subject.kept or not cluster.nodes:
        return
    plugin = subject.new()
    for pod in cluster.pending:
        for touched, what, change in _changes(cluster, subject.cls.reads):
            state = cluster.state()
            before, epoch = ask(plugin, state, pod), plugin.epoch(state)
            change(state)
            if plugin.epoch(state) != epoch:
                continue
            after = ask(plugin, state, pod)
            for name in ("reasons", "passed_over", "scores"):
                kept, now = ({k: v for k, v in getattr(a, name).items() if k != touched} for a in (before, after))
                lost = next((node for node in kept if node in now and kept[node] != now[node]), None)
                if lost is not None:
                    yield f"pod {pod.name}, {what}: {name} of node {lost} went from {kept[lost]} to {now[lost]}"


def _changes(cluster: GeneratedCluster, reads: Reads) -> Iterator[tuple[str, str, Callable[[ClusterState], object]]]:
    """(node whose answer may change, what happens, how to do it)."""
    first = cluster.nodes[0]
    visitor = make_pod("visitor", cpu="700m", memory="1Gi", ports=[8080], labels={"app": "web"}, node=first.name)
    may_change = first.name if reads in (Reads.AMOUNTS, Reads.PODS) else ""
    yield may_change, f"a pod came to {first.name}", lambda state: state.observe_pod(visitor)
    empty = replace(first, labels=make_node("x").labels, taints=(), allocatable=make_node("x").allocatable)
    yield first.name, f"{first.name} changed", lambda state: state.upsert_node(empty)
    yield "newcomer", "a node joined", lambda state: state.upsert_node(make_node("newcomer", cpu="64"))


def _other_points(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """PreEnqueue, QueueSort and Bind return what the contract says; keys of the queue can be compared."""
    plugin, state = subject.new(), cluster.state()
    if hasattr(plugin, "pre_enqueue"):
        for pod in cluster.pending:
            said = plugin.pre_enqueue(pod)
            if not (said is None or isinstance(said, Status)):
                yield f"pre_enqueue returned {type(said).__name__}; return Status or None"
    if hasattr(plugin, "queue_key"):
        keys = [plugin.queue_key(pod, NOW_S + number) for number, pod in enumerate(cluster.pending)]
        if not all(isinstance(key, tuple) for key in keys):
            yield "queue_key must return a tuple"
        sorted(keys)
    if hasattr(plugin, "bind") and cluster.pending and cluster.nodes:
        said = plugin.bind(Cycle(cluster.pending[0], state, NOW_S), int(state.rows()[0]))
        if not isinstance(said, Bind | DeletePod | PatchPodStatus | RecordEvent | Status):
            yield f"bind returned {type(said).__name__}; return a command or Status"


def _remedies(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """`remedies` returns remedies with edits and a cost, the same twice, and leaves the state alone."""
    state, plugin = cluster.state(), subject.new()
    if not isinstance(plugin, SuggestsRemedies):
        return
    for pod in cluster.pending:
        before, reasons = fingerprint(state), ask(plugin, state, pod).reasons
        for row in [int(row) for row in state.rows() if reasons.get(state.node(int(row)).name)][:_FEW_ROWS]:
            rejected = Rejected(state, pod, row, partial(_accepts, plugin, state, pod, row))
            found = list(plugin.remedies(rejected))
            where = f"pod {pod.name}, node {state.node(row).name}"
            for remedy in found:
                if not isinstance(remedy, Remedy) or not all(isinstance(edit, Edit) for edit in remedy.edits):
                    yield f"{where}: {remedy!r:.80}; return Remedy(edits, cost) with edits of moorage.core.edits"
                elif not remedy.edits or remedy.cost <= 0:
                    yield f"{where}: {remedy!r:.80} changes or costs nothing"
            if list(plugin.remedies(rejected)) != found:
                yield f"{where}: other remedies when asked again"
        if fingerprint(state) != before:
            yield f"pod {pod.name}: the state changed"


def _accepts(plugin: object, state: ClusterState, pod: Pod, row: int, template: PodTemplate) -> bool:
    changed = replace(pod, template=template, requests=template.requests)
    answer = ask(plugin, state, changed, np.array([row], dtype=np.intp))
    name = state.node(row).name
    return answer.refusal is None and (answer.only is None or name in answer.only) and not answer.reasons.get(name)


def _reference(subject: _Subject, cluster: GeneratedCluster) -> Iterator[str]:
    """Filter and Score equal the scalar reference."""
    state, plugin = cluster.state(), subject.new()
    for pod in cluster.pending:
        answer = ask(plugin, state, pod)
        for node in cluster.nodes:
            question = (pod, node, cluster.pods_on(node.name), cluster)
            if subject.reference_filter is not None:
                want = sorted(subject.reference_filter(*question))
                problem = _against(answer, node.name, want)
                if problem:
                    yield f"pod {pod.name}, node {node.name}: {problem}"
            if subject.reference_score is not None and node.name in answer.scores:
                wanted = subject.reference_score(*question)
                if answer.scores[node.name] != wanted:
                    yield f"pod {pod.name}, node {node.name}: score {answer.scores[node.name]}, reference {wanted}"


def _against(answer: Answer, node: str, want: list[str]) -> str | None:
    excluded = answer.refusal is not None or (answer.only is not None and node not in answer.only)
    if excluded:
        return None if want else "PreFilter excludes it, the reference does not"
    found = sorted(text for text, _ in answer.reasons.get(node, ()))
    return None if found == want else f"reasons {found}, reference {want}"


CHECKS: dict[str, _Check] = {
    "deterministic": _deterministic,
    "state untouched": _state_untouched,
    "node order irrelevant": _node_order,
    "rows judged singly": _rows_subset,
    "decisions anew": _decisions,
    "row paths agree": _row_paths,
    "sign honest": _honest_sign,
    "reads honest": _honest_reads,
    "other points": _other_points,
    "remedies as promised": _remedies,
    "equals reference": _reference,
}
"""Rule -> its check. All of them also check shape, dtype, range, untouched arguments, and that nothing is raised."""
