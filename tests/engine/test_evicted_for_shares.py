"""A pod that is evicted for a share is told for which queue, in its condition and in its event."""

from __future__ import annotations

from moorage.core.commands import Command, DeletePod, RecordEvent
from moorage.core.events import DeleteDone, Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.queues import QUEUE, Queue, ResourceShare
from moorage.engine.engine import Engine
from moorage.testing.builders import make_node, make_pod
from tests.sim.whatif_rules import default_rules

GPU = "nvidia.com/gpu"


def _pod(name: str, of: str, node: str | None = None) -> Event:
    return PodSeen(make_pod(name, labels={"moorage.dev/queue": of}, node=node, requests={GPU: 1}))


def test_the_queue_is_named() -> None:
    """By whom, on which node, and for which queue."""
    engine = Engine(default_rules().profiles, answers_to_all=True)
    node = NodeSeen(make_node("n1", resources={GPU: 2}))
    quota = FrozenDict({GPU: ResourceShare(1000)})
    queues = [ObjectSeen(QUEUE, name, Queue(name, f"uid-{name}", resources=quota)) for name in ("a", "b")]
    engine.handle([node, *queues, *(_pod(f"b-{number}", "b", "n1") for number in range(2))], 0.0)
    commands: list[Command] = list(engine.handle([_pod("a-0", "a")], 1.0)[0])
    evicted = [each for each in commands if isinstance(each, DeletePod)]
    assert [(each.pod.name, each.message.partition(": ")[2]) for each in evicted] == [
        (evicted[0].pod.name, f"reclaimed for queue a, as queue b had 2 {GPU} and its fair share is 1")
    ]
    told = engine.handle([DeleteDone(evicted[0].pod.uid, ok=True)], 2.0)[0]
    notes = [each.note for each in told if isinstance(each, RecordEvent) and each.reason == "Preempted"]
    assert len(notes) == 1
    assert notes[0].endswith(f"on node n1: reclaimed for queue a, as queue b had 2 {GPU} and its fair share is 1")


def test_the_department_is_named() -> None:
    """It counts where the paths of the two queues part there."""
    engine = Engine(default_rules().profiles, answers_to_all=True)
    node = NodeSeen(make_node("n1", resources={GPU: 2}))
    tree = {"d": ("", 1), "b": ("d", 0), "a": ("", 1)}
    queues = [
        ObjectSeen(QUEUE, name, Queue(name, name, parent, resources=FrozenDict({GPU: ResourceShare(1000 * quota, 0)})))
        for name, (parent, quota) in tree.items()
    ]
    engine.handle([node, *queues, *(_pod(f"b-{number}", "b", "n1") for number in range(2))], 0.0)
    commands: list[Command] = list(engine.handle([_pod("a-0", "a")], 1.0)[0])
    (message,) = (each.message for each in commands if isinstance(each, DeletePod))
    assert message.endswith(f"reclaimed for queue a, as queue d had 2 {GPU} and its fair share is 1")
