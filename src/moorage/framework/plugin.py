"""What a plugin is.

A plugin is a class with a name, optionally arguments, and any of the methods that `framework.contract` declares. The
framework looks at which methods the class has; there is nothing else to register. Every runner makes its own plugins,
so what a plugin keeps belongs to one profile on one state.

A plugin whose answers are kept (`reads` is not CLUSTER) is asked PreFilter and PreScore once per class of equal pods:
what they return must follow from `sign`, and `filter` and `score` must not rely on what they left in `cycle.memo`.
`unreserve` and `post_bind` may come after the node was deleted: find what is held for a pod by the pod, not by the row.

`filter_row` and `score_row` must agree with `filter` and `score`; the checks in `moorage.testing` compare them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import IntEnum, StrEnum
from functools import cache
from typing import Any, ClassVar

from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState
from moorage.framework.arguments import NoArgs, PluginArgs
from moorage.framework.changes import Change, What


class Point(StrEnum):
    """Extension points, with the names that KubeSchedulerConfiguration gives them."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"


METHODS: dict[Point, str] = {
    Point.PRE_ENQUEUE: "pre_enqueue",
    Point.QUEUE_SORT: "queue_key",
    Point.PRE_FILTER: "pre_filter",
    Point.FILTER: "filter",
    Point.POST_FILTER: "post_filter",
    Point.PRE_SCORE: "pre_score",
    Point.SCORE: "score",
    Point.RESERVE: "reserve",
    Point.PERMIT: "permit",
    Point.PRE_BIND: "pre_bind",
    Point.BIND: "bind",
    Point.POST_BIND: "post_bind",
}


class Reads(IntEnum):
    """What filter and score depend on besides what `sign` returns; decides how long their answers are kept."""

    NODE = 0
    """Only the node's own object: an answer is kept until that node changes (or `epoch` does)."""
    AMOUNTS = 1
    """What the node offers and what its pods request of it: nodes with equal amounts get equal answers."""
    PODS = 2
    """The node's object and the pods on that node: kept until either changes."""
    CLUSTER = 3
    """Anything, time included: asked again at every decision. Always right, and the default."""


class Plugin:
    """Derive from this, set `name`, and define the extension points (see the module's docstring)."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names that configurations may use."""
    Args: ClassVar[type[PluginArgs]] = NoArgs
    """The declared arguments; unknown fields are errors."""
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What.ANY
    """The changes after which this plugin may accept a pod that it rejected."""
    kinds: ClassVar[frozenset[str]] = frozenset()
    """Other kinds that it reads from `state.objects`: they are watched, and What.OBJECT means one of them."""

    remembers: ClassVar[Mapping[str, Any]] = {}
    """Attributes that the plugin keeps between decisions and that do not follow from the state, with their types; they
    are part of the images in a journal. Everything else that it keeps must follow from the state and its arguments."""
    keeps: ClassVar[Mapping[str, Any]] = {}
    """Keys of `cycle.memo` that Permit and PreBind need again while a pod waits there, and the types of what is under
    them; part of images too."""

    def __init__(self, args: Any = None) -> None:
        self.args = args

    def sign(self, template: PodTemplate) -> Hashable:
        """The part of the pod that this plugin reads: pods with equal signs get equal answers."""
        return template

    def epoch(self, state: ClusterState) -> Hashable:  # noqa: ARG002 - part of the interface
        """Changes whenever all kept answers of this plugin become wrong at once."""
        return 0

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:  # noqa: ARG002 - part of the interface
        """Whether Filter or Score has anything to say about such a pod at present.

        Asked of plugins with Reads.CLUSTER. False guarantees that PreFilter and PreScore would skip the pod and that
        Reserve to PostBind have nothing to do; if no plugin is concerned, kept answers alone decide. May depend on the
        pod, on `state.objects` and on `state.pod_terms`: it is asked again when one of them changes.
        """
        return True

    def helps(self, template: PodTemplate, change: Change) -> bool:  # noqa: ARG002 - part of the interface
        """Whether this change may let a pod fit that this plugin rejected; asked only for changes in `wakes`."""
        return True

    @classmethod
    def points(cls) -> frozenset[Point]:
        """The extension points that this class has."""
        kind: Any = cls
        return _points_of(kind)


@cache
def _points_of(cls: Any) -> frozenset[Point]:
    return frozenset(point for point, method in METHODS.items() if hasattr(cls, method))
