"""Images: an engine that is made of the facts of another decides as that one does, whatever has happened before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from moorage.adapters.journal.frames import segments
from moorage.adapters.journal.replaying import replay
from moorage.core.commands import Bind, DeletePod, PatchObject
from moorage.core.events import DeleteDone, NodeSeen, ObjectSeen, PatchDone, PodGone, PodSeen
from moorage.core.queues import QUEUE
from moorage.testing.builders import make_node, make_pod
from moorage.testing.storage import claims, make_claim, make_class, make_volume
from tests.adapters.journal.recording import REGISTRY, SPREADING, RecordedEngine
from tests.adapters.journal.shadow import ShadowedEngine
from tests.engine import changing_world, extender_machine, plan_histories
from tests.engine.engine_machine import EngineMachine
from tests.engine.extender_machine import ExtenderMachine
from tests.engine.writes import seen
from tests.queues import teams

GUARDED = SPREADING.replace(
    "default-scheduler}",
    "default-scheduler, pluginConfig: [{name: DefaultPreemption, args: {maxEvictionsPerMinute: 1}}]}",
)


@pytest.fixture
def shadowed(tmp_path: Path) -> Iterator[type[ShadowedEngine]]:
    """Engines with shadows, of which there must be some in the end."""
    kind: Any = type("Shadowed", (ShadowedEngine,), {"folder": tmp_path, "rng": Random(7), "made": 0})
    yield kind
    assert kind.made > 1


@pytest.mark.parametrize("seed", range(8))
def test_planned_gangs(seed: int, shadowed: type[ShadowedEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan, units that are not in it, gangs that run."""
    monkeypatch.setattr(plan_histories, "Engine", shadowed)
    plan_histories.History(seed).tell()


@pytest.mark.parametrize("seed", range(4))
def test_other_configurations_on_the_way(
    seed: int, shadowed: type[ShadowedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Binds that were ordered under another configuration are answered under the next one."""
    monkeypatch.setattr("tests.engine.gang_histories.Engine", shadowed)
    changing_world.tell(seed, monkeypatch)


@pytest.mark.parametrize("seed", range(16))
def test_queues(seed: int, shadowed: type[ShadowedEngine], monkeypatch: pytest.MonkeyPatch) -> None:
    """What queues hold, are promised, ask for and expect back."""
    monkeypatch.setattr(teams, "Engine", shadowed)
    draw = Random(seed)
    team, pods = teams.random_teams(draw)
    for pod in pods:
        team.see(pod)
        if draw.random() < 0.5:
            team.come_back()
    team.play([ObjectSeen(QUEUE, "q0", teams.make_queue("q0", 1, parent="d0"))])
    team.rest()


@pytest.mark.parametrize("machine", [EngineMachine, ExtenderMachine], ids=["events of every kind", "extenders"])
def test_random_events(
    machine: type[EngineMachine], shadowed: type[ShadowedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is told in whatever order."""
    monkeypatch.setattr("tests.engine.play.Engine", shadowed)
    monkeypatch.setattr(extender_machine, "Engine", shadowed)
    for room in ("image", "records"):  # there are kinds of the test's own
        monkeypatch.setattr(f"moorage.adapters.journal.{room}.checked_object", lambda *_: None)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8, stateful_step_count=30, deadline=None, derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


def test_a_pod_that_waits_for_its_volume(tmp_path: Path) -> None:
    """What PreBind has written and until when it waits is known after an image too."""
    engine = RecordedEngine(tmp_path)
    claim = make_claim("c", resource_version="1")
    engine.handle([NodeSeen(make_node("n")), ObjectSeen("StorageClass", "wait", make_class()), seen(claim)], 99.0, 32)
    commands, _ = engine.handle([PodSeen(make_pod("p", volumes=claims("c")))], 100.0, 32)
    (command,) = (each for each in commands if isinstance(each, PatchObject))
    for number in range(3):
        engine.journal._next_segment(100.5 + number)
        assert not engine.handle([PatchDone(command, ok=True)], 101.0 + number, 32)[0]
    volume = ObjectSeen("PersistentVolume", "v", make_volume("v"))
    commands, _ = engine.handle([volume, seen(make_claim("c", volume="v", selected_node="n"))], 110.0, 32)
    assert any(isinstance(each, Bind) for each in commands)
    engine.journal.close()
    for path in segments(tmp_path)[:-1]:
        path.unlink()
        rest = replay(tmp_path, REGISTRY)
        assert (rest.differing, rest.binds, rest.warnings) == (0, 1, [])


def test_evictions_of_the_last_minute_count(tmp_path: Path) -> None:
    """The guard against too many evictions, budgets that are in debt, and who is held until a deletion is answered."""
    engine = RecordedEngine(tmp_path, GUARDED)
    engine.handle([NodeSeen(make_node(f"n{number}", cpu="1")) for number in range(3)], 1.0, 32)
    low = [make_pod(f"low{number}", cpu="1", node=f"n{number}", owner="low") for number in range(3)]
    engine.handle([PodSeen(pod) for pod in low], 2.0, 32)
    commands, _ = engine.handle([PodSeen(make_pod("high0", cpu="1", priority=10))], 3.0, 32)
    (evicted,) = (each for each in commands if isinstance(each, DeletePod))
    engine.journal._next_segment(3.5)
    commands, _ = engine.handle([PodSeen(make_pod("high1", cpu="1", priority=10))], 4.0, 32)
    assert not any(isinstance(each, DeletePod) for each in commands), "the guard lets one through in a minute"
    commands, _ = engine.handle([DeleteDone(evicted.pod.uid, ok=True), PodGone(evicted.pod.uid)], 5.0, 32)
    assert any(isinstance(each, Bind) for each in commands)
    commands, _ = engine.handle([], 70.0, 32)
    assert any(isinstance(each, DeletePod) for each in commands)
    engine.journal.close()
    segments(tmp_path)[0].unlink()
    rest = replay(tmp_path, REGISTRY)
    assert (rest.differing, rest.evictions, rest.binds) == (0, 1, 1)
