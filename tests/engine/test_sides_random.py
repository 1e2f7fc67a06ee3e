"""Random histories in which trials begin, change and end: nobody is lost, and everything that fits is placed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from moorage.core.events import NodeGone, NodeSeen, ObjectSeen, PodGone, TrialRecalled, TrialRefused
from moorage.core.frozen import FrozenDict
from moorage.core.objects import NAMESPACE, Namespace
from moorage.core.selectors import selector_from_labels
from moorage.framework.status import Hold
from moorage.framework.trying import TrialConfiguration, TrialPods
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing import make_node
from tests.engine.actors import Permitter
from tests.engine.trialplays import Only, TrialPlay, trial

CHOICES = (
    TrialPods(("new",)),
    TrialPods(workload_percent=40.0),
    TrialPods((), selector_from_labels({"ring": "first"}), 70.0),
    TrialPods(workload_percent=100.0),
)


def some_trial(rng: Random) -> TrialConfiguration:
    hold = Permitter(lambda cycle: Hold(cycle.now + 5) if len(cycle.pod.name) % 2 else None)
    plugins = rng.choice(
        ([GangScheduling(), DefaultPreemption()], [Only("n0"), DefaultPreemption()], [GangScheduling(), hold], [])
    )
    return trial(
        *plugins, pods=rng.choice(CHOICES), duration_s=rng.choice((20.0, 200.0, 5000.0)), name=f"t{rng.randrange(3)}"
    )


def step(play: TrialPlay, rng: Random, number: int) -> None:
    namespace = rng.choice(("new", "old"))
    match rng.randrange(12):
        case 0 | 1 | 2 | 3:
            names = [f"p{number}-{each}" for each in range(rng.randrange(1, 5))]
            play.create(namespace, names, cpu=rng.choice(("1", "3")), priority=rng.choice((0, 0, 10)))
        case 4:
            size = rng.randrange(2, 4)
            terms = {"moorage.dev/pod-group": f"g{number}", "moorage.dev/pod-group-min-available": str(size)}
            play.create(namespace, [f"g{number}-{each}" for each in range(size)], annotations=terms)
        case 5:
            play.reconfigure(rng.choice((None, play.settings.trial, some_trial(rng))))
        case 6:
            play.tell(TrialRefused("broken"))
        case 7:
            record = play.engine.sides.snapshot(play.now)
            play.tell(TrialRecalled(rng.choice((None, record))))
        case 8:
            label = FrozenDict({"ring": rng.choice(("first", "second"))})
            play.tell(ObjectSeen(NAMESPACE, namespace, Namespace(namespace, label)))
        case 9:
            play.failing ^= {namespace}
        case 10 if play.pods:
            play.tell(PodGone(rng.choice(sorted(play.pods))))
        case _:
            node = f"n{rng.randrange(3)}"
            gone = rng.random() < 0.3 and not any(pod.node == node for pod in play.pods.values())
            play.tell(NodeGone(node) if gone else NodeSeen(make_node(node, cpu=rng.choice(("4", "8")))))
    play.wait(rng.choice((0.0, 1.0, 12.0, 40.0)))


@pytest.mark.parametrize("seed", range(8))
def test_nobody_is_lost_whatever_trials_do(seed: int) -> None:
    """The engine's invariants hold after every call; with room and without a trial, everything is placed at last."""
    rng = Random(seed)
    play = TrialPlay(some_trial(rng), GangScheduling(), DefaultPreemption())
    for number in range(60):
        step(play, rng, number)
    play.failing.clear()
    play.reconfigure(replace(trial(), name="end") if rng.random() < 0.5 else None)
    play.tell(*(NodeSeen(make_node(f"large{number}", cpu="500")) for number in range(3)))
    play.wait(700)
    waiting = {key for key, pod in play.pods.items() if pod.node is None}
    assert {key for key in waiting if "/p" in key} == set(), (
        "a gang may have lost members, single pods wait for nothing"
    )
