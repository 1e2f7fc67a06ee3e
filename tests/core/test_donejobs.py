"""Pods of Jobs that do not come back make the gang of the object above the Jobs smaller, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import permutations

import pytest

from moorage.core.events import Event, ObjectGone, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.gangowners import GangOwner
from moorage.core.objects import OWNED_KIND, Workload
from moorage.core.ownerchains import OwnerChains, OwnerKind
from moorage.core.pods import Owner
from moorage.testing import make_pod
from tests.bounds.calls import lines

KINDS = {
    ("batch", "Job"): OwnerKind("Job"),
    ("jobset.x-k8s.io", "JobSet"): OwnerKind("JobSet", waits=True),
    ("x.io", "JobSet"): OwnerKind("JobSet.x.io", waits=True),
}
ROLE = "role"
SET = GangOwner("JobSet", "default", "train", "set", least=8, role_label=ROLE)
ABOVE = Owner("JobSet", "train", "set", "jobset.x-k8s.io/v1alpha2")
JOB = Workload("Job", "default", "train-0", "job", owner=ABOVE, replicas=8, completions=8)
OVER = replace(JOB, name="over", uid="over", replicas=3, completions=3, finished=True)


@pytest.fixture
def chains() -> OwnerChains:
    return OwnerChains(KINDS)


def seen(value: GangOwner | Workload) -> ObjectSeen:
    return ObjectSeen(value.kind, value.key, value)


def member(name: str = "p", owner: Owner = ABOVE, **labels: str) -> PodSeen:
    return PodSeen(make_pod(name, owner=owner, labels=labels))


def told(chains: OwnerChains, *events: Event) -> list[Event]:
    return [each for event in events for each in chains.follow(event, 0.0)]


def least(events: Iterable[Event]) -> dict[str, int]:
    """How many pods each gang must place together, the last word counts."""
    found = [each for each in events if isinstance(each, ObjectSeen) and each.kind == OWNED_KIND]
    return {each.value.name: each.value.min_count for each in found}


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(replace(OVER, namespace="other"), id="of another namespace"),
        pytest.param(replace(OVER, owner=replace(ABOVE, name="mine")), id="that names another name"),
        pytest.param(replace(OVER, owner=replace(ABOVE, kind="Job", api_version="batch/v1")), id="another kind"),
        pytest.param(replace(OVER, owner=replace(ABOVE, api_version="x.io/v1")), id="or another API group"),
        pytest.param(replace(OVER, owner=replace(ABOVE, uid="set-before")), id="or another uid"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["known first", "known last"])
def test_a_job_counts_only_where_its_reference_fits_the_object(chains: OwnerChains, job: Workload, first: bool) -> None:
    """A uid is no secret: a tenant must not make another one's gang start in part."""
    gang = (seen(SET), seen(JOB), member())
    events = told(chains, seen(job), *gang) if first else told(chains, *gang, seen(job))
    assert least(events) == {"JobSet/train": 8}
    assert least(told(chains, member(), seen(replace(job, finished=False)), seen(job))) == {}
    assert least(told(chains, seen(OVER))) == {"JobSet/train": 5}


def test_a_job_that_gets_another_owner_leaves_the_first_one(chains: OwnerChains) -> None:
    """Its pods come back to the gang as it was."""
    assert least(told(chains, seen(SET), member(), seen(OVER))) == {"JobSet/train": 5}
    assert least(told(chains, seen(replace(OVER, owner=replace(ABOVE, uid="elsewhere"))))) == {"JobSet/train": 8}
    assert least(told(chains, seen(OVER))) == {"JobSet/train": 5}
    assert least(told(chains, seen(replace(OVER, owner=None)))) == {"JobSet/train": 8}


def test_nothing_is_left_of_a_job_whose_owner_changed_again_and_again(chains: OwnerChains) -> None:
    """What is kept follows from the Jobs that exist."""
    for number in range(50):
        told(chains, seen(replace(OVER, owner=replace(ABOVE, uid=f"set-{number}"))))
        assert len(chains._done) == 1
        assert len(chains._done._below) == 1
    told(chains, ObjectGone("Job", OVER.key))
    assert not chains._done
    assert not chains._done._below


def test_jobs_that_are_switched_off_are_forgotten(chains: OwnerChains) -> None:
    """Their end is not told any more."""
    told(chains, seen(SET), seen(OVER))
    chains.reconfigured({}, frozenset())
    assert not chains._done


def test_the_order_in_which_jobs_and_their_owner_come_does_not_matter() -> None:
    """The role of a Job is read as the owner says, also if the owner is known last."""
    owner = replace(SET, least=4, later=FrozenDict({"worker": 4}))
    jobs = [
        replace(JOB, name=role, uid=role, labels=FrozenDict({ROLE: role}), replicas=4, completions=4, succeeded=done)
        for role, done in (("driver", 1), ("worker", 2))
    ]
    pods = [member(job.name, Owner("Job", job.name, job.uid, "batch/v1"), role=job.name) for job in jobs]
    for order in permutations([seen(owner), *map(seen, jobs)]):
        for one, other in ((order, pods), (pods, order)):
            assert least(told(OwnerChains(KINDS), *one, *other)) == {"JobSet/train": 3, "JobSet/train/worker": 2}


def test_roles_are_read_anew_when_the_owner_says_so(chains: OwnerChains) -> None:
    """Another label names them, or others are made later."""
    owner = replace(SET, least=4, later=FrozenDict({"worker": 4}))
    job = replace(OVER, labels=FrozenDict({ROLE: "worker", "kind": "driver"}))
    events = told(chains, seen(owner), seen(job), member("d", role="driver"), member("w", role="worker"))
    assert least(events) == {"JobSet/train": 4, "JobSet/train/worker": 1}
    again = told(chains, seen(replace(owner, role_label="kind")), member("d", kind="driver"))
    assert least(again)["JobSet/train"] == 1


def test_jobs_count_while_they_exist_though_their_owner_is_gone(chains: OwnerChains) -> None:
    """Pods that are deleted after it wait for nobody more."""
    assert least(told(chains, seen(SET), seen(JOB), member(), seen(OVER))) == {"JobSet/train": 5}
    assert least(told(chains, ObjectGone("JobSet", SET.key), member())) == {}


def test_what_a_job_costs_does_not_follow_from_the_jobs_beside_it(chains: OwnerChains) -> None:
    """An owner may have many gangs and many Jobs."""
    owner = replace(SET, least=100, split_label="group")
    told(chains, seen(owner), *(member(f"p{number}", group=str(number)) for number in range(20)))
    jobs = [replace(OVER, name=f"j{number}", uid=f"j{number}") for number in range(30)]
    alone = lines(partial(told, chains, seen(jobs[0])))
    assert len(least(told(chains, *map(seen, jobs[1:-1])))) == 20
    assert lines(partial(told, chains, seen(jobs[-1]))) < 1.1 * alone
