"""A node as placement sees it."""

from __future__ import annotations

from dataclasses import field

from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.limits import Excess
from moorage.core.pods import Condition
from moorage.core.taints import Taint
from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class NodeImage:
    """A container image present on a node under all its normalised names."""

    names: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Node:
    """One node; `allocatable` holds cpu in milli, everything else in whole units (bytes, pieces)."""

    name: str
    uid: str = ""
    labels: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: FrozenDict[str, int] = field(default_factory=FrozenDict)
    images: tuple[NodeImage, ...] = ()
    features: tuple[str, ...] = ()
    """Declared features (status.declaredFeatures), sorted."""
    ready: bool = True
    conditions: tuple[Condition, ...] = ()
    """Those that are true, Ready excepted: what a node says is wrong with it, or about to happen to it."""
    deleting: bool = False
    created_s: float = 0.0
    resource_version: str = ""
    excess: tuple[Excess, ...] = ()
    """What was cut off because it is beyond a limit."""
