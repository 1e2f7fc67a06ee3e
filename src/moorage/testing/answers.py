"""Calls a plugin the way the runner does, and returns its answers by node name so that they can be compared."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.pods import Pod
from moorage.core.state import ClusterState
from moorage.core.values import dataclass
from moorage.framework.cycle import Cycle
from moorage.framework.status import MAX_REASONS, Code, OnlyNodes, Rejections, Status

MAX_SCORE = 100
NOW_S = 1_700_000_000.0


class Malformed(Exception):  # noqa: N818 - what it says about an answer
    """An answer that does not have the required form; `check` is the violated rule."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(message)
        self.check = check


@dataclass(slots=True)
class Answer:
    """What a plugin says about a pod. Empty mappings stand for points that the plugin lacks or skips."""

    refusal: tuple[str, ...] | None = None
    only: frozenset[str] | None = None
    filter_skipped: bool = False
    reasons: dict[str, tuple[tuple[str, bool], ...]] = field(default_factory=dict)
    """The reasons against each node, and whether removing pods could help."""
    passed_over: dict[str, tuple[tuple[str, bool], ...]] = field(default_factory=dict)
    """The soft rejections of each node that passes, as if all of them stood."""
    score_skipped: bool = False
    scores: dict[str, int] = field(default_factory=dict)
    normalized: dict[str, int] = field(default_factory=dict)

    def difference(self, other: Answer) -> str | None:
        """The first difference between two answers, as text."""
        for name in ("refusal", "only", "filter_skipped", "score_skipped"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"{name}: {mine} and {theirs}"
        for name in ("reasons", "passed_over", "scores", "normalized"):
            found = differing(getattr(self, name), getattr(other, name))
            if found:
                return f"{name}: {found}"
        return None


def differing(mine: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """The first node about which two mappings disagree."""
    for node in sorted(mine.keys() | theirs.keys()):
        if mine.get(node) != theirs.get(node):
            return f"node {node}: {mine.get(node)} and {theirs.get(node)}"
    return None


def ask(plugin: Any, state: ClusterState, pod: Pod, rows: Rows | None = None) -> Answer:
    """Run PreFilter, Filter, PreScore, Score and normalisation on the rows (all if None)."""
    rows = state.rows() if rows is None else rows
    cycle = Cycle(pod, state, NOW_S)
    answer = Answer()
    if hasattr(plugin, "pre_filter"):
        _note_pre_filter(answer, plugin.pre_filter(cycle))
    if hasattr(plugin, "filter") and answer.refusal is None and not answer.filter_skipped:
        answer.reasons = filter_reasons(plugin, cycle, rows)
        answer.passed_over = soft_reasons(plugin, cycle, rows)
    if not hasattr(plugin, "score") or answer.refusal is not None:
        return answer
    if hasattr(plugin, "pre_score"):
        status = plugin.pre_score(cycle, rows)
        answer.score_skipped = status is not None and status.code is Code.SKIP
    if not answer.score_skipped:
        scores = score_array(plugin, cycle, rows)
        answer.scores = by_name(state, rows, scores)
        answer.normalized = by_name(state, rows, normalized_array(plugin, cycle, scores))
    return answer


def filter_reasons(plugin: Any, cycle: Cycle, rows: Rows) -> dict[str, tuple[tuple[str, bool], ...]]:
    """Node name -> the reasons of Filter, empty where the node passes."""
    return _reasons("filter", plugin.filter(cycle, rows), cycle, rows)


def soft_reasons(plugin: Any, cycle: Cycle, rows: Rows) -> dict[str, tuple[tuple[str, bool], ...]]:
    """Node name -> the reasons for which it is passed over; of all nodes, none of a plugin without soft rejections."""
    if not hasattr(plugin, "filter_softly"):
        return {}
    return _reasons("filter_softly", plugin.filter_softly(cycle, rows), cycle, rows)


def _reasons(method: str, rejections: Any, cycle: Cycle, rows: Rows) -> dict[str, tuple[tuple[str, bool], ...]]:
    names = [cycle.state.node(int(row)).name for row in rows]
    if rejections is None:
        return dict.fromkeys(names, ())
    if not isinstance(rejections, Rejections):
        raise Malformed("shape", f"{method} returned {type(rejections).__name__}; return Rejections or None")
    _check_array(method, rejections.bits, len(rows))
    known = len(rejections.reasons)
    if known > MAX_REASONS:
        raise Malformed("shape", f"{method} gave {known} reasons; merge them into at most {MAX_REASONS}")
    bits = [int(each) for each in rejections.bits]
    if any(each < 0 or each >> known for each in bits):
        raise Malformed("shape", f"{method} set a bit beyond its {known} reasons")
    return {
        name: tuple((reason.text, reason.resolvable) for reason in rejections.given(each))
        for name, each in zip(names, bits, strict=True)
    }


def score_array(plugin: Any, cycle: Cycle, rows: Rows) -> Ints:
    """The raw scores, checked for form."""
    scores = plugin.score(cycle, rows)
    _check_array("score", scores, len(rows))
    if not hasattr(plugin, "normalize"):
        _check_range("score", scores)
    checked: Ints = scores
    return checked


def normalized_array(plugin: Any, cycle: Cycle, scores: Ints) -> Ints:
    """The scores as they are added up, checked for form; Score's own array must not change."""
    if not hasattr(plugin, "normalize"):
        return scores
    given = scores.copy()
    found = plugin.normalize(cycle, given)
    _check_array("normalize", found, len(scores))
    _check_range("normalize", found)
    if not np.array_equal(given, scores):
        raise Malformed("arguments untouched", "normalize changed the array it was given; return a new one")
    checked: Ints = found
    return checked


def by_name(state: ClusterState, rows: Rows, values: Ints) -> dict[str, int]:
    """Node name -> value."""
    return {state.node(int(row)).name: int(value) for row, value in zip(rows, values, strict=True)}


def _note_pre_filter(answer: Answer, said: Any) -> None:
    if isinstance(said, OnlyNodes):
        answer.only = said.names
    elif isinstance(said, Status):
        answer.filter_skipped = said.code is Code.SKIP
        if said.code not in (Code.SKIP, Code.SUCCESS):
            answer.refusal = said.reasons
    elif said is not None:
        raise Malformed("shape", f"pre_filter returned {type(said).__name__}; return Status, OnlyNodes or None")


def _check_array(method: str, found: Any, length: int) -> None:
    if not isinstance(found, np.ndarray) or found.shape != (length,):
        shape = getattr(found, "shape", type(found).__name__)
        raise Malformed("shape", f"{method} returned {shape} for {length} rows; return an array of shape ({length},)")
    if found.dtype != np.int64:
        raise Malformed("dtype", f"{method} returned {found.dtype}; return int64")


def _check_range(method: str, scores: Ints) -> None:
    if len(scores) and not 0 <= int(scores.min()) <= int(scores.max()) <= MAX_SCORE:
        raise Malformed(
            "range", f"{method} returned {int(scores.min())}..{int(scores.max())}; stay within 0..{MAX_SCORE}"
        )
