"""What must hold for an engine between any two calls.

Run at the teardown of every engine test, and between turns by a scheduler that checks itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from moorage.core.invariants import check, check_invariants
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.flights import Flight
from moorage.engine.lifecycle import BINDING, ON_ITS_WAY, PERMIT, PRE_BIND, READY, TRYING
from moorage.engine.queue import Place, QueuedPod, SchedulingQueue


def check_engine(engine: Engine, pods: Iterable[Pod] = ()) -> None:
    """Raise `InvariantError` with what is wrong. `pods` are all pods that exist, as the engine last saw them."""
    check_invariants(engine.state)
    check_queue(engine.queue)
    _check_flights(engine)
    for entry in engine.queue.entries():
        _check_entry(engine, entry)
    _check_promises(engine)
    check(not engine._board.changes, "changes that nobody was told")
    for pod in pods:
        _check_not_lost(engine, pod)


def _check_flights(engine: Engine) -> None:
    flights = engine.flights
    for uid, flight in flights._flights.items():
        check(flight.entry.pod.uid == uid, f"{uid}: the flight of {flight.entry.pod.uid}")
        entry = engine.queue.get(uid)
        if entry is None:
            check(flight.state is BINDING, f"{uid}: left the queue, and waits to be bound")
        else:
            check(entry is flight.entry, f"{uid}: another entry than that of the flight")
        check(flight.state in ON_ITS_WAY, f"{uid}: flies and is {flight.state}")
        _check_state(engine, uid, flight)
    due_s = {uid: flight.deadline_s for uid, flight in flights._held.items()}
    check(flights._deadlines._at_s == due_s, "deadlines of pods that wait are noted wrongly")
    binding = Counter(each.entry.pod.namespace for each in flights._flights.values() if each.state is BINDING)
    check(flights._binding == binding, "binds under way are counted wrongly")
    check(all(0 < n <= binding[name] for name, n in flights._beyond.items()), "places of gangs are counted wrongly")
    awaits = {uid: flight.awaits for uid, flight in flights._held.items() if flight.awaits}
    check(flights._interests._things == awaits, "what pods wait for is noted wrongly")


def _check_state(engine: Engine, uid: str, flight: Flight) -> None:
    held, ready = flight.state in (PERMIT, PRE_BIND), flight.state is READY
    party = flight.party
    check(not ready or (party is not None and not party.begun), f"{uid}: waits for nobody")
    check((uid in engine.flights._ready) == ready, f"{uid}: {flight.state}, ready {not ready}")
    check((uid in engine.flights._held) == held, f"{uid}: {flight.state}, held {not held}")
    check(held == (flight.held_by is not None), f"{uid}: {flight.state}, held by {flight.held_by}")
    there = engine.state.row_of(flight.node) == flight.row
    check(there or not (held or ready), f"{uid}: waits for a node that is gone")


def _check_entry(engine: Engine, entry: QueuedPod) -> None:
    """A pod in the queue stands where its place says."""
    uid, record = entry.pod.uid, engine.state.record(entry.pod.uid)
    flies = engine.flights.get(uid) is not None
    if engine.asking is not None and engine.asking.has(entry):
        check(entry.state is TRYING, f"{uid}: extenders are asked about it, and it is {entry.state}")
        check(not flies, f"{uid}: extenders are asked about it, and it flies")
    elif entry.place is Place.IN_FLIGHT:
        check(flies, f"{uid}: in flight, but there is no flight")
        check(record is not None, f"{uid}: flies, but stands nowhere")
        check(record is None or record.assumed, f"{uid}: flies, stands somewhere already and is still queued")
    else:
        check(record is None, f"{uid}: is {entry.place} and stands on a node")


def _check_promises(engine: Engine) -> None:
    for node in engine.state.nominations.nodes():
        for pod in engine.state.nominations.on(node):
            if engine.runner_of(pod) is None:
                check(engine.state.record(pod.uid) is None, f"{pod.key}: promised {node}, but stands on a node")
                continue
            entry = engine.queue.get(pod.uid)
            check(entry is not None, f"{pod.key}: promised {node}, but not in the queue")
            if entry is not None and entry.place is Place.IN_FLIGHT:
                asked = engine.asking is not None and engine.asking.has(entry)
                check(asked, f"{pod.key}: promised {node} and on its way")


def _check_not_lost(engine: Engine, pod: Pod) -> None:
    record, entry = engine.state.record(pod.uid), engine.queue.get(pod.uid)
    if pod.finished:
        check(record is None, f"{pod.key}: finished, but stands on a node")
        check(entry is None, f"{pod.key}: finished, but is queued")
    elif pod.node is not None:
        where = None if record is None else record.node
        check(where == pod.node, f"{pod.key}: bound to {pod.node}, stands on {where}")
        check(entry is None, f"{pod.key}: bound, but is queued")
    elif pod.deleted_s is not None or engine.runner_of(pod) is None:
        check(entry is None, f"{pod.key}: queued, but nobody is to place it")
    else:
        check(not (entry is None and record is None), f"{pod.key}: lost, neither queued nor standing on a node")


def check_queue(queue: SchedulingQueue) -> None:
    """Every pod and gang is listed where its place says, and nowhere else; members are where their gang is."""
    for gang in queue._gangs.values():
        check(bool(gang.members), f"{gang.uid} has no members")
        check(gang.pod.uid in gang.members, f"{gang.uid}: a stranger stands for it")
        for member in gang.members.values():
            check(queue.get(member.pod.uid) is member, f"{member.uid} is not in the queue, but in {gang.uid}")
            check(member.place is gang.place, f"{member.uid} is {member.place}, {gang.uid} is {gang.place}")
    members = {uid for gang in queue._gangs.values() for uid in gang.members}
    units = [*(entry for entry in queue.entries() if entry.uid not in members), *queue._gangs.values()]
    listed = _listed(queue)
    for entry in units:
        flies = entry.place is Place.IN_FLIGHT
        check(entry.unit is None or entry.uid in queue._gangs or flies, f"{entry.uid} is alone")
        found = {place: listed[entry.uid, place] for place in Place if listed[entry.uid, place]}
        check(found == ({} if flies else {entry.place: 1}), f"{entry.uid} is {entry.place}, listed in {found}")
    filed = {(name, uid) for name, entries in queue._by_plugin.items() for uid in entries}
    waiting = [entry for entry in units if entry.place in (Place.UNSCHEDULABLE, Place.GATED)]
    want = {(name, entry.uid) for entry in waiting for name in entry.rejected_by}
    check(filed == want, "entries are filed under other plugins than those that rejected them")


def _listed(queue: SchedulingQueue) -> Counter[tuple[str, Place]]:
    """How often each entry is listed where, stale ones left out."""
    listed: Counter[tuple[str, Place]] = Counter()
    for active in (queue._active, *queue.pacing._aside.values()):
        for _, ticket, entry in active:
            listed[entry.uid, Place.ACTIVE] += entry.ticket == ticket
    for heap in (queue._backing_off, queue._after_error):
        for _, _, ticket, entry in heap:
            listed[entry.uid, Place.BACKOFF] += entry.ticket == ticket
    listed.update((uid, Place.UNSCHEDULABLE) for uid in queue._unschedulable)
    listed.update((uid, Place.GATED) for uid in queue._gated)
    return listed
