"""The webhook's decision about a pod that is being created: which rule of its placement strategy it gets.

The same functions as in the scheduler determine which strategy applies to the pod and which rule is due; pods are
counted as the watch shows them, plus those that were admitted and not seen yet (`roster`). No clock and no I/O: the
server passes the time, and asks again when `decide` returns `Wait`.

A pod is never refused and never changed in part: if its rule cannot be applied, it is admitted unchanged and scheduled
by default. The user gets a warning at once and an event as soon as the pod exists.

With `peers`, one replica decides, and the others follow it: they pass on pods that get a rule (`Outcome.ELSEWHERE`).
A replica that neither follows nor knows that all others do (`sole`) has at most one unseen pod of a group: what others
have admitted is known only when the watch shows it, so that a decision misses at most one pod of each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, StrEnum, auto
from functools import partial
from typing import NamedTuple

from moorage.core.affinity import NodeAffinity
from moorage.core.commands import RecordEvent, ref_of
from moorage.core.controllers import owner_object
from moorage.core.events import Event, NodeSeen, PodGone, PodSeen
from moorage.core.follow import follow
from moorage.core.frozen import EMPTY, FrozenDict
from moorage.core.limits import LEDGER_FAILURES
from moorage.core.nodes import Node
from moorage.core.ownercounts import owner_key, strategy_group
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.core.strategies import FALLBACK, Holding, is_awaited, strategy_of
from moorage.core.strategy import (
    RULE_STAMP,
    Stamp,
    Strategy,
    next_rule,
    rules_of_crowd,
    stamp,
    stamp_of,
    stamped_rule,
)
from moorage.core.taints import Toleration, is_barred
from moorage.core.takers import Lack, expected_s, lack_of
from moorage.core.values import dataclass
from moorage.engine.announcing import Announcing
from moorage.engine.roster import PLACED_BY, Roster
from moorage.engine.stranded import Stranded
from moorage.engine.waiting import Wait

REPORTER = "moorage-webhook"
NOT_APPLICABLE = "StrategyNotApplicable"
OWNER_WAIT_S = 0.25
"""How long to wait for a controller that the watch has not shown yet; usually it is a few milliseconds behind."""
DOUBT_WAIT_S = 0.25
"""How long to wait for the watch to confirm what a caller says that is not authenticated."""
_MOST_STRANGERS = 4096
_MOST_FAILURES = 100
_MOST_DESERTED = 1000


_HELP = "make room or nodes for the rule, or change the strategy"


class _Wanted(NamedTuple):
    """A node that pods want: the labels of their rule, and what of the pods themselves decides about nodes."""

    selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...]
    node_selector: FrozenDict[str, str]
    node_affinity: NodeAffinity | None


class Outcome(StrEnum):
    """The result for a pod."""

    PLACED = "placed"
    KEPT = "kept"
    """It has its rule already, for instance from an earlier review."""
    FAILED = "failed"
    """There is a strategy, and it could not be applied."""
    NONE = "none"
    """No strategy applies to it."""
    ELSEWHERE = "elsewhere"
    """It gets a rule, and the replica that this one follows decides which."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer about one pod."""

    outcome: Outcome
    node_selector: FrozenDict[str, str] = EMPTY
    annotations: FrozenDict[str, str] = EMPTY
    """Annotations to add; others stay."""
    warning: str = ""
    rule: int | None = None
    """Index of its rule."""
    counts: tuple[int, ...] = ()
    """Number of pods of each rule before this one."""
    source: str = ""
    """Where the strategy was found."""


NOTHING = Verdict(Outcome.NONE)
ELSEWHERE = Verdict(Outcome.ELSEWHERE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod that is being created, as the review describes it."""

    template: PodTemplate
    dry_run: bool = False
    node: str = ""
    """Set if it names its node itself."""
    certain: bool = True
    """Whether the caller is known to be the API server. Otherwise it may be anything: see `Admission`."""
    here: bool = False
    """Whether it has to be decided here, as the replica that this one follows did not answer."""


class Credit(Enum):
    """How far a review counts in the ledger."""

    FULL = auto()
    EXCESS = auto()
    """The owner lacks no pod, as far as the watch shows."""
    NO_OWNER = auto()
    """It is not known how many pods there should be."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """What to report about a pod once it exists."""

    reason: str
    note: str
    failed_s: float


class Admission(Announcing):
    """Decides for one cluster, except for `excluded` namespaces; `me` names this replica on pods.

    Reviews of callers that are not authenticated count in the ledger only as far as the watch confirms them: pods of an
    owner with a known uid, as many as it still lacks. A review beyond that waits a moment for the watch, and is then
    answered without being counted. Pods of other owners, or without one, are decided on one after the other, each when
    the watch has shown the one before; a pod that it does not show within that moment is not counted.
    """

    def __init__(
        self,
        *,
        excluded: Collection[str] = (),
        ledger_s: float = 10.0,
        longest_wait_s: float = 1.0,
        fallback_s: float = 60.0,
        me: str = "",
    ) -> None:
        super().__init__()
        self.state = ClusterState()
        """Nodes with what stands on them, and controllers; the roster counts pods, as many of them have no node."""
        self.roster = Roster(ledger_s=ledger_s, me=me)
        self.peers = 0
        """Number of other replicas."""
        self.sole = False
        """Whether no other replica decides, though there are some."""
        self.follows = False
        """Whether another replica decides."""
        self._excluded = frozenset(excluded)
        self._ledger_s = ledger_s
        self._longest_wait_s = longest_wait_s
        self._fallback_s = fallback_s
        self._stranded = Stranded(fallback_s)
        self._deserted: dict[_Wanted, float] = {}
        """What no node offers -> since when pods have wanted such a node."""
        self._now_s = float("-inf")
        """The latest time that is known."""
        self._strangers: set[str] = set()
        """Owners (`owner_key`) that did not appear in time; reviews do not wait for them again."""
        self._failures: dict[str, list[_Failure]] = {}

    # --- events in, commands out ---

    def handle(self, event: Event) -> None:
        """Apply an event of the API server."""
        match event:
            case PodSeen(pod):
                self._stranded.seen(pod, self._now_s)
                if self.roster.seen(pod):
                    self._tell(pod)
            case PodGone(uid):
                self._stranded.gone(uid, self._now_s)
                self.roster.gone(uid)
        follow(self.state, event)
        if isinstance(event, NodeSeen) and self._deserted:
            self._serves(event.node)

    def _serves(self, node: Node) -> None:
        """A node was seen: whoever wanted one like it and finds none begins to wait anew."""
        if not node.ready or node.unschedulable:
            return
        labels = node.labels.items()
        for wanted in [wanted for wanted in self._deserted if labels >= set(wanted.selector)]:
            if not is_barred(node.taints, wanted.tolerations):
                del self._deserted[wanted]

    def expire(self, now_s: float) -> None:
        """Forget pods that were admitted long ago and never seen."""
        self._now_s = now_s
        self.roster.expire(now_s)
        for group in list(self._failures):
            left = [failure for failure in self._failures[group] if failure.failed_s + self._ledger_s > now_s]
            if left:
                self._failures[group] = left
            else:
                del self._failures[group]

    # --- decisions ---

    def decide(self, asked: Asked, now_s: float, waited_s: float = 0.0) -> Verdict | Wait:
        """Decide about a pod; `waited_s` says how long this review has been waiting."""
        self._now_s = now_s
        template = asked.template
        if asked.node or template.namespace in self._excluded:
            return NOTHING
        holding = strategy_of(self.state, template)
        if holding is None:
            due_s = self._owner_due_s(template, now_s, waited_s)
            return NOTHING if due_s is None else Wait(due_s)
        if holding.strategy is None:
            return self._failed(asked, holding, holding.reason, str(holding.error), now_s)
        rule = stamped_rule(holding.strategy, stamp_of(template))
        if rule is not None:
            return Verdict(Outcome.KEPT, rule=rule, source=holding.source)
        if self.follows and not asked.here:
            return ELSEWHERE
        if asked.dry_run:
            return self._placed(asked, holding, holding.strategy, now_s)
        credit = Credit.FULL if asked.certain else self._credit(template, now_s)
        due_s = self._turn_due_s(template, now_s, waited_s, credit)
        if due_s is not None:
            return Wait(due_s)
        return self._placed(asked, holding, holding.strategy, now_s, credit)

    def _credit(self, template: PodTemplate, now_s: float) -> Credit:
        """How far a caller that is not authenticated is trusted."""
        owner = owner_object(self.state, template)
        if owner is None:
            return Credit.NO_OWNER
        group = strategy_group(template)
        lacking = owner.desired - self.roster.seen_of(group) - len(self.roster.unseen(group, now_s))
        return Credit.FULL if lacking > 0 else Credit.EXCESS

    def counts(
        self, template: PodTemplate, strategy: Strategy, now_s: float, *, unseen: bool = True
    ) -> tuple[int, ...]:
        """How many pods of the group each rule has; with `unseen` including those in the ledger."""
        found = [0] * len(strategy.rules)
        for given, crowd in self.roster.crowds(strategy_group(template), now_s, unseen=unseen):
            for rule, number in rules_of_crowd(strategy, given, crowd, partial(self._place, given)):
                found[rule] += number
        return tuple(found)

    def _place(self, given: Stamp, node: str) -> Mapping[str, str]:
        """The labels of a pod's node; while it has no node, those that its nodeSelector asks for."""
        row = self.state.row_of(node) if node else None
        return given.node_selector if row is None else self.state.node(row).labels

    def _placed(
        self, asked: Asked, holding: Holding, strategy: Strategy, now_s: float, credit: Credit = Credit.FULL
    ) -> Verdict:
        template = asked.template
        counts = self.counts(template, strategy, now_s, unseen=credit is not Credit.NO_OWNER)
        rule = next_rule(strategy, counts)
        selector = strategy.rules[rule].selector
        own = template.node_selector
        clash = next(((key, value) for key, value in selector if own.get(key, value) != value), None)
        if clash is not None:
            key, value = clash
            problem = f"rule {rule + 1} wants {key}:{value}, but the pod's nodeSelector says {key}:{own[key]}"
            remedy = f"remove {key} from the pod's nodeSelector or from the strategy"
            return self._failed(asked, holding, NOT_APPLICABLE, f"{problem}; {remedy}", now_s)
        problem = self._lack(template, strategy, rule, now_s, count=not asked.dry_run)
        if problem:
            remedy = f"default scheduling decides after {self._fallback_s:g} s; {_HELP}"
            return self._failed(asked, holding, FALLBACK, f"{problem}; {remedy}", now_s)
        notes = {RULE_STAMP: stamp(rule)}
        if self.peers:
            notes[PLACED_BY] = self.roster.me
        if not asked.dry_run and credit is not Credit.EXCESS:
            self.roster.admit(template, Stamp(stamp(rule), FrozenDict({**own, **dict(selector)})), now_s)
        return Verdict(
            Outcome.PLACED,
            node_selector=FrozenDict(selector),
            annotations=FrozenDict(notes),
            rule=rule,
            counts=counts,
            source=holding.source,
        )

    def _lack(self, template: PodTemplate, strategy: Strategy, rule: int, now_s: float, *, count: bool) -> str:
        """Why pods have waited for nodes of this rule in vain, and long enough; empty if they have not.

        With `count`, one more wants such a node from now on.
        """
        wanted = _Wanted(
            strategy.rules[rule].selector, template.tolerations, template.node_selector, template.node_affinity
        )
        group = strategy_group(template)
        lack = lack_of(self.state, template, strategy.rules[rule])
        if lack is None:
            self._deserted.pop(wanted, None)
            self._stranded.helped(group, strategy, rule)
            return ""
        since_s = self._stranded.since_s(group, strategy, rule)
        if lack is not Lack.ROOM:
            since_s = min(self._deserted.get(wanted, now_s), now_s if since_s is None else since_s)
            self._desert(wanted, now_s, count=count)
        waited = since_s is not None and now_s - since_s >= self._fallback_s
        if not waited or expected_s(self.state, template, strategy.rules[rule], now_s) is not None:
            return ""
        return lack.told(strategy.rules[rule], f"of rule {rule + 1}")

    def _desert(self, wanted: _Wanted, now_s: float, *, count: bool) -> None:
        if count and wanted not in self._deserted:
            if len(self._deserted) >= _MOST_DESERTED:
                self._deserted.clear()
            self._deserted[wanted] = now_s

    # --- waiting ---

    def _owner_due_s(self, template: PodTemplate, now_s: float, waited_s: float) -> float | None:
        """Until when to wait for a controller that has not been seen; None if there is none to wait for."""
        owner = template.owner
        if owner is None or owner_key(template) in self._strangers or not is_awaited(self.state, template):
            return None
        patience_s = min(OWNER_WAIT_S, self._longest_wait_s)
        if waited_s < patience_s:
            return now_s + patience_s - waited_s
        if len(self._strangers) >= _MOST_STRANGERS:
            self._strangers.clear()
        self._strangers.add(owner_key(template))
        return None

    def _turn_due_s(self, template: PodTemplate, now_s: float, waited_s: float, credit: Credit) -> float | None:
        """Until when to wait for the watch to show the group's last pod that was admitted here; None if not at all."""
        believed = credit is Credit.FULL
        patience_s = self._longest_wait_s if believed else min(DOUBT_WAIT_S, self._longest_wait_s)
        if waited_s >= patience_s or (believed and (self.sole or not self.peers)):
            return None
        if credit is Credit.EXCESS:
            return now_s + patience_s - waited_s
        fresh = [
            entry.admitted_s + patience_s
            for entry in self.roster.unseen(strategy_group(template), now_s)
            if entry.admitted_s + patience_s > now_s
        ]
        return min(now_s + patience_s - waited_s, max(fresh)) if fresh else None

    # --- failures ---

    def _failed(self, asked: Asked, holding: Holding, reason: str, problem: str, now_s: float) -> Verdict:
        note = f"placement strategy ignored, {holding.source}: {problem}"
        if not asked.dry_run:
            told = self._failures.get(strategy_group(asked.template), [])
            if len(self._failures) < LEDGER_FAILURES and len(told) < _MOST_FAILURES:
                self._failures[strategy_group(asked.template)] = told
                told.append(_Failure(reason, note, now_s))
        return Verdict(Outcome.FAILED, warning=note, source=holding.source)

    def _tell(self, pod: Pod) -> None:
        """A pod was seen for the first time: publish the failure that waited for its name."""
        group = strategy_group(pod.template)
        failures = self._failures.get(group)
        if not failures or RULE_STAMP in pod.template.annotations:
            return
        failure, *left = failures
        if left:
            self._failures[group] = left
        else:
            del self._failures[group]
        subject = ref_of(pod)
        self._commands.append(RecordEvent(subject, "Warning", failure.reason, "Placing", failure.note, REPORTER))
