"""Pods of other schedulers are none of Moorage's business, whatever gang they say they belong to."""

from __future__ import annotations

import pytest

from moorage.core.commands import DeletePod
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import SCHEDULER, Play

ANNOTATIONS = {"moorage.dev/pod-group": "g", "moorage.dev/pod-group-min-available": "3"}


@pytest.mark.parametrize(
    ("of_the_bound", "of_the_waiting", "want_released"),
    [
        pytest.param(SCHEDULER, SCHEDULER, {"a"}, id="all are ours"),
        pytest.param("somebody-else", "somebody-else", set(), id="all are somebody else's"),
        pytest.param("somebody-else", SCHEDULER, set(), id="only the waiting ones are ours"),
    ],
)
def test_a_half_started_gang_is_released_only_by_its_own_scheduler(
    of_the_bound: str, of_the_waiting: str, want_released: set[str]
) -> None:
    """The scheduler that starts the gang right now must not have its members deleted by a bystander."""
    play = Play(GangScheduling())
    play.see(make_node("n1", cpu="1"), make_node("n2", cpu="1"))
    bound = make_pod("a", cpu="1", annotations=ANNOTATIONS, node="n1", owner="crew", scheduler_name=of_the_bound)
    waiting = [make_pod(name, cpu="1", annotations=ANNOTATIONS, scheduler_name=of_the_waiting) for name in "bc"]
    commands = [*play.see(bound, *waiting), *play.wait(60)]
    assert {command.pod.name for command in commands if isinstance(command, DeletePod)} == want_released
