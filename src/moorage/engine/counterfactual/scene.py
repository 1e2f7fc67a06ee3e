"""The world in which changes are tried: a live state, one waiting pod, and those that are decided on before it.

Everything happens inside statements, so that nothing is left behind. Nothing is ever copied.

A trial asks all filters of the profile about all nodes, on the very objects that a suggestion shows (they are made by
the rewriter and decoded). A quick trial leaves the pods ahead where they stand without the change; a proof decides on
them again, as they may want what the change offers. Pods of queues take turns then, whoever came first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from moorage.core.affinity import NodeAffinity, NodeTerm
from moorage.core.disruption.away import GONE, MOVED, Away
from moorage.core.edits import AddNode, Changed, Edits, LowerRequest
from moorage.core.gangneeds import GangNeeds
from moorage.core.membership import GangKey
from moorage.core.objects import DAEMON_SET
from moorage.core.pods import Pod, PodTemplate
from moorage.core.queuetree import Amounts
from moorage.core.reclaiming import may_reclaim
from moorage.core.selectors import Operator, Requirement
from moorage.core.state import NOWHERE, ClusterState, PodRecord
from moorage.core.values import dataclass
from moorage.engine.counterfactual.rivals import MOST_RIVALS, Others, Rivals
from moorage.engine.counterfactual.seating import GangSeats
from moorage.engine.engine import Engine
from moorage.engine.gate import may_enter
from moorage.engine.units import as_queued
from moorage.framework.classes import pre_filter
from moorage.framework.cycle import Cycle, UnfinishedError
from moorage.framework.instances import Instance
from moorage.framework.remedies import lowering_cost
from moorage.framework.runner import Runner

PATIENCE_S = 3600.0
"""A pod that needs help has waited for long: rules that become lenient with time have done so."""
_WORK = 50_000
"""How much extraordinary work a what-if may take (`Cycle.work`); each that takes more halves it for those after it."""
MOST_AHEAD = 512
"""So many pods ahead are decided on before the pod; of more only the nearest."""


class Rewrites(Protocol):
    """Makes whole objects of edits; `moorage.wire.rewriting.Rewriter` does."""

    def change(self, pod: Pod, edits: Edits) -> Changed | None:
        """What the edits come to for this pod; None if they cannot be made, or change nothing."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A change that lets the pod fit."""

    edits: Edits
    changed: Changed
    node: str
    evicted: tuple[str, ...] = ()
    """Less important pods that would make room, as `namespace/name`."""
    alone: int = 0
    """So many new nodes would do for a gang if nobody else waited; 0 if as many as there are."""


class Scene:
    """One pod and its chances. Ask only inside `opened`."""

    def __init__(
        self,
        engine: Engine,
        pod: Pod,
        now_s: float,
        rewriter: Rewrites,
        ahead: Sequence[Pod],
        *,
        evictions: bool = True,
    ) -> None:
        self.engine = engine
        self.state: ClusterState = engine.state
        self.pod = pod
        self.now_s = now_s
        self.trials = 0
        """How many changes were tried."""
        self._trial = engine.trial(now_s, now_s - PATIENCE_S, _WORK)
        self._rewriter = rewriter
        self.governed = engine.state.queues.governs(pod.template)
        """Whether the pod belongs to a queue: then pods of queues take turns with it, whoever came first."""
        others = [each for each in ahead if each.uid != pod.uid]
        governs = engine.state.queues.governs
        if self.governed:
            self._ahead = [each for each in others if not governs(each.template)][:MOST_AHEAD]
        else:
            self._ahead = others[-MOST_AHEAD:]
        self.daemons = True
        """Whether new nodes get the daemons of the node that they are like."""
        self.evicts = False
        """Whether less important pods may be evicted."""
        self.reclaims = False
        """Whether the queue of the pod may take back what it may have."""
        self._evictions = evictions
        self._least_priority: int | None = None
        """Of the pods that stand; None if no pod may be evicted."""
        self._seated: list[str] = []
        self._unseated: list[PodRecord] = []
        """Of the last round of decisions on the pods ahead: which got a node, and which lost one."""
        self._placed: list[str] = []
        self._evicted: list[PodRecord] = []
        self._away = self._trial.away()
        """The same of the round without any change."""
        self.unit: GangKey | None = None if pod.template.gang is None else engine.gangs.unit_of(pod)
        """The gang that the pod is placed with."""
        self.members = self._waiting_members()
        """The members of the gang that wait, this pod included."""
        self._gangs = GangSeats(engine, self._trial, now_s - PATIENCE_S)
        self._rivals = self._find_rivals(others) if self.governed else None

    def _find_rivals(self, others: Iterable[Pod]) -> Rivals:
        governs = self.state.queues.governs
        shared = [each for each in others if governs(each.template) and self.may_enter(each)][:MOST_RIVALS]
        known = {each.uid: each for each in (*self.members, *shared)}
        times_s = self.now_s, self.now_s - PATIENCE_S
        return Rivals(self.engine, self._trial, self.pod, known.values(), times_s)

    def _waiting_members(self) -> list[Pod]:
        if self.unit is None:
            return []
        gang = self.engine.queue.gang(self.unit)
        others = () if gang is None else (entry.pod for entry in gang.members.values())
        found = {pod.uid: pod for pod in (*others, self.pod)}
        return sorted(found.values(), key=lambda pod: (-pod.template.priority, pod.created_s, pod.key))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The world with the pods ahead on the nodes that they would get today."""
        with self.state.statement():
            self._away.take((self.state.record(self.pod.uid),), MOVED)
            standing = (record.pod.template.priority for record in self.state.records())
            self._least_priority = min(standing, default=0) if self._evictions else None
            self._place_ahead({}, ())
            self._placed, self._evicted = self._seated, self._unseated
            yield

    @property
    def ahead_count(self) -> int:
        """How many pods may be decided on before this one."""
        return len(self._ahead) + (0 if self._rivals is None else len(self._rivals.pods) - 1)

    # --- trying ---

    def changed(self, edits: Edits) -> Changed | None:
        """What edits come to, without trying them."""
        return self._rewriter.change(self.pod, edits)

    @contextmanager
    def grown(self, edits: Edits) -> Iterator[int | None]:
        """Inside, the node that is added last is there; its row."""
        changed = self.changed(edits)
        if changed is None:
            yield None
            return
        with self._applied(edits, changed):
            yield self.state.row_of(changed.nodes[-1].name)

    def trial(self, edits: Edits, *, proof: bool = False) -> Fit | None:
        """Whether the pod fits once all of this is changed."""
        changed = self._rewriter.change(self.pod, edits)
        if changed is None:
            return None
        self.trials += 1
        swapped = {pod.uid: pod for pod in changed.waiting}
        pod = swapped.get(self.pod.uid, self.pod)
        with self._counted_again(swapped), self._applied(edits, changed):
            if proof or len(swapped) > 1:
                for uid in self._placed:
                    self._trial.let_go(uid)
                for victim in self._evicted:
                    self._away.put_back(victim)
                self._place_ahead(swapped, edits, proof=proof)
            turns = self._rivals if proof and self._takes_turns(swapped) else None
            try:
                if turns is None or not self.may_enter(pod):
                    row, evicted = self._place(pod, swapped, proof=proof)
                else:
                    row, evicted = self._turn(turns, swapped, edits)
            except UnfinishedError:
                self._give_up()
                return None
            return None if row == NOWHERE else Fit(edits, changed, self.state.node(row).name, evicted)

    @contextmanager
    def _counted_again(self, swapped: Container[str]) -> Iterator[None]:
        """Afterwards queues count pods as they are that were changed inside: these wait, as others than were placed."""
        try:
            yield
        finally:
            queues = self.state.queues
            shared = () if self._rivals is None else self._rivals.pods
            for each in (self.pod, *self._ahead, *self.members, *shared) if queues.active else ():
                if each.uid in swapped and not each.gates:
                    queues.wait(each)

    def _give_up(self) -> None:
        """What takes too long is not proven."""
        self._trial.work = (self._trial.work or 0) // 2

    def accepts(self, plugin: Instance, row: int, template: PodTemplate) -> bool:
        """Whether one plugin accepts a pod like this on one row, as things stand."""
        cycle = self.cycle(replace(self.pod, template=template, requests=template.requests))
        runner = self.runner
        asked = () if runner is None else runner.plugins.pre_filter
        said = pre_filter((each for each in asked if each.name == plugin.name), cycle)
        excluded = said.nodes is not None and self.state.node(row).name not in said.nodes
        if said.refusal is not None or excluded or said.skipped:
            return bool(said.skipped)
        rejections = plugin.filter(cycle, np.array([row], dtype=np.intp))
        return rejections is None or not rejections.bits.any()

    def cycle(self, pod: Pod) -> Cycle:
        """The decision on a pod that has waited long."""
        return self._trial.cycle(pod)

    def place(self, pod: Pod) -> PodRecord | None:
        """Put a pod where its profile wants it, until the trial ends; None if it fits nowhere, or nobody knows soon."""
        try:
            return self._trial.place(pod)
        except UnfinishedError:
            self._give_up()
            return None

    def put(self, pod: Pod, row: int) -> PodRecord | None:
        """The same on one row."""
        try:
            return self._trial.put(pod, row)
        except UnfinishedError:
            self._give_up()
            return None

    def fits(self, runner: Runner, pod: Pod, row: int) -> bool:
        """Whether a row passes every filter."""
        try:
            return runner.fits(self.cycle(pod), row)
        except UnfinishedError:
            self._give_up()
            return False

    def may_enter(self, pod: Pod) -> bool:
        """Whether the pod is tried at all."""
        return may_enter(self.engine.runner_of(pod), pod, self.engine.faults)

    @property
    def runner(self) -> Runner | None:
        """The runner of the pod's profile."""
        return self.engine.runner_of(self.pod)

    # --- the world changed ---

    @contextmanager
    def _applied(self, edits: Edits, changed: Changed) -> Iterator[None]:
        with self.state.statement():
            for node in changed.nodes:
                self.state.upsert_node(node)
            for kind, key, value in changed.objects:
                self.state.put_object(kind, key, value)
            for pod in changed.standing:
                self.state.observe_pod(pod)
            for edit in edits:
                if isinstance(edit, AddNode):
                    self._add_daemons(edit)
            yield

    def _add_daemons(self, edit: AddNode) -> None:
        """A new node gets the daemons that the one like it has, or waits for before the pod."""
        like, row = self.state.row_of(edit.like), self.state.row_of(edit.name)
        if like is None or row is None or not self.daemons:
            return
        for pod in (record.pod for record in self.state.records_on(like)):
            if _is_daemon(pod) and pod.node is not None:
                self.state.assume(replace(pod, uid=f"{pod.uid}/{edit.name}", node=None), row)

    def _with_daemons(self, pods: Sequence[Pod], edits: Edits) -> list[Pod]:
        """Pods ahead, and after the last daemon of each set the one that it makes for a new node."""
        found = list(pods)
        for edit in edits:
            if isinstance(edit, AddNode) and self.daemons:
                for number, pod in reversed(list(enumerate(found))):
                    if _is_daemon(pod) and _is_for(pod, edit.like):
                        found.insert(number + 1, _daemon_for(pod, edit))
        return found

    # --- deciding ---

    def _place_ahead(self, swapped: dict[str, Pod], edits: Edits, *, proof: bool = False) -> None:
        """Decide on the pods that come first; those that fit stand on their nodes from now on.

        Those of queues take turns with the pod, so a proof that it has its own leaves them to `_place`.
        """
        self._seated, self._unseated = [], []
        if proof and self._takes_turns(swapped):
            return
        others = self._others(swapped, edits)
        if self._rivals is None:
            others.seat(others.pods)
        else:
            self._seated += self._rivals.play(swapped, others, until_own=True).seated

    def _others(self, swapped: dict[str, Pod], edits: Edits) -> Others:
        """The pods ahead that take no turns with the pod; of each gang one."""
        ahead = [swapped.get(each.uid, each) for each in self._with_daemons(self._ahead, edits)]
        return Others(list(self._leading(ahead)), partial(self._seat, swapped=swapped))

    def _turn(self, rivals: Rivals, swapped: dict[str, Pod], edits: Edits) -> tuple[int, tuple[str, ...]]:
        """The row of the pod, and its victims, once all have had their turns; NOWHERE if it has none.

        Whether pods without a queue come before those of queues or after them: it has to fit in both cases.
        """
        others = self._others(swapped, edits)
        evicts = self.evicts or self.reclaims
        if others.pods:
            with self.state.statement():
                if rivals.row_of_own(swapped, others._replace(early=True), evicts=evicts)[0] == NOWHERE:
                    return NOWHERE, ()
        return rivals.row_of_own(swapped, others, evicts=evicts)

    def _takes_turns(self, swapped: dict[str, Pod]) -> bool:
        """Whether the pod still belongs to a queue once it is changed."""
        return self.governed and self.state.queues.governs(swapped.get(self.pod.uid, self.pod).template)

    def _leading(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Pods, of each gang the first: it stands for the others."""
        known: set[GangKey] = set()
        for pod in pods:
            gang = self.engine.gangs.unit_of(pod)
            if gang is None or gang not in known:
                yield pod
            if gang is not None:
                known.add(gang)

    def _seat(self, pods: Iterable[Pod], swapped: Mapping[str, Pod]) -> None:
        """Decide on pods, with all of their gangs, and not on the gang of the pod itself."""
        for pod in self._leading(pods):
            if self.unit and pod.template.gang == self.unit:
                continue
            gang = self.engine.gangs.unit_of(pod)
            if gang is not None:  # others of it may be tried even if this one may not
                self._seat_gang(gang, {uid: each for uid, each in swapped.items() if each.template.gang == gang})
                continue
            runner = self.engine.runner_of(pod)
            if runner is None or not self.may_enter(pod):
                continue
            record = self.place(pod)
            if record is None and self.outranks(pod):
                cycle = self.cycle(pod)
                row, victims = self._trial.make_room(runner, cycle, runner.judge(cycle, self.state.rows()))
                self._unseat(victims)
                record = None if row == NOWHERE else self.put(pod, row)
            if record is not None:
                self._seated.append(pod.uid)

    def _seat_gang(self, key: GangKey, swapped: Mapping[str, Pod]) -> None:
        """Place as many members of a gang as it needs, and further ones as long as they fit."""
        while waiting := self._gangs.waiting(key, swapped):
            ready = [pod for pod in waiting if self.may_enter(pod)]
            evicts = self._evicts_for(self._gangs.priority(key))
            try:
                seated, victims = self._gangs.seat(key, waiting, ready, self._away if evicts else None)
            except UnfinishedError:
                self._give_up()
                return
            self._unseat(victims)
            self._seated += (pod.uid for pod in seated)
            if not seated:
                return

    def outranks(self, pod: Pod) -> bool:
        """Whether a less important pod is on a node."""
        return self._evicts_for(pod.template.priority)

    def _evicts_for(self, priority: int) -> bool:
        return self._least_priority is not None and self._least_priority < priority

    def _unseat(self, victims: Iterable[PodRecord]) -> None:
        for record in victims:
            if record.pod.node is not None:
                self._unseated.append(record)
            self._away.take((record,), GONE)

    def _place(self, pod: Pod, swapped: dict[str, Pod], *, proof: bool) -> tuple[int, tuple[str, ...]]:
        """The row of the pod and its victims; NOWHERE if it does not fit."""
        runner = self.engine.runner_of(pod)
        if runner is None or not self.may_enter(pod):
            return NOWHERE, ()
        if self.unit is not None:
            row = self._place_gang(swapped)
            return self._reclaimed(pod) if row == NOWHERE and self.reclaims else (row, ())
        cycle = self.cycle(pod)
        judgement = runner.judge(cycle, self.state.rows())
        if len(judgement.passed):
            row = runner.best_of(cycle, judgement.passed) if proof else int(judgement.passed[0])
            return row if not proof or self.put(pod, row) else NOWHERE, ()
        if self.reclaims:
            return self._reclaimed(pod)
        if not self.evicts or not self.outranks(pod):
            return NOWHERE, ()
        row, victims = self._trial.make_room(runner, cycle, judgement)
        if row == NOWHERE or not proof:
            return row, tuple(record.pod.key for record in victims)
        # More important pods without a node may take the room that is made.
        self._unseat(victims)
        seated = {*self._seated}
        self._seat((swapped.get(known.uid, known) for known in self._ahead if known.uid not in seated), swapped)
        passed = runner.judge(self.cycle(pod), self.state.rows()).passed
        return int(row) if row in passed else NOWHERE, tuple(record.pod.key for record in victims)

    @property
    def may_reclaim(self) -> bool:
        """Whether pods may be evicted for shares in the what-ifs."""
        return self._evictions and self.state.queues.active

    def _reclaimed(self, pod: Pod) -> tuple[int, tuple[str, ...]]:
        """The row that its queue gets for the pod, and who has to leave for it."""
        found = self.engine.room_for(pod, self.now_s)
        row = None if found is None else self.state.row_of(found[0])
        return (NOWHERE, ()) if found is None or row is None else (row, found[1])

    def entitled(self, edits: Edits, leaf: str, need: Amounts, *, preemptible: bool) -> bool:
        """Whether a queue may take back so much once all of this is changed."""
        changed = self.changed(edits)
        if changed is None:
            return False
        with self._applied(edits, changed):
            node = self.state.queues.settle(self.state).nodes.get(leaf)
            return node is not None and may_reclaim(node, need, preemptible=preemptible)

    def waiting_before(self, leaf: str) -> list[Pod]:
        """The pods that are decided on before this one, belong to this queue and have no node."""
        return [] if self._rivals is None else self._rivals.before(leaf)

    def fits_without(self, gone: Iterable[PodRecord]) -> bool:
        """Whether the pod, or its gang, fits once these have left, with the pods ahead where they stand."""
        with self.state.statement():
            Away(self.state).take(gone, MOVED)
            try:
                return self._place(self.pod, {}, proof=False)[0] != NOWHERE
            except UnfinishedError:
                self._give_up()
                return False

    @property
    def gang_needs(self) -> GangNeeds | None:
        """What the gang needs to start."""
        return None if self.unit is None else self.engine.gangs.needs(self.unit, self.members)

    def places_gang(self) -> bool:
        """Put the gang where it fits, until the statement ends; whether enough members found a node."""
        try:
            return self._place_gang({}) != NOWHERE
        except UnfinishedError:
            self._give_up()
            return False

    def _place_gang(self, swapped: dict[str, Pod]) -> int:
        """The row of the pod if enough members of its gang find one together."""
        members = [swapped.get(pod.uid, pod) for pod in self.members]
        needs = None if self.unit is None else self.engine.gangs.needs(self.unit, members)
        if needs is None:
            return NOWHERE
        waited_s = self.now_s - PATIENCE_S
        ready = [pod for pod in members if self.may_enter(pod)]
        entries = [as_queued(pod, waited_s, misfit_s=waited_s) for pod in ready]
        outcome = self._trial.place_gang(entries, needs, needs.domains(self.state))
        rows = (binding.row for binding in outcome.bindings if outcome.enough and binding.entry.pod.uid == self.pod.uid)
        return next(rows, NOWHERE)


def lowered(scene: Scene, pod: Pod, base: Edits) -> Iterator[tuple[float, Edits]]:
    """The largest request of each resource that fits, found by trying: for pods that do not change alone."""
    for name, amount in pod.template.requests.amounts:
        low, high = -1, amount
        while high - low > 1:
            middle = (low + high) // 2
            fits = scene.trial((*base, LowerRequest(name, middle))) is not None
            low, high = (middle, high) if fits else (low, middle)
        if low >= 0:
            yield lowering_cost(amount, low), (LowerRequest(name, low),)


def _is_daemon(pod: Pod) -> bool:
    return pod.template.owner is not None and pod.template.owner.kind == DAEMON_SET


def _is_for(pod: Pod, node: str) -> bool:
    """Whether a pod names the one node that it can stand on, as daemons do."""
    affinity = pod.template.node_affinity
    terms = () if affinity is None else affinity.required or ()
    return any(field.values == (node,) for term in terms for field in term.fields)


def _daemon_for(pod: Pod, edit: AddNode) -> Pod:
    """What the set of a daemon makes for a new node."""
    fields = (Requirement("metadata.name", Operator.IN, (edit.name,)),)
    affinity = NodeAffinity((NodeTerm(fields=fields),))
    return replace(pod, uid=f"{pod.uid}/{edit.name}", template=replace(pod.template, node_affinity=affinity))
