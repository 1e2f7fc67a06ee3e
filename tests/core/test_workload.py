"""The picture of typical requests follows the pods, forgets slowly, and is published only when it changed."""

from __future__ import annotations

from dataclasses import replace

from moorage.core.workload import LearnedWorkload
from moorage.testing.builders import make_pod


def cpus(workload: LearnedWorkload) -> dict[int, float]:
    return {each.shape.cpu_milli: round(each.part, 3) for each in workload.typical}


def test_waiting_and_running_pods_count_once() -> None:
    workload = LearnedWorkload()
    workload.follow([make_pod("a", cpu="1"), make_pod("b", cpu="1", node="n1"), make_pod("c", cpu="2")])
    workload.seen(make_pod("a", cpu="1", node="n1"))
    assert workload.settle() == 1
    assert cpus(workload) == {1000: 0.667, 2000: 0.333}


def test_nothing_is_counted_unless_somebody_asks() -> None:
    workload = LearnedWorkload()
    workload.seen(make_pod("a", cpu="1"))
    assert workload.settle() == 0
    assert not workload.typical


def test_pods_that_are_gone_are_forgotten_slowly() -> None:
    """They count while they are fewer than those that exist; what never comes again fades away."""
    workload = LearnedWorkload()
    workload.follow(make_pod(f"old-{number}", cpu="1") for number in range(100))
    workload.settle()
    for number in range(400):
        workload.seen(make_pod(f"new-{number}", cpu="2"))
        workload.gone(make_pod(f"old-{number}", cpu="1").uid if number < 100 else f"default/new-{number - 100}")
    workload.settle()
    assert set(cpus(workload)) == {2000}


def test_a_picture_that_is_about_the_same_is_not_published() -> None:
    workload = LearnedWorkload()
    workload.follow(make_pod(f"a{number}", cpu=1 + number % 2) for number in range(200))
    assert workload.settle() == 1
    for number in range(50):
        workload.seen(make_pod(f"b{number}", cpu=1 + number % 2))
    assert workload.settle() == 1
    for number in range(50):
        workload.seen(make_pod(f"c{number}", cpu=7))
    assert workload.settle() == 2


def test_finished_pods_are_gone() -> None:
    workload = LearnedWorkload()
    workload.follow([make_pod("a", cpu="1")])
    for _ in range(2):
        workload.seen(replace(make_pod("a", cpu="1", node="n1"), phase="Succeeded"))
    workload.seen(make_pod("b", cpu="3"))
    workload.settle()
    assert cpus(workload) == {1000: 0.5, 3000: 0.5}


def test_rare_requests_do_not_count() -> None:
    workload = LearnedWorkload()
    workload.follow(make_pod(f"a{number}", cpu="1") for number in range(99))
    workload.seen(make_pod("odd", cpu="64"))
    workload.settle()
    assert cpus(workload) == {1000: 1.0}
