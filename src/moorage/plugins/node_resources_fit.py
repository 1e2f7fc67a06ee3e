"""NodeResourcesFit: a node must have room for what the pod requests; emptier or fuller nodes score better.

Filter compares real requests. Score counts cpu and memory with kube-scheduler's defaults for containers that request
nothing, and every other resource as requested. A resource that the node does not have does not count for that node; a
scalar resource that the pod does not request does not count at all.

Percentages are integers, rounded down. The vector path divides in floating point where that provably gives the same
integer (amounts up to `_EXACT_WHOLE`, 81 TiB), since it is ten times faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from moorage.core.amountplans import DivisorColumns, RequestPlans
from moorage.core.arrays import Floats, Ints, Mask, Rows
from moorage.core.columns import CPU_COLUMN, EPHEMERAL_COLUMN, MEMORY_COLUMN, PODS_COLUMN, ResourceColumns
from moorage.core.edits import LowerRequest
from moorage.core.labelnames import is_qualified_name
from moorage.core.limits import AMOUNT
from moorage.core.pods import PodTemplate
from moorage.core.resourcenames import is_extended_resource, is_scalar_resource
from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Requests
from moorage.core.state import ClusterState
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy, lowering_cost
from moorage.framework.shapes import HIGHEST, rising, score_table
from moorage.framework.status import MAX_REASONS, Reason, Rejections

_MAX_SCORE = 100
_NO_BITS: frozenset[int] = frozenset()
_EXACT_WHOLE = 2**53 // _MAX_SCORE
_NAMED_RESOURCES = (MAX_REASONS - 1) // 2 - 1
"""Resources beyond these share one pair of reasons."""


class ScoringType(StrEnum):
    """How utilization becomes a score."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ResourceWeight(PluginArgs):
    """A resource that counts for the score; a weight of 0 stands for 1."""

    name: str
    weight: Annotated[int, Field(ge=0, le=100)] = 1


class ShapePoint(PluginArgs):
    """A point of the scoring function: at this utilization in percent, this score out of 10."""

    utilization: Annotated[int, Field(ge=0, le=100)]
    score: Annotated[int, Field(ge=0, le=HIGHEST)]


class RequestedToCapacityRatio(PluginArgs):
    """The scoring function, linear between its points and constant outside."""

    shape: Annotated[tuple[ShapePoint, ...], Field(strict=False, min_length=1)]

    _checked = field_validator("shape")(rising)


_DEFAULT_RESOURCES = (ResourceWeight(name=CPU), ResourceWeight(name=MEMORY))


class ScoringStrategy(PluginArgs):
    """Which resources count for the score, and how. No resources means cpu and memory."""

    type: Annotated[ScoringType, Field(strict=False)] = ScoringType.LEAST_ALLOCATED
    resources: Annotated[tuple[ResourceWeight, ...], Field(strict=False)] = _DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    @model_validator(mode="after")
    def _ratio_fits_type(self) -> Self:
        has_ratio = self.requested_to_capacity_ratio is not None
        if has_ratio != (self.type is ScoringType.REQUESTED_TO_CAPACITY_RATIO):
            remedy = "remove requestedToCapacityRatio" if has_ratio else "add requestedToCapacityRatio with a shape"
            raise ValueError(f"type is {self.type}; {remedy}")
        return self


class NodeResourcesFitArgs(PluginArgs):
    """Extended resources that Filter ignores (by name, or by group, the part before the slash), and the scoring."""

    ignored_resources: Annotated[tuple[str, ...], Field(strict=False)] = ()
    ignored_resource_groups: Annotated[tuple[str, ...], Field(strict=False)] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()

    @field_validator("ignored_resources")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        bad = [name for name in names if not is_qualified_name(name)]
        if bad:
            raise ValueError(f"{', '.join(map(repr, bad))}: write resource names such as example.com/gpu")
        return names

    @field_validator("ignored_resource_groups")
    @classmethod
    def _groups(cls, groups: tuple[str, ...]) -> tuple[str, ...]:
        bad = [group for group in groups if "/" in group or not is_qualified_name(group)]
        if bad:
            raise ValueError(f"{', '.join(map(repr, bad))}: write resource groups without a slash, such as example.com")
        return groups


class _Check(NamedTuple):
    """One comparison of Filter; both reasons are the same where evictions can always help (`pods`)."""

    column: int | None
    """None while no node and no pod has named the resource."""
    amount: int
    short_bit: int
    hopeless_bit: int


class _Part(NamedTuple):
    """One resource of Score; `assumed` is its row in `score_requested`, -1 where real requests count."""

    column: int
    assumed: int
    amount: int
    weight: int


class _Plan(NamedTuple):
    """What one set of requests means on one state's columns."""

    checks: tuple[_Check, ...]
    names: tuple[str, ...]
    """The resources of `checks`, in their order, without `pods`."""
    parts: tuple[_Part, ...]

    @property
    def reasons(self) -> list[Reason]:
        """The reasons that the bits of `checks` stand for."""
        reasons = [Reason("Too many pods")]
        shared = ", ".join(self.names[_NAMED_RESOURCES:])
        for number, name in enumerate(self.names[: _NAMED_RESOURCES + 1]):
            text = f"Insufficient {shared if number == _NAMED_RESOURCES else name}"
            reasons += (Reason(text), Reason(text, resolvable=False))
        return reasons


class NodeResourcesFit(Plugin):
    """Room for the pod's requests, and how full the node is with the pod on it."""

    name: ClassVar[str] = "NodeResourcesFit"
    Args: ClassVar[type[PluginArgs]] = NodeResourcesFitArgs
    reads: ClassVar[Reads] = Reads.AMOUNTS
    wakes: ClassVar[What] = What.NODE_ADDED | What.NODE_ALLOCATABLE | What.POD_REMOVED | What.POD_UPDATED | What.SELF

    def __init__(self, args: NodeResourcesFitArgs | None = None) -> None:
        self.args: NodeResourcesFitArgs = args or NodeResourcesFitArgs()
        strategy = self.args.scoring_strategy
        self._least = strategy.type is ScoringType.LEAST_ALLOCATED
        self._weights = tuple((r.name, r.weight or 1) for r in strategy.resources or _DEFAULT_RESOURCES)
        self._ratio_scores = _ratio_scores(strategy)
        self._ratio_list: list[int] = [] if self._ratio_scores is None else self._ratio_scores.tolist()
        self._ignored = frozenset(self.args.ignored_resources)
        self._ignored_groups = frozenset(self.args.ignored_resource_groups)
        self._may_be_backed: frozenset[str] = frozenset()
        """Resources that classes of devices backed when a pod was last judged."""
        self._plans = RequestPlans(self._make_plan)
        self._divisors = DivisorColumns()

    def sign(self, template: PodTemplate) -> Requests:
        """The requests, nothing else."""
        return template.requests

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A node helps if the pod fits on it while it is empty; a pod if it leaves, or needs less than before."""
        node = change.node
        if change.before is not None and change.pod is not None and change.what == What.POD_UPDATED:
            return any(change.pod.requests.get(name) < amount for name, amount in change.before.requests.amounts)
        if node is None:
            return True
        wanted = ((PODS, 1), *self._checked(template.requests))
        return all(
            amount <= node.allocatable.get(name, 0 if name not in self._may_be_backed else amount)
            for name, amount in wanted
        )

    # --- Filter ---

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows where any request exceeds what is left; unresolvable where it exceeds what is allocatable."""
        state = cycle.state
        resources = state.resources
        plan = self._plans.get(resources, cycle.template.requests)
        bits: Ints | None = None
        backed = self._backed(state, plan)
        for column, amount, short_bit, hopeless_bit in plan.checks:
            if column is None:
                if short_bit in backed:
                    continue
                found = np.full(len(rows), hopeless_bit, dtype=np.int64)
            else:
                offered = state.pick(resources.allocatable[column], rows)
                free = np.subtract(offered, state.pick(resources.requested[column], rows))
                if not len(rows) or free.item(free.argmin()) >= amount:
                    continue
                short: Mask = np.less(free, amount)
                if short_bit in backed:
                    short &= offered > 0
                    if not short.any():
                        continue
                hopeless: Mask = np.less(offered, amount)
                if short_bit in backed:
                    hopeless &= short
                kind = np.add(short.view(np.uint8), hopeless.view(np.uint8))
                found = np.array((0, short_bit, hopeless_bit), dtype=np.int64).take(kind)
            bits = found if bits is None else np.bitwise_or(bits, found, out=bits)
        return None if bits is None else Rejections(bits, plan.reasons)

    def filter_row(self, cycle: Cycle, row: int) -> bool:
        """Whether one row has room."""
        resources = cycle.state.resources
        allocatable, requested = resources.allocatable.item, resources.requested.item
        plan = self._plans.get(resources, cycle.template.requests)
        backed = self._backed(cycle.state, plan) if cycle.state.devices.backing else _NO_BITS
        for column, amount, bit, _ in plan.checks:
            if column is None or allocatable(column, row) - requested(column, row) < amount:
                if bit in backed and (column is None or not allocatable(column, row)):
                    continue
                return False
        return True

    def epoch(self, state: ClusterState) -> int:
        """Which classes of devices back which resources."""
        return state.devices.backing_version

    def _backed(self, state: ClusterState, plan: _Plan) -> frozenset[int]:
        """The bits of resources that are served from claims where a node does not offer them itself."""
        backing = state.devices.backing
        if not backing:
            return _NO_BITS
        self._may_be_backed = frozenset(backing)
        named = zip(plan.names, plan.checks[1:], strict=True)
        return frozenset(check.short_bit for name, check in named if name in backing)

    def slack(self, cycle: Cycle, rows: Rows) -> list[tuple[int, Ints]]:
        """How much more of each wanted resource the rows can hold beside the pod; negative where it does not fit."""
        state = cycle.state
        resources = state.resources
        found = []
        plan = self._plans.get(resources, cycle.template.requests)
        backed = self._backed(state, plan)
        for column, amount, bit, _ in plan.checks:
            if column is None:
                if bit not in backed:
                    found.append((PODS_COLUMN, np.full(len(rows), -1, dtype=np.int64)))
            else:
                offered = state.pick(resources.allocatable[column], rows)
                free: Ints = offered - state.pick(resources.requested[column], rows) - amount
                found.append((column, np.where(offered == 0, AMOUNT, free) if bit in backed else free))
        return found

    # --- Score ---

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Lower every request that is too large for the row."""
        edits: list[LowerRequest] = []
        cost = 0.0
        resources, row = rejected.state.resources, rejected.row
        if resources.allocatable[PODS_COLUMN, row] <= resources.requested[PODS_COLUMN, row]:
            return
        for name, amount in rejected.pod.template.requests.amounts:
            column = resources.known(name)
            free = 0 if column is None else int(resources.allocatable[column, row] - resources.requested[column, row])
            if free < amount:
                edits.append(LowerRequest(name, max(0, free)))
                cost += lowering_cost(amount, max(0, free))
        if edits:
            yield Remedy(tuple(edits), cost)

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The weighted mean over the resources, 0..100."""
        state = cycle.state
        parts = self._plans.get(state.resources, cycle.template.requests).parts
        if self._ratio_scores is not None:
            return self._score_ratio(state, parts, rows, self._ratio_scores)
        total: Ints | None = None
        everywhere = True
        for part in parts:
            percent = self._percents(state, part, rows)
            if part.weight != 1:
                percent *= part.weight
            total = percent if total is None else np.add(total, percent, out=total)
            everywhere = everywhere and self._divisors.get(state, part.column).everywhere
        if total is None:
            return np.zeros(len(rows), dtype=np.int64)
        if everywhere:
            return _divide(total, sum(part.weight for part in parts))
        weights = np.zeros(len(rows), dtype=np.int64)
        for part in parts:
            weights += part.weight * (state.pick(state.resources.allocatable[part.column], rows) > 0)
        return np.floor_divide(total, np.maximum(weights, 1, out=weights), out=total)

    def score_row(self, cycle: Cycle, row: int) -> int:
        """The score of one row."""
        resources = cycle.state.resources
        allocatable, requested = resources.allocatable.item, resources.requested.item
        assumed = resources.score_requested.item
        total = weights = 0
        for column, assumed_row, amount, weight in self._plans.get(resources, cycle.template.requests).parts:
            whole = allocatable(column, row)
            if not whole:
                continue
            used = amount + (requested(column, row) if assumed_row < 0 else assumed(assumed_row, row))
            used = min(used, whole)
            if self._least:
                used = whole - used
            percent = used * _MAX_SCORE // whole
            if self._ratio_list:
                percent = self._ratio_list[percent]
                if not percent:
                    continue
            total += percent * weight
            weights += weight
        if not weights:
            return 0
        return (2 * total + weights) // (2 * weights) if self._ratio_list else total // weights

    def _score_ratio(self, state: ClusterState, parts: tuple[_Part, ...], rows: Rows, scores: Ints) -> Ints:
        """The weighted mean of the scoring function, to the nearest integer; what scores 0 does not count."""
        total: Ints = np.zeros(len(rows), dtype=np.int64)
        weights: Ints = np.zeros(len(rows), dtype=np.int64)
        for part in parts:
            found = scores.take(self._percents(state, part, rows))
            if not self._divisors.get(state, part.column).everywhere:
                found *= state.pick(state.resources.allocatable[part.column], rows) > 0
            total += found * part.weight
            weights += (found > 0) * part.weight
        nearest: Ints = (2 * total + weights) // np.maximum(2 * weights, 1)
        return nearest

    def _percents(self, state: ClusterState, part: _Part, rows: Rows) -> Ints:
        """What is left (LeastAllocated) or used, in percent of the row's allocatable; meaningless where that is 0."""
        resources = state.resources
        offered = state.pick(resources.allocatable[part.column], rows)
        column = resources.requested[part.column] if part.assumed < 0 else resources.score_requested[part.assumed]
        amount: Ints = np.add(state.pick(column, rows), part.amount)
        if self._least:
            np.subtract(offered, amount, out=amount)
            np.maximum(amount, 0, out=amount)
        else:
            np.minimum(amount, offered, out=amount)
        divisor = self._divisors.get(state, part.column)
        amount *= _MAX_SCORE
        if divisor.largest > _EXACT_WHOLE:
            exact: Ints = np.floor_divide(amount, np.maximum(offered, 1))
            return exact
        percent: Floats = np.divide(amount, state.pick(divisor.amounts, rows))
        return percent.astype(np.int64)

    # --- what is kept between decisions ---

    def _make_plan(self, resources: ResourceColumns, requests: Requests) -> _Plan:
        checks = [_Check(PODS_COLUMN, 1, 1, 1)]
        checked = self._checked(requests)
        for number, (name, amount) in enumerate(checked):
            bit = 1 + 2 * min(number, _NAMED_RESOURCES)
            checks.append(_Check(resources.known(name), amount, 1 << bit, 1 << bit + 1))
        names = tuple(name for name, _ in checked)
        return _Plan(tuple(checks), names, tuple(self._parts(resources, requests)))

    def _checked(self, requests: Requests) -> list[tuple[str, int]]:
        """The requests that Filter compares: cpu, memory and ephemeral storage first, as kube-scheduler lists them."""
        amounts = dict(requests.amounts)
        core = [(name, amounts[name]) for name in (CPU, MEMORY, EPHEMERAL_STORAGE) if amounts.get(name, 0) > 0]
        return core + [
            (name, amount)
            for name, amount in requests.amounts
            if amount > 0 and is_scalar_resource(name) and not self._ignores(name)
        ]

    def _ignores(self, name: str) -> bool:
        if not is_extended_resource(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def _parts(self, resources: ResourceColumns, requests: Requests) -> list[_Part]:
        requests = requests.newcomer or requests
        parts = []
        for name, weight in self._weights:
            column = resources.known(name)
            if name == CPU:
                parts.append(_Part(CPU_COLUMN, 0, requests.score_cpu_milli, weight))
            elif name == MEMORY:
                parts.append(_Part(MEMORY_COLUMN, 1, requests.score_memory_bytes, weight))
            elif name == EPHEMERAL_STORAGE:
                parts.append(_Part(EPHEMERAL_COLUMN, -1, requests.get(name), weight))
            elif column is not None and is_scalar_resource(name) and requests.get(name):
                parts.append(_Part(column, -1, requests.get(name), weight))
        return parts


def _divide(total: Ints, by: int) -> Ints:
    """Integer division in place; powers of two are shifted, which is five times as fast."""
    if by & (by - 1):
        return np.floor_divide(total, by, out=total)
    return np.right_shift(total, by.bit_length() - 1, out=total)


def _ratio_scores(strategy: ScoringStrategy) -> Ints | None:
    """The scoring function at every whole percent, int64[101] in 0..100; None for the other strategies."""
    if strategy.requested_to_capacity_ratio is None:
        return None
    return score_table(strategy.requested_to_capacity_ratio.shape)
