"""The gang of a pod follows from the controllers above it, whatever order they become known in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from moorage.core.events import Event, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.gangowners import GANG_ANNOTATION, GangOwner, LabelledLeader
from moorage.core.membership import Declared, GangKey
from moorage.core.objects import OWNED_KIND, PodGroup, Workload
from moorage.core.ownerchains import OwnerChains, OwnerKind
from moorage.core.pods import Owner, Pod
from moorage.core.selectors import selector_from_labels
from moorage.testing import make_pod

KINDS = {
    ("", "Pod"): OwnerKind("Pod"),
    ("batch", "Job"): OwnerKind("Job"),
    ("apps", "ReplicaSet"): OwnerKind("ReplicaSet"),
    ("apps", "Deployment"): OwnerKind("Deployment"),
    ("apps", "StatefulSet"): OwnerKind("StatefulSet"),
    ("jobset.x-k8s.io", "JobSet"): OwnerKind("JobSet", waits=True),
    ("lws.io", "LeaderWorkerSet"): OwnerKind("LeaderWorkerSet", waits=True),
    ("x.io", "Wrapper"): OwnerKind("Wrapper", waits=True),
}
ROLE, MARK = "role", "jobset-name"
TRAIN = GangKey("default", "JobSet/train", Declared.OWNER)
SET = GangOwner("JobSet", "default", "train", "set", least=4, role_label=ROLE)
ABOVE_JOB = Owner("JobSet", "train", "set", "jobset.x-k8s.io/v1alpha2")
JOB = Workload("Job", "default", "train-0", "job", owner=ABOVE_JOB, replicas=4, completions=4)
BY_JOB = Owner("Job", "train-0", "job", "batch/v1")


@pytest.fixture
def chains() -> OwnerChains:
    """A filter with patience."""
    return OwnerChains(KINDS, frozenset({MARK}), patience_s=2.0)


def member(name: str = "p", owner: Owner | None = BY_JOB, **labels: str) -> Pod:
    return make_pod(name, owner=owner, labels={MARK: "train", **labels})


def seen(value: GangOwner | Workload) -> ObjectSeen:
    return ObjectSeen(value.kind, value.key, value)


def told(chains: OwnerChains, *events: Event, now: float = 0.0) -> list[Event]:
    return [each for event in events for each in chains.follow(event, now)]


def gangs(events: Iterable[Event]) -> dict[str, GangKey | None]:
    """The gang of each pod that is told, the last word counts."""
    return {event.pod.name: event.pod.template.gang for event in events if isinstance(event, PodSeen)}


def due(chains: OwnerChains) -> float | None:
    return chains.next_s


def group(events: Iterable[Event]) -> PodGroup:
    """The last group that is told."""
    found = [event.value for event in events if isinstance(event, ObjectSeen) and event.kind == OWNED_KIND]
    assert isinstance(found[-1], PodGroup)
    return found[-1]


def test_the_topmost_owner_that_is_a_gang_counts(chains: OwnerChains) -> None:
    """The pod comes with its gang, and with the group before it; owners of kinds that others read are handed on."""
    events = told(chains, seen(SET), seen(JOB), PodSeen(member()))
    assert [type(event) for event in events] == [ObjectSeen, ObjectSeen, PodSeen]
    assert events[0] == seen(JOB)
    assert gangs(events) == {"p": TRAIN}
    assert (group(events).key, group(events).min_count) == ("default/JobSet/train", 4)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (2, 0, 1), (1, 2, 0)])
def test_the_order_in_which_they_come_does_not_matter(chains: OwnerChains, order: tuple[int, ...]) -> None:
    """A pod whose owner is not known yet waits in a gang that has no group."""
    all_events = (seen(SET), seen(JOB), PodSeen(member()))
    events = told(chains, *(all_events[index] for index in order))
    assert gangs(events) == {"p": TRAIN}
    assert group(events).min_count == 4
    assert due(chains) is None


def test_a_pod_does_not_wait_for_long(chains: OwnerChains) -> None:
    """An owner that does not come may not exist; one that comes after all counts from then on."""
    events = told(chains, seen(JOB), PodSeen(member()), now=10.0)
    assert gangs(events) == {"p": TRAIN}
    assert not any(isinstance(event, ObjectSeen) and event.kind == OWNED_KIND for event in events)
    assert due(chains) == 12.0
    assert chains.settle(11.9) == []
    assert gangs(chains.settle(12.0)) == {"p": None}
    assert due(chains) is None
    assert gangs(told(chains, PodSeen(member()), now=13.0)) == {"p": None}
    assert gangs(told(chains, seen(SET))) == {"p": TRAIN}


def test_pods_of_kinds_that_are_no_gangs_do_not_wait(chains: OwnerChains) -> None:
    """Neither those of an unknown ReplicaSet nor those of a stranger's kind."""
    web = make_pod("web", owner=Owner("ReplicaSet", "web", "rs", "apps/v1"))
    odd = make_pod("odd", owner=Owner("Workflow", "flow", "w", "argoproj.io/v1alpha1"))
    assert gangs(told(chains, PodSeen(web), PodSeen(odd))) == {"web": None, "odd": None}
    assert due(chains) is None


def test_a_pod_that_names_its_gang_keeps_it(chains: OwnerChains) -> None:
    """What a pod says itself comes first."""
    own = make_pod("p", owner=BY_JOB, labels={MARK: "train", "scheduling.x-k8s.io/pod-group": "mine"})
    assert gangs(told(chains, seen(SET), seen(JOB), PodSeen(own)))["p"] == GangKey("default", "mine", Declared.LABEL)


def test_pods_are_regrouped_when_their_owner_is_told_to_be_a_gang_again(chains: OwnerChains) -> None:
    """At once, those that run included; and they go one by one as soon as it is told not to be one."""
    alone = replace(SET, least=0)
    told(chains, seen(alone), seen(JOB))
    assert gangs(told(chains, PodSeen(member("a")), PodSeen(member("b")))) == {"a": None, "b": None}
    events = told(chains, seen(SET))
    assert gangs(events) == {"a": TRAIN, "b": TRAIN}
    assert group(events).min_count == 4
    assert gangs(told(chains, seen(alone))) == {"a": None, "b": None}
    assert gangs(told(chains, PodGone(member("b").uid), seen(SET))) == {"a": TRAIN}


def test_an_owner_above_a_gang_may_become_one(chains: OwnerChains) -> None:
    """Its gang is the topmost then, for pods that were in the one below."""
    wrapper = GangOwner("Wrapper", "default", "all", "wrapper")
    inner = replace(SET, owner=Owner("Wrapper", "all", "wrapper", "x.io/v1"))
    assert gangs(told(chains, seen(wrapper), seen(inner), seen(JOB), PodSeen(member()))) == {"p": TRAIN}
    assert gangs(told(chains, seen(replace(wrapper, least=4)))) == {"p": GangKey("default", "Wrapper/all", TRAIN.by)}
    assert gangs(told(chains, seen(wrapper))) == {"p": TRAIN}


def test_owners_that_name_each_other_do_no_harm(chains: OwnerChains) -> None:
    """References in a circle are followed once."""
    first = GangOwner("Wrapper", "default", "one", "1", owner=Owner("Wrapper", "two", "2", "x.io/v1"))
    second = GangOwner("Wrapper", "default", "two", "2", owner=Owner("Wrapper", "one", "1", "x.io/v1"))
    pod = make_pod("p", owner=second.owner)
    assert gangs(told(chains, seen(first), seen(second), PodSeen(pod))) == {"p": None}
    assert list(gangs(told(chains, seen(replace(second, least=3))))) == ["p"]


def test_pods_join_by_what_is_known_of_their_controller_only_while_it_is_true(chains: OwnerChains) -> None:
    """Not when its owner is gone, and again when there is one of the same name and uid."""
    told(chains, seen(SET), seen(JOB), PodSeen(member("a")))
    assert gangs(told(chains, PodSeen(member("b")))) == {"b": TRAIN}
    told(chains, ObjectGone("JobSet", SET.key))
    assert due(chains) is None
    assert gangs(told(chains, PodSeen(member("c")), now=10.0)) == {"c": TRAIN}
    assert due(chains) == 12.0
    assert gangs(told(chains, seen(SET))) == {"c": TRAIN}
    assert gangs(told(chains, PodSeen(member("d")))) == {"d": TRAIN}


def test_a_gang_is_forgotten_with_its_last_pod(chains: OwnerChains) -> None:
    """Nothing is left of it."""
    first, second = member("a"), member("b")
    told(chains, seen(SET), seen(JOB), PodSeen(first), PodSeen(second))
    assert told(chains, PodGone(first.uid)) == [PodGone(first.uid)]
    assert told(chains, PodGone(second.uid)) == [PodGone(second.uid), ObjectGone(OWNED_KIND, "default/JobSet/train")]
    assert len(chains) == 0
    told(chains, ObjectGone("Job", JOB.key), ObjectGone("JobSet", SET.key))
    assert not any(
        getattr(chains, name) for name in ("_owners", "_uids", "_missed", "_below", "_gangs", "_gangs_of", "_done")
    )


def test_pods_keep_their_gang_when_the_owner_is_deleted_first(chains: OwnerChains) -> None:
    """They are deleted after it, and are no free pods in between."""
    told(chains, seen(SET), seen(JOB), PodSeen(member()))
    events = told(chains, ObjectGone("JobSet", SET.key), ObjectGone("Job", JOB.key), PodSeen(member()))
    assert gangs(events) == {"p": TRAIN}
    assert told(chains, PodGone(member().uid))[-1] == ObjectGone(OWNED_KIND, "default/JobSet/train")


def test_an_owner_that_is_made_again_counts_for_its_own_pods(chains: OwnerChains) -> None:
    """Old and new pods are in a gang of the same name, which is what the new object says."""
    told(chains, seen(SET), seen(JOB), PodSeen(member("old")))
    told(chains, ObjectGone("JobSet", SET.key), ObjectGone("Job", JOB.key))
    another = replace(SET, uid="set2", least=6)
    above = Owner("JobSet", "train", "set2", "jobset.x-k8s.io/v1alpha2")
    job = replace(JOB, uid="job2", owner=above)
    new = member("new", Owner("Job", "train-0", "job2", "batch/v1"))
    events = told(chains, seen(another), seen(job), PodSeen(new))
    assert gangs(events) == {"new": TRAIN}
    assert group(events).min_count == 6
    assert told(chains, PodGone(member("old").uid)) == [PodGone(member("old").uid)]


def test_another_minimum_is_told_once(chains: OwnerChains) -> None:
    """And an update without news is not."""
    told(chains, seen(SET), seen(JOB), PodSeen(member()))
    assert group(told(chains, seen(replace(SET, least=8)))).min_count == 8
    assert told(chains, seen(replace(SET, least=8))) == []


def test_a_cluster_that_grows_from_one_pod_takes_that_one_in(chains: OwnerChains) -> None:
    """A head that was alone counts when there are workers."""
    head = member("head", ABOVE_JOB)
    assert gangs(told(chains, seen(replace(SET, least=1)), PodSeen(head))) == {"head": None}
    assert gangs(told(chains, seen(replace(SET, least=5)))) == {"head": TRAIN}


def test_pods_of_jobs_that_are_over_are_not_waited_for(chains: OwnerChains) -> None:
    """They do not come back."""
    told(chains, seen(SET), seen(JOB), PodSeen(member()))
    assert group(told(chains, seen(replace(JOB, succeeded=3)))).min_count == 1
    assert group(told(chains, ObjectGone("Job", JOB.key))).min_count == 4


def test_roles_that_are_made_later_are_gangs_of_their_own(chains: OwnerChains) -> None:
    """By the label that names the role."""
    owner = replace(SET, later=FrozenDict({"worker": 3}), least=1)
    driver, worker = member("d", ABOVE_JOB, role="driver"), member("w", ABOVE_JOB, role="worker")
    events = told(chains, seen(owner), PodSeen(driver), PodSeen(worker))
    assert gangs(events) == {"d": None, "w": GangKey("default", "JobSet/train/worker", Declared.OWNER)}
    assert group(events).min_count == 3


def test_the_chain_goes_through_pods(chains: OwnerChains) -> None:
    """Workers of a LeaderWorkerSet are below their leader, which need not be known first, and may be alone."""
    owner = GangOwner(
        "LeaderWorkerSet", "default", "s", "lws", least=2, split_label="group", leader=LabelledLeader("index", "0")
    )
    leaders = Workload("StatefulSet", "default", "s", "s1", owner=Owner("LeaderWorkerSet", "s", "lws", "lws.io/v1"))
    leader = member("s-0", Owner("StatefulSet", "s", "s1", "apps/v1"), group="0", index="0")
    workers = Workload("StatefulSet", "default", "s-0", "s2", owner=Owner("Pod", "s-0", leader.uid, "v1"))
    worker = member("s-0-1", Owner("StatefulSet", "s-0", "s2", "apps/v1"), group="0", index="1")
    events = told(chains, seen(owner), seen(leaders), seen(workers), PodSeen(worker), PodSeen(leader))
    assert gangs(events) == {"s-0": None, "s-0-1": GangKey("default", "LeaderWorkerSet/s/0", Declared.OWNER)}


def test_an_owner_above_the_gang_is_the_gang(chains: OwnerChains) -> None:
    """And one that is only passed over is not."""
    wrapped = replace(SET, owner=Owner("Wrapper", "w", "wrap", "x.io/v1"))
    wrapper = GangOwner("Wrapper", "default", "w", "wrap", least=9)
    events = told(chains, seen(wrapped), seen(JOB), PodSeen(member()))
    assert gangs(events) == {"p": GangKey("default", "Wrapper/w", Declared.OWNER)}
    assert gangs(told(chains, seen(wrapper)))["p"] == GangKey("default", "Wrapper/w", Declared.OWNER)
    assert gangs(told(chains, seen(replace(wrapper, least=0)))) == {"p": TRAIN}


@pytest.mark.parametrize(
    "lie",
    [
        replace(BY_JOB, name="other"),
        replace(BY_JOB, kind="ReplicaSet", api_version="apps/v1"),
        replace(BY_JOB, api_version="example.com/v1"),
    ],
    ids=["name", "kind", "group"],
)
def test_a_reference_that_does_not_fit_its_object_is_not_believed(chains: OwnerChains, lie: Owner) -> None:
    """Whatever uid it names."""
    assert gangs(told(chains, seen(SET), seen(JOB), PodSeen(make_pod("p", owner=lie)))) == {"p": None}


def test_a_controller_that_asks_is_a_gang_of_the_pods_that_it_selects(chains: OwnerChains) -> None:
    """Unless that is switched off."""
    asking = Workload(
        "Deployment",
        "default",
        "web",
        "web",
        replicas=3,
        selector=selector_from_labels({"app": "web"}),
        annotations=FrozenDict({GANG_ANNOTATION: "true"}),
    )
    owner = Owner("Deployment", "web", "web", "apps/v1")
    own, stranger = make_pod("own", owner=owner, labels={"app": "web"}), make_pod("stranger", owner=owner)
    events = told(chains, seen(asking), PodSeen(own), PodSeen(stranger))
    assert gangs(events) == {"own": GangKey("default", "Deployment/web", Declared.OWNER), "stranger": None}
    quiet = {**KINDS, ("apps", "Deployment"): OwnerKind("Deployment", asks=False)}
    assert gangs(told(OwnerChains(quiet), seen(asking), PodSeen(own))) == {"own": None}


def test_kinds_that_are_switched_off_lose_their_gangs(chains: OwnerChains) -> None:
    """While the process runs."""
    told(chains, seen(SET), seen(JOB), PodSeen(member()))
    fewer = {place: kind for place, kind in KINDS.items() if kind.id != "JobSet"}
    events = chains.reconfigured(fewer, frozenset())
    assert gangs(events) == {"p": None}
    assert ObjectGone(OWNED_KIND, "default/JobSet/train") in events


def test_the_events_of_one_moment_name_each_pod_once(chains: OwnerChains) -> None:
    """What is not known then does not exist."""
    events = chains.filter([PodSeen(member()), seen(JOB), seen(SET)])
    assert [event.pod.template.gang for event in events if isinstance(event, PodSeen)] == [TRAIN]
    alone = OwnerChains(KINDS, frozenset({MARK})).filter([PodSeen(member()), seen(JOB)])
    assert gangs(alone) == {"p": None}


@pytest.mark.parametrize(
    ("job", "want"),
    [
        (replace(JOB, replicas=3), TRAIN),
        (replace(JOB, owner=None), None),
        (replace(JOB, selector=selector_from_labels({"other": "pods"})), None),
    ],
    ids=["it only says how far it is", "it has no owner any more", "it selects other pods"],
)
def test_a_pod_that_is_shown_again_is_in_the_gang_that_follows_now(
    chains: OwnerChains, job: Workload, want: GangKey | None
) -> None:
    """Pods are shown often, and with nothing new their gang is not looked for again; but something may be new."""
    pod = member()
    assert gangs(told(chains, seen(SET), seen(JOB), PodSeen(pod), PodSeen(replace(pod, node="n1")))) == {"p": TRAIN}
    assert gangs(told(chains, seen(job), PodSeen(replace(pod, node="n1", phase="Running")))) == {"p": want}


def test_a_template_with_its_gang_is_equal_to_one_that_was_made_so(chains: OwnerChains) -> None:
    """Whatever way it was made, and so is its hash."""
    (*_, event) = told(chains, seen(SET), seen(JOB), PodSeen(member(role="r")))
    assert isinstance(event, PodSeen)
    made = event.pod.template
    again = replace(member(role="r").template, owned=made.owned)
    assert (made, hash(made), made.gang, made.size) == (again, hash(again), again.gang, again.size)
