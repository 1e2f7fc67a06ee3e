"""Engines that are made of an image decide like the one that it was taken of, and so do replays that pass by images.

`MOORAGE_REPLAYED_HISTORIES` says how many random histories are told. A failure names its seed:
`MOORAGE_REPLAYED_SEED=17` tells that history alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moorage.adapters.journal.frames import segments
from moorage.adapters.journal.reader import JournalReader
from moorage.adapters.journal.records import RecordedTurn
from moorage.adapters.journal.replaying import replay
from moorage.core.commands import DeletePod
from moorage.core.events import BindDone, BindOutcome, DeleteDone, NodeSeen, ObjectGone, PodSeen
from moorage.core.pods import Pod, as_pending
from moorage.core.queues import QUEUE
from moorage.testing import make_node
from tests.adapters.journal.recording import REGISTRY, SPREADING, RecordedEngine
from tests.adapters.journal.shadow import ShadowedEngine
from tests.queues import teams
from tests.queues.rough import RoughHistory
from tests.queues.teams import GPU, Teams, make_queue, team_pod

HISTORIES = int(os.environ.get("MOORAGE_REPLAYED_HISTORIES", "6"))
ONLY = os.environ.get("MOORAGE_REPLAYED_SEED")
SEEDS = [int(ONLY)] if ONLY else list(range(HISTORIES))
SHARING = SPREADING.replace("default-scheduler", "moorage")


@pytest.fixture
def shadowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ShadowedEngine]]:
    """Engines with shadows."""
    kind: Any = type("Shadowed", (ShadowedEngine,), {"folder": tmp_path, "rng": Random(7), "made": 0})
    monkeypatch.setattr(teams, "Engine", kind)
    yield kind
    assert kind.made > 0


def test_a_queue_that_went_while_nothing_was_decided(shadowed: type[ShadowedEngine]) -> None:
    """Its pods are looked at again in the next call that decides, even if an image was taken in between."""
    shadowed.share = 0.0
    world = Teams(make_queue("a", 1), make_queue("b", 1))
    world.engine.handle([PodSeen(team_pod("p", "a"))], 1.0, budget=0)
    shadowed.share = 1.0
    world.engine.handle([ObjectGone(QUEUE, "a")], 2.0, budget=0)
    world.engine.handle([], 3.0)


def test_a_moved_pod_that_still_stands_when_its_successor_is_there(shadowed: type[ShadowedEngine]) -> None:
    """It counts no more, whether or not an image was taken since: its successor does."""
    shadowed.share = 0.0
    world = Teams(make_queue("a", 8), nodes=(4, 4))
    world.see(*(team_pod(f"p{number}", "a", 2, created_s=float(number)) for number in range(4)))
    first_on: dict[str, Pod] = {}
    for record in list(world.engine.state.records()):
        first_on.setdefault(record.node, record.pod)
    for pod in first_on.values():
        world.end(pod)
    commands, _ = world.engine.handle([PodSeen(team_pod("big", "a", 4, created_s=9.0))], 1.0)
    (uid,) = (command.pod.uid for command in commands if isinstance(command, DeletePod))
    moved = world.echo.pods[uid]
    world.engine.handle([DeleteDone(uid, ok=True)], 1.1)
    shadowed.share = 1.0
    world.engine.handle([PodSeen(replace(as_pending(moved), uid=f"{uid}'"))], 1.2)
    shadow = world.engine.shadow  # type: ignore[attr-defined]
    assert not world.engine.state.queues.counts(uid)
    assert not shadow.state.queues.counts(uid)


def test_which_of_more_resources_than_count_do(shadowed: type[ShadowedEngine]) -> None:
    """Not those that were asked for first: an engine made of an image learns of pods in another order."""
    shadowed.share = 0.0
    devices = [f"example.com/d{number}" for number in range(33)]
    world = Teams(make_queue("a"), make_queue("b"), make_queue("c"), nodes=())
    offers = {GPU: 8} | dict.fromkeys(devices, 8)
    world.engine.handle([NodeSeen(make_node("n", cpu="64", memory="64Gi", resources=offers))], 0.5)
    world.see(team_pod("huge", "a", requests={GPU: 100} | dict.fromkeys(devices[:32], 1)))
    world.see(team_pod("last", "a", requests={GPU: 1, devices[32]: 8}, created_s=1.0))
    world.see(*(team_pod(f"{queue}{n}", queue, 2, created_s=2.0) for n, queue in enumerate("bcc")))
    shadowed.share = 1.0
    world.engine.handle([], world.now + 1.0)
    shadowed.share = 0.0
    world.engine.handle([PodSeen(team_pod(f"next{queue}", queue, created_s=9.0)) for queue in "ab"], world.now + 2.0)


def test_templates_stay_the_same_from_one_segment_to_the_next(tmp_path: Path) -> None:
    """They are told apart by identity: a replay that goes on would take pods that are alike for different ones."""
    engine, pod = RecordedEngine(tmp_path, SHARING), team_pod("p", "a")
    for number in range(3):
        engine.handle([PodSeen(replace(pod, uid=f"p{number}", name=f"p{number}"))], 1.0 + number)
        engine.journal._next_segment(1.5 + number)
    engine.journal.close()
    turns = [record for record in JournalReader(tmp_path).records() if isinstance(record, RecordedTurn)]
    templates = [event.pod.template for turn in turns for event in turn.events if isinstance(event, PodSeen)]
    assert len(templates) == 3
    assert len({id(template) for template in templates}) == 1


def test_a_replay_passes_by_an_image_as_the_scheduler_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that waits for a bind waits anew after an image, in the process that takes it, too."""
    engine = RecordedEngine(tmp_path, SHARING)
    monkeypatch.setattr(teams, "Engine", lambda _: engine)
    Teams(make_queue("a"), make_queue("b", 2), nodes=(2,))
    engine.handle([PodSeen(team_pod("a1", "a")), PodSeen(team_pod("a2", "a", created_s=1.0))], -10.0)
    bound = replace(team_pod("a1", "a"), node="n0")
    engine.handle([BindDone(bound.uid, BindOutcome.BOUND, "n0"), PodSeen(bound)], -9.9)
    engine.handle([PodSeen(team_pod("b1", "b", created_s=2.0))], 1.0)
    engine.journal._next_segment(1.5)
    evictions = [any(isinstance(each, DeletePod) for each in engine.handle([], at_s)[0]) for at_s in (1.6, 2.1, 2.7)]
    assert evictions == [False, False, True]
    engine.journal.close()
    whole = replay(tmp_path, REGISTRY)
    assert (whole.differing, whole.differences, whole.evictions) == (0, [], 1)


@pytest.mark.timeout(120 + 30 * HISTORIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_images_of_rough_histories(seed: int, shadowed: type[ShadowedEngine]) -> None:
    """Answers are late or say no, calls end early, queues come and go: the same commands and times of the next call."""
    shadowed.rng, shadowed.share = Random(seed), 0.15
    RoughHistory(seed).tell()


@pytest.mark.timeout(120 + 30 * HISTORIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_journals_of_rough_histories(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are replayed exactly from their beginning, past all images, and from an image."""
    draw, engine = Random(seed), RecordedEngine(tmp_path, SHARING)

    def perhaps_a_new_segment(now: float) -> None:
        if draw.random() < 0.15:
            engine.journal._next_segment(now)

    engine.after_turn = perhaps_a_new_segment
    monkeypatch.setattr(teams, "Engine", lambda _: engine)
    RoughHistory(seed).tell()
    engine.journal.close()
    whole = replay(tmp_path, REGISTRY)
    assert (whole.differing, whole.differences, whole.warnings) == (0, [], [])
    paths = segments(tmp_path)
    for path in paths[: len(paths) // 2]:
        path.unlink()
    rest = replay(tmp_path, REGISTRY)
    assert (rest.differing, rest.differences, rest.warnings) == (0, [], [])
