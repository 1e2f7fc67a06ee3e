"""`AdmissionReview` v1: what the API server asks about a pod, and the answer with the smallest JSON patch.

A question is read as narrowly as an answer needs it, and never changed: whatever else a pod holds is the API server's
business. Invariants: what is no question gives a `QuestionError` and nothing else; every answer allows the pod.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from moorage.core.frozen import FrozenDict
from moorage.core.pods import PodTemplate
from moorage.core.values import dataclass
from moorage.wire.errors import REFUSALS, QuestionError, decode_part
from moorage.wire.metadata import OwnerWire, controller_of, frozen_annotations, frozen_map
from moorage.wire.podspec import PodWire
from moorage.wire.templates import TemplateTable

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
CREATE = "CREATE"
WARNING_LIMIT = 256
"""The API server may cut longer warnings."""
_NO_PART = msgspec.Raw()
_SELECTOR_PATH = "/spec/nodeSelector"
_ANNOTATIONS_PATH = "/metadata/annotations"


class _KindWire(msgspec.Struct, gc=False):
    group: str | None = None
    version: str | None = None
    kind: str | None = None


class _RequestWire(msgspec.Struct, gc=False, rename="camel"):
    uid: str = ""
    kind: _KindWire | None = None
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    operation: str | None = None
    dry_run: bool | None = None
    object: msgspec.Raw = _NO_PART


class _ReviewWire(msgspec.Struct, gc=False, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    request: _RequestWire | None = None


class _MetadataWire(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerWire] | None = None


class _SpecWire(msgspec.Struct, gc=False, rename="camel"):
    node_name: str | None = None
    node_selector: dict[str, str] | None = None


class _PodWire(msgspec.Struct, gc=False):
    metadata: _MetadataWire | None = None
    spec: _SpecWire | None = None


_REVIEW = msgspec.json.Decoder(_ReviewWire)
_POD = msgspec.json.Decoder(_PodWire)
_WHOLE = msgspec.json.Decoder(PodWire)


@dataclass(frozen=True, slots=True)
class AdmissionQuestion:
    """What is asked about a pod that is being created."""

    uid: str
    """Of the question; a pod that is being created has none yet."""
    name: str
    """The pod's name; where the server is to make one, what it begins with and a `*`."""
    template: PodTemplate
    """What decides which strategy the pod has, and which nodes could take it; nothing else of the pod is filled in."""
    dry_run: bool = False
    node: str = ""
    """Set if the pod names its node itself."""
    has_annotations: bool = True
    has_node_selector: bool = True
    """Whether there is a map to add to; else it has to be made."""


@dataclass(frozen=True, slots=True)
class Unasked:
    """A question about something else than a pod's creation, to which the answer is yes."""

    uid: str
    what: str


class ReviewedPlacement(NamedTuple):
    """What an answer gives a pod."""

    node_selector: Mapping[str, str]
    annotations: Mapping[str, str]
    warning: str = ""


def read_review(body: bytes) -> AdmissionQuestion | Unasked:
    """The question in the body of a request."""
    try:
        review: _ReviewWire = decode_part(_REVIEW, body, "")
        return _question(review)
    except (ValueError, *REFUSALS) as error:
        raise QuestionError(f"not an {KIND} of {API_VERSION}: {error}") from None


def _question(review: _ReviewWire) -> AdmissionQuestion | Unasked:
    if review.kind != KIND or review.api_version != API_VERSION:
        found = f"apiVersion {review.api_version!r}, kind {review.kind!r}"
        raise ValueError(f"{found}; send {KIND} and list v1 alone in admissionReviewVersions")
    request = review.request
    if request is None:
        raise ValueError("request: is missing; send the question, not an answer")
    if not request.uid:
        raise ValueError("request.uid: is missing; the answer has to repeat it")
    asked = request.kind or _KindWire()
    what = f"{request.operation} of {asked.kind}{'/' + request.sub_resource if request.sub_resource else ''}"
    if request.operation != CREATE or request.sub_resource or (asked.group or "", asked.kind) != ("", "Pod"):
        return Unasked(request.uid, what)
    data = bytes(request.object)
    if not data or data == b"null":
        raise ValueError(f"request.object: is missing; it is the pod of a {CREATE}")
    return _pod_question(request, decode_part(_POD, data, "request.object"), _whole(data))


def _whole(data: bytes) -> PodTemplate:
    """Everything of the pod; nothing of it where a part that is none of our business cannot be read."""
    try:
        return TemplateTable().entry(_WHOLE.decode(data))[0]
    except (ValueError, *REFUSALS):
        return PodTemplate()


def _pod_question(request: _RequestWire, pod: _PodWire, whole: PodTemplate) -> AdmissionQuestion:
    metadata, spec = pod.metadata or _MetadataWire(), pod.spec or _SpecWire()
    template = PodTemplate(
        namespace=request.namespace or "default",
        labels=frozen_map(metadata.labels),
        annotations=frozen_annotations(metadata.annotations),
        owner=controller_of(metadata.owner_references),
        node_selector=frozen_map(spec.node_selector),
        requests=whole.requests,
        tolerations=whole.tolerations,
        node_affinity=whole.node_affinity,
    )
    return AdmissionQuestion(
        uid=request.uid,
        name=metadata.name or request.name or f"{metadata.generate_name or ''}*",
        template=template,
        dry_run=bool(request.dry_run),
        node=spec.node_name or "",
        has_annotations=metadata.annotations is not None,
        has_node_selector=spec.node_selector is not None,
    )


def placement_patch(
    question: AdmissionQuestion, node_selector: Mapping[str, str], annotations: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The JSON patch that gives the pod these, and changes nothing that is so already."""
    template = question.template
    return [
        *_additions(_SELECTOR_PATH, node_selector, template.node_selector, question.has_node_selector),
        *_additions(_ANNOTATIONS_PATH, annotations, template.annotations, question.has_annotations),
    ]


def _additions(
    path: str, wanted: Mapping[str, str], present: FrozenDict[str, str], exists: bool
) -> Iterable[dict[str, Any]]:
    missing = {key: value for key, value in wanted.items() if present.get(key) != value}
    if not missing:
        return
    if not exists:
        yield {"op": "add", "path": path, "value": missing}
        return
    for key, value in missing.items():
        # `add` replaces what is there, even if it was written between the review and the patch.
        yield {"op": "add", "path": f"{path}/{key.replace('~', '~0').replace('/', '~1')}", "value": value}


class _PatchWire(msgspec.Struct, gc=False):
    path: str = ""
    value: dict[str, str] | str = ""


class _ResponseWire(msgspec.Struct, gc=False):
    patch: str | None = None
    warnings: list[str] | None = None


class _AnswerWire(msgspec.Struct, gc=False):
    response: _ResponseWire | None = None


_ANSWER = msgspec.json.Decoder(_AnswerWire)
_PATCH = msgspec.json.Decoder(list[_PatchWire])


def read_placement(answer: bytes) -> ReviewedPlacement | None:
    """What an answer gives the pod; None if it cannot be read."""
    try:
        response = _ANSWER.decode(answer).response or _ResponseWire()
        patch = _PATCH.decode(base64.b64decode(response.patch)) if response.patch else []
    except (ValueError, *REFUSALS):
        return None
    found: dict[str, dict[str, str]] = {_SELECTOR_PATH: {}, _ANNOTATIONS_PATH: {}}
    for each in patch:
        for path, values in found.items():
            if isinstance(each.value, dict):
                values.update(each.value if each.path == path else {})
            elif each.path.startswith(f"{path}/"):
                values[each.path.removeprefix(f"{path}/").replace("~1", "/").replace("~0", "~")] = each.value
    return ReviewedPlacement(found[_SELECTOR_PATH], found[_ANNOTATIONS_PATH], " ".join(response.warnings or ()))


def review_answer(uid: str, patch: list[dict[str, Any]] | None = None, warnings: Iterable[str] = ()) -> bytes:
    """The answer: allowed, with a patch unless it is empty, and with warnings that `kubectl` shows."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    shown = [_one_line(warning) for warning in warnings]
    if shown:
        response["warnings"] = shown
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _one_line(warning: str) -> str:
    """As a header can carry it."""
    clean = "".join(character if character.isprintable() else " " for character in warning)
    return clean if len(clean) <= WARNING_LIMIT else clean[: WARNING_LIMIT - 3] + "..."
