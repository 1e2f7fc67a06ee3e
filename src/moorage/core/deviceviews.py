"""What nodes see of devices: slices by the nodes that they concern, and the pools that they add up to.

Nodes that the same slices concern share one view. Views are numbered; a number is used again once its view is gone.
Answers about views are kept outside: `log` has the views of which something else is in use or that are new or gone,
`node_log` the nodes that have to be asked about again. No question looks at all slices of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from moorage.core.changelog import ChangeLog
from moorage.core.devicepools import DeviceCandidates, Pool, gather, spread
from moorage.core.devices import DeviceId, DeviceTaintRule, PoolId, Reach, ResourceSlice
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.nodeterms import NAME_FIELD
from moorage.core.selectors import Operator
from moorage.core.taints import Taint
from moorage.core.values import dataclass

_NO_SLICES: Mapping[str, ResourceSlice] = {}
_Anchor: TypeAlias = tuple[str, str]
"""A label with its value, or the name of a node: a slice that is kept under it can concern nodes that have it only."""
_EVERYWHERE: _Anchor = ("", "")
_ViewKey: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Slices by name, and which of their devices, where each device says itself which nodes can use it."""


@dataclass(slots=True, eq=False)
class _View:
    key: _ViewKey
    pools: tuple[Pool, ...]
    pool_ids: frozenset[PoolId]
    """Those of the slices; a pool that is being replaced is not in `pools`."""
    nodes: dict[str, None] = field(default_factory=dict)


class DeviceViews:
    """Slices, and what nodes see of them."""

    def __init__(self, rules: Callable[[], Mapping[str, DeviceTaintRule]]) -> None:
        self._rules = rules
        self._by_pool: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._anchored: dict[_Anchor, dict[str, ResourceSlice]] = {}
        self._candidates: dict[str, DeviceCandidates] = {}
        """Devices of slices, by name, as far as they were needed since a rule changed."""
        self._seen: dict[str, tuple[FrozenDict[str, str], int]] = {}
        """Labels and view of nodes, as far as they were asked about."""
        self._views: dict[int, _View] = {}
        self._by_key: dict[_ViewKey, int] = {}
        self._of_pool: dict[PoolId, dict[int, None]] = {}
        self._free: list[int] = []
        self.log: ChangeLog[int] = ChangeLog()
        """Views that are new or gone, or of which something else is in use."""
        self.node_log: ChangeLog[str] = ChangeLog()
        """Nodes whose view has changed."""
        self.own_log: ChangeLog[str] = ChangeLog()
        """Nodes whose own pools have changed, or of which something else is in use."""

    # --- changes ---

    def note_slice(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """A slice was added (`before` None), changed or removed (`after` None)."""
        if before is not None:
            self._candidates.pop(before.name, None)
            self._drop_pool(before.pool_id)
            forget(self._by_pool, before.pool_id, before.name)
            for anchor in _anchors(before):
                forget(self._anchored, anchor, before.name)
            self._note_owner(before)
        if after is not None:
            self._note_owner(after)
            self._drop_pool(after.pool_id)
            self._by_pool.setdefault(after.pool_id, {})[after.name] = after
            for anchor in _anchors(after):
                self._anchored.setdefault(anchor, {})[after.name] = after
            if after.only_node:
                self.forget_node(after.only_node)
            elif before is None or before.per_device or before.reach != after.reach:
                for name in [name for name, (labels, _) in self._seen.items() if after.reaches(name, labels)]:
                    self.forget_node(name)

    def note_rule(self, *rules: DeviceTaintRule | None) -> None:
        """Rules that taint devices have come or gone."""
        for pool, parts in self._by_pool.items():
            if any(rule is not None and rule.may_apply_to(pool) for rule in rules):
                for name in parts:
                    self._candidates.pop(name, None)
                self._drop_pool(pool)
                self.own_log.append(self.owner(pool))

    def _note_owner(self, part: ResourceSlice) -> None:
        if part.only_node:
            self.own_log.append(part.only_node)

    def note_use(self, pool: PoolId) -> None:
        """Something else of the pool is in use."""
        self.own_log.append(self.owner(pool))
        for view in self._of_pool.get(pool, ()):
            self.log.append(view)

    def forget_node(self, name: str) -> None:
        """What the node sees has to be found out anew, unless it is gone."""
        seen = self._seen.pop(name, None)
        if seen is not None:
            self.node_log.append(name)
            nodes = self._views[seen[1]].nodes
            nodes.pop(name)
            if not nodes:
                self._drop(seen[1])

    def _drop_pool(self, pool: PoolId) -> None:
        for view in [*self._of_pool.get(pool, ())]:
            for name in self._views[view].nodes:
                del self._seen[name]
                self.node_log.append(name)
            self._drop(view)

    def _drop(self, number: int) -> None:
        view = self._views.pop(number)
        self._free.append(number)
        self.log.append(number)
        del self._by_key[view.key]
        for pool in view.pool_ids:
            forget(self._of_pool, pool, number)

    # --- what there is ---

    @property
    def empty(self) -> bool:
        """Whether no driver has published anything."""
        return not self._by_pool

    @property
    def pool_ids(self) -> list[PoolId]:
        """All pools."""
        return [*self._by_pool]

    def slices_of(self, pool: PoolId) -> Collection[ResourceSlice]:
        """All slices of a pool, of whatever generation."""
        return self._by_pool.get(pool, _NO_SLICES).values()

    def owner(self, pool: PoolId) -> str:
        """The one node that all slices of a pool are for; empty if there is none."""
        found = ""
        for part in self.slices_of(pool):
            if not part.only_node or found not in ("", part.only_node):
                return ""
            found = part.only_node
        return found

    def slices_at(self, node: str) -> list[ResourceSlice]:
        """The slices that are for one node alone."""
        return [part for part in self._anchored.get((NAME_FIELD, node), _NO_SLICES).values() if part.only_node]

    def whole(self, pool: PoolId) -> Pool | None:
        """A pool as if one node could use all of it; None if there is no such pool."""
        return next(iter(gather(self.slices_of(pool), self.slices_of, self._devices_of)), None)

    def view(self, node: Node) -> int:
        """The number of what a node sees."""
        seen = self._seen.get(node.name)
        if seen is not None and (seen[0] is node.labels or seen[0] == node.labels):
            return seen[1]
        self.forget_node(node.name)
        near = self._near(node)
        key = tuple((part.name, part.near_devices(node.name, node.labels)) for part in near)
        number = self._by_key.get(key)
        if number is None:
            number = self._by_key[key] = self._add(key, near)
        self._views[number].nodes[node.name] = None
        self._seen[node.name] = node.labels, number
        return number

    def _near(self, node: Node) -> list[ResourceSlice]:
        """The slices that concern a node, by name."""
        found: dict[str, ResourceSlice] = {}
        for anchor in ((NAME_FIELD, node.name), *node.labels.items(), _EVERYWHERE):
            parts = self._anchored.get(anchor)
            if parts is not None:
                found.update((name, part) for name, part in parts.items() if part.reaches(node.name, node.labels))
        return [found[name] for name in sorted(found)]

    def _add(self, key: _ViewKey, near: list[ResourceSlice]) -> int:
        number = self._free.pop() if self._free else len(self._views)
        pools = frozenset(part.pool_id for part in near)
        self._views[number] = _View(key, gather(near, self.slices_of, self._devices_of), pools)
        for pool in pools:
            self._of_pool.setdefault(pool, {})[number] = None
        self.log.append(number)
        return number

    def pools(self, view: int) -> tuple[Pool, ...]:
        """The pools of a view, in the order in which they are tried."""
        return self._views[view].pools

    def node_with(self, view: int) -> Node:
        """The name and labels of a node that has this view; to it, they are all alike."""
        name = next(iter(self._views[view].nodes))
        return Node(name, labels=self._seen[name][0])

    def nodes_with(self, view: int) -> Collection[str]:
        """The nodes that have this view, as far as they were asked about."""
        found = self._views.get(view)
        return () if found is None else found.nodes

    @property
    def height(self) -> int:
        """One more than the highest number of a view."""
        return len(self._views) + len(self._free)

    def _devices_of(self, part: ResourceSlice) -> DeviceCandidates:
        found = self._candidates.get(part.name)
        if found is None:
            found = self._candidates[part.name] = spread(part, self._rule_taints(part.pool_id))
        return found

    def _rule_taints(self, pool: PoolId) -> Callable[[DeviceId], tuple[Taint, ...]] | None:
        """The taints that rules add to devices of a pool; None if there are no rules."""
        rules = [
            rule for _, rule in sorted(self._rules().items()) if rule.taint is not None and rule.may_apply_to(pool)
        ]
        if not rules:
            return None
        return lambda device: tuple(rule.taint for rule in rules if rule.taint is not None and rule.applies_to(device))


def _anchors(part: ResourceSlice) -> list[_Anchor]:
    """Of the labels that a slice or its devices ask for those of one requirement: nodes have one of them at most."""
    reaches = [device.reach for device in part.devices] if part.per_device else [part.reach]
    found: dict[_Anchor, None] = {}
    keys: set[str] = set()
    for reach in reaches:
        anchors = _anchors_of(reach)
        keys.update(key for key, _ in anchors)
        found.update(dict.fromkeys(anchors))
    return [*found] if len(keys) == 1 else [_EVERYWHERE]


def _anchors_of(reach: Reach | None) -> list[_Anchor]:
    if reach is None:
        return []
    if reach.node:
        return [(NAME_FIELD, reach.node)]
    if reach.terms is not None and len(reach.terms) == 1:
        (term,) = reach.terms
        for requirement in (*term.fields, *term.expressions):
            if requirement.operator is Operator.IN:
                return [(requirement.key, value) for value in requirement.values]
    return [_EVERYWHERE]


def forget(index: dict[Any, dict[Any, Any]], group: Any, member: Any) -> None:
    """Take a member out of its group, which goes with the last one."""
    members = index.get(group)
    if members is not None:
        members.pop(member, None)
        if not members:
            del index[group]
