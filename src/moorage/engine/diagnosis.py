"""Why a pod fits nowhere, in kube-scheduler's words and order."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.framework.reasons import available, node_reasons
from moorage.framework.runner import Judgement, PluginRejections


def unschedulable_message(judgement: Judgement, node_count: int) -> str:
    """The `0/N nodes are available: ...` message of a failed attempt, without the preemption tail."""
    if node_count == 0:
        return "no nodes available to schedule pods"
    if judgement.refusal is not None:
        return f"0/{node_count} nodes are available: {judgement.refusal.message}."
    return available(node_count, node_reasons(judgement))


def rejecting_plugins(judgement: Judgement) -> frozenset[str]:
    """Names of the plugins that rejected something: another answer of theirs could let the pod fit."""
    if judgement.refusal is not None:
        return frozenset({judgement.refusal.plugin, *judgement.excluded_by})
    return frozenset({*(verdict.plugin for verdict in judgement.verdicts), *judgement.excluded_by})


def rejections_by_row(judgement: Judgement) -> dict[int, tuple[str, list[str]]]:
    """Row -> the plugin that rejected it and its reasons."""
    found: dict[int, tuple[str, list[str]]] = {}
    for row in judgement.excluded:
        found[int(row)] = (min(judgement.excluded_by), [judgement.exclusion])
    return found | reasons_by_row(judgement.verdicts)


def reasons_by_row(verdicts: Iterable[PluginRejections]) -> dict[int, tuple[str, list[str]]]:
    """Row -> the plugin that rejected it, and its reasons."""
    found: dict[int, tuple[str, list[str]]] = {}
    for verdict in verdicts:
        for index, row in enumerate(verdict.rows):
            reasons = verdict.rejections.given(int(verdict.rejections.bits[index]))
            found[int(row)] = (verdict.plugin, [reason.text for reason in reasons])
    return found
