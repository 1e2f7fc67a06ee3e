"""Leaders that are killed in the middle of a reclaim: the next one evicts what is still missing, and nothing else."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from moorage.core.commands import Command, DeletePod, PatchPodStatus
from moorage.core.echo import Echo
from moorage.core.events import DeleteDone, Event, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.queues import QUEUE
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing import make_node
from tests.queues.teams import GPU, Teams, make_queue, team_pod

SEEDS = 8
PODS, RECLAIMED, LEADERS, PER_NODE = 24, 8, 4, 6
_MOST_TURNS = 500
_QUIET_S = 100.0
"""Longer than evicted pods are expected back."""


class Reign:
    """A cluster full of pods of team b, of which team a takes back its quota from leader to leader."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 100.0
        self.deleted: set[str] = set()
        self.queues = [make_queue("a", RECLAIMED), make_queue("b", PODS - RECLAIMED)]
        self.nodes = [f"n{number}" for number in range(PODS // PER_NODE)]
        running = [
            replace(team_pod(f"b{n}", "b"), node=self.nodes[n % len(self.nodes)], started_s=0.0) for n in range(PODS)
        ]
        self.echo = Echo([*running, *(team_pod(f"a{n}", "a", created_s=1.0) for n in range(RECLAIMED))])

    def lead(self, steps: int | None) -> None:
        """A leader that knows what the cluster shows, until so many commands were carried out or nothing happens."""
        engine = Engine(build_profiles(Configuration(), Registry(BUILTIN)))
        events: list[Event] = [ObjectSeen(QUEUE, queue.name, queue) for queue in self.queues]
        events += [NodeSeen(make_node(name, cpu="64", memory="64Gi", resources={GPU: PER_NODE})) for name in self.nodes]
        live = [pod for uid, pod in self.echo.pods.items() if uid not in self.deleted]
        events += [PodSeen(pod) for pod in self.draw.sample(live, len(live))]
        ordered, last_s = list[Command](), self.now
        for _ in range(_MOST_TURNS):
            commands, next_s = engine.handle(events, self.now)
            ordered += commands
            events = []
            self.now += 0.01
            for _ in range(self.draw.randint(1, len(ordered)) if ordered else 0):
                uid = self.draw.choice(ordered).pod.uid  # only what is about one pod is in order
                events += self._carry_out(ordered.pop([each.pod.uid for each in ordered].index(uid)))
                steps = None if steps is None else steps - 1
                if steps == 0:
                    return
            if ordered or events:
                last_s = self.now
            elif next_s is None or next_s > last_s + _QUIET_S:
                return
            else:
                self.now = max(self.now, next_s)
        raise AssertionError("the engine goes on for ever")

    def _carry_out(self, command: Command) -> list[Event]:
        """A command succeeds; a controller makes deleted pods anew."""
        if not isinstance(command, DeletePod):
            return self.echo.events([command])
        self.deleted.add(command.pod.uid)
        anew = team_pod(f"again{len(self.deleted)}", "b", created_s=self.now)
        self.echo.pods[anew.uid] = anew
        return [*self.echo.events([command]), PodSeen(anew)]

    def running(self, team: str) -> int:
        """How many pods of a team are on nodes."""
        live = (pod for uid, pod in self.echo.pods.items() if uid not in self.deleted)
        return sum(pod.node is not None and pod.template.labels["moorage.dev/queue"] == team for pod in live)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_reclaim_costs_no_more_if_leaders_are_killed_in_the_middle(seed: int) -> None:
    """However much of what a leader has ordered was carried out: promises to some pods, evictions, binds."""
    reign = Reign(seed)
    for _ in range(LEADERS):
        reign.lead(reign.draw.randint(5, 30))
        reign.now += reign.draw.choice([0.5, 5.0, 30.0])
    reign.lead(None)
    assert (reign.running("a"), reign.running("b"), len(reign.deleted)) == (RECLAIMED, PODS - RECLAIMED, RECLAIMED)


def test_a_promise_that_is_renewed_is_not_withdrawn_first() -> None:
    """A pod was promised a node, and the leader was killed before anything had left it. The next one chooses the same
    node: were the old promise seen withdrawn, another pod could take the room that is made there.
    """
    teams = Teams(make_queue("a", 1), make_queue("b", 3))
    running = [replace(team_pod(f"b{n}", "b", created_s=float(n)), node="n0") for n in range(4)]
    promised = replace(team_pod("a0", "a"), nominated_node="n0")
    teams.see(*running, promised)
    assert (teams.running("a"), len(teams.evicted)) == (["a0"], 1)
    written = [each.nominated_node for each in teams.commands if isinstance(each, PatchPodStatus)]
    assert "" not in written


def test_a_promise_that_leads_nowhere_is_withdrawn() -> None:
    """The quota went down since: the pod may not take anything back any more, and holds nothing."""
    teams = Teams(make_queue("a", 0, 0), make_queue("b", 4))
    running = [replace(team_pod(f"b{n}", "b", created_s=float(n)), node="n0") for n in range(4)]
    teams.see(*running, replace(team_pod("a0", "a"), nominated_node="n0"))
    assert (teams.running("a"), teams.evicted) == ([], [])
    assert "" in [each.nominated_node for each in teams.commands if isinstance(each, PatchPodStatus)]


def test_a_pod_that_was_promised_a_node_counts_once_for_its_queue() -> None:
    """It comes before a pod of a queue that has its quota, and takes the room that is left, wherever it is."""
    teams = Teams(make_queue("a", 1), make_queue("b", 8), nodes=(8, 1))
    running = [replace(team_pod(f"b{n}", "b"), node="n0" if n < 7 else "n1") for n in range(8)]
    teams.see(*running, team_pod("b8", "b"), replace(team_pod("a0", "a", created_s=9.0), nominated_node="n1"))
    assert (teams.running("a"), teams.evicted) == (["a0"], [])


@pytest.mark.timeout(60)
def test_room_is_kept_for_a_pod_that_waits_after_an_error() -> None:
    """The pod that had to go was gone before it could be evicted. The room is kept until the next attempt is due."""
    teams = Teams(make_queue("a", 1), make_queue("b", 3))
    running = [replace(team_pod(f"b{n}", "b", created_s=float(n)), node="n0") for n in range(4)]
    pods = [PodSeen(pod) for pod in [*running, team_pod("a0", "a", created_s=9.0)]]
    commands, _ = teams.engine.handle(pods, 0.0)
    (victim,) = (each.pod.uid for each in commands if isinstance(each, DeletePod))
    teams.engine.handle([DeleteDone(victim, ok=False)], 0.1)
    teams.echo.pods["default/a0"] = team_pod("a0", "a", created_s=9.0)
    teams.engine.handle([PodGone(victim), PodSeen(team_pod("b9", "b", created_s=20.0))], 0.2)
    assert "b9" not in teams.running()
    teams.now = 30.0
    teams.play([])
    assert (teams.running("a"), len(teams.evicted)) == (["a0"], 0)
