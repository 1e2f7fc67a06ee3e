"""Authentication and authorization by the API server: TokenReview, SubjectAccessReview, the client CA.

It needs the permissions of `system:auth-delegator`, and for the CA those of the role
`extension-apiserver-authentication-reader` in kube-system, like every component that delegates these decisions to the
API server. `LookupError` means that there is no answer; the caller must then refuse the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import KubeError, decode_answer
from moorage.adapters.kube.resources import CONFIG_MAPS, Resource

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False, kind="TokenReview")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False, kind="SubjectAccessReview"
)
TIMEOUT_S = 10.0
_AUTHORITY = ("extension-apiserver-authentication", "kube-system", "client-ca-file")


class AccessReviews:
    """Questions about the users of our own endpoints."""

    def __init__(self, authenticating: KubeClient, authorizing: KubeClient) -> None:
        self._authenticating = authenticating
        self._authorizing = authorizing

    async def authenticate(self, token: str) -> Mapping[str, Any] | None:
        """The user of a token: `username`, `uid`, `groups`, `extra`; None if the token is unknown."""
        status = await _ask(self._authenticating, TOKEN_REVIEWS, {"token": token})
        user: dict[str, Any] = status.get("user") or {}
        return user if status.get("authenticated") and user.get("username") else None

    async def authorize(self, user: Mapping[str, Any], verb: str, path: str) -> bool:
        """Whether a user may do this with a path that is not a resource of the API."""
        who = {"user": user["username"], **{key: user[key] for key in ("uid", "groups", "extra") if user.get(key)}}
        asked = {**who, "nonResourceAttributes": {"path": path, "verb": verb}}
        status = await _ask(self._authorizing, ACCESS_REVIEWS, asked)
        return bool(status.get("allowed"))

    async def client_authority(self) -> str:
        """The CAs (PEM) whose client certificates the API server accepts; empty if there are none."""
        name, namespace, key = _AUTHORITY
        try:
            answer = await self._authenticating.get(CONFIG_MAPS, name, namespace)
        except KubeError as error:
            raise LookupError(str(error)) from None
        data: dict[str, str] = _decoded(answer).get("data") or {}
        return data.get(key, "")


async def _ask(client: KubeClient, resource: Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": f"{resource.group}/{resource.version}", "kind": resource.kind, "spec": spec}
    encoded = msgspec.json.encode(body)
    try:
        answer = await client.request("POST", resource.path(), body=encoded, timeout_s=TIMEOUT_S, retries=0)
    except KubeError as error:
        raise LookupError(str(error)) from None
    status: dict[str, Any] = _decoded(answer).get("status") or {}
    return status


def _decoded(answer: bytes) -> dict[str, Any]:
    try:
        return decode_answer(answer, dict[str, Any])
    except KubeError as error:
        raise LookupError(str(error)) from None
