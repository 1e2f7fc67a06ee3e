"""More work than room: who is tried, who is evicted, who starts first, and what the waiting are told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from moorage.core.arrivals import NODE_CLAIM, NodeClaim
from moorage.core.commands import Bind, Command, DeletePod, PatchPodStatus, RecordEvent
from moorage.core.events import DeleteDone, ObjectGone, ObjectSeen, PodGone, PodSeen, StatusDone
from moorage.core.membership import Declared, GangKey
from moorage.core.pods import Pod
from moorage.core.queues import QUEUE
from moorage.engine.exchanging import exchange
from moorage.engine.roomparts import Order
from moorage.engine.turnover import WINDOW_S, Turnover
from moorage.engine.words import BURST, PER_SECOND
from moorage.testing import make_node, make_pod
from tests.queues.teams import GPU, Teams, hasty, make_queue, team_pod

PATIENT_S = 10.0


def gang(name: str, queue: str, size: int, **fields: object) -> list[Pod]:
    """The members of a gang, alike."""
    notes = {"moorage.dev/pod-group": name, "moorage.dev/pod-group-min-available": str(size)}
    return [team_pod(f"{name}-{n}", queue, annotations=notes, **fields) for n in range(size)]  # type: ignore[arg-type]


def on(node: str, pods: list[Pod]) -> list[Pod]:
    return [replace(pod, node=node) for pod in pods]


def attempts(teams: Teams) -> dict[str, int]:
    return {entry.pod.name: entry.attempts for entry in teams.engine.queue.entries()}


# --- lines ---


def full(waiting: int, gpus: int = 4) -> Teams:
    """One node, all of it in use; equal pods wait, the first one first."""
    teams = Teams(make_queue("q"), nodes=(gpus,))
    teams.see(*on("n0", [team_pod(f"r{n}", "q") for n in range(gpus)]))
    for number in range(waiting):
        teams.see(team_pod(f"w{number}", "q", created_s=1.0 + number))
    return teams


def test_only_the_first_of_a_kind_is_tried_when_something_changes() -> None:
    """A pod ends, and a hundred equal ones wait: the first is placed, the second is tried, the others are not."""
    teams = full(100)
    before = attempts(teams)
    teams.end(team_pod("r0", "q"))
    after = attempts(teams)
    assert "w0" in teams.running()
    assert Counter(after[name] - before[name] for name in after) == {0: 98, 1: 1}, "w1 was tried after w0 was placed"


@pytest.mark.parametrize("leaves", ["the first is deleted", "the first gets a gate", "the first asks for another size"])
def test_the_next_of_a_kind_moves_up(leaves: str) -> None:
    """Whatever becomes of the first, room goes to the next."""
    teams = full(3)
    first = team_pod("w0", "q", created_s=1.0)
    if leaves == "the first is deleted":
        teams.end(first)
    else:
        odd = replace(first, gates=("wait",)) if "gate" in leaves else team_pod("w0", "q", 9, created_s=1.0)
        teams.see(odd)
    teams.end(team_pod("r0", "q"))
    teams.end(team_pod("r1", "q"))
    assert {"w1", "w2"} <= set(teams.running())


def test_pods_that_differ_do_not_wait_for_each_other() -> None:
    """A large pod that stands first in its queue is no reason for a small one to wait."""
    teams = full(0)
    teams.see(team_pod("large", "q", 4, created_s=1.0), team_pod("small", "q", 1, created_s=2.0))
    teams.end(team_pod("r0", "q"))
    assert "small" in teams.running()


def waiting_gangs(*names: str) -> Teams:
    """The same, with gangs of three that wait; all that is free is one GPU."""
    teams = full(0)
    teams.end(team_pod("r3", "q"))
    for number, name in enumerate(names):
        teams.see(*gang(name, "q", 3, created_s=1.0 + number))
    return teams


def test_a_gang_is_tried_when_what_is_left_may_suffice() -> None:
    """Of four GPUs one is free, a gang needs three: the first pod that ends is no reason to try it, the second is."""
    teams = waiting_gangs("g", "h")
    teams.engine.gangs.tried.clear()
    teams.end(team_pod("r0", "q"))
    assert not teams.engine.gangs.tried
    teams.end(team_pod("r1", "q"))
    assert {"g-0", "g-1", "g-2"} <= set(teams.running())
    teams.end(team_pod("r2", "q"))
    for member in gang("g", "q", 3, created_s=1.0):
        teams.end(member)
    assert {"h-0", "h-1", "h-2"} <= set(teams.running())


def test_who_moves_up_in_line_is_not_placed_in_vain() -> None:
    """The first of two gangs goes, the second comes first: its members are not placed one by one, as two GPUs lack."""
    teams = waiting_gangs("g", "h")
    teams.play([])
    teams.engine.gangs.tried.clear()
    for member in gang("g", "q", 3, created_s=1.0):
        teams.end(member)
    assert not teams.engine.gangs.tried
    (unit,) = {id(entry.unit): entry.unit for entry in teams.engine.queue.entries()}.values()
    assert "pod group default/h: 1 of 3 members fit; 0/1 nodes are available" in unit.message
    for name in ("r0", "r1"):
        teams.end(team_pod(name, "q"))
    assert {"h-0", "h-1", "h-2"} <= set(teams.running())


def test_another_reason_than_before_is_told() -> None:
    """Gangs beyond the limit of their queue get a larger limit, and then lack room: that is what they are told."""
    teams = Teams(make_queue("q", limit=4), make_queue("other"), nodes=(6,))
    teams.see(*on("n0", [team_pod("r0", "q")]))
    teams.see(*gang("g", "q", 4, created_s=1.0), *gang("h", "q", 4, created_s=2.0))
    told = {entry.unit.message for entry in teams.engine.queue.entries()}
    assert len(told) == 2
    assert all("limit of 4" in each for each in told)
    teams.see(*on("n0", [team_pod(f"r{n}", "other") for n in range(1, 5)]))
    teams.play([ObjectSeen(QUEUE, "q", make_queue("q", limit=40))])
    told = {entry.unit.message for entry in teams.engine.queue.entries()}
    assert len(told) == 2
    assert all("1 Insufficient nvidia.com/gpu" in each and "limit" not in each for each in told)


def test_a_member_that_comes_late_is_told_why_it_waits() -> None:
    """A gang in line is not tried again in vain, but a further member has heard nothing yet."""
    teams = waiting_gangs("g")
    teams.now += 5.0
    late = gang("g", "q", 4, created_s=9.0)[3]
    late = replace(late, template=gang("g", "q", 3, created_s=9.0)[0].template)
    assert any(told([each]) and each.pod.name == "g-3" for each in commands_of(teams, PodSeen(late)))


def test_nobody_is_evicted_for_a_gang_that_waits_for_nodes_on_their_way() -> None:
    """A pod of somebody else ends meanwhile: the gang is as it was."""
    teams = Teams(make_queue("a", 4), make_queue("b"), nodes=(4,))
    teams.see(*on("n0", [team_pod(f"b{n}", "b") for n in range(4)]))
    capacity = make_node("new", cpu="64", memory="64Gi", resources={GPU: 4}).allocatable
    teams.play([ObjectSeen(NODE_CLAIM, "new", NodeClaim("new", allocatable=capacity, created_s=teams.now))])
    teams.see(*gang("g", "a", 3, created_s=1.0))
    teams.now += 5.0
    other = make_pod("other", cpu="1", scheduler_name="moorage")
    teams.see(other)
    teams.end(other)
    assert not teams.evicted


def test_nothing_is_due_once_the_last_queue_is_gone() -> None:
    """An evicted pod was expected back: that time passes, and the engine does not ask to be called for it for ever."""
    teams = Teams(make_queue("a", 4), make_queue("b"), nodes=(4,))
    teams.see(*on("n0", [team_pod(f"b{n}", "b") for n in range(4)]))
    teams.see(team_pod("a0", "a", 2))
    assert teams.evicted
    teams.engine.handle([ObjectGone(QUEUE, name) for name in "ab"], teams.now)
    teams.now += 120.0
    teams.play([])
    _, next_s = teams.engine.handle([], teams.now)
    assert next_s is None or next_s > teams.now


# --- pods that end by themselves ---


def busy(profile_wait_s: float = PATIENT_S) -> Teams:
    """Queue b has its quota in use by less important pods of its own, which end one after another."""
    teams = Teams(
        make_queue("a", 4),
        make_queue("b", 4),
        nodes=(4, 4, 8),
        profiles=hasty(wait_for_ends_seconds=profile_wait_s),
    )
    teams.see(
        *on("n0", [team_pod(f"b{n}", "b") for n in range(4)]), *on("n1", [team_pod(f"a{n}", "a") for n in range(4)])
    )
    teams.see(*on("n2", [team_pod(f"short{n}", "a") for n in range(8)]))
    teams.now = 99.0
    for number in range(8):
        teams.end(team_pod(f"short{number}", "a"))
    teams.see(*on("n2", [team_pod(f"fixed{n}", "a", preemptible=False) for n in range(8)]))
    return teams


@pytest.mark.parametrize(("wait_s", "evicted"), [(PATIENT_S, 0), (0.0, 3)])
def test_nobody_is_evicted_for_what_becomes_free_anyway(wait_s: float, evicted: int) -> None:
    """A gang of three, one of four less important pods has just ended: the others should end soon, too."""
    teams = busy(wait_s)
    teams.now = 100.0
    teams.end(team_pod("a0", "a"))
    teams.end(team_pod("b0", "b"))
    teams.see(team_pod("new", "a"), *gang("g", "b", 4, priority=10))
    assert len(teams.evicted) == evicted
    for number in range(1, 4):
        teams.now += 1.0
        teams.end(team_pod(f"b{number}", "b"))
    assert {f"g-{n}" for n in range(4)} <= set(teams.running())
    assert len(teams.evicted) == evicted


def test_others_are_evicted_once_a_turn_was_in_vain() -> None:
    """Pods ended, and then they do not any more: the gang has its room after its turn of ten seconds."""
    teams = busy()
    teams.now = 100.0
    teams.end(team_pod("b0", "b"))
    teams.see(*gang("g", "b", 4, priority=10))
    assert teams.engine.gangs.turns.favoured == GangKey("default", "g", Declared.ANNOTATION)
    assert not teams.evicted
    for _ in range(30):
        teams.now += 1.0
        teams.play([])
    assert [pod.name for pod in teams.evicted] == ["a3", "a2", "a1"]
    assert {f"g-{n}" for n in range(4)} <= set(teams.running())


def test_what_others_gather_is_not_taken_by_less_important_pods() -> None:
    """While a gang gathers room, what becomes free is kept for it."""
    teams = busy()
    teams.now = 100.0
    teams.end(team_pod("b0", "b"))
    teams.see(*gang("g", "b", 4, priority=10))
    teams.see(team_pod("small", "b"))
    teams.now += 1.0
    teams.end(team_pod("b1", "b"))
    assert "small" not in teams.running()


def test_how_soon_room_is_expected() -> None:
    """By the number of pods at least as large that ended within the window; older ones are forgotten."""
    turnover = Turnover()
    large, small = team_pod("large", "q", 4), team_pod("small", "q", 1)
    assert turnover.expected_s([small], 0.0) == float("inf")
    for number in range(5):
        turnover.ended(small, float(number))
    assert turnover.expected_s([small] * 2, 5.0) == pytest.approx(WINDOW_S * 2 / 5)
    assert turnover.expected_s([small, large], 5.0) == float("inf")
    assert turnover.expected_s([small], WINDOW_S + 10.0) == float("inf")
    assert not turnover.ends


def test_pods_that_were_just_placed_are_spared() -> None:
    """For five seconds by default; the eviction follows."""
    teams = Teams(make_queue("a", 1), make_queue("b", 1), nodes=(2,), profiles=hasty(min_runtime_seconds=5.0))
    teams.see(team_pod("a1", "a"), team_pod("a2", "a", created_s=1.0))
    teams.now = 2.0
    teams.see(team_pod("b1", "b", created_s=2.0))
    assert not teams.evicted
    teams.now = 5.5
    teams.play([])
    assert [pod.name for pod in teams.evicted] == ["a2"]
    assert "b1" in teams.running("b")


# --- pipelining ---


def commands_of(teams: Teams, *events: object) -> list[Command]:
    commands, _ = teams.engine.handle(list(events), teams.now)  # type: ignore[arg-type]
    return commands


def test_a_gang_starts_when_its_own_victims_are_gone() -> None:
    """Four gangs take back their share; the victims of three of them are still on their nodes."""
    teams = Teams(make_queue("a", 8), make_queue("b", 8), nodes=(4,) * 4)
    for number in range(8):
        mine = gang(f"a{number}", "a", 2, created_s=float(number))
        teams.see(*(replace(pod, node=f"n{(2 * number + n) % 4}") for n, pod in enumerate(mine)))
    teams.now = 100.0
    seen = [PodSeen(pod) for n in range(4) for pod in gang(f"b{n}", "b", 2, created_s=100.0 + n)]
    evictions = [each for each in commands_of(teams, *seen) if isinstance(each, DeletePod)]
    assert len(evictions) == 8
    assert evictions[0].preemptor is not None
    first = evictions[0].preemptor.name.partition("-")[0]
    own = [each.pod.uid for each in evictions if each.preemptor and each.preemptor.name.startswith(f"{first}-")]
    assert len(own) == 2
    teams.now += 0.1
    commands_of(teams, *(DeleteDone(uid, ok=True) for uid in own))
    records = commands_of(teams, *map(PodGone, own))
    tokens = [each for each in records if isinstance(each, PatchPodStatus) and each.token]
    binds = commands_of(teams, *(StatusDone(each.pod.uid, ok=True, token=each.token) for each in tokens))
    assert {each.pod.name for each in binds if isinstance(each, Bind)} == {f"{first}-0", f"{first}-1"}


def test_units_exchange_nodes_only_among_their_like() -> None:
    """Each gets the nodes of its own victims as far as others have them; one that is like no other keeps its own."""
    teams = Teams(make_queue("q"), nodes=(1,))
    leaf = teams.engine.state.queues.settle(teams.engine.state).nodes["q"]
    unit = teams.engine.queue.upsert(team_pod("any", "q"), 0.0).unit
    orders = [
        Order(unit, leaf, {"p1": "n3", "p2": "n4"}, ["v1", "v2"], {}, ["", ""]),
        Order(unit, leaf, {"p3": "n1"}, ["v3"], {}, [""]),
        Order(unit, leaf, {"odd": "n2"}, ["v4"], {}, [""]),
    ]
    homes = {"v1": "n1", "v2": "n2", "v3": "n3", "v4": "n4"}
    exchange(orders, lambda uid: None if uid == "odd" else "alike", homes.get)
    assert [order.nodes for order in orders] == [{"p1": "n1", "p2": "n4"}, {"p3": "n3"}, {"odd": "n2"}]


def test_room_that_is_free_is_kept_for_whom_it_was_promised() -> None:
    """A pod of another queue does not get what the victims of a gang have left."""
    teams = Teams(make_queue("a", 2), make_queue("b", 2), make_queue("c"), nodes=(4,))
    teams.see(*on("n0", [team_pod(f"a{n}", "a") for n in range(4)]))
    teams.now = 100.0
    evictions = [e for e in commands_of(teams, *map(PodSeen, gang("g", "b", 2))) if isinstance(e, DeletePod)]
    assert len(evictions) == 2
    commands_of(teams, DeleteDone(evictions[0].pod.uid, ok=True), PodGone(evictions[0].pod.uid))
    assert not [e for e in commands_of(teams, PodSeen(team_pod("thief", "c"))) if isinstance(e, Bind)]


# --- words ---


def told(commands: list[Command]) -> Counter[str]:
    conditions = [each for each in commands if isinstance(each, PatchPodStatus) and each.condition is not None]
    events = [each for each in commands if isinstance(each, RecordEvent) and each.reason == "FailedScheduling"]
    return Counter(conditions=len(conditions), events=len(events))


def test_members_share_a_reason_and_hear_it_again_when_its_kind_changes() -> None:
    """Every member has the condition and one the event; another number is told after a minute, another kind at once."""
    teams = Teams(make_queue("q", 2), make_queue("other", 2), nodes=(4,))
    teams.see(*on("n0", [team_pod(f"r{n}", "q") for n in range(4)]))
    members, all_of_it = gang("g", "q", 2), Counter(conditions=2, events=1)
    assert told(commands_of(teams, *map(PodSeen, members))) == all_of_it
    teams.now = 1.0
    assert not +told(commands_of(teams, PodGone("default/r0"))), "1 of 2 members fit, not 0"
    teams.now = 70.0
    taken = on("n0", [team_pod(f"s{n}", "other") for n in range(3)])
    assert told(commands_of(teams, PodGone("default/r1"), *map(PodSeen, taken))) == all_of_it, "it has 2 of 2"
    teams.now = 71.0
    assert told(commands_of(teams, PodGone("default/r2"), PodGone("default/r3"))) == all_of_it, (
        "not its share is at fault"
    )


def test_namespaces_take_turns_to_be_told() -> None:
    """A thousand pods of one namespace do not keep the only one of another from being told."""
    teams = Teams(make_queue("q"), nodes=(1,))
    commands_of(teams, *(PodSeen(team_pod(f"w{n}", "q", 2, cpu=f"{n + 1}m")) for n in range(1000)))
    teams.now = 1.0
    commands = commands_of(teams, PodSeen(team_pod("late", "q", 2, namespace="other")))
    assert told([each for each in commands if each.pod.name == "late"]) == {"conditions": 1, "events": 1}


def test_a_gang_of_another_queue_is_not_kept_from_its_quota() -> None:
    """However important the gangs of other queues are that keep coming, and whatever ends where it cannot go."""
    teams = Teams(make_queue("a", 4), make_queue("b", 4), nodes=(4, 8), profiles=hasty(wait_for_ends_seconds=PATIENT_S))
    teams.see(*on("n0", [team_pod(f"a{n}", "a") for n in range(4)]))
    teams.now = 100.0
    wanted = gang("g", "b", 4, node_selector={"kubernetes.io/hostname": "n0"})
    for second in range(90):
        teams.now = 100.0 + second
        short = replace(team_pod(f"s{second}", "a"), node="n1")
        teams.see(short)
        teams.end(short)
        if second == 1:
            teams.see(*wanted)
        if second % 8 == 2:
            teams.see(*gang(f"rival{second}", "a", 12, priority=100))
    assert {pod.name for pod in wanted} <= set(teams.running("b"))


def test_all_that_wait_share_a_budget() -> None:
    """Thousands are told one after another, and who waits no more is left out and counted."""
    teams = Teams(make_queue("q"), nodes=(1,))
    waiting = [team_pod(f"w{n}", "q", 2, cpu=f"{n + 1}m") for n in range(1000)]
    assert sum(told(commands_of(teams, *map(PodSeen, waiting))).values()) <= BURST + 1
    teams.now = 1.0
    assert sum(told(commands_of(teams)).values()) <= PER_SECOND + 1
    gone = [PodGone(pod.uid) for pod in waiting]
    teams.now = 2.0
    assert not +told(commands_of(teams, *gone))
    assert teams.engine.words_left_out > 1500
