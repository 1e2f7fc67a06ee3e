"""A trial in a journal: its beginning is an event, its end follows from the calls, and a replay decides the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from moorage.adapters.journal.frames import segments
from moorage.adapters.journal.reader import JournalReader
from moorage.adapters.journal.replaying import Player, replay
from moorage.core.commands import Bind, Command
from moorage.core.events import BindDone, BindOutcome, Event, NodeSeen, PodSeen, TrialRecalled, TrialRefused
from moorage.core.pods import Pod, on_node
from moorage.core.trials import TrialPhase
from moorage.testing import make_node, make_pod
from tests.adapters.journal.recording import REGISTRY, SPREADING, RecordedEngine

TRIAL = """---
apiVersion: moorage.dev/v1alpha1
kind: TrialConfiguration
pods: {{workloadPercent: 50}}
duration: {duration}
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - {{name: NodeResourcesFit, args: {{scoringStrategy: {{type: MostAllocated}}}}}}
worse: {{minSamples: 3, for: 10s}}
"""


class History:
    """A recorded engine whose binds succeed, mostly."""

    def __init__(self, folder: Path, duration: str = "300s") -> None:
        self.text = SPREADING + TRIAL.format(duration=duration)
        self.engine = RecordedEngine(folder, self.text)
        self.now = 1000.0
        self.pods: dict[str, Pod] = {}
        self.tell(*(NodeSeen(make_node(f"n{number}", cpu="6")) for number in range(6)), budget=0)

    def tell(self, *events: Event, budget: int = 64) -> None:
        waiting = list(events)
        for _ in range(20):
            self.pods |= {event.pod.uid: event.pod for event in waiting if isinstance(event, PodSeen)}
            commands, _ = self.engine.handle(waiting, self.now, budget)
            waiting = [answer for command in commands for answer in self._answers(command)]
            if not waiting:
                return

    def _answers(self, command: Command) -> list[Event]:
        if not isinstance(command, Bind):
            return []
        uid = command.pod.uid
        if sum(uid.encode()) % 9 == 0 and self.now < 1100:
            return [BindDone(uid, BindOutcome.FAILED, command.node, "no")]
        return [BindDone(uid, BindOutcome.BOUND, command.node), PodSeen(on_node(self.pods[uid], command.node))]

    def play(self, rng: Random, turns: int, *, segments: bool) -> None:
        for turn in range(turns):
            self.now += rng.choice((0.5, 3.0, 7.0))
            made = [
                make_pod(f"p{turn}-{number}", cpu=rng.choice(("500m", "1")), created_s=self.now)
                for number in range(rng.randrange(4))
            ]
            self.tell(*map(PodSeen, made))
            if segments and rng.random() < 0.2:
                self.engine.journal._next_segment(self.now)


@pytest.mark.parametrize("seed", range(6))
def test_a_replay_of_a_trial_decides_the_same(tmp_path: Path, seed: int) -> None:
    """From the beginning, and from an image in the middle of it, whether it runs or has ended by then."""
    rng = Random(seed)
    history = History(tmp_path, duration=rng.choice(("40s", "1h")))
    history.tell(TrialRecalled())
    history.play(rng, 12, segments=True)
    if seed % 3 == 1:
        history.tell(TrialRefused("broken"))
    elif seed % 3 == 2:
        history.engine.reconfigure(history.text.replace("minSamples: 3", "minSamples: 5"), history.now)
        history.tell(*map(PodSeen, history.pods.values()))
    history.play(rng, 12, segments=True)
    history.engine.journal.close()
    assert history.engine.journal.failures == 0
    whole = replay(tmp_path, REGISTRY)
    assert (whole.differing, whole.differences) == (0, [])
    assert whole.binds > 10
    for path in segments(tmp_path)[:-1]:
        path.unlink()
    assert replay(tmp_path, REGISTRY).differing == 0


def test_the_replayed_trial_is_the_recorded_one(tmp_path: Path) -> None:
    """Its end, its counts and the sides of pods, too."""
    history = History(tmp_path, duration="60s")
    history.tell(TrialRecalled())
    history.play(Random(1), 20, segments=False)
    history.engine.journal.close()
    player = Player(REGISTRY, "")
    for record in JournalReader(tmp_path).records():
        player.play(record)
    assert player.engine is not None
    recorded = history.engine.engine.sides.snapshot(history.now)
    assert recorded is not None
    assert recorded.phase is TrialPhase.ENDED
    assert player.engine.sides.snapshot(history.now) == recorded


def test_a_recalled_record_is_in_the_journal(tmp_path: Path) -> None:
    """The next leader's journal begins with what the leader before had left."""
    first = History(tmp_path / "first")
    first.tell(TrialRecalled())
    first.play(Random(2), 6, segments=False)
    kept = first.engine.engine.sides.snapshot(first.now)
    assert kept is not None
    second = History(tmp_path / "second")
    second.tell(TrialRecalled(replace(kept, message="a note")))
    second.play(Random(3), 6, segments=False)
    second.engine.journal.close()
    assert replay(tmp_path / "second", REGISTRY).differing == 0
