"""Ways for a pod past rules about other pods: affinity, anti-affinity and spread, each relaxed as little as will do.

How little is found by asking the filters about one row with the pod changed, never by counting again here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from moorage.core.affinity import PodAffinity, SpreadConstraint
from moorage.core.edits import DropLabel, DropPodRule, Edits, RelaxSpread, SetNodeLabel
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod, PodTemplate
from moorage.engine.counterfactual.scene import Scene

_AFFINITY, _SPREAD = "InterPodAffinity", "PodTopologySpread"
_MOST_SKEW = 1 << 20
_DROP, _SOFTEN, _LABEL, _NODE_LABEL = 4.0, 3.5, 5.0, 3.0
_MOST_DOMAINS = 3


# --- affinity ---


def pod_rule_fixes(scene: Scene, pod: Pod, row: int) -> Iterator[tuple[Edits, float]]:
    """Single terms first; all terms of a kind only where no single one will do."""
    template = pod.template
    singles: list[tuple[Edits, float]] = [
        ((DropPodRule(index, anti),), _DROP)
        for anti in (False, True)
        for index in range(len(_terms(template, anti=anti)))
        if scene.accepts(_AFFINITY, _without(template, anti=anti, index=index), row)
    ]
    singles += [
        ((DropLabel(key),), _LABEL)
        for key in template.labels
        if scene.accepts(_AFFINITY, _unlabelled(template, key), row)
    ]
    yield from singles
    if singles:
        return
    for kinds in ((False,), (True,), (False, True)):
        edits = tuple(
            DropPodRule(index, anti) for anti in kinds for index in reversed(range(len(_terms(template, anti=anti))))
        )
        if edits:
            yield edits, _DROP * len(edits)
            bare = _without_all(template, kinds)
            for key in template.labels:
                if scene.accepts(_AFFINITY, _unlabelled(bare, key), row):
                    yield (*edits, DropLabel(key)), _DROP * len(edits) + _LABEL


def _without_all(template: PodTemplate, kinds: tuple[bool, ...]) -> PodTemplate:
    for anti in kinds:
        for index in reversed(range(len(_terms(template, anti=anti)))):
            template = _without(template, anti=anti, index=index)
    return template


def _unlabelled(template: PodTemplate, key: str) -> PodTemplate:
    labels = FrozenDict({name: value for name, value in template.labels.items() if name != key})
    return replace(template, labels=labels)


def _terms(template: PodTemplate, *, anti: bool) -> tuple[object, ...]:
    affinity = template.pod_anti_affinity if anti else template.pod_affinity
    return () if affinity is None else affinity.required


def _without(template: PodTemplate, *, anti: bool, index: int) -> PodTemplate:
    affinity = template.pod_anti_affinity if anti else template.pod_affinity
    if affinity is None:
        return template
    required = tuple(term for number, term in enumerate(affinity.required) if number != index)
    left = PodAffinity(required, affinity.preferred) if required or affinity.preferred else None
    return replace(template, pod_anti_affinity=left) if anti else replace(template, pod_affinity=left)


# --- spread ---


def spread_fixes(scene: Scene, pod: Pod, row: int) -> Iterator[tuple[Edits, float]]:
    """Each hard constraint alone: a larger skew, fewer domains, a preference; then all of them as preferences."""
    template, node = pod.template, scene.state.node(row)
    hard = [index for index, constraint in enumerate(template.spread) if constraint.hard]
    if not hard:
        return
    lacking = [key for index in hard if (key := template.spread[index].topology_key) not in node.labels]
    if lacking:
        yield from _labels(scene, node.name, lacking)
    found = False
    for index in hard:
        if not scene.accepts(_SPREAD, _softened(template, (index,)), row):
            continue
        found = True
        yield (RelaxSpread(index),), _SOFTEN
        yield from _relaxed(scene, template, index, row)
    if not found:
        yield tuple(map(RelaxSpread, hard)), _SOFTEN * len(hard)


def _relaxed(scene: Scene, template: PodTemplate, index: int, row: int) -> Iterator[tuple[Edits, float]]:
    constraint = template.spread[index]

    def fits(**change: int) -> bool:
        return scene.accepts(_SPREAD, _with(template, index, replace(constraint, **change)), row)  # type: ignore[arg-type]

    if fits(max_skew=_MOST_SKEW):
        skew = least(constraint.max_skew + 1, _MOST_SKEW, lambda value: fits(max_skew=value))
        yield (RelaxSpread(index, max_skew=skew),), 1.5 + min(2.0, 0.25 * (skew - constraint.max_skew))
    if constraint.min_domains > 1 and fits(min_domains=1):
        lost = least(1, constraint.min_domains - 1, lambda value: fits(min_domains=constraint.min_domains - value))
        yield (RelaxSpread(index, min_domains=constraint.min_domains - lost),), 1.5 + min(2.0, 0.25 * lost)


def least(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """The smallest number of low..high that is enough; high is, and so is whatever is larger than one that is."""
    step = 1
    while low + step - 1 < high and not enough(low + step - 1):
        low, step = low + step, step * 2
    high = min(high, low + step - 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _with(template: PodTemplate, index: int, constraint: SpreadConstraint) -> PodTemplate:
    spread = tuple(constraint if number == index else each for number, each in enumerate(template.spread))
    return replace(template, spread=spread)


def _softened(template: PodTemplate, indexes: tuple[int, ...]) -> PodTemplate:
    return replace(
        template,
        spread=tuple(
            replace(each, hard=False) if number in indexes else each for number, each in enumerate(template.spread)
        ),
    )


def _labels(scene: Scene, node: str, keys: list[str]) -> Iterator[tuple[Edits, float]]:
    """The node joins a domain that there is, or one of its own."""
    if len(keys) > 1:
        return
    values = sorted({scene.state.node(int(row)).labels.get(keys[0], "") for row in scene.state.rows()} - {""})
    for value in [*values[:_MOST_DOMAINS], node]:
        yield (SetNodeLabel(node, keys[0], value),), _NODE_LABEL
