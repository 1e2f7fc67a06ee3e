"""A pod beyond a limit is told so; pending it is not scheduled, bound its first entries count."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.adapters.journal.values import Packer, loads
from moorage.core.commands import PatchPodStatus, RecordEvent
from moorage.core.limits import POD_TERMS, SPREAD_CONSTRAINTS, TAINTS
from moorage.testing import make_node, make_pod
from moorage.wire.node import node_from_builtin
from moorage.wire.pod import pod_from_builtin
from tests.engine.play import Play
from tests.framework.readers import default_profile

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _term(number: int) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{number}"}}}


def _pod(name: str, number: int, where: str, node: str | None = None) -> Any:
    """A pod with so many terms in one list."""
    terms = [_term(each) for each in range(number)]
    weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    constraints = [{**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for term in terms]
    lists: dict[str, dict[str, Any]] = {
        "anti": {"affinity": {"podAntiAffinity": {_REQUIRED: terms}}},
        "affinity": {"affinity": {"podAffinity": {_REQUIRED: terms}}},
        "preferred": {"affinity": {"podAntiAffinity": {_PREFERRED: weighted}}},
        "spread": {"topologySpreadConstraints": constraints},
    }
    spec = {"schedulerName": "moorage", "nodeName": node, "containers": [{"name": "c"}], **lists[where]}
    return pod_from_builtin({"metadata": {"name": name, "uid": name}, "spec": spec})


@pytest.mark.parametrize(
    ("where", "limit", "field"),
    [
        ("anti", POD_TERMS, f"spec.affinity.podAntiAffinity.{_REQUIRED}"),
        ("affinity", POD_TERMS, f"spec.affinity.podAffinity.{_REQUIRED}"),
        ("preferred", POD_TERMS, f"spec.affinity.podAntiAffinity.{_PREFERRED}"),
        ("spread", SPREAD_CONSTRAINTS, "spec.topologySpreadConstraints"),
    ],
)
def test_a_pending_pod_beyond_a_limit_is_not_scheduled_and_says_why(where: str, limit: int, field: str) -> None:
    """An event at once, a condition when that has lasted, no bind; one entry fewer, and it is scheduled."""
    play = Play(profiles=[default_profile()])
    play.see(make_node("n1", labels={"zone": "z1"}))
    play.see(_pod("p", limit + 1, where))
    said = f"{field} has {limit + 1} entries, at most {limit} count"
    assert [(each.pod.uid, each.reason, each.note) for each in play.of(RecordEvent)] == [("p", "LimitExceeded", said)]
    assert not play.binds
    play.see(_pod("p", limit + 1, where))
    assert not play.of(RecordEvent), "told once"
    play.wait(3.0)
    condition = next(each.condition for each in play.of(PatchPodStatus))
    assert condition is not None
    assert condition.message == f"the pod is beyond what is scheduled: {said}"
    if where != "affinity":
        play.see(_pod("q", limit, where))
        assert "q" in play.binds


def test_of_a_bound_pod_beyond_a_limit_the_first_entries_count() -> None:
    """The pod of somebody else stands with its first terms, is told of, and leaves nothing when it goes."""
    play = Play(profiles=[default_profile()])
    play.see(make_node("n1", labels={"zone": "z1"}))
    play.see(_pod("p", POD_TERMS + 1, "anti", node="n1"))
    assert [(each.pod.uid, each.reason) for each in play.of(RecordEvent)] == [("p", "LimitExceeded")]
    play.see(
        make_pod("counts", scheduler_name="moorage", labels={"app": "a0"}),
        make_pod("does-not", scheduler_name="moorage", labels={"app": f"a{POD_TERMS}"}),
    )
    assert set(play.binds) == {"does-not"}


def test_giants_on_a_node_do_not_make_room_for_others() -> None:
    """Two pods that ask for 9Ei and 9P stand on a node of 4 cpus: one pod of 3 cpus fits beside them, not twelve."""
    play = Play(profiles=[default_profile()])
    play.see(make_node("n1", cpu="4", resources={"example.com/x": 1}))
    for number, amount in enumerate(("9Ei", "9P")):
        requests = dict.fromkeys(("memory", "ephemeral-storage", "example.com/x"), amount)
        play.see(make_pod(f"giant-{number}", node="n1", requests={**requests, "cpu": amount}))
    play.see(*(make_pod(f"p{number}", cpu="3", scheduler_name="moorage") for number in range(12)))
    assert not play.binds
    play.pod_gone("giant-0")
    assert not play.binds
    play.pod_gone("giant-1")
    assert len(play.binds) == 1


def test_a_node_beyond_a_limit_is_told_of() -> None:
    """Its first taints count; the event is about the node, and comes once."""
    taints = [{"key": f"k{number}", "effect": "PreferNoSchedule"} for number in range(TAINTS + 1)]
    node = node_from_builtin({"metadata": {"name": "n1", "uid": "u1"}, "spec": {"taints": taints}})
    play = Play(profiles=[default_profile()])
    play.see(node)
    (told,) = play.of(RecordEvent)
    assert (told.kind, told.pod.name, told.reason) == ("Node", "n1", "LimitExceeded")
    assert told.note == f"spec.taints has {TAINTS + 1} entries, at most {TAINTS} count"
    assert len(play.engine.state.node(0).taints) == TAINTS
    play.see(node)
    assert not play.commands


def test_what_was_cut_off_is_written_to_journals() -> None:
    """A pod beyond a limit is the same after it was written down and read again."""
    pod = _pod("p", POD_TERMS + 1, "anti")
    assert loads(Packer().dumps(pod.template)) == pod.template
