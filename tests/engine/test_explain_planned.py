"""What is said of a waiting pod of a planned profile is what the plan would do, other waiting units included."""

from __future__ import annotations

import pytest

from moorage.core.events import Event, NodeSeen, PodSeen
from moorage.core.pods import Pod
from moorage.engine.opinion import Opinion, form_opinion
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import Profile
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.one_pod_per_node import OnePodPerNode
from moorage.plugins.plan_sort import PlanSort
from moorage.testing.builders import make_node, make_pod
from moorage.views.podpage import pod_page
from moorage.views.world import World
from tests.engine.play import SCHEDULER, small_profile
from tests.framework.readers import make_profile

GANG = {"pod-group": "g", "moorage.dev/pod-group-min-available": "3"}
LEFT_OUT = "0/2 nodes are available: units that come first in the plan leave it too few of them."
TOO_LARGE = "0/2 nodes are available: the unit needs 3, one for each of its pods, and the plan has 2 to give."


def planner() -> Profile:
    """Every pod takes a node of its own."""
    usual = [plugin.make() for plugin in small_profile().plugins if plugin.name != "PrioritySort"]
    planned = [PlanSort(), NodeUnschedulable(), OnePodPerNode(), GangScheduling(), DefaultPreemption()]
    return make_profile([*usual, *planned], scheduler_name=SCHEDULER)


def cluster() -> list[Event]:
    """Two nodes, one of them taken by a pod that comes last, and more units than nodes."""
    pods = [make_pod("low", priority=1, node="n1"), make_pod("mid", priority=5), make_pod("high", priority=9)]
    pods += [make_pod("top", priority=10)]
    pods += [make_pod(f"g{number}", priority=20, annotations=GANG) for number in range(3)]
    return [*(NodeSeen(make_node(name)) for name in ("n1", "n2")), *map(PodSeen, pods)]


def pod_of(name: str) -> Pod:
    return next(event.pod for event in cluster() if isinstance(event, PodSeen) and event.pod.name == name)


def opinion(name: str) -> Opinion:
    world = [event for event in cluster() if not (isinstance(event, PodSeen) and event.pod.name == name)]
    return form_opinion([planner()], EngineSettings(), world, pod_of(name), 1000.0)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("mid", (None, None, (), LEFT_OUT), id="not in the plan"),
        pytest.param("g1", (None, None, (), TOO_LARGE), id="a gang larger than the cluster"),
        pytest.param("top", ("n2", None, (), None), id="gets the free node"),
    ],
)
def test_explain_says_what_the_plan_gives(
    name: str, want: tuple[str | None, str | None, tuple[str, ...], str | None]
) -> None:
    found = opinion(name)
    assert (found.node, found.nominated_node, found.victims, found.message) == want


def test_explain_names_the_units_that_come_first_and_judges_every_node() -> None:
    found = opinion("mid")
    assert found.arriving == (
        "units that come first in the plan: pod default/top (priority 10), pod default/high (priority 9)",
    )
    assert set(found.nodes) == {"n1", "n2"}


def test_explain_says_who_is_evicted() -> None:
    """The more important unit takes the free node, so this one takes that of the pod that comes last."""
    found = opinion("high")
    assert (found.node, found.nominated_node, found.victims) == (None, "n1", ("default/low",))


@pytest.mark.parametrize(("name", "want"), [("mid", LEFT_OUT), ("g1", TOO_LARGE)])
def test_the_page_of_a_pod_names_no_node_that_the_plan_does_not_give(name: str, want: str) -> None:
    world = World([planner()])
    world.tell(cluster(), 1000.0)
    page = pod_page(world, pod_of(name), 1000.0)
    assert (page["verdict"], page["judged"]) == (want, False)
