"""Which plugins every profile starts with, and which names kube-scheduler knows.

The list is kube-scheduler 1.37's, in its order and with its weights (0 stands for 1), plus GangScheduling, which
Moorage always runs and kube-scheduler keeps behind a gate. Names that the registry does not hold are left out when a
profile is resolved.
"""

from __future__ import annotations

from moorage.framework.configuration import Entry

DEFAULT_PLUGINS: tuple[Entry, ...] = (
    Entry("SchedulingGates"),
    Entry("PrioritySort"),
    Entry("NodeName"),
    Entry("NodeUnschedulable"),
    Entry("TaintToleration", 3),
    Entry("NodeAffinity", 2),
    Entry("NodePorts"),
    Entry("NodeResourcesFit", 1),
    Entry("VolumeRestrictions"),
    Entry("NodeVolumeLimits"),
    Entry("VolumeBinding"),
    Entry("VolumeZone"),
    Entry("PodTopologySpread", 2),
    Entry("InterPodAffinity", 2),
    Entry("DynamicResources", 2),
    Entry("DefaultPreemption"),
    Entry("NodeResourcesBalancedAllocation", 1),
    Entry("ImageLocality", 1),
    Entry("DefaultBinder"),
    Entry("NodeDeclaredFeatures"),
    Entry("GangScheduling"),
)

KUBE_SCHEDULER_PLUGINS: frozenset[str] = frozenset(entry.name for entry in DEFAULT_PLUGINS) | {
    "DeferredPodScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
}
"""Every plugin that a configuration of kube-scheduler 1.37 may name, gated ones included."""

REMOVED_PLUGINS: frozenset[str] = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""Names that kube-scheduler refuses in v1; NodeVolumeLimits does their work."""
