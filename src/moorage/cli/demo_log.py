"""The demo where there is no terminal: one line per event, written at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TextIO

from moorage.sim.demo.stage import DemoStage
from moorage.views.words import WORDS, Happening, HappeningKind

RUNNING_VERBOSITY = 2
"""From this verbosity on, pods that start to run are logged too."""


class LogView:
    """Writes happenings as text or JSON lines."""

    def __init__(self, stream: TextIO, *, log_format: str, verbosity: int) -> None:
        self._stream = stream
        self._line: Callable[[Happening], str] = _json_line if log_format == "json" else _text_line
        self._hidden = frozenset() if verbosity >= RUNNING_VERBOSITY else frozenset({HappeningKind.RUNNING})

    def begin(self, url: str) -> None:
        """Print the address of the dashboard."""
        text = json.dumps({"at_s": 0.0, "what": "dashboard", "url": url}) if self._line is _json_line else ""
        self._stream.write(f"{text or f'dashboard at {url}'}\n")
        self._stream.flush()

    def show(self, _: DemoStage, happenings: Sequence[Happening]) -> None:
        """Write what is new."""
        lines = [self._line(happening) for happening in happenings if happening.what not in self._hidden]
        if lines:
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()


def _text_line(happening: Happening) -> str:
    minutes, seconds = divmod(happening.at_s, 60)
    word = "" if happening.what is HappeningKind.STORY else WORDS[happening.what].word
    return f"{int(minutes)}:{seconds:04.1f}  {word:<9} {happening.text}"


def _json_line(happening: Happening) -> str:
    document = {"at_s": round(happening.at_s, 3), "what": WORDS[happening.what].word}
    subject = {"subject": happening.name} if happening.name else {}
    return json.dumps({**document, **subject, **happening.facts})
