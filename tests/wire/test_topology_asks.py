"""What annotations of pods and PodGroups ask of the levels, in the words of each system."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from moorage.core.gangs import VOLCANO_KIND
from moorage.core.objects import PodGroup
from moorage.core.topologyasks import SliceAsk, SubGroup, TopologyAsk
from moorage.wire.kinds import BY_ID
from moorage.wire.topology import ask_of

KAI, KUEUE, OURS = "kai.scheduler/", "kueue.x-k8s.io/", "moorage.dev/"
LEVEL, WISH = f"{KAI}segment-topology-required-placement", f"{KAI}segment-topology-preferred-placement"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({"app": "x"}, None, id="nothing"),
        pytest.param(
            {LEVEL: "rack", f"{KAI}segment-size": "4"},
            TopologyAsk(slices=(SliceAsk("rack", 4, uneven=True),)),
            id="KAI, segments",
        ),
        pytest.param(
            {WISH: "rack", f"{KAI}segment-size": "4"},
            TopologyAsk(slices=(SliceAsk("rack", 4, uneven=True, soft=True),)),
            id="KAI, preferred segments",
        ),
        pytest.param(
            {LEVEL: "block", WISH: "rack", f"{KAI}segment-size": "4"},
            TopologyAsk(slices=(SliceAsk("block", 4, uneven=True), SliceAsk("rack", 4, uneven=True, soft=True))),
            id="KAI, both",
        ),
        pytest.param(
            {f"{KUEUE}podset-slice-required-topology": "rack"},
            TopologyAsk(slices=(SliceAsk("rack", None),)),
            id="Kueue, one job of a JobSet",
        ),
        pytest.param(
            {f"{OURS}topology-slice-required": "rack", f"{OURS}topology-slice-size": "4"},
            TopologyAsk(slices=(SliceAsk("rack", 4),)),
            id="ours",
        ),
        pytest.param(
            {f"{KAI}segment-size": "4"},
            TopologyAsk(slices=(SliceAsk("", 4, uneven=True),), mistake="slices of 4 members name no level"),
            id="no level",
        ),
    ],
)
def test_slices_are_read(annotations: dict[str, str], want: TopologyAsk | None) -> None:
    """Sizes, levels, whether they are preferred, and whether the last one may be smaller."""
    assert ask_of(annotations) == want


def policy(size: int | None, task: str = "", **topology: object) -> dict[str, object]:
    selector = {"labelSelector": {"matchLabels": {"volcano.sh/task-spec": task}}} if task else {}
    return {"subGroupSize": size, "networkTopology": topology, **selector}


@pytest.mark.parametrize(
    ("policies", "want_slices", "want_tasks"),
    [
        pytest.param([policy(2, highestTierAllowed=1)], (SliceAsk("volcano.sh/tier-1", 2),), {}, id="of all members"),
        pytest.param(
            [policy(2, "worker", highestTierAllowed=1), policy(4, "actor", mode="hard", highestTierName="leaf")],
            (),
            {"worker": SliceAsk("volcano.sh/tier-1", 2), "actor": SliceAsk("leaf", 4)},
            id="two tasks are no layers",
        ),
        pytest.param(
            [policy(2, "worker", mode="soft")],
            (),
            {"worker": SliceAsk("volcano.sh/tier-1", 2, soft=True)},
            id="as close as possible",
        ),
        pytest.param([policy(None, highestTierAllowed=1), {"subGroupSize": 2}], (), {}, id="no size, or no topology"),
    ],
)
def test_sub_group_policies_of_volcano(
    policies: list[dict[str, object]], want_slices: tuple[SliceAsk, ...], want_tasks: dict[str, SliceAsk]
) -> None:
    """Each is about the task that it selects, whose minimum stays."""
    spec = {"minMember": 4, "minTaskMember": {"worker": 3}, "subGroupPolicy": policies}
    value = BY_ID[VOLCANO_KIND].decode(msgspec.json.encode({"metadata": {"name": "g"}, "spec": spec}))
    assert isinstance(value, PodGroup)
    assert (() if value.topology is None else value.topology.slices) == want_slices
    assert {each.name: each.ask.slices for each in value.subgroups if each.ask.slices} == {
        name: (ask,) for name, ask in want_tasks.items()
    }
    assert SubGroup("worker", least=3) in [replace(each, ask=TopologyAsk()) for each in value.subgroups]
