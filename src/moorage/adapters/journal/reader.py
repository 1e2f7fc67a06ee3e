"""Reads a journal: its records in order, across segments, however each of them ends.

`JournalReader` reads what there is; `JournalTail` reads on where it stopped, as a journal may grow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from moorage.adapters.journal.frames import Segment, number_of, segments
from moorage.adapters.journal.records import Record, Restorer, Start
from moorage.adapters.journal.values import ReadError, Unreadable

__all__ = ["JournalReader", "JournalTail", "ReadError"]


class JournalReader:
    """One journal as it is on disk; may be read while it is being written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[str] = []
        """What was left out, as far as was read; one line each."""
        self._restorer = Restorer()
        """Of the segment that was read last."""
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
            yield from self.records_of(path)

    def records_of(self, path: Path) -> Iterator[Record]:
        """Everything in one segment; nothing if it was dropped meanwhile."""
        segment, restorer, begun = Segment(path), Restorer(self._restorer.all_shared), False
        self._restorer = restorer
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


class JournalTail:
    """Reads a journal from its beginning, and later what was added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = -1
        """Of the segment that was read last."""
        self._size = 0
        """What that segment had then, in bytes."""
        self._read = 0
        """How many of its records were read."""

    def more(self) -> Iterator[tuple[Path, Record]]:
        """What was not read yet, with its segment."""
        reader = JournalReader(self._folder)
        for path in reader.segments:
            number, size = number_of(path), _size_of(path)
            if number < self._number or (number == self._number and size == self._size):
                continue
            known = self._read if number == self._number else 0
            self._number, self._size, self._read = number, size, known
            for record in itertools.islice(reader.records_of(path), known, None):
                self._read += 1
                yield path, record


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
