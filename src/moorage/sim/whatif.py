"""What if: a cluster simulated until it rests, then changed and simulated again, and what differs between the two ends.

Pods that wait today and fit are placed before anything is changed, so that they are no part of the difference.
`what_if` is the door for commands and pages alike. It reads nothing but its arguments and takes no clock: the same
cluster, changes and rules give the same difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from moorage.adapters.memory.disruption import BUDGET, DisruptionController
from moorage.adapters.memory.objects import key_of, status_of
from moorage.core.bills import Bill, bill, nodes_in_use_now
from moorage.core.budgets import Budgets
from moorage.core.objects import PodDisruptionBudget
from moorage.core.values import dataclass
from moorage.sim.difference import (
    BudgetNote,
    CostChange,
    Difference,
    Money,
    causes_of,
    matched,
    pod_differences,
    standings,
)
from moorage.sim.inputs import ClusterInput, ObjectCheck, read_cluster
from moorage.sim.outcome import FinalCluster, SimulationOutcome
from moorage.sim.simulation import SimulationRules, simulate
from moorage.sim.utilisation import Usage, utilisation
from moorage.sim.whatif_applied import Applied, apply_changes
from moorage.sim.whatif_changes import Change, check_changes
from moorage.wire.kinds import BY_ID
from moorage.wire.manifests import Manifest, Manifests, manifests_of


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Both ends, and what differs."""

    before: SimulationOutcome
    """Without its `world`, which has moved on."""
    after: SimulationOutcome
    difference: Difference


def cluster_input(objects: Iterable[dict[str, Any]], source: str) -> ClusterInput:
    """Whole Kubernetes objects as the start of a simulation; `source` is what messages call the place they are from."""
    return read_cluster(manifests_of(objects, source))


def on_top(base: Manifests, more: Manifests) -> Manifests:
    """A cluster with objects of files put in place of its own ones of the same name, or added."""
    replaced = {manifest.identity for manifest in more.objects if manifest.known is not None}
    return Manifests(
        [*(each for each in base.objects if each.identity not in replaced), *more.objects],
        [*base.problems, *more.problems],
        [*base.warnings, *more.warnings],
    )


def readable(manifests: Manifests) -> tuple[Manifests, list[str]]:
    """The objects of a live cluster that can be read, and a line about each of the others.

    A live cluster cannot be repaired first, so one invalid object must not prevent the simulation.
    """
    check = ObjectCheck()
    kept: list[Manifest] = []
    lines = [f"left out, it cannot be read: {problem}" for problem in manifests.problems]
    for manifest in manifests.objects:
        problems = [*check.problems(manifest)] if manifest.known is not None else []
        lines += [f"left out, it cannot be read: {problem}" for problem in problems[:1]]
        if not problems:
            kept.append(manifest)
    return Manifests(kept, [], manifests.warnings), lines


def what_if(
    given: ClusterInput,
    changes: Sequence[Change],
    rules: SimulationRules,
    *,
    base_rules: SimulationRules | None = None,
    explain: bool = False,
) -> WhatIf:
    """Simulate a cluster without the changes and with them.

    `rules` decide, on the unchanged cluster too unless `base_rules` say otherwise. Raises `ChangeError` if a change is
    about something that is not there, `SimulationError` if the cluster itself cannot be simulated.
    """
    check_changes(changes, given.places)
    base = None if base_rules is None else _Look(simulate(given, base_rules))
    applied = Applied()

    def change(rested: SimulationOutcome) -> None:
        nonlocal base, applied
        if base is None:
            base = _Look(rested)
        applied = apply_changes(changes, _world(rested).cluster)

    after = simulate(given, rules, explain=explain, then=change)
    if base is None:
        raise RuntimeError("a simulation that has ended was at rest once")
    words = [str(each) for each in changes]
    if base_rules is not None:
        words.append("another configuration")
    return WhatIf(replace(base.outcome, world=None), after, replace(_difference(base, after, applied), changes=words))


class _Look:
    """What has to be known of a cluster before it goes on and changes."""

    def __init__(self, outcome: SimulationOutcome) -> None:
        world = _world(outcome)
        self.outcome = outcome
        self.pods = standings(outcome)
        self.utilisation = utilisation(world.state)
        self.in_use = nodes_in_use_now(world.state)
        self.bill = None if world.prices is None else bill(world.state, world.prices, self.in_use)
        self.budgets = budgets_of(world)


def _difference(before: _Look, after: SimulationOutcome, applied: Applied) -> Difference:
    """Compare two ends; `applied` is what was done before the second one."""
    pairs = matched(before.pods, standings(after))
    found = pod_differences(pairs, causes_of(applied, after), before.outcome.evictions)
    usages = utilisation(_world(after).state, applied.drained_nodes)
    names = [*before.utilisation, *(name for name in usages if name not in before.utilisation)]
    waiting = {f"{wait.namespace}/{wait.name}" for wait in found.waits}
    return replace(
        found,
        budgets=[*_budget_notes(applied, before, waiting)],
        notes=[*applied.notes, *_overlaps(applied, before)],
        utilisation={name: (before.utilisation.get(name, Usage()), usages.get(name, Usage())) for name in names},
        cost=_cost_change(before, _world(after), applied),
    )


def _world(outcome: SimulationOutcome) -> FinalCluster:
    if outcome.world is None:
        raise ValueError("the outcome has no world to look at")
    return outcome.world


def _cost_change(before: _Look, after: FinalCluster, applied: Applied) -> CostChange | None:
    prices = after.prices
    if prices is None:
        return None
    one = before.bill or bill(_world(before.outcome).state, prices, before.in_use)
    other = bill(after.state, prices, nodes_in_use_now(after.state), applied.drained_nodes)
    without = sorted(one.without_price | other.without_price)
    return CostChange(prices.currency, _money(one), _money(other), without, prices.stale)


def _money(found: Bill) -> Money:
    return Money(found.in_use_micros, found.all_micros, found.nodes_in_use)


def _budget_notes(applied: Applied, before: _Look, waiting: set[str]) -> Iterator[BudgetNote]:
    """The budgets that allow less than the drains would take at once."""
    budgets = Budgets(before.budgets)
    taken: dict[int, list[str]] = {}
    for key in sorted(applied.drained):
        pod = before.pods[key].pod if key in before.pods else None
        if pod is not None and pod.ready:
            for number in budgets.covering(pod):
                taken.setdefault(number, []).append(key)
    for number, keys in sorted(taken.items()):
        budget = budgets.all[number]
        if len(keys) > budget.disruptions_allowed:
            message = _budget_message(budget, len(keys), sum(key in waiting for key in keys))
            yield BudgetNote(budget.namespace, budget.name, budget.disruptions_allowed, len(keys), message)


def _overlaps(applied: Applied, before: _Look) -> Iterator[str]:
    """The drained pods that several budgets cover: the API server refuses to evict those."""
    budgets = Budgets(before.budgets)
    for key, node in sorted(applied.drained.items()):
        pod = before.pods[key].pod if key in before.pods else None
        covering = () if pod is None else budgets.covering(pod)
        if len(covering) > 1:
            names = " and ".join(budgets.all[number].name for number in covering)
            yield f"drain {node}: {key} has more than one budget ({names}), so that the API server refuses to evict it"


def _budget_message(budget: PodDisruptionBudget, evicted: int, stranded: int) -> str:
    pods = "1 pod goes" if evicted == 1 else f"{evicted} pods go"
    allowed = budget.disruptions_allowed
    if allowed <= 0:
        return f"{pods}, but no disruption is allowed: kubectl drain would wait"
    steps = f"{pods}, {allowed} at a time: kubectl drain would go on as others become ready"
    return f"{steps}, and stop at those that wait" if stranded else steps


def budgets_of(world: FinalCluster) -> list[PodDisruptionBudget]:
    """The budgets of a cluster; the allowance is computed if the status is empty, and nothing stays changed."""
    store, kind = world.cluster.store, BY_ID[BUDGET]
    given = store.list(BUDGET)
    DisruptionController(store).step()
    found: list[PodDisruptionBudget] = []
    for body in given:
        observed = "disruptionsAllowed" in status_of(body)
        found.append(kind.from_builtin(body if observed else store.get(*key_of(body))))
        store.put_status(body, status_of(body))
    return found
