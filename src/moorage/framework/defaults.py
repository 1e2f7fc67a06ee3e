"""Which plugins every profile starts with, and which names kube-scheduler knows.

The list is kube-scheduler 1.37's, in its order and with its weights (0 stands for 1), plus GangScheduling, which
Moorage always runs and kube-scheduler keeps behind a gate, and FairShare and TopologyPlacement, which do nothing where
no queue and no topology concerns a pod. Names that the registry does not hold are left out when a profile is resolved.
"""

from __future__ import annotations

from collections.abc import Mapping

from moorage.framework.configuration import EnabledPlugin
from moorage.framework.plugin import Point

DEFAULT_PLUGINS: tuple[EnabledPlugin, ...] = (
    EnabledPlugin("SchedulingGates"),
    EnabledPlugin("PrioritySort"),
    EnabledPlugin("NodeName"),
    EnabledPlugin("NodeUnschedulable"),
    EnabledPlugin("TaintToleration", 3),
    EnabledPlugin("NodeAffinity", 2),
    EnabledPlugin("NodePorts"),
    EnabledPlugin("NodeResourcesFit", 1),
    EnabledPlugin("VolumeRestrictions"),
    EnabledPlugin("NodeVolumeLimits"),
    EnabledPlugin("VolumeBinding"),
    EnabledPlugin("VolumeZone"),
    EnabledPlugin("PodTopologySpread", 2),
    EnabledPlugin("InterPodAffinity", 2),
    EnabledPlugin("DynamicResources", 2),
    EnabledPlugin("DefaultPreemption"),
    EnabledPlugin("NodeResourcesBalancedAllocation", 1),
    EnabledPlugin("ImageLocality", 1),
    EnabledPlugin("DefaultBinder"),
    EnabledPlugin("NodeDeclaredFeatures"),
    EnabledPlugin("GangScheduling"),
    EnabledPlugin("FairShare"),
    EnabledPlugin("TopologyPlacement"),
)

_FILTERS = (Point.PRE_FILTER, Point.FILTER)
_SCORES = (Point.PRE_SCORE, Point.SCORE)

KUBE_SCHEDULER_POINTS: Mapping[str, tuple[Point, ...]] = {
    "SchedulingGates": (Point.PRE_ENQUEUE,),
    "PrioritySort": (Point.QUEUE_SORT,),
    "NodeName": _FILTERS,
    "NodeUnschedulable": _FILTERS,
    "TaintToleration": (*_FILTERS, *_SCORES),
    "NodeAffinity": (*_FILTERS, *_SCORES),
    "NodePorts": _FILTERS,
    "NodeResourcesFit": (*_FILTERS, *_SCORES),
    "VolumeRestrictions": _FILTERS,
    "NodeVolumeLimits": _FILTERS,
    "VolumeBinding": (*_FILTERS, *_SCORES, Point.RESERVE, Point.PRE_BIND),
    "VolumeZone": _FILTERS,
    "PodTopologySpread": (*_FILTERS, *_SCORES),
    "InterPodAffinity": (*_FILTERS, *_SCORES),
    "DynamicResources": (
        Point.PRE_ENQUEUE,
        *_FILTERS,
        Point.POST_FILTER,
        Point.SCORE,
        Point.RESERVE,
        Point.PRE_BIND,
    ),
    "DefaultPreemption": (Point.PRE_ENQUEUE, Point.POST_FILTER),
    "NodeResourcesBalancedAllocation": _SCORES,
    "ImageLocality": (Point.SCORE,),
    "DefaultBinder": (Point.BIND,),
    "NodeDeclaredFeatures": _FILTERS,
    "GangScheduling": (Point.PRE_ENQUEUE, Point.PERMIT),
    "DeferredPodScheduling": (*_FILTERS, Point.PERMIT),
    "TopologyPlacementGenerator": (),
    "PodGroupPodsCount": (),
}
"""Every plugin that a configuration of kube-scheduler 1.37 may name, gated ones included, and where it may be named.

A plugin of the same name here may have fewer points, such as no PreFilter of its own.
"""

KUBE_SCHEDULER_PLUGINS: frozenset[str] = frozenset(KUBE_SCHEDULER_POINTS)

REMOVED_PLUGINS: frozenset[str] = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Names that kube-scheduler refuses in v1; NodeVolumeLimits replaces them."""
