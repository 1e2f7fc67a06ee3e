"""What must hold for an engine between any two calls.

Run at the teardown of every engine test, and between turns by a scheduler that checks itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from moorage.core.invariants import check, check_invariants
from moorage.core.pods import Pod
from moorage.engine.bindingcycles import BindingCycle
from moorage.engine.engine import Engine
from moorage.engine.lifecycle import ACTIVE, BINDING, ON_ITS_WAY, PERMIT, PRE_BIND, READY, TRYING
from moorage.engine.makingroom import SUCCESSOR
from moorage.engine.queue import SchedulingQueue
from moorage.engine.units import Place, QueuedPod


def check_engine(engine: Engine, pods: Iterable[Pod] = ()) -> None:
    """Raise `InvariantError` with what is wrong. `pods` are all pods that exist, as the engine last saw them."""
    check_invariants(engine.state)
    check_queue(engine.queue)
    _check_bindings(engine)
    for entry in engine.queue.entries():
        _check_entry(engine, entry)
    _check_nominations(engine)
    check(not engine._context.changes, "changes that waiting pods were not told of")
    for pod in pods:
        _check_not_lost(engine, pod)


def _check_bindings(engine: Engine) -> None:
    bindings = engine.bindings
    for uid, binding in bindings._cycles.items():
        check(binding.entry.pod.uid == uid, f"{uid}: the binding cycle of {binding.entry.pod.uid}")
        entry = engine.queue.get(uid)
        if entry is None:
            check(binding.state is BINDING, f"{uid}: left the queue, and waits to be bound")
        else:
            check(entry is binding.entry, f"{uid}: another entry than that of its binding cycle")
        check(binding.state in ON_ITS_WAY, f"{uid}: has a binding cycle and is {binding.state}")
        _check_state(engine, uid, binding)
    due_s = {uid: binding.deadline_s for uid, binding in bindings._held.items()}
    check(bindings._deadlines._at_s == due_s, "deadlines of pods that wait are noted wrongly")
    posted = Counter(each.entry.pod.namespace for each in bindings._cycles.values() if each.state is BINDING)
    check(bindings._posted == posted, "binds under way are counted wrongly")
    check(all(0 < n <= posted[name] for name, n in bindings._beyond.items()), "places of gangs are counted wrongly")
    awaits = {uid: binding.awaits for uid, binding in bindings._held.items() if binding.awaits}
    check(bindings._interests._things == awaits, "what pods wait for is noted wrongly")


def _check_state(engine: Engine, uid: str, binding: BindingCycle) -> None:
    held, ready = binding.state in (PERMIT, PRE_BIND), binding.state is READY
    gang = binding.gang
    check(not ready or (gang is not None and not gang.begun), f"{uid}: ready, but waits for no other member")
    check((uid in engine.bindings._ready) == ready, f"{uid}: {binding.state}, ready {not ready}")
    check((uid in engine.bindings._held) == held, f"{uid}: {binding.state}, held {not held}")
    check(held == (binding.held_by is not None), f"{uid}: {binding.state}, held by {binding.held_by}")
    there = engine.state.row_of(binding.node) == binding.row
    check(there or not (held or ready), f"{uid}: waits for a node that is gone")


def _check_entry(engine: Engine, entry: QueuedPod) -> None:
    """A pod in the queue is where its place says."""
    uid, record = entry.pod.uid, engine.state.record(entry.pod.uid)
    on_its_way = engine.bindings.get(uid) is not None
    if engine.asking is not None and engine.asking.has(entry):
        check(entry.state is TRYING, f"{uid}: extenders are asked about it, and it is {entry.state}")
        check(not on_its_way, f"{uid}: extenders are asked about it, and it has a binding cycle")
    elif entry.place is Place.IN_FLIGHT:
        check(on_its_way, f"{uid}: in flight without a binding cycle")
        check(record is not None, f"{uid}: on its way, but stands nowhere")
        check(record is None or record.assumed, f"{uid}: on its way, stands somewhere already and is still queued")
    else:
        check(record is None, f"{uid}: is {entry.place} and stands on a node")


def _check_nominations(engine: Engine) -> None:
    for node in engine.state.nominations.nodes():
        for pod in engine.state.nominations.on(node):
            if engine.runner_of(pod) is None:
                check(engine.state.record(pod.uid) is None, f"{pod.key}: nominated to {node}, but stands on a node")
                continue
            if pod.uid.startswith(SUCCESSOR):
                continue  # a place that is kept for one that comes back
            entry = engine.queue.get(pod.uid)
            check(entry is not None, f"{pod.key}: nominated to {node}, but not in the queue")
            if entry is not None and entry.place is Place.IN_FLIGHT:
                asked = engine.asking is not None and engine.asking.has(entry)
                check(asked, f"{pod.key}: nominated to {node} and on its way")


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
        check(entry is None, f"{pod.key}: queued, but not to be placed by this scheduler")
    else:
        check(not (entry is None and record is None), f"{pod.key}: lost, neither queued nor standing on a node")


def check_queue(queue: SchedulingQueue) -> None:
    """Every pod and gang is listed where its place says, and nowhere else; members are where their gang is."""
    for gang in queue._gangs.values():
        check(bool(gang.members), f"{gang.uid} has no members")
        check(gang.pod.uid in gang.members, f"{gang.uid}: is represented by a pod that is no member")
        for member in gang.members.values():
            uid = member.pod.uid
            check(queue.get(uid) is member, f"{uid} is not in the queue, but in {gang.uid}")
            check(member.unit is gang, f"{uid} is in {gang.uid}, and has {member.unit.uid}")
    for entry in queue.entries():
        unit, uid = entry.unit, entry.pod.uid
        waits = entry.place is not Place.IN_FLIGHT
        check(uid in unit.members or (unit.gang is not None and not waits), f"{uid} waits in no unit")
        check(not waits or entry.state is unit.state, f"{uid} is {entry.state}, {unit.uid} is {unit.state}")
        check(waits or unit.gang is not None or unit.state is TRYING, f"{uid} is {entry.state}, its unit {unit.state}")
    units = [*(entry.unit for entry in queue.entries() if entry.unit.gang is None), *queue._gangs.values()]
    listed = _listed(queue)
    for unit in units:
        if unit.state is ACTIVE and queue.shared is not None and queue.shared.governs(unit.pod):
            continue  # sorted in when it is asked for
        found = {place: listed[unit.uid, place] for place in Place if listed[unit.uid, place]}
        want = {} if unit.place is Place.IN_FLIGHT else {unit.place: 1}
        check(found == want, f"{unit.uid} is {unit.place}, listed in {found}")
    filed = {(name, uid) for name, entries in queue._by_plugin.items() for uid in entries}
    waiting = [unit for unit in units if unit.place in (Place.UNSCHEDULABLE, Place.GATED)]
    behind = {uid for line in queue._lines.values() for uid in list(line)[1:]}
    awake = (unit for unit in waiting if unit.uid not in behind or unit.place is Place.GATED)
    rejected = {(name, unit.uid) for unit in awake for name in unit.rejected_by}
    check(filed == rejected, "units are filed under other plugins than those that rejected them")
    _check_lines(queue)


def _check_lines(queue: SchedulingQueue) -> None:
    """Who stands in line is in the queue, in one line only, and knows it."""
    for number, line in queue._lines.items():
        check(bool(line), f"line {number} is empty")
        for uid, unit in line.items():
            check(queue.find(uid) is unit, f"{uid} stands in line, and is not in the queue")
            check(unit.line == number, f"{uid} stands in line {number}, and has {unit.line}")
    standing = sum(map(len, queue._lines.values()))
    units = {id(entry.unit): entry.unit for entry in queue.entries()}.values()
    check(standing == sum(unit.line > 0 for unit in units), "units have a line in which they do not stand")
    named = {queue._line_of[kind]: kind for kind in queue._line_of}
    check(named == queue._kind_of and named.keys() == queue._lines.keys(), "lines and their kinds differ")


def _listed(queue: SchedulingQueue) -> Counter[tuple[str, Place]]:
    """How often each unit is listed where, without stale items."""
    listed: Counter[tuple[str, Place]] = Counter()
    for active in (queue._active, queue._postponed, *queue.pacing._aside.values()):
        for _, ticket, unit in active:
            listed[unit.uid, Place.ACTIVE] += unit.ticket == ticket
    for heap in (queue._backing_off, queue._after_error):
        for _, _, ticket, unit in heap:
            listed[unit.uid, Place.BACKOFF] += unit.ticket == ticket
    listed.update((uid, Place.UNSCHEDULABLE) for uid in queue._unschedulable)
    listed.update((uid, Place.GATED) for uid in queue._gated)
    return listed
