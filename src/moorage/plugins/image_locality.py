"""ImageLocality: prefer nodes that have the pod's images already.

An image present on a node counts its size times the share of nodes that have it, so that a rare image does not draw all
pods to one node. The sum is scaled between 23 MiB (score 0) and 1000 MiB per image (score 100).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads

_MAX_SCORE = 100
_MIB = 1024 * 1024
_LOW_BYTES = 23 * _MIB
_HIGH_BYTES_PER_IMAGE = 1000 * _MIB


class ImageLocality(Plugin):
    """Scores nodes by how much of the pod's images they have."""

    name: ClassVar[str] = "ImageLocality"
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What(0)

    def sign(self, template: PodTemplate) -> tuple[str, ...]:
        """The images, repetitions included."""
        return template.images

    def epoch(self, state: ClusterState) -> Hashable:
        """The share of nodes that have an image changes with any node's images and with nodes that join or leave."""
        return state.images.version

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The scaled size of the images that each row has, 0..100."""
        state = cycle.state
        images = cycle.template.images
        present: Ints | None = None
        for image in images:
            sizes = state.images.sizes(image)
            if sizes:
                if present is None:
                    present = np.zeros(state.capacity, dtype=np.int64)
                share = len(sizes) / state.node_count
                present[list(sizes)] += (np.array(list(sizes.values()), dtype=np.float64) * share).astype(np.int64)
        if present is None:
            return np.zeros(len(rows), dtype=np.int64)
        high = _HIGH_BYTES_PER_IMAGE * len(images)
        counted: Ints = np.clip(state.pick(present, rows), _LOW_BYTES, high)
        scores: Ints = (counted - _LOW_BYTES) * _MAX_SCORE // (high - _LOW_BYTES)
        return scores
