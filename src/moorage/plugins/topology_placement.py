"""TopologyPlacement: the members of a gang go where the levels of a topology want them.

The engine asks for a plan before it places the first member (`engine.trial`). The plan is the best one where that is
cheap to find (`core.packsearch`); members go to domains in the order of their ranks, so that neighbours in rank are
neighbours in the network. Gangs that say nothing about levels or sub-groups cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from moorage.core.arrays import Rows
from moorage.core.gangneeds import GangNeeds
from moorage.core.gangs import lasting
from moorage.core.gangtopology import TopologyMistake, TopologyTerms, asks_anything, rank_of, role_of, topology_terms
from moorage.core.packbalanced import pack_balanced
from moorage.core.packing import Packing, Question, held
from moorage.core.packsearch import pack
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState
from moorage.core.topology import LEVEL_KINDS, has_levels, known_levels
from moorage.core.topologyasks import Objective
from moorage.core.topologytree import TopologyTree
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.gangplans import TOPOLOGY_PLACEMENT, GangPlan, RoomLimits
from moorage.framework.gangquestions import GangQuestion, gang_question
from moorage.framework.gangranks import rows_in_order
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.runner import Runner
from moorage.framework.status import Status, unresolvable, unschedulable

_LONGEST_S = 86_400


class TopologyPlacementArgs(PluginArgs):
    """How long a gang that lost members waits for room in its domain."""

    replace_after_seconds: Annotated[float, Field(ge=0, le=_LONGEST_S)] = 300.0
    """After this time it is placed anew as a whole, if that is known to fit: the members that run are released."""


class TopologyPlacement(Plugin):
    """Plans gangs by the levels of a topology."""

    name: ClassVar[str] = TOPOLOGY_PLACEMENT
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = (
        What.NODE_ADDED | What.NODE_ALLOCATABLE | What.NODE_LABELS | What.NODE_TAINTS | What.POD_REMOVED | What.OBJECT
    )
    kinds: ClassVar[frozenset[str]] = LEVEL_KINDS

    Args: ClassVar[type[PluginArgs]] = TopologyPlacementArgs

    def __init__(self, args: TopologyPlacementArgs | None = None) -> None:
        self.args: TopologyPlacementArgs = args or TopologyPlacementArgs()

    @property
    def replace_after_seconds(self) -> float:
        """How long lost members wait before the gang is placed anew."""
        return self.args.replace_after_seconds

    def concerns_gang(self, state: ClusterState, needs: GangNeeds, templates: Collection[PodTemplate]) -> bool:
        """Gangs that ask for levels; and all gangs where there are levels, for the order of their ranks."""
        return has_levels(state) or asks_anything(needs.terms.group, templates) or bool(lasting(state, needs.key))

    def plan_gang(
        self, members: Sequence[Cycle], runner_of: Callable[[Cycle], Runner], needs: GangNeeds, limits: RoomLimits
    ) -> GangPlan | Status | None:
        """The nodes of the members, or why there are none for them."""
        state = members[0].state
        terms = terms_for(state, members, needs)
        if terms is None:
            return None
        if isinstance(terms, TopologyMistake):
            return unresolvable(terms.message)
        tree = state.topologies.tree(state, terms.levels)
        found = None
        for eased in terms.eased():
            asked = gang_question(members, runner_of, needs, eased, tree, limits)
            found = _packed(asked, eased, needs)
            if found is not None:
                break
        if found is None:
            return unschedulable(_why(asked, eased, state))
        rows = dict[str, int]()
        for number, group in enumerate(asked.groups):
            rows.update(rows_in_order(asked, group, found.counts[number], number))
        return GangPlan(rows, terms.levels.keys, found.value, found.bound)

    def order_gang(self, placed: Sequence[Cycle], rows: Sequence[int]) -> Mapping[str, int] | None:
        """Where all nodes are in one topology, equal members go to nodes in the order of ranks."""
        state = placed[0].state
        known = set(known_levels(state).values()) if has_levels(state) else ()
        if len(known) != 1:
            return None
        tree = state.topologies.tree(state, next(iter(known)))
        places = {row: place for place, row in enumerate(tree.rows.tolist())}
        alike: dict[Hashable, list[int]] = {}
        for number, cycle in enumerate(placed):
            if rank_of(cycle.template) is None or rows[number] not in places:
                return None
            alike.setdefault((role_of(cycle.template), cycle.template.requests), []).append(number)
        found: dict[str, int] = {}
        for numbers in alike.values():
            by_path = sorted((rows[number] for number in numbers), key=lambda row: places[row])
            by_rank = sorted(numbers, key=lambda number: (rank_of(placed[number].template), placed[number].pod.name))
            found.update((placed[n].pod.uid, row) for n, row in zip(by_rank, by_path, strict=True))
        return None if all(found[c.pod.uid] == row for c, row in zip(placed, rows, strict=True)) else found

    def gang_domains(self, members: Sequence[Cycle], needs: GangNeeds) -> Sequence[Rows] | None:
        """The domains of the level that the whole gang must stay inside; all nodes if it may be spread."""
        state = members[0].state
        terms = terms_for(state, members, needs)
        if terms is None or isinstance(terms, TopologyMistake):
            return None if terms is None else ()
        tree = state.topologies.tree(state, terms.levels)
        roles = {role_of(cycle.template) for cycle in members}
        widest = [scope for scope in terms.scopes if roles <= scope.subgroups]
        level = max((each for scope in widest if (each := scope.required) is not None), default=None)
        if level is None:
            return (tree.rows,)
        standing = {record.row for record in lasting(state, needs.key)}
        domains = _row_sets(tree, level)
        theirs = [rows for rows in domains if standing & set(rows.tolist())]
        return theirs or domains

    def gang_places(self, members: Sequence[Cycle], needs: GangNeeds) -> Mapping[str, Sequence[Rows]]:
        """The domains of the narrowest level at which a role, or a slice of it, has to stay together."""
        state = members[0].state
        terms = terms_for(state, members, needs)
        if terms is None or isinstance(terms, TopologyMistake):
            return {}
        tree, found = state.topologies.tree(state, terms.levels), dict[str, Sequence[Rows]]()
        for role in {role_of(cycle.template) for cycle in members}:
            levels = [each.required for each in terms.scopes if role in each.subgroups and each.required is not None]
            levels += [layer.level for layer in terms.layers.get(role, ())]
            found[role] = _row_sets(tree, max(levels)) if levels else (tree.rows,)
        return found


def _row_sets(tree: TopologyTree, level: int) -> list[Rows]:
    """The rows of each domain of a level."""
    return [tree.rows[tree.domains[level] == number] for number in np.unique(tree.domains[level])]


def _packed(asked: GangQuestion, terms: TopologyTerms, needs: GangNeeds) -> Packing | None:
    """The placement that the gang wants."""
    level = next((scope.preferred for scope in terms.scopes if scope.preferred is not None), None)
    if terms.objective is Objective.BALANCED and level is not None:
        found = pack_balanced(asked.question, level)
        if found is not None:
            return found
    return pack(asked.question, needs.members)


def terms_for(
    state: ClusterState, members: Sequence[Cycle], needs: GangNeeds
) -> TopologyTerms | TopologyMistake | None:
    """What the gang asks for."""
    templates = [cycle.template for cycle in members]
    templates += [record.pod.template for record in lasting(state, needs.key)]
    return topology_terms(state, needs.terms.group, templates)


def _why(asked: GangQuestion, terms: TopologyTerms, state: ClusterState) -> str:
    """Why no placement was found: how many fit where most fit, and how many nodes are left out by what."""
    question, offers = asked.question, asked.question.offers
    parts = []
    outside = state.node_count - len(asked.rows)
    for scope, described in zip(question.scopes, terms.scopes, strict=False):
        level = described.required
        count = sum(question.roles[role].count for role in scope.roles)
        if level is None or not len(asked.rows):
            continue
        rooms = [held(question, role, level).clip(0, question.roles[role].count) for role in scope.roles]
        total = np.sum(rooms, axis=0)
        best = int(np.argmax(total))
        path = _path(asked, terms, state, level, best)
        said = f"{int(total[best])} of {count} pods{_slices(question, terms, scope.roles)}"
        apart = ", role by role, not together" if len(scope.roles) > 1 and total[best] >= count else ""
        parts.append(f"{terms.levels.keys[level]} {path} has room for {said}{apart}")
    if not parts:
        everyone = range(len(question.roles))
        room = [int(held(question, role, 0).sum()) for role in everyone] if offers.levels else offers.caps.sum(axis=1)
        fit = sum(min(int(each), role.count) for each, role in zip(room, question.roles, strict=True))
        slices = _slices(question, terms, everyone)
        parts.append(f"the topology has room for {fit} of {question.total} pods{slices}")
    if outside:
        parts.append(f"{outside} node(s) lack a level's label")
    unfit = int(np.count_nonzero(~offers.eligible.any(axis=0)))
    if unfit:
        parts.append(f"{unfit} node(s) are not for these pods")
    return ", ".join(parts) + "."


def _slices(question: Question, terms: TopologyTerms, roles: Iterable[int]) -> str:
    """The slices of roles, and members that are no whole number of them; empty if there are none."""
    layers = dict.fromkeys(layer for role in roles for layer in question.roles[role].layers[:1])
    said = [f" in slices of {layer.size} per {terms.levels.keys[layer.level]}" for layer in layers]
    for role in roles:
        each = question.roles[role]
        count = each.count + int(question.offers.standing[role].sum())
        if each.layers and each.least == each.count and count % each.layers[0].size:
            said.append(f" ({count} is no multiple of {each.layers[0].size})")
    return "".join(said)


def _path(asked: GangQuestion, terms: TopologyTerms, state: ClusterState, level: int, domain: int) -> str:
    tree = state.topologies.tree(state, terms.levels)
    place = int(np.flatnonzero(asked.question.offers.domains[level] == domain)[0])
    return "/".join(tree.paths[place][: level + 1])
