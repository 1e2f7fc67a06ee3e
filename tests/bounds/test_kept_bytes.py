"""What is kept of thousands of large pods that have come and gone: bytes count, not only numbers."""

from __future__ import annotations

import gc
import tracemalloc

import msgspec
import pytest

from moorage.wire.pod import decode_pod
from tests.bounds.shapes import AT_LIMIT, POD_SHAPES, pod_json
from tests.bounds.world import World

PODS = 5_000
NOTE_BYTES = 60_000
LONG_BYTES = 20 << 20
"""A table of kept answers, and a bit; the pods of a test are 27 MB."""
KEPT_BYTES = 120 << 20
"""What the table of looks may hold, two generations of it, and a table of kept answers."""


def _annotated(number: int) -> bytes:
    metadata = {
        "name": "worst",
        "namespace": "tenant",
        "uid": "worst",
        "annotations": {"a": f"{number:06}" * (NOTE_BYTES // 6)},
    }
    return msgspec.json.encode(
        {"metadata": metadata, "spec": {"schedulerName": "moorage", "containers": [{"name": "c"}]}}
    )


def test_thousands_of_large_pods_leave_what_is_allowed() -> None:
    """300 MB came and went; a part of it is remembered for pods that look alike, and no more."""
    world = World(10, pods_per_node=1)
    tracemalloc.start()
    try:
        for number in range(PODS):
            world.comes(_annotated(number), is_node=False)
            world.goes(is_node=False)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < KEPT_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "most", "pods"),
    [
        ("node term's expressions", AT_LIMIT["node term's expressions"], 60),
        ("selector's expressions", AT_LIMIT["selector's expressions"], 60),
    ],
)
def test_long_rules_leave_what_is_allowed(shape: str, most: int, pods: int) -> None:
    """Nothing remembers rules by their number alone."""
    world = World(10, pods_per_node=1)
    tracemalloc.start()
    try:
        for number in range(pods):
            world.comes(pod_json(shape, most=most, start=number * most), is_node=False)
            world.goes(is_node=False)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < LONG_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [shape for shape in POD_SHAPES if shape in AT_LIMIT])
def test_a_template_knows_its_bytes(shape: str) -> None:
    """Tables that are bounded by bytes believe it: what it says is about right, and not far below."""
    data = pod_json(shape, most=AT_LIMIT[shape])
    gc.collect()
    tracemalloc.start()
    try:
        template = decode_pod(data).template
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 2 * template.size + 4_096
