"""The dashboard on a journal: the world as it was at any moment of it, what was decided until then, and its charts.

The journal is read once from its beginning, which gives the charts and an index: where each segment begins, and which
pods had no node then. A moment is then shown from the nearest image before it. Memory is bounded: two worlds, the rings
of the charts, an entry for each segment, and pods without a node at the beginning of at most 64 segments.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from moorage.adapters.dashboard.backend import SeriesRequest
from moorage.adapters.journal.frames import number_of
from moorage.adapters.journal.reader import JournalReader, JournalTail
from moorage.adapters.journal.records import EMPTY, Start
from moorage.adapters.journal.timeline import JournalScene, Narrator
from moorage.core.events import TrialRecalled
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.framework.profiles import Profile
from moorage.framework.registry import Registry
from moorage.views.chartpage import MOST_POINTS, charts_page
from moorage.views.rings import Rings
from moorage.views.timeline import KEPT
from moorage.views.words import Happening
from moorage.views.world import Told, World

MOST_UNBOUND = 64
"""So many segments of the middle of a run a reader may begin with."""
_WHOLE = (1.0, 2048)
"""The charts of a whole journal: steps of a second at first, which double when they are full."""
_FINER = 1.5
"""A range is read again if it can be shown in steps that are so much finer."""
_KEPT_RANGES = 8


@dataclass(slots=True)
class SegmentStart:
    """Where a segment begins."""

    path: Path
    time_s: float
    happened: Sequence[Happening]
    """What its first record tells."""
    before: int
    """Entries of the timeline before it."""
    unbound: Sequence[Pod] | None
    """Pods without a node; None where a reader knows nothing before."""
    usable: bool = True
    """Whether a reader can begin here."""


class JournalShow:
    """One journal; `now_s` is the moment that is shown."""

    def __init__(self, folder: Path, profiles: Sequence[Profile], registry: Registry) -> None:
        self._folder = folder
        self._profiles = profiles
        self._registry = registry
        self._tail = JournalTail(folder)
        self._narrator = Narrator(registry)
        self._starts: list[SegmentStart] = []
        self._tip = self._world(Rings(fixed=(), last=_WHOLE))
        """The world at the end, which has the charts."""
        self._last_s = 0.0
        self._ranges: OrderedDict[SeriesRequest, dict[str, Any]] = OrderedDict()
        self._read_on()
        self.now_s = self.span[1]

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last time of the journal."""
        return (self._starts[0].time_s if self._starts else 0.0), self._last_s

    def moment(self, wanted_s: float) -> float:
        """The moment of the journal that is meant; from its old end on this is the new end, as it may have grown."""
        last_s = self._last_s
        self._read_on()
        return self._last_s if wanted_s >= last_s else max(wanted_s, self.span[0])

    def at(self, until_s: float) -> World:
        """The world as it was then, from the nearest image before; what happened until then is its timeline."""
        place = self._nearest(until_s)
        world = self._world(_no_charts())
        world.timeline.last = self._starts[place].before if self._starts else 0
        for scene in self._scenes(place, until_s):
            if scene.anew:
                world = self._successor(world, scene.time_s, scene.time_s)
            world.tell(_told(scene), scene.time_s)
        while place > 0 and len(world.timeline) < KEPT:
            place -= 1
            world.timeline.precede(self._happened_in(place))
        return world

    def charts(self, asked: SeriesRequest) -> dict[str, Any]:
        """The charts of a range; a part that can be shown more finely is read again."""
        asked = replace(asked, points=max(2, min(asked.points, MOST_POINTS)))
        found = charts_page(self._tip.series, asked.since_s, asked.until_s, asked.points, asked.step_s)
        first_s, last_s = self.span
        since_s, until_s = max(asked.since_s, first_s), min(asked.until_s, last_s)
        finest_s = max((until_s - since_s) / asked.points, asked.step_s, 1.0)
        if until_s <= since_s or found["step"] < _FINER * finest_s:
            return found
        if asked not in self._ranges:
            self._ranges[asked] = self._closer(asked, since_s, until_s) | {"span": found["span"]}
            if len(self._ranges) > _KEPT_RANGES:
                self._ranges.popitem(last=False)
        return self._ranges[asked]

    # --- the journal as a whole ---

    def _read_on(self) -> None:
        """Read what was added, and keep account of it."""
        for path, record in self._tail.more():
            scene = self._narrator.scene(record)
            if scene is None:
                continue
            if isinstance(record, Start):
                self._index(path, record, scene)
            if scene.anew:
                self._tip = self._successor(self._tip, self._last_s or scene.time_s, scene.time_s)
            self._tip.tell(_told(scene), scene.time_s)
            self._last_s = max(self._last_s, scene.time_s)
        self._tip.series.measure(self._last_s)

    def _index(self, path: Path, start: Start, scene: JournalScene) -> None:
        known = scene.anew or start.begins == EMPTY
        unbound = None if known else [pod for pod in self._tip.pods.values() if pod.node is None]
        happened, before = scene.happened, self._tip.timeline.last
        self._starts.append(SegmentStart(path, scene.time_s, happened, before, unbound))
        holding = [each for each in self._starts if each.unbound is not None]
        if len(holding) > MOST_UNBOUND:
            for each in holding[1::2]:
                each.unbound, each.usable = None, False

    def _successor(self, before: World, last_s: float, now_s: float) -> World:
        """A world that knows nothing of the cluster, and goes on with charts and timeline."""
        before.series.measure(last_s)
        before.series.rings.pause(now_s)
        world = self._world(before.series.rings)
        world.timeline, world.series.leaders = before.timeline, before.series.leaders
        return world

    # --- a part of it ---

    def _nearest(self, until_s: float) -> int:
        """The place of the last segment before a moment that a reader can begin with."""
        places = (at for at, each in enumerate(self._starts) if each.usable and each.time_s <= until_s)
        return max(places, default=0)

    def _scenes(self, place: int, until_s: float) -> Iterator[JournalScene]:
        if not self._starts:
            return
        start = self._starts[place]
        reader, narrator = JournalReader(self._folder), Narrator(self._registry, start.unbound)
        paths = (path for path in reader.segments if number_of(path) >= number_of(start.path))
        records = itertools.chain.from_iterable(map(reader.records_of, paths))
        for scene in filter(None, map(narrator.scene, records)):
            if scene.time_s > until_s:
                return
            yield scene

    def _happened_in(self, place: int) -> Iterable[Happening]:
        """The latest of what happened in one segment."""
        start, narrator = self._starts[place], Narrator(self._registry)
        found = deque(start.happened, maxlen=KEPT)
        for record in JournalReader(self._folder).records_of(start.path):
            scene = None if isinstance(record, Start) else narrator.scene(record)
            found += () if scene is None else scene.happened
        return found

    def _closer(self, asked: SeriesRequest, since_s: float, until_s: float) -> dict[str, Any]:
        """The charts of a range in finer steps than those of the whole."""
        world = self._world(_no_charts())
        fine = Rings(fixed=(), last=(max(1.0, (until_s - since_s) // asked.points), 2 * asked.points))
        last_s = since_s
        for scene in itertools.chain(self._scenes(self._nearest(since_s), until_s), [JournalScene(until_s)]):
            if scene.time_s >= since_s and world.series.rings is not fine:
                world.series.rings = fine
                world.series.measure(since_s)
            if scene.anew:
                world = self._successor(world, last_s, scene.time_s)
            world.tell(_told(scene), scene.time_s)
            last_s = scene.time_s
        world.series.measure(until_s)
        world.series.leaders = self._tip.series.leaders
        world.series.currency = self._tip.series.currency
        return charts_page(world.series, since_s, until_s, asked.points, asked.step_s)

    def _world(self, rings: Rings) -> World:
        return World(self._profiles, answers_to_all=True, derives=False, rings=rings)


def _told(scene: JournalScene) -> list[Told]:
    """What a world is told; it has no pods of its own to try other profiles on."""
    return [*(each for each in scene.events if not isinstance(each, TrialRecalled)), *scene.happened]


def _no_charts() -> Rings:
    """Rings that measure next to nothing."""
    return Rings(fixed=(), last=(1e9, 2))
