"""A larger share for the queue of a waiting pod, as it is suggested on a live cluster; and nothing left behind."""

from __future__ import annotations

from typing import Any

from moorage.core.edits import Changed, PodEdit
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.pods import Pod
from moorage.core.queueaccounts import queue_accounts
from moorage.core.queues import QUEUE
from moorage.engine.counterfactual import suggest
from moorage.engine.opinion import form_opinion
from moorage.engine.settings import EngineSettings
from moorage.wire.kinds import BY_ID, NODE, POD
from moorage.wire.rewriting import Rewriter
from tests.engine.test_counterfactual import World
from tests.framework.readers import default_profile
from tests.suggestions.puzzles import Plain, node, pod, thing

CPU = "cpu"


def queue(name: str, **terms: Any) -> Plain:
    spec = {"resources": {CPU: terms}}
    return {"apiVersion": "moorage.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def member(name: str, of: str, second: int, where: str | None = None) -> Plain:
    body = pod(name, 1000)
    body["metadata"] |= {"labels": {"moorage.dev/queue": of}, "creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}
    if where is not None:
        body["spec"]["nodeName"] = where
    return body


def told(body: Plain) -> Event:
    if body["kind"] == "Node":
        return NodeSeen(NODE.from_builtin(body))
    if body["kind"] == "Pod":
        return PodSeen(POD.from_builtin(body))
    return ObjectSeen(QUEUE, body["metadata"]["name"], BY_ID[QUEUE].from_builtin(body))


WORLD = [
    node("n1", 4500, 16, "a"),
    queue("a", quota="1"),
    queue("b", quota="1", weight=4),
    member("a-0", "a", 0, "n1"),
    *(member(f"b-{number}", "b", number, "n1") for number in range(3)),
    member("stuck", "a", 9),
    member("early", "a", 8),
]
"""The pod that is asked about is named before one that is older."""
LARGER = "Raise the quota of queue a from 1 to 3 cpu; it then fits on n1 once default/b-1 has made room."


def test_what_others_wait_for_counts_while_one_pod_is_explained() -> None:
    """The older pod of the same queue is served first, so the quota has to be enough for both."""
    world = World(WORLD)
    stuck = world.pods["stuck"]
    rewriter = Rewriter(lambda *identity: world.objects.get(identity))
    events = [told(body) for body in WORLD if body["metadata"]["name"] != "stuck"]
    opinion = form_opinion(
        [default_profile()], EngineSettings(), events, stuck, 0.0, answers_to_all=True, rewriter=rewriter
    )
    assert LARGER in [each.text for each in opinion.suggestions]


def test_what_keeps_a_queue_from_its_share_is_said() -> None:
    """Pods that may not be evicted, and those that have not run for long enough; others are nothing to speak of."""
    pods = [member(f"b-{number}", "b", number, "n1") for number in range(4)]
    pods[0]["metadata"]["labels"]["moorage.dev/preemptible"] = "false"
    for each, minute in zip(pods, (0, 0, 9, 9), strict=True):
        each["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:{minute:02}:00Z"}
    b = queue("b")
    b["spec"]["reclaimMinRuntime"] = "5m"
    stuck = POD.from_builtin(member("stuck", "a", 9))
    events = [told(body) for body in (node("n1", 4500, 16, "a"), queue("a", quota="1"), b, *pods)]
    now_s = 1767225600 + 600.0
    opinion = form_opinion([default_profile()], EngineSettings(), events, stuck, now_s, answers_to_all=True)
    assert opinion.queue[1:] == (
        "with this pod queue a stays within its share: it may take back what others have beyond theirs",
        "queue b is beyond its share, and 1 pod of it may not be evicted",
        "queue b is beyond its share, and 2 pods of it cannot be evicted in the first 300 s (reclaimMinRuntime)",
    )


class OneTemplate(Rewriter):
    """Both pods come from one template, and change together."""

    def rewrite(self, pod: Pod, edits: list[PodEdit], changed: Changed) -> None:
        for each in self.pods or (pod,):
            super().rewrite(each, edits, changed)

    pods: tuple[Pod, ...] = ()


def test_no_change_is_suggested_that_is_not_needed() -> None:
    """At its limit, on a full node: either a larger limit, as another queue gives way then, or a smaller request."""
    world = World(
        [
            node("n1", 4000, 16, "a"),
            queue("a", quota="3", limit="1"),
            queue("b", quota="1"),
            member("a-0", "a", 0, "n1"),
            *(member(f"b-{number}", "b", number, "n1") for number in range(3)),
            member("stuck", "a", 9),
        ]
    )
    assert world.texts() == [
        "Raise the limit of queue a from 1 to 2 cpu; it then fits on n1 once default/b-2 has made room.",
        "Request no cpu instead of 1; it then fits on n1.",
        "Wait until pod default/a-0 has ended; it then fits on n1.",
    ]


def test_changes_that_come_to_the_same_are_suggested_once() -> None:
    """With an eviction 2 seem enough, but pods ahead decide again: then it has to be 1, as it is without evictions."""
    own, other = {"moorage.dev/queue": "a"}, {"moorage.dev/queue": "b"}
    may_leave = {"moorage.dev/preemptible": "true"}
    marks = {"scheduling.x-k8s.io/pod-group": "g", **own, **may_leave}
    world = World(
        [
            node("n0", 4000, 16, "a"),
            node("n1", 2000, 16, "a"),
            queue("a", quota="2"),
            queue("b", quota="0"),
            pod("old-0", 1000, nodeName="n0", priority=0, labels={**own, **may_leave}),
            pod("old-1", 2000, nodeName="n1", priority=10, labels={**other, **may_leave}),
            thing("PodGroup", "g", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": 2}),
            pod("g-0", 1000, labels=marks, priority=100),
            pod("g-1", 1000, labels=marks, priority=0),
            pod("g-2", 2000, labels=marks, priority=100),
            pod("stuck", 3000, labels={**own, "moorage.dev/preemptible": "false"}, priority=50),
        ]
    )
    assert world.texts() == ["Lower the cpu request from 3 to 1; it then fits on n0."]


def test_queues_have_what_they_had_before() -> None:
    """Also if pods ahead of this one were placed with smaller requests in a what-if."""
    world = World(WORLD)
    rewriter = OneTemplate(lambda *identity: world.objects.get(identity))
    rewriter.pods = (world.pods["stuck"], world.pods["early"])
    before = queue_accounts(world.engine.state)
    found = suggest(world.engine, world.pods["stuck"], 0.0, rewriter)
    assert {"Lower the cpu request from 1 to 250m; it then fits on n1.", LARGER} <= {each.text for each in found}
    assert queue_accounts(world.engine.state) == before
