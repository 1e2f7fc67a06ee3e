"""The question where the members of a gang go: their roles, and the nodes of the topology with the room they have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from moorage.core.arrays import Ints, Mask, Rows
from moorage.core.columns import PODS_COLUMN
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangs import lasting
from moorage.core.gangtopology import TopologyTerms, rank_of, role_of
from moorage.core.nodeterms import one_term
from moorage.core.packing import Ground, Layer, Question, Role, RoleScope
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState, PodRecord
from moorage.core.topologytree import TopologyTree
from moorage.core.values import dataclass
from moorage.framework.cycle import Cycle
from moorage.framework.gangplans import RoomLimits
from moorage.framework.runner import Runner

RunnerOf = Callable[[Cycle], Runner]


@dataclass(slots=True)
class Party:
    """Members of one role that are alike."""

    role: str
    pods: int
    """Their class: equal numbers mean that no plugin tells them apart."""
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
    parties: tuple[Party, ...]
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
    parties = _cut(_parties(members, runner_of, lasting(state, needs.key)), terms)
    rows = tree.rows
    caps, eligible = _room(parties, runner_of, rows, limits)
    free, wanted, names = _amounts(state, parties, rows)
    column = _scarcest(parties, free, wanted, eligible, names)
    ground = Ground(
        domains=tree.domains,
        caps=caps,
        spare=free[column],
        eligible=eligible,
        standing=_standing(parties, rows, state.capacity),
        liking=_liking(state, parties, rows, limits),
        needs=wanted,
        free=free,
    )
    roles = _roles(parties, needs, terms, wanted[:, column])
    question = Question(ground, roles, _scopes(parties, terms))
    return GangQuestion(question, parties, rows, names[column])


def _parties(members: Iterable[Cycle], runner_of: RunnerOf, standing: Iterable[PodRecord]) -> tuple[Party, ...]:
    found: dict[Hashable, Party] = {}
    for cycle in members:
        role, pods = role_of(cycle.template), runner_of(cycle).alike(cycle)
        key = role, pods
        if key not in found:
            found[key] = Party(role, pods)
        found[key].cycles.append(cycle)
    by_role: dict[str, Party] = {}
    for party in found.values():
        by_role.setdefault(party.role, party)
        party.cycles.sort(key=lambda cycle: (rank_of(cycle.template) or (), cycle.pod.created_s, cycle.pod.name))
    for record in standing:
        role = role_of(record.pod.template)
        if role not in by_role:
            by_role[role] = found[role, None] = Party(role, 0)
        by_role[role].standing.append(record)
    return tuple(found.values())


def _cut(parties: tuple[Party, ...], terms: TopologyTerms) -> tuple[Party, ...]:
    """The same with members that are no whole slice, where the last one may be smaller, as a party of their own."""
    found = []
    for party in parties:
        found.append(party)
        layers = terms.layers.get(party.role, ())
        number = len(party.cycles) + len(party.standing)
        if party.role not in terms.uneven or not layers or not number % layers[0].size:
            continue
        rest = number % layers[0].size
        kept = tuple(layer for layer in layers[1:] if not rest % layer.size and layer.size < layers[0].size)
        outer = tuple(layer._replace(size=rest) for layer in layers if layer.size == layers[0].size)
        found.append(_last(party, rest, (*outer, *kept)))
    return tuple(party for party in found if party.cycles or party.standing)


def _last(party: Party, count: int, layers: tuple[Layer, ...]) -> Party:
    """The last members of a party in the order of ranks, taken out of it."""
    ranks = [*((rank_of(each.template) or (), each.pod.uid) for each in party.cycles),
             *((rank_of(each.pod.template) or (), each.pod.uid) for each in party.standing)]  # fmt: skip
    last = {uid for _, uid in sorted(ranks)[-count:]}
    cycles = [each for each in party.cycles if each.pod.uid in last]
    standing = [each for each in party.standing if each.pod.uid in last]
    party.cycles = [each for each in party.cycles if each.pod.uid not in last]
    party.standing = [each for each in party.standing if each.pod.uid not in last]
    return Party(party.role, party.pods, cycles, standing, layers)


def _room(parties: Sequence[Party], runner_of: RunnerOf, rows: Rows, limits: RoomLimits) -> tuple[Ints, Mask]:
    """How many members of each party each row can hold alone, and which rows they may use at all."""
    caps: Ints = np.zeros((len(parties), len(rows)), dtype=np.int64)
    eligible: Mask = np.zeros((len(parties), len(rows)), dtype=np.bool_)
    known: dict[int, tuple[Ints, Mask]] = {}
    places: dict[int, int] = {}
    for number, party in enumerate(parties):
        if not party.cycles:
            continue
        if party.pods not in known:
            cycle = party.cycles[0]
            runner = runner_of(cycle)
            room = runner.room(cycle, rows)
            if party.pods in limits.on_any:
                room = np.minimum(room, limits.on_any[party.pods])
            known[party.pods] = room, runner.node_mask(cycle, rows)
        caps[number], eligible[number] = known[party.pods]
        for (pods, row), most in limits.on_row.items():
            if pods == party.pods:
                places = places or {each: place for place, each in enumerate(rows.tolist())}
                caps[number, places[row]] = min(int(caps[number, places[row]]), most)
    return caps, eligible


def _amounts(state: ClusterState, parties: Sequence[Party], rows: Rows) -> tuple[Ints, Ints, list[str]]:
    """What rows have left of the resources that members request, what each takes, and the names of the resources."""
    resources = state.resources
    vectors = [dict(resources.vector(party.template.requests).pairs) for party in parties]
    columns = sorted({PODS_COLUMN, *(column for vector in vectors for column in vector)})
    free = resources.allocatable[columns][:, rows] - resources.requested[columns][:, rows]
    wanted = np.array([[vector.get(column, 0) for column in columns] for vector in vectors], dtype=np.int64)
    wanted[:, columns.index(PODS_COLUMN)] = 1
    names = resources.names
    return free, wanted, [names[column] for column in columns]


def _scarcest(parties: Sequence[Party], free: Ints, wanted: Ints, eligible: Mask, names: list[str]) -> int:
    """The resource of which the members that wait take the largest share of what is free; not the number of pods."""
    counts = np.array([len(party.cycles) for party in parties], dtype=np.int64)
    room = free.clip(0)[:, eligible.any(axis=0)]
    best, share = names.index("pods"), -1.0
    for column in sorted(range(len(names)), key=lambda each: names[each]):
        need, there = int(counts @ wanted[:, column]), sum(room[column].tolist())
        if need and names[column] != "pods" and (found := need / there if there else 1e9) > share:
            best, share = column, found
    return best


def _standing(parties: Sequence[Party], rows: Rows, capacity: int) -> Ints:
    found: Ints = np.zeros((len(parties), len(rows)), dtype=np.int64)
    for number, party in enumerate(parties):
        if party.standing:
            at = [record.row for record in party.standing if record.row >= 0]
            found[number] = np.bincount(at, minlength=capacity)[rows]
    return found


def _liking(state: ClusterState, parties: Sequence[Party], rows: Rows, limits: RoomLimits) -> Ints:
    found: Ints = np.zeros((len(parties), len(rows)), dtype=np.int64)
    if limits.prices:
        found += np.array([limits.prices.get(row, 0) for row in rows.tolist()], dtype=np.int64)
    for number, party in enumerate(parties):
        affinity = party.template.node_affinity
        for preferred in () if affinity is None or not party.cycles else affinity.preferred:
            found[number] += one_term(state, preferred.term, rows) * preferred.weight
    return found


def _roles(parties: Sequence[Party], needs: GangNeeds, terms: TopologyTerms, amounts: Ints) -> tuple[Role, ...]:
    return tuple(
        Role(len(party.cycles), _least(party, parties, needs, terms), _layers(party, terms.layers), int(amount))
        for party, amount in zip(parties, amounts, strict=True)
    )


def _layers(party: Party, layers: Mapping[str, tuple[Layer, ...]]) -> tuple[Layer, ...]:
    found = layers.get(party.role, ()) if party.layers is None else party.layers
    return found if party.cycles else ()


def _least(party: Party, parties: Sequence[Party], needs: GangNeeds, terms: TopologyTerms) -> int:
    """How many of the waiting members of a party must find a node, whichever of the others do not."""
    more = sum(len(each.cycles) for each in parties) - needs.members
    if party.role in terms.least:
        alike = [each for each in parties if each.role == party.role]
        more = sum(len(each.cycles) + len(each.standing) for each in alike) - terms.least[party.role]
    return max(len(party.cycles) - max(more, 0), 0)


def _scopes(parties: Sequence[Party], terms: TopologyTerms) -> tuple[RoleScope, ...]:
    found = []
    for scope in terms.scopes:
        roles = tuple(number for number, party in enumerate(parties) if party.role in scope.subgroups)
        if roles:
            found.append(RoleScope(roles, scope.required))
    named = {role for scope in found for role in scope.roles}
    sliced = dict.fromkeys(party.role for party in parties if terms.layers.get(party.role))
    for name in sliced:  # slices without a level for all of them: in few domains, too
        roles = tuple(number for number, party in enumerate(parties) if party.role == name and number not in named)
        if roles:
            found.append(RoleScope(roles))
    return tuple(found)
