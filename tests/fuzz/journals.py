"""Journals and other files with changed bytes."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import struct
import tempfile
import zlib
from functools import cache
from pathlib import Path

from moorage.adapters.journal.frames import MAGIC, Segment, path_of, record, segments
from moorage.adapters.journal.reader import ReadError
from moorage.adapters.journal.replaying import replay
from moorage.adapters.journal.timeline import entries
from moorage.adapters.kube.credentials import from_kubeconfig
from moorage.app.dashboard_journal import JournalShow
from moorage.framework.profiles import build_profiles
from tests.adapters.journal.recording import REGISTRY, SPREADING, configuration_of
from tests.adapters.journal.test_journal_files import fill, recorded
from tests.fuzz.mutation import Mutator


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="moorage-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _records() -> tuple[bytes, ...]:
    """The records of a segment that begins with an image."""
    folder = _folder() / "whole"
    engine = recorded(folder, 3)
    engine.journal._next_segment(20.0)
    fill(engine, 2, 30)
    engine.journal.close()
    return tuple(record(piece.kind, piece.data) for piece in Segment(segments(folder)[-1]).pieces())


def journal_input(mutator: Mutator) -> bytes:
    """A segment: records changed below the checksum, or the file as a bad disk leaves it."""
    records = _records()
    head, rest = records[0], b"".join(records[1:])
    below = mutator.rng.random() < 0.8
    packer = zlib.compressobj(1)
    stream = head + (mutator.data(rest) if below else rest)
    data = packer.compress(stream) + packer.flush(zlib.Z_SYNC_FLUSH)
    whole = MAGIC + struct.pack("<II", len(data), zlib.crc32(data)) + data
    return whole if below else mutator.data(whole)


@cache
def _show_parts() -> tuple[object, ...]:
    return tuple(build_profiles(configuration_of(SPREADING), REGISTRY))


def read_journal(data: bytes) -> None:
    """Replay it, tell its story, show it; each ends with a `ReadError` at worst."""
    folder = _folder() / "journal"
    folder.mkdir(exist_ok=True)
    path_of(folder, 1).write_bytes(data)
    with contextlib.suppress(ReadError):
        replay(folder, REGISTRY)
    with contextlib.suppress(ReadError):
        list(entries(folder))
    with contextlib.suppress(ReadError):
        show = JournalShow(folder, _show_parts(), REGISTRY)  # type: ignore[arg-type]
        show.at(show.span[1])


def in_a_file(data: bytes) -> None:
    """Read a kubeconfig."""
    path = _folder() / "kubeconfig"
    path.write_bytes(data)
    from_kubeconfig([path])
