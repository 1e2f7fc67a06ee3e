"""What a pod adds to the state when it comes it takes away when it goes, whatever its fields say; and no field of a
pod can be added without saying what its change means for the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

import numpy as np
import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.nodes import Node
from moorage.core.pods import Pod, PodTemplate, on_node
from moorage.core.state import ClusterState, PodMove
from tests.core.fullpods import FULL, OTHER, POD

KEPT = frozenset({"_vectors", "_latest", "_amounts", "_events", "_version", "version", "_dirty"})
"""What is worked out once and kept, and numbers that only rise."""


def a_state() -> ClusterState:
    """With counters that somebody has asked for, as those are kept from then on."""
    state = ClusterState()
    state.upsert_node(
        Node("n1", allocatable=FrozenDict({"cpu": 4000, "pods": 9, "example.com/gpu": 2, "nvidia.com/gpu": 2}))
    )
    state.owner_rows(FULL)
    state.shares()
    check_invariants(state)  # asks which devices the node sees
    assert state.rows().tolist() == [0]
    return state


def picture(part: Any, seen: frozenset[int] = frozenset()) -> Any:
    """All that a part of the state holds, down to numbers and texts; objects by what they hold."""
    if id(part) in seen:
        return "..."
    seen |= {id(part)}
    if isinstance(part, np.ndarray):
        return part.tolist()
    if isinstance(part, dict):
        return {_name(key): picture(value, seen) for key, value in part.items() if not _is_empty(value)}
    if isinstance(part, set | frozenset):
        return sorted(map(_name, part))
    if isinstance(part, list | tuple):
        return [picture(each, seen) for each in part]
    if type(part).__module__.startswith("moorage.core") and not callable(part):
        return {name: picture(value, seen) for name, value in attributes(part)}
    return part if isinstance(part, int | float | str | None) else type(part).__name__


def attributes(part: Any) -> Iterator[tuple[str, Any]]:
    slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in (*getattr(part, "__dict__", ()), *slots):
        if hasattr(part, name) and name not in KEPT and not name.endswith("_log"):
            yield name, getattr(part, name)


def _name(key: Any) -> str:
    return re.sub(r" object at 0x\w+", "", str(key))


def _is_empty(value: Any) -> bool:
    return isinstance(value, dict | list | set) and not value


def test_the_template_says_something_in_every_field() -> None:
    """A new field: give it a value in FULL."""
    for field in fields(PodTemplate):
        if field.init and field.name != "_hash":
            default = field.default if field.default_factory is MISSING else field.default_factory()
            assert getattr(FULL, field.name) != default, field.name


def test_what_stands_leaves_no_trace() -> None:
    """All that it added is gone with it, in every index that the state has."""
    state = a_state()
    before = picture(state)
    state.observe_pod(POD)
    check_invariants(state)
    assert picture(state) != before
    state.remove_pod(POD.uid)
    check_invariants(state)
    assert picture(state) == before


@pytest.mark.parametrize("name", [field.name for field in fields(Pod)])
def test_a_pod_that_is_bound_stays_what_it_is(name: str) -> None:
    """A new field is kept, unless `on_node` says what a bind makes of it."""
    bound = on_node(OTHER, "n3")
    by_the_bind = {"node": "n3", "nominated_node": None, "gates": (), "scheduled_condition": None, "scheduled_s": None}
    assert getattr(bound, name) == by_the_bind.get(name, getattr(OTHER, name))


MOVES = {
    "uid": PodMove.ADDED,
    "template": PodMove.UPDATED,
    "node": PodMove.MOVED,
    "phase": PodMove.REMOVED,
    "requests": PodMove.UPDATED,
    "deleted_s": PodMove.UPDATED,
    "assigned": PodMove.UPDATED,
}
NO_COLUMN = frozenset(
    {
        "name",
        "nominated_node",
        "gates",
        "created_s",
        "started_s",
        "scheduled_condition",
        "generation",
        "resource_version",
        "preempted",
        "scheduled_s",
        "gang_record",
        "ready",
        "ends_s",
        "devices",
    }
)
"""Fields that are only handed on: the record has the new pod, and nothing is counted anew."""


@pytest.mark.parametrize("name", [field.name for field in fields(Pod)])
def test_what_a_change_of_each_field_means(name: str) -> None:
    """A new field: if something is counted by it, `observe_pod` must see that it changed; else it is in NO_COLUMN."""
    state = a_state()
    state.observe_pod(POD)
    assert getattr(OTHER, name) != getattr(POD, name)
    pod = replace(POD, **{name: getattr(OTHER, name)})
    before = picture(state.resources), picture(state.pod_counts), state.pod_log.position
    assert (name in MOVES) != (name in NO_COLUMN)
    assert state.observe_pod(pod) is MOVES.get(name, PodMove.SAME)
    record = state.record(pod.uid)
    assert name == "phase" or (record is not None and record.pod is pod)
    if name in NO_COLUMN:
        assert (picture(state.resources), picture(state.pod_counts), state.pod_log.position) == before
    check_invariants(state)
