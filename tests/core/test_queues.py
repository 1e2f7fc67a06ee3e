"""Which queue a pod names, and what its labels say about evictions."""

from __future__ import annotations

import pytest

from moorage.core.queues import is_preemptible, queue_name, task_order


@pytest.mark.parametrize(
    ("labels", "namespace_labels", "default", "want_name"),
    [
        ({}, {}, "", ""),
        ({"moorage.dev/queue": "a", "kai.scheduler/queue": "b"}, {"moorage.dev/queue": "c"}, "d", "a"),
        ({"kai.scheduler/queue": "b"}, {"moorage.dev/queue": "c"}, "d", "b"),
        ({"kueue.x-k8s.io/queue-name": "b"}, {}, "", "b"),
        ({"scheduling.volcano.sh/queue-name": "b"}, {}, "", "b"),
        ({"moorage.dev/queue": ""}, {"moorage.dev/queue": "c"}, "d", "c"),
        ({"app": "web"}, {"team": "x"}, "d", "d"),
    ],
)
def test_queue_of_a_pod(labels: dict[str, str], namespace_labels: dict[str, str], default: str, want_name: str) -> None:
    """The pod's own label, then its namespace's, then the default of the profile."""
    assert queue_name(labels, namespace_labels, default) == want_name


def test_volcano_names_the_queue_of_a_pod_by_an_annotation() -> None:
    """Labels of the pod come first, those of its namespace later; annotations of other names say nothing."""
    said = {"scheduling.volcano.sh/queue-name": "v"}
    assert queue_name({}, {"moorage.dev/queue": "c"}, "d", annotations=said) == "v"
    assert queue_name({"kai.scheduler/queue": "b"}, annotations=said) == "b"
    assert queue_name({}, annotations={"moorage.dev/queue": "a"}) == ""


@pytest.mark.parametrize(
    ("labels", "priority", "want"),
    [
        ({}, 99, True),
        ({}, 100, False),
        ({"moorage.dev/preemptible": "true"}, 1000, True),
        ({"moorage.dev/preemptible": "false", "kai.scheduler/preemptibility": "preemptible"}, 0, False),
        ({"kai.scheduler/preemptibility": "non-preemptible"}, 0, False),
        ({"moorage.dev/preemptible": "perhaps"}, 0, True),
    ],
)
def test_preemptible(labels: dict[str, str], priority: int, want: bool) -> None:
    """A label says so, else the priority."""
    assert is_preemptible(labels, priority) is want


@pytest.mark.parametrize(("text", "want"), [("3", 3), ("-2", -2), ("", 0), ("x", 0), ("--1", 0), ("9" * 10, 0)])
def test_task_order(text: str, want: int) -> None:
    """A whole number of at most nine digits; anything else counts as none."""
    assert task_order({"moorage.dev/task-order": text}) == want
