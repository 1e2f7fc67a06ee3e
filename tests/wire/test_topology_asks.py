"""What annotations of pods and PodGroups ask of the levels, in the words of each system."""

from __future__ import annotations

import pytest

from moorage.core.topologyasks import SliceAsk, TopologyAsk
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
