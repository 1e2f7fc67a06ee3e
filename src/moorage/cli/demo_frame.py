"""One frame of the demo's live view: exactly as many lines as the terminal has, none wider than it.

Nodes are drawn in as much detail as there is room for: a line each with bars and pods, several on a line, or one
character each. Colours are from the terminal's own palette, readable on light and dark backgrounds; no information is
conveyed by colour alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.text import Text

from moorage.core.phrases import counted
from moorage.sim.demo.picture import DemoPicture, NodePicture, WaitingPods
from moorage.views.nodemap import NodeState
from moorage.views.words import WORDS, Happening, HappeningKind, main_reason

_STYLES = {
    "placed": "green",
    "waits": "magenta",
    "preempts": "magenta",
    "evicted": "red",
    "keeps": "yellow",
    "complete": "cyan",
    "finished": "cyan",
}
_FULL, _CROWDED = 0.9, 0.7
_LONGEST_NODE_NAME = 20
_LEAST_RECENT = 3
_SMALLEST_HEIGHT = 10
"""Below this height only the latest events are shown."""


class Glyphs(NamedTuple):
    """What bars are made of."""

    full: str
    empty: str
    levels: str
    """From empty to full."""


UNICODE = Glyphs("█", "░", "▁▂▃▄▅▆▇█")
ASCII = Glyphs("#", ".", "01234567")


class Title(NamedTuple):
    """What stands above everything."""

    version: str
    scenario: str
    about: str
    dashboard: str = ""
    """The address of the dashboard; empty: there is none."""


def draw(picture: DemoPicture, title: Title, width: int, height: int, glyphs: Glyphs = UNICODE) -> list[Text]:
    """The lines of a frame."""
    lines = [_title_line(picture, title, width), _count_line(picture, width), _story_line(picture)]
    room = height - len(lines) - 1
    if height < _SMALLEST_HEIGHT:
        lines += _recent_lines(picture.recent, max(0, room))
    else:
        nodes = _node_lines(picture.nodes, width, room * 3 // 5, glyphs)
        lines += nodes
        lines += _below(picture, width, room - len(nodes))
    lines += [Text() for _ in range(height - len(lines))]
    del lines[height:]
    if height > 1:
        where = f"   dashboard {title.dashboard}" if title.dashboard else ""
        lines[-1] = Text(f" Ctrl-C ends{where}", style="dim")
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return lines


def _title_line(picture: DemoPicture, title: Title, width: int) -> Text:
    line = Text(" Moorage ", style="bold")
    line.append(title.version)
    line.append(f"  demo {title.scenario}: {title.about}", style="not bold")
    clock = f"{_clock(picture.elapsed_s)} "
    line.truncate(max(0, width - len(clock) - 1), overflow="ellipsis", pad=True)
    return line.append(" " + clock, style="bold")


def _count_line(picture: DemoPicture, width: int) -> Text:
    line = Text(" ")
    for number, word, style in (
        (picture.placed, "placed", "bold green"),
        (picture.waiting_pods, "waiting", "bold magenta" if picture.waiting_pods else "bold"),
        (picture.finished, "finished", "bold"),
        (picture.evicted, "evicted", "bold"),
    ):
        line.append(str(number), style=style).append(f" {word}   ")
    rate = picture.decisions_per_s
    line.append(f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}", style="bold").append(" decisions/s")
    speed = f", {picture.decision_ms:.2f} ms each" if picture.decision_ms else ""
    return line.append(speed) if line.cell_len + len(speed) <= width else line


def _story_line(picture: DemoPicture) -> Text:
    story = next((each for each in reversed(picture.recent) if each.what is HappeningKind.STORY), None)
    return Text(f" > {story.note}" if story else " > the nodes are up", style="bold cyan")


# Nodes


def _node_lines(nodes: Sequence[NodePicture], width: int, room: int, glyphs: Glyphs) -> list[Text]:
    """The most detailed drawing that fits."""
    drawings: tuple[Callable[[], list[Text]], ...] = (
        lambda: [Text(), *_node_table(nodes, width, glyphs)],
        lambda: _node_table(nodes, width, glyphs),
        lambda: _node_columns(nodes, width, 8, lambda share: _bar(share, 8, glyphs)),
        lambda: _node_columns(nodes, width, 4, lambda share: Text(f"{share:4.0%}", f"not bold {_load_style(share)}")),
    )
    for drawing in drawings:
        lines = drawing()
        if len(lines) <= room:
            return lines
    return _node_strips(nodes, width, glyphs)[:room]


def _node_table(nodes: Sequence[NodePicture], width: int, glyphs: Glyphs) -> list[Text]:
    """A line for each node: bars for cpu and memory, and the workloads of its pods."""
    zone_width = max((len(node.zone) for node in nodes), default=0)
    name_width = min(_LONGEST_NODE_NAME, max((len(node.name) for node in nodes), default=0))
    bar_width = max(4, min(14, (width - zone_width - name_width) // 7))
    load_width = bar_width + 5
    head = f" {'ZONE':<{zone_width}}  {'NODE':<{name_width}}  {'CPU':<{load_width}}  {'MEMORY':<{load_width}}  PODS"
    lines = [Text(head, style="dim")]
    for zone, members in groupby(nodes, key=lambda node: node.zone):
        for number, node in enumerate(members):
            line = Text(f" {'' if number else zone:<{zone_width}}  ", style="bold")
            line.append(f"{node.name:<{name_width}.{name_width}}  ", style="not bold")
            for share in (node.cpu, node.memory):
                line.append_text(_bar(share, bar_width, glyphs)).append(f" {share:4.0%}  ", style="not bold")
            if node.state is not NodeState.READY:
                line.append(f"{node.state.name.replace('_', ' ')}  ", style="bold red")
            line.append("  ".join(f"{app} {count}" for app, count in node.pods), style="not bold")
            lines.append(line)
    return lines


def _node_columns(
    nodes: Sequence[NodePicture], width: int, load_width: int, load: Callable[[float], Text]
) -> list[Text]:
    """Several nodes on a line, each with its cpu drawn by `load`; a zone begins a new line."""
    name_width = min(_LONGEST_NODE_NAME, max((len(node.name) for node in nodes), default=0))
    zone_width = max((len(node.zone) for node in nodes), default=0)
    each = max(1, (width - zone_width - 3) // (name_width + load_width + 3))
    lines = []
    for line, row in _zoned(nodes, zone_width, each):
        for node in row:
            style = "not bold" if node.state is NodeState.READY else "red strike"
            line.append(" ").append(f"{node.name:<{name_width}.{name_width}}", style=style).append(" ")
            line.append_text(load(node.cpu)).append(" ")
        lines.append(line)
    return lines


def _node_strips(nodes: Sequence[NodePicture], width: int, glyphs: Glyphs) -> list[Text]:
    """One character for each node, whose height is its cpu utilisation; `x` for an unschedulable node."""
    zone_width = max((len(node.zone) for node in nodes), default=0)
    each = max(1, width - zone_width - 3)
    lines = []
    for line, row in _zoned(nodes, zone_width, each):
        line.append(" ")
        for node in row:
            level = glyphs.levels[round(node.cpu * (len(glyphs.levels) - 1))]
            ready = node.state is NodeState.READY
            line.append(level if ready else "x", style=_load_style(node.cpu) if ready else "red")
        lines.append(line)
    return lines


def _zoned(nodes: Sequence[NodePicture], zone_width: int, each: int) -> Iterator[tuple[Text, list[NodePicture]]]:
    """A line for every `each` nodes of a zone, begun with the zone where it is the first, and these nodes."""
    for zone, members in groupby(nodes, key=lambda node: node.zone):
        row = list(members)
        for start in range(0, len(row), each):
            yield Text(f" {'' if start else zone:<{zone_width}} ", style="bold"), row[start : start + each]


def _bar(share: float, width: int, glyphs: Glyphs) -> Text:
    filled = min(width, round(share * width))
    bar = Text(glyphs.full * filled, style=f"not bold {_load_style(share)}")
    return bar.append(glyphs.empty * (width - filled), style="not bold dim default")


def _load_style(share: float) -> str:
    if share >= _FULL:
        return "red"
    return "magenta" if share >= _CROWDED else "green"


# Waiting pods and what happened


def _below(picture: DemoPicture, width: int, room: int) -> list[Text]:
    """Pending pods with their reasons, and the latest events; the height of the first part does not change with every
    pod.
    """
    gap = [Text()] if room > 2 * _LEAST_RECENT + 3 else []
    waiting_room = max(1, min(8, (room - 2 - 2 * len(gap)) // 3))
    waiting = _waiting_lines(picture.waiting, width, waiting_room)
    waiting += [Text()] * (waiting_room - len(waiting))
    lines = [*gap, _heading("WAITING", "and why"), *waiting, *gap, _heading("LATELY", "newest last")]
    return lines + _recent_lines(picture.recent, max(0, room - len(lines)))


def _heading(word: str, note: str) -> Text:
    return Text(f" {word}", style="bold").append(f"  {note}", style="not bold dim")


def _waiting_lines(waiting: Sequence[WaitingPods], width: int, room: int) -> list[Text]:
    """Complete messages if they fit, else without the part about preemption, else a line each, else some of them."""
    if not waiting:
        return [Text("   no pod waits", style="dim")]
    for whole in (True, False):
        lines = [part for group in waiting for part in _wrapped(_waiting_line(group, whole=whole), width)]
        if len(lines) <= room:
            return lines
    lines = [_waiting_line(group, whole=False) for group in waiting]
    if len(lines) > room > 1:
        left = sum(group.more + 1 for group in waiting[room - 1 :])
        lines[room - 1 :] = [Text(f"   and {counted(left, 'pod')} more", style="dim")]
    return lines[:room]


def _waiting_line(group: WaitingPods, *, whole: bool) -> Text:
    name = group.pod + (f" and {group.more} more" if group.more else "")
    message = group.message if whole else main_reason(group.message)
    return Text("   ").append(name, style="magenta").append(f": {message or 'not decided yet'}")


def _wrapped(line: Text, width: int) -> list[Text]:
    """The line wrapped to the width; the coloured part is at its beginning."""
    lines = [Text(part) for part in textwrap.wrap(line.plain, max(20, width - 1), subsequent_indent="     ")]
    lines[0].spans = line.spans
    return lines


def _recent_lines(recent: Iterable[Happening], room: int) -> list[Text]:
    """The latest events, the newest last."""
    lines: list[Text] = []
    for key, group in groupby(reversed(list(recent)), key=_likeness):
        if len(lines) >= room:
            break
        members = list(group)
        if key is None:
            lines += [_recent_line(member, member.text) for member in members]
        else:
            lines.append(_recent_line(members[-1], _together(members)))
    return lines[:room][::-1]


def _likeness(happening: Happening) -> tuple[object, ...] | None:
    """The key by which events may share a line; None for those that have their own."""
    if happening.what in (HappeningKind.STORY, HappeningKind.PLACED, HappeningKind.PREEMPTS):
        return None
    reason = main_reason(happening.note) if happening.what is HappeningKind.WAITS else ""
    return WORDS[happening.what].word, happening.at_s, happening.name.rpartition("-")[0], reason


def _together(members: Sequence[Happening]) -> str:
    first = members[-1]
    if len(members) == 1:
        return first.text
    text = f"{first.name} and {len(members) - 1} more"
    return f"{text}: {main_reason(first.note)}" if first.what is HappeningKind.WAITS else text


def _recent_line(happening: Happening, text: str) -> Text:
    line = Text(f"   {_clock(happening.at_s):>5}  ", style="dim")
    if happening.what is HappeningKind.STORY:
        return line.append(text, style="not dim bold cyan")
    word = WORDS[happening.what].word
    line.append(f"{word:<9}", style=f"not dim {_STYLES.get(word, 'default')}")
    return line.append(text, style="not dim default")


def _clock(time_s: float) -> str:
    """Minutes and seconds."""
    minutes, seconds = divmod(int(time_s), 60)
    return f"{minutes}:{seconds:02}"
