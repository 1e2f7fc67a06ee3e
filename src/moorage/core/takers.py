"""Which nodes of a rule could take a pod, and when nobody waits for them any more.

A rule of a placement strategy sends pods to nodes with certain labels. Whether there is any use in waiting for these
is said here, once, for the scheduler, the webhook and the keeper: nodes that are cordoned, not ready or tainted against
the pod, or that its own selector or affinity excludes, do not count. Full ones do, until a pod has waited in vain;
whoever asks knows how long it has (`Lack.ROOM`). And what is on its way is waited for (`expected_s`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from moorage.core.affinity import NodeTerm
from moorage.core.arrays import Mask, Rows
from moorage.core.arrivals import PATIENCE_S, arrivals
from moorage.core.columns import PODS_COLUMN
from moorage.core.nodes import Node
from moorage.core.nodeterms import any_term
from moorage.core.pods import PodTemplate
from moorage.core.resources import PODS
from moorage.core.selectors import selector_from_labels
from moorage.core.strategy_syntax import Rule
from moorage.core.taints import UNSCHEDULABLE_TAINT_KEY, Taint, is_barred, is_tolerated

if TYPE_CHECKING:
    from moorage.core.state import ClusterState

_CORDONED = Taint(UNSCHEDULABLE_TAINT_KEY)


class Lack(StrEnum):
    """What a rule lacks for a pod; the values are sentences about its labels."""

    NODES = "no node has the labels {}"
    TAKERS = "no node with the labels {} is ready and open to the pod"
    ROOM = "no node with the labels {} has room for the pod"

    def told(self, rule: Rule, of: str) -> str:
        """In words; `of` says whose labels they are."""
        return self.value.format(f"{rule.labels} {of}")


def lack_of(state: ClusterState, template: PodTemplate, rule: Rule) -> Lack | None:
    """What the rule lacks for such a pod now; None if a node could take it at once, as far as this can be told."""
    rows = labelled_rows(state, rule.selector)
    if not len(rows):
        return Lack.NODES
    rows = _open(state, template, rows)
    if _any_ready(state, rows[_roomy(state, template, rows)]):
        return None
    return Lack.ROOM if _any_ready(state, rows) else Lack.TAKERS


def expected_s(state: ClusterState, template: PodTemplate, rule: Rule, now: float) -> float | None:
    """Until when a node is expected that is on its way and could take such a pod by this rule; None if none is."""
    coming = [node for node in arrivals(state, now) if _would_take(node, template, rule)]
    return max((node.created_s + PATIENCE_S for node in coming), default=None)


def labelled_rows(state: ClusterState, selector: tuple[tuple[str, str], ...], rows: Rows | None = None) -> Rows:
    """Those of the rows (by default all) that have these labels."""
    among = state.rows() if rows is None else rows
    for key, value in selector:
        column = state.labels.known(key)
        wanted = None if column is None else column.find(value)
        if column is None or wanted is None:
            return among[:0]
        among = among[column.ids.take(among) == wanted]
    return among


def _open(state: ClusterState, template: PodTemplate, rows: Rows) -> Rows:
    """Those of the rows that admit the pod, whatever stands there."""
    found: Mask = np.ones(len(rows), dtype=np.bool_)
    if not is_tolerated(_CORDONED, template.tolerations):
        found &= ~state.unschedulable.take(rows)
    ids = state.taints.ids.take(rows)
    barred = [
        number for number in np.unique(ids).tolist() if is_barred(state.taints.sets[number], template.tolerations)
    ]
    if barred:
        found &= ~np.isin(ids, barred)
    for requirement in selector_from_labels(template.node_selector).requirements:
        found &= state.labels.matching(requirement, rows)
    required = _required(template)
    if required is not None:
        found &= any_term(state, required, rows)
    return rows[found]


def _roomy(state: ClusterState, template: PodTemplate, rows: Rows) -> Mask:
    """Which of the rows have what the pod requests left, bool[len(rows)]."""
    resources = state.resources
    asked = {PODS_COLUMN: 1}
    for name, amount in template.requests.amounts:
        column = resources.known(name)
        if name in state.devices.backing:
            continue  # claims may serve it
        if column is None:
            return np.zeros(len(rows), dtype=np.bool_)
        asked[column] = amount
    found: Mask = np.ones(len(rows), dtype=np.bool_)
    for column, amount in asked.items():
        found &= resources.allocatable[column].take(rows) - resources.requested[column].take(rows) >= amount
    return found


def _any_ready(state: ClusterState, rows: Rows) -> bool:
    return any(state.node(row).ready for row in rows.tolist())


def _would_take(node: Node, template: PodTemplate, rule: Rule) -> bool:
    """Whether a node that is on its way admits such a pod, with nothing on it."""
    wanted: Mapping[str, str] = {**dict(rule.selector), **template.node_selector}
    required = _required(template)
    if node.unschedulable or is_barred(node.taints, template.tolerations):
        return False
    if any(node.labels.get(key) != value for key, value in wanted.items()):
        return False
    if required is not None and not any(term.matches(node.name, node.labels) for term in required):
        return False
    return all(node.allocatable.get(name, 0) >= amount for name, amount in template.requests.amounts if name != PODS)


def _required(template: PodTemplate) -> tuple[NodeTerm, ...] | None:
    return None if template.node_affinity is None else template.node_affinity.required
