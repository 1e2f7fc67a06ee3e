"""Which pods go first when a workload gets smaller: the rules of Kubernetes' controllers, one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from moorage.sim.whatif_removal import by_falling_ordinal, newest_sign_s, removal_order

NOW_S = datetime(2026, 1, 2, tzinfo=UTC).timestamp()


def at(age_s: float) -> str:
    return datetime.fromtimestamp(NOW_S - age_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready_age_s: float | None = 3600,
    age_s: float = 7200,
    cost: str | None = None,
    restarts: int = 0,
    **labels: str,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "creationTimestamp": at(age_s), "labels": labels}
    if cost is not None:
        metadata["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": cost}
    ready = {"type": "Ready", "status": "False" if ready_age_s is None else "True"}
    ready["lastTransitionTime"] = at(ready_age_s or 0)
    status = {"phase": phase, "conditions": [ready], "containerStatuses": [{"restartCount": restarts}]}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status}


PLAIN = pod("b")
ELSEWHERE = pod("b", node="n2")


@pytest.mark.parametrize(
    ("first", "others"),
    [
        pytest.param(pod("z", node="", phase="Pending", ready_age_s=None), [PLAIN], id="unbound"),
        pytest.param(pod("z", phase="Pending", ready_age_s=None), [pod("b", ready_age_s=None)], id="not-running"),
        pytest.param(pod("z", phase="Unknown"), [PLAIN], id="unknown"),
        pytest.param(pod("z", ready_age_s=None), [PLAIN], id="not-ready"),
        pytest.param(pod("z", cost="-1"), [PLAIN], id="lower-cost"),
        pytest.param(pod("z"), [pod("b", cost="7")], id="others-cost-more"),
        pytest.param(pod("z"), [pod("b", cost="1")], id="no-cost-is-zero"),
        pytest.param(pod("a", cost="+7"), [pod("b", cost="x")], id="no-numbers-count-nothing"),
        pytest.param(pod("y"), [pod("z"), ELSEWHERE], id="crowded-node"),
        pytest.param(pod("z", cost="-1", node="n2"), [pod("a"), PLAIN], id="cost-before-crowds"),
        pytest.param(pod("z", ready_age_s=60), [PLAIN], id="ready-later"),
        pytest.param(pod("a", ready_age_s=3601), [PLAIN], id="ready-at-much-the-same-time-goes-by-uid"),
        pytest.param(pod("z", restarts=3), [PLAIN], id="restarted-more-often"),
        pytest.param(pod("z", age_s=3600), [PLAIN], id="younger"),
        pytest.param(pod("a", age_s=7300), [PLAIN], id="of-much-the-same-age-goes-by-uid"),
    ],
)
def test_who_goes_first(first: dict[str, Any], others: list[dict[str, Any]]) -> None:
    """Whatever the order in which they are given."""
    name = first["metadata"]["name"]
    assert removal_order([first, *others], NOW_S)[0]["metadata"]["name"] == name
    assert removal_order([*others, first], NOW_S)[0]["metadata"]["name"] == name


def test_pods_of_former_templates_go_first() -> None:
    """Before anything else is looked at."""
    pods = [pod("a", cost="-5", template="new"), pod("b", template="old")]
    order = removal_order(pods, NOW_S, is_former=lambda each: each["metadata"]["labels"]["template"] == "old")
    assert [each["metadata"]["name"] for each in order] == ["b", "a"]


def test_ordinals_are_numbers() -> None:
    """10 is more than 9; what has no ordinal stays longest."""
    order = by_falling_ordinal([pod("db-9"), pod("db-x"), pod("db-10"), pod("db-0")])
    assert [each["metadata"]["name"] for each in order] == ["db-10", "db-9", "db-0", "db-x"]


def test_the_moment_of_a_picture() -> None:
    """It is that of the last heartbeat, or of whatever else is newest; what is no time is passed over."""
    beat = {"type": "Ready", "lastHeartbeatTime": at(10), "lastTransitionTime": at(500)}
    node = {"kind": "Node", "status": {"conditions": [beat, {"type": "X", "lastTransitionTime": "never"}]}}
    assert newest_sign_s([node, pod("a")], NOW_S - 900) == NOW_S - 10
    assert newest_sign_s([], NOW_S) == NOW_S
