"""From a pod to the controller that users know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moorage.core.controllers import Controller, controller_of, named_after
from moorage.core.frozen import FrozenDict
from moorage.core.objects import CRON_JOB, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET
from moorage.core.pods import Owner
from moorage.testing import make_pod
from tests.plugins.controlled import make_workload, owner_of, state_with

HASHED = {"pod-template-hash": "5d8f"}
NOTES = FrozenDict({"a": "b"})


def test_a_pod_without_owner_has_none() -> None:
    """Nor has one whose owner makes no pods, or is of a kind that only has the same name."""
    state = state_with([])
    for owner in (None, Owner("DaemonSet", "d", "u", "apps/v1"), Owner("Job", "j", "u", "batch.volcano.sh/v1alpha1")):
        assert controller_of(state, make_pod("a", owner=owner).template) is None


def test_the_deployment_counts_and_the_replica_set_tells_how_many() -> None:
    """During a rollout the ReplicaSet wants fewer pods than the workload has."""
    owner = owner_of(REPLICA_SET, "web-5d8f")
    replica_set = make_workload(REPLICA_SET, "web-5d8f", 1, owner=owner_of(DEPLOYMENT, "web"), annotations={"old": "x"})
    state = state_with([], [], [replica_set, make_workload(DEPLOYMENT, "web", 3, annotations=NOTES)])
    pod = make_pod("a", owner=owner, labels=HASHED)
    assert controller_of(state, pod.template) == Controller(owner, DEPLOYMENT, "web", 1, 3, NOTES, 3, 3)


@pytest.mark.parametrize(
    ("revision", "fields", "want"),
    [
        pytest.param("10", {"max_unavailable": 1}, (3, 2, False), id="the newest"),
        pytest.param("11", {}, (3, 3, False), id="newer than the Deployment shows"),
        pytest.param("9", {}, (1, None, True), id="an older one"),
        pytest.param("10", {"paused": True}, (1, None, True), id="paused"),
        pytest.param("", {}, (3, 3, False), id="not numbered"),
    ],
)
def test_what_becomes_of_a_revision(revision: str, fields: dict[str, Any], want: tuple[Any, ...]) -> None:
    """How many pods it will have, how many the rollout leaves running, and whether others stay beside it."""
    numbered = {"deployment.kubernetes.io/revision": revision}
    sets = make_workload(REPLICA_SET, "web-5d8f", 1, owner=owner_of(DEPLOYMENT, "web"), annotations=numbered)
    notes = {"deployment.kubernetes.io/revision": "10"}
    state = state_with([], [], [sets, make_workload(DEPLOYMENT, "web", 3, annotations=notes, **fields)])
    found = controller_of(state, make_pod("a", owner=owner_of(REPLICA_SET, "web-5d8f"), labels=HASHED).template)
    assert found is not None
    assert (found.made, found.rollout, found.beside) == want


def test_a_deployment_that_is_not_there_has_left_copies_of_its_annotations() -> None:
    """The copies on the ReplicaSet count, but only then: the scheduler may have no right to read Deployments."""
    owner = owner_of(REPLICA_SET, "web-5d8f")
    replica_set = make_workload(REPLICA_SET, "web-5d8f", 2, owner=owner_of(DEPLOYMENT, "web"), annotations={"old": "x"})
    found = controller_of(state_with([], [], [replica_set]), make_pod("a", owner=owner).template)
    assert found == Controller(owner, DEPLOYMENT, "web", 2, 2, FrozenDict({"old": "x"}), 2, 2)


def test_a_pod_may_name_the_deployment_itself() -> None:
    """The simulator's pods do."""
    owner = owner_of(DEPLOYMENT, "web")
    state = state_with([], [], [make_workload(DEPLOYMENT, "web", 3, annotations=NOTES)])
    assert controller_of(state, make_pod("a", owner=owner).template) == Controller(
        owner, DEPLOYMENT, "web", 3, 3, NOTES, 3
    )


def test_where_the_replica_set_is_missing_its_name_tells_the_deployment() -> None:
    """Files often leave it out, and its watch may be slower than that of the pods."""
    owner = owner_of(REPLICA_SET, "web-5d8f")
    state = state_with([], [], [make_workload(DEPLOYMENT, "web", 3, annotations=NOTES)])
    found = controller_of(state, make_pod("a", owner=owner, labels=HASHED).template)
    assert found == Controller(owner, DEPLOYMENT, "web", 3, 3, NOTES, 3, 3)


def test_names_tell_nothing_while_another_owner_of_that_name_is_known() -> None:
    """A Deployment was replaced by one of the same name: what is known of it may be the old one's strategy."""
    owner = owner_of(REPLICA_SET, "web-5d8f")
    old = replace(make_workload(REPLICA_SET, "web-5d8f", 2, owner=owner_of(DEPLOYMENT, "web")), uid="older")
    state = state_with([], [], [old, make_workload(DEPLOYMENT, "web", 3, annotations=NOTES)])
    found = controller_of(state, make_pod("a", owner=owner, labels=HASHED).template)
    assert found == Controller(owner, REPLICA_SET, "web-5d8f", None, None)


def test_nothing_known_is_said_to_be_so() -> None:
    """Neither the owner nor anything that it could be named after; a namesake with another uid is not the owner."""
    owner = owner_of(STATEFUL_SET, "db")
    for known in ([], [replace(make_workload(STATEFUL_SET, "db", 3), uid="newer")]):
        found = controller_of(state_with([], [], known), make_pod("a", owner=owner).template)
        assert found == Controller(owner, STATEFUL_SET, "db", None, None)


def test_a_job_wants_what_is_left_of_it() -> None:
    """Its size stays what it was made for."""
    owner = owner_of(JOB, "sum-28")
    job = make_workload(JOB, "sum-28", 4, owner=owner_of(CRON_JOB, "sum"), completions=6, succeeded=5)
    state = state_with([], [], [job, make_workload(CRON_JOB, "sum", 4, annotations=NOTES)])
    found = controller_of(state, make_pod("a", owner=owner).template)
    assert found == Controller(owner, CRON_JOB, "sum", 1, 4, NOTES, 1)


@pytest.mark.parametrize(
    ("kind", "name", "want"),
    [
        pytest.param(REPLICA_SET, "web-5d8f", (DEPLOYMENT, "web"), id="template hash"),
        pytest.param(REPLICA_SET, "web-other", None, id="another hash"),
        pytest.param(REPLICA_SET, "web", None, id="no hash"),
        pytest.param(JOB, "sum-28", (CRON_JOB, "sum"), id="numbered job"),
        pytest.param(JOB, "sum-２", None, id="full-width digit"),
        pytest.param(JOB, "sum-all", None, id="named job"),
        pytest.param(JOB, "28", None, id="nothing but a number"),
        pytest.param(STATEFUL_SET, "db-5d8f", None, id="another kind"),
    ],
)
def test_names_tell_who_made_an_owner(kind: str, name: str, want: tuple[str, str] | None) -> None:
    """As the controllers of Kubernetes give names."""
    assert named_after(make_pod("a", owner=owner_of(kind, name), labels=HASHED).template) == want
