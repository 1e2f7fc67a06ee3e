"""What queues have and may have over time: for the largest of them."""

from __future__ import annotations

from typing import Any

from moorage.core.events import NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.queues import QUEUE, Queue, ResourceShare
from moorage.testing.builders import make_node, make_pod
from moorage.views.queueseries import MOST_QUEUES, MOST_RESOURCES
from moorage.views.world import Told
from tests.views.test_series import GPU, T, charts, world_of


def queue(name: str, *resources: str) -> Told:
    shares = FrozenDict({each: ResourceShare(1000) for each in resources or (GPU,)})
    return ObjectSeen(QUEUE, name, Queue(name, f"uid-{name}", resources=shares))


def pod(name: str, of: str, gpus: int, node: str | None = None, resource: str = GPU) -> Told:
    return PodSeen(make_pod(name, labels={"moorage.dev/queue": of}, node=node, requests={resource: gpus}, created_s=T))


def shown(found: dict[str, Any]) -> dict[str, tuple[list[float | None], list[float | None]]]:
    return {each["name"]: (each["used"], each["share"]) for each in found["queues"]}


def test_use_and_share_second_by_second() -> None:
    """A queue that has lost everything shows so; without queues there is nothing."""
    first = pod("p", "a", 2, "n1")
    assert isinstance(first, PodSeen)
    world = world_of([queue("a"), queue("b"), first], [pod("q", "b", 1)], [PodGone(first.pod.uid)], [])
    found = shown(charts(world, T + 4.5))
    assert found == {
        f"{GPU} a": ([None, 2, 2, 0, 0], [None, 2, 1, 0, 0]),
        f"{GPU} b": ([None, None, 0, 0, 0], [None, None, 1, 1, 1]),
    }
    assert shown(charts(world_of([]), T + 1.5)) == {}


def test_there_are_only_so_many() -> None:
    """Queues that ask for most; one that has a line keeps it while it asks for anything."""
    many = MOST_QUEUES + 3
    node = NodeSeen(make_node("large", resources={f"example.com/r{n}": "99" for n in range(9)}))
    world = world_of(
        [node, queue("first"), pod("small", "first", 1)],
        [each for n in range(many) for each in (queue(f"q{n}"), pod(f"p{n}", f"q{n}", 2 + n))],
        [each for n in range(9) for each in (queue(f"r{n}", f"example.com/r{n}"),)],
        [pod(f"x{n}", f"r{n}", 1, resource=f"example.com/r{n}") for n in range(9)],
    )
    names = list(shown(charts(world, T + 6.5)))
    of_gpus = [name.removeprefix(f"{GPU} ") for name in names if name.startswith(GPU)]
    assert sorted(of_gpus) == ["first", *(f"q{n}" for n in range(many - MOST_QUEUES + 1, many))]
    assert len({name.split()[0] for name in names}) == MOST_RESOURCES


def test_resources_that_come_and_go_do_not_add_up() -> None:
    """Of those that nobody asks for any more, the ones that came first are forgotten."""
    resources = [f"example.com/r{n}" for n in range(9)]
    steps: list[list[Told]] = [[NodeSeen(make_node("large", resources=dict.fromkeys(resources, "99")))]]
    for name in resources:
        asking = pod("p", "a", 1, resource=name)
        assert isinstance(asking, PodSeen)
        steps += [[queue("a", name), asking], [PodGone(asking.pod.uid)]]
    names = list(shown(charts(world_of(*steps), T + len(steps) + 0.5)))
    assert names == [f"{name} a" for name in resources[-MOST_RESOURCES:]]
