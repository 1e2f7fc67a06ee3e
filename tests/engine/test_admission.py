"""What the webhook decides: splits, the ledger, failures, and that nothing is ever changed that must not be."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from moorage.core.commands import RecordEvent
from moorage.core.events import NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import DEPLOYMENT, REPLICA_SET, Workload
from moorage.core.pods import Owner, Pod, PodTemplate
from moorage.core.strategy import RULE_STAMP, parse_strategy, targets
from moorage.engine.admission import OWNER_WAIT_S, Asked, Outcome, Verdict
from moorage.engine.roster import PLACED_BY
from moorage.engine.waiting import Wait
from moorage.testing.builders import make_node
from tests.engine.admitting import KEY, LEDGER_S, OLD_KEY, SPLIT, admission, born, decide, deployment, template


def rules(verdicts: list[Verdict]) -> list[int]:
    return [verdicts_rule.rule if verdicts_rule.rule is not None else -1 for verdicts_rule in verdicts]


# --- splits ---


def test_a_burst_that_nobody_has_seen_is_exact() -> None:
    """100 creations before the watch shows any of them get what the strategy gives 100 pods."""
    subject = admission()
    given_rules = rules([decide(subject) for _ in range(100)])
    want = targets(parse_strategy(SPLIT), 100)
    assert (given_rules.count(0), given_rules.count(1)) == want
    assert subject.roster.ledger_count == 100


def test_a_rule_is_a_node_selector_and_a_stamp() -> None:
    """The pod gets the labels of its rule and the rule's number."""
    verdict = decide(admission())
    assert verdict.outcome is Outcome.PLACED
    assert verdict.node_selector == {"node-type": "ondemand"}
    assert verdict.annotations == {RULE_STAMP: "1"}


@pytest.mark.parametrize("key", [KEY, OLD_KEY])
def test_both_annotations_are_read(key: str) -> None:
    """The key of other tools works as well as ours."""
    assert decide(admission(*deployment(key=key))).outcome is Outcome.PLACED


def test_seen_pods_leave_the_ledger_and_count_once() -> None:
    """However far behind the watch is, a pod counts once; a deleted one not at all."""
    subject = admission()
    pods = [born(decide(subject), f"p{number}") for number in range(6)]
    for pod in pods[:4]:
        subject.handle(PodSeen(pod))
    assert subject.roster.ledger_count == 2
    strategy = parse_strategy(SPLIT)
    assert subject.counts(template(), strategy, 0.0) == targets(strategy, 6)
    for pod in pods[4:]:
        subject.handle(PodSeen(pod))
    subject.handle(PodSeen(replace(pods[0], deleted_s=1.0)))
    subject.handle(PodGone(pods[0].uid))
    subject.handle(PodGone(pods[1].uid))
    assert (subject.roster.ledger_count, subject.roster.pod_count) == (0, 4)
    assert sum(subject.counts(template(), strategy, 0.0)) == 4


def test_an_entry_expires() -> None:
    """A pod that was refused after us does not count for ever."""
    subject = admission()
    decide(subject, now_s=0.0)
    assert decide(subject, now_s=LEDGER_S - 0.1).counts == (1, 0)
    assert decide(subject, now_s=2 * LEDGER_S).counts == (0, 0)
    subject.expire(4 * LEDGER_S)
    assert subject.roster.ledger_count == 0


def test_a_dry_run_changes_nothing() -> None:
    """It is answered like the real thing, as often as one likes, and leaves no trace."""
    subject = admission()
    assert [decide(subject, dry_run=True).rule for _ in range(5)] == [0] * 5
    bad = template(owner=None, annotations=FrozenDict({KEY: "nonsense"}))
    assert decide(subject, bad, dry_run=True).outcome is Outcome.FAILED
    subject.handle(PodSeen(Pod("x", "x", bad)))
    assert (subject.roster.ledger_count, subject.take_commands()) == (0, [])


def test_its_own_output_is_left_alone() -> None:
    """A pod that has its rule keeps it, and is not counted twice."""
    subject = admission()
    pod = born(decide(subject), "p").template
    verdict = decide(subject, pod)
    assert (verdict.outcome, verdict.node_selector, verdict.annotations) == (Outcome.KEPT, {}, {})
    assert subject.roster.ledger_count == 1


def test_a_rollout_is_split_by_itself() -> None:
    """The pods of another ReplicaSet do not count."""
    subject = admission()
    for number in range(6):
        subject.handle(PodSeen(born(decide(subject), f"p{number}")))
    other = Owner(REPLICA_SET, "web-77", "rs-2", "apps/v1")
    above = Owner(DEPLOYMENT, "web", "d-uid", "apps/v1")
    fresh = Workload(REPLICA_SET, "default", "web-77", uid="rs-2", owner=above, replicas=6)
    subject.handle(ObjectSeen(REPLICA_SET, fresh.key, fresh))
    assert decide(subject, template(owner=other)).counts == (0, 0)


def test_pods_without_a_stamp_count_where_they_stand() -> None:
    """What was created while nobody answered is made up for by the next pods."""
    subject = admission()
    for name, kind in (("s", "spot"), ("o", "ondemand")):
        subject.handle(NodeSeen(make_node(name, labels={"node-type": kind})))
    for number in range(4):
        subject.handle(PodSeen(Pod(f"p{number}", f"p{number}", template(), "s")))
    subject.handle(PodSeen(Pod("pending", "pending", template())))
    verdict = decide(subject)
    assert (verdict.counts, verdict.rule) == ((0, 4), 0)


def test_pods_of_their_own_are_split_too() -> None:
    """Pods without a controller count together if they carry the same strategy in the same namespace."""
    subject = admission()
    bare = template(owner=None, annotations=FrozenDict({KEY: SPLIT}))
    elsewhere = replace(bare, namespace="other")
    assert rules([decide(subject, bare) for _ in range(4)]) == [0, 1, 0, 1]
    assert decide(subject, elsewhere).rule == 0


# --- what is none of our business ---


@pytest.mark.parametrize(
    ("pod", "node"),
    [
        (template(owner=None), ""),
        (template(namespace="kube-system", annotations=FrozenDict({KEY: SPLIT})), ""),
        (template(), "n1"),
        (template(owner=Owner("DaemonSet", "d", "u", "apps/v1"), annotations=FrozenDict({KEY: SPLIT})), ""),
    ],
    ids=["no strategy", "excluded namespace", "a pod that names its node", "a DaemonSet's"],
)
def test_these_pods_are_left_alone(pod: PodTemplate, node: str) -> None:
    """Nothing is added, warned about or counted."""
    subject = admission()
    assert subject.decide(Asked(pod, node=node), 0.0) == Verdict(Outcome.NONE)
    assert subject.roster.ledger_count == 0


# --- failures ---


def test_a_strategy_that_cannot_be_read_is_told() -> None:
    """The pod goes through unchanged; a warning at once, an event as soon as the pod exists and can be named."""
    subject = admission(*deployment("base=x,weight=1,nodeSelector=a:b"))
    verdict = decide(subject)
    assert (verdict.outcome, verdict.node_selector, verdict.annotations) == (Outcome.FAILED, {}, {})
    assert "column 6" in verdict.warning
    assert subject.take_commands() == []
    subject.handle(PodSeen(Pod("uid", "web-5d-abc", template())))
    (event,) = subject.take_commands()
    assert isinstance(event, RecordEvent)
    assert (event.pod.name, event.type, event.reason) == ("web-5d-abc", "Warning", "MalformedStrategy")
    assert "column 6" in event.note
    subject.handle(PodSeen(Pod("uid2", "web-5d-abd", template())))
    assert subject.take_commands() == []


def test_a_clash_with_the_pods_own_selector_is_told() -> None:
    """A rule that contradicts the pod is not applied, and the remedy names the key."""
    subject = admission()
    verdict = decide(subject, template(node_selector=FrozenDict({"node-type": "gpu"})))
    assert verdict.outcome is Outcome.FAILED
    assert "node-type:gpu" in verdict.warning
    assert subject.roster.ledger_count == 0


@given(some.text(max_size=200) | some.text("base=weight,nodeSelector:;0123456789 -_./", max_size=80))
def test_no_annotation_is_an_exception(text: str) -> None:
    """Whatever is written there, the pod goes through, placed or unchanged."""
    subject = admission(*deployment(text))
    verdict = decide(subject)
    assert verdict.outcome in (Outcome.PLACED, Outcome.FAILED)
    assert (verdict.outcome is Outcome.PLACED) == bool(verdict.node_selector) == (not verdict.warning)


# --- waiting ---


def test_a_controller_that_is_not_there_yet_is_waited_for() -> None:
    """Pods and controllers come by different watches; an owner that never comes is waited for once."""
    subject = admission(ObjectSeen("Namespace", "x", None))
    asked = Asked(template())
    answer = subject.decide(asked, 5.0)
    assert answer == Wait(5.0 + OWNER_WAIT_S)
    for event in deployment():
        subject.handle(event)
    assert decide(subject).outcome is Outcome.PLACED
    stranger = Asked(template(owner=Owner(REPLICA_SET, "gone", "?", "apps/v1")))
    assert subject.decide(stranger, 5.0, OWNER_WAIT_S) == Verdict(Outcome.NONE)
    assert subject.decide(stranger, 6.0) == Verdict(Outcome.NONE)


def test_a_pod_with_a_strategy_of_its_own_does_not_wait() -> None:
    """It is known what holds for it, whichever its owner is."""
    subject = admission(ObjectSeen("Namespace", "x", None))
    assert decide(subject, template(annotations=FrozenDict({KEY: SPLIT}))).outcome is Outcome.PLACED


@pytest.mark.parametrize(
    "text",
    [
        SPLIT,
        SPLIT.replace("base=1", "base=17"),
        "weight=3,nodeSelector=a:1;weight=2,nodeSelector=a:2;weight=2,nodeSelector=a:3",
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_two_replicas_are_within_one_pod(text: str, seed: int) -> None:
    """A burst of 100 over two replicas, each of which hears of the other's pods through the watch only."""
    dice = random.Random(seed)
    replicas = [admission(*deployment(text), me=name) for name in ("a", "b")]
    for replica in replicas:
        replica.peers = 1
    queues: list[list[Pod]] = [[], []]
    strategy, split, made, now_s = parse_strategy(text), [0] * len(parse_strategy(text).rules), 0, 0.0
    while made < 100:
        now_s += 0.001
        which = dice.randrange(2)
        answer = replicas[which].decide(Asked(template()), now_s)
        if isinstance(answer, Verdict):
            assert answer.rule is not None
            assert answer.annotations[PLACED_BY] == "ab"[which]
            split[answer.rule] += 1
            for queue in queues:
                queue.append(born(answer, f"p{made}"))
            made += 1
        for replica, queue in zip(replicas, queues, strict=True):
            if queue and dice.random() < 0.4:
                replica.handle(PodSeen(queue.pop(0)))
    want = targets(strategy, 100)
    assert max(abs(has - wanted) for has, wanted in zip(split, want, strict=True)) <= 1, (split, want)


def test_a_replica_alone_never_waits_for_a_turn() -> None:
    """And with another one it waits no longer than it was told, whatever became of its last pod."""
    subject = admission(me="a")
    decide(subject)
    subject.peers = 1
    waiting = subject.decide(Asked(template()), 0.2, 0.1)
    assert waiting == Wait(1.0)
    assert isinstance(subject.decide(Asked(template()), 1.2, 1.0), Verdict)
