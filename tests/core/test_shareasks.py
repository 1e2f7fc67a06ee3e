"""What a pod asks for of devices, in the words of each convention; and which devices it got, written and read again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moorage.core.shareasks import Convention, ShareAsk
from moorage.core.sharewriting import registered_devices, taken_devices, words_for
from moorage.testing.builders import make_pod

KAI, HAMI, KOORDINATOR, ALIBABA = Convention.KAI, Convention.HAMI, Convention.KOORDINATOR, Convention.ALIBABA
GPU = "nvidia.com/gpu"
CORE, RATIO, MEMORY = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory"


def ask_of(annotations: Mapping[str, str], requests: Mapping[str, str | int] | None = None) -> ShareAsk | None:
    return make_pod("p", annotations=annotations, requests=requests).template.share


ANNOTATED = [
    ({"gpu-fraction": "0.47"}, ShareAsk(KAI, 1, 470, 470)),
    ({"gpu-fraction": ".0001"}, ShareAsk(KAI, 1, 1, 1)),
    ({"gpu-fraction": "1"}, ShareAsk(KAI)),
    ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, ShareAsk(KAI, 2, 500, 500)),
    ({"gpu-memory": "2000"}, ShareAsk(KAI, 1, 0, 0, 2000)),
    ({"alibabacloud.com/gpu-milli": "320"}, ShareAsk(ALIBABA, 1, 320, 320)),
    ({"alibabacloud.com/gpu-count": "4", "alibabacloud.com/gpu-card-model": "T4|A10|"},
     ShareAsk(ALIBABA, 4, models=("A10", "T4"))),
    ({"example.com/other": "1"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("annotations", "want"), ANNOTATED, ids=lambda value: str(value)[:40])
def test_asks_in_annotations(annotations: Mapping[str, str], want: ShareAsk | None) -> None:
    assert ask_of(annotations) == want


REQUESTED: list[tuple[Mapping[str, str | int], ShareAsk | None]] = [
    ({GPU: 2}, ShareAsk(Convention.WHOLE, 2)),
    ({GPU: 1, "nvidia.com/gpumem": 3000}, ShareAsk(HAMI, 1, 0, 0, 3000)),
    ({GPU: 2, "nvidia.com/gpumem-percentage": 30, "nvidia.com/gpucores": 20}, ShareAsk(HAMI, 2, 200, 300)),
    ({GPU: 1, "nvidia.com/gpucores": 50}, ShareAsk(HAMI, 1, 500, 1000)),
    ({CORE: 47, RATIO: 30}, ShareAsk(KOORDINATOR, 1, 470, 300)),
    ({CORE: 200, RATIO: 200}, ShareAsk(KOORDINATOR, 2)),
    ({CORE: 50, MEMORY: "8Gi"}, ShareAsk(KOORDINATOR, 1, 500, 0, 8192)),
    ({"koordinator.sh/gpu": 50}, ShareAsk(KOORDINATOR, 1, 500, 500)),
    ({"example.com/gpu": 1}, None),
]


@pytest.mark.parametrize(("requests", "want"), REQUESTED, ids=lambda value: str(value)[:40])
def test_asks_in_requests(requests: Mapping[str, str | int], want: ShareAsk | None) -> None:
    assert ask_of({}, requests) == want


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpu-fraction": "1.5"},
        {"gpu-fraction": "half"},
        {"gpu-fraction": ""},
        {"gpu-fraction": "0"},
        {"gpu-fraction": "\uff10.5"},
        {"gpu-memory": "-1"},
        {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "many"},
        {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "65"},
        {"alibabacloud.com/gpu-milli": "1001"},
        {"alibabacloud.com/gpu-count": "0"},
    ],
    ids=str,
)
def test_what_cannot_be_understood_is_said(annotations: Mapping[str, str]) -> None:
    """Such a pod is not placed; a guess would give it a device that it does not expect."""
    ask = ask_of(annotations)
    assert ask is not None
    assert ask.problem


def test_several_devices_of_koordinator_are_whole() -> None:
    ask = ask_of({}, {CORE: 150, RATIO: 150})
    assert ask is not None
    assert "multiple of 100" in ask.problem


def test_containers_with_shares_of_different_sizes_get_devices_with_room_for_the_largest() -> None:
    containers = [{GPU: 1, "nvidia.com/gpumem": size} for size in (1000, 3000)]
    assert make_pod("p", containers=containers).template.share == ShareAsk(HAMI, 2, 0, 0, 3000, slots=(1, 1))


@pytest.mark.parametrize(
    ("ask", "want"),
    [
        (ShareAsk(KAI, 2, 500, 500), {}),
        (ShareAsk(ALIBABA, 2, 500, 500), {"alibabacloud.com/gpu-index": "1-3"}),
        (
            ShareAsk(KOORDINATOR, 2, 500, 300),
            {
                "scheduling.koordinator.sh/device-allocated": '{"gpu":['
                '{"minor":1,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory-ratio":"30"}},'
                '{"minor":3,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory-ratio":"30"}}]}'
            },
        ),
    ],
    ids=["kai", "alibaba", "koordinator"],
)
def test_devices_are_written_in_the_words_of_the_convention(ask: ShareAsk, want: Mapping[str, str]) -> None:
    words = words_for(ask, (1, 3), "n1", 4800, (), 7.0)
    assert words == {"moorage.dev/devices": "1,3", **want}
    assert taken_devices(words) == (1, 3)
    if want:
        assert taken_devices(want) == (1, 3)  # also where another scheduler bound the pod


def test_hami_finds_devices_by_uuid() -> None:
    words = words_for(ShareAsk(HAMI, 1, 300, 0, 3000), (1,), "n1", 3000, ("GPU-a", "GPU-b"), 7.9)
    assert words["hami.io/vgpu-devices-to-allocate"] == "GPU-b,NVIDIA,3000,30:;"
    assert (words["hami.io/vgpu-node"], words["hami.io/bind-phase"], words["hami.io/vgpu-time"]) == (
        "n1", "allocating", "7",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0,1", (0, 1)),
        ("3,1,1", (1, 3)),
        ("", ()),
        ("x,2", (2,)),
        ("-1,64,99999999999", ()),
        (",".join(map(str, range(1000))), tuple(range(64))),
    ],
)
def test_devices_that_others_may_have_written(text: str, want: tuple[int, ...]) -> None:
    assert taken_devices({"moorage.dev/devices": text}) == want


@pytest.mark.parametrize(
    "text",
    [
        "GPU-a,10,8192,100,NVIDIA-Tesla P4,0,true:GPU-b,10,8192,100,NVIDIA-Tesla P4,0,false:",
        '[{"id":"GPU-a","count":10,"devmem":8192,"health":true},{"id":"GPU-b","devmem":8192,"health":false}]',
    ],
    ids=["list", "json"],
)
def test_devices_that_hami_registers(text: str) -> None:
    devices = registered_devices({"hami.io/node-nvidia-register": text})
    assert [(each.uuid, each.memory_mib, each.healthy) for each in devices] == [
        ("GPU-a", 8192, True), ("GPU-b", 8192, False),
    ]  # fmt: skip
