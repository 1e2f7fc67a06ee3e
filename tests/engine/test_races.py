"""Two schedulers that bind to one node at the same moment: told with an event, and not made worse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from moorage.core.commands import RecordEvent
from moorage.core.pods import Pod
from moorage.engine.races import overcommitted_count
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.testing.builders import make_node, make_pod
from tests.engine.play import Play


@pytest.fixture
def play() -> Iterator[Play]:
    play = Play(NodeResourcesFit())
    play.see(make_node("n0", cpu="2", pods=3))
    yield play
    play.check()


def foreign(name: str, cpu: str = "2") -> Pod:
    """A pod that another scheduler has just bound."""
    return replace(make_pod(name, cpu=cpu, node="n0", scheduler_name="another-scheduler"), phase="Pending")


def told(play: Play) -> dict[str, str]:
    return {event.pod.name: event.note for event in play.of(RecordEvent) if event.reason == "Overcommitted"}


def test_a_race_is_told_once_and_not_made_worse(play: Play) -> None:
    """Ours is on its way when theirs is seen there; what comes next waits."""
    play.see(make_pod("ours", cpu="1"))
    assert play.binds == {"ours": "n0"}
    theirs = foreign("theirs")
    play.see(theirs)
    said = told(play)
    assert list(said) == ["theirs"]
    assert said["theirs"].startswith("Node n0 has 2 of cpu and pods that request 3: ")
    assert overcommitted_count(play.engine.state) == 1
    play.see(replace(theirs, generation=2), make_pod("next", cpu="100m"))
    assert told(play) == {}
    assert play.binds == {}
    play.pod_gone("theirs")
    assert overcommitted_count(play.engine.state) == 0


def test_what_fits_or_has_run_for_long_is_nothing_to_tell(play: Play) -> None:
    """A pod within the room, one that runs already, and one that comes when the node is too full anyway."""
    play.see(foreign("small", cpu="1"))
    assert told(play) == {}
    play.see(replace(foreign("runs"), phase="Running"))
    assert told(play) == {}
    assert overcommitted_count(play.engine.state) == 1
    play.see(foreign("more"))
    assert told(play) == {}


def test_the_number_of_pods_counts_too(play: Play) -> None:
    play.see(*(foreign(f"p{number}", cpu="0") for number in range(4)))
    assert list(told(play)) == ["p3"]
