"""Segments of a journal: files of frames, each with its length and checksum, that can be read however they end.

A segment is a magic text, whose last byte is the number of the format, and frames; a frame is `length, crc32, bytes`.
The bytes of all frames of a segment are one zlib stream, flushed at the end of each frame, so that a frame that is
there whole can be read whole; what follows the last whole frame is the torn tail of a crash and is cut. What the stream
says are records, `length, kind, bytes`; a large one goes on in the next frame.

Segments are numbered. Each can be read without the others.

A segment may come from an untrusted source: it is read piece by piece, and what is larger than anything that is written
ends the reading before it is in memory. That is so for bytes, and for the values that they would become: whatever
msgpack makes an object of begins with a byte that is no ASCII, so such bytes are counted.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from moorage.adapters.journal.values import Unreadable

FORMAT = 8
MAGIC = b"moorage" + bytes([FORMAT])
SUFFIX = ".journal"
_NAME = re.compile(r"[0-9]{8,}\.journal", re.ASCII)
_FRAME = struct.Struct("<II")
_RECORD = struct.Struct("<IB")
_SLICE = 1 << 20
"""So much of the records is written as one frame."""
MOST_FRAME_BYTES = 4 << 20
"""What one frame may hold, packed or not."""
MOST_RECORD_BYTES = 16 << 20
MOST_GROWTH = 200
_GROWTH_FREE_BYTES = 4 << 20
"""Unpacked, a segment may have this size and `MOST_GROWTH` times that of its frames; ours grow by 5 to 30."""
MOST_RECORD_VALUES = 4 << 20
"""About what a queue of 200,000 pods takes, in an image."""
_MOST_VALUES_PER_BYTE = 64
_FREE_VALUES = 1 << 17
"""So many values a segment may have, and `_MOST_VALUES_PER_BYTE` for each byte of its frames; ours have 1 to 3."""
_ASCII = bytes(range(128))


class Piece(NamedTuple):
    """One record as it stands in a segment."""

    kind: int
    data: bytes


class Frames:
    """Writes one segment; not for several threads."""

    def __init__(self, file: BinaryIO) -> None:
        self.size = len(MAGIC)
        """Bytes written so far."""
        self._file = file
        self._stream = zlib.compressobj(1)
        file.write(MAGIC)

    def frames(self, records: bytes | bytearray) -> Iterator[bytes]:
        """Whole records as the next frames of the segment."""
        view = memoryview(records)
        for start in range(0, len(view), _SLICE):
            data = self._stream.compress(view[start : start + _SLICE]) + self._stream.flush(zlib.Z_SYNC_FLUSH)
            yield _FRAME.pack(len(data), zlib.crc32(data)) + data

    def write(self, frame: bytes) -> None:
        """Hand a frame to the operating system."""
        self._file.write(frame)
        self._file.flush()
        self.size += len(frame)


def record(kind: int, data: bytes) -> bytes:
    """A record as it is stored in a segment; `ValueError` for one that readers would refuse."""
    if len(data) > MOST_RECORD_BYTES:
        raise ValueError(f"a record has {len(data) >> 20} MiB, and {MOST_RECORD_BYTES >> 20} are the most")
    if _has_too_many_values(data):
        raise ValueError(f"a record has more than {MOST_RECORD_VALUES} values")
    return _RECORD.pack(len(data), kind) + data


def _values_in(data: bytes) -> int:
    """How many objects msgpack can make of these bytes, at most."""
    return len(data.translate(None, _ASCII))


def _has_too_many_values(data: bytes) -> bool:
    return len(data) > MOST_RECORD_VALUES and _values_in(data) > MOST_RECORD_VALUES


def segments(folder: Path) -> list[Path]:
    """The segments of a journal, oldest first."""
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=number_of)


def number_of(path: Path) -> int:
    """The number of a segment."""
    return int(path.name.removesuffix(SUFFIX))


def path_of(folder: Path, number: int) -> Path:
    """Where a segment is."""
    return folder / f"{number:08d}{SUFFIX}"


class Segment:
    """Reads one segment."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = 0
        """Bytes at the end that are no whole frame; known once all pieces were read."""

    def pieces(self) -> Iterator[Piece]:
        """The records, up to the last whole frame; `Unreadable` where no writer of this format was at work."""
        with self.path.open("rb") as file:
            whole = 0
            if _is_ours(file.read(len(MAGIC))):
                whole = file.tell()
                stream = _Stream()
                while (data := _next_frame(file)) is not None:
                    try:
                        records = stream.unpacked(data)
                    except zlib.error:
                        break
                    whole = file.tell()
                    yield from records
            self.cut = file.seek(0, 2) - whole


def _is_ours(magic: bytes) -> bool:
    """Whether a segment begins as this version writes them; one of another format is refused."""
    if len(magic) == len(MAGIC) and magic[:-1] == MAGIC[:-1] and magic != MAGIC:
        told = f"the journal has format {magic[-1]}, and this version of Moorage reads format {FORMAT}"
        raise Unreadable(f"{told}; use the version that wrote it")
    return magic == MAGIC


class _Stream:
    """What the frames of a segment say, within bounds."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()
        self._allowed = _GROWTH_FREE_BYTES
        """Bytes that the segment may still unpack to."""
        self._allowed_values = _FREE_VALUES
        self._rest = bytearray()
        """The beginning of a record that goes on."""

    def unpacked(self, data: bytes) -> list[Piece]:
        """The records that end in a frame."""
        self._allowed += MOST_GROWTH * len(data)
        limit = min(self._allowed, MOST_FRAME_BYTES)
        found = self._stream.decompress(data, limit + 1)
        if len(found) > limit:
            raise Unreadable(f"a frame of {len(data)} bytes unpacks to more than {limit}; no scheduler wrote that")
        self._allowed -= len(found)
        self._allowed_values += _MOST_VALUES_PER_BYTE * len(data) - _values_in(found)
        if self._allowed_values < 0:
            raise Unreadable(f"a frame of {len(data)} bytes has too many values; no scheduler wrote that")
        self._rest += found
        return list(self._pieces())

    def _pieces(self) -> Iterator[Piece]:
        rest, start = self._rest, 0
        while start + _RECORD.size <= len(rest):
            length, kind = _RECORD.unpack_from(rest, start)
            if length > MOST_RECORD_BYTES:
                raise Unreadable(f"a record claims to have {length} bytes; no scheduler wrote that")
            end = start + _RECORD.size + length
            if end > len(rest):
                break
            data = bytes(rest[start + _RECORD.size : end])
            if _has_too_many_values(data):
                raise Unreadable(f"a record has more than {MOST_RECORD_VALUES} values; no scheduler wrote that")
            yield Piece(kind, data)
            start = end
        del rest[:start]


def _next_frame(file: BinaryIO) -> bytes | None:
    head = file.read(_FRAME.size)
    if len(head) < _FRAME.size:
        return None
    length, checksum = _FRAME.unpack(head)
    if length > MOST_FRAME_BYTES:
        return None
    data = file.read(length)
    return data if len(data) == length and zlib.crc32(data) == checksum else None
