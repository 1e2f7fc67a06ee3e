"""Which of the worst objects are beyond a limit, and which limit that is."""

from __future__ import annotations

from moorage.core import limits
from tests.bounds.object_shapes import OBJECT_SHAPES

LEFT_OUT: dict[str, int] = {
    "PodGang's pod groups": limits.SUB_GROUPS,
    **{name: limits.WORKLOAD_ROLES for name in OBJECT_SHAPES if name.endswith("'s roles")},
    "service's selector": limits.OBJECT_SELECTOR_PARTS // 2,
    "replication controller's template's labels": limits.OBJECT_SELECTOR_PARTS // 2,
    "replication controller's selector": limits.OBJECT_SELECTOR_PARTS // 2,
    "class's topologies": limits.NODE_TERMS,
    "class's expressions": limits.OBJECT_TERM_PARTS // 2,
    "class's values": limits.OBJECT_TERM_PARTS - 1,
    "CSI node's drivers": limits.CSI_DRIVERS,
    "device requests": limits.DEVICE_REQUESTS,
    "device alternatives": limits.DEVICE_REQUESTS,
    "device constraints": limits.DEVICE_PARTS,
    "allocated devices": limits.DEVICE_PARTS,
    "selectors of a template": limits.DEVICE_PARTS,
    "devices of a slice": limits.SLICE_DEVICES,
    "attributes of a device": limits.DEVICE_PARTS,
    "taints of a device": limits.DEVICE_PARTS,
    "counters of a slice": limits.DEVICE_PARTS,
    "overhead of a runtime": limits.RESOURCE_NAMES,
    "node selector of a runtime": limits.NODE_SELECTOR,
    "tolerations of a runtime": limits.TOLERATIONS,
    "node claim's labels": limits.NODE_LABELS,
    "requirements of a node claim": limits.NODE_LABELS,
    "taints of a node claim": limits.TAINTS,
    "allocatable of a node claim": limits.RESOURCE_NAMES,
    "coscheduling group's resources": limits.RESOURCE_NAMES,
    "levels of a topology": limits.TOPOLOGY_LEVELS,
    "levels of a topology of Kueue": limits.TOPOLOGY_LEVELS,
    "levels of a topology of KAI": limits.TOPOLOGY_LEVELS,
    "members of a hyper node": limits.HYPER_NODE_MEMBERS,
    "KAI group's sub-groups": limits.SUB_GROUPS,
    "Volcano group's tasks": limits.SUB_GROUPS,
    "Volcano group's policies": limits.SUB_GROUPS,
    "Volcano group's resources": limits.RESOURCE_NAMES,
    "queue's resources": limits.RESOURCE_NAMES,
    "KAI queue's resources": limits.RESOURCE_NAMES,
    "Volcano queue's capability": limits.RESOURCE_NAMES,
    **{
        f"{each} selector's {what}": limits.OBJECT_SELECTOR_PARTS // by - (by == 1)
        for each in (
            "deployment's", "replica set's", "stateful set's", "daemon set's", "job's", "claim's", "capacity's",
            "budget's", "policy's", "queue's",
        )
        for what, by in (("expressions", 2), ("labels", 2), ("values", 1))
    },
    **{
        f"{each} {what}": most
        for each in ("volume's", "bound volume's", "allocation's", "slice's")
        for what, most in (
            ("terms", limits.NODE_TERMS),
            ("expressions", limits.OBJECT_TERM_PARTS // 2),
            ("values", limits.OBJECT_TERM_PARTS - 1),
            ("names", limits.OBJECT_TERM_PARTS - 1),
        )
    },
    "slice's expressions": limits.SLICE_REQUIREMENTS,
}  # fmt: skip
"""Objects that are left out at their full size, and how many entries are just read."""
