"""Nodes that have a pod's images score, by size and by how common the image is."""

from __future__ import annotations

import math

import pytest

from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.plugins.image_locality import ImageLocality
from moorage.testing import GeneratedCluster, check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("images", "on_first", "want_score"),
    [
        pytest.param(["app"], {}, 0, id="not there"),
        pytest.param(["app"], {"app": "46Mi"}, 0, id="half of it is below 23 MiB"),
        pytest.param(["app"], {"app": "2000Mi"}, 100, id="half of it reaches 1000 MiB"),
        pytest.param(["app"], {"app": "9000Mi"}, 100, id="more does not count"),
        pytest.param(["app:latest"], {"app": "1000Mi"}, 48, id="in between, rounded down, latest is implied"),
        pytest.param(["app", "db"], {"app": "1000Mi"}, 24, id="two containers, one image there"),
        pytest.param(["app", "app"], {"app": "1000Mi"}, 49, id="the same image twice counts twice"),
        pytest.param(["app"], {"other": "1000Mi"}, 0, id="another image"),
    ],
)
def test_score(images: list[str], on_first: dict[str, str | int], want_score: int) -> None:
    """An image that one of two nodes has counts half its size, scaled between 23 MiB and 1000 MiB per image."""
    state = make_state([make_node("first", images=on_first), make_node("second")])
    assert ask(ImageLocality(), state, make_pod("a", images=images)).scores == {"first": want_score, "second": 0}


def test_epoch_follows_images_and_the_number_of_nodes() -> None:
    """Both change the share of nodes that have an image, so all kept scores end; a new label does not."""
    plugin = ImageLocality()
    state = make_state([make_node("n1", images={"app": "500Mi"})])
    first = plugin.epoch(state)
    state.upsert_node(make_node("n1", images={"app": "500Mi"}, labels={"x": "y"}))
    assert plugin.epoch(state) == first
    state.upsert_node(make_node("n2"))
    second = plugin.epoch(state)
    assert second != first
    state.upsert_node(make_node("n2", images={"app": "500Mi"}))
    assert plugin.epoch(state) != second


def reference(pod: Pod, node: Node, _pods: list[Pod], cluster: GeneratedCluster) -> int:
    total = 0
    for image in pod.template.images:
        having = [each for each in cluster.nodes if any(image in i.names for i in each.images)]
        if node in having:
            size = next(i.size_bytes for i in node.images if image in i.names)
            total += math.floor(size * (len(having) / len(cluster.nodes)))
    most = 1000 * MIB * len(pod.template.images)
    if total <= 23 * MIB:
        return 0
    return 100 * (min(total, most) - 23 * MIB) // (most - 23 * MIB)


def test_conformance() -> None:
    """The promises of every plugin hold, and generated clusters agree with the reference."""
    check_plugin(ImageLocality, seeds=range(40), reference_score=reference)
