"""A cluster in four levels that is 70 % full, gangs that stay in one rack each, and gangs in slices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.labelnames import HOSTNAME
from moorage.core.membership import GROUP_ANNOTATIONS, MIN_AVAILABLE
from moorage.core.nodes import Node
from moorage.core.pods import Owner, Pod, PodTemplate
from moorage.core.resources import Requests
from moorage.core.topology import TOPOLOGY, Topology
from moorage.core.topologyasks import SliceAsk, TopologyAsk

GANG = 64
SLICED = (8, 16, 32, 64, 128, 256, 512)
"""Sizes of the gangs in slices, in turn."""
SLICE = 8
PER_NODE = 8
"""Members that a node has room for on average; a little less than there is, as gangs leave rest in racks."""
_LEVELS = ("example.com/zone", "example.com/block", "example.com/rack", HOSTNAME)
_NODES_PER_RACK, _RACKS_PER_BLOCK, _BLOCKS_PER_ZONE = 16, 8, 10
_OTHERS = (4, 5, 5, 6, 6, 7, 6)
"""Pods with 4 of a node's 32 cores, on one node after the other: 70 % of all."""
_GIB = 1 << 30
_RESERVED = 97, 400
"""What nodes keep for themselves differs: by so many millicores from one to the next, up to so many."""
_REQUESTS = Requests((("cpu", 1000), ("memory", _GIB)), 1000, _GIB)


def rack_events(nodes: int, scheduler: str) -> list[Event]:
    """The nodes with their labels, the topology, and the pods that are there already."""
    offer = {"memory": 128 * _GIB, "pods": 110, "ephemeral-storage": 500 * _GIB}
    step, most = _RESERVED
    events: list[Event] = [ObjectSeen(TOPOLOGY, "bench", Topology("bench", _LEVELS))]
    requests = Requests((("cpu", 4000), ("memory", _GIB)), 4000, _GIB)
    template = PodTemplate(scheduler_name=scheduler, requests=requests)
    for number in range(nodes):
        rack = number // _NODES_PER_RACK
        block = rack // _RACKS_PER_BLOCK
        values = (f"z{block // _BLOCKS_PER_ZONE}", f"b{block}", f"r{rack}", f"node-{number}")
        labels = FrozenDict(zip(_LEVELS, values, strict=True))
        allocatable = FrozenDict({"cpu": 32_000 - number * step % most, **offer})
        events.append(NodeSeen(Node(f"node-{number}", labels=labels, allocatable=allocatable)))
        for each in range(_OTHERS[number % len(_OTHERS)]):
            name = f"other-{number}-{each}"
            events.append(PodSeen(Pod(name, name, template, requests=requests, node=f"node-{number}")))
    return events


def rack_pods(count: int) -> Iterator[Pod]:
    """Gangs of 64 with ranks, each in one rack."""
    for number in range(count // GANG):
        yield from _gang(f"racks-{number}", GANG, TopologyAsk(required=_LEVELS[2]))


def slice_pods(count: int) -> Iterator[Pod]:
    """Gangs of 8 to 512 with ranks, each in one block, eight consecutive members in one rack; as many as are whole."""
    ask = TopologyAsk(required=_LEVELS[1], slices=(SliceAsk(_LEVELS[2], SLICE),))
    made = 0
    for number, size in enumerate(cycle(SLICED)):
        if made and made + size > count:
            return
        yield from _gang(f"slices-{number}", size, ask)
        made += size


def _gang(name: str, size: int, ask: TopologyAsk) -> Iterator[Pod]:
    owner = Owner("Job", name, name, "batch/v1")
    said = FrozenDict({GROUP_ANNOTATIONS[0]: name, MIN_AVAILABLE: str(size)})
    for rank in range(size):
        labels = FrozenDict({"batch.kubernetes.io/job-completion-index": str(rank)})
        template = PodTemplate(
            scheduler_name="moorage", requests=_REQUESTS, labels=labels, annotations=said, owner=owner, topology=ask
        )
        yield Pod(f"{name}-{rank}", f"{name}-{rank}", template, requests=_REQUESTS)
