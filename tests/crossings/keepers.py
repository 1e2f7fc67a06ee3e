"""The keeper of a world: it hears of everything the scheduler hears of, and moves pods."""

from __future__ import annotations

from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.core.commands import EvictPod
from moorage.core.events import KeeperEvent
from moorage.engine.keeping.keeper import Keeper
from moorage.framework.keeping import keeper_configuration
from moorage.sim.feed import Feed
from moorage.wire.configuration import Reading
from moorage.wire.workloadkinds import workloads_in
from tests.crossings.audit.orders import Move
from tests.crossings.leaders import ApiServer


class KeeperProcess:
    """One keeper."""

    def __init__(self, cluster: EmbeddedCluster, reading: Reading, server: ApiServer) -> None:
        configuration = reading.configuration
        assert configuration is not None
        self._cluster, self._server = cluster, server
        self._keeper = Keeper(reading.profiles, keeper_configuration(configuration))
        self._feed = Feed(cluster, workloads=workloads_in(reading.profiles))
        self._answers: list[KeeperEvent] = []
        self.wake_s: float | None = None

    def turn(self) -> list[Move] | None:
        """Hear, plan, and have it carried out at once; the moves that it ordered. None if nothing has happened."""
        events = [*self._answers, *self._feed.pull()]
        now_s = self._cluster.now_s
        self._answers = []
        if not events and (self.wake_s is None or self.wake_s > now_s):
            return None
        commands, self.wake_s = self._keeper.handle(events, now_s)
        moves = []
        for command in commands:
            if isinstance(command, EvictPod):
                moves.append(Move(command.pod.uid, command.pod.key, command.cause, command.place))
            answer = self._server.runner.keep(command)
            if answer is not None:
                self._answers.append(answer)
        return moves
