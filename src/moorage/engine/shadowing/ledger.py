"""What was compared so far: counters for everything, and the newest differences one by one."""

from __future__ import annotations

from collections import deque

from moorage.engine.shadowing.verdicts import (
    DISAGREEMENT,
    ComparedEviction,
    Decision,
    PluginTally,
    ShadowCounts,
    ShadowVerdict,
)

KEPT = 1000


class Ledger:
    """Its size does not depend on how long it is kept."""

    def __init__(self, kept: int = KEPT) -> None:
        self.counts = ShadowCounts()
        self.differences: deque[Decision] = deque(maxlen=kept)
        """The newest decisions that are no agreement, oldest first."""
        self.evictions: deque[ComparedEviction] = deque(maxlen=kept)

    def note(self, decision: Decision) -> None:
        """A decision was compared."""
        counts, verdict = self.counts, decision.verdict
        key = (decision.scheduler, verdict)
        counts.verdicts[key] = counts.verdicts.get(key, 0) + 1
        if verdict not in DISAGREEMENT and verdict is not ShadowVerdict.UNDECIDED:
            return
        counts.left_out += len(self.differences) == self.differences.maxlen
        self.differences.append(decision)
        self._attribute(decision)

    def skip(self, decisions: int = 1) -> None:
        """So many decisions were taken over without a comparison, as there was no time for one."""
        self.counts.skipped += decisions

    def evicted(self, eviction: ComparedEviction) -> None:
        """The other scheduler evicted pods."""
        tally = self.counts.evictions
        tally.nominations += 1
        tally.same_node += eviction.there == eviction.here
        tally.victims_there += len(eviction.victims_there)
        tally.victims_here += len(eviction.victims_here)
        self.evictions.append(eviction)

    def _attribute(self, decision: Decision) -> None:
        """Which plugins the difference is due to; there are as many tallies as plugins."""
        finding = decision.finding
        for name in finding.rejected:
            self._tally(name).rejections += 1
        points = finding.difference
        for name, value in points.items():
            self._tally(name).points += value
        if points:
            self._tally(max(points, key=lambda name: points[name])).decisive += 1
        for name in finding.without:
            self._tally(name).without += 1
        for name in finding.reversed:
            self._tally(name).reversed += 1

    def _tally(self, plugin: str) -> PluginTally:
        return self.counts.plugins.setdefault(plugin, PluginTally())
