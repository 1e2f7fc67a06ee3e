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

import msgspec

from moorage.adapters.dashboard.backend import SeriesRequest
from moorage.adapters.journal.frames import MAGIC, Piece, Segment, path_of, record, segments
from moorage.adapters.journal.reader import ReadError
from moorage.adapters.journal.replaying import replay
from moorage.adapters.kube.credentials import from_kubeconfig
from moorage.app.dashboard_journal import JournalShow
from moorage.core.events import PodSeen
from moorage.framework.profiles import Profile, build_profiles
from moorage.sim.replay import rerun
from moorage.testing.builders import make_pod
from tests.adapters.journal.filling import fill, recorded
from tests.adapters.journal.recording import REGISTRY, SPREADING, configuration_of
from tests.fuzz.mutation import Mutator


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="moorage-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _pieces() -> tuple[Piece, ...]:
    """The records of a segment that begins with an image."""
    folder = _folder() / "whole"
    engine = recorded(folder, 3)
    engine.handle([PodSeen(make_pod("large", cpu="100")), PodSeen(make_pod("gated", gates=["g"]))], 15.0)
    engine.journal._next_segment(20.0)
    fill(engine, 2, 30)
    engine.journal.close()
    return tuple(Segment(segments(folder)[-1]).pieces())


def journal_input(mutator: Mutator) -> bytes:
    """A segment whose checksums fit: with other values or bytes in its records; or as a bad disk leaves it."""
    pieces = list(_pieces())
    how = mutator.rng.random()
    if how < 0.6:
        at = mutator.rng.randrange(1, len(pieces))
        pieces[at] = Piece(pieces[at].kind, _with_other_values(mutator, pieces[at].data))
    head, rest = (b"".join(record(*piece) for piece in part) for part in (pieces[:1], pieces[1:]))
    packer = zlib.compressobj(1)
    stream = head + (mutator.data(rest) if 0.6 <= how < 0.85 else rest)
    data = packer.compress(stream) + packer.flush(zlib.Z_SYNC_FLUSH)
    whole = MAGIC + struct.pack("<II", len(data), zlib.crc32(data)) + data
    return whole if how < 0.85 else mutator.data(whole)


def _with_other_values(mutator: Mutator, data: bytes) -> bytes:
    try:
        value = msgspec.msgpack.decode(data)
        if isinstance(value, msgspec.msgpack.Ext):
            inner = msgspec.msgpack.encode(mutator.value(msgspec.msgpack.decode(value.data)))
            return msgspec.msgpack.encode(msgspec.msgpack.Ext(value.code, inner))
        return msgspec.msgpack.encode(mutator.value(value))
    except (msgspec.MsgspecError, OverflowError, UnicodeEncodeError):
        return mutator.data(data)


def _profiles() -> tuple[Profile, ...]:
    return tuple(build_profiles(configuration_of(SPREADING), REGISTRY))


def read_journal(data: bytes) -> None:
    """Replay it, tell its story, show it; each ends with a `ReadError` at worst."""
    folder = _folder() / "journal"
    folder.mkdir(exist_ok=True)
    path_of(folder, 1).write_bytes(data)
    with contextlib.suppress(ReadError):
        replay(folder, REGISTRY)
    with contextlib.suppress(ReadError):
        rerun(folder, REGISTRY, configuration_of(SPREADING), list(_profiles()))
    with contextlib.suppress(ReadError):
        show = JournalShow(folder, _profiles(), REGISTRY)
        show.at(show.span[1])
        show.charts(SeriesRequest(show.span[0], sum(show.span) / 2, 100))


def in_a_file(data: bytes) -> None:
    """Read a kubeconfig."""
    path = _folder() / "kubeconfig"
    path.write_bytes(data)
    from_kubeconfig([path])
