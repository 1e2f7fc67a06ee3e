"""The built-in plugins, the default ones first and in their order: the one table that names them."""

from __future__ import annotations

from moorage.framework.plugin import Plugin
from moorage.plugins.controller_spread import ControllerSpread
from moorage.plugins.cost_aware import CostAware
from moorage.plugins.default_binder import DefaultBinder
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.plugins.fair_share import FairShare
from moorage.plugins.fragmentation import Fragmentation
from moorage.plugins.gang_scheduling import GangScheduling
from moorage.plugins.image_locality import ImageLocality
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.plugins.node_affinity import NodeAffinity
from moorage.plugins.node_declared_features import NodeDeclaredFeatures
from moorage.plugins.node_name import NodeName
from moorage.plugins.node_ports import NodePorts
from moorage.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.node_volume_limits import NodeVolumeLimits
from moorage.plugins.one_pod_per_node import OnePodPerNode
from moorage.plugins.placement_strategy import PlacementStrategy
from moorage.plugins.plan_sort import PlanSort
from moorage.plugins.pod_topology_spread import PodTopologySpread
from moorage.plugins.priority_annotation import PriorityAnnotation
from moorage.plugins.priority_sort import PrioritySort
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.plugins.shared_devices import SharedDevices
from moorage.plugins.spot_placement import SpotPlacement
from moorage.plugins.taint_toleration import TaintToleration
from moorage.plugins.topology_placement import TopologyPlacement
from moorage.plugins.volume_binding import VolumeBinding
from moorage.plugins.volume_restrictions import VolumeRestrictions
from moorage.plugins.volume_zone import VolumeZone

BUILTIN: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeName,
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    FairShare,
    TopologyPlacement,
    OnePodPerNode,
    PlanSort,
    PriorityAnnotation,
    ControllerSpread,
    SpotPlacement,
    PlacementStrategy,
    CostAware,
    SharedDevices,
    Fragmentation,
)
