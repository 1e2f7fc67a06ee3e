"""What an extender answers, with the test in the place of kube-scheduler and of the API server."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from moorage.core.arrays import Ints, Rows
from moorage.core.commands import PodRef
from moorage.core.events import NodeGone, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.invariants import check_invariants
from moorage.core.objects import Workload
from moorage.core.pods import Condition, Owner, Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.engine.extending import UNKNOWN_NODE, UNKNOWN_POD, Extending, Filtered, PluginFault, extender_profile
from moorage.engine.waiting import Wait
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.status import OnlyNodes, Reason, Rejections, Status, unresolvable, unschedulable
from moorage.plugins.controller_spread import ControllerSpread
from moorage.testing import make_node, make_pod
from tests.engine.play import small_profile
from tests.framework.readers import make_profile

NAMES = ["n1", "n2", "n3"]
NOW = 1000.0
UNBOUND = Condition("PodScheduled", "False", "Unschedulable", "no")


class Alone(Plugin):
    """At most one pod with the same label `app` per node; says so to the extender."""

    name: ClassVar[str] = "Alone"

    def awaits(self, template: PodTemplate, state: ClusterState) -> Hashable | None:
        """The app, until three of it stand."""
        app = template.labels.get("app")
        return app if sum(record.pod.template.labels.get("app") == app for record in state.records()) < 3 else None

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Rows that host the app are taken."""
        app = cycle.template.labels.get("app")
        taken = [any(r.pod.template.labels.get("app") == app for r in cycle.state.records_on(int(row))) for row in rows]
        return Rejections(np.array(taken, dtype=np.int64), (Reason("taken"),))


class Picky(Plugin):
    """Rejects by node label: `no: soft` can be helped, `no: hard` cannot."""

    name: ClassVar[str] = "Picky"

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Read the label."""
        said = [cycle.state.node(int(row)).labels.get("no", "") for row in rows]
        bits = [{"soft": 1, "hard": 2, "both": 3}.get(text, 0) for text in said]
        return Rejections(np.array(bits, dtype=np.int64), (Reason("soft"), Reason("hard", resolvable=False)))


class Points(Plugin):
    """Scores by node label `points`."""

    name: ClassVar[str] = "Points"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Read the label."""
        return np.array([int(cycle.state.node(int(row)).labels.get("points", "0")) for row in rows], dtype=np.int64)


class MorePoints(Points):
    """The same again, under another label."""

    name: ClassVar[str] = "MorePoints"

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Read the label."""
        return np.array([int(cycle.state.node(int(row)).labels.get("more", "0")) for row in rows], dtype=np.int64)


class Says(Plugin):
    """PreFilter says what it was told to."""

    name: ClassVar[str] = "Says"

    def __init__(self, answer: Status | OnlyNodes | Exception) -> None:
        super().__init__()
        self.answer = answer

    def pre_filter(self, _: Cycle) -> Status | OnlyNodes:
        """Say it."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def filter(self, _cycle: Cycle, _rows: Rows) -> Rejections | None:
        """Pass all."""
        return None

    def score(self, _cycle: Cycle, rows: Rows) -> Ints:
        """Everyone is as good."""
        return np.full(len(rows), 50, dtype=np.int64)


class Informed(Extending):
    """Its watch has shown every pod before it is asked about it."""

    def filter(self, pod: Pod, nodes: Sequence[str], now: float, waited_s: float = 0.0) -> Filtered | Wait:
        self.show(pod)
        return super().filter(pod, nodes, now, waited_s)

    def prioritize(self, pod: Pod, nodes: Sequence[str], now: float) -> list[int]:
        self.show(pod)
        return super().prioritize(pod, nodes, now)

    def preempt(self, pod: Pod, victims: Mapping[str, Collection[str]], now: float) -> list[str]:
        self.show(pod)
        return super().preempt(pod, victims, now)

    def show(self, pod: Pod) -> None:
        """The watch shows it, unless it has."""
        if not self._known(pod):
            self.handle(PodSeen(pod))


def begin(*plugins: Plugin, **labels: dict[str, str]) -> Informed:
    """An extender that knows three nodes, and for certain who asks."""
    extending = Informed(small_profile(*plugins), certified=True)
    for name in NAMES:
        extending.handle(NodeSeen(make_node(name, labels=labels.get(name, {}))))
    return extending


def web(name: str, node: str | None = None, **fields: Any) -> Pod:
    return make_pod(name, labels={"app": "web"}, node=node, **fields)


def kept(answer: Filtered | Wait) -> list[str]:
    assert isinstance(answer, Filtered), answer
    assert not answer.error
    return [NAMES[place] for place in answer.kept]


# --- filter ---


def test_only_what_kube_scheduler_does_not_have_is_asked() -> None:
    """A pod that is too large for every node passes: the caller has judged that already."""
    extending = begin(Picky())
    assert [plugin.name for plugin in extending.profile.plugins] == ["Picky"]
    assert kept(extending.filter(make_pod("a", cpu="64"), NAMES, NOW)) == NAMES


def test_a_profile_of_stock_plugins_leaves_nobody_to_ask() -> None:
    """Then every node is as good as the next."""
    assert extender_profile(small_profile()).plugins == ()
    extending = begin()
    assert kept(extending.filter(make_pod("a"), NAMES, NOW)) == NAMES
    assert extending.prioritize(make_pod("a"), NAMES, NOW) == [0, 0, 0]


def test_rejections_say_whether_evictions_could_help() -> None:
    """One reason that nothing can change makes the node unresolvable; reasons are joined."""
    extending = begin(Picky(), n1={"no": "soft"}, n2={"no": "hard"}, n3={"no": "both"})
    answer = extending.filter(make_pod("a"), NAMES, NOW)
    assert answer == Filtered((), {"n1": "soft"}, {"n2": "hard", "n3": "soft, hard"})


def test_order_and_choice_are_the_callers() -> None:
    """Only nodes that were asked about are answered for, by their place in the question."""
    extending = begin(Picky(), n2={"no": "soft"})
    answer = extending.filter(make_pod("a"), ["n3", "n2"], NOW)
    assert answer == Filtered((0,), {"n2": "soft"})


def test_a_node_that_was_not_seen_yet_is_rejected_for_now() -> None:
    """The watch of the caller is ahead of ours; it tries again."""
    extending = begin(Picky())
    assert extending.filter(make_pod("a"), ["new", "n1"], NOW) == Filtered((1,), {"new": UNKNOWN_NODE})
    extending.handle(NodeGone("n1"))
    assert extending.filter(make_pod("a"), ["n1"], NOW) == Filtered((), {"n1": UNKNOWN_NODE})


PRE_FILTERS = {
    "refuses": (unschedulable("not now"), Filtered((), dict.fromkeys(NAMES, "not now"))),
    "refuses for good": (unresolvable("never"), Filtered((), {}, dict.fromkeys(NAMES, "never"))),
    "narrows": (
        OnlyNodes(frozenset({"n2"})),
        Filtered((1,), {}, dict.fromkeys(["n1", "n3"], "node(s) didn't satisfy plugin(s) [Says]")),
    ),
    "raises": (ValueError("oh no\nmore"), Filtered(error="running plugins failed: ValueError: oh no")),
}


@pytest.mark.parametrize(("said", "want"), PRE_FILTERS.values(), ids=PRE_FILTERS.keys())
def test_what_pre_filter_says(said: Any, want: Filtered) -> None:
    """A plugin's no to the pod is one to every node; a fault is an error, and nothing else."""
    assert begin(Says(said)).filter(make_pod("a"), NAMES, NOW) == want


# --- prioritize ---


@pytest.mark.parametrize(
    ("points", "want"), [("0", 0), ("9", 0), ("10", 1), ("55", 5), ("99", 9), ("100", 10)], ids=str
)
def test_scores_are_a_tenth_rounded_down(points: str, want: int) -> None:
    """0 to 100 becomes 0 to 10; nodes that are not known get nothing."""
    extending = begin(Points(), n2={"points": points})
    assert extending.prioritize(make_pod("a"), ["new", "n2", "n1"], NOW) == [0, want, 0]


def test_several_scores_are_weighed() -> None:
    """(3 * 100 + 1 * 20) / 4 = 80."""
    profile = make_profile([Points(), MorePoints()], weights={"Points": 3})
    extending = Informed(profile)
    extending.handle(NodeSeen(make_node("n1", labels={"points": "100", "more": "20"})))
    assert extending.prioritize(make_pod("a"), ["n1"], NOW) == [8]


def test_a_plugin_that_fails_to_score() -> None:
    """The protocol has no field for it; the server says so."""
    with pytest.raises(PluginFault, match="running plugins failed: ValueError: oh no"):
        begin(Says(ValueError("oh no"))).prioritize(make_pod("a"), NAMES, NOW)


# --- preempt ---


def test_evictions_that_help_are_kept() -> None:
    """Judged with the victims gone, and the state is as before."""
    extending = begin(Alone(), Picky(), n3={"no": "hard"})
    for pod in (web("old", "n1"), web("other", "n2"), web("third", "n3")):
        extending.handle(PodSeen(pod))
    victims = {"n1": ["default/old"], "n2": ["default/stranger"], "n3": ["default/third"], "new": []}
    assert extending.preempt(web("vip"), victims, NOW) == ["n1"]
    check_invariants(extending.state)
    assert extending.preempt(web("vip"), {"n1": []}, NOW) == []


# --- waiting ---


def test_the_next_pod_waits_until_the_place_of_the_last_is_known() -> None:
    """kube-scheduler asks for `b` before `a` is bound; the answer comes when the watch shows where `a` went."""
    extending = begin(Alone())
    assert kept(extending.filter(web("a"), NAMES, NOW)) == NAMES
    assert extending.filter(web("b"), NAMES, NOW + 0.25) == Wait(NOW + 1.25)
    assert extending.filter(web("b"), NAMES, NOW + 0.5, waited_s=0.25) == Wait(NOW + 1.25)
    extending.handle(PodSeen(web("a", "n2")))
    assert kept(extending.filter(web("b"), NAMES, NOW + 0.75, waited_s=0.5)) == ["n1", "n3"]


def test_others_do_not_wait() -> None:
    """Another group, and pods of none, are answered at once."""
    extending = begin(Alone())
    extending.filter(web("a"), NAMES, NOW)
    assert kept(extending.filter(make_pod("x", labels={"app": "db"}), NAMES, NOW)) == NAMES
    assert kept(extending.filter(make_pod("y"), NAMES, NOW)) == NAMES


def test_patience_ends() -> None:
    """After a second all nodes are rejected, resolvably; later calls for the same pod are not kept waiting again."""
    extending = begin(Alone())
    extending.filter(web("a"), NAMES, NOW)
    want = Filtered((), dict.fromkeys(NAMES, "node(s) cannot be judged until pod default/a is bound"))
    assert extending.filter(web("b"), NAMES, NOW + 1, waited_s=1.0) == want
    assert extending.filter(web("c"), NAMES, NOW + 1) == want
    extending.handle(PodSeen(web("a", "n1")))
    assert kept(extending.filter(web("c"), NAMES, NOW + 1)) == ["n2", "n3"]
    assert extending.filter(web("b"), NAMES, NOW + 1) == Wait(NOW + 2)


def test_one_pod_costs_a_second_however_many_wait() -> None:
    """Two calls share the patience for one pod."""
    extending = begin(Alone())
    extending.filter(web("a"), NAMES, NOW)
    assert extending.filter(web("b"), NAMES, NOW) == Wait(NOW + 1)
    assert isinstance(extending.filter(web("b"), NAMES, NOW + 1, waited_s=1.0), Filtered)
    assert isinstance(extending.filter(web("c"), NAMES, NOW + 1), Filtered)


ARRIVALS = {
    "bound": [PodSeen(web("a", "n1"))],
    "deleted": [PodGone("default/a")],
    "being deleted": [PodSeen(replace(web("a"), deleted_s=NOW))],
    "failed": [PodSeen(replace(web("a"), phase="Failed"))],
}


@pytest.mark.parametrize("events", ARRIVALS.values(), ids=ARRIVALS.keys())
def test_what_ends_the_journey(events: list[Any]) -> None:
    """Nobody waits for a pod that has arrived or will never."""
    extending = begin(Alone())
    extending.filter(web("a"), NAMES, NOW)
    for event in events:
        extending.handle(event)
    assert isinstance(extending.filter(web("b"), NAMES, NOW), Filtered)


def test_who_is_asked_about_again_was_given_up() -> None:
    """The attempt before ended without a node: the pod does not wait for itself, and then it is on its way anew."""
    extending = begin(Alone())
    extending.filter(web("a"), NAMES, NOW)
    assert kept(extending.filter(web("a"), NAMES, NOW + 5)) == NAMES
    assert extending.filter(web("b"), NAMES, NOW + 5) == Wait(NOW + 6)


def test_a_pod_that_got_no_node_is_not_on_its_way() -> None:
    """Nothing is to be waited for after a rejection."""
    extending = begin(Alone(), Picky(), **{name: {"no": "soft"} for name in NAMES})
    extending.filter(web("a"), NAMES, NOW)
    assert isinstance(extending.filter(web("b"), NAMES, NOW), Filtered)
    assert len(extending.underway) == 0


def test_a_failed_attempt_is_believed_when_it_cannot_be_the_one_before() -> None:
    """PodScheduled=False may have been written for an earlier attempt: it counts from 2 s after the answer on."""
    extending = begin(Alone())
    extending.filter(replace(web("a"), resource_version="7"), NAMES, NOW)
    extending.handle(PodSeen(replace(web("a"), resource_version="8", scheduled_condition=UNBOUND)))
    assert extending.filter(web("b"), NAMES, NOW + 1.5) == Wait(NOW + 2)
    assert isinstance(extending.filter(web("b"), NAMES, NOW + 2, waited_s=0.5), Filtered)


LIMITS = {
    "in silence": (web("a"), 60.0),
    "seen as it was": (replace(web("a"), resource_version="7", scheduled_condition=UNBOUND), 60.0),
    "behind a promised node": (replace(web("a", nominated_node="n3"), resource_version="8"), 600.0),
}


@pytest.mark.parametrize(("seen", "limit_s"), LIMITS.values(), ids=LIMITS.keys())
def test_nobody_is_on_the_way_for_ever(seen: Pod, limit_s: float) -> None:
    """A pod that nobody speaks of again must not hold its siblings back."""
    extending = begin(Alone())
    extending.filter(replace(web("a"), resource_version="7"), NAMES, NOW)
    extending.handle(PodSeen(seen))
    assert extending.filter(web("b"), NAMES, NOW + limit_s - 0.5) == Wait(NOW + limit_s)
    answer = extending.filter(web("b"), NAMES, NOW + limit_s, waited_s=0.5)
    assert kept(answer) == (["n1", "n2"] if seen.nominated_node else NAMES), "what is promised counts"


def test_a_bind_of_our_own_is_known_at_once() -> None:
    """The caller that binds need not wait for the watch, which confirms it later."""
    extending = begin(Alone())
    extending.filter(web("a"), NAMES, NOW)
    extending.bound("default/a", "n3")
    assert kept(extending.filter(web("b"), NAMES, NOW)) == ["n1", "n2"]
    extending.handle(PodSeen(web("a", "n3")))
    check_invariants(extending.state)
    extending.bound("default/gone", "n1")
    assert extending.state.pod_count == 1


# --- what callers make up ---


def ask(extending: Extending, pod: Pod, now: float, waited_s: float = 0.0) -> Filtered | Wait:
    """A question about a pod that the watch may not have shown."""
    return Extending.filter(extending, pod, NAMES, now, waited_s)


OTHERS = {
    "never seen": web("made-up"),
    "another uid": replace(web("a"), uid="another"),
    "another pod's uid": replace(make_pod("b", namespace="elsewhere"), uid="default/a"),
}


@pytest.mark.parametrize("pod", OTHERS.values(), ids=OTHERS.keys())
def test_only_pods_that_the_watch_has_shown_are_answered_for(pod: Pod) -> None:
    """A pod that is made up is waited for, then rejected for now, and nobody waits for it."""
    extending = begin(Alone(), Points(), n2={"points": "90"})
    extending.show(web("a"))
    assert ask(extending, pod, NOW) == Wait(NOW + 1)
    assert ask(extending, pod, NOW + 1, waited_s=1.0) == Filtered((), dict.fromkeys(NAMES, UNKNOWN_POD))
    assert Extending.prioritize(extending, pod, NAMES, NOW) == [0, 0, 0]
    assert Extending.preempt(extending, pod, {"n1": []}, NOW) == []
    assert len(extending.underway) == 0
    assert kept(ask(extending, web("a"), NOW)) == NAMES


def test_a_question_is_answered_as_soon_as_the_watch_has_shown_its_pod() -> None:
    """kube-scheduler may be a little faster than our watch."""
    extending = begin(Alone())
    assert ask(extending, web("a"), NOW) == Wait(NOW + 1)
    extending.handle(PodSeen(web("a")))
    assert kept(ask(extending, web("a"), NOW + 0.5, waited_s=0.5)) == NAMES


def test_forged_questions_starve_nobody() -> None:
    """Where it is not certain who asks, nobody waits longer than 5 s in a minute, whatever is asked for whom."""
    extending = begin(Alone())
    extending.underway.certified = False
    for name in ("a", "b", "c"):
        extending.show(web(name))
    held_back = 0
    for second in range(60):
        now = NOW + second
        for forged in ("a", "b"):
            ask(extending, web(forged), now)
        held_back += not getattr(ask(extending, web("c"), now, waited_s=1.0), "kept", ())
        extending.underway.arrived("default/c")
    assert held_back <= 6


def test_without_certificates_questions_that_are_meant_still_wait_for_each_other() -> None:
    """As long as pods are bound after they were asked about, each waits for the one before, for ever so many."""
    extending = begin(Alone())
    extending.underway.certified = False
    for number in range(60):
        now = NOW + number
        assert kept(extending.filter(web(f"a{number}"), NAMES, now)) == NAMES
        assert extending.filter(web("next"), NAMES, now) == Wait(now + 1)
        extending.handle(PodSeen(web(f"a{number}", "n1")))
        extending.handle(PodGone(f"default/a{number}"))


def test_who_waits_for_a_pod_is_not_the_callers_to_say() -> None:
    """A question about a pod of one group that claims to be of another holds up neither."""
    extending = begin(Alone())
    extending.show(make_pod("mine"))
    extending.show(web("b"))
    ask(extending, replace(web("mine"), uid="default/mine"), NOW)
    assert len(extending.underway) == 0
    assert kept(ask(extending, web("b"), NOW)) == NAMES


BINDS = {
    "waiting": ("default", "a", "default/a", "n1", True),
    "another uid": ("default", "a", "other", "n1", False),
    "another namespace": ("kube-system", "a", "default/a", "n1", False),
    "another name": ("default", "b", "default/a", "n1", False),
    "bound already": ("default", "old", "default/old", "n1", False),
    "no such node": ("default", "a", "default/a", "n9", False),
}


@pytest.mark.parametrize(("namespace", "name", "uid", "node", "allowed"), BINDS.values(), ids=BINDS.keys())
def test_only_waiting_pods_are_bound(namespace: str, name: str, uid: str, node: str, allowed: bool) -> None:
    """Namespace, name and uid are those of a pod that the watch shows without a node, and the node is there."""
    extending = begin(Alone())
    extending.show(web("a"))
    extending.handle(PodSeen(web("old", "n2")))
    assert (not extending.bind_refusal(PodRef(namespace, name, uid), node)) is allowed


# --- owners ---

OWNER = Owner("ReplicaSet", "web", "u1", "apps/v1")
SPREAD_POD = make_pod("a", owner=OWNER)


def replica_set(uid: str = "u1", owner: Owner | None = None) -> ObjectSeen:
    return ObjectSeen(
        "ReplicaSet", "default/web", Workload("ReplicaSet", "default", "web", uid, owner=owner, replicas=2)
    )


def test_a_controller_that_was_not_seen_yet_is_waited_for() -> None:
    """Its watch may be behind that of the pods; a second of patience, and only once."""
    extending = begin(ControllerSpread())
    assert extending.filter(SPREAD_POD, NAMES, NOW) == Wait(NOW + 1)
    extending.handle(replica_set())
    assert kept(extending.filter(SPREAD_POD, NAMES, NOW + 0.2, waited_s=0.2)) == NAMES
    stranger = make_pod("x", owner=replace(OWNER, name="old", uid="u0"))
    assert extending.filter(stranger, NAMES, NOW) == Wait(NOW + 1)
    assert kept(extending.filter(stranger, NAMES, NOW + 1, waited_s=1.0)) == NAMES
    assert kept(extending.filter(stranger, NAMES, NOW + 2)) == NAMES


def test_the_owner_of_the_owner_is_waited_for() -> None:
    """Its annotations count."""
    extending = begin(ControllerSpread())
    extending.handle(replica_set(owner=Owner("Deployment", "web", "u2", "apps/v1")))
    assert isinstance(extending.filter(SPREAD_POD, NAMES, NOW), Wait)
    extending.handle(
        ObjectSeen("Deployment", "default/web", Workload("Deployment", "default", "web", "u2", replicas=2))
    )
    assert kept(extending.filter(SPREAD_POD, NAMES, NOW)) == NAMES


NOT_WAITED_FOR = {
    "no owner": None,
    "a kind that no plugin reads": replace(OWNER, kind="Crew", api_version="example.com/v1"),
    "a kind of the same name": replace(OWNER, kind="Job", api_version="batch.volcano.sh/v1alpha1"),
}


@pytest.mark.parametrize("owner", NOT_WAITED_FOR.values(), ids=NOT_WAITED_FOR.keys())
def test_owners_that_nobody_reads_are_not_waited_for(owner: Owner | None) -> None:
    """The answer does not depend on them."""
    assert kept(begin(ControllerSpread()).filter(make_pod("a", owner=owner), NAMES, NOW)) == NAMES


@pytest.mark.parametrize("replicas", [2, 3, 4, 5])
def test_controller_spread_through_the_extender(replicas: int) -> None:
    """A caller that always takes the first node and binds late ends with two hosts, never with one."""
    extending = begin(ControllerSpread())
    workload = Workload("ReplicaSet", "default", "web", "u1", replicas=replicas)
    extending.handle(ObjectSeen("ReplicaSet", "default/web", workload))
    late: list[Pod] = []
    hosts: set[str] = set()
    now = NOW
    for number in range(replicas):
        pod = make_pod(f"p{number}", owner=OWNER)
        answer = extending.filter(pod, NAMES, now)
        while isinstance(answer, Wait):
            extending.handle(PodSeen(late.pop(0)))
            now += 0.01
            answer = extending.filter(pod, NAMES, now, waited_s=0.01)
        hosts.add(NAMES[answer.kept[0]])
        late.append(make_pod(f"p{number}", owner=OWNER, node=NAMES[answer.kept[0]]))
    assert len(hosts) == 2


def test_a_malformed_annotation_is_told_once() -> None:
    """As an event about the pod."""
    extending = begin(ControllerSpread())
    workload = Workload("ReplicaSet", "default", "web", "u1", replicas=2, annotations=_annotated("three"))
    extending.handle(ObjectSeen("ReplicaSet", "default/web", workload))
    for _ in range(2):
        extending.filter(SPREAD_POD, NAMES, NOW)
    (event,) = extending.take_commands()
    assert "three" in event.note  # type: ignore[union-attr]
    assert extending.take_commands() == []


def _annotated(value: str) -> Any:
    return make_pod("x", annotations={"moorage.dev/min-hosts": value}).template.annotations
