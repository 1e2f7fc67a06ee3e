"""The question where the members of a gang go: their roles, and the nodes of the topology with the room they have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.columns import PODS_COLUMN
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangs import lasting
from moorage.core.gangtopology import TopologyTerms, rank_of, role_of
from moorage.core.nodeterms import one_term
from moorage.core.packing import Layer, Offers, Question, Role, RoleScope
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState, PodRecord
from moorage.core.topologytree import TopologyTree
from moorage.core.values import dataclass
from moorage.framework.cycle import Cycle
from moorage.framework.gangplans import RoomLimits
from moorage.framework.runner import Runner

RunnerOf = Callable[[Cycle], Runner]


@dataclass(slots=True)
class AlikeMembers:
    """Members of one role that are alike."""

    role: str
    sort: Hashable
    """As of `sort_of`."""
    cycles: list[Cycle] = field(default_factory=list)
    """Those that wait, in the order of their ranks."""
    standing: list[PodRecord] = field(default_factory=list)
    layers: tuple[Layer, ...] | None = None
    """Its slices, where they are not those of its role."""

    @property
    def template(self) -> PodTemplate:
        """The template of one of them."""
        return self.cycles[0].template if self.cycles else self.standing[0].pod.template


@dataclass(frozen=True, slots=True)
class GangQuestion:
    """A gang on the nodes of a topology."""

    question: Question
    groups: tuple[AlikeMembers, ...]
    rows: Rows
    """The rows of the nodes that the question is about."""
    resource: str
    """The scarcest of the requested resources."""


def gang_question(
    members: Sequence[Cycle],
    runner_of: RunnerOf,
    needs: GangNeeds,
    terms: TopologyTerms,
    tree: TopologyTree,
    limits: RoomLimits,
) -> GangQuestion:
    """The question for the members that wait, beside those that stand."""
    state = members[0].state
    groups = _cut(_groups(members, runner_of, lasting(state, needs.key)), terms)
    rows = tree.rows
    caps, eligible = _room(groups, runner_of, rows, limits)
    free, wanted, names = _amounts(state, groups, rows)
    column = _scarcest(groups, free, wanted, eligible, names)
    offers = Offers(
        domains=tree.domains,
        caps=caps,
        spare=free[column],
        eligible=eligible,
        standing=_standing(groups, rows, state.capacity),
        liking=_liking(state, groups, rows, limits),
        needs=wanted,
        free=free,
    )
    roles = _roles(groups, needs, terms, wanted[:, column])
    question = Question(offers, roles, _scopes(groups, terms))
    return GangQuestion(question, groups, rows, names[column])


def _groups(members: Iterable[Cycle], runner_of: RunnerOf, standing: Iterable[PodRecord]) -> tuple[AlikeMembers, ...]:
    found: dict[Hashable, AlikeMembers] = {}
    for cycle in members:
        role, sort = role_of(cycle.template), sort_of(cycle, runner_of(cycle))
        key = role, sort
        if key not in found:
            found[key] = AlikeMembers(role, sort)
        found[key].cycles.append(cycle)
    by_role: dict[str, AlikeMembers] = {}
    for group in found.values():
        by_role.setdefault(group.role, group)
        group.cycles.sort(key=lambda cycle: (rank_of(cycle.template) or (), cycle.pod.created_s, cycle.pod.name))
    for record in standing:
        role = role_of(record.pod.template)
        if role not in by_role:
            by_role[role] = found[role, None] = AlikeMembers(role, None)
        by_role[role].standing.append(record)
    return tuple(found.values())


def _cut(groups: tuple[AlikeMembers, ...], terms: TopologyTerms) -> tuple[AlikeMembers, ...]:
    """The same with members that are no whole slice, where the last one may be smaller, as a group of their own."""
    found = []
    for group in groups:
        found.append(group)
        layers = terms.layers.get(group.role, ())
        number = len(group.cycles) + len(group.standing)
        if group.role not in terms.uneven or not layers or not number % layers[0].size:
            continue
        rest = number % layers[0].size
        kept = tuple(layer for layer in layers[1:] if not rest % layer.size and layer.size < layers[0].size)
        outer = tuple(layer._replace(size=rest) for layer in layers if layer.size == layers[0].size)
        found.append(_last(group, rest, (*outer, *kept)))
    return tuple(group for group in found if group.cycles or group.standing)


def _last(group: AlikeMembers, count: int, layers: tuple[Layer, ...]) -> AlikeMembers:
    """The last members of a group in the order of ranks, taken out of it."""
    ranks = [*((rank_of(each.template) or (), each.pod.uid) for each in group.cycles),
             *((rank_of(each.pod.template) or (), each.pod.uid) for each in group.standing)]  # fmt: skip
    last = {uid for _, uid in sorted(ranks)[-count:]}
    cycles = [each for each in group.cycles if each.pod.uid in last]
    standing = [each for each in group.standing if each.pod.uid in last]
    group.cycles = [each for each in group.cycles if each.pod.uid not in last]
    group.standing = [each for each in group.standing if each.pod.uid not in last]
    return AlikeMembers(group.role, group.sort, cycles, standing, layers)


def sort_of(cycle: Cycle, runner: Runner) -> Hashable:
    """Equal for members that take the same room: those of one class whose claims ask for the same devices."""
    state, template = cycle.state, cycle.template
    claims = (state.object(RESOURCE_CLAIM, f"{template.namespace}/{name}") for name in template.claims)
    return runner.alike(cycle), tuple([(each.requests, each.constraints) for each in claims if each is not None])


def _room(groups: Sequence[AlikeMembers], runner_of: RunnerOf, rows: Rows, limits: RoomLimits) -> tuple[Ints, Mask]:
    """How many members of each group each row can hold alone, and which rows they may use at all."""
    caps: Ints = np.zeros((len(groups), len(rows)), dtype=np.int64)
    eligible: Mask = np.zeros((len(groups), len(rows)), dtype=np.bool_)
    known: dict[Hashable, tuple[Ints, Mask]] = {}
    for number, group in enumerate(groups):
        if not group.cycles:
            continue
        if group.sort not in known:
            cycle = group.cycles[0]
            runner = runner_of(cycle)
            room = limits.limited(group.sort, rows, runner.room(cycle, rows))
            known[group.sort] = room, runner.node_mask(cycle, rows)
        caps[number], eligible[number] = known[group.sort]
    return caps, eligible


def _amounts(state: ClusterState, groups: Sequence[AlikeMembers], rows: Rows) -> tuple[Ints, Ints, list[str]]:
    """What rows have left of the resources that members request, what each takes, and the names of the resources."""
    resources = state.resources
    vectors = [dict(resources.vector(group.template.requests).pairs) for group in groups]
    columns = sorted({PODS_COLUMN, *(column for vector in vectors for column in vector)})
    free = resources.allocatable[columns][:, rows] - resources.requested[columns][:, rows]
    wanted = np.array([[vector.get(column, 0) for column in columns] for vector in vectors], dtype=np.int64)
    wanted[:, columns.index(PODS_COLUMN)] = 1
    names = resources.names
    return free, wanted, [names[column] for column in columns]


def _scarcest(groups: Sequence[AlikeMembers], free: Ints, wanted: Ints, eligible: Mask, names: list[str]) -> int:
    """The resource of which the members that wait take the largest share of what is free; not the number of pods."""
    counts = np.array([len(group.cycles) for group in groups], dtype=np.int64)
    room = free.clip(0)[:, eligible.any(axis=0)]
    best, share = names.index("pods"), -1.0
    for column in sorted(range(len(names)), key=lambda each: names[each]):
        need, there = int(counts @ wanted[:, column]), sum(room[column].tolist())
        if need and names[column] != "pods" and (found := need / there if there else 1e9) > share:
            best, share = column, found
    return best


def _standing(groups: Sequence[AlikeMembers], rows: Rows, capacity: int) -> Ints:
    found: Ints = np.zeros((len(groups), len(rows)), dtype=np.int64)
    for number, group in enumerate(groups):
        if group.standing:
            at = [record.row for record in group.standing if record.row >= 0]
            found[number] = np.bincount(at, minlength=capacity)[rows]
    return found


def _liking(state: ClusterState, groups: Sequence[AlikeMembers], rows: Rows, limits: RoomLimits) -> Ints:
    found: Ints = np.zeros((len(groups), len(rows)), dtype=np.int64)
    if limits.prices:
        found += np.array([limits.prices.get(row, 0) for row in rows.tolist()], dtype=np.int64)
    for number, group in enumerate(groups):
        affinity = group.template.node_affinity
        for preferred in () if affinity is None or not group.cycles else affinity.preferred:
            found[number] += one_term(state, preferred.term, rows) * preferred.weight
    return found


def _roles(groups: Sequence[AlikeMembers], needs: GangNeeds, terms: TopologyTerms, amounts: Ints) -> tuple[Role, ...]:
    return tuple(
        Role(len(group.cycles), _least(group, groups, needs, terms), _layers(group, terms.layers), int(amount))
        for group, amount in zip(groups, amounts, strict=True)
    )


def _layers(group: AlikeMembers, layers: Mapping[str, tuple[Layer, ...]]) -> tuple[Layer, ...]:
    found = layers.get(group.role, ()) if group.layers is None else group.layers
    return found if group.cycles else ()


def _least(group: AlikeMembers, groups: Sequence[AlikeMembers], needs: GangNeeds, terms: TopologyTerms) -> int:
    """How many of the waiting members of a group must find a node, whichever of the others do not."""
    more = sum(len(each.cycles) for each in groups) - needs.members
    if group.role in terms.least:
        alike = [each for each in groups if each.role == group.role]
        more = sum(len(each.cycles) + len(each.standing) for each in alike) - terms.least[group.role]
    return max(len(group.cycles) - max(more, 0), 0)


def _scopes(groups: Sequence[AlikeMembers], terms: TopologyTerms) -> tuple[RoleScope, ...]:
    found = []
    for scope in terms.scopes:
        roles = tuple(number for number, group in enumerate(groups) if group.role in scope.subgroups)
        if roles:
            found.append(RoleScope(roles, scope.required))
    named = {role for scope in found for role in scope.roles}
    sliced = dict.fromkeys(group.role for group in groups if terms.layers.get(group.role))
    for name in sliced:  # slices without a level for all of them: in few domains, too
        roles = tuple(number for number, group in enumerate(groups) if group.role == name and number not in named)
        if roles:
            found.append(RoleScope(roles))
    return tuple(found)
