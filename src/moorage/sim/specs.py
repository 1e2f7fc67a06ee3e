"""Rules of the API server for specs that reading alone does not notice.

A live cluster never holds such objects, so the readers of `moorage.wire` need not look; a hand-written file may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moorage.core.quantity import QuantityError, parse_quantity, quantity_text
from moorage.core.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE
from moorage.wire.manifests import Manifest
from moorage.wire.problems import ABSENT, Problem

EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
OPERATORS = ("Exists", "Equal", "Lt", "Gt")


def pod_problems(manifest: Manifest, body: Mapping[str, Any], prefix: str) -> Iterator[Problem]:
    """What is wrong with a pod, or with a pod template that stands at `prefix` in its owner."""
    spec = inside(body, "spec")
    yield from _limit_problems(manifest, spec, f"{prefix}spec")
    for index, toleration in enumerate(sequence(spec.get("tolerations"))):
        if isinstance(toleration, Mapping):
            yield from _toleration_problems(manifest, toleration, f"{prefix}spec.tolerations[{index}]")


def node_problems(manifest: Manifest) -> Iterator[Problem]:
    """What is wrong with a node."""
    for index, taint in enumerate(sequence(inside(manifest.body, "spec").get("taints"))):
        effect = taint.get("effect") if isinstance(taint, Mapping) else ABSENT
        if effect is not ABSENT and effect not in EFFECTS:
            yield manifest.problem(f"spec.taints[{index}].effect", effect, f"is unknown; {one_of(EFFECTS)}")


def _limit_problems(manifest: Manifest, spec: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Limits become requests where there are none, so they must be quantities too."""
    parts = [(f"{path}.resources", spec.get("resources"))]
    for name in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(name))):
            if isinstance(container, Mapping):
                parts.append((f"{path}.{name}[{index}].resources", container.get("resources")))
    for where, resources in parts:
        limits = resources.get("limits") if isinstance(resources, Mapping) else None
        if limits is not None and not isinstance(limits, Mapping):
            yield manifest.problem(f"{where}.limits", limits, "must be a mapping of resources to quantities")
            continue
        for resource, value in (limits or {}).items():
            try:
                parse_quantity(quantity_text(value))
            except QuantityError as error:
                yield manifest.problem(f"{where}.limits.{resource}", ABSENT, str(error))


def _toleration_problems(manifest: Manifest, toleration: Mapping[str, Any], path: str) -> Iterator[Problem]:
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect")
    if operator not in OPERATORS:
        yield manifest.problem(f"{path}.operator", operator, f"is unknown; {one_of(OPERATORS)}")
    elif not toleration.get("key") and operator != "Exists":
        yield manifest.problem(f"{path}.operator", operator, "must be Exists where there is no key; add a key")
    if effect and effect not in EFFECTS:
        yield manifest.problem(f"{path}.effect", effect, f"is unknown; {one_of(EFFECTS)}")


def one_of(values: Sequence[str]) -> str:
    """What to write."""
    return f"write one of {', '.join(values)}"


def inside(body: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The mapping at a dotted path, empty where there is none."""
    value: Any = body
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> Sequence[Any]:
    """The list, empty where there is none."""
    return value if isinstance(value, list) else ()
