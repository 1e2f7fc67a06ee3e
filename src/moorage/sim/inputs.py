"""The objects of some files as the start of a simulation: checked one by one, with what was left out and why.

Every object that is read is decoded once here, pod templates and claim templates included, so that whatever is wrong
shows up before anything runs, with its place. Kinds that are not read are counted, never fatal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moorage.core.objects import CRON_JOB, STATEFUL_SET
from moorage.core.problems import ABSENT, Problem
from moorage.core.quantity import QuantityError, parse_quantity, quantity_text
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID, Kind, pod_kind
from moorage.wire.manifests import Manifest, Manifests
from moorage.wire.templates import TemplateTable

POD = "Pod"
_TEMPLATE_PATHS: Mapping[str, str] = {
    CRON_JOB: "spec.jobTemplate.spec.template",
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", STATEFUL_SET), "spec.template"
    ),
}


@dataclass(slots=True)
class ClusterInput:
    """What a simulation starts from; nothing may run while there are problems."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    """Kind -> how many objects of it were left out."""
    warnings: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    places: dict[tuple[str, str, str], Manifest] = field(default_factory=dict)
    """(kind, namespace, name) -> where the object stands in the input."""


def read_cluster(manifests: Manifests) -> ClusterInput:
    """Sort out what can be simulated and check all of it."""
    found = ClusterInput(problems=list(manifests.problems), warnings=[str(warning) for warning in manifests.warnings])
    check = ObjectCheck()
    for manifest in manifests.objects:
        if manifest.known is None:
            found.ignored[manifest.kind] += 1
            continue
        found.problems += check.problems(manifest)
        key = (manifest.kind, manifest.namespace, manifest.name)
        if key in found.places:
            message = f"is ignored; an object of this name stands in {found.places[key].place} already"
            found.warnings.append(str(manifest.problem("", ABSENT, message)))
            continue
        found.places[key] = manifest
        found.objects.append(manifest.body)
    return found


class ObjectCheck:
    """Decodes objects to find out what is wrong with them; pods that look alike are looked at once."""

    def __init__(self) -> None:
        self._pods = pod_kind(TemplateTable())
        self._claims = BY_ID["PersistentVolumeClaim"]

    def problems(self, manifest: Manifest) -> Iterator[Problem]:
        """Everything wrong with one object; nothing for kinds that are not read."""
        kind = self._pods if manifest.kind == POD else manifest.known
        if kind is None:
            return
        value = manifest.read(kind)
        if isinstance(value, Problem):
            yield value
            return
        if manifest.kind == POD:
            yield from _limit_problems(manifest, manifest.body, "")
        elif manifest.kind in _TEMPLATE_PATHS:
            yield from self._template_problems(manifest)

    def _template_problems(self, manifest: Manifest) -> Iterator[Problem]:
        path = _TEMPLATE_PATHS[manifest.kind]
        template = _inside(manifest.body, path)
        if template:
            before = self._part_problem(manifest, self._pods, template, path)
            yield from before
            if not before:
                yield from _limit_problems(manifest, template, f"{path}.")
        if manifest.kind == STATEFUL_SET:
            for index, claim in enumerate(_sequence(_inside(manifest.body, "spec").get("volumeClaimTemplates"))):
                where = f"spec.volumeClaimTemplates[{index}]"
                if isinstance(claim, Mapping):
                    yield from self._part_problem(manifest, self._claims, claim, where)
                else:
                    yield manifest.problem(where, claim, "must be a mapping with metadata and spec")

    def _part_problem(self, manifest: Manifest, kind: Kind, part: Mapping[str, Any], path: str) -> list[Problem]:
        """What is wrong with a template, read as the object that will be made of it."""
        metadata = part.get("metadata")
        if metadata is not None and not isinstance(metadata, Mapping):
            return [manifest.problem(f"{path}.metadata", metadata, "must be a mapping")]
        body = {**part, "metadata": {"namespace": manifest.namespace, "name": manifest.name, **(metadata or {})}}
        try:
            kind.from_builtin(body)
        except WireError as error:
            return [manifest.problem("", ABSENT, f"{path}.{error.problem}")]
        return []


def _limit_problems(manifest: Manifest, body: Mapping[str, Any], prefix: str) -> Iterator[Problem]:
    """Limits become requests where there are none, so they must be quantities too."""
    spec = _inside(body, "spec")
    parts = [("spec.resources", spec.get("resources"))]
    for name in ("containers", "initContainers"):
        for index, container in enumerate(_sequence(spec.get(name))):
            if isinstance(container, Mapping):
                parts.append((f"spec.{name}[{index}].resources", container.get("resources")))
    for path, resources in parts:
        limits = resources.get("limits") if isinstance(resources, Mapping) else None
        if limits is not None and not isinstance(limits, Mapping):
            yield manifest.problem(f"{prefix}{path}.limits", limits, "must be a mapping of resources to quantities")
            continue
        for resource, value in (limits or {}).items():
            try:
                parse_quantity(quantity_text(value))
            except QuantityError as error:
                yield manifest.problem(f"{prefix}{path}.limits.{resource}", ABSENT, str(error))


def _inside(body: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The mapping at a dotted path, empty where there is none."""
    value: Any = body
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
