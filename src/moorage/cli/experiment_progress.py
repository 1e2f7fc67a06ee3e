"""How far an experiment is, and how much longer it takes: one line on a screen, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from moorage.adapters.clock import now_s
from moorage.sim.experiments.conduct import ExperimentProgress

_EVERY_S = 10.0
_MINUTE, _HOUR = 60, 3600


class ProgressLine:
    """Shows progress; a context that ends the line."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = now_s) -> None:
        self._out, self._clock = out, clock
        self._screen = out.isatty()
        self._began_s = self._shown_s = clock()
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def tell(self, progress: ExperimentProgress) -> None:
        """Show it, if it is time to."""
        now = self._clock()
        finished = progress.done + progress.failed
        last = finished == progress.number
        first = finished == progress.before
        if self._screen:
            self._out.write(f"\r\x1b[K{self.text(progress)}")
            self._out.flush()
            self._open = True
        elif last or first or now - self._shown_s >= _EVERY_S:
            self._out.write(f"{self.text(progress)}\n")
            self._out.flush()
            self._shown_s = now

    def text(self, progress: ExperimentProgress) -> str:
        """`12 of 60 combinations, 2 from before, 1 failed, 3m20s left`."""
        parts = [f"{progress.done} of {progress.number} combinations"]
        if progress.before:
            parts.append(f"{progress.before} from before")
        if progress.failed:
            parts.append(f"{progress.failed} failed")
        computed = progress.done + progress.failed - progress.before
        left = progress.number - progress.done - progress.failed
        if computed and left:
            parts.append(f"{duration((self._clock() - self._began_s) / computed * left)} left")
        return ", ".join(parts)

    def end(self) -> None:
        """Begin a new line if one is open."""
        if self._open:
            self._out.write("\n")
            self._out.flush()
            self._open = False


def duration(seconds: float) -> str:
    """`45s`, `3m20s`, `2h05m`."""
    whole = max(round(seconds), 0)
    if whole >= _HOUR:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s" if whole >= _MINUTE else f"{whole}s"
