"""Whether a workload selects the pods that it makes: the API server refuses one that does not.

`moorage validate` asks. A simulation does without: it knows the pods of a workload by their owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moorage.core.objects import CRON_JOB, JOB, Workload
from moorage.core.selectors import EVERYTHING
from moorage.sim.inputs import TEMPLATE_PATHS
from moorage.sim.specs import inside
from moorage.wire.manifests import Manifest
from moorage.wire.problems import ABSENT, Problem


def selector_problems(manifest: Manifest) -> Iterator[Problem]:
    """What is wrong with the selector of a workload; nothing for other kinds, or if the object cannot be read."""
    if manifest.known is None or manifest.kind not in TEMPLATE_PATHS or manifest.kind == CRON_JOB:
        return
    workload = manifest.read(manifest.known)
    if not isinstance(workload, Workload):
        return
    spec = inside(manifest.body, "spec")
    if workload.selector is None and manifest.kind == JOB and spec.get("manualSelector") is not True:
        return  # the API server gives it one
    if workload.selector is None or workload.selector == EVERYTHING:
        what = "is missing" if workload.selector is None else "is empty"
        yield manifest.problem("spec.selector", ABSENT, f"{what}; {_remedy(workload.template_labels)}")
    elif not workload.selector.matches(workload.template_labels):
        what = f"does not match {TEMPLATE_PATHS[manifest.kind]}.metadata.labels"
        yield manifest.problem("spec.selector", spec["selector"], f"{what}; {_remedy(workload.template_labels)}")


def _remedy(labels: Mapping[str, str]) -> str:
    if not labels:
        return "give the pod template a label, and write it here"
    return f"write matchLabels: {{{', '.join(f'{key}: {value}' for key, value in labels.items())}}}"
