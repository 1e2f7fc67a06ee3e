"""Two blocks of racks, and a gang in slices on them: the objects of the drill, and what is wrong with a placement.

The names of nodes and members say where they are and which rank they have: a placement is judged by names alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from moorage.bench.controlplane import SCHEDULER
from tests.gangs import declarations
from tests.gangs.declarations import CRD_GROUP, DRILL, GRACE_S, GROUP, OWNER, Gang, Object
from tests.gangs.ledger import MEMBER, Sighting

BLOCK, RACK = "drill.moorage.dev/block", "drill.moorage.dev/rack"
BLOCKS, RACKS, NODES = 2, 5, 5
"""Nodes of a rack, racks of a block."""
SIZE, SLICE = 16, 4
"""One rack of a block and one node of each rack are not needed."""
_CRD = Path(__file__).parents[2] / "deploy/crds/topologies.yaml"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class RackGang(Gang):
    """A gang of 16 in slices of 4: all in one block, each slice in one rack."""

    @property
    def node_names(self) -> list[str]:
        """The nodes of both blocks."""
        return [
            f"{self.name}-b{block}-r{rack}-n{number}"
            for block in range(BLOCKS)
            for rack in range(RACKS)
            for number in range(NODES)
        ]


def rack_of(node: str) -> tuple[str, str]:
    """Block and rack of a node."""
    _, block, rack, _ = node.rsplit("-", 3)
    return block, rack


def rank_of(member: str) -> int:
    """The rank of a member; those that replace it have the same."""
    return int(member.split("-")[1])


def homes_of(members: Iterable[Sighting]) -> dict[int, str]:
    """The node of each rank that has one."""
    return {rank_of(pod.name): pod.node for pod in members if pod.node is not None}


def faults_of(homes: Mapping[int, str]) -> list[str]:
    """What is wrong with a placement: members outside of the block of the others, slices in several racks."""
    blocks = {rack_of(node)[0] for node in homes.values()}
    found = [f"outside: the gang is in {len(blocks)} blocks"] if len(blocks) > 1 else []
    for number in range(SIZE // SLICE):
        ranks = range(number * SLICE, (number + 1) * SLICE)
        racks = {rack_of(homes[rank]) for rank in ranks if rank in homes}
        if len(racks) > 1:
            found.append(f"broken: slice {number} is in racks {', '.join('/'.join(each) for each in sorted(racks))}")
    return found


def shared_objects() -> Sequence[tuple[str, Object]]:
    """What all runs share: both kinds, the right to read them, and the Topology."""
    found = declarations.crd_objects(SCHEDULER.name)
    crd: Object = yaml.safe_load(_CRD.read_text())
    rights = declarations.reader(SCHEDULER.name, "topology-reader", "moorage.dev", "topologies")
    return [*found, (_CRDS, crd), *rights]


def topology() -> tuple[str, Object]:
    """The Topology of the drill, and where it is created."""
    spec = {"levels": [BLOCK, RACK, "kubernetes.io/hostname"]}
    body = {"apiVersion": "moorage.dev/v1alpha1", "kind": "Topology", "metadata": {"name": "drill"}, "spec": spec}
    return "/apis/moorage.dev/v1alpha1/topologies", body


def group_object(gang: RackGang) -> tuple[str, Object]:
    """The PodGroup, and where it is created."""
    annotations = {
        "moorage.dev/topology-required": BLOCK,
        "moorage.dev/topology-slice-required": RACK,
        "moorage.dev/topology-slice-size": str(SLICE),
    }
    metadata = {"name": GROUP, "namespace": gang.name, "annotations": annotations}
    version = f"{CRD_GROUP}/v1alpha1"
    body = {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": SIZE}}
    return f"/apis/{version}/namespaces/{gang.name}/podgroups", body


def member(gang: RackGang, rank: int, again: int, owner_uid: str) -> Object:
    """A member of this rank, for the n-th time."""
    labels = {
        MEMBER: "",
        "app": OWNER,
        f"{CRD_GROUP}/pod-group": GROUP,
        "batch.kubernetes.io/job-completion-index": str(rank),
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": OWNER, "uid": owner_uid, "controller": True}
    name = f"w-{rank:02}-{again}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": gang.name, "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "schedulerName": gang.name,
            "nodeSelector": {DRILL: gang.name},
            "terminationGracePeriodSeconds": GRACE_S,
            "containers": [declarations.container()],
        },
    }


def node(gang: RackGang, name: str) -> Object:
    """A node with room for one member."""
    made = declarations.node(gang, name)
    block, rack = rack_of(name)
    made["metadata"]["labels"] |= {BLOCK: block, RACK: rack}
    return made
