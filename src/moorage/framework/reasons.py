"""Reasons, counted over nodes and written down as kube-scheduler writes them."""

from __future__ import annotations

from collections import Counter

from moorage.framework.runner import Judgement


def node_reasons(judgement: Judgement) -> Counter[str]:
    """How many nodes each reason applies to; a node counts once for every reason of the plugin that rejected it."""
    counts: Counter[str] = Counter()
    if judgement.excluded_by and len(judgement.excluded):
        counts[judgement.exclusion] = len(judgement.excluded)
    for verdict in judgement.verdicts:
        for i, reason in enumerate(verdict.rejections.reasons):
            number = int(((verdict.rejections.bits >> i) & 1).sum())
            if number:
                counts[reason.text] += number
    return counts


def histogram(counts: Counter[str]) -> str:
    """`<count> <reason>` strings, sorted bytewise and joined by commas."""
    return ", ".join(sorted((f"{number} {text}" for text, number in counts.items()), key=str.encode))


def available(node_count: int, counts: Counter[str]) -> str:
    """The sentence that says why no node is suitable."""
    reasons = histogram(counts)
    return f"0/{node_count} nodes are available: {reasons}." if reasons else f"0/{node_count} nodes are available:"
