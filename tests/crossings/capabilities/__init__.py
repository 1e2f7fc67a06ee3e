"""What can meet in a cluster: a function for each capability, which says what it adds.

To add one, write the function and put it into the table, after those that it builds on. Its docstring says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.crossings.capabilities import (
    devices,
    disturbances,
    gangs,
    neighbours,
    owners,
    priorities,
    profiles,
    queues,
    volumes,
)
from tests.crossings.sketch import Sketch

Capability = Callable[[Sketch, Random], None]

TABLE: Mapping[str, Capability] = {
    "bare pods": owners.bare_pods,
    "deployments": owners.deployments,
    "jobs": owners.jobs,
    "stateful sets": owners.stateful_sets,
    "daemon sets": owners.daemon_sets,
    "namespaces": queues.namespaces,
    "priorities": priorities.priorities,
    "preempting never": priorities.preempting_never,
    "native gangs": gangs.native_gangs,
    "coscheduling gangs": gangs.coscheduling_gangs,
    "KAI gangs": gangs.kai_gangs,
    "Volcano gangs": gangs.volcano_gangs,
    "annotated gangs": gangs.annotated_gangs,
    "counted gangs": gangs.counted_gangs,
    "owned gangs": gangs.owned_gangs,
    "elastic gangs": gangs.elastic_gangs,
    "required levels": gangs.required_levels,
    "preferred levels": gangs.preferred_levels,
    "slices": gangs.slices,
    "claims": devices.claims,
    "shared claims": devices.shared_claims,
    "idle claims": devices.idle_claims,
    "extended resources": devices.extended_resources,
    "preempting for devices": devices.preempting_for_devices,
    "fractions": devices.fractions,
    "whole GPUs": devices.whole_gpus,
    "forged devices": devices.forged_devices,
    "local volumes": volumes.local_volumes,
    "provisioned volumes": volumes.provisioned_volumes,
    "host ports": neighbours.host_ports,
    "topology spread": neighbours.topology_spread,
    "pod affinity": neighbours.pod_affinity,
    "pod anti-affinity": neighbours.pod_anti_affinity,
    "taints": neighbours.taints,
    "node selectors": neighbours.node_selectors,
    "packing": profiles.packing,
    "planning": profiles.planning,
    "controller spread": profiles.controller_spread,
    "spot placement": profiles.spot_placement,
    "placement strategies": profiles.placement_strategies,
    "cost aware": profiles.cost_aware,
    "trials": profiles.trials,
    "extenders": profiles.extenders,
    "repacking": profiles.repacking,
    "queues": queues.queues,
    "queue limits": queues.queue_limits,
    "queue trees": queues.queue_trees,
    "fixed pods": queues.fixed_pods,
    "reclaim": queues.reclaim,
    "consolidation": queues.consolidation,
    "budgets": priorities.budgets,
    "strict budgets": priorities.strict_budgets,
    "cordons": disturbances.cordons,
    "lost nodes": disturbances.lost_nodes,
    "new nodes": disturbances.new_nodes,
    "gates": disturbances.gates,
    "nominated pods": disturbances.nominated_pods,
    "other schedulers": disturbances.other_schedulers,
    "terminating pods": disturbances.terminating_pods,
    "scale steps": disturbances.scale_steps,
    "ended workloads": disturbances.ended_workloads,
    "failing writes": disturbances.failing_writes,
    "late writes": disturbances.late_writes,
    "late budgets": disturbances.late_budgets,
}
"""Name -> what it adds, in the order in which they are added."""

PRESSURE: tuple[tuple[str, ...], ...] = (
    (),
    ("priorities",),
    ("reclaim",),
    ("consolidation",),
    ("queues", "priorities"),
)
"""What worlds have beside their row, so that somebody has to give way in most of them."""

EXCLUDED: Mapping[frozenset[str], str] = {
    frozenset({"planning", "trials"}): "a trial's profile sorts as the others do, and the plan sorts its own way",
}
"""Pairs that cannot be in one cluster -> why."""
