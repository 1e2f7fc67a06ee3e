"""Preemption among shares of devices: what stays keeps its devices, so that no pod is evicted in vain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random

import pytest

from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.shared_devices import SharedDevices
from moorage.testing import make_node, make_pod, make_state
from tests.plugins.preempting import Outcome, preempt_on

GPU = "nvidia.com/gpu"
WORLDS = 1_500
MILLI = (100, 200, 300, 400, 500, 600, 700, 900)
Held = Mapping[str, tuple[str, int, tuple[int, ...]]]
"""Name of a pod -> its node, what it takes of each of its devices in thousandths, and these."""


def share(
    name: str, milli: int, node: str | None = None, priority: int = 0, count: int = 1, devices: tuple[int, ...] = ()
) -> Pod:
    asked = {"gpu-fraction": f"{milli / 1000:.3f}", "gpu-fraction-num-devices": str(count)}
    return replace(make_pod(name, node=node, priority=priority, annotations=asked), devices=devices)


def held(state: ClusterState) -> Held:
    state.shares()
    return {
        record.pod.name: (record.node, 0 if (ask := record.pod.template.share) is None else ask.milli, record.devices)
        for record in state.records()
    }


def fits(node: str, devices: int, pod: Pod, others: Iterable[tuple[str, int, tuple[int, ...]]]) -> bool:
    """Whether enough devices of a node have room for a part of the pod beside these others."""
    left = [1000] * devices
    for there, milli, taken in others:
        for device in taken if there == node else ():
            left[device] -= milli
    ask = pod.template.share
    assert ask is not None
    return sum(each >= ask.milli for each in left) >= ask.count


def preempt(state: ClusterState, pod: Pod) -> tuple[Outcome, Held]:
    """What preemption says, and who had which devices; everybody must have them again afterwards."""
    before = held(state)
    found = preempt_on(state, pod, DefaultPreemption(), SharedDevices())
    assert held(state) == before
    return found, before


@pytest.mark.parametrize(
    "written", [pytest.param(((0,), (0,), (1,)), id="written"), pytest.param(((), (), ()), id="not written")]
)
def test_both_users_of_a_device_go(written: tuple[tuple[int, ...], ...]) -> None:
    """Whether or not the devices of pods are written on them: one that is put back does not move to another device."""
    sizes, priorities = (600, 400, 500), (2, 2, 8)
    pods = [share(f"p{i}", sizes[i], "n", priorities[i], devices=written[i]) for i in range(3)]
    state = make_state([make_node("n", resources={GPU: 2})], pods)
    found, _ = preempt(state, share("big", 700, priority=100))
    assert (found.node, set(found.victims)) == ("n", {"p0", "p1"})


@pytest.mark.parametrize("part", range(4))
def test_victims_suffice_and_none_is_in_vain(part: int) -> None:
    """Without the victims the pod fits, with any one of them it does not; if there are none, no node could be freed."""
    asked = 0
    for seed in range(part * WORLDS // 4, (part + 1) * WORLDS // 4):
        rng = Random(seed)
        sizes = {f"n{i}": rng.randint(1, 4) for i in range(rng.randint(1, 3))}
        state = make_state([make_node(name, resources={GPU: count}) for name, count in sizes.items()])
        for number in range(rng.randint(1, 14)):
            node = rng.choice(list(sizes))
            count = 1 if rng.random() < 0.8 else rng.randint(1, sizes[node])
            pod = share(
                f"p{number}", rng.choice((100, 200, 300, 400, 500, 600, 700, 900)), node, rng.randint(0, 9), count
            )
            if fits(node, sizes[node], pod, held(state).values()):
                state.observe_pod(pod)
        wanted = share("big", rng.choice((300, 500, 700, 900, 1000)), None, rng.randint(1, 10), rng.randint(1, 2))
        if any(fits(node, count, wanted, held(state).values()) for node, count in sizes.items()):
            continue
        asked += 1
        found, before = preempt(state, wanted)
        lower = {
            pod.name
            for pod in (each.pod for each in state.records())
            if pod.template.priority < wanted.template.priority
        }
        if found.node is None:
            stay = [each for name, each in before.items() if name not in lower]
            assert not any(fits(node, count, wanted, stay) for node, count in sizes.items()), seed
            continue
        gone = set(found.victims)
        assert gone <= lower, seed
        for back in (None, *gone):
            there = [each for name, each in before.items() if name not in gone or name == back]
            assert fits(found.node, sizes[found.node], wanted, there) is (back is None), (seed, back)
    assert asked > WORLDS // 20
