"""A few fresh questions to the real kube-scheduler in every run; `make parity` asks a thousand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.parity.drawing.lottery import WHEEL, draw
from tests.parity.examination import Examiner
from tests.parity.fuzz import run
from tests.parity.kube_side import KubeSide, LeftoverError, kube_scheduler
from tests.parity.questions import MARK, Question
from tests.parity.shrinking import Shrinker

QUESTIONS = 15
SEED = 20_260_101


@pytest.fixture
def examiner(control_plane_assets: None) -> Iterator[Examiner]:  # noqa: ARG001 they have to be there
    with kube_scheduler() as kube:
        yield Examiner(kube)


def test_the_real_kube_scheduler_agrees(examiner: Examiner) -> None:
    """Both sides give the same answers to questions of every kind."""
    tally = run(examiner, SEED, QUESTIONS, shrink=False)
    assert [str(each) for each in tally.disagreements] == []
    assert tally.refused == []
    assert examiner.pods >= QUESTIONS


def test_a_node_that_stays_ends_the_run(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Further questions would be asked with one node too many; what can be removed is, at the next attempt at last."""
    metadata = {"name": f"{MARK}node", "finalizers": ["example.com/stays"]}
    question = Question(1, "placement", [{"apiVersion": "v1", "kind": "Node", "metadata": metadata}], [])
    with closing(KubeSide(control_plane, tmp_path / "log", patience_s=0.1)) as side:
        with pytest.raises(LeftoverError, match=r"Node/q1-node cannot be removed .*example.com/stays"):
            Examiner(side).examine(question)
        control_plane.request("PATCH", "/api/v1/nodes/q1-node", {"metadata": {"finalizers": None}})
        side.clear()
        assert control_plane.request("GET", "/api/v1/nodes/q1-node").status == 404


def test_a_seed_gives_the_same_question_again() -> None:
    """What a run reports can be asked again by its seed."""
    for seed in range(len(WHEEL)):
        assert draw(seed) == draw(seed)
        assert draw(seed) != draw(seed + len(WHEEL))


def test_shrinking_keeps_what_matters() -> None:
    """Everything goes that the disagreement does not need, and nothing that it does."""
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": [{"b": 1, "c": 2}], "nodeName": "n3"}}
    nodes = [{"kind": "Node", "metadata": {"name": f"n{i}", "labels": {"x": "y"}}} for i in range(9)]

    def persists(objects: list[dict[str, object]]) -> bool:
        return '"c": 2' in repr(objects[-1]).replace("'", '"') and any("n3" in repr(obj) for obj in objects[:-1])

    found = Shrinker(persists, 200).shrink([*nodes, pod])
    assert found == [
        {"kind": "Node", "metadata": {"name": "n3"}},
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": [{"c": 2}], "nodeName": "n3"}},
    ]
