"""What must hold for an engine between any two calls; run at the teardown of every engine test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from moorage.core.invariants import check_invariants
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.flights import Stage
from moorage.engine.queue import Place, SchedulingQueue


def check_engine(engine: Engine, pods: Iterable[Pod] = ()) -> None:
    """Raise AssertionError with what is wrong. `pods` are all pods that exist, as the engine last saw them."""
    check_invariants(engine.state)
    check_queue(engine.queue)
    _check_flights(engine)
    _check_promises(engine)
    assert not engine._board.changes, "changes that nobody was told"
    for pod in pods:
        _check_not_lost(engine, pod)


def _check_flights(engine: Engine) -> None:
    flights = engine.flights._flights
    for uid, flight in flights.items():
        assert flight.entry.pod.uid == uid
        entry = engine.queue.get(uid)
        assert entry is None or entry is flight.entry, f"{uid}: another entry than that of the flight"
        assert entry is None or entry.place is Place.IN_FLIGHT, f"{uid}: flies and is {entry and entry.place}"
        assert entry is not None or flight.stage is Stage.BINDING, f"{uid}: left the queue, and waits to be bound"
        party = flight.party
        assert flight.stage is not Stage.READY or (party is not None and not party.begun), f"{uid}: waits for nobody"
        held = flight.stage in (Stage.PERMIT, Stage.PRE_BIND)
        ready = flight.stage is Stage.READY
        assert (uid in engine.flights._ready) == ready, f"{uid}: stage {flight.stage}, ready {not ready}"
        assert (uid in engine.flights._held) == held, f"{uid}: stage {flight.stage}, held {not held}"
        assert held == (flight.held_by is not None), f"{uid}: stage {flight.stage}, held by {flight.held_by}"
        assert not (held or ready) or engine.state.row_of(flight.node) == flight.row, (
            f"{uid}: waits for a node that is gone"
        )
    due_s = {uid: flight.deadline_s for uid, flight in engine.flights._held.items()}
    assert engine.flights._deadlines._at_s == due_s, "deadlines of pods that wait are noted wrongly"
    binding = Counter(flight.entry.pod.namespace for flight in flights.values() if flight.stage is Stage.BINDING)
    assert engine.flights._binding == binding, "binds under way are counted wrongly"
    for entry in engine.queue.entries():
        uid = entry.pod.uid
        if engine.asking is not None and engine.asking.has(entry):
            assert entry.place is Place.IN_FLIGHT, f"{uid}: extenders are asked about it, and it is {entry.place}"
            assert uid not in flights, f"{uid}: extenders are asked about it, and it flies"
        elif entry.place is Place.IN_FLIGHT:
            assert uid in flights, f"{uid}: in flight, but there is no flight"
            record = engine.state.record(uid)
            assert record is not None, f"{uid}: flies, but stands nowhere"
            assert record.assumed, f"{uid}: flies, stands somewhere already and is still queued"
        else:
            assert engine.state.record(uid) is None, f"{uid}: is {entry.place} and stands on a node"


def _check_promises(engine: Engine) -> None:
    for node in engine.state.nominations.nodes():
        for pod in engine.state.nominations.on(node):
            if engine.runner_of(pod) is None:
                assert engine.state.record(pod.uid) is None, f"{pod.key}: promised {node}, but stands on a node"
                continue
            entry = engine.queue.get(pod.uid)
            assert entry is not None, f"{pod.key}: promised {node}, but not in the queue"
            asked = engine.asking is not None and engine.asking.has(entry)
            assert asked or entry.place is not Place.IN_FLIGHT, f"{pod.key}: promised {node} and on its way"


def _check_not_lost(engine: Engine, pod: Pod) -> None:
    record, entry = engine.state.record(pod.uid), engine.queue.get(pod.uid)
    if pod.finished:
        assert record is None, f"{pod.key}: finished, but stands on a node"
        assert entry is None, f"{pod.key}: finished, but is queued"
    elif pod.node is not None:
        assert record is not None, f"{pod.key}: bound, but stands nowhere"
        assert record.node == pod.node, f"{pod.key}: bound to {pod.node}, stands on {record.node}"
        assert entry is None, f"{pod.key}: bound, but is queued"
    elif pod.deleted_s is not None or engine.runner_of(pod) is None:
        assert entry is None, f"{pod.key}: queued, but nobody is to place it"
    else:
        assert entry is not None or record is not None, f"{pod.key}: lost, neither queued nor standing on a node"


def check_queue(queue: SchedulingQueue) -> None:
    """Every pod and gang is listed where its place says, and nowhere else; members are where their gang is."""
    live: Counter[tuple[str, Place]] = Counter()
    for active in (queue._active, *queue.pacing._aside.values()):
        for _, ticket, entry in active:
            live[entry.uid, Place.ACTIVE] += entry.ticket == ticket
    for heap in (queue._backing_off, queue._after_error):
        for _, _, ticket, entry in heap:
            live[entry.uid, Place.BACKOFF] += entry.ticket == ticket
    for uid in queue._unschedulable:
        live[uid, Place.UNSCHEDULABLE] += 1
    for uid in queue._gated:
        live[uid, Place.GATED] += 1
    for gang in queue._gangs.values():
        assert gang.members, f"{gang.uid} has no members"
        assert gang.pod.uid in gang.members, f"{gang.uid}: a stranger stands for it"
        for member in gang.members.values():
            assert queue.get(member.pod.uid) is member, f"{member.uid} is not in the queue, but in {gang.uid}"
            assert member.place is gang.place, f"{member.uid} is {member.place}, {gang.uid} is {gang.place}"
    members = {uid for gang in queue._gangs.values() for uid in gang.members}
    units = [*(entry for entry in queue.entries() if entry.uid not in members), *queue._gangs.values()]
    for entry in units:
        assert entry.unit is None or entry.uid in queue._gangs or entry.place is Place.IN_FLIGHT, (
            f"{entry.uid} is alone"
        )
        want = 0 if entry.place is Place.IN_FLIGHT else 1
        found = {place: live[entry.uid, place] for place in Place if live[entry.uid, place]}
        assert found == ({entry.place: 1} if want else {}), f"{entry.uid} is {entry.place}, listed in {found}"
    waiting = {(name, uid) for name, entries in queue._by_plugin.items() for uid in entries}
    assert waiting == {
        (name, e.uid) for e in units if e.place in (Place.UNSCHEDULABLE, Place.GATED) for name in e.rejected_by
    }
