"""Why a pod fits nowhere, in kube-scheduler's words and order."""

from __future__ import annotations

from collections import Counter

from moorage.framework.runner import Judgement, reasons_of


def unschedulable_message(judgement: Judgement, node_count: int) -> str:
    """The `0/N nodes are available: ...` message of a failed attempt, without the preemption tail."""
    if node_count == 0:
        return "no nodes available to schedule pods"
    head = f"0/{node_count} nodes are available: "
    if judgement.refusal is not None:
        return f"{head}{judgement.refusal.message}."
    return head + histogram(node_reasons(judgement)) + "."


def node_reasons(judgement: Judgement) -> Counter[str]:
    """How many nodes each reason applies to; a node counts once for every reason of the plugin that rejected it."""
    counts: Counter[str] = Counter()
    if len(judgement.excluded):
        names = " ".join(sorted(judgement.excluded_by))
        counts[f"node(s) didn't satisfy plugin(s) [{names}]"] = len(judgement.excluded)
    for verdict in judgement.verdicts:
        for i, reason in enumerate(verdict.rejections.reasons):
            number = int(((verdict.rejections.bits >> i) & 1).sum())
            if number:
                counts[reason.text] += number
    return counts


def histogram(counts: Counter[str]) -> str:
    """`<count> <reason>` strings, sorted bytewise and joined by commas."""
    return ", ".join(sorted((f"{number} {text}" for text, number in counts.items()), key=str.encode))


def rejecting_plugins(judgement: Judgement) -> frozenset[str]:
    """Names of the plugins whose changed mind could let the pod fit."""
    if judgement.refusal is not None:
        return frozenset({judgement.refusal.plugin})
    return frozenset({*(verdict.plugin for verdict in judgement.verdicts), *judgement.excluded_by})


def rejections_by_row(judgement: Judgement) -> dict[int, tuple[str, list[str]]]:
    """Row -> the plugin that rejected it and its reasons."""
    found: dict[int, tuple[str, list[str]]] = {}
    excluded = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(judgement.excluded_by))}]"
    for row in judgement.excluded:
        found[int(row)] = (min(judgement.excluded_by), [excluded])
    for verdict in judgement.verdicts:
        for index, row in enumerate(verdict.rows):
            reasons = reasons_of(verdict.rejections, index)
            found[int(row)] = (verdict.plugin, [reason.text for reason in reasons])
    return found
