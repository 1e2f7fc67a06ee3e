"""Plugins that read the whole cluster cost nothing for pods that they have nothing to say about."""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest

from moorage.core.affinity import PodAffinity, PodTerm, PreferredPodTerm, SpreadConstraint
from moorage.core.arrays import Rows
from moorage.core.pods import Pod, PodTemplate
from moorage.core.selectors import selector_from_labels
from moorage.core.state import NOWHERE, ClusterState
from moorage.framework.configuration import Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.profiles import build_profile, build_profiles
from moorage.framework.registry import Registry
from moorage.framework.runner import Runner
from moorage.framework.status import Reason, Rejections
from moorage.plugins.builtin import BUILTIN
from moorage.testing import make_node, make_pod, make_state

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


class Picky(Plugin):
    """Rejects every node for pods labelled `picky`; must not be asked about others."""

    name: ClassVar[str] = "Picky"
    reads: ClassVar[Reads] = Reads.CLUSTER

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        return "picky" in template.labels

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections:
        if "picky" not in cycle.template.labels:
            raise AssertionError("asked about a pod that does not concern it")
        return Rejections(np.ones(len(rows), dtype=np.int64), (Reason("picky"),))


def test_a_plugin_is_asked_only_about_pods_that_concern_it() -> None:
    """The same class of pods may concern a plugin at one decision and not at another."""
    profile = ProfileConfiguration("x", multi_point=PluginSet(enabled=(EnabledPlugin("Picky"),)))
    state = make_state([make_node("n1"), make_node("n2")])
    runner = Runner(build_profile(profile, Registry((*BUILTIN, Picky))), state)
    assert runner.decide(Cycle(make_pod("a"), state, 0.0)) != NOWHERE
    assert runner.decide(Cycle(make_pod("b", labels={"picky": "yes"}), state, 0.0)) == NOWHERE
    assert runner.decide(Cycle(make_pod("c"), state, 0.0)) != NOWHERE


def draw_pod(random: Random, name: str) -> Pod:
    """Pods that spread, attract or avoid each other, or do nothing of the kind."""
    labels = {"app": random.choice("xyz")}
    selector = selector_from_labels({"app": random.choice("xyz")})
    key = random.choice((ZONE, HOSTNAME))
    choices: tuple[dict[str, Any], ...] = (
        {},
        {"spread": (SpreadConstraint(random.randint(1, 2), key, random.random() < 0.6, selector),)},
        {"pod_affinity": PodAffinity((PodTerm(selector, ZONE),))},
        {"pod_anti_affinity": PodAffinity((PodTerm(selector, key),))},
        {"pod_affinity": PodAffinity((), (PreferredPodTerm(random.randint(1, 9), PodTerm(selector, key)),))},
    )
    rules = random.choice(choices)
    return make_pod(name, cpu=random.choice(("100m", "1")), labels=labels, **rules)


@pytest.mark.parametrize("seed", range(25))
def test_decisions_equal_those_of_plugins_asked_afresh(seed: int) -> None:
    """A stream of pods that look at each other, placed by kept answers, lands where a fresh judgement wants it."""
    random = Random(seed)
    (profile,) = build_profiles(Configuration(), Registry(BUILTIN))
    state = make_state(make_node(f"n{i}", cpu=random.choice((2, 8)), zone=random.choice("abc")) for i in range(9))
    runner = Runner(profile, state)
    for number in range(40):
        pod = draw_pod(random, f"p{number}")
        row = runner.decide(Cycle(pod, state, 0.0))
        fresh = Cycle(pod, state, 0.0)
        passed = runner.judge(fresh, state.rows()).passed
        assert (row == NOWHERE) is (len(passed) == 0)
        if row == NOWHERE:
            continue
        totals = sum(runner.score_table(fresh, passed).values(), np.zeros(len(passed), dtype=np.int64))
        assert row in passed[totals == totals.max()]
        state.assume(pod, row)
        if random.random() < 0.2:
            state.remove_pod(random.choice(state.records()).pod.uid)
