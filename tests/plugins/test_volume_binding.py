"""Claims get volumes that the node reaches: bound ones, static ones, or ones that are made for it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from moorage.core.commands import PatchObject
from moorage.core.frozen import FrozenDict
from moorage.core.nodes import Node
from moorage.core.pods import Pod, PodVolume
from moorage.core.state import ClusterState
from moorage.core.volumes import CSIDriver, PersistentVolume, PersistentVolumeClaim, VolumeSource
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.status import Code, Hold, Status
from moorage.plugins.volume_binding import VolumeBinding, VolumeBindingArgs
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask
from moorage.testing.storage import (
    DRIVER,
    claims,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
    put,
)

NODE = "node(s) didn't match PersistentVolume's node affinity"
BIND = "node(s) didn't find available persistent volumes to bind"
SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
HOST = "kubernetes.io/hostname"


def three_nodes() -> ClusterState:
    return make_state([make_node("a", zone="z1"), make_node("b", zone="z2"), make_node("c")])


def reasons(state: ClusterState, pod: Pod) -> dict[str, list[str]]:
    answer = ask(VolumeBinding(), state, pod)
    assert answer.refusal is None
    assert all(not resolvable for found in answer.reasons.values() for _, resolvable in found)
    return {node: sorted(text for text, _ in found) for node, found in answer.reasons.items()}


STATIC = make_class("static", provisioner="kubernetes.io/no-provisioner")
FILTERS = [
    pytest.param(
        [make_claim("c", volume="v"), make_volume("v", on="topology.kubernetes.io/zone In z1")],
        {"a": [], "b": [NODE], "c": [NODE]},
        id="bound, one zone",
    ),
    pytest.param([make_claim("c", volume="v"), make_volume("v")], {"a": [], "b": [], "c": []}, id="bound, anywhere"),
    pytest.param([make_claim("c", volume="v")], {"a": [GONE], "b": [GONE], "c": [GONE]}, id="bound, volume gone"),
    pytest.param(
        [make_claim("c", volume="v"), make_volume("v", on="metadata.name In a")],
        {"a": [NODE], "b": [NODE], "c": [NODE]},
        id="bound, fields of nodes do not count",
    ),
    pytest.param(
        [STATIC, make_claim("c", storage_class="static"), make_volume("v", storage_class="static", on=f"{HOST} In b")],
        {"a": [BIND], "b": [], "c": [BIND]},
        id="static",
    ),
    pytest.param(
        [STATIC, make_claim("c", storage_class="static", size="2Gi"), make_volume("v", storage_class="static")],
        {"a": [BIND], "b": [BIND], "c": [BIND]},
        id="static, too small",
    ),
    pytest.param(
        [
            STATIC,
            make_claim("c", storage_class="static"),
            make_volume("v", storage_class="static", claim="default/other"),
        ],
        {"a": [BIND], "b": [BIND], "c": [BIND]},
        id="static, taken",
    ),
    pytest.param(
        [
            STATIC,
            make_claim("c", storage_class="static"),
            make_volume("mine", storage_class="static", size="9Gi", on=f"{HOST} In b", claim="default/c"),
            make_volume("free", storage_class="static"),
        ],
        {"a": [BIND], "b": [], "c": [BIND]},
        id="static, reserved elsewhere",
    ),
    pytest.param(
        [STATIC, make_claim("c", storage_class="static"), make_volume("v", storage_class="static", phase="Released")],
        {"a": [BIND], "b": [BIND], "c": [BIND]},
        id="static, not available",
    ),
    pytest.param(
        [
            STATIC,
            make_claim("c", storage_class="static"),
            make_volume("v", storage_class="static", volume_mode="Block"),
        ],
        {"a": [BIND], "b": [BIND], "c": [BIND]},
        id="static, another mode",
    ),
    pytest.param(
        [
            STATIC,
            make_claim("c", storage_class="static", modes=["ReadWriteMany"]),
            make_volume("v", storage_class="static"),
        ],
        {"a": [BIND], "b": [BIND], "c": [BIND]},
        id="static, another access mode",
    ),
    pytest.param(
        [STATIC, make_claim("c", storage_class="static"), make_volume("v", storage_class="static", deleting=True)],
        {"a": [BIND], "b": [BIND], "c": [BIND]},
        id="static, going away",
    ),
    pytest.param([make_class(), make_claim("c")], {"a": [], "b": [], "c": []}, id="provisioned"),
    pytest.param(
        [make_class(topologies=["topology.kubernetes.io/zone In z2", f"{HOST} In c"]), make_claim("c")],
        {"a": [BIND], "b": [], "c": []},
        id="provisioned, allowed topologies",
    ),
    pytest.param(
        [make_class(), make_claim("c", selected_node="b")],
        {"a": [BIND], "b": [], "c": [BIND]},
        id="provisioning goes on for one node",
    ),
    pytest.param(
        [
            make_class(),
            CSIDriver(DRIVER, storage_capacity=True),
            make_claim("c", size="5Gi"),
            make_capacity("big", size="10Gi", on=f"{HOST} In a"),
            make_capacity("small", size="4Gi", on=f"{HOST} In b"),
        ],
        {"a": [], "b": [SPACE], "c": [SPACE]},
        id="capacity",
    ),
    pytest.param(
        [
            make_class(),
            CSIDriver(DRIVER, storage_capacity=True),
            make_claim("c", size="5Gi"),
            make_capacity("split", size="100Gi", most="4Gi", on=f"{HOST} In a,b,c"),
        ],
        {"a": [SPACE], "b": [SPACE], "c": [SPACE]},
        id="capacity, largest volume too small",
    ),
    pytest.param(
        [make_class(), CSIDriver(DRIVER), make_claim("c", size="5Gi")],
        {"a": [], "b": [], "c": []},
        id="driver without capacities",
    ),
]


@pytest.mark.parametrize(("objects", "want"), FILTERS)
def test_filter(objects: list[Any], want: dict[str, list[str]]) -> None:
    """Each node is judged by what the claims would get there; removing pods never helps."""
    state = put(three_nodes(), *objects)
    assert reasons(state, make_pod("p", volumes=claims("c"))) == want


def test_two_claims_never_get_the_same_volume() -> None:
    """The smaller claim chooses first and takes the smallest volume that fits; the other needs one of its own."""
    state = put(three_nodes(), STATIC, make_claim("big", storage_class="static", size="2Gi"))
    put(state, make_claim("small", storage_class="static"), make_volume("v2", storage_class="static", size="2Gi"))
    pod = make_pod("p", volumes=claims("big", "small"))
    assert reasons(state, pod) == {"a": [BIND], "b": [BIND], "c": [BIND]}
    put(state, make_volume("v1", storage_class="static", on=f"{HOST} In b"))
    assert reasons(state, pod) == {"a": [BIND], "b": [], "c": [BIND]}


def test_reasons_of_bound_and_waiting_claims_add_up() -> None:
    """kube-scheduler counts a node once for each of them."""
    state = put(three_nodes(), STATIC, make_claim("new", storage_class="static"), make_claim("old", volume="v"))
    put(state, make_volume("v", on=f"{HOST} In a"))
    assert reasons(state, make_pod("p", volumes=claims("old", "new")))["b"] == [BIND, NODE]


def test_a_node_that_migrated_the_plugin_is_looked_for_under_the_label_of_the_driver() -> None:
    """An in-tree EBS volume of zone z1: node a has migrated and has the driver's label, b only the plain one."""
    volume = make_volume(
        "v", on="topology.kubernetes.io/zone In z1", source=VolumeSource("awsElasticBlockStore", "", "vol-1")
    )
    migrated = {"topology.ebs.csi.aws.com/zone": "z1"}
    nodes = [make_node("a", labels=migrated), make_node("b", zone="z1"), make_node("c", zone="z1")]
    state = put(make_state(nodes), make_claim("c", volume="v"), volume)
    put(state, make_csi_node("a", "kubernetes.io/aws-ebs"), make_csi_node("b", "kubernetes.io/aws-ebs"))
    assert reasons(state, make_pod("p", volumes=claims("c"))) == {"a": [], "b": [NODE], "c": []}


REFUSALS = [
    pytest.param([], 'persistentvolumeclaim "c" not found', id="missing"),
    pytest.param(
        [make_claim("c", volume="v", phase="Lost")],
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        id="lost",
    ),
    pytest.param([make_claim("c", deleting=True)], 'persistentvolumeclaim "c" is being deleted', id="going away"),
    pytest.param(
        [make_class(wait=False), make_claim("c")], "pod has unbound immediate PersistentVolumeClaims", id="immediate"
    ),
    pytest.param([make_claim("c")], "pod has unbound immediate PersistentVolumeClaims", id="class missing"),
    pytest.param(
        [make_claim("c", storage_class=None)], "pod has unbound immediate PersistentVolumeClaims", id="no class"
    ),
    pytest.param(
        [make_class(), make_claim("c", volume="v", bind_completed=False, phase="Pending")],
        "pod has unbound immediate PersistentVolumeClaims",
        id="volume named by the user, not bound yet",
    ),
]


@pytest.mark.parametrize(("objects", "want"), REFUSALS)
def test_pre_filter_refuses(objects: list[Any], want: str) -> None:
    """No node can help a pod whose claims are not there; removing pods cannot either."""
    state = put(three_nodes(), *objects)
    cycle = Cycle(make_pod("p", volumes=claims("c")), state, 0.0)
    assert VolumeBinding().pre_filter(cycle) == Status(Code.UNRESOLVABLE, (want,))


def test_the_claim_of_an_ephemeral_volume_belongs_to_its_pod() -> None:
    """It is waited for, and somebody else's claim of the same name is not used."""
    pod = make_pod("p", volumes=(PodVolume(claim="p-v", ephemeral=True),))
    state = put(three_nodes(), make_class())
    missing = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'
    assert ask(VolumeBinding(), state, pod).refusal == (missing,)
    put(state, make_claim("p-v", owner_uid="somebody"))
    strange = "PVC default/p-v was not created for pod default/p (pod is not owner)"
    assert ask(VolumeBinding(), state, pod).refusal == (strange,)
    put(state, make_claim("p-v", owner_uid=pod.uid))
    assert ask(VolumeBinding(), state, pod).refusal is None


def test_a_pod_without_claims_costs_nothing() -> None:
    """Neither disks nor nothing at all make it look at claims."""
    plugin, state = VolumeBinding(), three_nodes()
    for volumes in ((), (PodVolume(disk=("gcePersistentDisk", "d", False)),)):
        pod = make_pod("p", volumes=volumes)
        assert not plugin.concerns(pod.template, state)
        assert ask(plugin, state, pod).filter_skipped
        assert ask(plugin, state, pod).score_skipped


SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
SCORES = [
    pytest.param({}, "5Gi", {"a": 50, "b": 0}, id="free capacity"),
    pytest.param({"shape": SHAPE}, "5Gi", {"a": 50, "b": 100}, id="another shape"),
    pytest.param({}, "1Gi", {"a": 90, "b": 80}, id="rounded"),
    pytest.param({}, "3Gi", {"a": 70, "b": 40}, id="three fifths used"),
]


@pytest.mark.parametrize(("args", "size", "want"), SCORES)
def test_score_of_provisioned_volumes(args: dict[str, Any], size: str, want: dict[str, int]) -> None:
    """The less of the published capacity a claim takes, the better, unless the shape says otherwise."""
    state = put(make_state([make_node("a"), make_node("b")]), make_class(), CSIDriver(DRIVER, storage_capacity=True))
    put(state, make_capacity("ca", size="10Gi", on=f"{HOST} In a"), make_capacity("cb", size="5Gi", on=f"{HOST} In b"))
    put(state, make_claim("c", size=size))
    plugin = VolumeBinding(VolumeBindingArgs.model_validate(args))
    assert ask(plugin, state, make_pod("p", volumes=claims("c"))).scores == want


def test_score_of_static_volumes_is_averaged_over_classes() -> None:
    """Node a takes a whole volume of one class (0) and a third of one of another (67); b finds nothing."""
    other = replace(STATIC, name="other")
    state = put(make_state([make_node("a"), make_node("b")]), STATIC, other)
    put(state, make_claim("c", storage_class="static"), make_claim("d", storage_class="other"))
    put(state, make_volume("v", storage_class="static", on=f"{HOST} In a"))
    put(state, make_volume("w", storage_class="other", on=f"{HOST} In a", size="3Gi"))
    scores = ask(VolumeBinding(), state, make_pod("p", volumes=claims("c", "d"))).scores
    assert scores == {"a": (0 + 67 + 1) // 2, "b": 0}


# --- Reserve and PreBind ---


def fly(
    state: ClusterState, pod: Pod, node: str, args: dict[str, Any] | None = None
) -> tuple[VolumeBinding, Cycle, int]:
    """A pod for which the node was chosen and Reserve has run."""
    plugin = VolumeBinding(VolumeBindingArgs.model_validate(args or {}))
    cycle, row = Cycle(pod, state, 100.0), state.row_of(node)
    assert row is not None
    assert plugin.pre_filter(cycle) is None
    assert plugin.filter(cycle, np.array([row], dtype=np.intp)) is None
    assert plugin.reserve(cycle, row) is None
    return plugin, cycle, row


def commands_of(answer: object) -> tuple[PatchObject, ...]:
    assert isinstance(answer, Hold)
    return tuple(command for command in answer.commands if isinstance(command, PatchObject))


def test_a_reserved_volume_is_not_given_away_again() -> None:
    """Until the pod is bound or comes back, other pods must look elsewhere."""
    state = put(three_nodes(), STATIC, make_volume("v", storage_class="static"))
    put(state, make_claim("c", storage_class="static"), make_claim("d", storage_class="static"))
    plugin, cycle, row = fly(state, make_pod("p", volumes=claims("c")), "a")
    assert reasons(state, make_pod("q", volumes=claims("d")))["a"] == [BIND]
    plugin.unreserve(cycle, row)
    assert reasons(state, make_pod("q", volumes=claims("d")))["a"] == []


def test_pods_that_share_an_unbound_claim_go_to_the_same_node() -> None:
    """The claim is being provisioned for the first pod's node."""
    state = put(three_nodes(), make_class(), make_claim("c"))
    fly(state, make_pod("p", volumes=claims("c")), "b")
    assert reasons(state, make_pod("q", volumes=claims("c"))) == {"a": [BIND], "b": [], "c": [BIND]}


def test_pre_bind_of_a_static_volume() -> None:
    """The volume is pointed at the claim once, guarded by its version; then the controllers' work is awaited."""
    claim = make_claim("c", storage_class="static", resource_version="7")
    volume = make_volume("v", storage_class="static", resource_version="3")
    state = put(three_nodes(), STATIC, claim, volume)
    plugin, cycle, row = fly(state, make_pod("p", volumes=claims("c")), "a")
    (command,) = commands_of(plugin.pre_bind(cycle, row))
    assert (command.kind, command.name, command.uid, command.resource_version) == (
        "PersistentVolume",
        "v",
        volume.uid,
        "3",
    )
    assert command.patch["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": claim.uid,
        "resourceVersion": "7",
    }
    assert command.patch["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    put(state, replace(volume, resource_version="4"))
    assert commands_of(plugin.pre_bind(cycle, row)) == (command,), "what was written once is not written otherwise"
    taken = make_volume("v", storage_class="static", claim="default/c", claim_uid=claim.uid)
    put(state, taken)
    assert isinstance(plugin.pre_bind(cycle, row), Hold)
    put(state, replace(claim, volume="v", bind_completed=True))
    assert plugin.pre_bind(cycle, row) is None
    plugin.post_bind(cycle, row)
    assert state.volumes.reservation(cycle.pod.uid) is None


def test_pre_bind_of_a_provisioned_volume() -> None:
    """The claim gets the node's name; a volume that the node does not reach ends the attempt."""
    claim = make_claim("c", resource_version="7")
    state = put(three_nodes(), make_class(), claim)
    plugin, cycle, row = fly(state, make_pod("p", volumes=claims("c")), "b")
    (command,) = commands_of(plugin.pre_bind(cycle, row))
    assert command.patch == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}}
    assert (command.kind, command.namespace, command.name, command.resource_version) == (
        "PersistentVolumeClaim",
        "default",
        "c",
        "7",
    )
    put(state, replace(claim, selected_node="b"))
    assert isinstance(plugin.pre_bind(cycle, row), Hold)
    put(state, replace(claim, selected_node="b", volume="new", bind_completed=True))
    assert isinstance(plugin.pre_bind(cycle, row), Hold), "the volume itself was not seen yet"
    put(state, make_volume("new", on=f"{HOST} In b"))
    assert plugin.pre_bind(cycle, row) is None
    put(state, make_volume("new", on=f"{HOST} In c"))
    wrong = 'binding volumes: pv "new" node affinity doesn\'t match node "b": no matching NodeSelectorTerms'
    assert plugin.pre_bind(cycle, row) == Status(Code.ERROR, (wrong,))


FAILURES = [
    pytest.param(make_claim("c"), 'provisioning failed for PVC "c"', id="the provisioner took the node's name away"),
    pytest.param(make_claim("c", selected_node="a"), 'provisioning failed for PVC "c"', id="another node"),
]


@pytest.mark.parametrize(("after", "want"), FAILURES)
def test_provisioning_that_fails_ends_the_attempt(after: PersistentVolumeClaim, want: str) -> None:
    """Only once the name was there: before that the write may still be on its way."""
    state = put(three_nodes(), make_class(), make_claim("c"))
    plugin, cycle, row = fly(state, make_pod("p", volumes=claims("c")), "b")
    assert isinstance(plugin.pre_bind(cycle, row), Hold)
    put(state, make_claim("c", selected_node="b"))
    assert isinstance(plugin.pre_bind(cycle, row), Hold)
    put(state, after)
    assert plugin.pre_bind(cycle, row) == Status(Code.ERROR, (f"binding volumes: {want}",))


def test_waiting_ends_at_the_timeout() -> None:
    """`bindTimeoutSeconds` after PreBind began."""
    state = put(three_nodes(), make_class(), make_claim("c"))
    plugin, cycle, row = fly(state, make_pod("p", volumes=claims("c")), "b", {"bindTimeoutSeconds": 30})
    answer = plugin.pre_bind(cycle, row)
    assert isinstance(answer, Hold)
    assert answer.deadline_s == 130.0
    cycle.now = 130.0
    assert plugin.pre_bind(cycle, row) == Status(Code.ERROR, ("binding volumes: context deadline exceeded",))


def test_bound_claims_need_nothing_written() -> None:
    """A pod whose claims are bound is bound at once."""
    state = put(three_nodes(), make_claim("c", volume="v"), make_volume("v"))
    plugin, cycle, row = fly(state, make_pod("p", volumes=claims("c")), "a")
    assert plugin.pre_bind(cycle, row) is None


BAD_ARGUMENTS = [
    pytest.param({"bindTimeoutSeconds": -1}, id="negative timeout"),
    pytest.param({"bindTimeoutSeconds": "600"}, id="timeout as text"),
    pytest.param({"shape": [{"utilization": 101, "score": 1}]}, id="utilization above 100"),
    pytest.param({"shape": [{"utilization": 1, "score": 11}]}, id="score above 10"),
    pytest.param({"shape": [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}]}, id="not rising"),
    pytest.param({"bindTimeout": 1}, id="unknown field"),
]


@pytest.mark.parametrize("given", BAD_ARGUMENTS)
def test_bad_arguments(given: dict[str, Any]) -> None:
    """What kube-scheduler refuses is refused."""
    with pytest.raises(ValidationError):
        VolumeBindingArgs.model_validate(given)


def test_no_shape_means_the_default_shape() -> None:
    """As in kube-scheduler, an empty list is no list."""
    assert VolumeBindingArgs.model_validate({"shape": []}) == VolumeBindingArgs()


def test_only_its_own_claims_wake_a_pod() -> None:
    """Other objects may always help."""
    template = make_pod("p", volumes=claims("c")).template
    plugin = VolumeBinding()
    assert plugin.helps(template, Change(What.OBJECT, kind="PersistentVolumeClaim", key="default/c"))
    assert not plugin.helps(template, Change(What.OBJECT, kind="PersistentVolumeClaim", key="default/d"))
    assert plugin.helps(template, Change(What.OBJECT, kind="PersistentVolume", key="v"))


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(VolumeBinding)


# --- against a scalar reference ---


def reference(state: ClusterState, node: Node, wanted: list[PersistentVolumeClaim]) -> set[str]:
    """The rules once more, one node at a time, in the plainest words; waiting claims only."""
    found: set[str] = set()
    selected = [claim for claim in wanted if claim.selected_node]
    if any(claim.selected_node != node.name for claim in selected):
        return {BIND}
    to_provision, taken = list(selected), set[str]()
    for claim in sorted((c for c in wanted if not c.selected_node), key=lambda claim: claim.request_bytes):
        volume = reference_volume(state, node, claim, taken)
        if volume is None:
            to_provision.append(claim)
        else:
            taken.add(volume.name)
    for claim in to_provision:
        storage_class = state.volumes.storage_class(claim.storage_class or "")
        assert storage_class is not None
        terms = storage_class.allowed_topologies
        if storage_class.provisioner == "kubernetes.io/no-provisioner":
            return {BIND}
        if terms and not any(term.matches(node.name, node.labels) for term in terms):
            return {BIND}
        capacities = [
            capacity
            for capacity in state.objects.get("CSIStorageCapacity", {}).values()
            if capacity.storage_class == storage_class.name
            and capacity.node_topology.matches(node.labels)
            and capacity.largest_volume_bytes >= claim.request_bytes
        ]
        if not capacities:
            return {SPACE}
    return found


def reference_volume(
    state: ClusterState, node: Node, claim: PersistentVolumeClaim, taken: set[str]
) -> PersistentVolume | None:
    best: PersistentVolume | None = None
    volumes = state.objects.get("PersistentVolume", {}).values()
    for volume in sorted(volumes, key=lambda volume: (volume.capacity_bytes, volume.name)):
        ref = volume.claim
        mine = ref is not None and (ref.namespace, ref.name) == (claim.namespace, claim.name)
        if volume.storage_class != claim.storage_class or volume.name in taken or (ref is not None and not mine):
            continue
        if volume.capacity_bytes < claim.request_bytes:
            continue
        near = volume.node_terms is None or any(term.matches(node.name, node.labels) for term in volume.node_terms)
        if mine:
            return volume if near else None
        if near and (best is None or volume.capacity_bytes < best.capacity_bytes):
            best = volume
    return best


def random_storage(random: Random) -> tuple[ClusterState, list[PersistentVolumeClaim]]:
    nodes = [make_node(f"n{i}", zone=random.choice("xyz"), labels={"disk": random.choice("12")}) for i in range(7)]
    zones = [f"topology.kubernetes.io/zone In {zone}" for zone in "xyz"]
    hosts = [f"{HOST} In n{i},n{i + 1}" for i in range(6)]
    places: list[Any] = [None, *zones, *hosts, "disk NotIn 1", [zones[0], "disk Exists"], f"{HOST} Exists"]
    state = put(make_state(nodes), STATIC, CSIDriver(DRIVER, storage_capacity=True))
    put(state, make_class(topologies=random.sample(zones, random.randint(0, 2))))
    for i in range(random.randint(0, 9)):
        claim = random.choice([None, None, None, "default/c0", "default/other"])
        size, kind = f"{random.randint(1, 4)}Gi", random.choice(["static", "wait"])
        put(state, make_volume(f"v{i}", size=size, storage_class=kind, on=random.choice(places), claim=claim))
    for i in range(random.randint(0, 4)):
        put(state, make_capacity(f"k{i}", size=f"{random.randint(1, 4)}Gi", on=random.choice([*zones, *hosts])))
    wanted = [
        make_claim(
            f"c{i}",
            size=f"{random.randint(1, 3)}Gi",
            storage_class=random.choice(["static", "wait"]),
            selected_node=random.choice([None, None, None, None, "n1"]),
        )
        for i in range(random.randint(1, 3))
    ]
    put(state, *wanted)
    return state, wanted


@pytest.mark.parametrize("seed", range(150))
def test_equals_a_scalar_reference(seed: int) -> None:
    """Many nodes at once get the answers that each gets alone, waiting claims of any kind included."""
    state, wanted = random_storage(Random(seed))
    pod = make_pod("p", volumes=claims(*(claim.name for claim in wanted)))
    want = {state.node(int(row)).name: sorted(reference(state, state.node(int(row)), wanted)) for row in state.rows()}
    assert reasons(state, pod) == want


def test_annotations_of_user_bound_volumes_stay() -> None:
    """A volume that its owner reserved for the claim only gets the uid; it is not marked as the controller's."""
    claim = make_claim("c", storage_class="static")
    volume = make_volume("v", storage_class="static", claim="default/c", annotations=FrozenDict())
    state = put(three_nodes(), STATIC, claim, volume)
    plugin, cycle, row = fly(state, make_pod("p", volumes=claims("c")), "a")
    (command,) = commands_of(plugin.pre_bind(cycle, row))
    assert "metadata" not in command.patch
