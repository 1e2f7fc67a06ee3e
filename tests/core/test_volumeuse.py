"""The columns of volume use equal a fresh count after any sequence of events."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from moorage.core.state import ClusterState
from moorage.core.volumes import VolumeAttachment
from moorage.core.volumeuse import UNLIMITED
from moorage.testing import make_node, make_pod, make_state
from moorage.testing.storage import DRIVER, claims, make_claim, make_class, make_csi_node, make_volume, put

NAMES = [f"x{i}" for i in range(5)]


def columns(state: ClusterState) -> dict[str, dict[str, tuple[int, int, bool]]]:
    """Driver -> node -> (attached, limit, installed), as rules read it."""
    state.volume_use.refresh(state.capacity)
    found: dict[str, dict[str, tuple[int, int, bool]]] = {}
    for driver in (DRIVER, "ebs.csi.aws.com"):
        attached, limits = state.volume_use.attached(driver), state.volume_use.limits(driver)
        installed = state.volume_use.installed(driver)
        found[driver] = {
            state.node(row).name: (
                0 if attached is None else int(attached[row]),
                UNLIMITED if limits is None else int(limits[row]),
                installed is not None and bool(installed[row]),
            )
            for row in map(int, state.rows())
        }
    return found


def rebuilt(state: ClusterState) -> ClusterState:
    """The same cluster, counted from nothing."""
    fresh = make_state([state.node(int(row)) for row in state.rows()])
    for kind, values in state.objects.items():
        for key, value in values.items():
            fresh.put_object(kind, key, value)
    for record in state.records():
        fresh.observe_pod(make_pod(record.pod.name, volumes=record.pod.template.volumes, node=record.node))
    return fresh


def shake(state: ClusterState, random: Random) -> None:
    """Let one thing happen."""
    name, other, node = random.choice(NAMES), random.choice(NAMES), f"n{random.randrange(4)}"
    limit = random.choice([None, 1, 5])
    driver = random.choice([DRIVER, "ebs.csi.aws.com", None])
    provisioner = random.choice([DRIVER, "kubernetes.io/aws-ebs"])
    volumes = claims(*random.sample(NAMES, random.randint(0, 2)))
    happenings: list[Callable[[], object]] = [
        lambda: state.observe_pod(make_pod(name, volumes=volumes, node=node)),
        lambda: state.observe_pod(make_pod(other, volumes=volumes, node=node)),
        lambda: state.remove_pod(f"default/{name}"),
        lambda: put(state, make_claim(name, volume=random.choice([None, f"v{other}"]))),
        lambda: state.remove_object("PersistentVolumeClaim", f"default/{name}"),
        lambda: put(state, make_volume(f"v{name}", driver=driver)),
        lambda: state.remove_object("PersistentVolume", f"v{name}"),
        lambda: put(state, make_csi_node(node, csi_example_com=limit)),
        lambda: put(state, make_csi_node(node, ebs_csi_aws_com=limit)),
        lambda: state.remove_object("CSINode", node),
        lambda: put(state, VolumeAttachment(f"a{name}", DRIVER, node, f"v{other}")),
        lambda: state.remove_object("VolumeAttachment", f"a{other}"),
        lambda: state.remove_node(node),
        lambda: state.upsert_node(make_node(node)),
        lambda: put(state, make_class(provisioner=provisioner)),
    ]
    random.choice(happenings)()


@pytest.mark.parametrize("seed", range(25))
def test_columns_equal_a_fresh_count(seed: int) -> None:
    """Whatever happens to pods, nodes and storage objects, in whatever order, what-ifs included."""
    random = Random(seed)
    state = put(make_state([make_node(f"n{i}") for i in range(3)]), make_class())
    for step in range(60):
        shake(state, random)
        if random.random() < 0.2:
            with state.statement():
                for record in state.records()[:2]:
                    state.remove_pod(record.pod.uid)
                columns(state)
        if step % 4 == 0:
            fresh = rebuilt(state)
            assert columns(state) == columns(fresh)
            for name in NAMES:
                assert state.volume_use.in_use(f"default/{name}") == fresh.volume_use.in_use(f"default/{name}")


def test_many_nodes_grow_the_columns() -> None:
    """Rows beyond the first capacity are neutral until something happens to them."""
    state = put(make_state(), make_claim("c", volume="v"), make_volume("v"))
    for number in range(40):
        state.upsert_node(make_node(f"n{number}"))
        put(state, make_csi_node(f"n{number}", csi_example_com=number))
        if number == 3:
            columns(state)
    state.observe_pod(make_pod("p", volumes=claims("c"), node="n39"))
    found = columns(state)[DRIVER]
    assert found["n39"] == (1, 39, True)
    assert found["n3"] == (0, 3, True)
