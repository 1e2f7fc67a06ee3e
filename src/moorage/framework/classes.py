"""Which plugins have something to say about a class of equal pods, and the kept answers of those that can be kept.

Signs are ordered: first those of plugins that read nodes only, then those of plugins that also read the pods on a node.
Classes that differ only in the latter share the former's answers.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple
from weakref import ref

from moorage.core.arrays import Ints, Rows
from moorage.core.limits import KEPT_TEMPLATE_BYTES
from moorage.core.pods import PodTemplate
from moorage.core.templatecache import TemplateCache
from moorage.core.values import dataclass
from moorage.framework.contract import (
    BestStaysBest,
    FilterPlugin,
    Normalize,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScore,
    ReservePlugin,
    ScorePlugin,
    SharesQueues,
    SoftFilter,
)
from moorage.framework.cycle import Cycle
from moorage.framework.instances import Instances
from moorage.framework.plugin import Point, Reads
from moorage.framework.status import Code, OnlyNodes, Status
from moorage.framework.views import ClassView, NodeView, PodPlugins, Scorer

_POD_READERS = (Reads.AMOUNTS, Reads.PODS)
_KEPT_CLASSES, _MOST_CLASSES, _KEPT_ROWS = 64, 256, 1 << 19
"""So many classes are kept at least, and up to the most while their rows are no more than that: 4 MB of ranks.
A class of few rows takes some 10 KB nevertheless."""
_KEPT_TEMPLATES = 4096


@dataclass(frozen=True, slots=True)
class PreFiltered:
    """What PreFilter plugins said: which refuse the pod, which narrow the nodes, which skip their Filter.

    `pre_filter` alone interprets their answers.
    """

    refusal: Status | None = None
    only: tuple[tuple[str, OnlyNodes], ...] = ()
    skipped: frozenset[str] = frozenset()

    @property
    def nodes(self) -> frozenset[str] | None:
        """The names of the nodes that are left; None if no plugin narrowed them."""
        return frozenset.intersection(*(nodes.names for _, nodes in self.only)) if self.only else None

    def and_then(self, later: PreFiltered) -> PreFiltered:
        """Both together; the first refusal counts."""
        if later is _SAID_NOTHING:
            return self
        return PreFiltered(self.refusal or later.refusal, (*self.only, *later.only), self.skipped | later.skipped)


_SAID_NOTHING = PreFiltered()
_SKIP, _SUCCESS = Code.SKIP, Code.SUCCESS  # looking a member up in its enumeration takes longer than comparing it
_Voices = tuple[frozenset[str], tuple[tuple[str, ...], tuple[str, ...]]]
"""Plugins that skip a class, and those that score it: by nodes alone, and by the pods on them."""


class PluginError(Exception):
    """A plugin failed at a point where this ends the decision; the message is one line."""


def pre_filter(plugins: Iterable[PreFilterPlugin], cycle: Cycle) -> PreFiltered:
    """Ask PreFilter plugins in order, until one refuses the pod or they have together excluded all nodes."""
    only: list[tuple[str, OnlyNodes]] = []
    skipped: set[str] = set()
    for plugin in plugins:
        answer = plugin.pre_filter(cycle)
        if answer is None:
            continue
        if isinstance(answer, OnlyNodes):
            only.append((plugin.name, answer))
            if not frozenset.intersection(*(nodes.names for _, nodes in only)):
                return PreFiltered(_no_common_node(only), tuple(only))
        elif answer.code is _SKIP:
            skipped.add(plugin.name)
        elif answer.code is not _SUCCESS:
            return PreFiltered(Status(answer.code, answer.reasons, plugin.name))
    return PreFiltered(None, tuple(only), frozenset(skipped)) if only or skipped else _SAID_NOTHING


def says_nothing(plugins: Iterable[PreFilterPlugin], cycle: Cycle) -> bool:
    """Whether PreFilter plugins have nothing to say at all: they neither refuse the pod nor narrow the nodes."""
    for plugin in plugins:  # noqa: SIM110 - a generator takes longer than all of this
        if plugin.pre_filter(cycle) is not None:
            return False
    return True


def wanted_scorers(scorers: Iterable[Scorer], cycle: Cycle, rows: Rows) -> tuple[Scorer, ...]:
    """Run PreScore; the scorers that do not skip the pod. `PluginError` for any status but SUCCESS and SKIP."""
    wanted = []
    for scorer in scorers:
        status = None if scorer.prepares is None else scorer.prepares.pre_score(cycle, rows)
        if status is None or status.code is _SUCCESS:
            wanted.append(scorer)
        elif status.code is not _SKIP:
            raise PluginError(f"running PreScore plugin {scorer.plugin.name}: {status.message}")
    return tuple(wanted)


@dataclass(slots=True, weakref_slot=True)
class PodClass:
    """One class of equal pods; lives while the table knows its signs."""

    view: ClassView
    kept: PreFiltered
    """What PreFilter of the keepable plugins said."""
    plain: bool
    """Whether PreFilter of the keepable plugins neither narrowed the nodes nor refused the pod."""
    size: int
    """Bytes of the first template, which its signs are parts of."""
    used: bool = False
    """Whether the class was found again since it was last about to be dropped."""
    attempts: int = 0
    """How many pods of the class were decided on."""


class _Kept(NamedTuple):
    """Plugins whose answers are kept, by extension point."""

    pre_filters: tuple[PreFilterPlugin, ...]
    filters: tuple[FilterPlugin, ...]
    scorers: tuple[Scorer, ...]


class LatePoints(NamedTuple):
    """Plugins that have something to do once a node is chosen, by extension point, in profile order."""

    reserve: tuple[ReservePlugin, ...]
    permit: tuple[PermitPlugin, ...]
    pre_bind: tuple[PreBindPlugin, ...]
    post_bind: tuple[PostBindPlugin, ...]


@dataclass(slots=True, eq=False)
class OpenPoints:
    """Plugins that must be asked about a pod, by extension point, in profile order."""

    pre_filters: tuple[PreFilterPlugin, ...]
    filters: tuple[FilterPlugin, ...]
    scorers: tuple[Scorer, ...]
    soft: tuple[str, ...]
    """Names of the plugins that may reject softly."""
    late: LatePoints
    open: bool
    """Whether there is any PreFilter, Filter or Score to ask; otherwise kept answers suffice."""
    only_pre_filters: bool
    """Whether all of them are PreFilter; if they have nothing to say, kept answers suffice, too."""
    only_queues: bool
    """Whether none is to be asked, at any point, but about queues."""
    attempts: int = 0
    """How many decisions needed them."""


class _Known:
    """What is known of a template: its class while that is kept, and the plugins to be asked as of which objects."""

    __slots__ = ("objects", "pod_class", "points", "terms")

    def __init__(self) -> None:
        self.pod_class: Callable[[], PodClass | None] = _no_class
        self.points: OpenPoints | None = None
        self.objects = self.terms = 0


def _no_class() -> None:
    """No class is known."""


class ClassTable:
    """Finds or creates the class of a pod; classes that have not been used lately are dropped."""

    def __init__(self, plugins: Instances, scorers: tuple[Scorer, ...]) -> None:
        self._plugins = plugins
        pre_filters, filters = plugins.pre_filter, plugins.filter
        self.open_pre_filters = tuple(p for p in pre_filters if p.reads is Reads.CLUSTER)
        """Asked at every decision that they are concerned with, like the next two."""
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
        asked: tuple[PreFilterPlugin | FilterPlugin | ScorePlugin, ...] = (*pre_filters, *filters)
        everyone = {p.name: p for p in (*asked, *(s.plugin for s in scorers))}.values()
        self._node_signs = tuple(p.sign for p in everyone if p.reads is Reads.NODE)
        self._pod_signs = tuple(p.sign for p in everyone if p.reads in _POD_READERS)
        self._openers = tuple(p for p in everyone if p.reads is Reads.CLUSTER)
        self._open_points: dict[tuple[bool, ...], OpenPoints] = {}
        self._spare: Ints | None = None
        self._pod_plugins: dict[tuple[frozenset[str], tuple[Scorer, ...]], PodPlugins] = {}
        self._by_template: TemplateCache[_Known] = TemplateCache(_KEPT_TEMPLATES)
        self._latest: tuple[ref[PodTemplate], _Known] | None = None
        """The template that was looked up last: a burst of pods usually has one template."""
        self._sign_bytes = self._node_sign_bytes = 0
        """Of the keys of the next two, at most."""
        self._by_signs: OrderedDict[tuple[Hashable, ...], PodClass] = OrderedDict()
        self._node_parts: OrderedDict[tuple[Hashable, ...], tuple[NodeView, PreFiltered, int]] = OrderedDict()
        self._dropped_attempts: dict[_Voices, int] = {}
        """Attempts of dropped classes, by the plugins that took part."""

    def find(self, cycle: Cycle) -> PodClass:
        """The class of the pod being decided."""
        template = cycle.template
        latest = self._latest
        if latest is None or latest[0]() is not template:
            latest = self._look_up(template)
        known = latest[1]
        found = known.pod_class()
        if found is None:
            found = self._by_sign(cycle, template)
            known.pod_class = ref(found)
        else:
            found.used = True
        return found

    def asked(self, cycle: Cycle) -> OpenPoints:
        """The plugins that must be asked about the pod being decided."""
        template, state = cycle.template, cycle.state
        latest = self._latest
        if latest is None or latest[0]() is not template:
            latest = self._look_up(template)
        known = latest[1]
        objects, terms = state.objects_version, state.pod_terms.version
        if known.points is None or known.objects != objects or known.terms != terms:
            concerned = tuple([plugin.concerns(template, state) for plugin in self._openers])
            if concerned not in self._open_points:
                self._open_points[concerned] = self._points_of(concerned)
            known.objects, known.terms, known.points = objects, terms, self._open_points[concerned]
        return known.points

    def looks(self, cycle: Cycle) -> Hashable | None:
        """Equal for pods that no plugin can tell apart, but for the queue that they belong to.

        None if a plugin has something to say about the pod that does not follow from its sign.
        """
        template = cycle.template
        if not self.asked(cycle).only_queues:
            return None
        node_signs = tuple([sign(template) for sign in self._node_signs])
        return (node_signs, *[sign(template) for sign in self._pod_signs])

    def sign(self, cycle: Cycle) -> Hashable:
        """Equal for pods that no plugin can tell apart; all of the template where one says no more than that."""
        asked, template = self.asked(cycle), cycle.template
        if asked.pre_filters or asked.filters:
            return template
        return tuple([sign(template) for sign in (*self._node_signs, *self._pod_signs)])

    def _look_up(self, template: PodTemplate) -> tuple[ref[PodTemplate], _Known]:
        known = self._by_template.get(template)
        if known is None:
            known = self._by_template.keep(template, _Known())
        self._latest = latest = (ref(template), known)
        return latest

    def _by_sign(self, cycle: Cycle, template: PodTemplate) -> PodClass:
        """The class of pods that no plugin can tell from this one; created if there is none."""
        node_signs = tuple([sign(template) for sign in self._node_signs])
        signs = (node_signs, *[sign(template) for sign in self._pod_signs])
        found = self._by_signs.get(signs)
        if found is None:
            most = min(max(_KEPT_CLASSES, _KEPT_ROWS // cycle.state.capacity), _MOST_CLASSES)
            while len(self._by_signs) >= most or self._sign_bytes > KEPT_TEMPLATE_BYTES:
                self._drop_one()
            found = self._by_signs[signs] = self._make(cycle, node_signs)
            self._sign_bytes += found.size
        else:
            found.used = True
        return found

    def _points_of(self, concerned: tuple[bool, ...]) -> OpenPoints:
        out = {p.name for p, asked in zip(self._openers, concerned, strict=True) if not asked}
        early = (
            tuple(p for p in self.open_pre_filters if p.name not in out),
            tuple(p for p in self.open_filters if p.name not in out),
            tuple(s for s in self.open_scorers if s.plugin.name not in out),
        )
        plugins = self._plugins
        late = LatePoints(
            tuple(p for p in plugins.reserve if p.name not in out),
            tuple(p for p in plugins.permit if p.name not in out),
            tuple(p for p in plugins.pre_bind if p.name not in out),
            tuple(p for p in plugins.post_bind if p.name not in out),
        )
        soft = tuple(p.name for p in plugins.filter if p.name not in out and isinstance(p, SoftFilter))
        shares = {plugin.name for plugin in plugins.having(SharesQueues)}
        asked = {p.name for p in (*early[0], *early[1], *(s.plugin for s in early[2]))}
        only_queues = asked <= shares and not soft and not any(late)
        return OpenPoints(
            *early, soft, late, any(early) or bool(soft), not (early[1] or early[2] or soft), only_queues=only_queues
        )

    def _drop_one(self) -> None:
        """Drop the oldest class that was not used since it was last considered; used ones are spared once."""
        signs, old = self._by_signs.popitem(last=False)
        while old.used:
            old.used = False
            self._by_signs[signs] = old
            signs, old = self._by_signs.popitem(last=False)
        self._sign_bytes -= old.size
        voices = (old.kept.skipped, old.view.scorer_names)
        self._dropped_attempts[voices] = self._dropped_attempts.get(voices, 0) + old.attempts
        self._spare = old.view.rank

    # --- counting ---

    def evaluations(self) -> Counter[tuple[Point, str]]:
        """How many decisions each plugin took part in, by extension point; kept answers count."""
        found: Counter[tuple[Point, str]] = Counter()
        for voices, attempts in self._dropped_attempts.items():
            self._count(voices, attempts, found)
        for each in self._by_signs.values():
            self._count((each.kept.skipped, each.view.scorer_names), each.attempts, found)
        for points in self._open_points.values():
            for point, plugins in (
                (Point.PRE_FILTER, points.pre_filters),
                (Point.FILTER, points.filters),
                (Point.SCORE, [scorer.plugin for scorer in points.scorers]),
            ):
                found.update({(point, plugin.name): points.attempts for plugin in plugins})
        return found

    def _count(self, voices: _Voices, attempts: int, into: Counter[tuple[Point, str]]) -> None:
        skipped, scorers = voices
        for kept in (self._by_node, self._by_pods):
            for point, plugins in ((Point.PRE_FILTER, kept.pre_filters), (Point.FILTER, kept.filters)):
                into.update({(point, p.name): attempts for p in plugins if p.name not in skipped})
        into.update({(Point.SCORE, name): attempts for names in scorers for name in names})

    def _make(self, cycle: Cycle, node_signs: tuple[Hashable, ...]) -> PodClass:
        nodes, said = self._node_part(cycle, node_signs)
        said = said.and_then(pre_filter(self._by_pods.pre_filters, cycle))
        scorers = wanted_scorers(self._by_pods.scorers, cycle, cycle.state.rows())
        plugins = self._pod_plugins.get((said.skipped, scorers))
        if plugins is None:
            filters = tuple(p for p in self._by_pods.filters if p.name not in said.skipped)
            plugins = self._pod_plugins[said.skipped, scorers] = PodPlugins(filters, scorers)
        plain = not (said.only or said.refusal)
        spare, self._spare = self._spare, None
        return PodClass(ClassView(nodes, plugins, spare), said, plain, cycle.template.size)

    def _node_part(self, cycle: Cycle, signs: tuple[Hashable, ...]) -> tuple[NodeView, PreFiltered]:
        found = self._node_parts.get(signs)
        if found is None:
            said = pre_filter(self._by_node.pre_filters, cycle)
            filters = tuple(p for p in self._by_node.filters if p.name not in said.skipped)
            scorers = wanted_scorers(self._by_node.scorers, cycle, cycle.state.rows())
            found = self._node_parts[signs] = (NodeView(filters, scorers), said, cycle.template.size)
            self._node_sign_bytes += found[2]
            while len(self._node_parts) > _KEPT_CLASSES or self._node_sign_bytes > KEPT_TEMPLATE_BYTES:
                self._node_sign_bytes -= self._node_parts.popitem(last=False)[1][2]
        else:
            self._node_parts.move_to_end(signs)
        return found[:2]


def _no_common_node(only: Iterable[tuple[str, OnlyNodes]]) -> Status:
    """The status where PreFilter plugins have together excluded all nodes."""
    names = sorted({name for name, _ in only})
    one = f"node(s) didn't satisfy plugin {names[0]}"
    several = f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
    return Status(Code.UNRESOLVABLE, (one if len(names) == 1 else several,), names[0])


def make_scorers(plugins: Instances, weights: Mapping[str, int]) -> tuple[Scorer, ...]:
    """The score plugins of a profile with their weights, in order."""
    ordering = {each.name for each in plugins.having(BestStaysBest) if each.best_stays_best}
    return tuple(
        Scorer(
            plugin,
            weights.get(plugin.name, 1),
            plugin if isinstance(plugin, PreScore) else None,
            plugin if isinstance(plugin, Normalize) else None,
            plugin.name in ordering,
        )
        for plugin in plugins.score
    )


def _asked_always(scorer: Scorer) -> bool:
    return scorer.plugin.reads is Reads.CLUSTER
