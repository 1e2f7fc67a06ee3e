"""The judge of the crash drill, on events made up for it: it has to be able to say no."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gangs.ledger import MEMBER, Ledger
from tests.gangs.outcomes import SIZE, all_cases

NODES = {"n1": 900, "n2": 900, "n3": 900}


def pod(name: str, node: str | None = None, *, cpu: str = "900m", leaving: bool = False, phase: str = "Pending") -> Any:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}"}
    if not name.startswith("stranger"):
        metadata["labels"] = {MEMBER: ""}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    if node is not None:
        spec["nodeName"] = node
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def ledger_of(*pods: Any) -> Ledger:
    ledger = Ledger(NODES, min_count=2)
    for each in pods:
        ledger.see("ADDED", each)
    return ledger


@pytest.mark.parametrize(
    ("pods", "want_partial", "want_whole"),
    [
        pytest.param([pod("a"), pod("b")], False, False, id="none bound"),
        pytest.param([pod("a", "n1"), pod("b")], True, False, id="one of two bound"),
        pytest.param([pod("a", "n1"), pod("b", "n2")], False, True, id="both bound"),
        pytest.param([pod("a", "n1"), pod("b", "n2", leaving=True)], True, False, id="one of two is leaving"),
        pytest.param([pod("a", "n1", leaving=True), pod("b")], False, False, id="the bound one is leaving"),
        pytest.param([pod("a", "n1"), pod("b", "n2", phase="Failed")], True, False, id="one of two failed"),
        pytest.param([pod("a"), pod("stranger", "n1")], False, False, id="strangers are not members"),
    ],
)
def test_a_gang_is_partial_when_some_but_too_few_members_run(
    pods: list[Any], want_partial: bool, want_whole: bool
) -> None:
    """Members on their way out count as gone."""
    ledger = ledger_of(*pods)
    assert (ledger.partial, ledger.whole) == (want_partial, want_whole)


def test_a_pod_that_changes_its_node_is_noticed_even_when_it_is_gone_at_once() -> None:
    """The event that removes it is enough."""
    ledger = ledger_of(pod("a", "n1"))
    ledger.see("DELETED", pod("a", "n2"))
    assert ledger.twice == ["a was on n1 and then on n2"]
    assert ledger.bound == 0


def test_a_node_that_was_overcommitted_for_one_event_is_noticed() -> None:
    """What left in the next event does not undo it; a pod that is leaving still takes its room, a finished one none."""
    ledger = ledger_of(pod("a", "n1", leaving=True), pod("done", "n2", phase="Succeeded"))
    ledger.see("ADDED", pod("b", "n2"))
    assert ledger.overcommitted == []
    ledger.see("ADDED", pod("stranger", "n1", cpu="1"))
    ledger.see("DELETED", pod("a", "n1"))
    assert ledger.overcommitted == ["n1 has 900m of cpu and 1900m on it"]


def test_free_nodes_are_those_without_any_pod() -> None:
    """Also a pod on its way out keeps a node from being free."""
    assert ledger_of(pod("a", "n1"), pod("b", "n3", leaving=True), pod("c")).free_nodes == ["n2"]


def test_a_pod_is_foreseen_only_until_the_watch_has_seen_it() -> None:
    """The answer to a create is older than what the watch delivered meanwhile."""
    ledger = ledger_of(pod("a", "n1"))
    ledger.foresee(pod("a"))
    ledger.foresee(pod("b"))
    assert ledger.bound == 1
    assert len(ledger.members) == 2


def test_the_cases_are_every_bind_at_both_moments_and_half_of_them_with_room_taken() -> None:
    """Each way of declaring a gang comes with and without an owner, with and without room taken."""
    cases = all_cases()
    assert {(case.moment.k, case.moment.when) for case in cases} == {
        (k, when) for k in range(1, SIZE + 1) for when in ("before", "after")
    }
    assert len(cases) == len({case.name for case in cases}) == 2 * SIZE
    assert sum(case.taken for case in cases) == SIZE
    assert len({(case.way, case.owned, case.taken) for case in cases}) == 12
