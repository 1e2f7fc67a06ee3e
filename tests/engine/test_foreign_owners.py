"""A pod that names another namespace's owner belongs to nobody there, and no change of a pod harms the books."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from moorage.core.commands import EvictPod
from moorage.core.disruption.ledger import owner_of
from moorage.core.events import PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.membership import GROUP_LABEL
from moorage.core.ownercounts import strategy_group
from moorage.core.pods import Owner, Pod
from moorage.core.state import ClusterState
from moorage.core.strategies import rule_counts
from moorage.core.strategy import STRATEGY_ANNOTATIONS, parse_strategy
from moorage.engine.admission import Asked
from moorage.engine.keeping.members import Members
from moorage.engine.keeping.moves import Cause, Move, Moves
from moorage.engine.roster import Roster
from moorage.engine.waiting import Wait
from moorage.plugins.default_binder import DefaultBinder
from moorage.plugins.priority_sort import PrioritySort
from moorage.testing import make_pod
from moorage.views.world import World
from tests.engine.admitting import OWNER as ADMITTED
from tests.engine.admitting import admission, born, decide, template
from tests.engine.harbour import STRATEGY, Harbour, fleet, nodes, owner
from tests.engine.keeping import SCHEDULER, member
from tests.framework.readers import make_profile

VICTIM = Owner("ReplicaSet", "web", "default/web", "apps/v1")
"""The owner of the pods of `member` and `fleet`."""


def forged(name: str, node: str | None = None, **fields: object) -> Pod:
    """A pod of another namespace that names the victim's owner."""
    given = {"namespace": "hostile", "owner": VICTIM, "scheduler_name": SCHEDULER, "cpu": "1", **fields}
    return make_pod(name, node=node, **given)  # type: ignore[arg-type]


def test_the_webhook_counts_no_pods_of_other_namespaces() -> None:
    """Five pods elsewhere that name the owner leave the split of its pods as it was."""
    subject = admission()
    hostile = template(namespace="hostile", owner=ADMITTED)
    for number in range(5):
        subject.handle(PodSeen(born(decide(admission()), f"h{number}", hostile)))
    assert [decide(subject).rule for _ in range(3)] == [decide(alone).rule for alone in [admission()] for _ in range(3)]


def test_an_owner_elsewhere_that_is_waited_for_in_vain_is_waited_for_at_home() -> None:
    """A review of another namespace does not end the wait for an owner that the watch is about to show."""
    subject = admission()
    home = template(owner=Owner("ReplicaSet", "late-5d", "late-uid", "apps/v1"))
    elsewhere = replace(home, namespace="hostile")
    assert not isinstance(subject.decide(Asked(elsewhere), 0.0, waited_s=60.0), Wait)
    assert isinstance(subject.decide(Asked(home), 0.0), Wait)


def test_the_scheduler_counts_no_pods_of_other_namespaces() -> None:
    """Counts by owner, which strategies, spreading and spot placement read, are those of one namespace."""
    state = ClusterState()
    for node in nodes(od=1, spot=1):
        state.upsert_node(node)
    ours = member("o1", "od0")
    assert state.owner_rows(ours.template).total == 0
    for pod in [ours, *(forged(f"h{i}", "od0") for i in range(5))]:
        state.observe_pod(pod)
    assert state.owner_rows(ours.template).total == 1
    assert rule_counts(state, ours.template, parse_strategy(STRATEGY)) == (1, 0)
    check_invariants(state)


def test_the_keeper_moves_nothing_for_a_foreign_strategy() -> None:
    """A workload without a strategy is left alone, whatever pods of other namespaces that name it say."""
    shore = Harbour()
    bad = forged("h", "od0", annotations={STRATEGY_ANNOTATIONS[0]: STRATEGY}, created_s=0.5)
    shore.see(*nodes(), bad, *fleet(od=0, spot=6))
    shore.tell(owner(6, text=None))
    shore.wait(60.0)
    assert shore.of(EvictPod) == []
    assert len(shore.keeper.upkeep.splits) <= 1, "at most the hostile pod's own"


def test_the_last_foreign_pod_to_go_leaves_the_keeper_running() -> None:
    """Owners of the same uid in two namespaces come and go apart."""
    shore = Harbour()
    ours, theirs = member("a", "od0"), forged("h", "od0")
    shore.see(*nodes(), ours, theirs)
    shore.tell(PodGone(ours.uid))
    shore.tell(PodGone(theirs.uid))
    assert [*shore.keeper.upkeep.members.of("default/default/web")] == []


def test_a_foreign_pod_is_no_successor() -> None:
    """A move waits for a pod of its own namespace, and does not count for the other one's pace."""
    moves = Moves()
    pod = member("a", "od0")
    moves.order(Move(pod, Cause.REPAIR, "od0", "spot0", 0.0))
    moves.newcomer(forged("h"), 1.0)
    move = moves.get(pod.uid)
    assert move is not None
    assert move.successor is None
    moves.newcomer(member("b", None), 1.0)
    assert move.successor is not None


def test_evictions_elsewhere_do_not_use_up_the_limit_of_an_owner() -> None:
    """Evictions are counted by namespace and owner."""
    assert owner_of(forged("h")) != owner_of(member("a", None))
    assert owner_of(member("b", None)) == owner_of(member("a", None))


# --- pods that change between events ---


CHANGES: dict[str, Callable[[Pod], Pod]] = {
    "released": lambda pod: replace(pod, template=replace(pod.template, owner=None)),
    "adopted": lambda pod: replace(pod, template=replace(pod.template, owner=Owner("ReplicaSet", "other", "u2"))),
    "relabelled": lambda pod: replace(pod, template=replace(pod.template, labels=FrozenDict({"app": "x"}))),
    "moved": lambda pod: replace(pod, node="spot0"),
    "unbound": lambda pod: replace(pod, node=None),
    "to a daemon": lambda pod: replace(pod, template=replace(pod.template, owner=Owner("DaemonSet", "d", "u3"))),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_members_follow_a_pod_that_changes(change: Callable[[Pod], Pod]) -> None:
    """After the pod is gone no owner has it, whatever it said about its owner meanwhile."""
    members = Members()
    pod = member("a", "od0")
    for each in (pod, change(pod)):
        members.see(each)
    held = [key for key in members.take_touched() if [*members.of(key)]]
    assert len(held) <= 1, "one owner at a time"
    members.gone(pod.uid)
    assert not [key for key in members.take_touched() if [*members.of(key)]]


@pytest.mark.parametrize("seed", range(5))
def test_no_sequence_of_changes_harms_the_books(seed: int) -> None:
    """Pods change owner, labels and node at random; in the end every book is empty."""
    chance, shore, roster = random.Random(seed), Harbour(), Roster()
    shore.see(*nodes())
    shore.tell(owner(6))
    pods = [*fleet(od=2, spot=2), forged("h1", "od0"), forged("h2", "spot0")]
    alive: dict[str, Pod] = {}
    for _ in range(60):
        pod = chance.choice(pods)
        if pod.uid in alive and chance.random() < 0.2:
            del alive[pod.uid]
            roster.gone(pod.uid)
            shore.tell(PodGone(pod.uid))
            continue
        changed = chance.choice([*CHANGES.values()])(alive.get(pod.uid, pod))
        alive[pod.uid] = changed
        roster.seen(changed)
        shore.tell(PodSeen(changed))
    for uid in alive:
        roster.gone(uid)
        shore.tell(PodGone(uid))
    assert roster.pod_count == 0
    for pod in itertools.chain(pods, alive.values()):
        assert not [*roster.crowds(strategy_group(pod.template), 0.0)]
    assert len(shore.keeper.upkeep.splits) == 0


def test_a_pod_that_was_adopted_counts_for_its_new_owner() -> None:
    """The webhook's roster follows owner references."""
    roster, pod = Roster(), member("a", "od0")
    roster.seen(pod)
    adopted = CHANGES["adopted"](pod)
    roster.seen(adopted)
    assert not [*roster.crowds(strategy_group(pod.template), 0.0)]
    assert [*roster.crowds(strategy_group(adopted.template), 0.0)]


def test_the_dashboard_forgets_a_gang_that_a_pod_has_left() -> None:
    """A pod that is relabelled into another gang leaves nothing behind in its first one."""
    world = World([make_profile([PrioritySort(), DefaultBinder()])], answers_to_all=True)
    pod = make_pod("a", node="n1", labels={GROUP_LABEL: "g1"})
    other = replace(pod, template=replace(pod.template, labels=FrozenDict({GROUP_LABEL: "g2"})))
    world.tell([PodSeen(pod), PodSeen(other)], 1.0)
    assert [key.name for key in world.gangs] == ["g2"]
    world.tell([PodGone(pod.uid)], 2.0)
    assert not world.gangs
