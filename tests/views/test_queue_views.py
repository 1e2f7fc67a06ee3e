"""What views make of queues: metrics with a bound, and status that is written when it changes."""

from __future__ import annotations

from typing import Any

from moorage.adapters.metrics.queues import MOST_QUEUES, queue_families
from moorage.core.commands import PatchObject
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.queues import QUEUE, Queue, ResourceShare
from moorage.engine.engine import Engine
from moorage.testing.builders import make_node, make_pod
from moorage.views.queuestatus import MOST_WRITES, QueueStatuses
from moorage.views.queuetree import accounts_of
from tests.sim.whatif_rules import default_rules

GPU = "nvidia.com/gpu"
NOW_S = 1_000.0


def queue(name: str, parent: str = "", quota: int = 0) -> Event:
    value = Queue(name, f"uid-{name}", parent, resources=FrozenDict({GPU: ResourceShare(1000 * quota)}), generation=3)
    return ObjectSeen(QUEUE, name, value)


def pod(name: str, of: str, gpus: int, node: str | None = None) -> Event:
    return PodSeen(make_pod(name, labels={"moorage.dev/queue": of}, node=node, requests={GPU: gpus}, cpu="500m"))


def engine_of(*events: Event) -> Engine:
    engine = Engine(default_rules().profiles, answers_to_all=True)
    told(engine, NodeSeen(make_node("n1", cpu="8", resources={GPU: "4"})), *events)
    return engine


def told(engine: Engine, *events: Event) -> None:
    engine.handle(list(events), 0.0, budget=0)


def samples(engine: Engine) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in queue_families(engine)
        for sample in family.samples
    }


def statuses(commands: list[PatchObject]) -> dict[str, Any]:
    return {command.name: command.patch["status"] for command in commands}


def test_metrics_are_in_cores_and_pieces() -> None:
    """What is held, what is waited for, and the share; a queue above has what those below it have."""
    found = samples(engine_of(queue("all"), queue("a", "all", 1), pod("p", "a", 1, "n1"), pod("q", "a", 8)))
    assert found["moorage_queues",] == 2
    assert found["moorage_queue_allocated", "a", GPU] == found["moorage_queue_allocated", "all", GPU] == 1
    assert found["moorage_queue_allocated", "a", "cpu"] == 0.5
    assert found["moorage_queue_waiting", "a", GPU] == 8
    assert found["moorage_queue_fair_share", "a", GPU] == 4


def test_without_queues_there_are_no_metrics() -> None:
    """Not even their number."""
    assert samples(engine_of(pod("p", "a", 1))) == {}


def test_metrics_have_a_bound() -> None:
    """However many queues a tenant makes; those that are used have theirs."""
    idle = [queue(f"idle-{number:04}") for number in range(2 * MOST_QUEUES)]
    found = samples(engine_of(*idle, queue("used"), pod("p", "used", 1)))
    named = {labels[1] for labels in found if len(labels) > 1}
    assert len(named) == MOST_QUEUES
    assert "used" in named
    assert found["moorage_queues",] == 2 * MOST_QUEUES + 1


def test_a_status_says_what_a_queue_has() -> None:
    """Amounts, the generation that it is about, and whether it can be used."""
    engine = engine_of(queue("a", quota=1), queue("b", "nowhere"), pod("p", "a", 1, "n1"), pod("q", "a", 8))
    found = statuses(QueueStatuses(engine.state).plan(accounts_of(engine), NOW_S))
    assert found["a"]["allocated"] == {"cpu": "500m", GPU: "1"}
    assert found["a"]["fairShare"] == {"cpu": "1", GPU: "4"}
    assert found["a"]["waiting"] == {"cpu": "500m", GPU: "8"}
    assert found["a"]["observedGeneration"] == 3
    ready = {name: [(each["type"], each["status"]) for each in status["conditions"]] for name, status in found.items()}
    assert ready == {"a": [("Ready", "True")], "b": [("Ready", "False")]}


def test_a_status_is_written_when_it_changes() -> None:
    """And again if the write failed, or the queue is another one of the same name."""
    engine = engine_of(queue("a"), queue("b"), pod("p", "a", 1, "n1"))
    written = QueueStatuses(engine.state)
    assert [each.name for each in written.plan(accounts_of(engine), NOW_S)] == ["a", "b"]
    assert written.plan(accounts_of(engine), NOW_S) == []
    written.failed("b")
    assert [each.name for each in written.plan(accounts_of(engine), NOW_S)] == ["b"]
    told(engine, PodGone(next(iter(engine.state.records())).pod.uid))
    assert [each.name for each in written.plan(accounts_of(engine), NOW_S)] == ["a"]
    told(engine, ObjectSeen(QUEUE, "b", Queue("b", "another")))
    (command,) = written.plan(accounts_of(engine), NOW_S)
    assert (command.name, command.uid, command.subresource) == ("b", "another", "status")


def test_a_condition_says_since_when_it_holds() -> None:
    """What the object said before this process wrote is kept while it holds; what changes begins now."""
    engine = engine_of(queue("a"), queue("b", "nowhere"))
    before = "2020-02-02T02:02:02Z"
    written = QueueStatuses(engine.state, {"a": ("True", before), "b": ("True", before)})
    since = {name: each["conditions"][0]["lastTransitionTime"] for name, each in _planned(written, engine).items()}
    assert since == {"a": before, "b": "1970-01-01T00:16:40Z"}
    told(engine, ObjectSeen(QUEUE, "b", Queue("b")))
    (found,) = _planned(written, engine, NOW_S + 60).values()
    assert (found["conditions"][0]["status"], found["conditions"][0]["lastTransitionTime"]) == (
        "True",
        "1970-01-01T00:17:40Z",
    )
    assert _planned(written, engine, NOW_S + 120) == {}


def _planned(written: QueueStatuses, engine: Engine, now_s: float = NOW_S) -> dict[str, Any]:
    return statuses(written.plan(accounts_of(engine), now_s))


def test_writes_of_status_have_a_bound() -> None:
    """Those that had to wait come first; all get their turn."""
    engine = engine_of(*(queue(f"q-{number:03}") for number in range(2 * MOST_WRITES + 1)))
    written = QueueStatuses(engine.state)
    rounds = [[each.name for each in written.plan(accounts_of(engine), NOW_S)] for _ in range(4)]
    assert [len(each) for each in rounds] == [MOST_WRITES, MOST_WRITES, 1, 0]
    assert len({name for each in rounds for name in each}) == 2 * MOST_WRITES + 1
