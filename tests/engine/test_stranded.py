"""Pods that wait for the nodes of a rule: what is remembered of them, and how much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moorage.core.frozen import FrozenDict
from moorage.core.ownercounts import strategy_group
from moorage.core.pods import Pod
from moorage.core.strategy import RULE_STAMP, STRATEGY_ANNOTATIONS, parse_strategy
from moorage.engine.stranded import Stranded
from moorage.testing import make_pod

TEXT = "base=1,weight=1,nodeSelector=kind:a;weight=1,nodeSelector=kind:b"
STRATEGY = parse_strategy(TEXT)
PATIENCE_S = 60.0


def waiting(name: str, stamp: str, kind: str = "a", text: str = TEXT) -> Pod:
    notes = {STRATEGY_ANNOTATIONS[0]: text, RULE_STAMP: stamp}
    return make_pod(name, annotations=notes, node_selector={"kind": kind}, created_s=0.0)


def test_what_pods_that_went_have_waited_for_is_bounded() -> None:
    """However many they were, and whatever their owner wrote on them."""
    subject = Stranded(PATIENCE_S)
    for number in range(3000):
        pod = waiting(f"p{number}", "1", kind=f"a{number}")
        subject.seen(pod, 0.0)
        subject.gone(pod.uid, PATIENCE_S)
    assert sum(map(len, subject._given_up.values())) <= 1000


@pytest.mark.parametrize("stamp", ["0", "100", "1x", "9" * 5000], ids=["none", "too large", "no number", "long"])
def test_a_stamp_that_the_webhook_never_writes_is_not_kept(stamp: str) -> None:
    subject = Stranded(PATIENCE_S)
    subject.seen(waiting("p", stamp), 0.0)
    subject.gone("p", PATIENCE_S)
    assert (subject._waiting, subject._of_group, subject._given_up) == ({}, {}, {})


def test_a_stamp_that_changes_on_a_waiting_pod_is_followed() -> None:
    subject, pod = Stranded(PATIENCE_S), waiting("p", "1")
    group = strategy_group(pod.template)
    subject.seen(pod, 0.0)
    assert STRATEGY is not None
    assert [subject.since_s(group, STRATEGY, rule) for rule in (0, 1)] == [0.0, None]
    other = waiting("p", "2", kind="b").template
    subject.seen(replace(pod, template=other), 5.0)
    assert [subject.since_s(group, STRATEGY, rule) for rule in (0, 1)] == [None, 0.0]


def test_nothing_is_left_of_a_group_when_its_pods_have_nodes() -> None:
    subject, pod = Stranded(PATIENCE_S), waiting("p", "1")
    subject.seen(pod, 0.0)
    subject.gone(pod.uid, PATIENCE_S)
    assert subject._given_up
    labels = FrozenDict(pod.template.labels)
    subject.seen(replace(pod, uid="q", node="n", template=replace(pod.template, labels=labels)), PATIENCE_S)
    assert subject._given_up == {}
