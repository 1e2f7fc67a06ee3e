"""A shadow inside of a world that is shown: it gets the same events, and its report is a page.

Everything belongs to the thread of the world. Figures of the state take time in proportion to the pods, so they are
taken at most every `FRESH_S`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from moorage.core.events import Event
from moorage.engine.shadowing.following import Follow
from moorage.engine.shadowing.profiles import judge_of
from moorage.engine.shadowing.shadow import ShadowTerms
from moorage.framework.profiles import Profile
from moorage.views.shadow import ShadowReport, document
from moorage.views.shadownames import Names
from moorage.views.shadowpage import VERDICTS, why, world_rows
from moorage.views.standing import Standing, StandingMeasure

FRESH_S = 15.0
_SHOWN = 200
_STEP = 8


class WorldShadow:
    """Compares the decisions of other schedulers from the moment when the world is complete."""

    def __init__(self, profiles: Sequence[Profile], names: Collection[str]) -> None:
        self._follow = Follow(ShadowTerms(profiles, names))
        self._judges = {name: judge_of(profiles, name).scheduler_name for name in names}
        self._measure = StandingMeasure(self._follow.engine)
        self._standing: tuple[float, Standing] | None = None
        self._began_s = 0.0

    def begin(self, now: float) -> None:
        """Everything from now on is news."""
        self._began_s = now
        self._follow.begin()

    def tell(self, event: Event, now: float) -> None:
        """Something was seen."""
        self._follow.tell(event, now)
        self._follow.review(now, 1)

    def page(self, now: float) -> dict[str, Any]:
        """The report so far, with the words that people read."""
        self._follow.review(now, _STEP)
        if self._standing is None or now - self._standing[0] >= FRESH_S:
            self._standing = now, self._measure.take()
        ledger = self._follow.ledger
        found = document(
            ShadowReport(
                self._follow.mode,
                self._judges,
                self._began_s,
                now,
                ledger.counts,
                tuple(ledger.differences)[-_SHOWN:],
                tuple(ledger.evictions)[-_SHOWN:],
                self._standing[1],
            ),
            Names(),
        )
        return {
            "on": True,
            "schedulers": found["schedulers"],
            "total": found["decisions"]["total"],
            "agreement": found["agreement"],
            "conclusions": found["conclusions"],
            "verdicts": [
                {"verdict": name, "words": words, "number": found["decisions"][name]}
                for name, words in VERDICTS.items()
            ],
            "world": [{"what": what, "figure": there} for what, there, _ in world_rows(found["worlds"])],
            "plugins": found["plugins"],
            "differences": [
                {"pod": each["pod"], "words": VERDICTS[each["verdict"]], "there": each["there"] or "",
                 "here": each["here"] or "", "why": why(each), "at": each["at"]}
                for each in reversed(found["differences"])
            ],
        }  # fmt: skip
