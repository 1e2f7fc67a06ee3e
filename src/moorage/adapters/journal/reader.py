"""Reads a journal: its records in order, across segments, however each of them ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from moorage.adapters.journal.frames import Segment, segments
from moorage.adapters.journal.records import Record, Restorer, Start
from moorage.adapters.journal.values import ReadError, Unreadable

__all__ = ["JournalReader", "ReadError"]


class JournalReader:
    """One journal as it is on disk; may be read while it is being written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        """What was left out, as far as was read; one line each."""
        try:
            self.segments = segments(folder)
        except FileNotFoundError:
            raise ReadError(f"{folder}: no such folder; name one that `moorage scheduler --journal` wrote") from None
        except NotADirectoryError:
            raise ReadError(f"{folder}: is no folder; name the folder of the journal") from None
        except OSError as error:
            raise ReadError(f"{folder}: cannot be read ({error.strerror}); make it readable") from None
        if not self.segments:
            raise ReadError(f"{folder}: holds no journal; name a folder that `moorage scheduler --journal` wrote")

    def records(self) -> Iterator[Record]:
        """Everything that was written, oldest first; `ReadError` where a segment cannot be understood."""
        for path in self.segments:
            yield from self._segment(path)

    def _segment(self, path: Path) -> Iterator[Record]:
        segment, restorer, begun = Segment(path), Restorer(), False
        try:
            for piece in segment.pieces():
                record = restorer.restore(piece)
                if record is None:
                    continue
                begun = begun or isinstance(record, Start)
                if begun:
                    yield record
        except FileNotFoundError:
            return  # dropped since we looked, as the oldest ones are
        except OSError as error:
            raise ReadError(f"{path}: cannot be read ({error.strerror}); make it readable") from None
        except Unreadable as error:
            raise ReadError(f"{path}: {error}") from None
        if segment.cut:
            self.warnings.append(f"{path}: {segment.cut} bytes at the end are no whole record and are left out")
