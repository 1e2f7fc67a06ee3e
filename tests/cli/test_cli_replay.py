"""`moorage replay`, as it is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moorage.adapters.journal.frames import segments
from moorage.cli.main import run
from moorage.core.commands import DeletePod
from moorage.core.events import BindDone, BindOutcome, NodeSeen, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.queues import QUEUE, Queue, ResourceShare
from moorage.testing.builders import make_node, make_pod
from tests.adapters.journal.recording import PACKING, SPREADING, RecordedEngine


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Twelve pods on four nodes, of which one is half full."""
    folder = tmp_path / "journal"
    engine = RecordedEngine(folder, SPREADING)
    nodes = [NodeSeen(make_node(f"n{number}", cpu="8", memory="32Gi")) for number in range(4)]
    engine.handle([*nodes, PodSeen(make_pod("there", cpu="4", node="n2"))], 1.0, 0)
    commands, _ = engine.handle([PodSeen(make_pod(f"p{number}", cpu="500m")) for number in range(12)], 2.0, 32)
    engine.handle([BindDone(f"default/p{number}", BindOutcome.BOUND) for number in range(12)], 2.5, 32)
    engine.journal.close()
    assert commands
    return folder


def test_a_replay_says_that_every_decision_is_the_recorded_one(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0, figures and the verdict."""
    assert run(["replay", str(journal)]) == 0
    printed = capsys.readouterr().out
    assert "binds       12" in printed
    assert "every decision is the recorded one" in printed


def test_a_replay_as_a_document(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON document on stdout."""
    assert run(["replay", str(journal), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["binds"], document["differing"], document["differences"]) == (12, 0, [])


def test_a_replay_tells_what_happened_to_a_pod(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every step with its time and cause, from the queue to the node."""
    assert run(["replay", str(journal), "--pod", "p3", "-o", "json"]) == 0
    story = json.loads(capsys.readouterr().out)["story"]
    assert [(step["time"], step["state"]) for step in story] == [
        (2.0, "active"), (2.0, "trying"), (2.0, "binding"), (2.5, "bound"),
    ]  # fmt: skip
    assert story[0]["cause"] == "UnscheduledPodAdd"
    assert run(["replay", str(journal), "--pod", "default/p3"]) == 0
    assert f"1970-01-01T00:00:02.500Z  is bound to {story[-1]['cause']}" in capsys.readouterr().out
    assert run(["replay", str(journal), "--pod", "nobody"]) == 2
    assert "no pod default/nobody was ever queued" in capsys.readouterr().err


def test_another_configuration_lists_what_it_would_place_elsewhere(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Packing puts the pods beside the one that is there."""
    config = tmp_path / "packing.yaml"
    config.write_text(PACKING)
    assert run(["replay", str(journal), "--config", str(config), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["pods"] == 12
    decided = {each["decided"] for each in document["differences"]}
    assert "n2" in decided
    assert run(["replay", str(journal), "--config", str(config)]) == 0
    assert f"{document['differing']} of 12 pods would be placed otherwise" in capsys.readouterr().out


def test_the_same_configuration_would_decide_the_same(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deciding anew with what was in force changes nothing."""
    config = tmp_path / "same.yaml"
    config.write_text(SPREADING)
    assert run(["replay", str(journal), "--config", str(config)]) == 0
    assert "0 of 12 pods would be placed otherwise" in capsys.readouterr().out


def test_a_torn_journal_is_read_up_to_the_tear(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning says what was left out."""
    (path,) = segments(journal)
    path.write_bytes(path.read_bytes()[:-3])
    assert run(["replay", str(journal)]) == 0
    assert "left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay"], "Missing argument 'DIR'"),
        (["replay", "/nonexistent"], "/nonexistent: no such folder"),
        (["replay", "/etc/passwd"], "/etc/passwd: is no folder"),
        (["scheduler", "--journal-size", "1Mi"], "'1Mi' is no size of at least 8Mi"),
        (["scheduler", "--journal-size", "１Gi"], "is no size of at least 8Mi"),
    ],
    ids=["no folder", "no such folder", "a file", "too small", "other digits"],
)
def test_wrong_usage_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and never a traceback."""
    assert run(arguments) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed.splitlines()) == 1


def test_a_replay_tells_why_a_pod_was_evicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By whom, for which queue, and under which rule; also of a pod that was on its node before."""
    engine = RecordedEngine(tmp_path / "journal", SPREADING)
    gpu, quota = "nvidia.com/gpu", FrozenDict({"nvidia.com/gpu": ResourceShare(1000)})
    queues = [ObjectSeen(QUEUE, name, Queue(name, name, resources=quota)) for name in "ab"]

    def pod(name: str, node: str | None = None) -> PodSeen:
        labels = {"moorage.dev/queue": name[0]}
        return PodSeen(make_pod(name, labels=labels, node=node, requests={gpu: 1}))

    engine.handle([NodeSeen(make_node("n1", resources={gpu: 2})), *queues, pod("b0", "n1"), pod("b1", "n1")], 1.0, 8)
    commands, _ = engine.handle([pod("a0")], 2.0, 8)
    engine.journal.close()
    (victim,) = (each.pod.name for each in commands if isinstance(each, DeletePod))
    assert run(["replay", str(tmp_path / "journal"), "--pod", victim]) == 0
    printed = capsys.readouterr().out
    assert "is evicted for default/a0" in printed
    assert f"reclaimed for queue a, as queue b had 2 {gpu} and its fair share is 1" in printed
