"""DynamicResources: devices are allocated to the claims of a pod, or claims that hold devices already are honoured.

Filter looks on each node for devices for the claims that have none, as kube-scheduler's allocator looks for them
(`core.allocating`). Reserve keeps the devices of the chosen node from other pods, PreBind writes them to the claims and
waits until drivers have made them ready. A claim that holds devices which no node of its pod can use is deallocated
where no other pod needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from moorage.core import claimwrites
from moorage.core.allocated import allocations_of
from moorage.core.allocating import NOTHING_IN_USE, Search
from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.claimbounds import bounded_claims
from moorage.core.claims import Allocation, DeviceClass, ResourceClaim
from moorage.core.commands import Command, PodRef, RecordEvent
from moorage.core.deviceanswers import ANSWERS, POINTS, DeviceAnswers
from moorage.core.devicecounts import FAILURE, SUCCESS, TIMEOUT, DeviceCounts, DriverWait
from moorage.core.devicediagnosis import diagnose
from moorage.core.devicefit import AllocationError, DeviceFit, SearchTimeoutError
from moorage.core.deviceindex import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE, TAINT_RULE
from moorage.core.devicepacking import packed
from moorage.core.devicerefusals import Holders
from moorage.core.devices import DeviceId
from moorage.core.deviceselectors import Looks
from moorage.core.disruption.claims import free_abandoned, uses_devices
from moorage.core.edits import DropDevices
from moorage.core.extendedclaims import SpecialClaim, make, remove, special_claim, tell
from moorage.core.gangneeds import GangNeeds
from moorage.core.hashing import name_uuid
from moorage.core.nodeterms import any_term
from moorage.core.podclaims import DeviceClaims, missing, pod_claims, preference, readiness, ready_by_s
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.core.values import copier, dataclass
from moorage.framework.arguments import PluginArgs, Seconds
from moorage.framework.changes import Change, What
from moorage.framework.cycle import OTHERS_MAY_LEAVE, Cycle, UnfinishedError
from moorage.framework.details import Detail
from moorage.framework.device_details import MOST_LOOKS, device_details, elsewhere
from moorage.framework.device_remedies import device_groups, device_remedies
from moorage.framework.holding import hold
from moorage.framework.nominated import NominatedPods
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.runner import Judgement, Runner
from moorage.framework.status import (
    SKIP,
    Code,
    GangNomination,
    Hold,
    Nomination,
    Reason,
    Rejections,
    Status,
    unresolvable,
)

_WAITS = "DynamicResources/deadline"
_SPECIAL = "DynamicResources/special"
_NONE, _INVALID, _ELSEWHERE, _LEFTOVER, _IN_USE = 1, 2, 4, 8, 16
_REASONS = (
    Reason("cannot allocate all claims", resolvable=False),
    Reason("invalid resource pools were encountered", resolvable=False),
    Reason("resourceclaim not available on the node", resolvable=False),
    Reason("cannot schedule extended resource claim", resolvable=False),
    Reason("cannot allocate all claims"),
)
"""In the order of their bits."""
_WORK_PER_S = 100_000
"""How many devices a search looks at in a second of its timeout; nothing here reads a clock."""
_SHORT = 1_000
"""An ordinary search looks at fewer devices; more of it is extraordinary work."""
_MOST_PACKED = 10_000
"""How many devices are looked at in the packed order; the order of Filter, which has found some, is taken beyond."""
_SWIFT = 5
"""How much further kube-scheduler gets with selectors in a second, about."""
_HIGHEST = 100
_RETURNING = "waiting until the claims of preempted pods give their devices back."
_PACKED = "Packed"
_MOST_EMPTIED = 64
"""So many nodes are looked at for what they would have if all claims gave their devices back."""
_WRITING_S = 900.0
"""How long the writes to claims may take between two changes of these."""


@dataclass(slots=True)
class _Plan:
    """What a pod needs of devices."""

    claims: DeviceClaims
    unusable: bool
    """Whether drivers failed to make the devices of a claim ready, or did not in time."""
    backed: frozenset[str] = frozenset()
    """Extended resources that classes of devices back."""
    leftover: ResourceClaim | None = None
    """The special claim of an earlier attempt, which has to go first."""

    @property
    def looks(self) -> bool:
        """Whether devices have to be looked for."""
        return bool(self.claims.open or self.backed)


class DynamicResourcesArgs(PluginArgs):
    """How long allocating may take on one node, and how long PreBind waits for drivers.

    `deviceOrder: Packed` takes devices that are partly in use before others that would do as well. With
    `preemptDevices`, pods may be evicted for the devices that they use.
    """

    device_order: Literal["Upstream", "Packed"] = "Upstream"
    preempt_devices: bool = False
    filter_timeout: Annotated[Seconds, Field(ge=0.0)] = 10.0
    binding_timeout: Annotated[Seconds, Field(ge=1.0)] = 600.0


class DynamicResources(Plugin):
    """Allocates devices to the claims of pods."""

    name: ClassVar[str] = "DynamicResources"
    Args: ClassVar[type[PluginArgs]] = DynamicResourcesArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = (
        What.NODE_ADDED | What.NODE_ALLOCATABLE | What.NODE_LABELS | What.POD_REMOVED | What.OBJECT | What.SELF
    )
    kinds: ClassVar[frozenset[str]] = frozenset({RESOURCE_CLAIM, DEVICE_CLASS, RESOURCE_SLICE, TAINT_RULE})
    keeps: ClassVar[Mapping[str, Any]] = {_WAITS: float, _SPECIAL: SpecialClaim}
    reserves_in_state: ClassVar[bool] = True

    def __init__(self, args: DynamicResourcesArgs | None = None) -> None:
        self.args: DynamicResourcesArgs = args or DynamicResourcesArgs()
        self._answers = DeviceAnswers()
        self.counts = DeviceCounts()
        self._state: ClusterState | None = None

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Pods with claims, and those that request resources that a DeviceClass backs."""
        if template.claims:
            return True
        backing = state.devices.backing
        return bool(backing) and any(name in backing for name, _ in template.requests.amounts)

    def attach(self, state: ClusterState) -> None:
        """For PreEnqueue."""
        self._state = state

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """What offers or frees devices, or changes what the pod asks for.

        Of claims the pod's own matter, and those that give devices back; of pods those that were on their way to a node
        and gave up what they had reserved.
        """
        if change.what is What.POD_REMOVED:
            pod = change.pod
            return pod is not None and pod.node is None and bool(pod.template.claims or pod.template.asks)
        if change.kind == RESOURCE_CLAIM:
            return change.frees or any(f"{template.namespace}/{name}" == change.key for name in template.claims)
        if change.kind == TAINT_RULE:
            return not change.added
        return not change.gone

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold pods whose claims are missing, being deleted or another pod's; nothing is reported while they wait."""
        if not pod.template.claims or self._state is None:
            return None
        problem, leaving = missing(self._state, pod), self._state.devices.writes.leaving
        if problem is None and leaving and any(pod.uid in uids for uids in leaving.values()):
            problem = "the reservation of a ResourceClaim by an earlier attempt is being taken back"
        return None if problem is None else unresolvable(problem)

    @property
    def preempts_devices(self) -> bool:
        """Whether pods may be evicted for their devices."""
        return self.args.preempt_devices

    # --- where ---

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Refuse pods whose claims are missing or on their way, and those that no node can serve."""
        cycle.memo.pop(self.name, None)
        backing = cycle.state.devices.backing
        if not backing and not cycle.template.claims:
            return SKIP
        problem = missing(cycle.state, cycle.pod)
        claims = pod_claims(cycle.state, cycle.pod) if problem is None else problem
        bounded = claims if isinstance(claims, str) else bounded_claims(cycle.state, cycle.pod, claims.open)
        if isinstance(claims, str) or isinstance(bounded, str):
            return unresolvable(str(bounded))
        claims = claims._replace(open=bounded)
        backed = frozenset(name for name, amount in cycle.template.requests.amounts if amount and name in backing)
        special = cycle.state.devices.special_of(cycle.pod) if backed else None
        leftover = None if special is None or special.deleting else special
        cycle.memo[self.name] = _Plan(claims, self._fails(claims, cycle), backed, leftover)
        return None if cycle.template.claims or backed else SKIP

    def _fails(self, claims: DeviceClaims, cycle: Cycle) -> bool:
        for claim, _ in claims.allocated:
            told = readiness(claim)
            by_s = ready_by_s(claim, self.args.binding_timeout)
            if told.failure or (not told.ready and by_s is not None and by_s < cycle.now):
                return True
        return False

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows without devices for all open claims, and where the devices of a claim cannot be used."""
        plan: _Plan | None = cycle.memo.get(self.name)
        if plan is None:
            return None
        try:
            bits = self._looked(cycle, plan, rows)
            if plan.looks and self._keeps_promises(cycle.state):
                self._heed_nominated(cycle, plan, rows, bits)
            if OTHERS_MAY_LEAVE in cycle.memo:
                self._mark_held(cycle, plan, rows, bits)
        except AllocationError as error:
            return Rejections(np.ones(len(rows), dtype=np.int64), (Reason(str(error), False),), str(error))
        if plan.claims.allocated:
            bits[(bits == 0) & self._unusable(cycle.state, plan, rows)] = _ELSEWHERE
        if self.args.preempt_devices:
            self._mark_in_use(cycle, rows, bits)
        return Rejections(bits, _REASONS) if bits.any() else None

    def _looked(self, cycle: Cycle, plan: _Plan, rows: Rows, line: int = ANSWERS) -> Ints:
        """Look for devices, int64[n]: the bits of what stands against rows, or points for alternatives."""
        if plan.leftover is not None and plan.looks:
            return np.full(len(rows), _LEFTOVER if line == ANSWERS else 0, dtype=np.int64)
        if plan.claims.open and not plan.backed:
            return self._answer(cycle, plan.claims.open, rows, line)
        found: Ints = np.zeros(len(rows), dtype=np.int64)
        for special, here in self._specials(cycle, plan, rows) if plan.backed else ():
            claims = self._open(cycle, plan, special)
            if claims:
                found[here] = self._answer(cycle, claims, rows[here], line)
        return found

    def _mark_in_use(self, cycle: Cycle, rows: Rows, bits: Ints) -> None:
        """Tell where evictions could free devices, if the pod fits nowhere."""
        if not bits.all():
            return
        state, priority = cycle.state, cycle.template.priority
        for index in np.flatnonzero(bits == _NONE):
            lower = (each.pod for each in state.records_on(int(rows[index])) if each.pod.template.priority < priority)
            if any(uses_devices(state, pod) for pod in lower):
                bits[index] = _IN_USE

    def _mark_held(self, cycle: Cycle, plan: _Plan, rows: Rows, bits: Ints) -> None:
        """Tell where there would be devices if all claims gave theirs back; of many nodes only some are looked at."""
        state, classes = cycle.state, cycle.state.objects.get(DEVICE_CLASS, {})
        refused = np.flatnonzero(bits == _NONE)
        bits[refused[_MOST_EMPTIED:]] = _IN_USE
        for index in refused[:_MOST_EMPTIED]:
            row = int(rows[index])
            node, claims = state.node(row), self._claims_at(cycle, plan, row)[0]
            search = Search(node, state.devices.pools(node), claims, classes, NOTHING_IN_USE)
            if search.run(_MOST_PACKED) is not False:
                bits[index] = _IN_USE

    def _heed_nominated(self, cycle: Cycle, plan: _Plan, rows: Rows, bits: Ints) -> None:
        """Reject rows that have devices for the pod, but not for those that are nominated to them, too."""
        state = cycle.state
        crowded = [row for row in map(state.row_of, state.nominations.nodes()) if row is not None]
        for index in np.flatnonzero((bits == 0) & np.isin(rows, crowded)):
            row = int(rows[index])
            if promised := self._promised(cycle, row):
                claims = (*promised, *self._claims_at(cycle, plan, row)[0])
                bits[index] = self._answer(cycle, claims, rows[index : index + 1])[0]

    def _keeps_promises(self, state: ClusterState) -> bool:
        return self.args.preempt_devices and bool(state.nominations)

    def _promised(self, cycle: Cycle, row: int) -> tuple[ResourceClaim, ...]:
        """The claims for which pods need devices that are nominated to a row and come before this one."""
        claims: list[ResourceClaim] = []
        for pod in NominatedPods(cycle.state).pods(cycle, row):
            other = Cycle(pod, cycle.state, cycle.now)
            self.pre_filter(other)
            plan: _Plan | None = other.memo.get(self.name)
            claims += () if plan is None else self._claims_at(other, plan, row)[0]
        return tuple(claims)

    def _answer(self, cycle: Cycle, claims: tuple[ResourceClaim, ...], rows: Rows, line: int = ANSWERS) -> Ints:
        found = self._answers.get(cycle.state, claims, rows, partial(self._finish, cycle), line)
        if found is None:
            raise UnfinishedError
        return found

    def _finish(self, cycle: Cycle, search: Search) -> bool | None:
        """Run a search to its end, or as far as the attempt may go."""
        most = self.args.filter_timeout * _WORK_PER_S or float("inf")
        found = None
        while found is None:
            if _timed(search) >= most:
                self.counts.searched(search.steps, None)
                raise SearchTimeoutError(f"node {search.node.name}: timed out trying to allocate devices")
            if not cycle.spend(0):
                return None
            before, at_selectors = search.looks, search.at_selectors
            found = search.run(_SHORT)
            # The first devices are ordinary work, what selectors cost for them is not.
            cycle.spend(search.at_selectors - at_selectors if not before else search.looks - before)
        self.counts.searched(search.steps, found)
        return found

    def _specials(self, cycle: Cycle, plan: _Plan, rows: Rows) -> Iterator[tuple[SpecialClaim | None, Ints]]:
        """The special claims of rows for what their nodes do not offer themselves, and the positions of the rows."""
        names, resources = sorted(plan.backed), cycle.state.resources
        lacks: Mask = np.ones((len(names), len(rows)), dtype=np.bool_)
        for place, name in enumerate(names):
            column = resources.known(name)
            if column is not None:
                lacks[place] = resources.allocatable[column].take(rows) == 0
        for sort in np.unique(lacks, axis=1).T:
            special = self._special(cycle, [name for name, lacking in zip(names, sort, strict=True) if lacking])
            yield special, np.flatnonzero((sort == lacks.T).all(axis=1))

    def _special(self, cycle: Cycle, resources: Collection[str]) -> SpecialClaim | None:
        backing = cycle.state.devices.backing
        special = special_claim(cycle.template.asks, resources, lambda name: backing[name].name)
        return special if special.requests else None

    def _open(self, cycle: Cycle, plan: _Plan, special: SpecialClaim | None) -> tuple[ResourceClaim, ...]:
        """The claims that need devices, the special one last."""
        return plan.claims.open if special is None else (*plan.claims.open, special.claim(cycle.pod))

    def _claims_at(self, cycle: Cycle, plan: _Plan, row: int) -> tuple[tuple[ResourceClaim, ...], SpecialClaim | None]:
        """The claims that need devices on a row, and of them the special one."""
        special = None
        if plan.backed:
            ((special, _),) = self._specials(cycle, plan, np.array([row], dtype=np.intp))
        return self._open(cycle, plan, special), special

    def _unusable(self, state: ClusterState, plan: _Plan, rows: Rows) -> Mask:
        """Where claims hold devices that cannot be used, bool[len(rows)]."""
        bad: Mask = np.full(len(rows), plan.unusable, dtype=np.bool_)
        for _, allocation in plan.claims.allocated:
            if allocation.node_terms is not None:
                bad |= ~any_term(state, allocation.node_terms, rows)
        return bad

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:  # noqa: ARG002 - part of the interface
        """Leave out pods for which nothing was looked for."""
        plan: _Plan | None = cycle.memo.get(self.name)
        return None if plan is not None and plan.looks else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Prefer nodes where requests get what they named first."""
        plan: _Plan = cycle.memo[self.name]
        already = preference(plan.claims.allocated)
        if any(request.alternatives for claim in plan.claims.open for request in claim.requests):
            return self._looked(cycle, plan, rows, POINTS) + already
        return np.full(len(rows), already, dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:  # noqa: ARG002 - part of the interface
        """100 for the best."""
        highest = int(scores.max(initial=0))
        return scores if not highest else scores * _HIGHEST // highest

    def details(self, cycle: Cycle, rows: Rows) -> dict[int, tuple[Detail, ...]]:
        """What stands against devices on rows that were rejected."""
        plan: _Plan | None = cycle.memo.get(self.name)
        held, looks = Holders(cycle.state), Looks(MOST_LOOKS)
        found: dict[int, tuple[Detail, ...]] = {}
        for row in map(int, rows):
            if plan is None or looks.left <= 0:
                break
            try:
                found[row] = self._detail(cycle, plan, row, held, looks)
            except AllocationError:  # on all nodes, and the reason says what is wrong
                break
        return found

    def _detail(self, cycle: Cycle, plan: _Plan, row: int, held: Holders, looks: Looks) -> tuple[Detail, ...]:
        here = np.array([row], dtype=np.intp)
        if plan.leftover is None and self._finds_none(cycle, plan, here):
            claims = self._claims_at(cycle, plan, row)[0]
            return tuple(device_details(diagnose(cycle.state, cycle.state.node(row), claims, held, looks)))
        return tuple(
            elsewhere(claim, allocation)
            for claim, allocation in plan.claims.allocated
            if self._unusable(cycle.state, _Plan(DeviceClaims(((claim, allocation),), ()), unusable=False), here).any()
        )

    def _finds_none(self, cycle: Cycle, plan: _Plan, rows: Rows) -> bool:
        try:
            return bool(self._looked(cycle, plan, rows).any())
        except SearchTimeoutError:
            return True

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Make the claims fit what the node has, set devices free, or give up the claims."""
        cycle = Cycle(rejected.pod, rejected.state, 0.0)
        self.pre_filter(cycle)
        plan: _Plan | None = cycle.memo.get(self.name)
        claims = () if plan is None else self._claims_at(cycle, plan, rejected.row)[0]
        if claims:
            yield from device_remedies(rejected, rejected.state.node(rejected.row), claims)
        if rejected.pod.template.claims:
            yield Remedy((DropDevices(),), 7.0)

    def remedy_groups(self, state: ClusterState, rows: Rows) -> Ints:
        """Nodes whose devices differ need different remedies."""
        return device_groups(state, rows)

    # --- nowhere ---

    def post_filter(self, cycle: Cycle, runner: Runner, judgement: Judgement) -> Nomination | Status | None:
        """Deallocate a claim that stands against all nodes, if no other pod needs what it holds."""
        if judgement.refusal is not None:
            return self._not_asked(runner, judgement.refusal.plugin)
        plan: _Plan | None = cycle.memo.get(self.name)
        verdict = next((each for each in judgement.verdicts if each.plugin == self.name), None)
        if plan is None or verdict is None:
            return None
        if self.args.preempt_devices and (nomination := self._given_back(cycle, runner)) is not None:
            return nomination
        rows = verdict.rows[(verdict.rejections.bits & _ELSEWHERE) != 0]
        for claim, allocation in plan.claims.allocated if len(rows) else ():
            single = DeviceClaims(((claim, allocation),), ())
            alone = _Plan(single, self._fails(single, cycle))
            others = [consumer for consumer in claim.reserved_for if consumer.uid != cycle.pod.uid]
            if not others and claim.allocation is not None and self._unusable(cycle.state, alone, rows).any():
                return self._ended(cycle, claim, "deallocation", claimwrites.deallocate(cycle.pod, claim))
        if plan.leftover is not None:
            return self._ended(cycle, plan.leftover, "deletion", remove(cycle.pod, plan.leftover))
        return None

    def _given_back(self, cycle: Cycle, runner: Runner) -> Nomination | None:
        """The pod keeps its nomination while devices of pods that are gone are on their way back to its node."""
        state = cycle.state
        node = state.nominations.node_of(cycle.pod.uid)
        row = None if node is None else state.row_of(node)
        if row is None:
            return None
        with state.statement():
            free_abandoned(state)
            fits = runner.fits(cycle, row)
        self.pre_filter(cycle)
        return Nomination(node, (), f"preemption: {_RETURNING}") if fits else None

    def post_filter_gang(self, cycles: Sequence[Cycle], runner: Runner, needs: GangNeeds) -> GangNomination | None:
        """As for a pod: members keep their nominations while devices are on their way back to their nodes."""
        state = cycles[0].state
        nodes = {cycle.pod.uid: state.nominations.node_of(cycle.pod.uid) for cycle in cycles}
        places = {
            uid: row for uid, node in nodes.items() if node is not None and (row := state.row_of(node)) is not None
        }
        if not (self.args.preempt_devices and places):
            return None
        with state.statement():
            free_abandoned(state)
            for cycle in cycles:
                state.nominations.clear(cycle.pod.uid)
            placed = 0
            for cycle in cycles:
                row = places.get(cycle.pod.uid)
                placed += row is not None and runner.fits(cycle, row) and hold(runner, cycle, row)
            enough = needs.admits(state, placed)
        kept = {uid: state.node(row).name for uid, row in places.items()}
        return GangNomination(kept, (), f"preemption: {_RETURNING}") if enough else None

    def _ended(self, cycle: Cycle, claim: ResourceClaim, how: str, command: Command) -> Status:
        """What PostFilter says of a claim that it ends; the write is ordered once, however often the pod is tried."""
        ordered = cycle.state.devices.writes.ends(claim.key, claim.resource_version)
        commands = () if ordered else (command,)
        return Status(Code.UNSCHEDULABLE, (f"{how} of ResourceClaim completed",), commands=commands)

    def _not_asked(self, runner: Runner, refused_by: str) -> Status | None:
        """If PreFilter ended before this plugin, kube-scheduler's message says so."""
        names = [plugin.name for plugin in runner.plugins.pre_filter]
        if refused_by in names and self.name in names and names.index(refused_by) < names.index(self.name):
            return Status(Code.ERROR, ("not found",))
        return None

    # --- on the way ---

    def reserve(self, cycle: Cycle, row: int) -> Status | None:
        """Keep the devices of the chosen node from other pods."""
        plan: _Plan | None = cycle.memo.get(self.name)
        if plan is None or not plan.looks:
            return None
        claims, special = self._claims_at(cycle, plan, row)
        if special is not None:
            special = cycle.memo[_SPECIAL] = special.named(cycle.pod, cycle.state.seed, cycle.now)
            claims = self._open(cycle, plan, special)
        allocations = self._allocate(cycle, row, claims)
        if allocations is None:
            return Status(Code.ERROR, ("claim allocation not found for node",))
        taken = {claim.key: _at(each, cycle.now) for claim, each in zip(claims, allocations, strict=True)}
        cycle.state.devices.reserve(cycle.pod.uid, taken)
        self.counts.allocations += len(taken)
        return None

    def _allocate(self, cycle: Cycle, row: int, claims: tuple[ResourceClaim, ...]) -> tuple[Allocation, ...] | None:
        """What claims get on a row."""
        state, node = cycle.state, cycle.state.node(row)
        classes: Mapping[str, DeviceClass] = state.objects.get(DEVICE_CLASS, {})

        def share_id(claim: ResourceClaim, device: DeviceId, number: int) -> str:
            return name_uuid(state.seed, f"{claim.uid}/{claim.key}/{device}/{number}/{cycle.now}")

        promised = self._promised(cycle, row) if self._keeps_promises(state) else ()
        if self.args.device_order != _PACKED and not promised:
            picks = self._answers.picks(state, claims, row)
            if picks is not None:
                fit = DeviceFit(node, classes, Looks(sys.maxsize))
                return allocations_of(picks, claims, fit, node.name, share_id)
        pools, every = state.devices.pools(node), (*promised, *claims)
        if self.args.device_order == _PACKED:
            search = Search(node, packed(pools, state.devices), every, classes, state.devices)
            with suppress(AllocationError):  # of a device that comes later otherwise
                if search.run(_MOST_PACKED):
                    return search.allocations(share_id)[len(promised) :]
        search = Search(node, pools, every, classes, state.devices)
        while (found := search.run(_SHORT)) is None:
            pass  # Filter has found something here, so this ends
        return search.allocations(share_id)[len(promised) :] if found else None

    def unreserve(self, cycle: Cycle, row: int) -> tuple[Command, ...]:  # noqa: ARG002 - part of the interface
        """Take back reservations; devices that were written stay for the next attempt, which may deallocate them."""
        pod, state = cycle.pod, cycle.state
        state.devices.release(pod.uid)
        found = (state.object(RESOURCE_CLAIM, f"{pod.namespace}/{name}") for name in cycle.template.claims)
        held = (claim for claim in found if claim is not None and claim.reserved_for_uid(pod.uid))
        return tuple(claimwrites.unreserve(pod, claim) for claim in held)

    def pre_bind(self, cycle: Cycle, row: int) -> Status | Hold | None:
        """Write devices and reservation to the claims, and wait until they show them and drivers are ready."""
        special: SpecialClaim | None = cycle.memo.get(_SPECIAL)
        if not cycle.template.claims and special is None:
            return None
        problem = missing(cycle.state, cycle.pod)
        if problem is not None:
            return Status(Code.ERROR, (problem,))
        names = [f"{cycle.template.namespace}/{name}" for name in cycle.template.claims]
        commands: list[Command] = []
        if special is not None:
            names.append(special.claim(cycle.pod).key)
            if cycle.state.object(RESOURCE_CLAIM, names[-1]) is None:
                commands += (make(cycle.pod, special), tell(cycle.pod, special))
        found = (cycle.state.object(RESOURCE_CLAIM, name) for name in names)
        claims: list[ResourceClaim] = [claim for claim in found if claim is not None]
        for claim in claims:
            if claim.allocation is None or not claim.reserved_for_uid(cycle.pod.uid):
                written = self._write(cycle, claim)
                if isinstance(written, str):
                    return Status(Code.ERROR, (written,))
                commands.append(written)
        objects = tuple((RESOURCE_CLAIM, name) for name in names)
        if commands:
            # Every write is answered, by a refusal at the latest: the time that drivers have begins afterwards.
            deadline_s = cycle.now + _WRITING_S
            return Hold(deadline_s, tuple(commands), "timed out waiting for the reservation of resourceclaims", objects)
        cycle.state.devices.release(cycle.pod.uid)
        return self._await_drivers(cycle, row, claims, objects)

    def _write(self, cycle: Cycle, claim: ResourceClaim) -> Command | str:
        """What has to be written to a claim next, or why it cannot be."""
        allocation = cycle.state.devices.reservation(cycle.pod.uid).get(claim.key)
        if claim.allocation is None and allocation is None:
            allocation = cycle.state.devices.join(cycle.pod.uid, claim.key)
            if allocation is None:
                return f"claim {claim.key} got deallocated elsewhere in the meantime"
        if allocation is not None and claim.allocation is not None:
            if claim.allocation.devices != allocation.devices:
                return f"claim {claim.key} got allocated elsewhere in the meantime"
            allocation = None
        if allocation is not None and not claim.protected:
            return claimwrites.protect(cycle.pod, claim)
        return claimwrites.reserve(cycle.pod, claim, allocation)

    def _await_drivers(
        self, cycle: Cycle, row: int, claims: Iterable[ResourceClaim], objects: tuple[tuple[str, str], ...]
    ) -> Status | Hold | None:
        """Wait until all devices are ready."""
        for claim in claims:
            told = readiness(claim)
            if told.failure:
                self._waited(cycle, claims, FAILURE)
                return Status(Code.ERROR, (told.failure,))
            if not told.ready:
                by_s = ready_by_s(claim, self.args.binding_timeout)
                pod, node = cycle.pod, cycle.state.node(row).name
                event = RecordEvent(
                    PodRef(pod.namespace, pod.name, pod.uid),
                    "Normal",
                    "BindingConditionsPending",
                    "Scheduling",
                    f"waiting for binding conditions for device on node {node}",
                    cycle.template.scheduler_name,
                )
                waits_s = cycle.memo.setdefault(_WAITS, cycle.now + self.args.binding_timeout)
                deadline_s = by_s or waits_s
                if deadline_s <= cycle.now:
                    self._waited(cycle, claims, TIMEOUT)
                return Hold(deadline_s, (event,), f"device binding timeout: claim={claim.name}", objects)
        self._waited(cycle, claims, SUCCESS)
        return None

    def _waited(self, cycle: Cycle, claims: Iterable[ResourceClaim], status: str) -> None:
        """Count the wait for each driver that has to make devices ready."""
        held = (each for claim in claims if claim.allocation is not None for each in claim.allocation.devices)
        drivers = sorted({each.driver for each in held if each.binding_conditions})
        timeout_s = self.args.binding_timeout
        waited_s = cycle.now - (cycle.memo.get(_WAITS, cycle.now + timeout_s) - timeout_s)
        self.counts.waits.extend(DriverWait(driver, status, waited_s) for driver in drivers)


_at: Callable[[Allocation, float], Allocation] = copier(Allocation, "allocated_s")
"""An allocation that is made now."""


def _timed(search: Search) -> int:
    """What counts for the timeout of a search."""
    return search.looks - search.at_selectors + search.at_selectors // _SWIFT
