"""The scheduling queue follows kube-scheduler's rules, and never loses a pod."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from moorage.engine.backoff import Backoff
from moorage.engine.invariants import check_queue
from moorage.engine.queue import SchedulingQueue
from moorage.engine.units import Place, QueuedPod, Unit
from moorage.framework.changes import Change, What
from moorage.plugins.priority_sort import PrioritySort
from moorage.testing import make_node, make_pod

HELPS = "Helps"
"""A plugin that any change helps."""
DEAF = "Deaf"
"""A plugin that nothing helps."""
PLUGINS = (HELPS, DEAF, "Gate")
NODE_ADDED = Change(What.NODE_ADDED, node=make_node("new"))


def make_queue(initial_s: float = 1.0, max_s: float = 10.0) -> SchedulingQueue:
    """Pods with gates are gated."""

    def gate(unit: Unit, _now: float) -> str | None:
        return "Gate" if unit.pod.gates else None

    def helps(name: str, unit: Unit, change: Change, now: float) -> bool:  # noqa: ARG001 - part of the interface
        return name != DEAF

    def key(unit: Unit) -> tuple[int, float]:
        return PrioritySort().queue_key(unit.pod, unit.since_s)

    return SchedulingQueue(key, gate, helps, Backoff(initial_s, max_s))


def fail(
    queue: SchedulingQueue, unit: Unit, now: float, by: Iterable[str] = (HELPS,), *, pending: bool = False
) -> None:
    queue.requeue(unit, now, rejected_by=frozenset(by), error=False, pending=pending)


def err(queue: SchedulingQueue, unit: Unit, now: float) -> None:
    queue.requeue(unit, now, rejected_by=frozenset(), error=True, pending=False)


def popped(queue: SchedulingQueue, now: float) -> Unit:
    unit = queue.pop(now)
    assert unit is not None
    assert unit.place is Place.IN_FLIGHT
    return unit


def place(queue: SchedulingQueue) -> Place | None:
    """Where the pod `p` is."""
    entry = queue.get("default/p")
    return None if entry is None else entry.place


def drain(queue: SchedulingQueue, now: float) -> list[str]:
    names = []
    while (entry := queue.pop(now)) is not None:
        names.append(entry.pod.name)
    return names


def test_higher_priority_first_then_who_came_first() -> None:
    """The order of PrioritySort; equals in order of arrival."""
    queue = make_queue()
    for name, priority, at in [("a", 0, 0.0), ("b", 10, 2.0), ("c", 10, 1.0), ("d", 0, 0.0), ("e", -5, 0.0)]:
        queue.upsert(make_pod(name, priority=priority), at)
    assert drain(queue, 3.0) == ["c", "b", "a", "d", "e"]


def test_pods_that_come_and_go_leave_nothing_behind() -> None:
    """Also where nobody takes pods out, as in a standby; those that stay come out in their order."""
    queue = make_queue()
    for number in range(3):
        queue.upsert(make_pod(f"stays-{number}", priority=number), 0.0)
    for number in range(1000):
        gone = make_pod(f"gone-{number}")
        queue.upsert(gone, float(number))
        queue.remove(gone.uid, float(number))
        assert len(queue._active) <= 100
    assert [popped(queue, 1000.0).pod.name for _ in range(3)] == ["stays-2", "stays-1", "stays-0"]


@pytest.mark.parametrize(
    ("failures", "want_s"),
    [(0, 0.0), (1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 10.0), (6, 10.0), (1000, 10.0)],
)
def test_backoff_doubles_up_to_its_cap(failures: int, want_s: float) -> None:
    """kube-scheduler's 1 s and 10 s."""
    assert Backoff().after(failures) == want_s


def test_each_misfit_lengthens_the_backoff() -> None:
    """Counted from the failure, not from the waking up."""
    queue = make_queue()
    queue.upsert(make_pod("p"), 0.0)
    now = 0.0
    for want_s in [1.0, 2.0, 4.0, 8.0, 10.0]:
        entry = popped(queue, now)
        fail(queue, entry, now)
        assert entry.backoff_until_s == now + want_s
        now += 100.0
        queue.changed(NODE_ADDED, now, PLUGINS)
        assert entry.place is Place.ACTIVE, "the backoff is over when the pod wakes up late"


def test_errors_have_a_backoff_of_their_own() -> None:
    """Misfits do not count as errors, nor errors as misfits; a misfit ends a row of errors."""
    queue = make_queue()
    entry = queue.upsert(make_pod("p"), 0.0).unit
    for want_s in [1.0, 2.0, 4.0]:
        now = entry.backoff_until_s
        err(queue, popped(queue, now), now)
        assert entry.backoff_until_s == now + want_s
    now = entry.backoff_until_s
    fail(queue, popped(queue, now), now)
    assert entry.backoff_until_s == now + 1.0, "the first misfit"
    queue.changed(NODE_ADDED, now + 50, PLUGINS)
    err(queue, popped(queue, now + 50), now + 50)
    assert entry.backoff_until_s == now + 51.0, "the first error of a new row"


def test_with_nothing_active_pods_in_backoff_are_tried_at_once() -> None:
    """But active pods go first."""
    queue = make_queue()
    backing_off = queue.upsert(make_pod("again"), 0.0)
    fail(queue, popped(queue, 0.0), 0.0)
    queue.changed(NODE_ADDED, 0.1, PLUGINS)
    assert backing_off.place is Place.BACKOFF
    queue.upsert(make_pod("new", priority=-1), 0.1)
    assert drain(queue, 0.1) == ["new", "again"]


def test_after_an_error_the_backoff_is_sat_out() -> None:
    """An idle queue does not hammer a broken API server."""
    queue = make_queue()
    queue.upsert(make_pod("p"), 0.0)
    err(queue, popped(queue, 0.0), 0.0)
    assert queue.pop(0.9) is None
    assert not queue.ready()
    assert queue.next_wakeup() == 1.0
    assert popped(queue, 1.0).pod.name == "p"


def test_unschedulable_pods_wake_up_only_by_changes_that_help() -> None:
    """Each rejecting plugin is asked; one that is helped is enough."""
    queue = make_queue()
    pods = {"helped": (HELPS,), "deaf": (DEAF,), "both": (DEAF, HELPS)}
    for name in pods:
        queue.upsert(make_pod(name), 0.0)
    for _ in pods:
        entry = popped(queue, 0.0)
        fail(queue, entry, 0.0, pods[entry.pod.name])
    assert queue.pop(5.0) is None
    queue.changed(NODE_ADDED, 5.0, [DEAF])
    assert queue.pop(5.0) is None
    queue.changed(NODE_ADDED, 5.0, PLUGINS)
    assert drain(queue, 5.0) == ["helped", "both"]


def test_unschedulable_pods_are_tried_again_after_five_minutes() -> None:
    """Looked at every 30 s; a pod that waited for more than 5 minutes is tried."""
    queue = make_queue()
    queue.upsert(make_pod("first"), 0.0)
    fail(queue, popped(queue, 0.0), 0.0, [DEAF])
    queue.upsert(make_pod("second"), 20.0)
    fail(queue, popped(queue, 20.0), 20.0, [DEAF])
    looks: list[tuple[float, list[str]]] = []
    now = queue.next_wakeup()
    while now is not None and len(looks) < 20:
        looks.append((now, drain(queue, now)))
        now = queue.next_wakeup()
    assert looks == [(30.0 * i, []) for i in range(1, 11)] + [(330.0, ["first", "second"])]


def test_the_flush_keeps_looking_while_pods_wait() -> None:
    """And stops when none does."""
    queue = make_queue()
    queue.upsert(make_pod("p"), 0.0)
    fail(queue, popped(queue, 0.0), 0.0, [DEAF])
    queue.tick(331.0)
    assert queue.get("default/p") is not None
    fail(queue, popped(queue, 331.0), 331.0, [DEAF])
    assert queue.next_wakeup() is not None
    queue.remove("default/p", 3.0)
    queue.tick(400.0)
    assert queue.next_wakeup() is None


def test_gated_pods_wait_for_their_gates() -> None:
    """No change of the cluster and no time helps; the last gate's removal does."""
    queue = make_queue()
    queue.upsert(make_pod("p", gates=["a", "b"]), 0.0)
    assert place(queue) is Place.GATED
    assert queue.pop(1000.0) is None
    queue.upsert(make_pod("p", gates=["b"]), 1.0)
    assert place(queue) is Place.GATED
    queue.changed(NODE_ADDED, 2.0, PLUGINS)
    assert place(queue) is Place.GATED
    queue.upsert(make_pod("p"), 3.0)
    assert place(queue) is Place.ACTIVE
    assert drain(queue, 3.0) == ["p"]
    assert queue.quiet


def test_a_pod_keeps_its_turn_while_it_is_gated() -> None:
    """kube-scheduler orders by when the pod came, not by when its gates went."""
    queue = make_queue()
    queue.upsert(make_pod("early", gates=["a"]), 0.0)
    queue.upsert(make_pod("late"), 1.0)
    queue.upsert(make_pod("early"), 2.0)
    assert drain(queue, 2.0) == ["early", "late"]


def test_waking_up_from_pending_skips_the_backoff() -> None:
    """What the pod waited for has happened: no reason to wait longer, nor to let others go first."""
    queue = make_queue()
    entry = queue.upsert(make_pod("p"), 0.0)
    fail(queue, popped(queue, 0.0), 0.0, pending=True)
    queue.changed(NODE_ADDED, 0.1, PLUGINS)
    assert entry.place is Place.ACTIVE


def test_a_change_of_the_pod_itself_wakes_it() -> None:
    """If it can help the plugin that rejected it; a mere status update never does."""
    queue = make_queue()
    queue.upsert(make_pod("p", cpu="4"), 0.0)
    fail(queue, popped(queue, 0.0), 0.0)
    queue.upsert(make_pod("p", cpu="4", nominated_node="n1"), 2.0)
    assert place(queue) is Place.UNSCHEDULABLE
    queue.upsert(make_pod("p", cpu="1"), 2.0)
    assert place(queue) is Place.ACTIVE
    fail(queue, popped(queue, 2.0), 2.0, [DEAF])
    queue.upsert(make_pod("p", cpu="500m"), 9.0)
    assert place(queue) is Place.UNSCHEDULABLE


def test_a_new_version_of_an_active_pod_is_the_one_that_is_tried() -> None:
    """Once, at its new place in the order."""
    queue = make_queue()
    queue.upsert(make_pod("p", priority=0), 0.0)
    queue.upsert(make_pod("q", priority=5), 0.0)
    queue.upsert(make_pod("p", priority=9), 0.0)
    assert drain(queue, 0.0) == ["p", "q"]


@pytest.mark.parametrize("where", list(Place), ids=str)
def test_a_removed_pod_is_gone_from_everywhere(where: Place) -> None:
    """It never comes out again, and may come back as a new one."""
    queue = make_queue()
    entry = put(queue, where)
    assert entry.place is where
    assert queue.remove("default/p", 3.0) is entry
    assert queue.get("default/p") is None
    queue.changed(NODE_ADDED, 1.0, PLUGINS)
    queue.tick(1000.0)
    assert queue.pop(1000.0) is None
    assert queue.quiet
    assert queue.next_wakeup() is None
    fail(queue, entry.unit, 1000.0)
    assert len(queue) == 0, "an attempt that ends after the removal changes nothing"
    queue.upsert(make_pod("p"), 2000.0)
    assert drain(queue, 2000.0) == ["p"]


def put(queue: SchedulingQueue, where: Place) -> QueuedPod:
    entry = queue.upsert(make_pod("p", gates=["g"] if where is Place.GATED else []), 0.0)
    if where in (Place.ACTIVE, Place.GATED):
        return entry
    popped(queue, 0.0)
    if where is Place.BACKOFF:
        err(queue, entry.unit, 0.0)
    elif where is Place.UNSCHEDULABLE:
        fail(queue, entry.unit, 0.0)
    return entry


def test_a_pod_that_keeps_failing_at_one_instant_has_to_wait() -> None:
    """Pods that wake each other up for nothing must not keep one call busy for ever."""
    queue = make_queue()
    queue.upsert(make_pod("p"), 0.0)
    unit = queue.pop(5.0)
    while unit is not None and unit.misfits < 100:
        fail(queue, unit, 5.0)
        queue.changed(NODE_ADDED, 5.0, PLUGINS)
        unit = queue.pop(5.0)
    assert unit is None
    assert not queue.ready()
    assert queue.next_wakeup() == 15.0
    assert popped(queue, 15.0).pod.name == "p"


class QueueMachine(RuleBasedStateMachine):
    """Random use; a model knows which pods there are."""

    @initialize()
    def begin(self) -> None:
        self.queue = make_queue()
        self.now = 0.0
        self.known: set[str] = set()
        self.flying: dict[str, Unit] = {}

    @rule(number=st.integers(0, 7), priority=st.integers(0, 2), gated=st.booleans())
    def upsert(self, number: int, priority: int, gated: bool) -> None:
        pod = make_pod(f"p{number}", priority=priority, gates=["g"] if gated else [])
        self.queue.upsert(pod, self.now)
        self.known.add(pod.uid)

    @rule(number=st.integers(0, 7))
    def remove(self, number: int) -> None:
        uid = f"default/p{number}"
        assert (self.queue.remove(uid, self.now) is not None) == (uid in self.known)
        self.known.discard(uid)

    @rule()
    def pop(self) -> None:
        was_ready = self.queue.ready()
        entry = self.queue.pop(self.now)
        assert entry is not None or not was_ready
        if entry is not None:
            assert entry.pod.uid in self.known
            self.flying[entry.pod.uid] = entry

    @rule(
        data=st.data(),
        by=st.sets(st.sampled_from([HELPS, DEAF])),
        error=st.booleans(),
        pending=st.booleans(),
    )
    def give_back(self, data: st.DataObject, by: set[str], error: bool, pending: bool) -> None:
        if self.flying:
            entry = self.flying.pop(data.draw(st.sampled_from(sorted(self.flying))))
            self.queue.requeue(entry, self.now, rejected_by=frozenset(by), error=error, pending=pending)

    @rule(plugins=st.sets(st.sampled_from(PLUGINS)))
    def change(self, plugins: set[str]) -> None:
        self.queue.changed(NODE_ADDED, self.now, sorted(plugins))

    @rule(by_s=st.sampled_from([0.5, 1.0, 9.0, 31.0, 301.0]))
    def time_passes(self, by_s: float) -> None:
        self.now += by_s
        self.queue.tick(self.now)

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        if hasattr(self, "queue"):
            self.flying = {uid: e for uid, e in self.flying.items() if self.queue.find(uid) is e}
            check_queue(self.queue)
            assert {entry.pod.uid for entry in self.queue.entries()} == self.known
            flying = {e.pod.uid for e in self.queue.entries() if e.place is Place.IN_FLIGHT}
            assert flying == set(self.flying)

    def teardown(self) -> None:
        """A pod that is neither gated, deaf nor in flight comes out in the end."""
        if not hasattr(self, "queue"):
            return
        for _ in range(3):
            self.queue.changed(NODE_ADDED, self.now, [HELPS])
            self.now += 400.0
            while (entry := self.queue.pop(self.now)) is not None:
                assert entry.pod.uid in self.known
        assert all(entry.place in (Place.GATED, Place.IN_FLIGHT) for entry in self.queue.entries())


QueueMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestRandomUse = QueueMachine.TestCase
