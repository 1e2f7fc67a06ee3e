"""The smallest changes that let a waiting pod fit: candidates by family, tried, ranked, proven.

1. What keeps the pod from being tried at all (gates, an unknown scheduler name) must change in any case.
2. The objections to each node show which single fixes, and which pairs of them, could be enough.
3. Pods that could move, nodes that could be added, and a larger share for its queue, are searched for besides.
4. Only where none of it helps, everything that could be given up is tried alone, and evictions are allowed.
5. What passed is ranked by cost and proven: pods ahead decide again, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np

from moorage.core.arrays import Mask
from moorage.core.edits import (
    POD_EDITS,
    AddNode,
    DropHostPort,
    DropLabel,
    DropNodeRules,
    DropPodRule,
    DropSelector,
    DropVolume,
    Edit,
    Edits,
    EndJob,
    LowerRequest,
    OpenGates,
    RaiseBound,
    RelaxSpread,
    ShrinkGang,
    Tolerate,
    UseScheduler,
)
from moorage.core.pods import Pod
from moorage.core.taints import barring
from moorage.core.values import dataclass
from moorage.engine.counterfactual.endings import END_COST, job_ends
from moorage.engine.counterfactual.gangs import gang_candidates, smaller_gangs
from moorage.engine.counterfactual.growth import fewest, growth_cost, kinds_of_nodes, more_nodes
from moorage.engine.counterfactual.moves import moves
from moorage.engine.counterfactual.objections import Objections, find_objections, shortage
from moorage.engine.counterfactual.remedies import Remedies
from moorage.engine.counterfactual.scene import Fit, Rewrites, Scene, lowered
from moorage.engine.counterfactual.shares import limits_and_nodes, share_candidates
from moorage.engine.counterfactual.wording import sentence
from moorage.engine.engine import Engine
from moorage.engine.gate import may_enter
from moorage.engine.sharing import Sharing
from moorage.engine.units import Place
from moorage.framework.contract import SharesQueues
from moorage.framework.cycle import UnfinishedError
from moorage.framework.remedies import Remedy
from moorage.framework.runner import Runner

MOST_SUGGESTIONS = 8
_MOST_OF_A_KIND = 2
_MOST_TRIALS = 96
_MOST_GROUPS = 64
_ROWS_PER_GROUP = 2
_MOST_OBJECTORS = 3
_MOST_PRODUCTS = 8
_MOST_MOVES = 2
_MOST_EVICTIONS = 12
_MOST_LEFT_OUT = 24
"""So many trials find out what can be left out of combinations; no candidate loses its own trial to them."""
_MOST_DESCENTS = 3
_NEAR = 4
"""So many more nodes than seemed enough are tried one by one."""
_FEW_AHEAD = 64
"""With more pods ahead no value is searched for step by step: each step decides on all of them."""
_DEAR = 6.0
"""Where nothing costs less, a new node and a change of the pod are tried together."""
_FOR_SHARES = (RaiseBound, ShrinkGang)
"""With these the queue of the pod may take back more."""
_ENOUGH = 24
"""So many changes that help are enough to choose from."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that was proven to let the pod fit."""

    text: str
    objects: tuple[dict[str, Any], ...]
    """Whole Kubernetes objects, to be put in place of those of their names, or to be added."""
    node: str
    """Where the pod goes then."""
    cost: float
    edits: Edits = ()

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"text": self.text, "objects": list(self.objects)}


Accept: TypeAlias = Callable[[Suggestion], bool]


def suggest(
    engine: Engine,
    pod: Pod,
    now_s: float,
    rewriter: Rewrites,
    *,
    ahead: Sequence[Pod] | None = None,
    accept: Accept | None = None,
    evictions: bool = True,
) -> tuple[Suggestion, ...]:
    """What would let a waiting pod fit, the smallest change first; empty if nothing would, or it fits already.

    Works on the engine's own state and leaves it as it was. Call it between two calls of `handle`. `ahead` are the
    waiting pods that are decided on before it, by default those that stand before it in the engine's queue. `accept`
    may refuse what it knows more about. Without `evictions` no pod is evicted in the what-ifs: PostFilter plugins take
    note of what they are asked, so an engine that decides for a cluster had better not be asked that. What raises ends
    the search, and is kept in the engine's `faults`.
    """
    if pod.node is not None or pod.finished or pod.deleted_s is not None or not engine.state.node_count:
        return ()
    waiting = waiting_ahead(engine, pod) if ahead is None else ahead
    scene = Scene(engine, pod, now_s, rewriter, waiting, evictions=evictions)
    try:
        with scene.opened():
            return _Search(scene, accept).run()
    except UnfinishedError:  # nothing can be said of a pod about which nothing is known yet
        return ()
    except Exception as error:  # noqa: BLE001 - no suggestions for one pod must not stop the others' decisions
        engine.faults.add(f"the search for suggestions for pod {pod.key}", error)
        return ()


def waiting_ahead(engine: Engine, pod: Pod) -> list[Pod]:
    """The pods that may be decided on before this one; those on their way to a node have been."""
    entries = list(engine.queue.entries())
    own = next((entry for entry in entries if entry.pod.uid == pod.uid), None)
    sort = next(iter(engine.runners.values())).plugins.queue_sort[0]
    sharing = engine.queue.shared

    def key_of(each: Pod, since_s: float) -> tuple[Any, ...]:
        """In queues age counts, not how long the scheduler has known a pod."""
        return sharing.key(each, each.created_s) if isinstance(sharing, Sharing) else sort.queue_key(each, since_s)

    keyed = [((key_of(entry.pod, entry.unit.since_s), number), entry) for number, entry in enumerate(entries)]
    if own is not None:
        limit = next(key for key, entry in keyed if entry is own)
    else:
        limit = (key_of(pod, max((entry.unit.since_s for entry in entries), default=0.0)), len(entries))
    every = engine.state.queues.governs(pod.template)  # units of queues take turns, whoever came first
    ahead = sorted(
        (each for each in keyed if each[0] < limit or (every and each[1] is not own)), key=lambda each: each[0]
    )
    return [entry.pod for _, entry in ahead if entry.place is not Place.IN_FLIGHT]


class _Search:
    def __init__(self, scene: Scene, accept: Accept | None) -> None:
        self._scene = scene
        self._accept = accept
        self._base: Edits = ()
        self._pod = scene.pod
        """The pod with what must change in any case."""
        self._found: dict[frozenset[Edit], tuple[float, Fit]] = {}
        self._tried: set[tuple[frozenset[Edit], bool, bool]] = set()
        """Edits, and who gave way in their trial."""
        self._parts: dict[Edits, tuple[Remedy, ...]] = {}
        """The fixes of which a combination is made, one for each plugin that objects."""
        self._descents = 0

    def run(self) -> tuple[Suggestion, ...]:
        """All steps."""
        runner = self._prepare()
        if runner is None or (not self._base and self._scene.trial(()) is not None):
            return ()
        if self._base:
            self._try(0.0, ())
        if self._scene.unit is not None:
            self._try_all(gang_candidates(self._scene, self._pod))
        else:
            self._look(runner, Remedies(self._scene, runner))
        self._share()
        if not self._base and self._is_governed():
            self._try_all(limits_and_nodes(self._scene, self._pod))
            self._try_all(job_ends(self._scene, self._pod, self._open_rows(runner)))
        return self._suggestions()

    def _is_governed(self) -> bool:
        """Whether the pod belongs to a queue."""
        queues = self._scene.state.queues
        return queues.active and queues.governs(self._pod.template)

    def _open_rows(self, runner: Runner) -> Mask:
        """Rows on which the pod could stand if others left them, bool[height]; what its queue may have is no matter."""
        sharing = {plugin.name for plugin in runner.plugins.having(SharesQueues)}
        objections = find_objections(self._scene, runner, self._pod)
        found: Mask = np.zeros(self._scene.state.height, dtype=np.bool_)
        found[objections.rows] = True
        for number, name in enumerate(objections.plugins):
            if name not in sharing:
                found[objections.rows[(objections.fixed >> number & 1) != 0]] = False
        return found

    def _share(self) -> None:
        """A larger share for the queue of the pod, for which others give way."""
        if self._base or not self._scene.may_reclaim:
            return
        self._scene.reclaims = True
        self._try_all(share_candidates(self._scene, self._pod), most=_MOST_EVICTIONS)
        if self._scene.unit is not None and not self._shrinks():
            self._try_all(smaller_gangs(self._scene, self._pod), most=_MOST_EVICTIONS)
        self._scene.reclaims = False

    def _shrinks(self) -> bool:
        """Whether a smaller gang is enough without others giving way."""
        return any(isinstance(edit, ShrinkGang) for edits in self._found for edit in edits)

    # --- 1 ---

    def _prepare(self) -> Runner | None:
        """Find the profile, and the edits without which the pod is not tried at all."""
        scene = self._scene
        runner = scene.runner
        if runner is None:
            runner = next(iter(scene.engine.runners.values()))
            self._base = (UseScheduler(runner.profile.scheduler_name),)
        if scene.pod.gates and not may_enter(runner, scene.pod, scene.engine.faults):
            self._base = (*self._base, OpenGates())
        if self._base:
            changed = scene.changed(self._base)
            pods = [] if changed is None else [pod for pod in changed.waiting if pod.uid == scene.pod.uid]
            if not pods:
                return None
            self._pod = pods[0]
        return runner

    # --- 2 to 4 ---

    def _look(self, runner: Runner, remedies: Remedies) -> None:
        objections = find_objections(self._scene, runner, self._pod)
        self._try_all(self._fixes(remedies, objections))
        if self._has_kin():
            self._try_all(lowered(self._scene, self._pod, self._base))
        for edits, cost in self._some_moves(runner, remedies, objections):
            self._try(cost, edits)
        self._grow()
        if not self._found:
            self._try_all((1.0 + len(edits), edits) for edits in self._everything(objections))
        if not self._found and self._accept is not None:
            # Pods of DaemonSets may come after the pod; a check beyond this one finds out.
            self._scene.daemons = False
            self._grow()
        if self._best() > _DEAR:
            self._grow_and_fix(runner, remedies)
        if self._may_evict():
            self._scene.evicts = True
            self._try_all(self._fixes(remedies, objections, evicting=True), most=_MOST_EVICTIONS)
            if not self._found:
                self._try_all((1.0 + len(edits), edits) for edits in self._everything(objections))
            self._scene.evicts = False

    def _best(self) -> float:
        return min((cost for cost, _ in self._found.values()), default=float("inf"))

    def _may_evict(self) -> bool:
        """Whether a less important pod is on a node."""
        return self._pod.template.preemption_policy != "Never" and self._scene.outranks(self._pod)

    def _fixes(
        self, remedies: Remedies, objections: Objections, *, evicting: bool = False
    ) -> Iterator[tuple[float, Edits]]:
        """Singles and combinations for the most promising rows of each group, cheapest first.

        With `evicting`, what the removal of pods can change need not be fixed.
        """
        found: dict[Edits, float] = {}
        for index in self._promising(remedies, objections):
            row = int(objections.rows[index])
            objectors = remedies.distinct(objections.at(index, fixed=evicting))
            options = [remedies.of(plugin, self._pod, row) for plugin in objectors]
            if options and all(options):
                most = _MOST_PRODUCTS if len(options) > 1 else 1 << 30
                for _, fixes in zip(range(most), product(*(sorted(each, key=_cost) for each in options)), strict=False):
                    edits, cost = _joined(fixes)
                    found[edits] = min(cost, found.get(edits, cost))
                    if len(fixes) > 1:
                        self._parts[edits] = fixes
        yield from sorted(((cost, edits) for edits, cost in found.items()), key=lambda item: item[0])

    def _promising(self, remedies: Remedies, objections: Objections) -> list[int]:
        """Indexes of rows: of each group that fails alike, those that lack the least."""
        state, rows = self._scene.state, objections.rows
        columns = [objections.bits, *objections.detail.values(), *remedies.groups(objections.plugins, rows)]
        _, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        lacking = shortage(self._scene, self._pod, rows)
        best: dict[int, list[tuple[float, str, int]]] = {}
        order = np.argsort(lacking, kind="stable")
        for index in map(int, order):
            entries = best.setdefault(int(inverse.reshape(-1)[index]), [])
            if len(entries) < _ROWS_PER_GROUP:
                entries.append((float(lacking[index]), state.node(int(rows[index])).name, index))
        ranked = sorted(
            (len(remedies.distinct(objections.at(entry[2]))), entry) for entries in best.values() for entry in entries
        )
        return [entry[2] for count, entry in ranked if 0 < count <= _MOST_OBJECTORS][:_MOST_GROUPS]

    def _some_moves(self, runner: Runner, remedies: Remedies, objections: Objections) -> Iterator[tuple[Edits, float]]:
        if any(isinstance(edit, UseScheduler) for edit in self._base):
            return
        for number, found in enumerate(moves(self._scene, runner, remedies, self._pod, objections), start=1):
            yield found
            if number >= _MOST_MOVES:
                return

    def _grow(self) -> None:
        for rank, node in enumerate(kinds_of_nodes(self._scene.state, self._pod.template)):
            self._try(growth_cost(1, rank), more_nodes(self._scene.state, node.name, 1))

    def _grow_and_fix(self, runner: Runner, remedies: Remedies) -> None:
        """A new node that would need a change of the pod, too: for a pod that is too large for any node, say."""
        for rank, node in enumerate(kinds_of_nodes(self._scene.state, self._pod.template)):
            added = more_nodes(self._scene.state, node.name, 1)
            with self._scene.grown(added) as row:
                if row is None:
                    continue
                objections = find_objections(self._scene, runner, self._pod)
                index = int(np.searchsorted(objections.rows, row))
                objectors = remedies.distinct(objections.at(index))
                options = [remedies.of(plugin, self._pod, row) for plugin in objectors]
                choices = [[fix for fix in each if _of_pod(fix.edits)] for each in options]
                joined = [_joined(fixes) for fixes in product(*choices)] if all(choices) else []
            for edits, cost in joined[:_MOST_PRODUCTS]:
                self._try(cost + growth_cost(1, rank), (*edits, *added))

    def _has_kin(self) -> bool:
        """Whether pods ahead come from the same template, and would change with this one."""
        amounts = self._pod.template.requests.amounts
        if not amounts:
            return False
        changed = self._scene.changed((*self._base, LowerRequest(amounts[0][0], amounts[0][1] - 1)))
        return changed is not None and len(changed.waiting) > 1

    def _everything(self, objections: Objections) -> Iterator[Edits]:
        """Each thing that the pod could give up, alone; then all rules of a kind together."""
        template = self._pod.template
        kinds: list[list[Edit]] = [
            [DropSelector(key) for key in template.node_selector],
            [DropNodeRules()],
            [DropPodRule(i, anti=False) for i in _backwards(template.pod_affinity)],
            [DropPodRule(i, anti=True) for i in _backwards(template.pod_anti_affinity)],
            [RelaxSpread(i) for i, each in enumerate(template.spread) if each.hard],
            [DropHostPort(port) for port in template.host_ports],
            [DropVolume(volume) for volume in template.volumes],
            [LowerRequest(name, 0) for name, _ in template.requests.amounts],
            [DropLabel(key) for key in template.labels],
            list(self._tolerations(objections)),
        ]
        for kind in kinds:
            yield from ((edit,) for edit in kind)
        for kind in kinds:
            if len(kind) > 1:
                yield tuple(kind)

    def _tolerations(self, objections: Objections) -> Iterator[Edit]:
        taints = self._scene.state.taints
        sets = dict.fromkeys(taints.ids[objections.rows].tolist())
        found = (taint for each in sets for taint in barring(taints.sets[each], self._pod.template.tolerations))
        return map(Tolerate, dict.fromkeys(found))

    # --- trying ---

    def _try_all(self, candidates: Iterable[tuple[float, Edits]], most: int = _MOST_TRIALS) -> None:
        scene = self._scene
        start, known, left = scene.trials, len(self._found), min(most, _MOST_LEFT_OUT)
        for cost, edits in candidates:
            if len(self._found) - known >= _ENOUGH or scene.trials - start >= most:
                return
            if self._try(cost, edits):
                trials, found = scene.trials, len(self._found)
                self._leave_out(self._parts.get(edits, ()), trials + left)
                spent = scene.trials - trials
                start, known, left = start + spent, known + len(self._found) - found, left - spent

    def _try(self, cost: float, edits: Edits) -> bool:
        """Whether this helps, and nothing that is known to help is part of it."""
        key = frozenset(edits)
        trial = key, self._scene.evicts, self._scene.reclaims
        if trial in self._tried or any(known <= key for known in self._found):
            return False
        self._tried.add(trial)
        fit = self._scene.trial((*self._base, *edits))
        if fit is None:
            return False
        self._found[key] = (cost + (1.0 + 0.5 * len(fit.evicted) if fit.evicted else 0.0), fit)
        return True

    def _leave_out(self, fixes: Sequence[Remedy], last: int) -> None:
        """Try a combination without each of its fixes, up to a number of trials: one may be enough for two plugins."""
        for fewer in combinations(fixes, len(fixes) - 1) if len(fixes) > 1 else ():
            edits, cost = _joined(fewer)
            if self._scene.trials < last and self._try(cost, edits):
                self._leave_out(fewer, last)

    # --- 5 ---

    def _suggestions(self) -> tuple[Suggestion, ...]:
        chosen: list[Suggestion] = []
        kinds: dict[tuple[str, ...], int] = {}
        ends = any(isinstance(edit, EndJob) for edits in self._found for edit in edits)
        for key, (cost, fit) in sorted(self._found.items(), key=lambda item: (item[1][0], str(item[1][1].edits))):
            kind = tuple(sorted({type(edit).__name__ for edit in key}))
            if any(_asks_less(each.edits, fit.edits) for each in chosen) or kinds.get(kind, 0) >= _MOST_OF_A_KIND:
                continue
            if len(chosen) >= MOST_SUGGESTIONS - (ends and cost < END_COST):  # what comes last is said, too
                continue
            proven = self._proven(fit)
            # A proof may ask for more, and so for as much as another change does.
            if proven is None or any(_asks_less(each.edits, proven.edits) for each in chosen):
                continue
            suggestion = self._suggestion(cost, proven)
            if self._accept is None or self._accept(suggestion):
                kinds[kind] = kinds.get(kind, 0) + 1
                chosen.append(suggestion)
        return tuple(sorted(_needed(chosen), key=lambda each: each.cost))

    def _proven(self, fit: Fit) -> Fit | None:
        """The same with the pods ahead deciding again; of new nodes perhaps more, as those take some."""
        self._scene.reclaims = bool(fit.evicted) and all(isinstance(edit, _FOR_SHARES) for edit in fit.edits)
        self._scene.evicts = bool(fit.evicted) and not self._scene.reclaims
        proven = self._scene.trial(fit.edits, proof=True)
        likes = [edit.like for edit in fit.edits if isinstance(edit, AddNode)]
        if proven is None and len({*likes}) == 1:
            others = tuple(edit for edit in fit.edits if not isinstance(edit, AddNode))

            def enough(count: int) -> Fit | None:
                return self._scene.trial((*others, *more_nodes(self._scene.state, likes[0], count)), proof=True)

            # One by one at first: with many more, others may start that come first and take them all.
            near = map(enough, range(len(likes) + 1, len(likes) + 1 + _NEAR))
            proven = next((each for each in near if each is not None), None)
            proven = proven or fewest(enough, above=len(likes) + _NEAR)
            if proven is not None and self._scene.unit is not None:
                proven = replace(proven, alone=len(likes))
        if proven is None:
            proven = self._lowered_further(fit)
        self._scene.evicts = self._scene.reclaims = False
        return proven

    def _lowered_further(self, fit: Fit) -> Fit | None:
        """The same with a request lowered so far that it fits beside the pods ahead, which take some of the room."""
        scene = self._scene
        edits = [edit for edit in fit.edits if isinstance(edit, LowerRequest)]
        if len(edits) != 1 or self._descents >= _MOST_DESCENTS or scene.ahead_count > _FEW_AHEAD:
            return None
        self._descents += 1
        others = tuple(edit for edit in fit.edits if edit is not edits[0])
        found: Fit | None = None
        low, high = -1, edits[0].amount
        while high - low > 1:
            middle = (low + high) // 2
            fits = scene.trial((*others, LowerRequest(edits[0].resource, middle)), proof=True)
            low, high, found = (low, middle, found) if fits is None else (middle, high, fits)
        return found

    def _suggestion(self, cost: float, fit: Fit) -> Suggestion:
        extra = sum(isinstance(edit, AddNode) for edit in fit.edits) - 1
        text = sentence(self._scene.state, self._scene.pod, fit)
        documents = tuple(dict(document) for document in fit.changed.documents)
        return Suggestion(text, documents, fit.node, cost + 0.5 * max(0, extra), fit.edits)


def _joined(fixes: Iterable[Remedy]) -> tuple[Edits, float]:
    """All edits once; what a fix shares with those before it costs nothing more."""
    edits: dict[Edit, None] = {}
    cost = 0.0
    for fix in fixes:
        if not set(fix.edits) <= edits.keys():
            edits |= dict.fromkeys(fix.edits)
            cost += fix.cost
    return tuple(edits), cost


def _needed(chosen: Sequence[Suggestion]) -> Iterator[Suggestion]:
    """Those of which no part is another one: a part for which others give way may cost more than the whole."""
    for one in chosen:
        if not any(each is not one and _asks_less(each.edits, one.edits) for each in chosen):
            yield one


def _asks_less(one: Edits, other: Edits) -> bool:
    """Whether the first set of edits is part of the second, or lowers the same requests, or raises bounds, by less."""
    lowered = {edit.resource: edit.amount for edit in other if isinstance(edit, LowerRequest)}
    raised = {replace(edit, amount=0): edit.amount for edit in other if isinstance(edit, RaiseBound)}

    def within(edit: Edit) -> bool:
        if isinstance(edit, LowerRequest):
            return lowered.get(edit.resource, edit.amount + 1) <= edit.amount
        if isinstance(edit, RaiseBound):
            return raised.get(replace(edit, amount=0), edit.amount - 1) >= edit.amount
        return edit in other

    return all(map(within, one))


def _cost(fix: Remedy) -> float:
    return fix.cost


def _of_pod(edits: Edits) -> bool:
    return all(isinstance(edit, POD_EDITS) for edit in edits)


def _backwards(affinity: Any) -> list[int]:
    """Positions from the last on, so that dropping one leaves the others where they are."""
    return [] if affinity is None else list(reversed(range(len(affinity.required))))
