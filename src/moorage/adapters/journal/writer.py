"""Writes a journal beside a running scheduler.

Records are made in the scheduler's thread, between turns; a thread of its own compresses and writes them, at most
`_PAUSE_S` later. Nothing here ever stops the scheduler: when the disk is full or too slow, the journal breaks off with
one line in the log, and goes on with a new segment when it can.

The size is bounded: a segment that is large enough is followed by one that begins with an image of the engine, and the
oldest segments are deleted.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import structlog

from moorage.adapters import clock
from moorage.adapters.journal import image
from moorage.adapters.journal.frames import Frames, number_of, path_of, segments
from moorage.adapters.journal.records import EMPTY, FROM_IMAGE, Scribe, Start
from moorage.core.commands import Command
from moorage.core.events import Event
from moorage.engine.engine import Engine

SMALLEST_BYTES = 8 << 20
LOCK = "lock"
_SEGMENTS = 8
"""Into so many segments a full journal is divided, about."""
_PAUSE_S = 0.2
_MOST_WAITING_BYTES = 128 << 20
"""What may wait for the disk in memory."""
_MOST_SHARED = 50_000
_MOST_SHARED_BYTES = 64 << 20
"""So many values are shared in one segment, and of so many bytes; the process keeps them alive so long."""
_RETRY_S = 30.0
_CLOSE_S = 10.0

log = structlog.get_logger()


class JournalError(Exception):
    """The journal cannot be opened; the text is one line."""


class _Chunk(NamedTuple):
    data: bytearray
    begins: bool
    """Whether a new segment begins with it."""


class Journal:
    """The journal of one process. `turn` and its neighbours are called in one thread, that of the engine."""

    def __init__(
        self, folder: Path, engine: Engine, configuration: str, *, seed: int, version: str, size_bytes: int = 1 << 30
    ) -> None:
        """`engine` knows nothing yet; `configuration` is what it was made of, without secrets."""
        self.failures = 0
        """How often the journal broke off."""
        self._engine = engine
        self._configuration = configuration
        self._seed, self._version = seed, version
        self._scribe = Scribe()
        self._run = str(uuid.uuid4())
        self._turns = 0
        self._paused_until_s: float | None = None
        self._files = _Files(folder, size_bytes)
        self._files.begin(self._start(clock.now_s(), EMPTY))
        self._thread = threading.Thread(target=self._files.run, name="journal", daemon=True)
        self._thread.start()

    def turn(
        self,
        events: Sequence[Event],
        now_s: float,
        budget: int,
        commands: Sequence[Command] | None,
        stopped_at: int = 0,
    ) -> None:
        """A call of `Engine.handle` has returned; without commands it has raised. See `records.RecordedTurn`."""
        if self._paused_until_s is None:
            try:
                self._files.put(self._scribe.turn(events, now_s, budget, commands, stopped_at))
                self._turns += 1
                if self._files.full or self._shares_enough():
                    self._next_segment(now_s)
            except Exception as error:  # noqa: BLE001 - what cannot be written must not stop the decisions
                self._break_off(f"{type(error).__name__}: {error}")
            if self._files.failure:
                self._break_off(self._files.failure)
        elif time.monotonic() >= self._paused_until_s:
            self._resume(now_s)

    def flush(self) -> None:
        """Return when everything so far was handed to the operating system, or could not be."""
        self._files.flush()

    def close(self, reason: str = "") -> None:
        """Write what is left, and stop."""
        self._put(self._scribe.end(clock.now_s(), reason))
        self._files.stop()
        self._thread.join(_CLOSE_S)

    def _shares_enough(self) -> bool:
        return self._scribe.shared_count > _MOST_SHARED or self._scribe.shared_bytes > _MOST_SHARED_BYTES

    def _put(self, data: bytes) -> None:
        if self._paused_until_s is None:
            self._files.put(data)

    def _start(self, now_s: float, begins: str, *, gap: bool = False) -> bytes:
        return self._scribe.start(
            Start(
                version=self._version,
                run=self._run,
                turns=self._turns,
                time_s=now_s,
                seed=self._seed,
                configuration=self._engine.document or self._configuration,
                begins=begins,
                gap=gap,
            )
        )

    def _next_segment(self, now_s: float, *, gap: bool = False) -> None:
        start = self._start(now_s, FROM_IMAGE, gap=gap)
        self._files.put(start + image.dump(self._engine, self._scribe), begins=True)

    def _break_off(self, reason: str) -> None:
        self.failures += 1
        self._paused_until_s = time.monotonic() + _RETRY_S
        log.error("the journal broke off; it goes on when it can", why=reason, folder=str(self._files.folder))

    def _resume(self, now_s: float) -> None:
        self._paused_until_s = None
        try:
            self._files.clear()
            self._next_segment(now_s, gap=True)
        except Exception as error:  # noqa: BLE001 - as in `turn`
            self._break_off(f"{type(error).__name__}: {error}")
        else:
            log.info("the journal goes on", folder=str(self._files.folder))


class _Files:
    """The segments on disk, and what waits to be written to them."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder = folder
        self.full = False
        """Whether it is time for another segment."""
        self.failure = ""
        """Why nothing can be written; empty while it can."""
        self._size_bytes = max(size_bytes, SMALLEST_BYTES)
        self._lock = threading.Lock()
        """Held for what waits."""
        self._writing = threading.Lock()
        """Held for the files."""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._waiting: list[_Chunk] = []
        self._waiting_bytes = 0
        self._frames: Frames | None = None
        self._file: BinaryIO | None = None
        self._head_bytes = 0
        self._grown = False
        self._kept: list[tuple[Path, int]] = []
        """Finished segments and their sizes, oldest first."""
        self._number = 0
        self._lock_file = self._open_folder()

    def _open_folder(self) -> int:
        """Make the folder ours; what is in it already counts as old segments."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._kept = [(path, path.stat().st_size) for path in segments(self.folder)]
        except BlockingIOError:
            raise JournalError(f"{self.folder}: another process writes a journal here; name another folder") from None
        except OSError as error:
            raise JournalError(f"{self.folder}: cannot be written ({error.strerror}); name another folder") from None
        self._number = number_of(self._kept[-1][0]) if self._kept else 0
        return lock

    def begin(self, data: bytes) -> None:
        """Write the first record, before anything else happens."""
        try:
            self._write(_Chunk(bytearray(data), begins=True))
        except OSError as error:
            raise JournalError(f"{self.folder}: cannot be written ({error.strerror}); name another folder") from None

    # --- in the thread of the engine ---

    def put(self, data: bytes, *, begins: bool = False) -> None:
        """Hand over records."""
        with self._lock:
            first = not self._waiting
            if begins or first:
                self._waiting.append(_Chunk(bytearray(data), begins))
            else:
                self._waiting[-1].data.extend(data)
            self._waiting_bytes += len(data)
            if begins:
                self.full = False
        if first:
            self._wake.set()
        elif self._waiting_bytes > _MOST_WAITING_BYTES:
            self.failure = f"{self._waiting_bytes >> 20} MiB wait for the disk"

    def clear(self) -> None:
        """Forget what could not be written."""
        with self._lock:
            self._waiting, self._waiting_bytes = [], 0
        self.failure, self.full = "", False

    def stop(self) -> None:
        """Let the thread end when everything is written."""
        self._stopping.set()
        self._wake.set()

    # --- in the thread of its own ---

    def run(self) -> None:
        """Write until stopped."""
        while not self._stopping.wait(_PAUSE_S):
            self._wake.wait()
            self._wake.clear()
            self.flush()
        self.flush()
        if self._file is not None:
            self._file.close()
        os.close(self._lock_file)

    def flush(self) -> None:
        """Write what is queued, without waiting for the thread."""
        with self._writing:
            self._write_waiting()

    def _write_waiting(self) -> None:
        with self._lock:
            chunks, self._waiting, self._waiting_bytes = self._waiting, [], 0
        try:
            for chunk in chunks:
                if not self.failure:
                    self._write(chunk)
        except OSError as error:
            self.failure = error.strerror or str(error)
        with self._lock:  # not if the next segment is on its way already
            self.full = self._grown and not any(chunk.begins for chunk in self._waiting)

    def _write(self, chunk: _Chunk) -> None:
        if chunk.begins or self._frames is None:
            self._open_next()
        frames = self._frames
        if frames is None:
            return
        for frame in frames.frames(chunk.data):
            self._make_room(frames.size + len(frame))
            frames.write(frame)
        if chunk.begins:
            self._head_bytes = frames.size
        enough = max(self._size_bytes // _SEGMENTS, 2 * self._head_bytes)  # images are to be the smaller part
        self._grown = frames.size >= min(enough, self._size_bytes // 2)

    def _open_next(self) -> None:
        file, frames = self._file, self._frames
        self._file = self._frames = None
        if file is not None and frames is not None:
            self._kept.append((path_of(self.folder, self._number), frames.size))
            with file:
                os.fsync(file.fileno())
        self._number += 1
        handle = os.open(path_of(self.folder, self._number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(handle, "wb")
        self._frames = Frames(self._file)

    def _make_room(self, current_bytes: int) -> None:
        """Delete the oldest segments until one of this size fits in."""
        while self._kept and current_bytes + sum(size for _, size in self._kept) > self._size_bytes:
            path, _ = self._kept.pop(0)
            path.unlink(missing_ok=True)
