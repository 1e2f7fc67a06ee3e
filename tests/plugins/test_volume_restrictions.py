"""Disks that cannot be shared on a node, and claims that only one pod may use."""

from __future__ import annotations

import pytest

from moorage.core.pods import PodVolume
from moorage.framework.changes import Change, What
from moorage.plugins.volume_restrictions import VolumeRestrictions
from moorage.testing import check_plugin, make_node, make_pod, make_state
from moorage.testing.answers import ask
from moorage.testing.storage import claims, make_claim, put

DISK = ("node(s) had no available disk", True)
CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    True,
)


def disk(kind: str, identity: str, read_only: bool = False) -> PodVolume:
    return PodVolume(disk=(kind, identity, read_only))


SHARING = [
    pytest.param([disk("gcePersistentDisk", "d")], [disk("gcePersistentDisk", "d")], True, id="two writers"),
    pytest.param(
        [disk("gcePersistentDisk", "d", True)], [disk("gcePersistentDisk", "d", True)], False, id="two readers"
    ),
    pytest.param([disk("iscsi", "d")], [disk("iscsi", "d", True)], True, id="a reader is there"),
    pytest.param([disk("iscsi", "d", True)], [disk("iscsi", "d")], True, id="a writer is there"),
    pytest.param(
        [disk("rbd", "m1/p/i"), disk("rbd", "m2/p/i")], [disk("rbd", "m2/p/i")], True, id="one monitor shared"
    ),
    pytest.param([disk("rbd", "m1/p/i")], [disk("iscsi", "m1/p/i")], False, id="another kind"),
    pytest.param([disk("cinder", "d")], [disk("cinder", "d")], False, id="a kind that may be shared"),
]


@pytest.mark.parametrize(("wanted", "held", "want_conflict"), SHARING)
def test_disks(wanted: list[PodVolume], held: list[PodVolume], want_conflict: bool) -> None:
    """Only the node of the holder is affected, and it is free again when the holder leaves."""
    holder = make_pod("h", volumes=tuple(held), node="used")
    state = make_state([make_node("free"), make_node("used")], [holder])
    pod = make_pod("p", volumes=tuple(wanted))
    found = ask(VolumeRestrictions(), state, pod).reasons.get("used", ())
    assert found == ((DISK,) if want_conflict else ())
    assert ask(VolumeRestrictions(), state, pod).reasons.get("free", ()) == ()
    change = Change(What.POD_REMOVED, pod=holder)
    assert VolumeRestrictions().helps(pod.template, change) is want_conflict
    state.remove_pod(holder.uid)
    assert not any(ask(VolumeRestrictions(), state, pod).reasons.values())


def test_a_claim_for_one_pod_is_taken_everywhere() -> None:
    """Wherever its user stands; within a what-if it is free once the user is removed."""
    user = make_pod("u", volumes=claims("c"), node="a")
    state = put(make_state([make_node("a"), make_node("b")], [user]), make_claim("c", modes=["ReadWriteOncePod"]))
    pod = make_pod("p", volumes=claims("c"))
    assert ask(VolumeRestrictions(), state, pod).reasons == {"a": (CLAIM,), "b": (CLAIM,)}
    with state.statement():
        state.remove_pod(user.uid)
        assert ask(VolumeRestrictions(), state, pod).filter_skipped
    assert ask(VolumeRestrictions(), state, pod).reasons == {"a": (CLAIM,), "b": (CLAIM,)}
    assert VolumeRestrictions().helps(pod.template, Change(What.POD_REMOVED, pod=user))
    stranger = make_pod("s", namespace="other", volumes=claims("c"), node="a")
    assert not VolumeRestrictions().helps(pod.template, Change(What.POD_REMOVED, pod=stranger))


@pytest.mark.parametrize(
    ("modes", "namespace", "node"),
    [
        pytest.param(["ReadWriteOnce"], "default", "a", id="another access mode"),
        pytest.param(["ReadWriteOncePod"], "other", "a", id="another namespace"),
        pytest.param(["ReadWriteOncePod"], "default", "gone", id="its user is on no known node"),
    ],
)
def test_claims_that_can_be_used(modes: list[str], namespace: str, node: str) -> None:
    """Nobody stands in the way."""
    user = make_pod("u", namespace=namespace, volumes=claims("c"), node=node)
    state = put(make_state([make_node("a")], [user]), make_claim("c", modes=modes))
    assert ask(VolumeRestrictions(), state, make_pod("p", volumes=claims("c"))).filter_skipped


def test_a_missing_claim_is_refused() -> None:
    """Its access modes are not known."""
    state = make_state([make_node("a")])
    pod = make_pod("p", volumes=claims("c"))
    assert ask(VolumeRestrictions(), state, pod).refusal == ('persistentvolumeclaim "c" not found',)
    ephemeral = make_pod("p", volumes=(PodVolume(claim="p-v", ephemeral=True),))
    assert ask(VolumeRestrictions(), state, ephemeral).filter_skipped
    assert not VolumeRestrictions().concerns(ephemeral.template, state)


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(VolumeRestrictions)
