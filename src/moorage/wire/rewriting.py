"""Edits become whole Kubernetes objects, and those become values again: what is proposed is what was judged.

A `Rewriter` is given the objects as they are and never changes them. Of an object that the API server has filled up it
needs two versions where they differ: the one that was written (`raw`), which is what people get to see, and the one
that counts (`stored`), which is what is decoded. Edits are applied to both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeAlias

from moorage.core.deviceindex import RESOURCE_CLAIM, RESOURCE_SLICE
from moorage.core.edits import (
    CLAIM_EDITS,
    NODE_EDITS,
    POD_EDITS,
    AddClaim,
    AddNode,
    Annotate,
    Changed,
    ClaimEdit,
    DropTaint,
    Edits,
    EndJob,
    FreeClaim,
    LowerRequest,
    MovePod,
    NodeEdit,
    PodEdit,
    RaiseBound,
    SetNodeLabel,
    ShrinkGang,
    Uncordon,
)
from moorage.core.objects import JOB
from moorage.core.pods import Pod
from moorage.core.queues import QUEUE
from moorage.core.taints import UNSCHEDULABLE_TAINT_KEY, Taint
from moorage.wire.claimrewriting import freed, rewrite_claim
from moorage.wire.endings import completed, finished
from moorage.wire.errors import WireError
from moorage.wire.kinds import NODE, POD, find_kind, readable_versions
from moorage.wire.newnodes import node_like, slice_like
from moorage.wire.podrewriting import Plain, RequestPlan, RewriteError, request_plan, rewrite_pod
from moorage.wire.queuerewriting import raised_queue

Lookup: TypeAlias = Callable[[str, str, str], Mapping[str, Any] | None]
"""Kind, namespace (empty where there is none) and name -> the object whole, None if it is not known."""

_NODE_STATUS = ("capacity", "allocatable", "images", "declaredFeatures", "features", "runtimeHandlers")
_WHERE_IT_RAN = ("hostIP", "hostIPs", "podIP", "podIPs", "nominatedNodeName")


class Rewriter:
    """Makes objects of edits."""

    def __init__(self, raw: Lookup, stored: Lookup | None = None) -> None:
        self._raw = raw
        self._stored = stored or raw

    def change(self, pod: Pod, edits: Edits) -> Changed | None:
        """What the edits come to; None if one of them cannot be made, or changes nothing."""
        changed = Changed()
        try:
            self._change_pod(pod, edits, changed)
            self._change_nodes(edits, changed)
            self._change_claims(edits, changed)
            self._change_queues(edits, changed)
            for edit in edits:
                self._change_other(edit, changed)
        except (RewriteError, WireError):
            return None
        return changed

    # --- the pod ---

    def _change_pod(self, pod: Pod, edits: Edits, changed: Changed) -> None:
        own = [edit for edit in edits if isinstance(edit, POD_EDITS)]
        if own:
            self.rewrite(pod, own, changed)

    def rewrite(self, pod: Pod, edits: list[PodEdit], changed: Changed) -> None:
        """Change the pod itself. Subclasses that know the pod's controller may change its template instead."""
        given, stored = self._both("Pod", pod.namespace, pod.name)
        plans = plans_of(stored, edits)
        changed.documents.append(rewritten(given, pod.name, edits, plans))
        changed.waiting.append(decoded_pod(pod, rewritten(stored, pod.name, edits, plans)))

    # --- nodes ---

    def _change_nodes(self, edits: Edits, changed: Changed) -> None:
        by_node: dict[str, list[NodeEdit]] = {}
        for edit in edits:
            if isinstance(edit, NODE_EDITS):
                by_node.setdefault(edit.node, []).append(edit)
        for name, own in by_node.items():
            given, stored = self._both("Node", "", name)
            changed.documents.append(_rewritten_node(given, own))
            changed.nodes.append(NODE.from_builtin(_rewritten_node(stored, own)))

    def _add_node(self, edit: AddNode, changed: Changed) -> None:
        given, stored = self._both("Node", "", edit.like)
        changed.documents.append(node_like(given, edit.name, _NODE_STATUS))
        changed.nodes.append(NODE.from_builtin(node_like(stored, edit.name, _NODE_STATUS)))
        for name in edit.slices:
            self._put(slice_like(self._copy(RESOURCE_SLICE, "", name), edit.name), changed)
        drivers = self._raw("CSINode", "", edit.like)
        if drivers is not None:
            document = _plain("CSINode", drivers)
            document["metadata"] = {"name": edit.name}
            self._put(document, changed)

    # --- claims for devices ---

    def _change_claims(self, edits: Edits, changed: Changed) -> None:
        by_claim: dict[tuple[str, str], list[ClaimEdit]] = {}
        for edit in edits:
            if isinstance(edit, CLAIM_EDITS):
                by_claim.setdefault((edit.namespace, edit.claim), []).append(edit)
        for (namespace, name), own in by_claim.items():
            self.rewrite_claim(namespace, name, own, changed)

    def rewrite_claim(self, namespace: str, name: str, edits: list[ClaimEdit], changed: Changed) -> None:
        """Change a claim itself. Subclasses that know the template that it was made from may change that instead."""
        given, stored = self._both(RESOURCE_CLAIM, namespace, name)
        changed.documents.append(changed_claim(given, edits))
        changed.objects.append(decoded_claim(changed_claim(stored, edits)))
        for pod in dict.fromkeys(pod for edit in edits if isinstance(edit, FreeClaim) for pod in edit.pods):
            done, known = (finished(body) for body in self._both("Pod", namespace, pod))
            changed.documents.append(done)
            changed.standing.append(POD.from_builtin(known))

    # --- queues ---

    def _change_queues(self, edits: Edits, changed: Changed) -> None:
        by_queue: dict[tuple[str, str], list[RaiseBound]] = {}
        for edit in edits:
            if isinstance(edit, RaiseBound):
                by_queue.setdefault((edit.kind, edit.queue), []).append(edit)
        for (kind, name), own in by_queue.items():
            queue = self._queue(kind, name)
            for edit in own:
                queue = raised_queue(queue, edit)
            self._put(queue, changed)

    def _queue(self, kind: str, name: str) -> Plain:
        """The queue of a kind; a lookup that does not tell kinds of one name apart may have another one."""
        found = self._raw(kind, "", name)
        queue = _plain(QUEUE, found) if found is not None else self._copy(QUEUE, "", name)
        known = find_kind(str(queue["apiVersion"]), QUEUE)
        if known is None or known.id != kind:
            raise RewriteError(f"{kind} {name} is not known")
        return queue

    # --- others ---

    def _change_other(self, edit: object, changed: Changed) -> None:
        match edit:
            case AddNode():
                self._add_node(edit, changed)
            case MovePod():
                self._move(edit, changed)
            case Annotate():
                self._annotate(edit, changed)
            case AddClaim():
                self._put(_claim(edit), changed)
            case ShrinkGang():
                self._shrink(edit, changed)
            case EndJob():
                self._end(edit, changed)

    def _move(self, edit: MovePod, changed: Changed) -> None:
        given, stored = (_moved(body, edit.to_node) for body in self._both("Pod", edit.namespace, edit.name))
        changed.documents.append(given)
        changed.standing.append(replace(POD.from_builtin(stored), uid=edit.uid))

    def _end(self, edit: EndJob, changed: Changed) -> None:
        for name, uid in edit.pods:
            done, known = (finished(body) for body in self._both("Pod", edit.namespace, name))
            changed.documents.append(done)
            changed.standing.append(replace(POD.from_builtin(known), uid=uid))
        for name in edit.jobs:
            if self._raw(JOB, edit.namespace, name) is not None:  # else it is not in the input, and makes no more pods
                self._put(completed(self._copy(JOB, edit.namespace, name)), changed)

    def _annotate(self, edit: Annotate, changed: Changed) -> None:
        document = self._copy(edit.kind, edit.namespace, edit.name)
        metadata = document["metadata"] = dict(document.get("metadata") or {})
        annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != edit.key}
        if edit.value is not None:
            annotations[edit.key] = edit.value
        metadata["annotations"] = annotations
        self._put(document, changed)

    def _shrink(self, edit: ShrinkGang, changed: Changed) -> None:
        document = self._copy("PodGroup", edit.namespace, edit.name)
        spec = document.setdefault("spec", {})
        if str(document.get("apiVersion")).startswith("scheduling.k8s.io/"):
            spec.setdefault("schedulingPolicy", {}).setdefault("gang", {})["minCount"] = edit.min_count
        else:
            spec["minMember"] = edit.min_count
        self._put(document, changed)

    def _put(self, document: Plain, changed: Changed) -> None:
        kind = find_kind(str(document.get("apiVersion")), str(document.get("kind")))
        if kind is None:
            raise RewriteError("objects of this kind are not read")
        value = kind.from_builtin(document)
        changed.documents.append(document)
        changed.objects.append((kind.id, value.key, value))

    def _both(self, kind: str, namespace: str, name: str) -> tuple[Plain, Plain]:
        given, stored = self._raw(kind, namespace, name), self._stored(kind, namespace, name)
        if given is None or stored is None:
            raise RewriteError(f"{kind} {name} is not known")
        return _plain(kind, given), _plain(kind, stored)

    def _copy(self, kind: str, namespace: str, name: str) -> Plain:
        found = self._raw(kind, namespace, name)
        if found is None:
            raise RewriteError(f"{kind} {name} is not known")
        return _plain(kind, found)


def changed_claim(body: Plain, edits: Iterable[ClaimEdit]) -> Plain:
    """A changed copy of a claim, or of the template of claims in a ResourceClaimTemplate."""
    document: Plain = deepcopy(body)
    for edit in edits:
        if isinstance(edit, FreeClaim):
            freed(document)
        else:
            rewrite_claim(document.setdefault("spec", {}), edit)
    if document == body:
        raise RewriteError("nothing changes")
    return document


def decoded_claim(stored: Plain) -> tuple[str, str, Any]:
    """Kind, key and value of a claim."""
    kind = find_kind(str(stored.get("apiVersion")), RESOURCE_CLAIM)
    if kind is None:
        raise RewriteError("claims of this version are not read")
    value = kind.from_builtin(stored)
    return kind.id, value.key, value


def plans_of(stored: Plain, edits: Iterable[PodEdit]) -> dict[LowerRequest, RequestPlan]:
    """How the requests of a pod, as it counts, are to be lowered."""
    return {edit: request_plan(stored, edit) for edit in edits if isinstance(edit, LowerRequest)}


def rewritten(
    body: Mapping[str, Any], pod_name: str, edits: Iterable[PodEdit], plans: dict[LowerRequest, RequestPlan]
) -> Plain:
    """A changed copy of a pod or of a template; `RewriteError` if nothing of it changes."""
    document: Plain = deepcopy(dict(body))
    rewrite_pod(document, pod_name, edits, plans)
    if document == body:
        raise RewriteError("nothing changes")
    return document


def decoded_pod(known: Pod, stored: Plain) -> Pod:
    """The changed pod with the identity of the known one, and its priority, which may have been determined
    elsewhere.
    """
    found: Pod = POD.from_builtin(stored)
    template = replace(found.template, priority=known.template.priority)
    return replace(found, uid=known.uid, template=template, created_s=known.created_s)


def _plain(kind: str, body: Mapping[str, Any]) -> Plain:
    """A complete copy, with kind and apiVersion, which items of lists lack, and without managedFields."""
    copy: Plain = deepcopy(dict(body))
    copy.setdefault("kind", kind)
    copy.setdefault("apiVersion", next(iter(readable_versions(kind)), "v1"))
    if "managedFields" in (copy.get("metadata") or {}):
        del copy["metadata"]["managedFields"]
    return {"apiVersion": copy.pop("apiVersion"), "kind": copy.pop("kind"), **copy}


def _rewritten_node(body: Plain, edits: list[NodeEdit]) -> Plain:
    document = deepcopy(body)
    spec = document["spec"] = dict(document.get("spec") or {})
    metadata = document["metadata"]
    for edit in edits:
        match edit:
            case Uncordon():
                spec.pop("unschedulable", None)
                _drop_taints(spec, UNSCHEDULABLE_TAINT_KEY, None)
            case DropTaint(_, taint):
                _drop_taints(spec, taint.key, taint)
            case SetNodeLabel(_, key, value):
                labels = {name: text for name, text in (metadata.get("labels") or {}).items() if name != key}
                metadata["labels"] = labels if value is None else {**labels, key: value}
    return document


def _drop_taints(spec: Plain, key: str, exactly: Taint | None) -> None:
    """Take away the taints with a key, or only one of them."""
    found = spec.get("taints") or ()
    taints = [each for each in found if each.get("key") != key or (exactly is not None and _taint(each) != exactly)]
    spec.pop("taints", None)
    if taints:
        spec["taints"] = taints


def _taint(body: Mapping[str, Any]) -> Taint:
    return Taint(str(body.get("key")), body.get("value") or "", str(body.get("effect")))


def _moved(body: Plain, node: str) -> Plain:
    body["spec"]["nodeName"] = node
    if body.get("status"):
        body["status"] = {key: value for key, value in body["status"].items() if key not in _WHERE_IT_RAN}
    return body


def _claim(edit: AddClaim) -> Plain:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": edit.namespace, "name": edit.name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": edit.storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
