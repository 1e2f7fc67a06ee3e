"""The annotations that Moorage reads, and what their values must look like.

Annotations are free text to Kubernetes, so only the component that reads one notices a mistake in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moorage.adapters.memory.kubelet import RUN_SECONDS, parse_seconds
from moorage.core.annotations import MIN_HOSTS, ON_DEMAND_BASE, SPOT, parse_count
from moorage.core.membership import GROUP_ANNOTATIONS, MIN_AVAILABLE, gang_size
from moorage.core.objects import CRON_JOB
from moorage.core.strategy import RULE_STAMP, STRATEGY_ANNOTATIONS, parse_stamp
from moorage.framework.registry import closest
from moorage.sim.inputs import POD, TEMPLATE_PATHS
from moorage.sim.specs import inside
from moorage.sim.strategies import strategy_problems
from moorage.wire.manifests import Manifest
from moorage.wire.problems import Problem

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

_OF_OWNERS: Mapping[str, _Rule] = {
    **dict.fromkeys(MIN_HOSTS, _COUNT),
    **dict.fromkeys(ON_DEMAND_BASE, _AMOUNT),
    **dict.fromkeys(STRATEGY_ANNOTATIONS, _STRATEGY),
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
}
_KNOWN = (*_OF_OWNERS, *_OF_PODS)


def annotation_problems(manifest: Manifest) -> Iterator[Problem]:
    """Everything wrong with the annotations of one object and of its pod template."""
    if manifest.kind == POD:
        yield from _problems(manifest, "metadata", _OF_PODS)
    elif manifest.kind in TEMPLATE_PATHS:
        yield from _problems(manifest, "metadata", _OF_OWNERS)
        if manifest.kind == CRON_JOB:
            yield from _problems(manifest, "spec.jobTemplate.metadata", _OF_OWNERS)
        yield from _problems(manifest, f"{TEMPLATE_PATHS[manifest.kind]}.metadata", _OF_PODS)


def _problems(manifest: Manifest, path: str, rules: Mapping[str, _Rule]) -> Iterator[Problem]:
    annotations: Mapping[str, Any] = inside(manifest.body, f"{path}.annotations")
    for key, value in annotations.items():
        rule = rules.get(key)
        where = f"{path}.annotations[{key}]"
        if rule is _STRATEGY and isinstance(value, str):
            yield from strategy_problems(manifest, where, value)
        elif rule is not None and isinstance(value, str) and not rule.accepts(value):
            yield manifest.problem(where, value, rule.wanted)
        elif key.startswith(PREFIX) and key not in _KNOWN:
            meant = closest(key, [known for known in rules if known.startswith(PREFIX)])
            if meant:
                yield manifest.problem(where, value, f"is not an annotation that is read; did you mean {meant}?")
