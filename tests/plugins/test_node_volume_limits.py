"""A node holds only as many volumes of a CSI driver as its CSINode says."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.pods import PodVolume
from moorage.core.volumes import CSIDriver, VolumeAttachment, VolumeSource
from moorage.framework.changes import Change, What
from moorage.plugins.node_volume_limits import NodeVolumeLimits
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask
from moorage.testing.storage import DRIVER, claims, make_claim, make_class, make_csi_node, make_volume, put

FULL = ("node(s) exceed max volume count", True)
LIMIT_1, LIMIT_2 = make_csi_node("n", csi_example_com=1), make_csi_node("n", csi_example_com=2)
BOUND = [obj for name in "abc" for obj in (make_claim(name, volume=f"v{name}"), make_volume(f"v{name}"))]
EBS = VolumeSource("awsElasticBlockStore", "", "vol-1")


def attachment(volume: str) -> VolumeAttachment:
    return VolumeAttachment(f"at-{volume}", DRIVER, "n", volume)


COUNTS = [
    pytest.param([LIMIT_1, *BOUND], [], "a", False, id="the first fits"),
    pytest.param([LIMIT_1, *BOUND], ["a"], "b", True, id="the second does not"),
    pytest.param([LIMIT_2, *BOUND], ["a"], "b", False, id="room for two"),
    pytest.param([LIMIT_1, *BOUND], ["a"], "a", False, id="shared volumes count once"),
    pytest.param([LIMIT_2, *BOUND], ["a"], "bc", True, id="two new ones"),
    pytest.param([LIMIT_2, *BOUND], ["a"], "ab", False, id="one of two is there"),
    pytest.param([make_csi_node("n"), *BOUND], ["a"], "b", False, id="no limit"),
    pytest.param(BOUND, ["a"], "b", False, id="no CSINode"),
    pytest.param([LIMIT_1, *BOUND, attachment("va")], [], "b", True, id="attached without a pod"),
    pytest.param([LIMIT_2, *BOUND, attachment("va")], ["a"], "b", False, id="attached for a pod"),
    pytest.param([LIMIT_1, *BOUND, attachment("va")], [], "a", True, id="attached before its new pod"),
    pytest.param([LIMIT_1, *BOUND, attachment("unknown")], [], "b", False, id="attachment of an unknown volume"),
    pytest.param([LIMIT_1, make_class(), make_claim("a"), make_claim("b")], ["a"], "b", True, id="yet to be made"),
    pytest.param([LIMIT_1, make_claim("a"), make_claim("b")], ["a"], "b", False, id="nobody knows the driver"),
    pytest.param([LIMIT_1, *BOUND[2:]], ["a"], "b", False, id="a standing pod's claim is gone"),
    pytest.param(
        [
            make_csi_node("n", ebs_csi_aws_com=1),
            make_claim("a", volume="va"),
            make_volume("va", source=EBS),
            *BOUND[2:],
        ],
        ["a"],
        "b",
        False,
        id="another driver",
    ),
]


@pytest.mark.parametrize(("objects", "held", "wanted", "want_full"), COUNTS)
def test_limits(objects: list[Any], held: list[str], wanted: str, want_full: bool) -> None:
    """Pods and attachments count; removing pods could help."""
    pods = [make_pod(f"h{name}", volumes=claims(name), node="n") for name in held]
    state = put(make_state([make_node("n")], pods), *objects)
    answer = ask(NodeVolumeLimits(), state, make_pod("p", volumes=claims(*wanted)))
    assert answer.reasons == {"n": (FULL,) if want_full else ()}


def test_in_tree_disks_count_for_the_driver_that_took_them_over() -> None:
    """An EBS disk in the pod, one in a PersistentVolume, and one still to be provisioned by the in-tree plugin."""
    inline = PodVolume(disk=("awsElasticBlockStore", "aws://zone/vol-1", False))
    node = make_csi_node("n", ebs_csi_aws_com=2)
    state = put(make_state([make_node("n")], [make_pod("h", volumes=(inline,), node="n")]), node)
    put(state, make_claim("same", volume="v1"), make_volume("v1", source=EBS))
    put(state, make_class("ebs", provisioner="kubernetes.io/aws-ebs"))
    put(state, make_claim("new", storage_class="ebs"), make_claim("newer", storage_class="ebs"))
    plugin = NodeVolumeLimits()
    assert ask(plugin, state, make_pod("p", volumes=claims("same", "new"))).reasons == {"n": ()}
    assert ask(plugin, state, make_pod("p", volumes=claims("new", "newer"))).reasons == {"n": (FULL,)}


def test_a_missing_driver() -> None:
    """It matters only if the driver wants that; a node without CSINode has no driver."""
    state = put(make_state([make_node("has"), make_node("lacks"), make_node("bare")]), *BOUND)
    put(state, make_csi_node("has"), make_csi_node("lacks", ebs_csi_aws_com=None), CSIDriver(DRIVER))
    pod = make_pod("p", volumes=claims("a"))
    assert ask(NodeVolumeLimits(), state, pod).reasons == {"has": (), "lacks": (), "bare": ()}
    put(state, CSIDriver(DRIVER, prevent_scheduling_if_missing=True))
    missing = ((f"{DRIVER} CSI driver is not installed on the node", True),)
    assert ask(NodeVolumeLimits(), state, pod).reasons == {"has": (), "lacks": missing, "bare": missing}


def test_a_missing_claim_rejects_every_node() -> None:
    """The pod cannot run anywhere before the claim exists."""
    state = make_state([make_node("n")])
    want = ('looking up PVC default/c: persistentvolumeclaim "c" not found', False)
    assert ask(NodeVolumeLimits(), state, make_pod("p", volumes=claims("c"))).reasons == {"n": (want,)}


def test_what_wakes_and_concerns() -> None:
    """Only pods with volumes can make room."""
    plugin, template = NodeVolumeLimits(), make_pod("p", volumes=claims("c")).template
    assert not plugin.helps(template, Change(What.POD_REMOVED, pod=make_pod("x", node="n")))
    assert plugin.helps(template, Change(What.POD_REMOVED, pod=make_pod("x", volumes=claims("d"), node="n")))
    assert plugin.helps(template, Change(What.OBJECT, kind="CSINode", key="n"))
    assert not plugin.concerns(make_pod("q", volumes=(PodVolume(csi_driver="inline"),)).template, make_state())


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(NodeVolumeLimits)
