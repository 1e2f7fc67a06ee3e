"""Segments of a journal: files of frames, each with its length and checksum, that can be read however they end.

A segment is a magic text and frames; a frame is `length, crc32, bytes`. The bytes of all frames of a segment are one
zlib stream, flushed at the end of each frame, so that a frame that is there whole can be read whole; what follows the
last whole frame is the torn tail of a crash and is cut. A frame holds whole records: `length, kind, bytes`.

Segments are numbered. Each can be read without the others.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

MAGIC = b"moorage\x01"
SUFFIX = ".journal"
_NAME = re.compile(r"[0-9]{8,}\.journal", re.ASCII)
_FRAME = struct.Struct("<II")
_RECORD = struct.Struct("<IB")


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

    def frame(self, records: bytes | bytearray) -> bytes:
        """Whole records as the next frame of the segment."""
        data = self._stream.compress(records) + self._stream.flush(zlib.Z_SYNC_FLUSH)
        return _FRAME.pack(len(data), zlib.crc32(data)) + data

    def write(self, frame: bytes) -> None:
        """Hand a frame to the operating system."""
        self._file.write(frame)
        self._file.flush()
        self.size += len(frame)


def record(kind: int, data: bytes) -> bytes:
    """A record as it stands in a frame."""
    return _RECORD.pack(len(data), kind) + data


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
        """The records, up to the last whole frame."""
        with self.path.open("rb") as file:
            whole = 0
            if file.read(len(MAGIC)) == MAGIC:
                whole = file.tell()
                stream = zlib.decompressobj()
                while (data := _next_frame(file)) is not None:
                    try:
                        records = stream.decompress(data)
                    except zlib.error:
                        break
                    whole = file.tell()
                    yield from _pieces(records)
            self.cut = file.seek(0, 2) - whole


def _next_frame(file: BinaryIO) -> bytes | None:
    head = file.read(_FRAME.size)
    if len(head) < _FRAME.size:
        return None
    length, checksum = _FRAME.unpack(head)
    data = file.read(length)
    return data if len(data) == length and zlib.crc32(data) == checksum else None


def _pieces(records: bytes) -> Iterator[Piece]:
    start = 0
    while start + _RECORD.size <= len(records):
        length, kind = _RECORD.unpack_from(records, start)
        start += _RECORD.size
        yield Piece(kind, records[start : start + length])
        start += length
