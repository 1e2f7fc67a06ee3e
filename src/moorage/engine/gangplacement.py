"""The result of placing a gang, as far as it has got."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.bindingcycles import BindingCycle
from moorage.engine.failures import Failure
from moorage.framework.gang_capacity import kind_of
from moorage.framework.gangplans import GangPlan
from moorage.framework.status import Code

MOST_KINDS = 8
"""The most kinds of members that are examined; a gang with more of them is filed under every filter instead."""


@dataclass(slots=True)
class GangPlacement:
    """The result of placing a gang."""

    enough: bool = False
    """Whether the gang may start; if not, what was placed was undone."""
    bindings: list[BindingCycle] = field(default_factory=list)
    """Members that found a node."""
    failure: Failure | None = None
    """Why the first member without a node found none."""
    rejected_by: set[str] = field(default_factory=set)
    """Plugins that kept members from nodes, in other domains too."""
    plan: GangPlan | None = None
    """What was carried out, if a plugin had a plan."""
    planned: bool = False
    """Whether a plugin plans the gang, even if it found no plan."""
    hopeless: bool = False
    """Whether evictions cannot help."""
    given_up: Sequence[Pod] = ()
    """Members that found a node only after their nominations had ended."""
    tried: list[Pod] = field(default_factory=list)
    """Members that were tried and are not in `_kinds` yet, which is not needed for a gang that fits."""
    _kinds: set[object] = field(default_factory=set)
    _failed: set[object] = field(default_factory=set)
    """Kinds of which a member found no node."""

    @property
    def code(self) -> Code:
        """The result as a status code."""
        if self.enough:
            return Code.SUCCESS
        return Code.UNSCHEDULABLE if self.failure is None else self.failure.code

    def kinds(self) -> set[object]:
        """Kinds of members that were tried."""
        while self.tried:
            self._kinds.add(kind_of(self.tried.pop()))
        return self._kinds

    def wants_to_know(self, pod: Pod) -> bool:
        """Whether to find out why a member found no node."""
        return kind_of(pod) not in self._failed and len(self._failed) < MOST_KINDS

    def fail(self, failure: Failure, pod: Pod) -> None:
        """A member found no node. The first reason is reported, unless a plugin failed by error."""
        self._failed.add(kind_of(pod))
        self.rejected_by |= failure.rejected_by
        if self.failure is None or (failure.code is Code.ERROR and self.failure.code is not Code.ERROR):
            self.failure = failure

    def placed_only(self) -> Iterable[BindingCycle]:
        """One member of each kind of which all found a node."""
        placed = {kind_of(binding.entry.pod): binding for binding in self.bindings}
        return [binding for kind, binding in placed.items() if kind not in self._failed]

    @property
    def too_many(self) -> bool:
        """Whether there may be more kinds of members than are examined."""
        return len(self.kinds()) >= MOST_KINDS
