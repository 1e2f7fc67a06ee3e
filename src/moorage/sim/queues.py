"""What is wrong with Queue objects in files: fields that do not exist, and trees that are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moorage.core.queueaccounts import queue_problems as problems_of
from moorage.core.queues import QUEUE, QUEUE_KINDS, Queue
from moorage.sim.specs import inside
from moorage.sim.whatif_changes import QUEUE_FIELDS, SHARE_FIELDS, did_you_mean
from moorage.wire.manifests import Manifest
from moorage.wire.problems import Problem

_SPEC_FIELDS = (*QUEUE_FIELDS, "resources", "namespaces")


def queue_problems(manifest: Manifest) -> Iterator[Problem]:
    """Fields of a Queue of Moorage that do not exist; nothing for other kinds."""
    if manifest.known is None or manifest.known.id != QUEUE:
        return
    spec = inside(manifest.body, "spec")
    yield from _unknown(manifest, spec, _SPEC_FIELDS, "spec")
    for name, share in inside(spec, "resources").items():
        if isinstance(share, Mapping):
            yield from _unknown(manifest, share, SHARE_FIELDS, f"spec.resources[{name}]")


def _unknown(manifest: Manifest, body: Mapping[str, Any], fields: tuple[str, ...], path: str) -> Iterator[Problem]:
    for key, value in body.items():
        if key not in fields:
            yield manifest.problem(f"{path}.{key}", value, f"is not a field; {did_you_mean(str(key), fields)}")


def tree_problems(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Queues of all files whose parents do not exist, or that are part of themselves."""
    read = [(manifest, manifest.read(manifest.known)) for manifest in manifests if manifest.known is not None]
    found = [(manifest, value) for manifest, value in read if isinstance(value, Queue)]
    queues = {value.name: value for _, value in found}
    problems = problems_of(queues)
    for manifest, queue in found:
        if queue.parent and queue.parent not in queues:
            remedy = f"add it, or give its file too; {did_you_mean(queue.parent, sorted(queues))}"
            yield manifest.problem("spec.parent", queue.parent, f"is no queue of these files; {remedy}")
        elif queue.name in problems and not problems[queue.name].endswith("does not exist"):
            yield manifest.problem("spec.parent", queue.parent, f"{problems[queue.name]}; name another parent")


def is_queue(manifest: Manifest) -> bool:
    """Whether it is a queue, of any group."""
    return manifest.known is not None and manifest.known.id in QUEUE_KINDS
