"""Charts as SVG: means with their intervals, one line per configuration, and figures over time.

Colours are classes (`c0`, `c1`, ...), so that the page decides what they look like by day and by night. Every text is
escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10

from moorage.sim.experiments.statistics import MeanInterval

COLOURS = 8
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _BOTTOM = 640, 170, 70, 26, 8, 26
_HEIGHT = 240
_TICKS = 5
_STEPS = (1, 2, 2.5, 5, 10)


def number_text(value: float) -> str:
    """A number for people: four significant digits, without noise."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.3g}"
    digits = max(0, 3 - floor(log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def interval_chart(title: str, means: Mapping[str, MeanInterval]) -> str:
    """A dot for each mean and a line for its interval, one below the other, on one scale."""
    ends = [end for each in means.values() for end in (each.mean, each.low, each.high) if end is not None]
    scale = _Scale(min(ends), max(ends), _LEFT, _WIDTH - _RIGHT)
    height = _TOP + _ROW * len(means) + _BOTTOM
    parts = [_grid(scale, _TOP, height - _BOTTOM)]
    for index, (name, each) in enumerate(means.items()):
        y, colour = _TOP + _ROW * index + _ROW / 2, f"c{index % COLOURS}"
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 4:g}" text-anchor="end">{escape(_short(name))}</text>')
        if each.low is not None and each.high is not None:
            x1, x2 = scale.at(each.low), scale.at(each.high)
            parts.append(f'<line class="{colour}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y:g}" y2="{y:g}" stroke-width="2"/>')
        said = escape(_interval_text(name, each))
        parts.append(
            f'<circle class="{colour}" cx="{scale.at(each.mean):.1f}" cy="{y:g}" r="5"><title>{said}</title></circle>'
        )
        text = escape(number_text(each.mean))
        parts.append(f'<text class="value" x="{_WIDTH - _RIGHT + 12}" y="{y + 4:g}">{text}</text>')
    return _svg(title, height, parts)


def _interval_text(name: str, each: MeanInterval) -> str:
    if each.low is None or each.high is None:
        return f"{name}: {number_text(each.mean)}"
    return f"{name}: {number_text(each.mean)} ({number_text(each.low)} to {number_text(each.high)})"


def line_chart(title: str, lines: Mapping[str, Sequence[Sequence[float]]], time_unit: str = "s") -> str:
    """A line for each name, through its points (seconds, value)."""
    points = [point for each in lines.values() for point in each]
    across = _Scale(0, max(point[0] for point in points), 60, _WIDTH - 20, tight=True)
    values = [point[1] for point in points]
    up = _Scale(min([0.0, *values]), max(values), _HEIGHT - _BOTTOM, 12)
    parts = []
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<line class="grid" x1="60" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="52" y="{y + 4:.1f}" text-anchor="end">{number_text(tick)}</text>')
    for tick in across.ticks():
        x, said = across.at(tick), f"{number_text(tick)} {escape(time_unit)}"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{said}</text>')
    for index, (name, each) in enumerate(lines.items()):
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in each)
        said = f"<title>{escape(name)}</title>"
        parts.append(f'<polyline class="c{index % COLOURS} line" points="{path}">{said}</polyline>')
    return _svg(title, _HEIGHT, parts)


class _Scale:
    """From values to places in a picture."""

    def __init__(self, low: float, high: float, first: float, last: float, *, tight: bool = False) -> None:
        if high - low < 1e-12 * max(abs(high), abs(low), 1e-12):
            low, high = low - (abs(low) or 1) * 0.5, high + (abs(high) or 1) * 0.5
        pad = 0 if tight else (high - low) * 0.05
        self._low, self._high = low - pad, high + pad
        self._first, self._last = first, last

    def at(self, value: float) -> float:
        part = (value - self._low) / (self._high - self._low)
        return self._first + part * (self._last - self._first)

    def ticks(self) -> list[float]:
        """A few round numbers."""
        rough = (self._high - self._low) / _TICKS
        power = 10.0 ** floor(log10(rough))
        step = next(power * each for each in _STEPS if power * each >= rough)
        first = floor(self._low / step) + 1
        last = floor(self._high / step + 1e-9)
        return [round(number * step, 12) for number in range(first, last + 1)]


def _grid(scale: _Scale, top: float, bottom: float) -> str:
    parts = []
    for tick in scale.ticks():
        x, said = scale.at(tick), escape(number_text(tick))
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{said}</text>')
    return "".join(parts)


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(title, quote=True)}">'
    return f"{head}{''.join(parts)}</svg>"


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
