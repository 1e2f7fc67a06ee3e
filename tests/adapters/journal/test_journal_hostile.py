"""Journals that no scheduler wrote: opening one runs nothing, takes little, and ends with one line."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
import zlib
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from moorage.adapters.journal import frames
from moorage.adapters.journal.frames import Segment, path_of, record, segments
from moorage.adapters.journal.reader import ReadError
from moorage.adapters.journal.replaying import replay
from moorage.adapters.journal.timeline import scenes
from moorage.cli.main import run
from tests.adapters.journal.filling import fill, recorded
from tests.adapters.journal.recording import REGISTRY, recorded_text

Ext = msgspec.msgpack.Ext
encode = msgspec.msgpack.encode
START = {
    "format": 1, "version": "1", "run": "r", "turns": 0, "time_s": 1.0, "seed": 1,
    "configuration": recorded_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"),
    "begins": "image",
}  # fmt: skip


def segment(folder: Path, *stream: bytes, magic: bytes = frames.MAGIC) -> Path:
    """A journal of one segment, with frames that say this, checksums and all."""
    packer = zlib.compressobj(9)
    path = path_of(folder, 1)
    with path.open("wb") as file:
        file.write(magic)
        for piece in stream:
            data = packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)
            file.write(struct.pack("<II", len(data), zlib.crc32(data)) + data)
    return folder


def named(code: int, *content: Any) -> Any:
    return Ext(code, encode(content))


def turn(*told: Any) -> bytes:
    """A turn of a scheduler that was told these events."""
    return record(frames_of("START"), encode(START)) + record(frames_of("TURN"), encode((1.0, 1, told, None)))


def frames_of(name: str) -> int:
    from moorage.adapters.journal import records  # noqa: PLC0415 - numbers of kinds are this version's

    return int(getattr(records, name))


# --- code ---


def old_pickle(command: str) -> bytes:
    """What an image was once: `Faults().ask` as a way to any attribute, and so to `os.system`."""

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def ask(owner: bytes, name: str, *arguments: str) -> bytes:
        return b"h\x00(" + owner + text(name) + b"".join(map(text, arguments)) + b"tR"

    make = b"cmoorage.adapters.journal.image\nmethod\n(cmoorage.engine.faults\nFaults\n(tR" + text("ask") + b"tRq\x00"
    scope = ask(b"h\x00", "__getattribute__", "__globals__")
    builtins = ask(scope, "__getitem__", "__builtins__")
    module = ask(ask(builtins, "__getitem__", "__import__"), "__call__", "os")
    return b"\x80\x02" + make + ask(module, "system", command) + b"."


def test_an_image_of_the_old_kind_runs_nothing(tmp_path: Path) -> None:
    """The journal is of another format, and that is all that there is to say about it."""
    marker = tmp_path / "ran"
    folder = tmp_path / "journal"
    folder.mkdir()
    image = record(1, encode(START)) + record(3, old_pickle(f"touch {marker}"))
    segment(folder, image, magic=b"moorage\x01")
    for read in (lambda: replay(folder, REGISTRY), lambda: list(scenes(folder, REGISTRY))):
        with pytest.raises(ReadError) as caught:
            read()
        assert not marker.exists()
        assert "\n" not in str(caught.value)
        assert "format 1" in str(caught.value)


@pytest.mark.parametrize(
    "event",
    [
        named(1, "state:ClusterState", {}),
        named(1, "os:system", {}),
        named(1, "unanswered:UnansweredWrites", {}),
        named(1, "edits:Changed", {}),
        named(1, "pods:Pod", {}),
        named(1, "events:ObjectSeen", {"kind": "Deployment", "key": "a/b", "value": "text"}),
        named(1, "events:ObjectSeen", {"kind": "Wolf", "key": "a", "value": 1}),
        named(1, "events:NodeGone", {"name": 5}),
        named(1, "events:NodeGone", {"name": "a", "__class__": "b"}),
        named(2, "events:BindOutcome", "bound"),
        [0, "uid", "bound", 5, ""],
        [9, "uid"],
        ["uid", "name", 7, None, "Pending", 0.0, 0, "", True, None, None, None],
        "text",
    ],
    ids=[
        "a class that is no value", "a module", "a class with a state", "a value that changes", "a bare pod",
        "an object of another kind", "an unknown kind", "a wrong type", "a field that is none", "an enum",
        "a flat event", "an unknown number", "an unknown template", "a text",
    ],
)  # fmt: skip
def test_what_no_engine_is_told_is_refused(event: Any, tmp_path: Path) -> None:
    """Only events, only of the core's values, only with fields of the declared types."""
    segment(tmp_path, turn(event))
    with pytest.raises(ReadError, match=r"00000001\.journal: ") as caught:
        replay(tmp_path, REGISTRY)
    assert "\n" not in str(caught.value)


# --- size ---


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """A frame of 64 KB that would become 64 MB ends the reading while it is small; so does a record of that size."""
    head = record(frames_of("START"), encode(START))
    for stream in ([head, bytes(64 << 20)], [head + struct.pack("<IB", 1 << 30, 2), *[bytes(1 << 20)] * 64]):
        segment(tmp_path, *stream)
        tracemalloc.start()
        try:
            with pytest.raises(ReadError, match="no scheduler wrote that"):
                replay(tmp_path, REGISTRY)
            assert tracemalloc.get_traced_memory()[1] < 24 << 20
        finally:
            tracemalloc.stop()


MANY = 3 << 20


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        pytest.param("TURN", b"\x94\x01\x01\xdd" + struct.pack(">I", MANY) + b"\x90" * MANY + b"\xc0", id="events"),
        pytest.param("EVENTS", b"\xdd" + struct.pack(">I", MANY) + b"\x80" * MANY, id="events before a turn"),
        pytest.param("FACTS", encode([6, bytes(MANY)]), id="entries of the queue that are only announced"),
    ],
)
def test_a_few_bytes_do_not_become_many_values(kind: str, data: bytes, tmp_path: Path) -> None:
    """Three million empty lists are 3 KB in a segment, and would be 250 MB in memory."""
    rows = record(frames_of("FACTS"), encode([0, list(range(63, -1, -1))]))
    head = record(frames_of("START"), encode(START)) + rows
    whole = head + record(frames_of(kind), data) + record(frames_of("IMAGE"), b"")
    folder = segment(tmp_path, *(whole[start : start + (1 << 20)] for start in range(0, len(whole), 1 << 20)))
    assert path_of(folder, 1).stat().st_size < 20_000
    tracemalloc.start()
    try:
        with pytest.raises(ReadError):
            replay(folder, REGISTRY)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


def test_a_segment_that_grows_without_end_is_left(tmp_path: Path) -> None:
    """Also where every frame is small enough: all together unpack to a multiple of what is there."""
    head = record(frames_of("START"), encode(START))
    rows = record(frames_of("FACTS"), bytes(1 << 20))
    segment(tmp_path, head, *[rows] * 24)
    with pytest.raises(ReadError, match="no scheduler wrote that"):
        replay(tmp_path, REGISTRY)


@pytest.mark.parametrize("depth", [40, 5_000, 200_000])
def test_nesting_has_an_end(depth: int, tmp_path: Path) -> None:
    """Of arrays, and of values within values."""
    segment(tmp_path, turn(msgspec.Raw(b"\x91" * depth + b"\xc0")))
    with pytest.raises(ReadError):
        replay(tmp_path, REGISTRY)
    value: Any = None
    for _ in range(min(depth, 2_000)):
        value = named(3, value)
    segment(tmp_path, turn(value))
    with pytest.raises(ReadError):
        replay(tmp_path, REGISTRY)


# --- other versions, accidents ---


@pytest.mark.parametrize("number", [frames.FORMAT - 1, frames.FORMAT + 1], ids=["earlier", "later"])
def test_another_format_is_named(number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reader is told which version to use, by the command too."""
    segment(tmp_path, b"", magic=b"moorage" + bytes([number]))
    words = f"format {number}, and this version of Moorage reads format {frames.FORMAT}; use the version"
    with pytest.raises(ReadError, match=words):
        replay(tmp_path, REGISTRY)
    assert run(["replay", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The records of a segment that begins with an image."""
    folder = tmp_path_factory.mktemp("whole")
    engine = recorded(folder, 3)
    engine.journal._next_segment(20.0)
    fill(engine, 2, 30)
    engine.journal.close()
    return [record(piece.kind, piece.data) for piece in Segment(segments(folder)[-1]).pieces()]


@pytest.mark.parametrize("seed", range(60))
def test_records_with_changed_bytes_are_read_or_refused(seed: int, pieces: list[bytes], tmp_path: Path) -> None:
    """Checksums fit, what they protect does not: whatever comes of it, it is `ReadError` at worst."""
    rng = Random(seed)
    stream = bytearray(b"".join(pieces))
    for _ in range(rng.randint(1, 4)):
        stream[rng.randrange(len(pieces[0]), len(stream))] = rng.randrange(256)
    segment(tmp_path, bytes(stream))
    for read in (
        lambda: replay(tmp_path, REGISTRY),
        lambda: list(scenes(tmp_path, REGISTRY)),
    ):
        with contextlib.suppress(ReadError):
            read()
