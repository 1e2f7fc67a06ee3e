"""The demo in a terminal: a live view on the alternate screen, gone without a trace when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live

from moorage.cli.demo_frame import ASCII, UNICODE, Title, draw
from moorage.sim.demo.picture import take_picture
from moorage.sim.demo.stage import DemoStage
from moorage.views.words import Happening

_REDRAW_S = 0.25
"""The longest time between two frames when nothing happens; the size of the terminal is read again, too."""


class ScreenView:
    """Draws into a terminal; a context manager, as the terminal must be restored."""

    def __init__(self, console: Console, title: Title) -> None:
        self._console = console
        self._title = title
        self._glyphs = ASCII if console.options.ascii_only else UNICODE
        self._live = Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False)
        self._drawn: tuple[float, tuple[int, int]] | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, stage: DemoStage, happenings: Sequence[Happening]) -> None:
        """Draw a frame if there is something new to see."""
        width, height = self._console.size
        if self._drawn is not None and not happenings:
            drawn_s, size = self._drawn
            if stage.elapsed_s - drawn_s < _REDRAW_S and size == (width, height):
                return
        self._drawn = (stage.elapsed_s, (width, height))
        frame = draw(take_picture(stage), self._title, width, height, self._glyphs)
        self._live.update(Group(*frame), refresh=True)
