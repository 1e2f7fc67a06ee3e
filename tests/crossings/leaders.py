"""The scheduler of a world: what it orders is carried out now or later, or is lost as it dies.

A leader knows what the cluster shows, and nothing of the one before. It dies at a command: before it is carried out, or
after that and before the answer came; what else was on its way is carried out or not.
"""

from __future__ import annotations

from random import Random

from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.runner import CommandRunner
from moorage.core.commands import AskExtenders, AskPreemption, Bind, Command, DeletePod, PatchObject, PatchPodStatus
from moorage.core.events import (
    BindDone,
    BindOutcome,
    DeleteDone,
    Event,
    ExtendersAnswered,
    PatchDone,
    PreemptionAnswered,
    StatusDone,
    TermBegan,
)
from moorage.engine.engine import Engine
from moorage.engine.invariants import check_engine
from moorage.engine.settings import EngineSettings
from moorage.sim.feed import Feed
from moorage.wire.configuration import Reading
from moorage.wire.workloadkinds import workloads_in

REFUSED = "refused"
"""The value of a node's label `extender`, by which the extender refuses it."""
KINDS = {"delete": DeletePod, "bind": Bind, "status": PatchPodStatus, "object": PatchObject}
_FAILED = "the API server is not well"


class Leader:
    """One scheduler process."""

    def __init__(self, cluster: EmbeddedCluster, reading: Reading, term: int, *, seed: int = 0) -> None:
        configuration = reading.configuration
        assert configuration is not None
        settings = EngineSettings.of(configuration, seed)
        self.engine = Engine(reading.profiles, settings)
        self.feed = Feed(cluster, workloads=workloads_in(settings.every(reading.profiles)))
        self.answers: list[Event] = [TermBegan(f"term-{term}"), *settings.beginning()]
        self.wake_s: float | None = None

    def turn(self, now_s: float) -> list[Command] | None:
        """Hear what has happened, and decide; None if nothing has, and no timer has run out."""
        events = [*self.answers, *self.feed.pull()]
        self.answers = []
        if not events and (self.wake_s is None or self.wake_s > now_s):
            return None
        commands, self.wake_s = self.engine.handle(events, now_s)
        while self.engine.queue.unfinished:
            more, self.wake_s = self.engine.handle((), now_s)
            commands += more
        return commands

    def die(self) -> None:
        """Hear nothing more."""
        self.feed._watch.close()

    def check(self) -> None:
        """What must hold between two calls."""
        check_engine(self.engine)


class ApiServer:
    """Carries commands out on the embedded cluster; the next ones of a kind may fail."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.runner = CommandRunner(cluster.store, keep_events=0)
        self.failing: list[tuple[str, int]] = []
        """What is refused next, and how many of the kind pass before."""

    def run(self, command: Command) -> Event | None:
        """Carry out a command; the answer, if there is one."""
        if isinstance(command, AskExtenders):
            return self._extend(command)
        if isinstance(command, AskPreemption):
            left = tuple(each for each in command.candidates if not self._refuses(each.node))
            return PreemptionAnswered(command.pod.uid, left, token=command.token, heard=command.extenders)
        return self._refused(command) if self._fails(command) else self.runner.run(command)

    def _extend(self, command: AskExtenders) -> ExtendersAnswered:
        refused = {name: "the extender says no" for name in command.nodes if self._refuses(name)}
        kept = tuple(name for name in command.nodes if name not in refused)
        return ExtendersAnswered(
            command.pod.uid, kept, unresolvable=refused, token=command.token, heard=command.extenders
        )

    def _refuses(self, name: str) -> bool:
        """Whether the extender wants no pod on a node."""
        node = self._cluster.store.find("Node", "", name)
        return node is not None and (node["metadata"].get("labels") or {}).get("extender") == REFUSED

    def _fails(self, command: Command) -> bool:
        for place, (what, skip) in enumerate(self.failing):
            if isinstance(command, KINDS[what]):
                if skip:
                    self.failing[place] = (what, skip - 1)
                    return False
                del self.failing[place]
                return True
        return False

    def _refused(self, command: Command) -> Event | None:
        if isinstance(command, Bind):
            return BindDone(command.pod.uid, BindOutcome.FAILED, command.node, _FAILED)
        if isinstance(command, DeletePod):
            return DeleteDone(command.pod.uid, ok=False, message=_FAILED)
        if isinstance(command, PatchObject):
            return PatchDone(command, ok=False, message=_FAILED)
        if isinstance(command, PatchPodStatus) and command.token:
            return StatusDone(command.pod.uid, ok=False, message=_FAILED, token=command.token)
        return None


class Delivery:
    """Commands on their way to the API server, at once or late; those about one pod keep their order."""

    def __init__(self, cluster: EmbeddedCluster, server: ApiServer, late_s: float, draw: Random) -> None:
        self._cluster, self._server, self._late_s, self._draw = cluster, server, late_s, draw
        self._due_s: dict[str, float] = {}
        self._on_their_way: dict[int, Command] = {}
        self._count = 0

    def send(self, leader: Leader, command: Command) -> None:
        """Carry it out, or later."""
        if not self._late_s:
            self._carry_out(leader, command)
            return
        now_s, uid = self._cluster.now_s, command.pod.uid
        due_s = max(self._due_s.get(uid, 0.0), now_s + self._draw.uniform(0.0, self._late_s))
        self._due_s[uid] = due_s
        self._count += 1
        number = self._count
        self._on_their_way[number] = command

        def arrive() -> None:
            if self._on_their_way.pop(number, None) is not None:
                self._carry_out(leader, command)

        self._cluster.clock.at(due_s, arrive)

    def _carry_out(self, leader: Leader, command: Command) -> None:
        answer = self._server.run(command)
        if answer is not None:
            leader.answers.append(answer)

    def lose(self) -> None:
        """The leader is dead: what is on its way arrives or not, and nobody hears of it."""
        lost, self._on_their_way = self._on_their_way, {}
        for command in lost.values():
            if self._draw.random() < 0.5 and not isinstance(command, AskExtenders | AskPreemption):
                self._server.run(command)
