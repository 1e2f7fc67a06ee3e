"""Shipped plugins against the protocols of the contract: mypy compares signatures, the tests that none is left out."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from moorage.framework import contract
from moorage.framework.plugin import Point
from moorage.plugins.builtin import BUILTIN
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
from moorage.plugins.volume_binding import VolumeBinding
from moorage.plugins.volume_restrictions import VolumeRestrictions
from moorage.plugins.volume_zone import VolumeZone

PRE_ENQUEUE: tuple[type[contract.PreEnqueuePlugin], ...] = (SchedulingGates, DefaultPreemption, DynamicResources)
QUEUE_SORT: tuple[type[contract.QueueSortPlugin], ...] = (PrioritySort, PlanSort)
PRE_FILTER: tuple[type[contract.PreFilterPlugin], ...] = (
    NodePorts, NodeAffinity, PodTopologySpread, InterPodAffinity, VolumeBinding, VolumeRestrictions, VolumeZone,
    NodeVolumeLimits, DynamicResources, GangScheduling, ControllerSpread, PlacementStrategy, SpotPlacement, NodeName,
    NodeDeclaredFeatures, SharedDevices, FairShare,
)  # fmt: skip
FILTER: tuple[type[contract.FilterPlugin], ...] = (
    NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread,
    InterPodAffinity, VolumeBinding, VolumeRestrictions, VolumeZone, NodeVolumeLimits, DynamicResources,
    NodeDeclaredFeatures, ControllerSpread, PlacementStrategy, SpotPlacement, OnePodPerNode,
    SharedDevices,
)  # fmt: skip
POST_FILTER: tuple[type[contract.PostFilterPlugin], ...] = (DefaultPreemption, DynamicResources)
SCORE: tuple[type[contract.ScorePlugin], ...] = (
    TaintToleration, NodeAffinity, NodeResourcesFit, PodTopologySpread, InterPodAffinity, VolumeBinding, ImageLocality,
    NodeResourcesBalancedAllocation, SpotPlacement, CostAware, DynamicResources, SharedDevices, Fragmentation,
)  # fmt: skip
PRE_SCORE: tuple[type[contract.PreScore], ...] = (
    NodeAffinity, PodTopologySpread, InterPodAffinity, VolumeBinding, SpotPlacement, NodeResourcesBalancedAllocation,
    DynamicResources, SharedDevices,
)  # fmt: skip
RESERVE: tuple[type[contract.ReservePlugin], ...] = (VolumeBinding, DynamicResources, SharedDevices)
PRE_BIND: tuple[type[contract.PreBindPlugin], ...] = (VolumeBinding, DynamicResources)
BIND: tuple[type[contract.BindPlugin], ...] = (DefaultBinder,)
POST_BIND: tuple[type[contract.PostBindPlugin], ...] = (VolumeBinding,)

POINTS: dict[Point, Iterable[type[object]]] = {
    Point.PRE_ENQUEUE: PRE_ENQUEUE,
    Point.QUEUE_SORT: QUEUE_SORT,
    Point.PRE_FILTER: PRE_FILTER,
    Point.FILTER: FILTER,
    Point.POST_FILTER: POST_FILTER,
    Point.PRE_SCORE: PRE_SCORE,
    Point.SCORE: SCORE,
    Point.RESERVE: RESERVE,
    Point.PERMIT: (),
    Point.PRE_BIND: PRE_BIND,
    Point.BIND: BIND,
    Point.POST_BIND: POST_BIND,
}

REMEDIES: tuple[type[contract.SuggestsRemedies], ...] = (
    FairShare,
    NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity,
    VolumeBinding, VolumeRestrictions, VolumeZone, NodeVolumeLimits, DynamicResources, ControllerSpread, SpotPlacement,
    PlacementStrategy,
)  # fmt: skip
COUNTS: tuple[type[contract.TellsCounts], ...] = (
    ControllerSpread, OnePodPerNode, PlacementStrategy, PriorityAnnotation, SpotPlacement,
)  # fmt: skip
DETAILS: tuple[type[contract.TellsDetails], ...] = (DynamicResources, SharedDevices)
HOOKS: dict[type, Iterable[type[object]]] = {
    contract.SuggestsRemedies: REMEDIES,
    contract.TellsCounts: COUNTS,
    contract.TellsDetails: DETAILS,
    contract.ReadsPriority: (PriorityAnnotation,),
    contract.PlansUnits: (PlanSort,),
    contract.OwnsNodes: (OnePodPerNode,),
    contract.PlacesGangs: (GangScheduling,),
    contract.SharesQueues: (FairShare,),
    contract.TellsCapacity: (SpotPlacement,),
    contract.PlacesByCapacity: (SpotPlacement,),
    contract.SpreadsHosts: (ControllerSpread,),
    contract.FollowsStrategies: (PlacementStrategy,),
    contract.PreemptsDevices: (DynamicResources,),
    contract.ReservesInState: (DynamicResources, SharedDevices, VolumeBinding),
    contract.ComparesRows: (PlacementStrategy,),
    contract.AnnotatesBinding: (SharedDevices,),
    contract.LearnsWorkload: (Fragmentation,),
    contract.TellsIdle: (Fragmentation,),
    contract.TellsSkew: (PodTopologySpread,),
    contract.BestStaysBest: (Fragmentation,),
    contract.CountsEvictions: (DefaultPreemption,),
    contract.CountsDevices: (DynamicResources,),
    contract.GangPostFilter: (DefaultPreemption, DynamicResources),
    contract.AwaitsPods: (ControllerSpread, SpotPlacement, PlacementStrategy),
}


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_every_shipped_plugin_is_compared_at_each_of_its_points(point: Point) -> None:
    """So that a signature that differs from the contract is an error of mypy, not of a cluster."""
    assert {cls.__name__ for cls in POINTS[point]} == {cls.__name__ for cls in BUILTIN if point in cls.points()}


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_hooks_are_found_by_what_plugins_can_do(hook: type) -> None:
    """The engine asks for a hook, never for a name."""
    assert {cls.__name__ for cls in HOOKS[hook]} == {cls.__name__ for cls in BUILTIN if isinstance(cls(), hook)}
