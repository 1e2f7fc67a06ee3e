"""The plan as a function of plain dicts: `moorage.plan.decide`."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.plan import decide

NODES: list[dict[str, Any]] = [{"name": "n0", "labels": {"disk": "ssd"}}, {"name": "n1"}, {"name": "n2"}]
HIGH: dict[str, Any] = {"name": "h", "priority": 9}
GANG: list[dict[str, Any]] = [{"name": f"g{number}", "group": "g", "priority": 50} for number in range(3)]
RUNS: list[dict[str, Any]] = [{**pod, "node": f"n{number}"} for number, pod in enumerate(GANG)]
TAINTED: list[dict[str, Any]] = [{"name": "n0", "taints": [{"key": "k", "effect": "NoSchedule"}]}]

CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], set[str], set[str]]] = {
    "nobody": (NODES, [], set(), set()),
    "no nodes": ([], GANG, set(), set()),
    "a gang takes all nodes": (NODES, [*GANG, {"name": "l", "node": "n0"}], {"g0", "g1", "g2"}, {"l"}),
    "a gang that is too large": (NODES[:2], [*GANG, {"name": "l"}], {"l"}, set()),
    "a gang that runs": (NODES, [*RUNS, {"name": "more", "group": "g", "priority": 50}], set(), set()),
    "the only node": (
        NODES,
        [{"name": "l", "node": "n0"}, {**HIGH, "selector": {"disk": "ssd"}}],
        {"h"},
        {"l"},
    ),
    "a selector that fits nowhere": (
        NODES[:1],
        [{**HIGH, "selector": {"no": "where"}}, {"name": "l"}],
        {"l"},
        set(),
    ),
    "too large for every node": (
        [{"name": "n0", "resources": {"cpu": 4}}],
        [{**HIGH, "requests": {"cpu": "64"}}, {"name": "l"}],
        {"l"},
        set(),
    ),
    "a tolerated taint": (
        TAINTED,
        [{"name": "a", "tolerations": [{"operator": "Exists"}]}, {"name": "b"}],
        {"a"},
        set(),
    ),
    "a cordoned node": ([{"name": "n0", "unschedulable": True}], [{"name": "a"}], set(), set()),
}


@pytest.mark.parametrize(("nodes", "pods", "bound", "preempted"), CASES.values(), ids=CASES.keys())
def test_what_is_decided(
    nodes: list[dict[str, Any]], pods: list[dict[str, Any]], bound: set[str], preempted: set[str]
) -> None:
    found = decide(nodes, pods)
    assert {each["pod"] for each in found["bind"]} == {f"default/{name}" for name in bound}
    assert {each["pod"] for each in found["preempt"]} == {f"default/{name}" for name in preempted}
    assert len({each["node"] for each in found["bind"]}) == len(bound), "a node of its own for each"


def test_what_is_none_is_left_out() -> None:
    nothing = dict.fromkeys(("namespace", "priority", "group", "node", "created", "labels", "selector", "requests"))
    assert decide([{"name": "n"}], [{"name": "a", **nothing}])["bind"] == [{"pod": "default/a", "node": "n"}]


@pytest.mark.parametrize(
    ("nodes", "pods", "said"),
    [
        ([{"labels": {}}], [], "a node has no name"),
        ([], [{"name": "a", "prio": 3}], "pod a: unknown key prio; known are"),
        ([], [{"name": "a"}, {"name": "a"}], "pod default/a is given twice"),
        ([{"name": "n"}, {"name": "n"}], [], "node n is given twice"),
        ([], [{"name": "a", "priority": 7.5}], "pod a: priority is 7.5; write a whole number"),
        ([], [{"name": "a", "priority": "high"}], "pod a: priority is 'high'; write a whole number"),
        ([], [{"name": "a", "priority": 10**12}], "pod a: priority is 1000000000000; write a whole number"),
        ([], [{"name": "a", "created": "today"}], "pod a: created is 'today'; write seconds"),
        ([], [{"name": "a", "created": float("nan")}], "pod a: created is nan; write seconds"),
    ],
)
def test_what_cannot_be_read_is_told(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decide(nodes, pods)
