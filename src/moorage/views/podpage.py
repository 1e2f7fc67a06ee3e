"""The page of a pod: where it is or why it is pending, how every node compares, and what would help.

The pod is judged as the cluster is now; a bound one as if it were pending. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.core.disruption.away import MOVED, Away
from moorage.core.pods import Pod, as_pending
from moorage.core.quantity import format_amount
from moorage.engine.counterfactual import runner_up
from moorage.engine.explain import PASSED_OVER, NodeExplanation, explain
from moorage.engine.faults import describe
from moorage.engine.lifecycle import KEPT_STEPS
from moorage.engine.opinion import Opinion
from moorage.views.details import detail_groups
from moorage.views.timeline import lived
from moorage.views.world import World

SHOWN_NODES = 25
SHOWN_NAMES = 12


def pod_page(world: World, pod: Pod, now: float) -> dict[str, Any]:
    """Everything about one pod, except what would help."""
    page = {"pod": _facts(world, pod), "story": _story(world, pod)}
    runner = world.engine.runner_of(pod)
    if runner is None:
        known = ", ".join(world.engine.runners)
        name = pod.template.scheduler_name
        return {**page, "verdict": f"No profile has the scheduler name {name}; there are: {known}.", "judged": False}
    refusal = world.engine.left_out(pod, now)
    if refusal:
        return {**page, "verdict": refusal, "judged": False}
    state = world.state
    ghost = pod if pod.node is None else as_pending(pod)
    with state.statement():
        if pod.node is not None:
            Away(state).take((state.record(pod.uid),), MOVED)
        try:
            nodes = explain(runner, state, ghost, now)
            record = world.engine.trial(now).place(ghost)
        except Exception as error:  # noqa: BLE001 - a plugin's fault is told like any other answer
            return {**page, "verdict": f"A plugin failed: {describe(error)}.", "judged": False}
    chosen = None if record is None else record.node
    return {**page, **_judgement(pod, chosen, nodes), "judged": True}


def _judgement(pod: Pod, chosen: str | None, nodes: Mapping[str, NodeExplanation]) -> dict[str, Any]:
    fitting = [(name, node) for name, node in nodes.items() if node.competes]
    # Two stable sorts: the chosen node comes before its equals.
    fitting.sort(key=lambda item: (-item[1].total, item[0] not in (chosen, pod.node), item[0]))
    shown = fitting[:SHOWN_NODES]
    shown += [item for item in fitting[SHOWN_NODES:] if item[0] == pod.node]
    name = pod.template.scheduler_name
    second = runner_up(Opinion(pod.namespace, pod.name, name, node=chosen, nodes=nodes, stands_on=pod.node))
    return {
        "second": "" if second is None else second.text,
        "chosen": chosen,
        "verdict": verdict(pod, chosen, nodes, fitting),
        "fitting": len(fitting),
        "nodes": len(nodes),
        "best": [{"node": name, "total": node.total, "scores": node.scores} for name, node in shown],
        "rejections": _rejections(nodes),
        "details": [group.document() for group in detail_groups(nodes)] if not fitting else [],
    }


def verdict(
    pod: Pod,
    chosen: str | None,
    nodes: Mapping[str, NodeExplanation],
    fitting: list[tuple[str, NodeExplanation]],
) -> str:
    """The verdict in a sentence."""
    count = f"{len(fitting)} of {len(nodes)} nodes fit"
    if pod.node is None:
        if chosen is None:
            return f"No node fits now: 0 of {len(nodes)}."
        return f"It would go to {chosen} now; {count}."
    here = nodes.get(pod.node)
    if here is None:
        return f"It is on {pod.node}, which no longer exists; {count}."
    if here.rejected:
        return f"It is on {pod.node}, which would reject it now; {count}."
    if here.passed_over:
        return f"It is on {pod.node}, which would be taken only if no other node fit; {count}."
    better = sum(node.total > here.total for _, node in fitting)
    if not better:
        return f"It is on {pod.node}, which still ranks best ({here.total}); {count}."
    best = fitting[0]
    return (
        f"It is on {pod.node}, which ranks {better + 1} of {len(fitting)} now ({here.total}); "
        f"{best[0]} ranks best ({best[1].total})."
    )


def _rejections(nodes: Mapping[str, NodeExplanation]) -> list[dict[str, Any]]:
    """Which plugin rejected how many nodes and why, the most frequent first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, node in nodes.items():
        for plugin, reasons in (node.rejected or node.passed_over).items():
            text = ", ".join(reasons) + ("" if node.rejected else f" ({PASSED_OVER})")
            groups.setdefault((plugin, text), []).append(name)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        {"plugin": plugin, "reason": reason, "count": len(names), "nodes": names[:SHOWN_NAMES]}
        for (plugin, reason), names in ranked
    ]


def _story(world: World, pod: Pod) -> list[dict[str, Any]]:
    """What happened to a pod so far, oldest first: as its scheduler says, else as far as it was seen."""
    entry = None if world.queue is None else world.queue.get(pod.uid)
    if entry is not None and entry.story:
        return lived(entry.story[-KEPT_STEPS:])
    return world.timeline.of_pod(pod.key, KEPT_STEPS)


def _facts(world: World, pod: Pod) -> dict[str, Any]:
    template = pod.template
    place, message = world.place(pod) if pod.node is None and pod.deleted_s is None else (None, "")
    owner = template.owner
    return {
        "key": pod.key,
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "node": pod.node or "",
        "phase": pod.phase,
        "deleting": pod.deleted_s is not None,
        "place": "" if place is None else place.value,
        "message": message,
        "nominated": pod.nominated_node or "",
        "scheduler": template.scheduler_name,
        "priority": template.priority,
        "created": pod.created_s,
        "scheduled": pod.scheduled_s,
        "owner": "" if owner is None else f"{owner.kind} {owner.name}",
        "gang": "" if template.gang is None else template.gang.object_key,
        "requests": {name: format_amount(name, amount) for name, amount in pod.requests.amounts},
        "labels": dict(template.labels),
        "annotations": dict(template.annotations),
        "selector": dict(template.node_selector),
    }
