"""Pods and Jobs that have done their work, as Kubernetes writes them down."""

from __future__ import annotations

from moorage.wire.podrewriting import Plain


def finished(pod: Plain) -> Plain:
    """The pod once it has done its work."""
    pod["status"] = {**(pod.get("status") or {}), "phase": "Succeeded"}
    return pod


def completed(job: Plain) -> Plain:
    """The Job once all of its pods have done their work; it makes no more."""
    status = dict(job.get("status") or {})
    others = [each for each in status.get("conditions") or () if each.get("type") != "Complete"]
    completions = (job.get("spec") or {}).get("completions")
    status |= {"active": 0, "conditions": [*others, {"type": "Complete", "status": "True"}]}
    if completions is not None:
        status["succeeded"] = completions
    job["status"] = status
    return job
