"""Reviews of callers that may be anybody: they place pods, and steer nobody else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core import limits
from moorage.core.events import ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import REPLICA_SET, Workload
from moorage.core.pods import Owner, PodTemplate
from moorage.core.strategy import Stamp, parse_strategy, targets
from moorage.engine.admission import DOUBT_WAIT_S, Admission, Asked, Verdict
from moorage.engine.waiting import Wait
from tests.engine.admitting import KEY, OWNER, SPLIT, admission, born, deployment, template

BARE = template(owner=None, annotations=FrozenDict({KEY: SPLIT}))


def ask(subject: Admission, pod: PodTemplate, *, waited_s: float = 0.0, dry_run: bool = False) -> Verdict | Wait:
    """A review of which nobody knows who sent it."""
    return subject.decide(Asked(pod, dry_run, certain=False), 0.0, waited_s)


def answer(subject: Admission, pod: PodTemplate, now_s: float = 0.0) -> Verdict:
    """The answer, however long it takes."""
    found = subject.decide(Asked(pod, certain=False), now_s, DOUBT_WAIT_S)
    assert isinstance(found, Verdict)
    return found


def wanted(pods: int, *, seen: int = 0) -> Admission:
    """A Deployment whose ReplicaSet wants so many pods, and has some of them."""
    subject = admission(*deployment())
    known = subject.state.object(REPLICA_SET, "default/web-5d")
    assert isinstance(known, Workload)
    subject.handle(ObjectSeen(REPLICA_SET, known.key, replace(known, replicas=pods)))
    for number in range(seen):
        verdict = subject.decide(Asked(template()), 0.0)
        assert isinstance(verdict, Verdict)
        subject.handle(PodSeen(born(verdict, f"p{number}")))
    return subject


def test_a_burst_of_an_owner_that_wants_it_is_exact() -> None:
    """What the API server asks without a certificate is counted as with one."""
    subject = wanted(100)
    given = [ask(subject, template()) for _ in range(100)]
    rules = [verdict.rule for verdict in given if isinstance(verdict, Verdict)]
    assert (rules.count(0), rules.count(1)) == targets(parse_strategy(SPLIT), 100)


@pytest.mark.parametrize(("pods", "seen"), [(0, 0), (3, 3)], ids=["none wanted", "all there"])
def test_forged_reviews_for_an_owner_that_lacks_nothing_count_nothing(pods: int, seen: int) -> None:
    """However many there are: the pods of the next scale-up get the rules that they would have got anyway."""
    subject = wanted(pods, seen=seen)
    for _ in range(10):
        answer(subject, template())
    assert subject.roster.ledger_count == 0
    known = subject.state.object(REPLICA_SET, "default/web-5d")
    assert isinstance(known, Workload)
    subject.handle(ObjectSeen(REPLICA_SET, known.key, replace(known, replicas=pods + 3)))
    rules = [answer(subject, template()).rule for _ in range(3)]
    undisturbed = wanted(pods + 3, seen=seen)
    assert rules == [answer(undisturbed, template()).rule for _ in range(3)]


def test_a_review_ahead_of_the_watch_waits_for_it() -> None:
    """A scale-up whose pods come before its ReplicaSet is seen to want them: a moment later they count."""
    subject = wanted(3, seen=3)
    assert isinstance(ask(subject, template()), Wait)
    known = subject.state.object(REPLICA_SET, "default/web-5d")
    assert isinstance(known, Workload)
    subject.handle(ObjectSeen(REPLICA_SET, known.key, replace(known, replicas=4)))
    assert isinstance(ask(subject, template()), Verdict)
    assert subject.roster.ledger_count == 1


@pytest.mark.parametrize(
    "pod",
    [
        BARE,
        template(owner=Owner(OWNER.kind, OWNER.name, "guessed", OWNER.api_version), annotations=BARE.annotations),
        template(owner=Owner("CloneSet", "c", "c-uid", "apps.kruise.io/v1"), annotations=BARE.annotations),
    ],
    ids=["a bare pod", "another uid", "a kind that nobody knows"],
)
def test_what_nobody_can_verify_counts_once_the_watch_shows_it(pod: PodTemplate) -> None:
    """Pods go one by one; a review whose pod never comes delays the next one by a moment, and steers nothing."""
    subject = admission(*deployment(text=None))
    first = answer(subject, pod)
    assert isinstance(ask(subject, pod), Wait), "the first pod is not there yet"
    assert answer(subject, pod).rule == first.rule, "it never came"
    subject.handle(PodSeen(born(first, "p1", pod)))
    subject.handle(PodSeen(born(first, "p2", pod)))
    second = ask(subject, pod)
    assert isinstance(second, Verdict)
    assert second.counts == (2, 0)


def test_a_dry_run_writes_nothing_and_waits_for_nobody() -> None:
    """From any caller."""
    subject = wanted(3)
    for pod in (template(), BARE):
        assert isinstance(ask(subject, pod, dry_run=True), Verdict)
    assert subject.roster.ledger_count == 0


def test_the_ledger_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all and for each owner; whatever is beyond is placed all the same."""
    monkeypatch.setattr("moorage.engine.roster.LEDGER", 5)
    monkeypatch.setattr("moorage.engine.roster.LEDGER_OF_GROUP", 3)
    subject = wanted(100)
    look = Stamp("1")
    for _ in range(10):
        assert isinstance(subject.decide(Asked(template()), 0.0), Verdict)
        subject.roster.admit(template(owner=Owner("Job", "j", "j-uid")), look, 0.0)
    assert subject.roster.ledger_count == 5
    subject.expire(60.0)
    assert subject.roster.ledger_count == 0


def test_what_failed_is_remembered_for_so_many_owners_only() -> None:
    """Reviews with ever new strategies that cannot be read leave a bounded memory, and nothing after a while."""
    subject = admission()
    for number in range(limits.LEDGER_FAILURES + 50):
        pod = template(owner=None, annotations=FrozenDict({KEY: f"wrong {number}"}))
        assert isinstance(ask(subject, pod), Verdict)
    assert len(subject._failures) == limits.LEDGER_FAILURES
    subject.expire(60.0)
    assert not subject._failures
