"""Which waiting units are alike: one of them fits where another one does, so that only the first need be tried.

Pods that are neither in a gang nor in a queue have no kind: they are tried one by one, as by kube-scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from moorage.core.gangs import GangTerms, lasting, terms_of
from moorage.core.pods import Pod
from moorage.engine.context import EngineContext
from moorage.engine.units import Unit
from moorage.framework.cycle import Cycle


class Kinds:
    """Finds out what kind of unit one is."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context

    def of(self, unit: Unit) -> Hashable:
        """Equal for units that are alike; None for one that is like no other.

        None too where something is kept for the unit, or other things than pods, nodes and amounts matter to it.
        """
        context, sharing, template = self._context, self._context.sharing, unit.pod.template
        if context.asking is not None or context.planning is not None or context.sides.on:
            return None
        governed = sharing is not None and context.state.queues.active and sharing.governs(unit.pod)
        if unit.gang is None and not governed:
            return None
        terms = self._terms(unit)
        looks = None if terms is None else self._looks(unit)
        if looks is None:
            return None
        member = sharing.member(unit.pod) if sharing is not None and governed else None
        return template.namespace, template.scheduler_name, member, terms, looks

    def _terms(self, unit: Unit) -> Hashable:
        """What a gang needs, and () for a pod; None for gangs that need more than a number of members."""
        if unit.gang is None:
            return ()
        state = self._context.state
        terms = terms_of(state, unit.gang, [entry.pod for entry in unit.members.values()])
        if terms is None or terms.estimated or terms.topology_key is not None or terms.min_resources:
            return None
        return None if lasting(state, unit.gang) else _needs(terms)

    def _looks(self, unit: Unit) -> Hashable:
        """What the pods of a unit look like to the plugins."""
        found: Counter[Hashable] = Counter()
        known: dict[int, Hashable] = {}
        for entry in unit.members.values():
            pod = entry.pod
            if self._context.state.nominations.node_of(pod.uid) is not None:
                return None
            looks = known.get(id(pod.template)) or known.setdefault(id(pod.template), looks_of(self._context, pod))
            if looks is None:
                return None
            found[looks, pod.requests, pod.template.priority, pod.template.preemption_policy] += 1
        return frozenset(found.items())


def looks_of(context: EngineContext, pod: Pod) -> Hashable | None:
    """Equal for pods that no plugin can tell apart, but for their queue; None if that cannot be said of the pod."""
    runner = context.runner_of(pod)
    try:
        return None if runner is None else runner.looks(Cycle(pod, context.state, 0.0))
    except Exception:  # noqa: BLE001 - reported when the pod itself is tried
        return None


def _needs(terms: GangTerms) -> Hashable:
    return terms.min_count, terms.priority, terms.disruption, terms.timeout_s
