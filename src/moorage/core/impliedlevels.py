"""Levels of the network that no Topology names: the label that a gang is placed by, and labels that divide it.

Kept by label, until the values of a label that has a part in them change; the latest ones stay.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from moorage.core.arrays import Ids, Rows
from moorage.core.topology import HOSTNAME, Levels

if TYPE_CHECKING:
    from moorage.core.nodelabels import LabelColumns
    from moorage.core.state import ClusterState

_LEVEL_NAME = re.compile(r"topology|region|zone|datacenter|block|spine|leaf|rack|switch", re.IGNORECASE)
"""What names of labels have in them that are levels of the network."""
_MOST_KEPT = 64


class _Kept(NamedTuple):
    """What was found, and from what."""

    versions: tuple[int, ...]
    levels: Levels


class ImpliedLevels:
    """The levels that labels of nodes imply."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def of(self, state: ClusterState, key: str) -> Levels:
        """A label of nodes as the widest level, and below it the labels that say by their names that they are levels.

        These are on every node that has the first one and divide the level above; the name of the host comes last.
        """
        labels = state.labels
        if labels.known(key) is None:
            return Levels((key,))
        names = [key, *(name for name in labels.names() if name != key and _is_level(name))]
        versions = tuple(labels.version(name) for name in names)
        kept = self._kept.pop(key, None)
        if kept is None or kept.versions != versions:
            kept = _Kept(versions, _found(labels, state.rows(), names))
        self._kept[key] = kept
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return kept.levels


@lru_cache(maxsize=1024)
def _is_level(name: str) -> bool:
    return name == HOSTNAME or _LEVEL_NAME.search(name) is not None


def _found(labels: LabelColumns, rows: Rows, names: list[str]) -> Levels:
    columns = {name: column.ids for name in names if (column := labels.known(name)) is not None}
    key = names[0]
    rows = rows[columns[key][rows] >= 0]
    above = columns[key][rows].astype(np.int64)
    found = []
    for name in names[1:]:
        values = columns[name][rows]
        if (values >= 0).all():
            found.append((name == HOSTNAME, len(np.unique(_pairs(above, values))), name, values))
    keys, count = [key], len(np.unique(above))
    for _, _, name, values in sorted(found, key=lambda each: each[:3]):
        pairs, inside = np.unique(_pairs(above, values), return_inverse=True)
        if len(pairs) > count:
            keys.append(name)
            above, count = inside, len(pairs)
    return Levels(tuple(keys))


def _pairs(above: Rows, values: Ids) -> Rows:
    """A number for each pair, equal for equal pairs."""
    numbers: Rows = above * (int(values.max()) + 1) + values
    return numbers
