"""The annotations and labels that Moorage reads, where they belong, and what their values must look like.

They are free text to Kubernetes, so only the component that reads one notices a mistake in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from moorage.adapters.memory.kubelet import RUN_SECONDS, parse_seconds
from moorage.core.annotations import MIN_HOSTS, ON_DEMAND_BASE, SPOT, parse_count
from moorage.core.capacity import CAPACITY_LABELS, Capacity
from moorage.core.gangowners import GANG_ANNOTATION, GangOwner
from moorage.core.gangs import NATIVE_KIND
from moorage.core.limits import SHARED_DEVICES
from moorage.core.membership import GROUP_ANNOTATIONS, GROUP_LABEL, MIN_AVAILABLE, gang_size
from moorage.core.objects import CRON_JOB
from moorage.core.pods import DEFAULT_SCHEDULER
from moorage.core.queues import PREEMPTIBLE_LABEL, QUEUE_LABEL, TASK_ORDER_LABEL
from moorage.core.shareasks import (
    ALIBABA_COUNT,
    ALIBABA_MILLI,
    ALIBABA_MODEL,
    KAI_DEVICES,
    KAI_FRACTION,
    KAI_MEMORY,
    readable_ask,
)
from moorage.core.strategy import RULE_STAMP, STRATEGY_ANNOTATIONS, parse_stamp
from moorage.core.topologyasks import SUBGROUP_LABELS
from moorage.core.values import dataclass
from moorage.sim.inputs import NODE, POD, TEMPLATE_PATHS
from moorage.sim.specs import inside
from moorage.sim.spelling import meant_key
from moorage.sim.strategies import strategy_problems
from moorage.wire.manifests import Manifest
from moorage.wire.problems import Problem
from moorage.wire.topology import KEYS as TOPOLOGY_KEYS
from moorage.wire.topology import SUBGROUPS

PREFIX = "moorage.dev/"
_INTEGER = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a value must be: a test, and the words for it."""

    accepts: Callable[[str], bool]
    wanted: str


def _is_integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and abs(int(text)) <= _LARGEST


_COUNT = _Rule(lambda text: parse_count(text, 1) is not None, "must be a whole number of at least 1")
_SIZE = _Rule(lambda text: gang_size({MIN_AVAILABLE: text}) is not None, _COUNT.wanted)
_AMOUNT = _Rule(lambda text: parse_count(text, 0) is not None, "must be a whole number of at least 0")
_NUMBER = _Rule(_is_integer, f"must be a whole number of at most {_LARGEST}, in ASCII digits")
_NAME = _Rule(lambda text: bool(text.strip()), "must not be empty; name the group or remove it")
_DURATION = _Rule(lambda text: parse_seconds(text) is not None, "must be a number of seconds such as 30 or 0.5")
_NEVER = _Rule(lambda text: text == "never", "is without effect; write never, or remove it")
_STAMP = _Rule(lambda text: parse_stamp(text) is not None, "must be the number of a rule, from 1 on")
_STRATEGY = _Rule(lambda _: True, "")
"""Looked at by the strategy's own parser, which says more than one thing."""
_YES_OR_NO = _Rule(("true", "false").__contains__, 'must be "true" or "false"')
_ANY = _Rule(lambda _: True, "")
_FRACTION = _Rule(lambda text: readable_ask({KAI_FRACTION: text}), "must be a fraction of a device such as 0.5")
_MILLI = _Rule(lambda text: readable_ask({ALIBABA_MILLI: text}), "must be a whole number from 1 to 1000")
_DEVICES = _Rule(lambda text: readable_ask({ALIBABA_COUNT: text}), f"must be a whole number from 1 to {SHARED_DEVICES}")
_CAPACITY = _Rule(
    lambda text: CAPACITY_LABELS[0].type_of(text) is not Capacity.UNKNOWN, "says nothing; write spot or on-demand"
)

_OF_OWNERS: Mapping[str, _Rule] = {
    **dict.fromkeys(MIN_HOSTS, _COUNT),
    **dict.fromkeys(ON_DEMAND_BASE, _AMOUNT),
    **dict.fromkeys(STRATEGY_ANNOTATIONS, _STRATEGY),
    GANG_ANNOTATION: _YES_OR_NO,
}
_OF_PODS: Mapping[str, _Rule] = {
    f"{PREFIX}priority": _NUMBER,
    "priority": _NUMBER,
    **dict.fromkeys(GROUP_ANNOTATIONS, _NAME),
    MIN_AVAILABLE: _SIZE,
    RUN_SECONDS: _DURATION,
    **dict.fromkeys(ON_DEMAND_BASE, _AMOUNT),
    SPOT: _NEVER,
    RULE_STAMP: _STAMP,
    **dict.fromkeys(STRATEGY_ANNOTATIONS, _STRATEGY),
    KAI_FRACTION: _FRACTION,
    KAI_MEMORY: _COUNT,
    KAI_DEVICES: _DEVICES,
    ALIBABA_MILLI: _MILLI,
    ALIBABA_COUNT: _DEVICES,
    ALIBABA_MODEL: _ANY,
    **dict.fromkeys((*sorted(TOPOLOGY_KEYS), SUBGROUPS), _ANY),
}
_OF_GROUPS: Mapping[str, _Rule] = dict.fromkeys((*sorted(TOPOLOGY_KEYS), SUBGROUPS), _ANY)
_OF_GANG_OWNERS: Mapping[str, _Rule] = {GANG_ANNOTATION: _YES_OR_NO, **dict.fromkeys(sorted(TOPOLOGY_KEYS), _ANY)}
_KNOWN: Mapping[str, _Rule] = {**_OF_OWNERS, **_OF_PODS}
_LABELS_OF_PODS: Mapping[str, _Rule] = {
    GROUP_LABEL: _NAME,
    SPOT: _NEVER,
    RULE_STAMP: _STAMP,
    QUEUE_LABEL: _NAME,
    PREEMPTIBLE_LABEL: _YES_OR_NO,
    TASK_ORDER_LABEL: _NUMBER,
    SUBGROUP_LABELS[0]: _NAME,
}
_LABELS_OF_NODES: Mapping[str, _Rule] = {
    CAPACITY_LABELS[0].key: _CAPACITY,
    **{label.key: _ANY for label in CAPACITY_LABELS[1:]},
}
_NONE: Mapping[str, _Rule] = {}
_SCHEDULER_NAME = "schedulerName"


class _Place(NamedTuple):
    """The metadata of an object or of its template: what is read there, and where the other annotations belong."""

    path: str
    annotations: Mapping[str, _Rule]
    labels: Mapping[str, _Rule]
    other: str = ""
    """The metadata that has them, if it is in the same object."""
    whose: str = "a workload or its pod template"
    """Else whose metadata it is."""


def annotation_problems(manifest: Manifest) -> Iterator[Problem]:
    """Everything wrong with the annotations and labels of one object and of its pod template."""
    path = "spec" if manifest.kind == POD else f"{TEMPLATE_PATHS.get(manifest.kind, '')}.spec"
    spec = inside(manifest.body, path)
    for key in spec:
        if _SCHEDULER_NAME not in spec and meant_key(str(key), [_SCHEDULER_NAME]):
            yield manifest.problem(f"{path}.{key}", spec[key], f"is not a field; did you mean {_SCHEDULER_NAME}?")
    # Keys without a prefix may be anybody's, unless the pods ask for a scheduler.
    plain = spec.get(_SCHEDULER_NAME, DEFAULT_SCHEDULER) != DEFAULT_SCHEDULER
    for place in _places(manifest):
        yield from _annotations_at(manifest, place, plain=plain)
        yield from _labels_at(manifest, place, plain=plain)


def _places(manifest: Manifest) -> Iterator[_Place]:
    kind = manifest.kind
    template = TEMPLATE_PATHS.get(kind)
    if manifest.known is not None and manifest.known.value is GangOwner:
        yield _Place("metadata", _OF_GANG_OWNERS, _NONE, whose="the pod templates")
    elif kind == POD:
        yield _Place("metadata", _OF_PODS, _LABELS_OF_PODS, whose="the workload that makes the pod")
    elif kind == NATIVE_KIND:
        yield _Place("metadata", _OF_GROUPS, _NONE)
    elif template is None:
        yield _Place("metadata", _NONE, _LABELS_OF_NODES if kind == NODE else _NONE)
    else:
        asks = inside(manifest.body, "metadata.annotations").get(GANG_ANNOTATION) == "true"
        owners = {**_OF_OWNERS, **_OF_GANG_OWNERS} if asks else _OF_OWNERS
        yield _Place("metadata", owners, _NONE, f"{template}.metadata")
        if kind == CRON_JOB:
            yield _Place("spec.jobTemplate.metadata", _OF_OWNERS, _NONE, f"{template}.metadata")
        yield _Place(f"{template}.metadata", _OF_PODS, _LABELS_OF_PODS, "metadata")


def _annotations_at(manifest: Manifest, place: _Place, *, plain: bool) -> Iterator[Problem]:
    annotations: Mapping[str, Any] = inside(manifest.body, f"{place.path}.annotations")
    for key, value in annotations.items():
        rule, where = place.annotations.get(key), f"{place.path}.annotations[{key}]"
        if not isinstance(value, str):
            continue
        if rule is _STRATEGY:
            yield from strategy_problems(manifest, where, value)
        elif rule is not None:
            if not rule.accepts(value):
                yield manifest.problem(where, value, rule.wanted)
        elif plain or "/" in key:
            message = _stray_annotation(manifest, place, key)
            if message:
                yield manifest.problem(where, value, message)


def _stray_annotation(manifest: Manifest, place: _Place, key: str) -> str:
    """What is to be said about an annotation that is not read where it stands; nothing if another tool reads it."""
    if key in _KNOWN:
        return "" if key in _other(manifest, place, "annotations") else f"is not read here; {_home(place, key)}"
    if key in _LABELS_OF_PODS:
        return f"is a label, not an annotation; it belongs in {place.path if place.labels else place.other}.labels"
    meant = meant_key(key, _KNOWN)
    return f"is not an annotation that is read; did you mean {meant}?" if meant else ""


def _labels_at(manifest: Manifest, place: _Place, *, plain: bool) -> Iterator[Problem]:
    labels: Mapping[str, Any] = inside(manifest.body, f"{place.path}.labels")
    for key, value in labels.items():
        rule, where = place.labels.get(key), f"{place.path}.labels[{key}]"
        if not isinstance(value, str) or not (plain or "/" in key):
            continue
        if rule is not None:
            if not rule.accepts(value):
                yield manifest.problem(where, value, rule.wanted)
            continue
        message = _stray_label(manifest, place, key)
        if message:
            yield manifest.problem(where, value, message)


def _stray_label(manifest: Manifest, place: _Place, key: str) -> str:
    """What is to be said about a label that is not read where it stands; nothing if another tool reads it."""
    if key in _LABELS_OF_PODS:
        read = key in _other(manifest, place, "labels") or not place.other
        return "" if read else f"is not read here; it belongs in {place.other}.labels"
    if key in _KNOWN:
        read = key in inside(manifest.body, f"{place.path}.annotations") or key in _other(
            manifest, place, "annotations"
        )
        return "" if read else f"is an annotation, not a label; {_home(place, key)}"
    meant = meant_key(key, place.labels)
    return f"is not a label that is read; did you mean {meant}?" if meant else ""


def _other(manifest: Manifest, place: _Place, what: str) -> Mapping[str, Any]:
    """The annotations or labels of the other metadata of the object."""
    return inside(manifest.body, f"{place.other}.{what}") if place.other else {}


def _home(place: _Place, key: str) -> str:
    """Where an annotation belongs."""
    if key in place.annotations:
        return f"it belongs in {place.path}.annotations"
    if place.other:
        return f"it belongs in {place.other}.annotations"
    return f"it belongs in metadata.annotations of {place.whose}"
