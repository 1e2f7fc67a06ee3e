"""The objects of some files as the start of a simulation: checked one by one, with what was left out and why.

Every object that is read is decoded once here, pod templates and claim templates included, so that whatever is wrong
shows up before anything runs, with its place. Kinds that are not read are counted, never fatal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from moorage.core.objects import CRON_JOB, STATEFUL_SET
from moorage.core.prices import PRICE_LIST
from moorage.core.queues import QUEUE_KINDS
from moorage.core.values import dataclass
from moorage.sim.specs import inside, node_problems, pod_problems, sequence
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID, Kind, pod_kind
from moorage.wire.manifests import Manifest, Manifests
from moorage.wire.prices import read_price_list
from moorage.wire.problems import ABSENT, Problem
from moorage.wire.templates import TemplateTable

POD = "Pod"
NODE = "Node"
TEMPLATE_PATHS: Mapping[str, str] = {
    CRON_JOB: "spec.jobTemplate.spec.template",
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", STATEFUL_SET), "spec.template"
    ),
}
"""Kind -> where its objects have their pod template."""


_GROUP_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "LeaderWorkerSet": ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
}
"""The same for a kind with several."""


def template_paths(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pod templates of an object, with their paths."""
    if manifest.known is None or manifest.known.id != manifest.kind:
        return
    for path in (*filter(None, [TEMPLATE_PATHS.get(manifest.kind)]), *_GROUP_TEMPLATES.get(manifest.kind, ())):
        yield path, inside(manifest.body, path)
    if manifest.kind == "JobSet":
        for index, role in enumerate(sequence(inside(manifest.body, "spec").get("replicatedJobs"))):
            if isinstance(role, Mapping):
                path = f"spec.replicatedJobs[{index}].template.spec.template"
                yield path, inside(role, "template.spec.template")


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
        other = found.places.setdefault(key, manifest)
        if other is manifest:
            continue
        if _takes_place(manifest, other):
            found.places[key] = manifest
            left_out, why = other, f"the one in {manifest.place}, of {manifest.api_version}, takes its place"
        else:
            left_out, why = manifest, f"an object of this name stands in {other.place} already"
        found.warnings.append(str(left_out.problem("", ABSENT, f"is ignored; {why}")))
    found.objects = [manifest.body for manifest in found.places.values()]
    return found


def _takes_place(manifest: Manifest, other: Manifest) -> bool:
    """Whether an object counts instead of an earlier one of its name: queues do by their kinds."""
    kinds = [each.known.id for each in (manifest, other) if each.known is not None and each.known.id in QUEUE_KINDS]
    return len(kinds) > 1 and QUEUE_KINDS.index(kinds[0]) < QUEUE_KINDS.index(kinds[1])


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
        if manifest.kind == PRICE_LIST:
            yield from _price_problems(manifest)
            return
        value = manifest.read(kind)
        if isinstance(value, Problem):
            yield value
            return
        if manifest.kind == POD:
            yield from pod_problems(manifest, manifest.body, "")
        elif manifest.kind == NODE:
            yield from node_problems(manifest)
        else:
            yield from self._template_problems(manifest)

    def _template_problems(self, manifest: Manifest) -> Iterator[Problem]:
        for path, template in template_paths(manifest):
            before = self._part_problem(manifest, self._pods, template, path) if template else []
            yield from before
            if template and not before:
                yield from pod_problems(manifest, template, f"{path}.")
        if manifest.kind == STATEFUL_SET:
            for index, claim in enumerate(sequence(inside(manifest.body, "spec").get("volumeClaimTemplates"))):
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


def _price_problems(manifest: Manifest) -> Iterator[Problem]:
    """Every mistake of a PriceList, each under its own field."""
    found = read_price_list(manifest.body, "")
    for problem in found if isinstance(found, list) else ():
        yield manifest.problem(problem.path, problem.value, problem.message)
