"""What becomes of gangs once binds were ordered: complete, still running, or to be completed or released.

Recovery needs no memory of its own: after a crash the next leader sees which members stand and which wait. A record on
a member says whether a start was under way; without one, a member that waits although it is older than the others'
placement shows it. A start that broke off is completed if there is room within `recoverSeconds`; otherwise the members
that stand are deleted, so that their controllers make new ones and the gang can start as a whole.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from moorage.core.commands import PatchObject, PatchPodStatus, PodRef
from moorage.core.frozen import FrozenDict
from moorage.core.gangs import NATIVE_KIND, GangTerms, lasting, terms_of
from moorage.core.membership import GangKey
from moorage.core.objects import NATIVE_GROUPS
from moorage.core.state import PodRecord
from moorage.engine.board import Board, Commands
from moorage.engine.evictor import ref_of
from moorage.engine.flights import Party
from moorage.engine.gangrecords import read_record, records_of, started
from moorage.engine.planning import Planning
from moorage.engine.queue import Place, QueuedGang
from moorage.framework.gangs import GANG_SCHEDULING

RELEASED = "GangReleased"
"""Reason of the event, and of the condition DisruptionTarget, on members that are deleted."""
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


class Recovery:
    """Watches over the gangs that have begun."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._state = board.state
        self.planning: Planning | None = None
        self._concerned: dict[GangKey, None] = {}
        self._parties: dict[GangKey, Party] = {}
        """Members on their way, the latest party of each gang."""
        self._running: set[GangKey] = set()
        """Gangs that were complete once and of which something is left."""
        self._deadlines: dict[GangKey, float] = {}
        """Gangs that were started in part -> when they are released."""
        self._told: dict[GangKey, str] = {}
        """What the group's condition says of gangs without room."""

    # --- what others tell and ask ---

    def concern(self, key: GangKey) -> None:
        """Something happened to a gang."""
        self._concerned[key] = None

    @property
    def busy(self) -> bool:
        """Whether `review` has something to look at now or later."""
        return bool(self._concerned or self._deadlines)

    def next_review_s(self) -> float | None:
        """When `review` has something to do even if nothing happens."""
        return min(self._deadlines.values(), default=None)

    def set_out(self, party: Party) -> None:
        """Members are on their way to their nodes."""
        self._parties[party.key] = party

    def wants_record(self, party: Party) -> bool:
        """Whether the start has to be recorded: it takes several binds, and no record tells of it yet."""
        if len(party.flights) < 2 or party.key in self._running:
            return False
        pods = [*(flight.entry.pod for flight in party.flights), *(r.pod for r in lasting(self._state, party.key))]
        names = {flight.entry.pod.name for flight in party.flights}
        return not any(not record.done and names <= record.nodes.keys() for record in records_of(pods))

    def runs(self, key: GangKey, terms: GangTerms) -> bool:
        """Whether a gang that has lost members was complete before."""
        there = lasting(self._state, key)
        if not there:
            return False
        return key in self._running or self._was_complete(key, terms, there)

    def _was_complete(self, key: GangKey, terms: GangTerms, there: list[PodRecord]) -> bool:
        """What can be told from what is observed alone."""
        if terms.min_count is not None and len(there) >= terms.min_count:
            return not any(self._is_flying(record) for record in there)
        gang = self._board.queue.gang(key)
        waiting = [] if gang is None else [entry.pod for entry in gang.members.values()]
        records = records_of([*waiting, *(record.pod for record in there)])
        if records:  # before the group's condition, which may tell of members that are gone
            return any(record.done for record in records)
        if terms.group is not None and terms.group.scheduled:
            return True
        if any(self._is_flying(record) for record in there):
            return False
        since = [record.pod.scheduled_s for record in there if record.pod.scheduled_s is not None]
        return bool(since) and not any(pod.created_s <= min(since) for pod in waiting)

    def _is_flying(self, record: PodRecord) -> bool:
        return self._board.flights.get(record.pod.uid) is not None

    def _is_ours(self, record: PodRecord) -> bool:
        """Gangs of other schedulers, and of profiles without gangs, are none of our business."""
        runner = self._board.runner_of(record.pod)
        return runner is not None and runner.plugin(GANG_SCHEDULING) is not None

    # --- looking again ---

    def review(self, now: float, commands: Commands) -> None:
        """Look at the gangs that something happened to, and at those whose time has come."""
        due = [key for key, at_s in self._deadlines.items() if at_s <= now]
        concerned, self._concerned = self._concerned, {}
        for key in dict.fromkeys([*concerned, *due]):
            self._look(key, now, commands)

    def _look(self, key: GangKey, now: float, commands: Commands) -> None:
        gang = self._board.queue.gang(key)
        if gang is not None and gang.place is Place.GATED:
            self._board.queue.wake(gang, now)
        if self._under_way(key):
            return
        there = lasting(self._state, key)
        if not there:
            self._forget(key, gang)
            return
        if not all(self._is_ours(record) for record in there):
            return
        waiting = () if gang is None else (entry.pod for entry in gang.members.values())
        terms = terms_of(self._state, key, waiting)
        if terms is None or terms.min_count is None:
            return
        if len(there) >= terms.min_count:
            self._completed(key, terms, there, now, commands)
        elif self.planning is not None and self.planning.drops(key, there[0].pod):
            self._release(key, there, commands)
        elif not self.runs(key, terms):
            self._half_started(key, terms, there, now, commands)
        else:
            self._deadlines.pop(key, None)

    def _forget(self, key: GangKey, gang: QueuedGang | None) -> None:
        """Nothing of the gang stands any more."""
        self._running.discard(key)
        self._deadlines.pop(key, None)
        self._parties.pop(key, None)
        if gang is None:
            self._told.pop(key, None)

    def _under_way(self, key: GangKey) -> bool:
        party = self._parties.get(key)
        if party is None:
            return False
        if any(self._board.flights.get(flight.entry.pod.uid) is flight for flight in party.flights):
            return True
        del self._parties[key]
        return False

    def _completed(
        self, key: GangKey, terms: GangTerms, there: list[PodRecord], now: float, commands: Commands
    ) -> None:
        """As many members as needed are bound: say so, once."""
        self._deadlines.pop(key, None)
        self._told.pop(key, None)
        if key in self._running:
            return
        self._running.add(key)
        for record in there:
            said = read_record(record.pod)
            if said is not None and not said.done:
                commands.append(PatchPodStatus(ref_of(record.pod), started()))
        if terms.group is not None and not terms.group.scheduled:
            self._write(terms, ref_of(there[0].pod), ("True", "Scheduled", ""), now, commands)

    def _half_started(
        self, key: GangKey, terms: GangTerms, there: list[PodRecord], now: float, commands: Commands
    ) -> None:
        """A start that broke off: the recorded places are kept for a while, then what stands is released."""
        deadline_s = self._deadlines.get(key)
        if deadline_s is None:
            self._deadlines[key] = now + self._patience_s(there[0], terms)
            self._keep_recorded(key, there)
        elif deadline_s <= now:
            del self._deadlines[key]
            self._release(key, there, commands)

    def _patience_s(self, record: PodRecord, terms: GangTerms) -> float:
        """How long a start may take to be completed: the group may say less than the plugin's argument."""
        runner = self._board.runner_of(record.pod)
        plugin: Any = None if runner is None else runner.plugin(GANG_SCHEDULING)
        patience_s = 0.0 if plugin is None else float(plugin.args.recover_seconds)
        return patience_s if terms.timeout_s is None else min(patience_s, terms.timeout_s)

    def _keep_recorded(self, key: GangKey, there: list[PodRecord]) -> None:
        gang = self._board.queue.gang(key)
        if gang is None:
            return
        pods = {entry.pod.name: entry.pod for entry in gang.members.values()}
        for record in records_of([*pods.values(), *(each.pod for each in there)]):
            for name, node in record.nodes.items():
                pod = pods.get(name)
                if pod is not None and self._state.nominations.node_of(pod.uid) is None:
                    self._state.nominations.set(pod, node)

    def _release(self, key: GangKey, there: list[PodRecord], commands: Commands) -> None:
        message = f"pod group {key.object_key} was started in part and could not be completed"
        for record in there:
            runner = self._board.runner_of(record.pod)
            reporter = record.pod.template.scheduler_name if runner is None else runner.profile.scheduler_name
            self._board.evictor.release(record.pod, RELEASED, message, reporter, commands)
        gang = self._board.queue.gang(key)
        for uid in () if gang is None else gang.members:
            self._board.end_promise(uid)

    # --- telling ---

    def unschedulable(self, gang: QueuedGang, message: str, commands: Commands, now: float) -> None:
        """The group's condition tells of the lack of room, unless the gang has begun."""
        terms = terms_of(self._state, gang.key, (entry.pod for entry in gang.members.values()))
        if terms is None or terms.group is None or terms.group.scheduled or not gang.members:
            return
        if self._told.get(gang.key) == message or gang.key in self._parties:
            return
        self._told[gang.key] = message
        member = next(iter(gang.members.values())).pod
        self._write(terms, ref_of(member), ("False", "Unschedulable", message), now, commands)

    def _write(
        self, terms: GangTerms, member: PodRef, said: tuple[str, str, str], now: float, commands: Commands
    ) -> None:
        group = terms.group
        if group is None or group.api_group != NATIVE_GROUPS:
            return
        status, reason, message = said
        condition = FrozenDict(
            type=INITIALLY_SCHEDULED,
            status=status,
            reason=reason,
            message=message,
            observedGeneration=group.generation,
            lastTransitionTime=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        patch = FrozenDict(status=FrozenDict(conditions=(condition,)))
        commands.append(
            PatchObject(member, NATIVE_KIND, group.namespace, group.name, patch, uid=group.uid, subresource="status")
        )
