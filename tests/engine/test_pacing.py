"""Fair shares: one namespace whose binds are not answered, or whose pods are slow to decide on, stops nobody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moorage.core.commands import Bind
from moorage.core.events import BindDone, BindOutcome, DecisionSlow, PodGone
from moorage.core.pods import Pod
from moorage.framework.plugin import Plugin
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.testing import make_node, make_pod
from tests.engine.play import Play

STEP = 32


def pods(namespace: str, number: int, **fields: object) -> list[Pod]:
    return [make_pod(f"p{each:04}", namespace=namespace, cpu="1m", **fields) for each in range(number)]  # type: ignore[arg-type]


class Slowly:
    """An engine that is called in steps, as the scheduler's loop calls it, while nobody answers binds."""

    def __init__(self, *things: Pod, plugins: Sequence[Plugin] = ()) -> None:
        self.play = Play(*plugins)
        self.play.see(make_node("n1", cpu="100", pods=10_000), *things, budget=0)
        self.ordered: list[str] = []
        self.open: dict[str, str] = {}

    def run(self) -> Counter[str]:
        """Decide on as many as may be decided on; how many binds of each namespace are under way then."""
        now = self.play.now
        while True:
            commands, wakeup = self.play.engine.handle((), now, STEP)
            for bind in commands:
                assert isinstance(bind, Bind)
                self.ordered.append(bind.pod.uid)
                self.open[bind.pod.uid] = bind.pod.namespace
            if not commands:
                break
        assert wakeup != now  # nobody spins
        self.play.check()
        return Counter(self.open.values())

    def answer(self, namespace: str, number: int = 1 << 30) -> None:
        uids = [uid for uid, whose in self.open.items() if whose == namespace][:number]
        self.play.engine.handle([BindDone(uid, BindOutcome.BOUND, "n1") for uid in uids], self.play.now, 0)
        for uid in uids:
            del self.open[uid]


def test_a_namespace_that_is_alone_gets_as_many_places_as_ever() -> None:
    """256 binds under way."""
    assert Slowly(*pods("a", 600)).run() == {"a": 256}


def test_others_are_decided_on_while_the_binds_of_one_hang() -> None:
    """However many pods of it are in front of theirs, and whenever they come."""
    slowly = Slowly(*pods("a", 600), *pods("b", 10))
    assert slowly.run() == {"a": 256, "b": 10}
    for number, late in enumerate("cdefgh"):
        slowly.play.see(*pods(late, 10 if number else 100), budget=0)
    assert slowly.run() == {"a": 256, "b": 10, "c": 100, "d": 10, "e": 10, "f": 10, "g": 10, "h": 10}


def test_busy_namespaces_converge_to_equal_shares() -> None:
    """The one that came first gives places back as its binds are answered."""
    slowly = Slowly(*pods("a", 2000))
    slowly.run()
    slowly.play.see(*pods("b", 2000), budget=0)
    for _ in range(40):
        shares = slowly.run()
        slowly.answer("a", 16)
        slowly.answer("b", 8)
    assert abs(shares["a"] - shares["b"]) < 40
    assert sum(shares.values()) > 300


def test_a_gang_of_many_members_takes_no_more_places_than_its_namespace_may_have() -> None:
    """All of it is bound at once; while those binds hang, others are decided on, and its own namespace waits."""
    annotations = {"pod-group": "g", "moorage.dev/pod-group-min-available": "700"}
    slowly = Slowly(*pods("a", 700, annotations=annotations), plugins=[GangScheduling()])
    slowly.play.handle()
    slowly.play.recorded()
    slowly.open = dict.fromkeys((bind.pod.uid for bind in slowly.play.of(Bind)), "a")
    slowly.play.see(*pods("b", 100), make_pod("later", namespace="a"), budget=0)
    assert slowly.run() == {"a": 700, "b": 100}
    assert slowly.play.engine.bindings.free == 512 - 256 - 100
    slowly.answer("a", 440)
    assert slowly.run() == {"a": 260, "b": 100}, "the rest of it still has all places of its namespace"
    slowly.answer("a", 160)
    assert slowly.run() == {"a": 101, "b": 100}


def test_pods_that_were_set_aside_keep_their_order() -> None:
    """By priority and age, and none is lost."""
    important = [make_pod(f"vip{n}", namespace="a", cpu="1m", priority=10) for n in range(3)]
    slowly = Slowly(*pods("a", 600))
    slowly.run()
    slowly.play.see(*important, budget=0)
    slowly.run()
    before = len(slowly.ordered)
    while slowly.open:
        slowly.answer("a", 64)
        slowly.run()
    assert [uid.split("/")[1] for uid in slowly.ordered[before : before + 3]] == ["vip0", "vip1", "vip2"]
    rest = [uid for uid in slowly.ordered if "/p" in uid]
    assert rest == sorted(rest)
    assert len(slowly.ordered) == 603


def test_pods_that_go_while_they_are_set_aside_are_forgotten() -> None:
    """No bind for them, no place, and nothing of them is kept once there is room."""
    slowly = Slowly(*pods("a", 600))
    slowly.run()
    gone = [f"a/p{each:04}" for each in range(256, 590)]
    slowly.play.handle(*(PodGone(uid) for uid in gone), budget=0)
    while slowly.open:
        slowly.answer("a")
        slowly.run()
    assert len(slowly.ordered) == 266
    assert not slowly.play.engine.queue.pacing._aside


def test_slow_decisions_let_others_go_first() -> None:
    """For a while; and when nobody else is there and no bind is under way, they go on, one in a call."""
    play = Play()
    play.see(make_node("n1", cpu="100"), *pods("slow", 3), *pods("b", 3), budget=0)
    play.handle(DecisionSlow("slow", "P", 5.0), budget=STEP)
    binds = play.of(Bind)
    assert [bind.pod.namespace for bind in binds] == ["b", "b", "b"]
    assert play.wakeup == play.now + 10.0
    for bind in binds[:2]:
        assert not _answered(play, bind)
    for _ in range(3):
        binds = _answered(play, binds[-1])
        assert [bind.pod.namespace for bind in binds] == ["slow"]
    assert not _answered(play, binds[-1])


def test_slow_pods_wait_no_longer_than_their_time_for_the_binds_of_others() -> None:
    """Others' binds may hang; then the slow ones are tried like everybody else."""
    play = Play()
    play.see(make_node("n1", cpu="100"), *pods("slow", 1), *pods("b", 1), budget=0)
    play.handle(DecisionSlow("slow", "P", 1.0), budget=STEP)
    assert play.wakeup == play.now + 4.0
    play.handle(at=play.wakeup, budget=STEP)
    assert [bind.pod.namespace for bind in play.of(Bind)] == ["slow"]


def _answered(play: Play, bind: Bind) -> list[Bind]:
    """What is ordered once a bind has succeeded."""
    play.handle(BindDone(bind.pod.uid, BindOutcome.BOUND, bind.node), budget=STEP)
    return play.of(Bind)


def test_slow_namespaces_are_forgotten() -> None:
    """When their time is over."""
    play = Play()
    for number in range(100):
        play.handle(DecisionSlow(f"n{number}", "P", 5.0), at=play.now + 20.0)
    assert len(play.engine.queue.pacing._slow_until_s) == 1
