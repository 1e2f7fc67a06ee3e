"""Which plugins have something to say about a class of equal pods, and the kept answers of those that can be kept.

Signs are ordered: first those of plugins that read nodes only, then those of plugins that also read the pods on a node.
Classes that differ only in the latter share the former's answers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import PodTemplate
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Point, Reads
from moorage.framework.profiles import Profile
from moorage.framework.status import Code, OnlyNodes, Status
from moorage.framework.views import ClassView, NodeView, Scorer

_POD_READERS = (Reads.AMOUNTS, Reads.PODS)
_KEPT_CLASSES = 256
_KEPT_TEMPLATES = 4096


@dataclass(frozen=True, slots=True)
class PreFiltered:
    """What PreFilter plugins said: who refuses the pod, who narrows the nodes, whose Filter is left out."""

    refusal: Status | None = None
    only: tuple[tuple[str, OnlyNodes], ...] = ()
    skipped: frozenset[str] = frozenset()

    def and_then(self, later: PreFiltered) -> PreFiltered:
        """Both together; the first refusal counts."""
        return PreFiltered(self.refusal or later.refusal, (*self.only, *later.only), self.skipped | later.skipped)


def pre_filter(plugins: Iterable[Any], cycle: Cycle) -> PreFiltered:
    """Ask PreFilter plugins in order; the first refusal ends it."""
    only: list[tuple[str, OnlyNodes]] = []
    skipped: set[str] = set()
    for plugin in plugins:
        answer = plugin.pre_filter(cycle)
        if isinstance(answer, OnlyNodes):
            only.append((plugin.name, answer))
        elif answer is not None and answer.code is Code.SKIP:
            skipped.add(plugin.name)
        elif answer is not None and answer.code is not Code.SUCCESS:
            return PreFiltered(Status(answer.code, answer.reasons, plugin.name))
    return PreFiltered(None, tuple(only), frozenset(skipped))


def wanted_scorers(scorers: Iterable[Scorer], cycle: Cycle, rows: Rows) -> tuple[Scorer, ...]:
    """Run PreScore; the scorers that do not skip the pod."""
    wanted = []
    for scorer in scorers:
        pre_score = getattr(scorer.plugin, "pre_score", None)
        status = pre_score(cycle, rows) if pre_score is not None else None
        if status is None or status.code is not Code.SKIP:
            wanted.append(scorer)
    return tuple(wanted)


@dataclass(slots=True)
class PodClass:
    """One class of equal pods."""

    view: ClassView
    kept: PreFiltered
    """What PreFilter of the keepable plugins said."""
    plain: bool
    """Whether the kept ranks alone decide."""
    templates: list[PodTemplate] = field(default_factory=list)


class _Kept(NamedTuple):
    """Plugins whose answers are kept, by extension point."""

    pre_filters: tuple[Any, ...]
    filters: tuple[Any, ...]
    scorers: tuple[Scorer, ...]


class ClassTable:
    """Finds or makes the class of a pod; the least recently used ones are dropped."""

    def __init__(self, profile: Profile) -> None:
        pre_filters, filters = profile.at(Point.PRE_FILTER), profile.at(Point.FILTER)
        scorers = make_scorers(profile)
        self.open_pre_filters = tuple(p for p in pre_filters if p.reads is Reads.CLUSTER)
        """Asked at every decision, like the next two."""
        self.open_filters = tuple(p for p in filters if p.reads is Reads.CLUSTER)
        self.open_scorers = tuple(s for s in scorers if _asked_always(s))
        kept = [s for s in scorers if not _asked_always(s)]
        self._by_node = _Kept(
            tuple(p for p in pre_filters if p.reads is Reads.NODE),
            tuple(p for p in filters if p.reads is Reads.NODE),
            tuple(s for s in kept if s.plugin.reads is Reads.NODE),
        )
        self._by_pods = _Kept(
            tuple(p for p in pre_filters if p.reads in _POD_READERS),
            tuple(p for p in filters if p.reads in _POD_READERS),
            tuple(s for s in kept if s.plugin.reads in _POD_READERS),
        )
        everyone = {p.name: p for p in (*pre_filters, *filters, *(s.plugin for s in scorers))}.values()
        self._node_signers = tuple(p for p in everyone if p.reads is Reads.NODE)
        self._pod_signers = tuple(p for p in everyone if p.reads in _POD_READERS)
        self._always_open = bool(self.open_pre_filters or self.open_filters or self.open_scorers)
        self._spare: Ints | None = None
        self._by_template: OrderedDict[PodTemplate, PodClass] = OrderedDict()
        self._by_signs: OrderedDict[tuple[Hashable, ...], PodClass] = OrderedDict()
        self._node_parts: OrderedDict[tuple[Hashable, ...], tuple[NodeView, PreFiltered]] = OrderedDict()

    def find(self, cycle: Cycle) -> PodClass:
        """The class of the pod being decided."""
        template = cycle.template
        found = self._by_template.get(template)
        if found is not None:
            self._by_template.move_to_end(template)
            return found
        node_signs = tuple(plugin.sign(template) for plugin in self._node_signers)
        signs = (node_signs, *(plugin.sign(template) for plugin in self._pod_signers))
        found = self._by_signs.get(signs)
        if found is None:
            found = self._by_signs[signs] = self._make(cycle, node_signs)
            if len(self._by_signs) > _KEPT_CLASSES:
                self._drop(self._by_signs.popitem(last=False)[1])
        else:
            self._by_signs.move_to_end(signs)
        self._by_template[template] = found
        found.templates.append(template)
        if len(self._by_template) > _KEPT_TEMPLATES:
            oldest, its_class = self._by_template.popitem(last=False)
            its_class.templates.remove(oldest)
        return found

    def _drop(self, old: PodClass) -> None:
        for template in old.templates:
            del self._by_template[template]
        self._spare = old.view.rank

    def _make(self, cycle: Cycle, node_signs: tuple[Hashable, ...]) -> PodClass:
        nodes, said = self._node_part(cycle, node_signs)
        said = said.and_then(pre_filter(self._by_pods.pre_filters, cycle))
        filters = tuple(p for p in self._by_pods.filters if p.name not in said.skipped)
        scorers = wanted_scorers(self._by_pods.scorers, cycle, cycle.state.rows())
        plain = not (self._always_open or said.only or said.refusal)
        spare, self._spare = self._spare, None
        return PodClass(ClassView(nodes, filters, scorers, spare), said, plain)

    def _node_part(self, cycle: Cycle, signs: tuple[Hashable, ...]) -> tuple[NodeView, PreFiltered]:
        found = self._node_parts.get(signs)
        if found is None:
            said = pre_filter(self._by_node.pre_filters, cycle)
            filters = tuple(p for p in self._by_node.filters if p.name not in said.skipped)
            scorers = wanted_scorers(self._by_node.scorers, cycle, cycle.state.rows())
            found = self._node_parts[signs] = (NodeView(filters, scorers), said)
            if len(self._node_parts) > _KEPT_CLASSES:
                self._node_parts.popitem(last=False)
        else:
            self._node_parts.move_to_end(signs)
        return found


def make_scorers(profile: Profile) -> tuple[Scorer, ...]:
    """The score plugins of a profile with their weights, in order."""
    return tuple(
        Scorer(plugin, profile.weight(plugin.name), hasattr(plugin, "normalize")) for plugin in profile.at(Point.SCORE)
    )


def _asked_always(scorer: Scorer) -> bool:
    return scorer.plugin.reads is Reads.CLUSTER or (scorer.plugin.reads in _POD_READERS and scorer.normalizes)
