"""Claims for devices and volumes where others search for room: queues, gangs, moves."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from moorage.cli.main import moorage
from tests.crossings.scenes import (
    claim,
    device_class,
    devices,
    local_class,
    local_volume,
    node,
    nodes_of,
    pod,
    queue,
    simulated,
    volume_claim,
    written,
)

WANT = range(4)


def test_one_device_is_reclaimed_for_once(tmp_path: Path) -> None:
    """Of many pods that may take back cpu, one can have the device: one pod goes, not one for each of them."""
    report = simulated(
        tmp_path,
        [node("n", 4), device_class(), devices("n", "g0"), queue("lender", 4), queue("borrower", 0)],
        [pod(f"b{i}", "n", queue="borrower") for i in WANT],
        [pod(f"c{i}", queue="lender", claim=f"c{i}") for i in WANT],
        [claim(f"c{i}", user=f"c{i}") for i in WANT],
    )
    assert len(report["evictions"]) == 1
    assert [node for node in nodes_of(report).values() if node] == ["n"]


def test_one_volume_is_reclaimed_for_once(tmp_path: Path) -> None:
    """The same for a volume that is bound to its first consumer."""
    report = simulated(
        tmp_path,
        [node("n", 4), local_class(), local_volume("v", "n"), queue("lender", 4), queue("borrower", 0)],
        [pod(f"b{i}", "n", queue="borrower") for i in WANT],
        [pod(f"c{i}", queue="lender", volume=f"c{i}") for i in WANT],
        [volume_claim(f"c{i}") for i in WANT],
    )
    assert len(report["evictions"]) == 1
    assert [node for node in nodes_of(report).values() if node] == ["n"]


def test_a_quota_comes_back_from_pods_with_claims(tmp_path: Path) -> None:
    """What the claim of a pod holds that leaves is free for the pod that it leaves for."""
    report = simulated(
        tmp_path,
        [node("n", 2), device_class(), devices("n", "g0", "g1"), queue("a", 1), queue("b", 1)],
        [pod(f"a{i}", "n", queue="a", claim=f"a{i}") for i in range(2)],
        [claim(f"a{i}", user=f"a{i}", device=f"n/g{i}") for i in range(2)],
        [pod("b0", queue="b", claim="b0"), claim("b0", user="b0")],
    )
    assert len(report["evictions"]) == 1
    assert nodes_of(report)["b0"] == "n"


def test_a_device_is_reclaimed_for_a_claim(tmp_path: Path) -> None:
    """Also where nothing but the device is missing, which the pod of the queue above its share holds."""
    report = simulated(
        tmp_path,
        [node("n", 8), device_class(), devices("n", "g0"), queue("a", 1), queue("b", 4)],
        [pod("a0", "n", 2, queue="a", claim="a0"), pod("a1", "n", 4, queue="a")],
        [claim("a0", user="a0", device="n/g0")],
        [pod("b0", queue="b", claim="b0"), claim("b0", user="b0")],
    )
    assert (report["evictions"], nodes_of(report)["b0"]) == (["default/a0"], "n")


def test_moves_make_room_for_a_claim(tmp_path: Path) -> None:
    """A pod that holds the large device, and would do with the small one, is moved for one that needs the large one."""
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "x", "namespace": "default", "uid": "uid-rs"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "uid-rs", "controller": True}
    owned = {"labels": {"app": "x"}, "ownerReferences": [owner]}
    cluster = written(
        tmp_path,
        [node("n1", 8), node("n2", 8), device_class()],
        [devices("n1", "g0", model="large"), devices("n2", "g0", model="small"), replicas],
        [pod("x1", "n1", claim="x1", more=owned), claim("x1", user="x1", device="n1/g0")],
        [pod("y", claim="y"), claim("y", user="y", model="large")],
    )
    run = CliRunner().invoke(moorage, ["explain", "y", "-f", str(cluster), "-o", "json"])
    (move,) = json.loads(run.stdout)["moves"]
    assert (move["name"], move["from"], move["to"]) == ("x1", "n1", "n2")
