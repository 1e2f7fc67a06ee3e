"""PriorityAnnotation: a pod may set its priority in an annotation, which takes precedence over `spec.priority`.

Not in the default set: otherwise any user who can create pods could outrank all others. `max` bounds the priority of an
annotation, and `namespaces` says where annotations are read at all: a list of names, or a mapping of names to bounds.
`*` stands for all namespaces that are not named.

The plugin has no extension point; the engine asks `priority_of` when it sees a pod and again before it evicts one.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, PlainValidator, TypeAdapter

from moorage.core.labelnames import is_qualified_name
from moorage.core.pods import PodTemplate
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads

EVERYWHERE = "*"
LOWEST, HIGHEST = -(2**31), 2**31 - 1
"""Priorities are 32-bit integers."""

_INTEGER = re.compile(r"(-?)([0-9]+)")
_MOST_DIGITS = 10
_SHOWN = 40
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def _annotation_key(text: str) -> str:
    if not is_qualified_name(text):
        raise ValueError("this is no annotation key; use a name, maybe behind a DNS prefix and a slash")
    return text


def _at_least_one(keys: tuple[str, ...]) -> tuple[str, ...]:
    if not keys:
        raise ValueError("must name at least one annotation; to read none, set enabled to false")
    return keys


def _namespace(text: str) -> str:
    if text != EVERYWHERE and not _NAMESPACE.fullmatch(text):
        raise ValueError("this is no namespace; use its name, or * for every namespace")
    return text


Bound = Annotated[int, Field(strict=True, ge=LOWEST, le=HIGHEST)]
AnnotationKey = Annotated[str, AfterValidator(_annotation_key)]
AnnotationKeys = Annotated[tuple[AnnotationKey, ...], Field(strict=False), AfterValidator(_at_least_one)]
Namespace = Annotated[str, Field(strict=True), AfterValidator(_namespace)]

_NAMES: TypeAdapter[list[str]] = TypeAdapter(list[Namespace])
_BOUNDS: TypeAdapter[dict[str, int]] = TypeAdapter(dict[Namespace, Bound])


def _names_or_bounds(value: Any) -> list[str] | dict[str, int]:
    """Either form, so that problems have the path of the form that was used."""
    if isinstance(value, dict):
        return _BOUNDS.validate_python(value)
    if isinstance(value, list | tuple):
        return _NAMES.validate_python(list(value))
    raise ValueError("must be a list of namespaces, or a mapping of namespaces to the highest priority there")


class PriorityAnnotationArgs(PluginArgs):
    """Which annotations count, where, and how high they can reach."""

    enabled: bool = True
    keys: AnnotationKeys = ("moorage.dev/priority", "priority")
    """The first one that a pod has counts."""
    max: Bound = 1_000_000_000
    namespaces: Annotated[list[str] | dict[str, int], PlainValidator(_names_or_bounds)] = Field(
        default_factory=lambda: [EVERYWHERE]
    )

    def bound(self, namespace: str) -> int | None:
        """The highest priority of an annotation there; None where annotations are not read."""
        own = self.namespaces
        bounds = own if isinstance(own, dict) else dict.fromkeys(own, self.max)
        found = bounds.get(namespace, bounds.get(EVERYWHERE))
        return None if found is None else min(found, self.max)


class PriorityAnnotation(Plugin):
    """Reads the priority of pods."""

    name: ClassVar[str] = "PriorityAnnotation"
    Args: ClassVar[type[PluginArgs]] = PriorityAnnotationArgs
    reads: ClassVar[Reads] = Reads.NODE
    wakes: ClassVar[What] = What(0)

    def __init__(self, args: PriorityAnnotationArgs | None = None) -> None:
        self.args: PriorityAnnotationArgs = args or PriorityAnnotationArgs()

    def sign(self, template: PodTemplate) -> None:
        """Reads nothing for placing a pod."""

    def counted(self, cycle: Cycle) -> str:
        """The priority that the pod has by its annotation."""
        key = next((key for key in self.args.keys if key in cycle.template.annotations), None)
        if key is None or not self.args.enabled or self.args.bound(cycle.template.namespace) is None:
            return ""
        return f"priority {cycle.template.priority} by annotation {key}={_shown(cycle.template.annotations[key])}"

    def priority_of(self, template: PodTemplate) -> tuple[int, str | None]:
        """The effective priority, and a warning for the pod's owner if the annotation cannot be parsed."""
        annotations = template.annotations
        if not annotations or not self.args.enabled:
            return template.priority, None
        key = next((key for key in self.args.keys if key in annotations), None)
        bound = None if key is None else self.args.bound(template.namespace)
        if key is None or bound is None:
            return template.priority, None
        value = parse_priority(annotations[key])
        if value is None:
            text = f'annotation {key}: {_shown(annotations[key])} is not an integer; use digits, as in {key}: "100"'
            return template.priority, f"{text}. The pod's priority is {template.priority}"
        return min(value, bound), None


def parse_priority(text: str) -> int | None:
    """An optional minus and ASCII digits, clamped to the range of priorities; None for anything else."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    sign, digits = found[1], found[2].lstrip("0") or "0"
    size = int(digits) if len(digits) <= _MOST_DIGITS else HIGHEST + 1
    return max(LOWEST, min(HIGHEST, -size if sign else size))


def _shown(text: str) -> str:
    quoted = repr(text[:_SHOWN])
    return quoted if len(text) <= _SHOWN else f"{quoted}..."
