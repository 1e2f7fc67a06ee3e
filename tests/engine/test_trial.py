"""What-ifs ask Reserve as attempts do, and leave what plugins hold as it was."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest

from moorage.core.disruption.ledger import BUDGET
from moorage.core.objects import PodDisruptionBudget
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.status import Hold, Status, unschedulable
from moorage.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from moorage.testing import make_node, make_pod
from tests.engine.actors import Permitter
from tests.engine.play import Play


class Tickets(Plugin):
    """There are so many tickets, and every pod needs one."""

    name: ClassVar[str] = "Tickets"

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self.held: dict[str, str] = {}

    def reserve(self, cycle: Cycle, row: int) -> Status | None:
        if len(self.held) >= self._count:
            return unschedulable("no ticket left")
        self.held[cycle.pod.name] = cycle.state.node(row).name
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002 - part of the interface
        self.held.pop(cycle.pod.name, None)


def test_what_a_pod_reserves_in_a_what_if_is_missing_for_the_next_one() -> None:
    """And it is given back with the statement."""
    tickets = Tickets(1)
    play = Play(tickets)
    play.see(make_node("n1"), make_node("n2"))
    trial = play.engine.trial(play.now)
    with play.engine.state.statement():
        assert trial.place(make_pod("a")) is not None
        assert trial.place(make_pod("b")) is None
        assert list(tickets.held) == ["a"]
    assert tickets.held == {}
    assert play.engine.state.records() == []
    with play.engine.state.statement():
        assert trial.place(make_pod("b")) is not None


def test_what_is_reserved_for_a_pod_on_its_way_stays() -> None:
    """A what-if about it neither needs a second ticket nor gives the first one back."""
    tickets = Tickets(1)
    play = Play(tickets, Permitter(lambda _: Hold(1e9)))
    pod = make_pod("a")
    play.see(make_node("n1"), pod)
    assert tickets.held == {"a": "n1"}
    with play.engine.state.statement():
        play.engine.state.remove_pod(pod.uid)
        assert play.engine.trial(play.now).place(pod) is not None
    assert tickets.held == {"a": "n1"}
    play.check()


@pytest.mark.parametrize("policy", ["BestEffort", "Strict"])
def test_evictions_of_a_what_if_do_not_count(policy: Literal["BestEffort", "Strict"]) -> None:
    """Neither for the limit per minute, nor as debts of a disruption budget: the same question has the same answer."""
    play = Play(DefaultPreemption(DefaultPreemptionArgs(max_evictions_per_minute=1, pdb_policy=policy)))
    play.see(make_node("n1", cpu="4"), make_pod("low", cpu="4", node="n1", labels={"app": "low"}))
    selector = Selector((Requirement("app", Operator.IN, ("low",)),))
    play.object_seen(BUDGET, "default/b", PodDisruptionBudget("default", "b", selector, disruptions_allowed=1))
    pod, state = make_pod("high", cpu="4", priority=10), play.engine.state
    for _ in range(2):
        with state.statement():
            trial, runner = play.engine.trial(play.now), play.engine.runner_of(pod)
            assert runner is not None
            cycle = trial.cycle(pod)
            _, victims = trial.make_room(runner, cycle, runner.judge(cycle, state.rows()))
            assert [record.pod.name for record in victims] == ["low"]
    play.see(pod)
    assert play.deletions == ["low"]
