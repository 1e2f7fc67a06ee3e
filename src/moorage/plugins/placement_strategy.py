"""PlacementStrategy: the pods of a workload are split over groups of nodes by base and weights, exactly.

Which strategy holds for a pod and how its pods are counted is in `core.strategies`; how many each rule gets, in
`core.strategy`. A decision works like this:

- The rule that is due is the one furthest below its target for one more pod. The pod goes to a node of that rule. A
  rule without room does not block the pod: it takes the next rule that is below its target for all desired pods.
- A pod that has found no room in any of those for `fallbackAfterSeconds` (long enough for an autoscaler to act) may go
  to any rule's nodes, in the order of deficit. Since pods count where they run, later pods make up for it. If there is
  no room there either and no node at all has the labels of the rule that is due, it may go anywhere, with a warning.
- A pod that carries a stamp has been assigned its rule (by the webhook) and keeps it.
- Nodes that match no rule are not used otherwise.

The filters before this one decide whether there is room: the plugin should be the last filter of the profile. A
strategy that cannot be parsed is ignored with a warning. A pod whose controller has not been seen yet waits for it, two
seconds at most: objects and pods come by different watches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from moorage.core.arrays import Ids, Rows
from moorage.core.capacity import CapacityTypes
from moorage.core.controllers import controller_of
from moorage.core.edits import Annotate, DropAnnotations, DropLabel
from moorage.core.objects import PLACEMENT_POLICY
from moorage.core.ownercounts import may_count_together, strategy_group
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState
from moorage.core.strategies import (
    FALLBACK,
    NO_RULE,
    STRATEGY_KINDS,
    Holding,
    is_awaited,
    open_rules,
    policy_of,
    rule_counts,
    rules_at,
    strategy_of,
)
from moorage.core.strategy import STRATEGY_ANNOTATIONS, Strategy, ranking, stamp_of, stamped_rule, targets
from moorage.core.takers import expected_s, lack_of
from moorage.framework.arguments import PluginArgs
from moorage.framework.capacity_arguments import CapacityLabelArgs
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import SKIP, Code, Reason, Rejections, Status

_POD_CHANGES = What.POD_ADDED | What.POD_UPDATED | What.POD_REMOVED
_LONGEST_S = 86_400
_AWAIT_S = 2.0


class PlacementStrategyArgs(PluginArgs):
    """How long a pod waits for room in its rule before it may use others; labels that tell spot nodes from others."""

    fallback_after_seconds: Annotated[float, Field(ge=0, le=_LONGEST_S)] = 60.0
    capacity_labels: Annotated[tuple[CapacityLabelArgs, ...], Field(strict=False)] = ()


class _Choice(NamedTuple):
    """The rules that a pod may go to, the best first; and whether waiting brings no more places."""

    strategy: Strategy
    rules: tuple[int, ...]
    final: bool
    gives_up: int | None = None
    """The rule that is due, if the pod has waited long enough for it."""


class PlacementStrategy(Plugin):
    """Keeps every pod on nodes of the rule that it is due for."""

    name: ClassVar[str] = "PlacementStrategy"
    Args: ClassVar[type[PluginArgs]] = PlacementStrategyArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = (
        What.NODE_ADDED
        | What.NODE_REMOVED
        | What.NODE_LABELS
        | What.NODE_TAINTS
        | _POD_CHANGES
        | What.OBJECT
        | What.SELF
    )
    kinds: ClassVar[frozenset[str]] = STRATEGY_KINDS
    follows_strategies: ClassVar[bool] = True
    compares_rows: ClassVar[bool] = True
    capacity_types: CapacityTypes
    """How the labels of its rules tell spot nodes from others, for the keeper; only where the arguments say so."""

    def __init__(self, args: PlacementStrategyArgs | None = None) -> None:
        self.args: PlacementStrategyArgs = args or PlacementStrategyArgs()
        if self.args.capacity_labels:
            self.capacity_types = CapacityTypes(each.label() for each in self.args.capacity_labels)

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Whether the pod has a strategy, or may have one that has not been seen."""
        return strategy_of(state, template) is not None or is_awaited(state, template)

    def awaits(self, template: PodTemplate, state: ClusterState) -> Hashable | None:
        """The workload, if its pods are split."""
        holding = strategy_of(state, template)
        return strategy_group(template) if holding is not None and holding.strategy is not None else None

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A pod helps if it is of the same workload, an object if it may be the controller or a policy."""
        owner = template.owner
        if change.what & What.OBJECT:
            namespace, _, name = change.key.rpartition("/")
            may_be = change.kind == PLACEMENT_POLICY or owner is None or change.kind != owner.kind or name == owner.name
            return namespace == template.namespace and may_be
        if change.what & _POD_CHANGES and change.pod is not None:
            return may_count_together(template, change.pod.template)
        return True

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods without a strategy; wait for a controller; warn of a strategy that cannot be parsed."""
        holding = strategy_of(cycle.state, cycle.template)
        if holding is None:
            return self._awaited(cycle)
        if holding.error is not None:
            note = f"{holding.source} is ignored, and so the pod may go anywhere: {holding.error}"
            cycle.warn(holding.reason, note)
            return SKIP
        return None

    def _awaited(self, cycle: Cycle) -> Status | None:
        owner = cycle.template.owner
        if owner is None or not is_awaited(cycle.state, cycle.template):
            return SKIP
        until_s = (cycle.now if cycle.misfit_s is None else cycle.misfit_s) + _AWAIT_S
        if cycle.now >= until_s:
            return SKIP
        cycle.expires(until_s)
        return Status(Code.PENDING, (f"waiting for {owner.kind} {owner.name}, which may have a placement strategy",))

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows outside the first rule that has any of these rows."""
        holding = strategy_of(cycle.state, cycle.template)
        if holding is None or holding.strategy is None:
            return None
        ids = rules_at(cycle.state, holding.strategy, rows)
        choice = self._choice(cycle, holding, holding.strategy)
        chosen = _first_present(choice.rules, ids)
        if chosen == NO_RULE and choice.gives_up is not None and self._gives_up(cycle, holding, choice.gives_up):
            return None
        if chosen == NO_RULE and not choice.final:
            cycle.expires(self._fallback_s(cycle))
        bad = ids != chosen if chosen != NO_RULE else np.ones(len(rows), dtype=np.bool_)
        named = choice.rules if chosen == NO_RULE else (chosen,)
        return Rejections(bad.astype(np.int64), (_reason(choice.strategy, named),))

    def counted(self, cycle: Cycle) -> str:
        """How many pods each rule has, and how many it should have."""
        holding = strategy_of(cycle.state, cycle.template)
        if holding is None or holding.strategy is None:
            return ""
        counts = rule_counts(cycle.state, cycle.template, holding.strategy)
        number = max(holding.desired or 0, sum(counts) + 1)
        shares = zip(holding.strategy.rules, counts, targets(holding.strategy, number), strict=True)
        told = ", ".join(f"{count} of {target} in {rule.labels}" for rule, count, target in shares)
        return f"{holding.source}: {told}"

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Remove the strategy from the pod or its controller, or the labels by which a policy selects the pod."""
        state, pod = rejected.state, rejected.pod
        own = tuple(key for key in STRATEGY_ANNOTATIONS if key in pod.template.annotations)
        if own:
            yield Remedy((DropAnnotations(own),), 4.0)
        controller = controller_of(state, pod.template)
        if controller is not None:
            said = [key for key in STRATEGY_ANNOTATIONS if key in controller.annotations]
            for key in said[:1]:
                yield Remedy((Annotate(controller.kind, pod.namespace, controller.name, key, None),), 4.0)
        policy = policy_of(state, pod.template)
        for key in () if policy is None else dict.fromkeys(each.key for each in policy.selector.requirements):
            yield Remedy((DropLabel(key),), 5.0)

    # --- where the pod may go ---

    def _choice(self, cycle: Cycle, holding: Holding, strategy: Strategy) -> _Choice:
        template = cycle.template
        stamped = stamped_rule(strategy, stamp_of(template))
        if stamped is not None:
            return _Choice(strategy, (stamped,), final=True)
        counts = rule_counts(cycle.state, template, strategy)
        if self._fallback_s(cycle) <= cycle.now:
            rules = ranking(strategy, counts)
            return _Choice(strategy, rules, final=True, gives_up=rules[0])
        return _Choice(strategy, open_rules(strategy, counts, holding.desired), final=False)

    def _gives_up(self, cycle: Cycle, holding: Holding, due: int) -> bool:
        """Whether no node of the rule that is due could take the pod, and none is expected; with a warning."""
        strategy = holding.strategy
        if strategy is None:
            return False
        lack = lack_of(cycle.state, cycle.template, strategy.rules[due])
        if lack is None:
            return False
        until_s = expected_s(cycle.state, cycle.template, strategy.rules[due], cycle.now)
        if until_s is not None:
            cycle.expires(until_s)
            return False
        told = lack.told(strategy.rules[due], f"of rule {due + 1}")
        cycle.warn(FALLBACK, f"placement strategy ignored, {holding.source}: {told}")
        return True

    def _fallback_s(self, cycle: Cycle) -> float:
        """When the pod has waited long enough, counted from its first attempt that found no room."""
        since_s = cycle.now if cycle.misfit_s is None else cycle.misfit_s
        return since_s + self.args.fallback_after_seconds


def _first_present(rules: Sequence[int], ids: Ids) -> int:
    """The first of these rules that a row belongs to, NO_RULE if none does."""
    present = set(np.unique(ids).tolist())
    return next((rule for rule in rules if rule in present), NO_RULE)


def _reason(strategy: Strategy, rules: Sequence[int]) -> Reason:
    names = " or ".join(f"rule {rule + 1} ({strategy.rules[rule].labels})" for rule in sorted(rules))
    return Reason(f"node(s) not in {names} of the placement strategy", resolvable=False)
