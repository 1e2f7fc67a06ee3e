"""Journals on disk: torn, full, shared, too large, written by strangers."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

import pytest

from moorage.adapters.journal import writer
from moorage.adapters.journal.frames import Segment, segments
from moorage.adapters.journal.reader import JournalReader, ReadError
from moorage.adapters.journal.records import RecordedTurn, Start
from moorage.adapters.journal.replaying import replay
from moorage.adapters.journal.timeline import scenes
from moorage.adapters.journal.writer import Journal, JournalError
from moorage.core.events import NodeSeen, TermBegan
from moorage.engine.engine import Engine
from moorage.views.words import Happening, HappeningKind
from tests.adapters.journal.filling import fill, recorded
from tests.adapters.journal.recording import REGISTRY
from tests.framework.readers import default_profile


def story_of(folder: Path) -> list[Happening]:
    return [each for scene in scenes(folder, REGISTRY) for each in scene.happened]


def test_a_journal_that_is_cut_anywhere_can_be_read_up_to_there(tmp_path: Path) -> None:
    """Every whole frame before the cut is there, nothing after it, and nothing raises."""
    folder = tmp_path / "whole"
    engine = recorded(folder, 0)
    for turn in range(5):
        fill(engine, 2, turn * 2)
        engine.journal.flush()
    engine.journal.close()
    (path,) = segments(folder)
    data = path.read_bytes()
    cut = tmp_path / "cut"
    cut.mkdir()
    seen = -1
    for length in range(0, len(data) + 1, 7):
        (cut / path.name).write_bytes(data[:length])
        turns = sum(isinstance(record, RecordedTurn) for record in JournalReader(cut).records())
        assert turns >= seen, f"{length} bytes give less than fewer bytes did"
        seen = turns
    (cut / path.name).write_bytes(data)
    assert replay(cut, REGISTRY).turns == 21


def test_a_byte_that_was_changed_ends_the_segment_there(tmp_path: Path) -> None:
    """What a bad disk did is not taken for a record."""
    engine = recorded(tmp_path)
    engine.journal.close()
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    reader = JournalReader(tmp_path)
    assert sum(isinstance(record, RecordedTurn) for record in reader.records()) < 41
    assert "left out" in reader.warnings[0]


def test_the_size_is_bounded_and_what_is_left_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest segments go, the rest begins with an image, and nothing in it differs."""
    monkeypatch.setattr(writer, "SMALLEST_BYTES", 0)
    limit = 60_000
    engine = recorded(tmp_path, 0, limit)
    for burst in range(30):
        fill(engine, 50, burst * 50)
        engine.journal.flush()
        assert sum(path.stat().st_size for path in segments(tmp_path)) <= limit
    engine.journal.close()
    first = next(iter(JournalReader(tmp_path).records()))
    assert isinstance(first, Start)
    assert first.turns > 0, "the beginning was dropped"
    result = replay(tmp_path, REGISTRY)
    assert (result.differing, result.warnings) == (0, [])
    assert result.binds > 0


def test_only_one_process_writes_to_a_folder(tmp_path: Path) -> None:
    """The second one is refused with one line."""
    engine = recorded(tmp_path)
    with pytest.raises(JournalError, match="another process writes a journal here"):
        Journal(tmp_path, Engine([default_profile()]), "", seed=0, version="1")
    engine.journal.close()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """One line that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match=r"file/journal: cannot be written"):
        Journal(tmp_path / "file" / "journal", Engine([default_profile()]), "", seed=0, version="1")


def test_a_full_disk_breaks_the_journal_off_and_never_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions go on; when there is room again, so does the journal, with an image and a gap."""
    engine = recorded(tmp_path, 5)
    engine.journal.flush()
    engine.journal._files.failure = os.strerror(28)
    fill(engine, 3, 100)
    assert engine.journal.failures == 1
    monkeypatch.setattr(engine.journal, "_paused_until_s", 0.0)
    fill(engine, 4, 200)
    engine.journal.close()
    result = replay(tmp_path, REGISTRY)
    assert result.differing == 0
    assert any("something is missing" in warning for warning in result.warnings)
    ends = (HappeningKind.STARTED, HappeningKind.GAP, HappeningKind.ENDED)
    assert [each.what for each in story_of(tmp_path) if each.what in ends] == [*ends]


def test_an_engine_that_cannot_be_written_breaks_the_journal_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one with a plugin that keeps what no file can hold; what was written before is there."""
    engine = recorded(tmp_path, 3)
    engine.engine.gangs.term = Lock()  # type: ignore[assignment]
    monkeypatch.setattr(writer, "_MOST_SHARED", -1)
    fill(engine, 2, 50)
    engine.journal.close()
    assert engine.journal.failures == 1
    result = replay(tmp_path, REGISTRY)
    assert (result.differing, result.binds) == (0, 4)


def test_a_later_process_goes_on_in_the_same_folder(tmp_path: Path) -> None:
    """Both runs replay, one after the other."""
    recorded(tmp_path, 5).journal.close()
    recorded(tmp_path, 5).journal.close()
    result = replay(tmp_path, REGISTRY)
    assert (result.runs, result.differing, result.binds) == (2, 0, 10)


def test_the_story_of_a_journal(tmp_path: Path) -> None:
    """Who was placed when, and what was known at which time, also where the beginning is gone."""
    engine = recorded(tmp_path, 3)
    engine.handle([TermBegan("1/me")], 13.6, 0)
    engine.journal._next_segment(13.7)
    fill(engine, 2, 4)
    engine.journal.close()
    story = story_of(tmp_path)
    binds = [HappeningKind.ATTEMPTED] * 5
    assert [each.what for each in story] == [
        HappeningKind.STARTED,
        *binds[:3],
        HappeningKind.LEADS,
        *binds[3:],
        HappeningKind.ENDED,
    ]
    assert story[1].subject == "default/pod-0"
    assert story[1].facts["node"] in {"n0", "n1", "n2"}
    assert [each.subject for each in story if 14.0 <= each.at_s <= 15.0] == ["default/pod-4", "default/pod-5"]
    segments(tmp_path)[0].unlink()
    first, image, *_ = scenes(tmp_path, REGISTRY)
    assert (first.anew, first.time_s, image.time_s) == (True, 13.7, 13.7)
    assert {event.node.name for event in image.events if isinstance(event, NodeSeen)} == {"n0", "n1", "n2"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, "no such folder"),
        (lambda path: path.write_text(""), "is no folder"),
        (lambda path: path.mkdir(), "holds no journal"),
    ],
    ids=["nothing", "file", "empty"],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, make: object, message: str) -> None:
    """One line that names the folder and says what to name instead."""
    path = tmp_path / "journal"
    make(path)  # type: ignore[operator]
    with pytest.raises(ReadError, match=message):
        JournalReader(path)


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """Names of pods are nobody else's business."""
    folder = tmp_path / "journal"
    recorded(folder, 1).journal.close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert segments(folder)[0].stat().st_mode & 0o777 == 0o600
    assert not Segment(segments(folder)[0]).cut
