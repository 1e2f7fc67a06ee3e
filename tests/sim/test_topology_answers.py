"""What `explain` says about gangs in a topology: why a gang waits, what would help, how good a placement is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.memory.manifests import node_manifest, pod_manifest
from moorage.cli.main import run

REQUIRED, INDEX = "moorage.dev/topology-required", "batch.kubernetes.io/job-completion-index"
Plain = dict[str, Any]


def cluster() -> list[Plain]:
    """Two racks in each of two blocks, each with three nodes of two cores; one core of each rack is taken."""
    levels = ["block", "rack", "kubernetes.io/hostname"]
    api = "moorage.dev/v1alpha1"
    made: list[Plain] = [{"apiVersion": api, "kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": levels}}]
    for block, rack, number in ((b, r, n) for b in "ab" for r in "12" for n in range(3)):
        name = f"{block}{rack}n{number}"
        node = node_manifest(name, cpu="2")
        node["metadata"]["labels"] = {"block": block, "rack": rack, "kubernetes.io/hostname": name}
        made.append(node)
        if not number:
            made.append(pod_manifest(f"x-{name}", cpu="1", nodeName=name))
    return made


def gang(size: int, *nodes: str, **annotations: str) -> list[Plain]:
    """A gang of pods with one core each; `nodes`: where they run."""
    notes = {f"moorage.dev/topology-{key.replace('_', '-')}": text for key, text in annotations.items()}
    group = {"name": "g", "namespace": "default", "annotations": notes}
    api = "scheduling.x-k8s.io/v1alpha1"
    made: list[Plain] = [{"apiVersion": api, "kind": "PodGroup", "metadata": group, "spec": {"minMember": size}}]
    for rank in range(size):
        labels = {"scheduling.x-k8s.io/pod-group": "g", INDEX: str(rank)}
        pod = pod_manifest(f"g-{rank}", cpu="1", labels=labels)
        if nodes:
            pod["spec"]["nodeName"] = nodes[rank]
        made.append(pod)
    return made


def answer(capsys: pytest.CaptureFixture[str], folder: Path, objects: list[Plain]) -> Plain:
    (folder / "world.yaml").write_text(yaml.safe_dump_all(objects))
    assert run(["explain", "g-0", "-f", str(folder / "world.yaml"), "-o", "json"]) == 0
    found: Plain = json.loads(capsys.readouterr().out)
    return found


def table(capsys: pytest.CaptureFixture[str], folder: Path, objects: list[Plain]) -> str:
    (folder / "world.yaml").write_text(yaml.safe_dump_all(objects))
    assert run(["explain", "g-0", "-f", str(folder / "world.yaml")]) == 0
    return capsys.readouterr().out


def test_a_placement_says_how_good_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The node is that of the plan, so no runner-up by scores is named."""
    said = table(capsys, tmp_path, [*cluster(), *gang(5, required="rack")])
    assert "g-0 goes to a1n0, where the plan of its pod group puts it." in said
    assert "placed in 1 of block, 1 of rack, 3 of kubernetes.io/hostname (optimal)" in said
    assert "Runner-up" not in said


def test_what_would_help_names_levels_and_is_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wider level, a pod that leaves the rack, a node in it; each, put into the input, lets the gang start."""
    world = [*cluster(), *gang(6, required="rack")]
    found = answer(capsys, tmp_path, world)
    assert "rack a/1 has room for 5 of 6 pods." in found["message"]
    texts = [each["text"] for each in found["suggestions"]]
    assert texts[0] == f"Annotate PodGroup default/g with {REQUIRED}=block; it then fits on a1n1."
    assert any(text.startswith("Move pod default/x-a1n0 from a1n0 to b") for text in texts)
    assert "Add one more node like a1n0; it then fits there, in rack a/1." in texts
    for each in found["suggestions"]:
        changed = {(body["kind"], body["metadata"]["name"]): body for body in (*world, *each["objects"])}
        (tmp_path / "changed.yaml").write_text(yaml.safe_dump_all([*changed.values()]))
        assert run(["simulate", "-f", str(tmp_path / "changed.yaml"), "-o", "json"]) == 0
        pods = json.loads(capsys.readouterr().out)["pods"]
        assert next(pod["node"] for pod in pods if pod["name"] == "g-0") is not None, each["text"]


@pytest.mark.parametrize(
    ("size", "ask", "want"),
    [
        (6, {"slice_required": "rack", "slice_size": "4"}, "in slices of 4 per rack (6 is no multiple of 4)"),
        (
            8,
            {"required": "block", "slice_required": "rack", "slice_size": "8"},
            "block a has room for 0 of 8 pods in slices of 8 per rack",
        ),
        (4, {"required": "row"}, 'no Topology has the level "row"'),
    ],
)
def test_a_refusal_names_the_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, ask: dict[str, str], want: str
) -> None:
    """Slices that no rack holds, a number that they do not divide, a level that does not exist."""
    assert want in answer(capsys, tmp_path, [*cluster(), *gang(size, **ask)])["message"]


@pytest.mark.parametrize("change", ["relabelled", "deleted"])
def test_a_running_gang_whose_topology_changed_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    """Explain says what no longer holds, and that nothing is evicted for it."""
    world = [*cluster(), *gang(5, "a1n0", "a1n1", "a1n1", "a1n2", "a1n2", required="rack")]
    if change == "deleted":
        world = [each for each in world if each["kind"] != "Topology"]
    else:
        next(each for each in world if each["metadata"]["name"] == "a1n2")["metadata"]["labels"]["rack"] = "9"
    lines = answer(capsys, tmp_path, world)["topology"]
    if change == "deleted":
        assert lines == [
            'pod group default/g stays where it is, and members that come wait: no Topology has the level "rack"'
        ]
    else:
        assert lines[0] == "pod group default/g uses 1 of block, 2 of rack, 3 of kubernetes.io/hostname"
        assert "asks for one rack and is in 2" in lines[1]
        assert "nothing is evicted" in lines[1]


def test_a_level_that_was_added_under_a_running_gang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes that lack its label are outside of the topology now; the members stay, and explain says both."""
    world = [*cluster(), *gang(5, "a1n0", "a1n1", "a1n1", "a1n2", "a1n2", required="rack")]
    world[0]["spec"]["levels"].insert(0, "zone")
    lines = answer(capsys, tmp_path, world)["topology"]
    assert lines[0] == ("pod group default/g uses 0 of zone, 0 of block, 0 of rack, 0 of kubernetes.io/hostname")
    assert "5 members of it stand on nodes outside of the topology" in lines[1]
    assert "nothing is evicted" in lines[1]
