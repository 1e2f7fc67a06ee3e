"""Pods moved elsewhere: the fewest whose leaving lets the pod in, each with a node that is proven to take it.

Proven means decided by the profile that is responsible for the moved pod, with the pod in question already in place and
every other moved pod in its new place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from moorage.core.disruption.away import MOVED, Away
from moorage.core.disruption.ledger import belongs_to_node
from moorage.core.edits import Edits, MovePod
from moorage.core.pods import Pod, PodTemplate, as_pending
from moorage.core.state import NOWHERE, PodRecord
from moorage.engine.counterfactual.objections import Objections, shortage
from moorage.engine.counterfactual.remedies import Remedies
from moorage.engine.counterfactual.scene import Scene
from moorage.framework.contract import SlackFilter
from moorage.framework.runner import Runner

_MOST_ROWS = 64
_MOST_PODS = 4
"""More than so many moves for one pod are no small change."""
_MOST_PROOFS = 48
_MOST_RELATED = 16
_MOST_LOOKS = 4
"""For so many nodes pods in the same domains are looked at, too."""


def moves(
    scene: Scene, runner: Runner, remedies: Remedies, pod: Pod, objections: Objections
) -> Iterator[tuple[Edits, float]]:
    """Sets of moves with their cost, the most promising nodes first."""
    search = _Moves(scene, runner, remedies, pod)
    lacking = shortage(scene, pod, objections.rows)
    promising = np.flatnonzero((objections.bits != 0) & (objections.fixed == 0))
    order = sorted(promising.tolist(), key=lambda i: (lacking[i], scene.state.node(int(objections.rows[i])).name))
    for index in order[:_MOST_ROWS]:
        found = search.on_row(int(objections.rows[index]), set(objections.at(index)))
        if found:
            yield found, 2.0 + len(found)
        if search.exhausted:
            return


class _Moves:
    def __init__(self, scene: Scene, runner: Runner, remedies: Remedies, pod: Pod) -> None:
        self._scene = scene
        self._state = scene.state
        self._runner = runner
        self._filters = {plugin.name for plugin in runner.plugins.filter}
        self._counting = {plugin.name for plugin in runner.plugins.filter if isinstance(plugin, SlackFilter)}
        """Filters that reject for amounts only."""
        self._remedies = remedies
        self._pod = pod
        self._proofs = 0
        self._stuck: set[PodTemplate] = set()
        """What has no other place."""
        self._about: list[tuple[PodRecord, set[str]]] | None = None
        self._looks = 0

    @property
    def exhausted(self) -> bool:
        return self._proofs >= _MOST_PROOFS

    def on_row(self, row: int, plugins: set[str]) -> Edits:
        """The moves that let the pod in on a row; empty if none were found."""
        here = [record for record in self._state.records_on(row) if movable(record)]
        looks = self._remedies.separate(plugins) and self._looks < _MOST_LOOKS
        candidates = [*here, *(self._related(row) if looks else ())]
        candidates = [each for each in candidates if each.pod.template not in self._stuck]
        slack = self._slack(row, plugins) if plugins <= self._counting else {}
        for record in sorted(candidates, key=importance):
            if not _suffices(record, slack) or not self._admits(row, [record]):
                continue
            found = self._places(row, [record])
            if found or self.exhausted:
                return found
        return self._several(row, candidates)

    def _several(self, row: int, candidates: Sequence[PodRecord]) -> Edits:
        """The larger ones go until there is room; then those that need not go come back."""
        gone: list[PodRecord] = []
        for record in sorted(candidates, key=lambda each: (each.pod.template.priority, -size(each))):
            gone.append(record)
            if self._admits(row, gone) or len(gone) > _MOST_PODS:
                break
        if not gone or len(gone) > _MOST_PODS or not self._admits(row, gone):
            return ()
        for record in list(gone):
            rest = [each for each in gone if each is not record]
            if rest and self._admits(row, rest):
                gone = rest
        return self._places(row, gone)

    def _slack(self, row: int, plugins: set[str]) -> dict[int, int]:
        """Resource column -> how much more the row could hold beside the pod; negative where that is too much."""
        others = frozenset(self._filters - plugins)
        found, _ = self._runner.slack(self._scene.cycle(self._pod), np.array([row], dtype=np.intp), others)
        return {column: int(left[0]) for column, left in found.items()}

    def _admits(self, row: int, gone: Iterable[PodRecord]) -> bool:
        with self._state.statement():
            Away(self._state).take(gone, MOVED)
            return self._scene.fits(self._runner, self._pod, row)

    def _places(self, row: int, gone: Sequence[PodRecord]) -> Edits:
        """A new node for each; empty if one of them has none."""
        self._proofs += 1
        found: list[MovePod] = []
        with self._state.statement():
            nodes = {record.pod.uid: record.node for record in gone}
            Away(self._state).take(gone, MOVED)
            if self._scene.put(self._pod, row) is None:
                return ()
            for pod in (record.pod for record in gone):
                placed = self._scene.place(as_pending(pod))
                if placed is None:
                    self._stuck.add(pod.template)
                    return ()
                found.append(MovePod(pod.namespace, pod.name, pod.uid, nodes[pod.uid], placed.node))
        return tuple(found)

    def _related(self, row: int) -> list[PodRecord]:
        """Pods elsewhere in the row's domains that rules between pods are about."""
        self._looks += 1
        labels, found = self._state.node(row).labels, []
        for record, keys in self._relations():
            there = self._state.node(record.row).labels
            if record.row != row and any(key in labels and labels[key] == there.get(key) for key in keys):
                found.append(record)
                if len(found) >= _MOST_RELATED:
                    break
        return found

    def _relations(self) -> list[tuple[PodRecord, set[str]]]:
        """The pods that rules between pods are about, with the topologies; looked for once."""
        if self._about is None:
            known: dict[PodTemplate, set[str]] = {}
            self._about = []
            for record in self._state.records():
                template = record.pod.template
                keys = known.get(template)
                if keys is None:
                    keys = known[template] = self._remedies.keys_between(self._pod.template, template)
                if keys and record.row != NOWHERE and movable(record):
                    self._about.append((record, keys))
        return self._about


def _suffices(record: PodRecord, slack: Mapping[int, int]) -> bool:
    """Whether the amounts would do without this pod; cheaper than asking every filter."""
    freed = dict(record.vector.pairs)
    return all(left + freed.get(column, 0) >= 0 for column, left in slack.items())


def movable(record: PodRecord) -> bool:
    """Daemons and static pods belong to their node; what is going goes anyway, and what is on its way is no fact."""
    stays = belongs_to_node(record.pod.template)
    return not stays and not record.assumed and record.pod.node is not None and record.pod.deleted_s is None


def importance(record: PodRecord) -> tuple[int, int, str]:
    """The least important first."""
    return record.pod.template.priority, size(record), record.pod.key


def size(record: PodRecord) -> int:
    """What a pod takes, roughly."""
    return record.vector.score_cpu_milli
