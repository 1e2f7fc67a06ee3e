"""The plugins of one runner, typed by extension point, and the one seam through which they are called.

The runner and the engine never call a plugin itself but its `Instance`, whose attributes are the plugin's own bound
methods: that costs nothing. Code that observes single calls (clocks, metrics, traces) wraps them with `Tracing` for as
long as it likes; plugins do not notice. `filter_row`, `score_row` and `queue_key` are the hot path and are not traced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cache
from typing import Any, Protocol, TypeVar

from moorage.core.arrays import Ints, Rows
from moorage.core.commands import Command
from moorage.core.gangneeds import GangNeeds
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.framework.changes import Change, What
from moorage.framework.contract import (
    AnnotatesBinding,
    AssignsDevices,
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Slack,
)
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Point, Reads
from moorage.framework.profiles import Profile
from moorage.framework.status import GangNomination, Hold, Nomination, OnlyNodes, Rejections, Status

Hook = TypeVar("Hook")

TRACED = (
    "helps",
    "pre_enqueue",
    "pre_filter",
    "filter",
    "filter_softly",
    "post_filter",
    "post_filter_gang",
    "pre_score",
    "score",
    "normalize",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind",
    "bind",
    "post_bind",
)
"""Methods that can be wrapped."""
_UNTRACED = ("sign", "epoch", "concerns", "queue_key", "filter_row", "slack", "score_row")


class Instance:
    """One plugin of one runner. Of the attributes below it has those whose methods the plugin has."""

    sign: Callable[[PodTemplate], Hashable]
    epoch: Callable[[ClusterState], Hashable]
    concerns: Callable[[PodTemplate, ClusterState], bool]
    helps: Callable[[PodTemplate, Change], bool]
    pre_enqueue: Callable[[Pod], Status | None]
    queue_key: Callable[[Pod, float], tuple[Any, ...]]
    pre_filter: Callable[[Cycle], Status | OnlyNodes | None]
    filter: Callable[[Cycle, Rows], Rejections | None]
    filter_softly: Callable[[Cycle, Rows], Rejections | None]
    filter_row: Callable[[Cycle, int], bool]
    slack: Callable[[Cycle, Rows], Slack]
    post_filter: Callable[[Cycle, Any, Any], Nomination | Status | None]
    post_filter_gang: Callable[[list[Cycle], Any, GangNeeds], GangNomination | Status | None]
    pre_score: Callable[[Cycle, Rows], Status | None]
    score: Callable[[Cycle, Rows], Ints]
    score_row: Callable[[Cycle, int], int]
    normalize: Callable[[Cycle, Ints], Ints]
    reserve: Callable[[Cycle, int], Status | None]
    unreserve: Callable[[Cycle, int], None]
    permit: Callable[[Cycle, int], Status | Hold | None]
    pre_bind: Callable[[Cycle, int], Status | Hold | None]
    bind: Callable[[Cycle, int], Command | Status]
    post_bind: Callable[[Cycle, int], None]

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.reads: Reads = plugin.reads
        self.wakes: What = plugin.wakes
        self.kinds: frozenset[str] = plugin.kinds
        for method in (*TRACED, *_UNTRACED):
            call = getattr(plugin, method, None)
            if call is not None:
                setattr(self, method, call)

    def __repr__(self) -> str:
        return f"<Instance of {self.name}>"


@cache
def _members(hook: type) -> dict[str, bool]:
    """The names that a hook of the contract asks for, and whether each is a method."""
    names = (name for base in hook.__mro__ if base not in (object, Protocol) for name in vars(base))
    return {name: callable(getattr(hook, name)) for name in names if not name.startswith("_")}


def _has(plugin: Plugin, hook: type) -> bool:
    """As `isinstance` answers, which before Python 3.12 works out a protocol's names anew for every object."""
    return all(
        getattr(plugin, name, None) is not None if method else hasattr(plugin, name)
        for name, method in _members(hook).items()
    )


class Instances:
    """All plugins of one runner: those of each extension point in the order in which they run."""

    def __init__(self, profile: Profile) -> None:
        self._by_name = {factory.name: Instance(factory.make()) for factory in profile.plugins}
        self._hooks: dict[type, tuple[Any, ...]] = {}

        def at(point: Point) -> tuple[Instance, ...]:
            return tuple(self._by_name[plugin.name] for plugin in profile.at(point))

        self.pre_enqueue: tuple[PreEnqueuePlugin, ...] = at(Point.PRE_ENQUEUE)
        self.queue_sort: tuple[QueueSortPlugin, ...] = at(Point.QUEUE_SORT)
        self.pre_filter: tuple[PreFilterPlugin, ...] = at(Point.PRE_FILTER)
        self.filter: tuple[FilterPlugin, ...] = at(Point.FILTER)
        self.post_filter: tuple[PostFilterPlugin, ...] = at(Point.POST_FILTER)
        self.score: tuple[ScorePlugin, ...] = at(Point.SCORE)
        self.reserve: tuple[ReservePlugin, ...] = at(Point.RESERVE)
        self.permit: tuple[PermitPlugin, ...] = at(Point.PERMIT)
        self.pre_bind: tuple[PreBindPlugin, ...] = at(Point.PRE_BIND)
        self.bind: tuple[BindPlugin, ...] = at(Point.BIND)
        self.post_bind: tuple[PostBindPlugin, ...] = at(Point.POST_BIND)
        self.annotating = self.having(AnnotatesBinding)
        self.assigning = self.having(AssignsDevices)

    @property
    def all(self) -> tuple[Instance, ...]:
        """Every plugin once, those without an extension point last."""
        return tuple(self._by_name.values())

    def get(self, name: str) -> Instance | None:
        """The plugin of this name, if the profile has it."""
        return self._by_name.get(name)

    def having(self, hook: type[Hook]) -> tuple[Hook, ...]:
        """The plugins themselves that have a hook of the contract, in the order of `all`."""
        found = self._hooks.get(hook)
        if found is None:
            plugins = (instance.plugin for instance in self.all)
            found = self._hooks[hook] = tuple(plugin for plugin in plugins if _has(plugin, hook))
        return found

    def first(self, hook: type[Hook]) -> Hook | None:
        """The first plugin that has a hook of the contract, if any has."""
        return next(iter(self.having(hook)), None)


class CallWrapper(Protocol):
    """Creates what is called instead of a plugin's method."""

    def __call__(self, plugin: Plugin, method: str, call: Callable[..., Any], /) -> Callable[..., Any] | None:
        """The replacement, which calls `call`; None leaves the method alone."""


class Tracing:
    """Wraps the calls of plugins between `begin` and `end`.

    One that is made while another is on goes around it, and has to end first.
    """

    def __init__(self, instances: Iterable[Instance], wrap: CallWrapper) -> None:
        self._calls: list[tuple[Instance, str, Callable[..., Any], Callable[..., Any]]] = []
        for instance in instances:
            for method in TRACED:
                call = getattr(instance, method, None)
                traced = None if call is None else wrap(instance.plugin, method, call)
                if call is not None and traced is not None:
                    self._calls.append((instance, method, call, traced))

    def begin(self) -> None:
        """Start to trace calls."""
        for instance, method, _, traced in self._calls:
            setattr(instance, method, traced)

    def end(self) -> None:
        """Stop tracing; calls go where they went before."""
        for instance, method, call, _ in self._calls:
            setattr(instance, method, call)
