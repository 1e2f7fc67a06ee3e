"""What a gang asks of the levels, put together: from its PodGroup, from its sub-groups and from its members.

Constraints may be on the gang, on sub-groups of it, on groups of these, and on the members of one role; all of them
hold. What contradicts itself, or names what does not exist, is a mistake, and the gang waits until it is put right.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from moorage.core.objects import PodGroup
from moorage.core.packing import Layer
from moorage.core.pods import PodTemplate
from moorage.core.topology import HYPER_NODE, TIER, Levels, known_levels, tier_level
from moorage.core.topologyasks import (
    RANK_LABELS,
    RANK_OFFSET,
    SUBGROUP_LABELS,
    Objective,
    SliceAsk,
    SubGroup,
    TopologyAsk,
    numbers_at,
)

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

_NO_LAYERS: tuple[Layer, ...] = ()
WHOLE = -1
"""The number of what lies above the widest level: one domain that holds all nodes."""
_CHOOSE = "name one with the annotation moorage.dev/topology"
_SHOWN = 500


class TopologyMistake(NamedTuple):
    """Why what a gang asks for cannot be meant."""

    text: str

    @property
    def message(self) -> str:
        """The same for people: what tenants write may be long, and every member says it."""
        return self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}..."


class ScopeTerms(NamedTuple):
    """A constraint that sub-groups share."""

    name: str
    subgroups: frozenset[str]
    required: int | None
    """A level by its number, the widest is 0."""
    preferred: int | None


class TopologyTerms(NamedTuple):
    """What holds for the placement of a gang."""

    levels: Levels
    """No keys if no level matters."""
    scopes: tuple[ScopeTerms, ...]
    layers: Mapping[str, tuple[Layer, ...]]
    """The slices of sub-groups."""
    least: Mapping[str, int]
    """How many members of sub-groups must be placed together, those that stand included."""
    objective: Objective = Objective.FEWEST
    uneven: frozenset[str] = frozenset()
    """Sub-groups whose last slice may be smaller."""
    soft: frozenset[str] = frozenset()
    """Sub-groups whose innermost slices may lie in a wider domain than that of their layer."""

    def eased(self) -> Iterator[TopologyTerms]:
        """The same, and then with softer slices: one level wider each time, in the end without them."""
        yield self
        terms = self
        while terms.soft:
            layers, soft = dict(terms.layers), set[str]()
            for role in terms.soft:
                *outer, last = layers[role]
                top = max([*(each.level for each in outer), *self._required_of(role)], default=-1)
                layers[role] = tuple(outer)
                if last.level - 1 > top:
                    layers[role] = (*outer, last._replace(level=last.level - 1))
                    soft.add(role)
            terms = terms._replace(layers=layers, soft=frozenset(soft))
            yield terms

    def _required_of(self, role: str) -> list[int]:
        return [each.required for each in self.scopes if role in each.subgroups and each.required is not None]


def role_of(template: PodTemplate) -> str:
    """The role of a member inside its gang; empty if it names none."""
    if template.owned is not None and template.owned.role:
        return template.owned.role
    labels = template.labels
    return next((labels[key] for key in SUBGROUP_LABELS if key in labels), "")


def rank_of(template: PodTemplate) -> tuple[int, ...] | None:
    """The rank of a member among those of its role; None if it has none."""
    if template.owned is not None and template.owned.rank is not None:
        return template.owned.rank
    for keys in RANK_LABELS:
        rank = numbers_at(keys, template.labels, template.annotations)
        if rank is not None:
            first = numbers_at((RANK_OFFSET,), {}, template.annotations) or (0,)
            return (*rank[:-1], max(rank[-1] - first[0], 0))
    return None


def asks_anything(group: PodGroup | None, templates: Iterable[PodTemplate]) -> bool:
    """Whether a gang says anything about levels or sub-groups."""
    if group is not None and (group.topology is not None or group.topology_key is not None or group.subgroups):
        return True
    return any(template.topology is not None for template in templates)


def topology_terms(
    state: ClusterState, group: PodGroup | None, templates: Collection[PodTemplate]
) -> TopologyTerms | TopologyMistake | None:
    """What holds for a gang with such members; None if it says nothing about levels or sub-groups."""
    if not asks_anything(group, templates):
        return None
    roles = _asks_of_roles(templates)
    if isinstance(roles, TopologyMistake):
        return roles
    scopes = _Scopes(frozenset(roles))
    mistake = scopes.read(group, roles)
    if mistake is not None:
        return mistake
    scopes.settle_soft_tiers({each.tier for each in state.objects.get(HYPER_NODE, {}).values()})
    native = group.topology_key if group is not None else None
    levels = _levels(state, scopes.asks, native)
    if isinstance(levels, TopologyMistake):
        return levels
    return _resolved(state, scopes, levels, _Roles(roles, templates), group)


def _asks_of_roles(templates: Iterable[PodTemplate]) -> dict[str, TopologyAsk | None] | TopologyMistake:
    found: dict[str, TopologyAsk | None] = {}
    for template in templates:
        role = role_of(template)
        if role not in found:
            found[role] = template.topology
        elif found[role] != template.topology:
            where = f"of sub-group {role} " if role else ""
            return TopologyMistake(
                f"members {where}ask for different things: {_told(found[role])} and {_told(template.topology)}"
            )
    return found


class _Roles:
    """The sub-groups of a gang by what their members ask."""

    def __init__(self, asks: Mapping[str, TopologyAsk | None], templates: Collection[PodTemplate]) -> None:
        self.asks, self._templates = asks, templates

    def job_size(self, role: str) -> int | None:
        """How many pods a job has, of a role that is made of jobs, as in a JobSet; None if it is not."""
        ranks = (rank_of(template) for template in self._templates if role_of(template) == role)
        last = [rank[-1] for rank in ranks if rank is not None and len(rank) > 1]
        return max(last) + 1 if last else None


def _told(ask: TopologyAsk | None) -> str:
    words = () if ask is None else ask.levels
    return ", ".join(words) if words else "nothing"


class _Scope(NamedTuple):
    name: str
    subgroups: frozenset[str]
    ask: TopologyAsk
    inherited: bool = False
    """Whether its slices are those of each sub-group that says nothing about slices."""


class _Scopes:
    """The constraints of a gang as they were written."""

    def __init__(self, roles: frozenset[str]) -> None:
        self._roles = roles
        self.found: list[_Scope] = []
        self.least: dict[str, int] = {}

    @property
    def asks(self) -> list[TopologyAsk]:
        """All that is asked."""
        return [scope.ask for scope in self.found]

    def read(self, group: PodGroup | None, roles: Mapping[str, TopologyAsk | None]) -> TopologyMistake | None:
        """Collect everything; what is wrong, if anything is."""
        if group is not None and group.topology is not None:
            self.found.append(_Scope(f"pod group {group.key}", self._roles, group.topology, inherited=True))
        mistake = None if group is None else self._subgroups(group.subgroups)
        mistake = mistake or self._members(roles)
        return mistake or next((TopologyMistake(ask.mistake) for ask in self.asks if ask.mistake), None)

    def settle_soft_tiers(self, tiers: set[int]) -> None:
        """What is preferred of HyperNodes keeps no gang waiting: without such a tier it is the closest one, if any."""
        known = {tier_level(tier) for tier in tiers}
        closest = tier_level(min(tiers)) if tiers else ""

        def settled(level: str) -> str:
            return closest if level.startswith(TIER) and level not in known else level

        for number, scope in enumerate(self.found):
            ask = scope.ask
            slices = (each._replace(level=settled(each.level)) if each.soft else each for each in ask.slices)
            kept = tuple(each for each in slices if each.level or not each.soft)
            preferred = settled(ask.preferred)
            if (preferred, kept) != (ask.preferred, ask.slices):
                self.found[number] = scope._replace(ask=replace(ask, preferred=preferred, slices=kept))

    def _subgroups(self, subgroups: tuple[SubGroup, ...]) -> TopologyMistake | None:
        by_name = {each.name: each for each in subgroups}
        for each in subgroups:
            if by_name[each.name] is not each:
                return TopologyMistake(f"there are two sub-groups {each.name}")
            if each.parent and each.parent not in by_name:
                return TopologyMistake(f"sub-group {each.name} is part of {each.parent}, which does not exist")
            if circle := _circle(each.name, by_name):
                return TopologyMistake(f"sub-group {each.name} is part of itself: {circle}")
            if each.least is not None and each.name in self._roles:
                self.least[each.name] = each.least
        for each in subgroups:
            if each.ask.levels or each.ask.mistake:
                inside = frozenset(role for role in self._roles if _is_inside(role, each.name, by_name))
                self.found.append(_Scope(f"sub-group {each.name}", inside, each.ask, inherited=True))
        return None

    def _members(self, roles: Mapping[str, TopologyAsk | None]) -> TopologyMistake | None:
        """Constraints of roles; those that share a word have one together."""
        shared: dict[str, _Scope] = {}
        for role, ask in roles.items():
            if ask is None:
                continue
            name = f"sub-group {role}" if role else "the members"
            if not ask.shares:
                self.found.append(_Scope(name, frozenset({role}), ask))
                continue
            known = shared.get(ask.shares)
            if known is not None and (known.ask.required, known.ask.preferred) != (ask.required, ask.preferred):
                return TopologyMistake(
                    f"the sub-groups of {ask.shares} ask for {_told(known.ask)} and for {_told(ask)}"
                )
            inside = frozenset({role}) | (frozenset() if known is None else known.subgroups)
            shared[ask.shares] = _Scope(f"sub-groups {ask.shares}", inside, ask)
        self.found.extend(shared.values())
        self.found.extend(_Scope("", frozenset(), ask) for ask in roles.values() if ask is not None and ask.shares)
        return None


def _is_inside(role: str, name: str, by_name: Mapping[str, SubGroup]) -> bool:
    """Whether a role is a sub-group, or inside of it."""
    return name in _parents(role, by_name)


def _circle(name: str, by_name: Mapping[str, SubGroup]) -> str:
    """The way from a sub-group back to itself, empty if there is none."""
    way = _parents(name, by_name)
    last = by_name.get(way[-1])
    return " in ".join((*way, name)) if last is not None and last.parent == name else ""


def _parents(name: str, by_name: Mapping[str, SubGroup]) -> list[str]:
    """A sub-group and those that it is inside of, each once, the innermost first."""
    way: dict[str, None] = {}
    while name and name not in way:
        way[name] = None
        name = by_name[name].parent if name in by_name else ""
    return [*way]


def _levels(state: ClusterState, asks: list[TopologyAsk], native: str | None) -> Levels | TopologyMistake:
    """The levels that all of this is about."""
    words = list(dict.fromkeys(word for ask in asks for word in ask.levels))
    names = sorted({ask.topology for ask in asks if ask.topology})
    known = known_levels(state)
    if not words and not names:
        if native is not None:
            return state.topologies.implied.of(state, native)
        only = set(known.values()) if any(ask.unconstrained for ask in asks) else set()
        return only.pop() if len(only) == 1 else Levels(())
    if len(names) > 1:
        return TopologyMistake(f"more than one Topology is named: {', '.join(names)}")
    if names:
        return known.get(names[0]) or TopologyMistake(f'there is no Topology "{names[0]}"')
    return _only(state, known, words)


def _only(state: ClusterState, known: Mapping[str, Levels], words: list[str]) -> Levels | TopologyMistake:
    """The levels that have all of these words."""
    having = {name: levels for name, levels in known.items() if _names(state, levels, words).keys() >= {*words}}
    if len(set(having.values())) == 1:
        return next(iter(having.values()))
    if having:
        named = ", ".join(sorted(filter(None, having)))
        return TopologyMistake(f'several Topologies ({named}) have the level "{words[0]}"; {_CHOOSE}')
    for word in words:
        if not any(word in _names(state, levels, words) for levels in known.values()):
            return TopologyMistake(_unknown(word))
    return TopologyMistake(f"no Topology has all of the levels {', '.join(words)}")


def _unknown(word: str) -> str:
    return f'no Topology has the level "{word}"' if word else "slices name no level"


def _names(state: ClusterState, levels: Levels, words: Iterable[str]) -> dict[str, int]:
    """The names of levels and their numbers; tiers of HyperNodes may have a name of their own.

    A tier that there is none of means the next one below it; above all of them lies what holds the whole cluster.
    """
    found = {key: number for number, key in enumerate(levels.keys)}
    if not levels.hyper:
        return found
    for each in state.objects.get(HYPER_NODE, {}).values():
        if each.tier_name:
            found.setdefault(each.tier_name, found[tier_level(each.tier)])
    tiers = sorted(each.tier for each in state.objects.get(HYPER_NODE, {}).values())
    for word in words:
        tier = word.removeprefix(TIER)
        if word.startswith(TIER) and word not in found and tier.isdecimal():
            below = [each for each in tiers if each <= int(tier)]
            if below:
                found[word] = found[tier_level(below[-1])] if below[-1] < tiers[-1] else WHOLE
    return found


def _resolved(
    state: ClusterState,
    scopes: _Scopes,
    levels: Levels,
    roles: _Roles,
    group: PodGroup | None,
) -> TopologyTerms | TopologyMistake:
    numbers = _names(state, levels, [word for ask in scopes.asks for word in ask.levels])
    merged: dict[frozenset[str], ScopeTerms] = {}
    if group is not None and group.topology_key is not None:
        if group.topology_key not in numbers:
            return TopologyMistake(_unknown(group.topology_key))
        everyone = frozenset(roles.asks)
        merged[everyone] = ScopeTerms("the pod group", everyone, numbers[group.topology_key], None)
    for scope in scopes.found:
        if (mistake := _mistaken(scope, numbers)) is not None:
            return mistake
        required, preferred = numbers.get(scope.ask.required), numbers.get(scope.ask.preferred)
        if required == WHOLE:
            required, preferred = None, len(levels.keys) - 1
        if (required is not None or preferred is not None) and scope.subgroups:
            before = merged.get(scope.subgroups)
            if before is not None:
                required = _narrower(before.required, required)
                preferred = _narrower(before.preferred, preferred)
            merged[scope.subgroups] = ScopeTerms(scope.name, scope.subgroups, required, preferred)
    slices = {role: _slices_of(scopes, roles, role) for role in roles.asks}
    layers = _layers(slices, roles, numbers, merged.values())
    if isinstance(layers, TopologyMistake):
        return layers
    objective = next((ask.objective for ask in scopes.asks if ask.objective), Objective.FEWEST)
    uneven = frozenset(role for role, asked in slices.items() if any(each.uneven for each in asked))
    soft = frozenset(role for role, asked in slices.items() if any(each.soft for each in asked))
    return TopologyTerms(levels, tuple(merged.values()), layers, scopes.least, objective, uneven, soft)


def _slices_of(scopes: _Scopes, roles: _Roles, role: str) -> tuple[SliceAsk, ...]:
    """The slices that a role asks for: its own, else those of what it is part of."""
    asked = [scope for scope in scopes.found if role in scope.subgroups and scope.ask.slices and scope.inherited]
    own = roles.asks[role]
    return own.slices if own is not None and own.slices else asked[-1].ask.slices if asked else ()


def _mistaken(scope: _Scope, numbers: Mapping[str, int]) -> TopologyMistake | None:
    """What is wrong with one constraint."""
    unknown = next((word for word in scope.ask.levels if word not in numbers), None)
    if unknown is not None:
        return TopologyMistake(_unknown(unknown))
    if scope.ask.unconstrained and (scope.ask.required or scope.ask.preferred):
        return TopologyMistake(f"{scope.name} is unconstrained and asks for {_told(scope.ask)}")
    return None


def _narrower(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _layers(
    asked: Mapping[str, tuple[SliceAsk, ...]], roles: _Roles, numbers: Mapping[str, int], merged: Iterable[ScopeTerms]
) -> dict[str, tuple[Layer, ...]] | TopologyMistake:
    """The slices of each role."""
    found: dict[str, tuple[Layer, ...]] = {}
    for role, slices in asked.items():
        size = roles.job_size(role) if any(each.size is None for each in slices) else None
        layers = _checked([each._replace(size=size) if each.size is None else each for each in slices], numbers)
        if isinstance(layers, TopologyMistake):
            return layers
        for scope in merged:
            top = scope.required if scope.required is not None else scope.preferred
            if role in scope.subgroups and layers and top is not None and layers[0].level < top:
                return TopologyMistake(f'slices of level "{slices[0].level}" lie above the level of {scope.name}')
        found[role] = layers
    return found


def _checked(slices: Sequence[SliceAsk], numbers: Mapping[str, int]) -> tuple[Layer, ...] | TopologyMistake:
    layers = []
    for each in slices:
        if each.size is None or each.size < 1:
            return TopologyMistake(f'slices of level "{each.level}" have no size')
        if numbers[each.level] != WHOLE:
            layers.append(Layer(numbers[each.level], each.size))
    for outer, inner in pairwise(layers):
        if outer.size % inner.size:
            return TopologyMistake(f"slices of {inner.size} members do not divide those of {outer.size}")
        if inner.level <= outer.level:
            return TopologyMistake(f"the inner slices of {inner.size} members lie no deeper than those of {outer.size}")
    return tuple(layers) or _NO_LAYERS
