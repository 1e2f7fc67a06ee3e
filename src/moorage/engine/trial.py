"""Where pods and gangs would be placed on the current state, each counting for the next, and why not.

What is placed stays until the caller's statement ends; a gang is placed in a statement of its own, which is committed
only if enough members found a node. Both the scheduling of gangs and all what-ifs use this, so that they cannot differ.

Reserve is called too, and what plugins reserve is released with the statement, unless the pod has a binding cycle,
which owns what was reserved for it.

A gang that does not fit is filed under every plugin that kept any kind of member from any node. If not all members are
needed, room for another one than the first may be enough; and a member that found a node may have taken the only one
that another could have used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.disruption.away import MOVED, Away, let_go
from moorage.core.frozen import FrozenDict
from moorage.core.gangneeds import Domain, GangNeeds
from moorage.core.gangs import terms_of
from moorage.core.pods import Pod, as_pending
from moorage.core.state import NOWHERE, PodRecord
from moorage.engine.bindingcycles import BindingCycle
from moorage.engine.context import EngineContext, Observer
from moorage.engine.failing import make_room
from moorage.engine.failures import Failure, failure_of, failure_of_judgement
from moorage.engine.faults import failed
from moorage.engine.gangplacement import GangPlacement
from moorage.engine.placing import assume, choose, reserve, unreserve
from moorage.engine.plannedgang import PlannedGang
from moorage.engine.units import QueuedPod, as_queued
from moorage.framework.contract import PlansGangs, ReservePlugin
from moorage.framework.cycle import OTHERS_MAY_LEAVE, Cycle
from moorage.framework.gang_capacity import kind_of
from moorage.framework.gangplans import GangPlan
from moorage.framework.gangs import GANG_SCHEDULING
from moorage.framework.plugin import Reads
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import Code, Status

NO_PRICES: FrozenDict[int, int] = FrozenDict()


class Trial:
    """Places pods on the current state, at one time."""

    def __init__(
        self,
        context: EngineContext,
        now: float,
        *,
        misfit_s: float | None = None,
        observer: Observer | None = None,
        reserves: bool = True,
        work: int | None = None,
    ) -> None:
        """`misfit_s`: since when single pods have been unschedulable; `reserves`: whether Reserve is called.

        `work` is what may be done for each pod, see `Cycle.work`.
        """
        self.work = work
        self._context = context
        self._state = context.state
        self._now = now
        self._misfit_s = misfit_s
        self._observer = observer
        self._reserves = reserves
        self._held: dict[str, BindingCycle] = {}
        """Pods for which plugins hold something outside of the state."""
        self.refusal: Status | None = None
        """What Reserve said when it refused a single pod for the last time."""

    @property
    def context(self) -> EngineContext:
        """The engine's parts."""
        return self._context

    # --- a pod ---

    def cycle(self, pod: Pod) -> Cycle:
        """The scheduling cycle of a pod."""
        cycle = Cycle(pod, self._state, self._now)
        cycle.misfit_s, cycle.work = self._misfit_s, self.work
        return cycle

    def place(self, pod: Pod, choice: Callable[[Runner, Cycle], int] = Runner.decide) -> PodRecord | None:
        """Place a pod where its profile, or `choice`, puts it; None if it fits nowhere or no profile is responsible."""
        runner, cycle = self._context.runner_of(pod), self.cycle(pod)
        row = NOWHERE if runner is None else choice(runner, cycle)
        if runner is None or row == NOWHERE:
            return None
        binding = assume(self._state, as_queued(pod, self._now), runner, cycle, row)
        status = self._reserve(binding)
        self.refusal = status or self.refusal
        return self._state.record(pod.uid) if status is None else None

    def could_fit(self, pod: Pod) -> bool:
        """Whether any node could hold a pod if others left it; one that is refused whatever the node, by its size."""
        runner = self._context.runner_of(pod)
        if runner is None:
            return False
        rows, cycle = self._state.rows(), self.cycle(pod)
        cycle.memo[OTHERS_MAY_LEAVE] = True
        judgement = runner.judge(cycle, rows)
        if judgement.refusal is not None:
            resources = self._state.resources
            wanted = resources.vector(pod.requests).pairs
            large = [resources.allocatable[column, rows] >= amount for column, amount in wanted]
            return bool(np.all(large, axis=0).any()) if large else True
        return len(judgement.passed) > 0 or len(judgement.resolvable_rows()) > 0

    def put(self, pod: Pod, row: int) -> PodRecord | None:
        """The same on one row."""
        return self.place(pod, lambda runner, cycle: row if runner.takes(cycle, row) else NOWHERE)

    def fits(self, pod: Pod, row: int) -> bool:
        """Whether a pod passes every filter of its profile on one row."""
        runner = self._context.runner_of(pod)
        return runner is not None and runner.takes(self.cycle(pod), row)

    def hold(self, pod: Pod, row: int) -> PodRecord:
        """Let a pod stand on a row that is settled, with what is reserved for it there, unless that is refused."""
        runner = self._context.runner_of(pod)
        found = None
        if runner is not None and runner.late(self.cycle(pod)).reserve:
            found = self.put(pod, row)
        return found or self._state.assume(pod, row)

    def _reserve(self, binding: BindingCycle) -> Status | None:
        """Run Reserve for an assumed pod; if a plugin refuses, the pod is forgotten."""
        pod, faults = binding.entry.pod, self._context.faults
        if not (self._reserves and binding.late.reserve) or self._context.bindings.get(pod.uid) is not None:
            return None
        with self._state.statement() as what_if:
            self._state.undo.note(lambda: self._unreserve(binding))
            status = reserve(faults, binding)
            if status is None:
                what_if.commit()
                if any(_apart(binding)):
                    self._held[pod.uid] = binding
        if status is not None:
            self._state.forget(pod.uid)
        return status

    def _unreserve(self, binding: BindingCycle) -> None:
        self._held.pop(binding.entry.pod.uid, None)
        unreserve(self._context.faults, binding)

    def away(self) -> Away:
        """Pods that leave, those that were placed here with all that was reserved for them."""
        return Away(self._state, released=self._released)

    def let_go(self, uid: str) -> None:
        """A pod that was placed here leaves its place."""
        let_go(self._state, uid)
        self._released(uid)

    def _released(self, uid: str) -> None:
        """What plugins hold for a pod outside of the state ends; it is asked for again if that is undone."""
        binding = self._held.pop(uid, None)
        if binding is not None:
            unreserve(self._context.faults, binding)
            self._state.undo.note(lambda: self._reserve_again(binding))

    def _reserve_again(self, binding: BindingCycle) -> None:
        self._held[binding.entry.pod.uid] = binding
        for plugin in _apart(binding):
            self._context.faults.ask(plugin, plugin.reserve, binding.cycle, binding.row)

    def make_room(self, runner: Runner, cycle: Cycle, judgement: Judgement) -> tuple[int, list[PodRecord]]:
        """The row where evictions would make room, and the victims; NOWHERE if evictions cannot help."""
        nomination, _, _ = make_room(self._context.faults, runner, cycle, judgement)
        row = None if nomination is None or nomination.node is None else self._state.row_of(nomination.node)
        if nomination is None or row is None:
            return NOWHERE, []
        records = map(self._state.record, nomination.victims)
        return row, [record for record in records if record is not None]

    # --- a gang ---

    def place_gang(
        self, ready: Sequence[QueuedPod], needs: GangNeeds, domains: Sequence[Domain | None]
    ) -> GangPlacement:
        """Try one domain after the other; if none is enough, once more without the members' nominations.

        The nominations had room for all of them when they were made. That may have changed since, and now the
        nomination of one member could be in the way of another.
        """
        obstacle = needs.obstacle(self._state)
        if obstacle is not None:
            rejected_by = frozenset({GANG_SCHEDULING, *self.counting(ready)})
            return GangPlacement(failure=Failure(obstacle.message, rejected_by))
        planner = self._planner(ready, needs)
        planned = None if planner is None else self._place_planned(planner, ready, needs)
        if planned is not None:
            return planned
        placement: GangPlacement | None = None
        for domain in domains:
            placement = self._place_in_order(planner, domain, ready, needs, placement)
            if placement.enough:
                return placement
        nominations = self._state.nominations
        aside = [entry.pod for entry in ready if nominations.node_of(entry.pod.uid) is not None]
        with self._state.statement() as what_if:
            for pod in aside:
                nominations.clear(pod.uid)
            for domain in domains if aside else ():
                placement = self.place_in(domain, ready, needs, placement)
                if placement.enough:
                    placement.given_up = aside
                    what_if.commit()
                    break
        return placement or GangPlacement()

    # --- a gang that is planned ---

    def _planner(self, ready: Sequence[QueuedPod], needs: GangNeeds) -> PlansGangs | None:
        """The plugin that wants to be asked about the gang."""
        planner = self._context.responsible(ready[0].pod).plugins.first(PlansGangs) if ready else None
        if planner is None:
            return None
        templates = [entry.pod.template for entry in ready]
        concerned = self._context.faults.ask(planner, planner.concerns_gang, self._state, needs, templates)
        return planner if concerned else None

    def _place_planned(
        self, planner: PlansGangs, ready: Sequence[QueuedPod], needs: GangNeeds, prices: Mapping[int, int] = NO_PRICES
    ) -> GangPlacement | None:
        """Place the members where a plugin wants them; None if it has no plan for such gangs."""
        return PlannedGang(self, planner, ready, needs, prices).place()

    def planned_domains(self, pods: Sequence[Pod]) -> Sequence[Rows] | None:
        """The rows of each domain in which a plugin would let these members of a gang lie; None if it has no plans."""
        entries, needs = self._together(pods)
        planner = None if needs is None else self._planner(entries, needs)
        if planner is None or needs is None:
            return None
        cycles = [self.member_cycle(entry) for entry in entries]
        found = self._context.faults.ask(planner, planner.gang_domains, cycles, needs)
        return () if isinstance(found, Status) else found

    def place_together(self, pods: Sequence[Pod], prices: Mapping[int, int]) -> list[PodRecord] | None:
        """Place members of a gang as a plugin plans it, all or none; `prices` as in `RoomLimits`."""
        entries, needs = self._together(pods)
        planner = None if needs is None else self._planner(entries, needs)
        found = None if planner is None or needs is None else self._place_planned(planner, entries, needs, prices)
        if found is None or not found.enough:
            return None
        return [record for pod in pods if (record := self._state.record(pod.uid)) is not None]

    def _together(self, pods: Sequence[Pod]) -> tuple[list[QueuedPod], GangNeeds | None]:
        key = pods[0].template.gang
        terms = None if key is None else terms_of(self._state, key, pods)
        entries = [as_queued(pod, self._now) for pod in pods]
        return entries, None if key is None or terms is None else GangNeeds(key, terms, len(pods))

    def fits_anew(self, ready: Sequence[QueuedPod], there: Sequence[PodRecord], needs: GangNeeds) -> bool:
        """Whether a planned gang fits as a whole once the members that stand have left their nodes."""
        pods = [*(entry.pod for entry in ready), *(as_pending(record.pod) for record in there)]
        entries = [as_queued(pod, self._now) for pod in pods]
        with self._state.statement():
            Away(self._state).take(there, MOVED)
            whole = needs._replace(members=len(entries))
            planner = self._planner(entries, whole)
            found = None if planner is None else self._place_planned(planner, entries, whole)
        return found is not None and found.enough

    def observe(self, runner: Runner, cycle: Cycle) -> None:
        """Tell whoever watches that a member is being decided."""
        if self._observer is not None:
            self._observer(runner, cycle)

    def put_member(self, placement: GangPlacement, entry: QueuedPod, cycle: Cycle, row: int) -> bool:
        """Assume a member of a gang on a row that its filters accept, unless Reserve refuses."""
        binding = assume(self._state, entry, self._context.responsible(entry.pod), cycle, row)
        status = self._reserve(binding) if binding.late.reserve else None
        if status is None:
            placement.bindings.append(binding)
        else:
            placement.fail(failure_of(status), entry.pod)
        return status is None

    def member_cycle(self, entry: QueuedPod) -> Cycle:
        """The scheduling cycle of a member of a gang."""
        cycle = Cycle(entry.pod, self._state, self._now)
        cycle.misfit_s = entry.misfit_s
        if self._context.planning is not None:
            cycle.only = self._context.planning.rows_for(entry.pod)
        return cycle

    def runner_of(self, cycle: Cycle) -> Runner:
        """What decides about the pod."""
        return self._context.responsible(cycle.pod)

    # --- a gang that is not ---

    def _place_in_order(
        self,
        planner: PlansGangs | None,
        domain: Domain | None,
        ready: Sequence[QueuedPod],
        needs: GangNeeds,
        last: GangPlacement | None,
    ) -> GangPlacement:
        """Place the members in a domain; if they have ranks, and nodes an order, they go to their nodes in it."""
        if planner is None:
            return self.place_in(domain, ready, needs, last)
        with self._state.statement() as what_if:
            placement = self.place_in(domain, ready, needs, last)
            placed = [(binding.cycle, binding.row) for binding in placement.bindings]
            rows = None
            if placement.enough:
                rows = planner.order_gang([cycle for cycle, _ in placed], [row for _, row in placed])
            if rows is None:
                what_if.commit()
                return placement
        ordered = PlannedGang(self, planner, ready, needs, NO_PRICES).carry_out(GangPlan(rows))
        return ordered if ordered.enough else self.place_in(domain, ready, needs, last)

    def counting(self, ready: Iterable[QueuedPod]) -> Iterable[str]:
        """The filters that read amounts: what helps against their rejections also makes room for minResources."""
        runners = {self._context.responsible(entry.pod) for entry in ready}
        return {each.name for runner in runners for each in runner.plugins.filter if each.reads is Reads.AMOUNTS}

    def place_in(
        self,
        domain: Domain | None,
        ready: Sequence[QueuedPod],
        needs: GangNeeds,
        last: GangPlacement | None = None,
    ) -> GangPlacement:
        """Place the members one after another; what was placed stays only if it is enough.

        Even if it cannot be enough any more, one member of every kind is tried, to find the plugins that reject it.
        """
        placement = GangPlacement() if last is None else GangPlacement(rejected_by=last.rejected_by)
        in_vain = not needs.enough(len(ready))
        with self._state.statement() as what_if:
            try:
                for number, entry in enumerate(ready, 1):
                    if in_vain and (kind_of(entry.pod) in placement.kinds() or placement.too_many):
                        continue
                    placement.tried.append(entry.pod)
                    if not self._place_member(placement, entry, domain):
                        in_vain = in_vain or not needs.enough(len(placement.bindings) + len(ready) - number)
                    self._context.stopped()
            except Exception as error:  # noqa: BLE001 - a plugin's fault must not stop the others' pods
                placement.failure = Failure(failed(error), frozenset(), Code.ERROR)
                return placement
            placement.enough = needs.admits(self._state, len(placement.bindings))
            if placement.enough:
                what_if.commit()
        return placement

    def _place_member(self, placement: GangPlacement, entry: QueuedPod, domain: Domain | None) -> bool:
        runner, cycle = self._context.responsible(entry.pod), self.member_cycle(entry)
        cycle.work, cycle.domain = self.work, domain
        self.observe(runner, cycle)
        row = choose(self._state, runner, cycle)
        if row == NOWHERE:
            if placement.wants_to_know(entry.pod):
                judgement = runner.judge(cycle, self._state.rows())
                placement.fail(failure_of_judgement(judgement, self._state.node_count), entry.pod)
            return False
        return self.put_member(placement, entry, cycle, row)


def _apart(binding: BindingCycle) -> Iterator[ReservePlugin]:
    """The plugins that hold something for a pod outside of the state."""
    return (each for each in binding.late.reserve if each.name not in binding.runner.in_state)
