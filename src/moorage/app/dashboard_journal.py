"""The dashboard on a journal: the world as it was at any moment of it, and what was decided until then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moorage.adapters.journal.timeline import entries, events, span
from moorage.core.events import TrialRecalled
from moorage.framework.profiles import Profile
from moorage.framework.registry import Registry
from moorage.views.words import HappeningKind
from moorage.views.world import World

_ANEW = (HappeningKind.STARTED, HappeningKind.GAP)


class JournalShow:
    """One journal; `now_s` is the moment that is shown."""

    def __init__(self, folder: Path, profiles: Sequence[Profile], registry: Registry) -> None:
        self.span = span(folder)
        self.now_s = self.span[1]
        self._folder = folder
        self._profiles = profiles
        self._registry = registry

    def moment(self, wanted_s: float) -> float:
        """The moment of the journal that is meant; from its old end on this is the new end, as it may have grown."""
        last_s, self.span = self.span[1], span(self._folder)
        return self.span[1] if wanted_s >= last_s else max(wanted_s, self.span[0])

    def at(self, until_s: float) -> World:
        """The world as it was then; reads the journal up to that moment."""
        told = [*entries(self._folder, until_s=until_s)]
        begins = [each.at_s for each in told if each.what in _ANEW]
        world = self._world()
        for time_s, seen in events(self._folder, self._registry, until_s=until_s):
            if begins and begins[0] <= time_s:
                # Another process, or a gap: what was removed in between is not in the journal.
                while begins and begins[0] <= time_s:
                    begins.pop(0)
                world = self._world()
            world.tell([each for each in seen if not isinstance(each, TrialRecalled)], time_s)
        world.tell(told, until_s)
        return world

    def _world(self) -> World:
        return World(self._profiles, answers_to_all=True, derives=False)
