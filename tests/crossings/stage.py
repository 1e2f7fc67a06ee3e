"""Plays a world on the embedded cluster in virtual time, and tells the auditor everything that an API server shows.

The world's script is followed deed by deed; between two deeds the cluster, its controllers, the scheduler and the
keeper go on until nothing happens before the next one. Where the next deed is far away the cluster is at rest; in the
end everything is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.cluster import Behaviour, EmbeddedCluster
from moorage.adapters.memory.disruption import DisruptionController
from moorage.adapters.memory.kubelet import KubeletOptions
from moorage.core.commands import Command
from tests.crossings.audit.auditor import Auditor
from tests.crossings.audit.breach import Breach
from tests.crossings.bodies import NAMESPACE, body, node, pod_spec, queue
from tests.crossings.capabilities.queues import LABEL as QUEUE
from tests.crossings.deeds import Doer
from tests.crossings.keepers import KeeperProcess
from tests.crossings.leaders import ApiServer, Delivery, Leader
from tests.crossings.leftovers import leftovers
from tests.crossings.sending import order_of
from tests.crossings.world import World, reading_of

REST_S = 400.0
"""So long after the last deed everything has come to rest: turns of gangs, stale gangs, moves of the keeper."""
TURN_S = 65.0
"""A gang's turn and the pause after it, by the configuration of our worlds."""
_TAKEOVER_S = (0.0, 2.0, 16.0)
_MOST_TURNS, _MOST_AT_ONCE = 4000, 1500
_CHECKED = 8
"""Every so many turns the engine's invariants are checked."""


@dataclass(frozen=True)
class Outcome:
    """What came of a world."""

    breaches: list[Breach]
    binds: int
    evictions: int
    excused: dict[str, int]
    turns: int


class EndlessError(Exception):
    """Something goes on for ever."""


class Stage:
    """One world on its way."""

    def __init__(self, world: World) -> None:
        self.world, self._reading = world, reading_of(world)
        terms = world.terms
        kubelet = KubeletOptions(start_delay_s=terms.get("start_s", 0.5), stop_delay_s=terms.get("stop_s", 1.0))
        late = terms.get("budgets_s", 0.0)
        behaviour = Behaviour(lifelike=True, kubelet=kubelet, pod_collection_delay_s=2.0, budgets=not late)
        self.cluster = EmbeddedCluster(behaviour, seed=1)
        self._draw = Random(world.name)
        self.auditor = Auditor(world.configuration, late=bool(terms.get("late_s")))
        self._watch = self.cluster.watch(None)
        self._server = ApiServer(self.cluster)
        self._delivery = Delivery(self.cluster, self._server, terms.get("late_s", 0.0), self._draw)
        self._doer = Doer(self.cluster, self._server, self.auditor.scene)
        if late:
            self._count_budgets(DisruptionController(self.cluster.store), late)
        self.leader: Leader | None = None
        self._term = self._commands = self.turns = 0
        self._crashes = list(world.crashes)
        self._keeper = self._make_keeper()

    # --- the whole ---

    def play(self) -> Outcome:
        """From the first object to the last, or until it is clear that there is no end."""
        try:
            self._play()
        except EndlessError as error:
            self.auditor.found("endless", str(error))
        found = self.auditor
        return Outcome(found.breaches(), found.binds, found.evictions, dict(found.excused), self.turns)

    def _play(self) -> None:
        began_s = self.cluster.now_s
        for each in self.world.objects:
            self._doer.perform({"do": "create", "object": each})
        self._lead()
        for number, deed in enumerate(self.world.script):
            self._go_on(began_s + deed["at"])
            self._tell()
            self._doer.perform(deed)
            self._tell()
            self.auditor.disturbed(deed["do"])
            following = self.world.script[number + 1]["at"] if number + 1 < len(self.world.script) else None
            if following is not None and following - deed["at"] > REST_S + TURN_S:
                self._rest(began_s + deed["at"])
        self._rest(self.cluster.now_s)
        self._end()

    def _rest(self, since_s: float) -> None:
        """Go on until everything must be at rest, and have a look; a leader that is to come is there by then."""
        self._go_on(since_s + REST_S)
        if self.leader is None:
            self._lead()
            self._go_on(self.cluster.now_s + REST_S)
        self._tell()
        self.auditor.looked(self.cluster.now_s)
        self._go_on(self.cluster.now_s + TURN_S)
        self._tell()
        self.auditor.rested(self.cluster.now_s)

    def _end(self) -> None:
        """Delete everything, and see what is left."""
        self._crashes = []
        self.auditor.ending()
        order = ("Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet")
        kinds = [*order, *(kind for kind in self.cluster.store.kinds() if kind not in order)]
        for kind in kinds:
            if kind != "Node":
                self._delete_all(kind)
                self.cluster.step()
        self._go_on(self.cluster.now_s + REST_S)
        self._delete_all("Node")
        self._go_on(self.cluster.now_s + REST_S)
        known = set(self.auditor.uids)
        self._last_visitor()
        if self.leader is not None:
            for what in leftovers(self.leader.engine, known):
                self.auditor.found("leftovers", what)

    def _last_visitor(self) -> None:
        """One more pod on one more node: what is only tidied when something happens is tidied then."""
        metadata = {"namespace": NAMESPACE, "labels": {QUEUE: "last"}}
        pod = body("v1", "Pod", "last", metadata=metadata, spec=pod_spec("1"))
        share = {"quota": "1"}
        for each in (queue("last", {"cpu": share}), node("last"), pod):
            self._doer.perform({"do": "create", "object": each})
            self._go_on(self.cluster.now_s + 30.0)
        for each in (pod, node("last"), queue("last", {})):
            about = {"namespace": each["metadata"].get("namespace", ""), "name": "last"}
            self._doer.perform({"do": "delete", "kind": each["kind"], **about})
            self._go_on(self.cluster.now_s + REST_S)

    def _delete_all(self, kind: str) -> None:
        for each in self.cluster.store.list(kind):
            metadata = each["metadata"]
            self._doer.perform(
                {"do": "delete", "kind": kind, "namespace": metadata.get("namespace") or "", "name": metadata["name"]}
            )

    # --- time ---

    def _go_on(self, until_s: float) -> None:
        """Let everything happen that happens by itself."""
        self._settle()
        while self.turns < _MOST_TURNS:
            next_s = min(self._times(), default=until_s)
            if next_s >= until_s:
                break
            self.cluster.advance(max(next_s, self.cluster.now_s))
            self._settle()
        else:
            raise EndlessError(f"nothing rests after {_MOST_TURNS} turns")
        if until_s > self.cluster.now_s:
            self.cluster.advance(until_s)
            self._settle()

    def _times(self) -> list[float]:
        leader_s = None if self.leader is None else self.leader.wake_s
        keeper_s = None if self._keeper is None else self._keeper.wake_s
        return [each for each in (self.cluster.next_s, leader_s, keeper_s) if each is not None]

    def _settle(self) -> None:
        """Decide and carry out until nothing is left to do at this moment."""
        for _ in range(_MOST_AT_ONCE):
            version = self.cluster.store.resource_version
            self.cluster.step()
            self._tell()
            busy = self._turn() or self._keep() or self.cluster.store.resource_version != version
            if not busy:
                return
        raise EndlessError(f"one moment has no end, after {_MOST_AT_ONCE} turns")

    # --- the scheduler ---

    def _lead(self) -> None:
        self._term += 1
        if self.leader is None:
            self.leader = Leader(self.cluster, self._reading, self._term)

    def _turn(self) -> bool:
        leader = self.leader
        commands = None if leader is None else leader.turn(self.cluster.now_s)
        if leader is None or commands is None:
            return False
        self.turns += 1
        if self.turns % _CHECKED == 0:
            leader.check()
        self.auditor.quiet.rounds = leader.engine.room_rounds
        self.auditor.ordered([each for each in map(order_of, commands) if each is not None], self.cluster.now_s)
        for command in commands:
            self._commands += 1
            if self._crashes and self._commands >= self._crashes[0]:
                self._die(leader, command)
                break
            self._delivery.send(leader, command)
            self._tell()
        return True

    def _die(self, leader: Leader, command: Command) -> None:
        """The leader dies at a command; another one follows soon."""
        del self._crashes[0]
        if self._draw.random() < 0.5:
            self._delivery.send(leader, command)
        self._delivery.lose()
        leader.die()
        self.leader = None
        self.auditor.crashed()
        self.cluster.clock.after(self._draw.choice(_TAKEOVER_S), self._lead)

    # --- the others ---

    def _make_keeper(self) -> KeeperProcess | None:
        written = any(each["kind"] == "KeeperConfiguration" for each in self.world.configuration)
        return KeeperProcess(self.cluster, self._reading, self._server) if written else None

    def _keep(self) -> bool:
        if self._keeper is None:
            return False
        moves = self._keeper.turn()
        if moves:
            self.auditor.moved(moves)
        return moves is not None

    def _count_budgets(self, controller: DisruptionController, late_s: float) -> None:
        def count() -> None:
            controller.step()
            self.cluster.clock.after(late_s, count)

        count()

    def _tell(self) -> None:
        for change in self._watch.pull():
            gone = change.type is ChangeType.DELETED
            self.auditor.changed(change.kind, change.old, None if gone else change.object, self.cluster.now_s)
